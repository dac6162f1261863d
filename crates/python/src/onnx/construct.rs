//! Messages from keywords and dictionaries.

use super::message::Message;
use super::repeated::{self, too_deep};
use super::{classes, scalar};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use refeed_proto::message::{FieldDescriptor, FrozenMessage, Kind, MessageDescriptor, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// Dictionaries inside dictionaries; as deep as messages go on the wire.
const DEEPEST: usize = 100;

/// A message of the given fields: `None` leaves a field out, messages may be dictionaries, enum values their names.
///
/// # Errors
/// `ValueError` for a name that is no field, `TypeError` and `ValueError` for values that do not fit.
pub(crate) fn message(
    descriptor: &'static MessageDescriptor,
    fields: &Bound<'_, PyDict>,
) -> PyResult<Arc<FrozenMessage>> {
    nested(descriptor, fields, 1)
}

// At most `DEEPEST` frames.
fn nested(
    descriptor: &'static MessageDescriptor,
    fields: &Bound<'_, PyDict>,
    depth: usize,
) -> PyResult<Arc<FrozenMessage>> {
    if depth > DEEPEST {
        let name = descriptor.full_name;
        return Err(PyValueError::new_err(format!(
            "{name}: expected dictionaries of fields at most {DEEPEST} deep, got deeper ones"
        )));
    }
    let mut values: SmallVec<[(&'static FieldDescriptor, Value); 8]> = SmallVec::new();
    // A list of its own: converting a value runs Python code, which may change the dictionary.
    let given: SmallVec<[_; 8]> = fields.iter().collect();
    for (name, given) in given {
        let field = field_named(descriptor, &name)?;
        if given.is_none() {
            continue;
        }
        let value = match field.kind {
            Kind::Message(inner) if field.repeated => {
                let Ok(items) = given.try_iter() else {
                    let owner = descriptor.full_name;
                    return Err(PyTypeError::new_err(format!(
                        "Argument for field {owner}.{} is not iterable",
                        field.name
                    )));
                };
                let items = items.map(|item| message_or_fields(inner, &item?, depth));
                let items: PyResult<Vec<Value>> = items.collect();
                Value::list(field.kind, items?)
            }
            _ if field.repeated => repeated::scalars(field, &given)?,
            Kind::Message(inner) => message_or_fields(inner, &given, depth)?,
            _ => scalar::to_value(field, &given)?,
        };
        if value.is_absent() {
            continue;
        }
        // A dictionary may give a field twice, under texts that are equal here and not to Python.
        let gone = |other: &FieldDescriptor| {
            other.slot == field.slot || other.oneof.is_some() && other.oneof == field.oneof
        };
        values.retain(|(other, _)| !gone(other));
        values.push((field, value));
    }
    let message = FrozenMessage::of(descriptor, values, None);
    message
        .map(Arc::new)
        .map_err(|error| too_deep(fields.py(), error))
}

fn message_or_fields(
    descriptor: &'static MessageDescriptor,
    given: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<Value> {
    if let Ok(message) = given.cast::<Message>()
        && message.get().descriptor() == descriptor
    {
        return Ok(Value::Message(message.get().frozen(given.py())?));
    }
    if let Ok(fields) = given.cast::<PyDict>() {
        return Ok(Value::Message(nested(descriptor, fields, depth + 1)?));
    }
    let expected = classes::class_of(given.py(), descriptor);
    let got = given.get_type();
    Err(PyTypeError::new_err(format!(
        "Parameter to initialize message field must be dict or instance of same class: \
         expected {expected} got {got}."
    )))
}

/// The field of a keyword.
fn field_named(
    descriptor: &'static MessageDescriptor,
    name: &Bound<'_, PyAny>,
) -> PyResult<&'static FieldDescriptor> {
    let text = name.cast::<PyString>()?.to_cow()?;
    match descriptor.field(&text) {
        Some(field) if !field.retired => Ok(field),
        _ if was_retired(descriptor, &text) => Err(PyTypeError::new_err(format!(
            "{}: the field \"{text}\" was retired: a binding covers a whole input and a whole output",
            descriptor.full_name
        ))),
        _ => Err(no_field(descriptor, &text)),
    }
}

/// Whether a message once had a field of this name; the schema keeps it as `retired_` and the name.
fn was_retired(descriptor: &MessageDescriptor, name: &str) -> bool {
    let mut retired = descriptor.fields.iter().filter(|field| field.retired);
    retired.any(|field| field.name.strip_prefix("retired_") == Some(name))
}

/// The exception for a name that is no field.
pub(crate) fn no_field(descriptor: &MessageDescriptor, name: &str) -> PyErr {
    PyValueError::new_err(format!(
        "Protocol message {} has no \"{name}\" field.",
        descriptor.name
    ))
}
