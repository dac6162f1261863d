//! What the class of a message takes from the schema: an attribute per field, and the constants.

use super::message::Message;
use super::repeated::{self, too_deep};
use super::{scalar, tree};
use crate::interop::getset::{FieldAccess, field_attribute};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use refeed_proto::message::{FieldDescriptor, Kind, MessageDescriptor};

/// Adds the fields of a message to its class.
pub(crate) fn add_to(
    class: &Bound<'_, PyType>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<()> {
    for field in descriptor.fields.iter().filter(|field| !field.retired) {
        let attribute = match (field.repeated, field.kind) {
            (true, _) => field_attribute::<List>(class, field)?,
            (false, Kind::Message(_)) => field_attribute::<Child>(class, field)?,
            (false, _) => field_attribute::<Scalar>(class, field)?,
        };
        class.setattr(field.name, attribute)?;
        let constant = format!("{}_FIELD_NUMBER", field.name.to_uppercase());
        class.setattr(constant, field.number)?;
    }
    Ok(())
}

fn no_delete() -> PyErr {
    PyAttributeError::new_err("Cannot delete field attribute")
}

/// A field of one number, text or bytes.
struct Scalar;

impl FieldAccess for Scalar {
    fn get<'py>(
        message: &Bound<'py, Message>,
        field: &'static FieldDescriptor,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cell = message.get().cell();
        let value = tree::with(|lock| cell.get(lock, field.slot));
        scalar::to_python(message.py(), field, &value)
    }

    fn set(
        message: &Bound<'_, Message>,
        field: &'static FieldDescriptor,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let value = scalar::to_value(field, value.ok_or_else(no_delete)?)?;
        let cell = message.get().cell();
        tree::with(|lock| cell.set(lock, field.slot, value))
            .map_err(|error| too_deep(message.py(), error))
    }
}

/// A field of one message.
struct Child;

impl FieldAccess for Child {
    fn get<'py>(
        message: &Bound<'py, Message>,
        field: &'static FieldDescriptor,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        let cell = message.get().cell();
        let child = tree::with(|lock| cell.child(lock, field.slot));
        super::message::wrap(py, child.map_err(|error| too_deep(py, error))?)
    }

    fn set(
        _message: &Bound<'_, Message>,
        field: &'static FieldDescriptor,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        value.ok_or_else(no_delete)?;
        Err(PyAttributeError::new_err(format!(
            "Assignment not allowed to message field \"{}\" in protocol message object.",
            field.name
        )))
    }
}

/// A field of several values.
struct List;

impl FieldAccess for List {
    fn get<'py>(
        message: &Bound<'py, Message>,
        field: &'static FieldDescriptor,
    ) -> PyResult<Bound<'py, PyAny>> {
        repeated::view(message.py(), message.get().cell(), field)
    }

    fn set(
        _message: &Bound<'_, Message>,
        field: &'static FieldDescriptor,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        value.ok_or_else(no_delete)?;
        Err(PyAttributeError::new_err(format!(
            "Assignment not allowed to map, or repeated field \"{}\" in protocol message object.",
            field.name
        )))
    }
}
