//! A payload as a buffer of Python: `tensor.raw_data_view()`.
//!
//! # The argument for the unsafe code here
//! A view that Python makes holds a reference to the [`PayloadBuffer`], which holds the payload, whose memory never moves
//! and never changes. The view is marked read only, and Python refuses writable views of it.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use refeed_proto::Bytes;
use std::ffi::{c_int, c_void};

/// What a view of a payload keeps.
#[pyclass(name = "PayloadBuffer", module = "refeed.onnx", frozen)]
pub(crate) struct PayloadBuffer {
    bytes: Bytes,
}

/// A read-only view of a payload, at the payload's own address.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn view(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyMemoryView>> {
    let buffer = Bound::new(py, PayloadBuffer { bytes })?;
    PyMemoryView::from(buffer.as_any())
}

#[pymethods]
impl PayloadBuffer {
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err(
                "expected a place for the view, got none",
            ));
        }
        let bytes = &slf.get().bytes;
        let address: *mut c_void = bytes.as_ptr().cast_mut().cast();
        let len = bytes.len() as ffi::Py_ssize_t;
        // SAFETY: `view` is Python's to fill; the memory is valid for `len` bytes for as long as `slf` lives, to which
        // the view takes a reference; read only.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len, 1, flags) };
        if done == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }
}
