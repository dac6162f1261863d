//! The objects that stand for an editable message and its lists, so that `model.graph is model.graph`.
//!
//! # The argument for the unsafe code here
//! A message's handle is the address of the live object that stands for it, or 0. The object is put there when it is
//! made and taken away while it is dropped, which happens inside its deallocation; the object keeps the message, so the
//! handle outlives the object. Under the global interpreter lock nothing runs between the moment at which an object's
//! last reference goes and its drop: the classes have no finaliser, no weak references, and no subclasses made in
//! Python. So an address found by a thread that holds the lock is that of a live object. An interpreter without that
//! lock never stores an address.
//!
//! The list that a message's object was asked for last is kept by that object: [`LastList`] owns a reference, or holds
//! null. Only threads that hold the global lock read or change it; an interpreter without that lock never stores one.

use crate::onnx::message::Message;
use crate::onnx::repeated::Repeated;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use refeed_proto::message::EditableMessage;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The object that stands for a message, when there is one.
pub(crate) fn object_of<'py>(
    py: Python<'py>,
    cell: &EditableMessage,
) -> Option<Bound<'py, Message>> {
    let address = cell.handle().load(Ordering::Relaxed);
    if address == 0 {
        return None;
    }
    let pointer = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the address of a live `Message`, as the module argues.
    Some(unsafe { Bound::from_borrowed_ptr(py, pointer).cast_into_unchecked() })
}

/// Makes `object` the one that stands for its message.
pub(crate) fn put(object: &Bound<'_, Message>) {
    if has_lock(object.py()) {
        let address = object.as_ptr().expose_provenance();
        if let Some(cell) = object.get().made_cell() {
            cell.handle().store(address, Ordering::Relaxed);
        }
    }
}

/// Forgets the object of a message that is being dropped.
pub(crate) fn forget(cell: &EditableMessage) {
    cell.handle().store(0, Ordering::Relaxed);
}

/// The list that a message's object was asked for last: `node.input.append(a)` is mostly followed by another.
#[derive(Default)]
pub(crate) struct LastList(AtomicPtr<ffi::PyObject>);

impl LastList {
    /// The list, when there is one and it is the one that is looked for.
    pub(crate) fn find<'py>(
        &self,
        py: Python<'py>,
        wanted: impl FnOnce(&Repeated) -> bool,
    ) -> Option<Bound<'py, PyAny>> {
        let pointer = self.0.load(Ordering::Relaxed);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: a reference to a `Repeated` that is owned here, as the module argues; this call borrows it, and nothing
        // runs meanwhile that could let it go.
        let list = unsafe { Bound::ref_from_ptr(py, &pointer).cast_unchecked::<Repeated>() };
        wanted(list.get()).then(|| list.clone().into_any())
    }

    /// Keeps a list in the place of the one before.
    pub(crate) fn keep(&self, list: &Bound<'_, Repeated>) {
        let py = list.py();
        if has_lock(py) {
            let before = self.0.swap(list.clone().into_ptr(), Ordering::Relaxed);
            // SAFETY: null, or a reference that was owned here and is now owned by nobody else.
            drop(unsafe { Bound::from_owned_ptr_or_opt(py, before) });
        }
    }
}

impl Drop for LastList {
    fn drop(&mut self) {
        let pointer = *self.0.get_mut();
        if !pointer.is_null() {
            // SAFETY: a reference that is owned here, and let go once.
            let _ = Python::try_attach(|py| drop(unsafe { Bound::from_owned_ptr(py, pointer) }));
        }
    }
}

/// Whether the interpreter has a global lock.
#[inline]
pub(super) fn has_lock(py: Python<'_>) -> bool {
    static HAS_LOCK: PyOnceLock<bool> = PyOnceLock::new();
    match HAS_LOCK.get(py) {
        Some(found) => *found,
        None => HAS_LOCK
            .get_or_try_init(py, || find_lock(py))
            .copied()
            .unwrap_or(false),
    }
}

#[cold]
fn find_lock(py: Python<'_>) -> PyResult<bool> {
    if !py.import("sys")?.hasattr("_is_gil_enabled")? {
        return Ok(true);
    }
    let sysconfig = py.import("sysconfig")?;
    let disabled = sysconfig.call_method1("get_config_var", ("Py_GIL_DISABLED",))?;
    Ok(!disabled.is_truthy()?)
}
