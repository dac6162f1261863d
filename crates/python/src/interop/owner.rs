//! Memory that belongs to a Python object.

use crate::onnx::tree;
use crate::run;
use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};
use std::ptr::NonNull;

/// Bytes that stay where they are for as long as `object` lives.
pub(crate) struct ForeignMemory {
    ptr: NonNull<u8>,
    len: usize,
    object: Option<Py<PyAny>>,
}

// SAFETY: the bytes are plain memory without thread affinity and are only read; the object is touched with the
// interpreter attached, or left to PyO3's queue.
unsafe impl Send for ForeignMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForeignMemory {}

impl ForeignMemory {
    /// # Safety
    /// `ptr` is valid for reads of `len` initialised bytes for as long as `object` lives.
    pub(crate) unsafe fn new(ptr: *const u8, len: usize, object: Py<PyAny>) -> ForeignMemory {
        let ptr = NonNull::new(ptr.cast_mut()).unwrap_or(NonNull::dangling());
        ForeignMemory {
            ptr,
            len,
            object: Some(object),
        }
    }
}

/// The bytes of a Python buffer: shared when nobody can write to them, otherwise a copy.
///
/// # Errors
/// When the object is no buffer of contiguous memory.
pub(crate) fn adopt_or_copy(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let py = object.py();
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Bytes::from_owner(PyBackedBytes::from(bytes.clone())));
    }
    let view = PyMemoryView::from(object)?;
    let buffer = PyBuffer::<u8>::get(&view)?;
    // A read-only view may be one of memory that its owner still writes to.
    let owner = PyBuffer::<u8>::get(&view.getattr("obj")?);
    let fixed = buffer.readonly() && owner.is_ok_and(|owner| owner.readonly());
    if !fixed || !buffer.is_c_contiguous() {
        return Ok(Bytes::from(buffer.to_vec(py)?));
    }
    let (address, len) = (buffer.buf_ptr().cast(), buffer.len_bytes());
    // SAFETY: the view keeps the object's memory where it is for as long as the view lives, and nobody can write to it
    // through this export.
    let memory = unsafe { ForeignMemory::new(address, len, view.into_any().unbind()) };
    Ok(Bytes::from_owner(memory))
}

impl AsRef<[u8]> for ForeignMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: valid for `len` bytes while `object` is held, as `new` demands. The slice lives only while the buffer
        // takes the address; everything later reads through raw pointers.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        // An object that goes while messages are locked might come back to them: it goes afterwards.
        let Some(object) = self.object.take().and_then(tree::defer) else {
            return;
        };
        if run::is_detached() {
            // Inside a call nobody waits for the interpreter: PyO3 queues the object until the call attaches again.
            drop(object);
            return;
        }
        // Anywhere else (a consumer's deleter, on any thread) the object goes now; while the interpreter shuts down it
        // is left to the end of the process.
        let held = std::mem::ManuallyDrop::new(object);
        let _ = Python::try_attach(|_| drop(std::mem::ManuallyDrop::into_inner(held)));
    }
}
