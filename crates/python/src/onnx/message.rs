//! `Message`: what every message can do.

use super::repeated::{self, too_deep};
use super::{classes, scalar, tree};
use crate::interop::handle;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use refeed_proto::message::{
    EditableMessage, FieldDescriptor, FrozenMessage, Kind, MessageDescriptor,
};
use std::sync::Arc;

/// The base of all messages.
#[pyclass(name = "Message", module = "refeed.onnx", subclass, frozen)]
pub(crate) struct Message {
    cell: Arc<EditableMessage>,
}

impl Drop for Message {
    fn drop(&mut self) {
        handle::forget(&self.cell);
    }
}

/// The object that stands for a message: always the same one, for as long as somebody holds it.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn wrap(py: Python<'_>, cell: Arc<EditableMessage>) -> PyResult<Bound<'_, PyAny>> {
    if let Some(object) = handle::object_of(py, &cell) {
        return Ok(object.into_any());
    }
    let object = classes::make(py, Message { cell })?;
    handle::put(&object);
    Ok(object.into_any())
}

/// The message behind a Python object.
///
/// # Errors
/// `TypeError` when it is not a message of this descriptor.
pub(crate) fn cell_of(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Arc<EditableMessage>> {
    match object.cast::<Message>() {
        Ok(message) if message.get().cell.descriptor() == descriptor => {
            Ok(message.get().cell.clone())
        }
        _ => Err(wrong_class("Parameter", object, descriptor)),
    }
}

fn wrong_class(
    what: &str,
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyErr {
    let expected = classes::class_of(object.py(), descriptor);
    let got = object.get_type();
    PyTypeError::new_err(format!(
        "{what} must be instance of same class: expected {expected} got {got}."
    ))
}

/// Sets fields from keywords: `None` leaves a field alone, messages may be dictionaries, enum values their names.
///
/// # Errors
/// `ValueError` for a name that is no field, `TypeError` and `ValueError` for values that do not fit.
pub(crate) fn fill(cell: &Arc<EditableMessage>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = fields.py();
    for (name, value) in fields {
        let field = field_named(cell.descriptor(), &name)?;
        if value.is_none() {
            continue;
        }
        match field.kind {
            _ if field.repeated => repeated::assign(cell, field, &value)?,
            Kind::Message(descriptor) => {
                let message = frozen_or_fields(&value, descriptor)?;
                tree::with(|lock| {
                    let child = cell.child(lock, field.slot)?;
                    child.replace(lock, message)
                })
                .map_err(|error| too_deep(py, error))?;
            }
            _ => {
                let value = scalar::to_value(field, &value)?;
                tree::with(|lock| cell.set(lock, field.slot, value))
                    .map_err(|error| too_deep(py, error))?;
            }
        }
    }
    Ok(())
}

/// A message, or a dictionary of its fields, as it is now.
fn frozen_or_fields(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Arc<FrozenMessage>> {
    let cell = match object.cast::<PyDict>() {
        Ok(fields) => {
            let cell = EditableMessage::new(descriptor);
            fill(&cell, fields)?;
            cell
        }
        Err(_) => match object.cast::<Message>() {
            Ok(message) if message.get().cell.descriptor() == descriptor => {
                message.get().cell.clone()
            }
            _ => {
                let what = "Parameter to initialize message field must be dict or";
                let expected = classes::class_of(object.py(), descriptor);
                let got = object.get_type();
                return Err(PyTypeError::new_err(format!(
                    "{what} instance of same class: expected {expected} got {got}."
                )));
            }
        },
    };
    tree::with(|lock| cell.freeze(lock)).map_err(|error| too_deep(object.py(), error))
}

/// The field of a name given in Python.
fn field_named(
    descriptor: &'static MessageDescriptor,
    name: &Bound<'_, PyAny>,
) -> PyResult<&'static FieldDescriptor> {
    let text = name.cast::<PyString>()?.to_cow()?;
    match descriptor.field(&text) {
        Some(field) if field.retired => Err(PyTypeError::new_err(format!(
            "{}: the field \"{text}\" is retired: a binding covers a whole input and a whole output",
            descriptor.full_name
        ))),
        Some(field) => Ok(field),
        None => Err(no_field(descriptor, &text)),
    }
}

fn no_field(descriptor: &'static MessageDescriptor, name: &str) -> PyErr {
    PyValueError::new_err(format!(
        "Protocol message {} has no \"{name}\" field.",
        descriptor.name
    ))
}

impl Message {
    /// A message of the given fields.
    pub(crate) fn with_fields(
        descriptor: &'static MessageDescriptor,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Message> {
        let cell = EditableMessage::new(descriptor);
        if let Some(fields) = fields {
            fill(&cell, fields)?;
        }
        Ok(Message { cell })
    }

    /// The message itself.
    pub(crate) fn cell(&self) -> &Arc<EditableMessage> {
        &self.cell
    }

    /// The message as it is now.
    pub(crate) fn frozen(&self, py: Python<'_>) -> PyResult<Arc<FrozenMessage>> {
        tree::with(|lock| self.cell.freeze(lock)).map_err(|error| too_deep(py, error))
    }
}

#[pymethods]
impl Message {}
