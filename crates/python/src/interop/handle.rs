//! The object that stands for an editable message, so that `model.graph is model.graph`.
//!
//! # The argument for the unsafe code here
//! A message's handle is the address of the live object that stands for it, or 0. The object is put there when it is
//! made and taken away while it is dropped, which happens inside its deallocation; the object keeps the message, so the
//! handle outlives the object. Under the global interpreter lock nothing runs between the moment at which an object's
//! last reference goes and its drop: the classes have no finaliser, no weak references, and no subclasses made in
//! Python. So an address found by a thread that holds the lock is that of a live object. An interpreter without that
//! lock never stores an address.

use crate::onnx::message::Message;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use refeed_proto::message::EditableMessage;
use std::sync::atomic::Ordering;

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
        let cell = object.get().cell();
        cell.handle().store(address, Ordering::Relaxed);
    }
}

/// Forgets the object of a message that is being dropped.
pub(crate) fn forget(cell: &EditableMessage) {
    cell.handle().store(0, Ordering::Relaxed);
}

fn has_lock(py: Python<'_>) -> bool {
    static HAS_LOCK: PyOnceLock<bool> = PyOnceLock::new();
    let found = HAS_LOCK.get_or_try_init(py, || -> PyResult<bool> {
        if !py.import("sys")?.hasattr("_is_gil_enabled")? {
            return Ok(true);
        }
        let sysconfig = py.import("sysconfig")?;
        let disabled = sysconfig.call_method1("get_config_var", ("Py_GIL_DISABLED",))?;
        Ok(!disabled.is_truthy()?)
    });
    found.copied().unwrap_or(false)
}
