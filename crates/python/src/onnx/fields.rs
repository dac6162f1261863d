//! What the class of a message takes from the schema: an attribute per field, and the constants.

use super::message;
use super::repeated::{self, too_deep};
use super::{descriptor, methods, scalar, tree};
use crate::interop::getset::field_attribute;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use refeed_proto::message::{EditableMessage, FieldDescriptor, Kind, MessageDescriptor};
use std::sync::Arc;

/// Adds the fields of a message to its class.
pub(crate) fn add_to(class: &Bound<'_, PyType>, owner: &'static MessageDescriptor) -> PyResult<()> {
    class.setattr("DESCRIPTOR", descriptor::Descriptor::new(owner))?;
    for field in descriptor::fields(owner) {
        class.setattr(field.name, field_attribute(class, field)?)?;
        let constant = format!("{}_FIELD_NUMBER", field.name.to_uppercase());
        class.setattr(constant, field.number)?;
        methods::add_to(class, owner, field)?;
    }
    Ok(())
}

/// The value of a field as Python sees it: a number, text, bytes, a message, a list.
pub(crate) fn get<'py>(
    py: Python<'py>,
    cell: &Arc<EditableMessage>,
    field: &'static FieldDescriptor,
) -> PyResult<Bound<'py, PyAny>> {
    match field.kind {
        _ if field.repeated => repeated::view(py, cell, field),
        Kind::Message(_) => {
            let child = tree::with(|lock| cell.child(lock, field.slot));
            message::wrap(py, child.map_err(|error| too_deep(py, error))?)
        }
        _ => {
            let value = tree::with(|lock| cell.get(lock, field.slot));
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
    let value = match field.kind.message() {
        Some(_) => Err(no_assignment("message", field)),
        None => scalar::to_value(field, value),
    };
    let done = tree::with(|lock| match value {
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
