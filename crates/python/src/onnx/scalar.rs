//! One value of a field that holds no message, between Python and the message tree.

use bytes::Bytes;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeDecodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use refeed_proto::message::{EnumDescriptor, FieldDescriptor, Kind, Payload, Text, Value};
use std::sync::Arc;

/// A Python object as a value of a field's kind, under protobuf's rules: integers are never floats or booleans, floats
/// are any real number, text is `str` or UTF-8, bytes are `bytes` and are kept where they are.
///
/// # Errors
/// `TypeError` when the object is of another kind, `ValueError` when a number is out of range or names no enum value.
#[inline]
pub(crate) fn to_value(
    field: &'static FieldDescriptor,
    object: &Bound<'_, PyAny>,
) -> PyResult<Value> {
    Ok(match field.kind {
        Kind::Int64 => Value::Int(integer(field, object)?),
        Kind::Int32 => Value::Int(integer::<i32>(field, object)?.into()),
        Kind::Uint64 => Value::Uint(integer(field, object)?),
        Kind::Uint32 => Value::Uint(integer::<u32>(field, object)?.into()),
        Kind::Bool => Value::Int(boolean(field, object)?.into()),
        // Beyond the range of `float` the sign is what is left.
        Kind::Float => Value::Float(real(field, object)? as f32),
        Kind::Double => Value::Double(real(field, object)?),
        Kind::String => Value::Text(text(field, object)?),
        Kind::Bytes => Value::bytes(payload(field, object)?),
        Kind::Enum(descriptor) => Value::Int(enumerator(field, descriptor, object)?.into()),
        Kind::Message(descriptor) => {
            return Err(PyTypeError::new_err(format!(
                "{}: expected a {}, which is assigned with CopyFrom",
                field.name, descriptor.full_name
            )));
        }
    })
}

/// A value of a field as a Python object; the default when it is absent. Text that came from the wire and is not UTF-8 is
/// `bytes`, as in protobuf.
///
/// # Errors
/// `TypeError` when the value is a message or a list.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    field: &'static FieldDescriptor,
    value: &Value,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Int(n) if matches!(field.kind, Kind::Bool) => {
            PyBool::new(py, *n != 0).to_owned().into_any()
        }
        Value::Int(n) => n.into_pyobject(py)?.into_any(),
        Value::Uint(n) => n.into_pyobject(py)?.into_any(),
        Value::Float(x) => PyFloat::new(py, f64::from(*x)).into_any(),
        Value::Double(x) => PyFloat::new(py, *x).into_any(),
        Value::Text(text) => match text.as_str() {
            Ok(text) => PyString::new(py, text).into_any(),
            Err(_) => PyBytes::new(py, text.as_bytes()).into_any(),
        },
        Value::Bytes(payload) => payload_object(py, payload).into_any(),
        Value::Absent => match Value::default_of(field.kind) {
            Value::Absent => py.None().into_bound(py),
            default => return to_python(py, field, &default),
        },
        _ => {
            return Err(PyTypeError::new_err(format!(
                "{}: not one value",
                field.name
            )));
        }
    })
}

/// The `bytes` object that a payload was made from, or a copy in a new one.
pub(crate) fn payload_object<'py>(py: Python<'py>, payload: &Payload) -> Bound<'py, PyBytes> {
    let source = payload.source();
    match source.and_then(|source| source.downcast_ref::<Py<PyBytes>>()) {
        Some(object) => object.bind(py).clone(),
        None => PyBytes::new(py, payload.bytes()),
    }
}

/// A payload that shares the memory of a `bytes` object.
pub(crate) fn payload_of(object: &Bound<'_, PyBytes>) -> Payload {
    let bytes = Bytes::from_owner(PyBackedBytes::from(object.clone()));
    Payload::with_source(bytes, Arc::new(object.clone().unbind()))
}

/// An integer of a field.
///
/// # Errors
/// `TypeError` for a boolean and what is no integer, `ValueError` when it is out of range.
pub(crate) fn integer<'a, 'py, T>(
    field: &FieldDescriptor,
    object: &'a Bound<'py, PyAny>,
) -> PyResult<T>
where
    T: FromPyObject<'a, 'py, Error = PyErr>,
{
    if object.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err(format!(
            "{}: expected an int, got a boolean",
            field.name
        )));
    }
    object.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(object.py()) {
            let got = object.str().map(|text| text.to_string());
            let got = got.unwrap_or_else(|_| "a number".to_string());
            let kind = field.kind.name();
            PyValueError::new_err(format!(
                "{}: Value out of range: {got} does not fit {kind}",
                field.name
            ))
        } else {
            named(field, "an int", object)
        }
    })
}

/// A real number of a field.
///
/// # Errors
/// `TypeError` when it is none.
pub(crate) fn real(field: &FieldDescriptor, object: &Bound<'_, PyAny>) -> PyResult<f64> {
    object.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyTypeError>(object.py()) {
            named(field, "a real number", object)
        } else {
            error
        }
    })
}

fn boolean(field: &FieldDescriptor, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(value.is_true());
    }
    if object.is_instance_of::<PyInt>() {
        return object.is_truthy();
    }
    Err(named(field, "a bool", object))
}

/// Text of a field: `str`, or `bytes` in UTF-8.
///
/// # Errors
/// `TypeError` when it is neither, `UnicodeError` when it is no text.
#[inline]
pub(crate) fn text(field: &FieldDescriptor, object: &Bound<'_, PyAny>) -> PyResult<Text> {
    // The exact class first: that takes no call.
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(Text::from(text.to_str()?));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Text::from(text.to_str()?));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Text::from(text)),
            Err(error) => {
                let error = PyUnicodeDecodeError::new_utf8(object.py(), bytes, error)?;
                Err(PyErr::from_value(error.into_any()))
            }
        };
    }
    Err(named(field, "a str", object))
}

/// Bytes of a field.
///
/// # Errors
/// `TypeError` when it is not `bytes`.
pub(crate) fn payload(field: &FieldDescriptor, object: &Bound<'_, PyAny>) -> PyResult<Payload> {
    // A subclass may have a finaliser of its own: its content is copied, so that the object need not be kept.
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(payload_of(bytes));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Payload::new(Bytes::copy_from_slice(bytes.as_bytes())));
    }
    Err(named(field, "bytes", object))
}

fn enumerator(
    field: &FieldDescriptor,
    descriptor: &'static EnumDescriptor,
    object: &Bound<'_, PyAny>,
) -> PyResult<i32> {
    if let Ok(label) = object.cast::<PyString>() {
        let label = label.to_cow()?;
        return descriptor.number_of(&label).ok_or_else(|| {
            let name = descriptor.full_name;
            PyValueError::new_err(format!(
                "{}: unknown enum label \"{label}\" of {name}",
                field.name
            ))
        });
    }
    let number: i32 = integer(field, object)?;
    if descriptor.name_of(number).is_none() {
        let name = descriptor.full_name;
        return Err(PyValueError::new_err(format!(
            "{}: invalid enumerator {number} of {name}",
            field.name
        )));
    }
    Ok(number)
}

fn named(field: &FieldDescriptor, expected: &str, object: &Bound<'_, PyAny>) -> PyErr {
    match object.get_type().fully_qualified_name() {
        Ok(got) => PyTypeError::new_err(format!("{}: expected {expected}, got {got}", field.name)),
        Err(error) => error,
    }
}
