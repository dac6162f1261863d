//! Between Python's messages and the structs that Rust code reads.

use super::message::{self, Message};
use super::wire;
use crate::error::{Class, IntoPyErr};
use crate::run;
use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use refeed_proto::message::{
    DecodeLimits, EditableMessage, FrozenMessage, MessageDescriptor, descriptors,
};
use refeed_proto::{Convert, ConvertFault, GraphProto, ModelProto};
use std::sync::Arc;

/// The struct of a message. Fields that the schema does not know are left out. An object of the official package is
/// serialised; a message of ours is not.
///
/// # Errors
/// `TypeError` when the object is not such a message.
pub(crate) fn prost_of<T: Convert>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    prost_of_frozen(object.py(), &*frozen_of(object, T::DESCRIPTOR)?)
}

/// A message as it is now, or one of the official package, serialised and read.
///
/// # Errors
/// `TypeError` when the object is not such a message.
pub(crate) fn frozen_of(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Arc<FrozenMessage>> {
    if let Ok(message) = object.cast::<Message>()
        && message.get().descriptor() == descriptor
    {
        return message.get().frozen(object.py());
    }
    match official(object, descriptor)? {
        Some(wire) => wire::decode(object.py(), descriptor, wire, &DecodeLimits::default()),
        None => {
            let expected = descriptor.full_name;
            let got = object.get_type().fully_qualified_name()?;
            Err(PyTypeError::new_err(format!(
                "expected an {expected}, got {got}"
            )))
        }
    }
}

/// The struct of an immutable message. Payloads are shared.
///
/// # Errors
/// When messages are nested deeper than the wire allows, or a text is not UTF-8.
pub(crate) fn prost_of_frozen<T: Convert>(py: Python<'_>, message: &FrozenMessage) -> PyResult<T> {
    run::attached(py, || T::from_message(message))
}

impl IntoPyErr for ConvertFault {
    fn into_py(self, py: Python<'_>) -> PyErr {
        Class::Model.error(py, self)
    }
}

/// Refuses a graph, or a model, with a text that is not UTF-8.
///
/// # Errors
/// `ModelError` with the place of the text; `TypeError` for other objects.
#[pyfunction(name = "_check_text")]
pub(crate) fn check_text(message: &Bound<'_, Message>) -> PyResult<()> {
    if *message.get().descriptor() == descriptors::MODEL_PROTO {
        prost_of::<ModelProto>(message).map(drop)
    } else {
        prost_of::<GraphProto>(message).map(drop)
    }
}

/// The full name of the message that an object stands for, when it is one of the official package.
pub(crate) fn official_name(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if !object.hasattr("SerializeToString")? || !object.hasattr("DESCRIPTOR")? {
        return Ok(None);
    }
    let name = object.getattr("DESCRIPTOR")?.getattr("full_name")?;
    Ok(name.extract().ok())
}

/// The bytes of an object of the official package that stands for the same message.
fn official(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Option<Bytes>> {
    if official_name(object)?.as_deref() != Some(descriptor.full_name) {
        return Ok(None);
    }
    let wire = object.call_method0("SerializeToString")?;
    let wire = wire.cast_into::<PyBytes>()?;
    Ok(Some(Bytes::from_owner(PyBackedBytes::from(wire))))
}

/// A message with the content of a struct, whose payloads it shares.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn message_of<'py, T: Convert>(
    py: Python<'py>,
    content: &T,
) -> PyResult<Bound<'py, PyAny>> {
    message::wrap(
        py,
        EditableMessage::from_frozen(prost_to_frozen(py, content)?),
    )
}

/// The immutable message of a struct, whose payloads it shares.
///
/// # Errors
/// When messages are nested deeper than the wire allows.
pub(super) fn prost_to_frozen<T: Convert>(
    py: Python<'_>,
    content: &T,
) -> PyResult<Arc<FrozenMessage>> {
    Ok(Arc::new(run::attached(py, || content.to_message())?))
}
