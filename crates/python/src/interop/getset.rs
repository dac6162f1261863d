//! Attributes of a class that are made from a table: one pair of functions, one getset descriptor per entry.
//!
//! # The argument for the unsafe code here
//! 1. *Self.* Python calls the functions through a getset descriptor of one class, which checks that the object is an
//!    instance of that class. [`field_attribute`] makes such descriptors for subclasses of [`Message`] alone.
//! 2. *Closure.* The pointer that Python hands back is the `&'static FieldDescriptor` that was put there.
//! 3. *Lifetime.* Python keeps the definition for as long as the descriptor lives, so definitions are leaked: there are
//!    a few hundred, made once.
//! 4. *Panics* become exceptions before they reach Python.

use crate::onnx::fields;
use crate::onnx::message::Message;
use crate::run;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use refeed_proto::message::FieldDescriptor;
use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A class attribute that reads and sets a field of messages of `class`.
///
/// # Errors
/// When `class` is no subclass of [`Message`].
pub(crate) fn field_attribute<'py>(
    class: &Bound<'py, PyType>,
    field: &'static FieldDescriptor,
) -> PyResult<Bound<'py, PyAny>> {
    if !class.is_subclass_of::<Message>()? {
        return Err(PyValueError::new_err(format!(
            "{}: expected a class of messages, got {class}",
            field.name
        )));
    }
    let doc = if field.doc.is_empty() {
        std::ptr::null()
    } else {
        CString::new(field.doc)?.into_raw().cast_const()
    };
    let definition = ffi::PyGetSetDef {
        name: CString::new(field.name)?.into_raw(),
        get: Some(get),
        set: Some(set),
        doc,
        closure: std::ptr::from_ref(field).cast_mut().cast(),
    };
    let definition = Box::leak(Box::new(definition));
    // SAFETY: both pointers are valid; the definition lives for ever. The result is a new reference or null.
    unsafe {
        let descriptor = ffi::PyDescr_NewGetSet(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(class.py(), descriptor)
    }
}

unsafe extern "C" fn get(slf: *mut ffi::PyObject, closure: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: Python calls this attached; self and closure as in the module's argument.
    let (py, message, field) = unsafe { arguments(&slf, closure) };
    match catch_unwind(AssertUnwindSafe(|| fields::get_of(message, field))) {
        Ok(Ok(value)) => value.into_ptr(),
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(panic) => {
            run::panicked(py, &*panic).restore(py);
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn set(
    slf: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    closure: *mut c_void,
) -> c_int {
    // SAFETY: Python calls this attached; self and closure as in the module's argument.
    let (py, message, field) = unsafe { arguments(&slf, closure) };
    // SAFETY: a borrowed reference that lives for this call, or null.
    let value = (!value.is_null()).then(|| unsafe { Bound::ref_from_ptr(py, &value) });
    match catch_unwind(AssertUnwindSafe(|| {
        fields::set(py, message.get().cell(py)?, field, value)
    })) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            error.restore(py);
            -1
        }
        Err(panic) => {
            run::panicked(py, &*panic).restore(py);
            -1
        }
    }
}

/// # Safety
/// The thread is attached, `slf` points to a [`Message`], `closure` to a descriptor that lives for ever.
unsafe fn arguments<'a>(
    slf: &'a *mut ffi::PyObject,
    closure: *mut c_void,
) -> (Python<'a>, &'a Bound<'a, Message>, &'static FieldDescriptor) {
    // SAFETY: as demanded above.
    unsafe {
        let py = Python::assume_attached();
        let message = Bound::ref_from_ptr(py, slf).cast_unchecked::<Message>();
        (
            py,
            message,
            &*closure.cast_const().cast::<FieldDescriptor>(),
        )
    }
}
