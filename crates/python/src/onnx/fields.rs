//! What the class of a message takes from the schema: an attribute per field, and the constants.

use super::message::{self, Message};
use super::repeated::{self, too_deep};
use super::{descriptor, methods, scalar, tree};
use crate::interop::getset::field_attribute;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use refeed_proto::message::{
    EditableMessage, FieldDescriptor, Kind, MessageDescriptor, Text, Value,
};
use std::fmt::Write as _;
use std::sync::Arc;

/// Adds the fields of a message to its class.
pub(crate) fn add_to(class: &Bound<'_, PyType>, owner: &'static MessageDescriptor) -> PyResult<()> {
    class.setattr("DESCRIPTOR", descriptor::Descriptor::new(owner))?;
    class.setattr("__doc__", documentation(owner))?;
    for field in descriptor::fields(owner) {
        class.setattr(field.name, field_attribute(class, field)?)?;
        let constant = format!("{}_FIELD_NUMBER", field.name.to_uppercase());
        class.setattr(constant, field.number)?;
        methods::add_to(class, owner, field)?;
    }
    Ok(())
}

/// What `help` says of the class of a message.
fn documentation(owner: &'static MessageDescriptor) -> String {
    let mut text = if owner.doc.is_empty() {
        format!("The message `{}`.", owner.full_name)
    } else {
        owner.doc.to_string()
    };
    let fields: Vec<_> = descriptor::fields(owner).collect();
    if !fields.is_empty() {
        text.push_str("\n\nAttributes\n----------");
    }
    for field in fields {
        let held = match field.kind {
            Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 => "int",
            Kind::Bool => "bool",
            Kind::Float | Kind::Double => "float",
            Kind::String => "str",
            Kind::Bytes => "bytes",
            Kind::Enum(held) => scoped(held.full_name),
            Kind::Message(held) => scoped(held.full_name),
        };
        let list = if field.repeated { "list of " } else { "" };
        let _ = write!(text, "\n{} : {list}{held}", field.name);
        if !field.doc.is_empty() {
            let _ = write!(text, "\n    {}", field.doc);
        }
    }
    text
}

/// A name without its package: `TypeProto.Tensor`.
fn scoped(full_name: &'static str) -> &'static str {
    full_name
        .split_once('.')
        .map_or(full_name, |(_, name)| name)
}

/// The value of a field of a message's object.
pub(crate) fn get_of<'py>(
    message: &Bound<'py, Message>,
    field: &'static FieldDescriptor,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, message) = (message.py(), message.get());
    if !field.repeated {
        return get(py, message.cell(py)?, field);
    }
    if let Some(list) = message.last_list().find(py, |list| list.is_of(field)) {
        return Ok(list);
    }
    let list = repeated::view(py, message.cell(py)?, field)?;
    message.last_list().keep(&list);
    Ok(list.into_any())
}

/// The value of a field as Python sees it: a number, text, bytes, a message, a list.
pub(crate) fn get<'py>(
    py: Python<'py>,
    cell: &Arc<EditableMessage>,
    field: &'static FieldDescriptor,
) -> PyResult<Bound<'py, PyAny>> {
    match field.kind {
        _ if field.repeated => repeated::view(py, cell, field).map(Bound::into_any),
        Kind::Message(_) => {
            let child = tree::with(py, |lock| cell.child(lock, field.slot));
            message::wrap(py, child.map_err(|error| too_deep(py, error))?)
        }
        _ => {
            let value = tree::with(py, |lock| cell.get(lock, field.slot));
            scalar::to_python(py, field, &value)
        }
    }
}

/// Sets a field of one number, text or bytes; `None` is `del`.
///
/// # Errors
/// `AttributeError` for messages, lists and `del`; `TypeError` and `ValueError` for a value that does not fit.
pub(crate) fn set(
    py: Python<'_>,
    cell: &Arc<EditableMessage>,
    field: &'static FieldDescriptor,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let Some(value) = value else {
        return Err(PyAttributeError::new_err("Cannot delete field attribute"));
    };
    if field.repeated {
        return Err(no_assignment("map, or repeated", field));
    }
    if let (Kind::String, Ok(text)) = (field.kind, value.cast_exact::<PyString>())
        && let Ok(text) = text.to_str()
    {
        // Made where it stays: a value that is handed on is copied each time.
        let done = tree::with(py, |lock| {
            cell.set(lock, field.slot, Value::Text(Text::from(text)))
        });
        return done.map_err(|error| too_deep(py, error));
    }
    let value = match field.kind.message() {
        Some(_) => Err(no_assignment("message", field)),
        None => scalar::to_value(field, value),
    };
    let done = tree::with(py, |lock| match value {
        Ok(value) => Ok(cell.set(lock, field.slot, value)),
        // As protobuf has it: trying to set a field is enough for the message to be there.
        Err(error) => {
            cell.set_present(lock);
            Err(error)
        }
    });
    done?.map_err(|error| too_deep(py, error))
}

fn no_assignment(what: &str, field: &FieldDescriptor) -> PyErr {
    PyAttributeError::new_err(format!(
        "Assignment not allowed to {what} field \"{}\" in protocol message object.",
        field.name
    ))
}
