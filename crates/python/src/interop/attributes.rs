//! Setting an attribute the way that `object` does.

use pyo3::ffi;
use pyo3::prelude::*;

/// What `object.__setattr__` does, for a class that has a `__setattr__` of its own.
///
/// # Errors
/// What the attribute's own setter says; `AttributeError` when there is none.
pub(crate) fn set(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    // SAFETY: three live objects; the function checks their kinds.
    let done =
        unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr()) };
    if done == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(object.py()))
    }
}
