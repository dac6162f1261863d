//! Values that Python holds as messages: encoded values and paged caches.
//!
//! Payloads are shared both ways. What a message refers to is looked up in the catalogues of the model that it is fed to.

use crate::model::PyModel;
use crate::onnx::convert::{message_of, prost_of};
use crate::onnx::deferred::Origin;
use crate::onnx::message::{self, Message};
use crate::run;
use crate::runtime::quantization::PySharedQuantizedValue;
use pyo3::prelude::*;
use refeed_graph::ModelError;
use refeed_graph::values::{self, Catalogues};
use refeed_proto::message::{MessageDescriptor, descriptors};
use refeed_proto::{EncodedValueProto, ModelProto, PagedCacheProto};
use refeed_values::paged_cache::{has_paged_cache_structure, is_whole_cache};
use refeed_values::{EncodedValue, RuntimeValue};

/// What the values of a model refer to. A message is read each time.
///
/// # Errors
/// `TypeError` when the object is no model; otherwise what is wrong with its catalogues.
pub(crate) fn catalogues_of(model: &Bound<'_, PyAny>) -> PyResult<Catalogues> {
    let py = model.py();
    if let Ok(model) = model.cast::<PyModel>() {
        let model = model.get().inner.clone();
        return run::detached(py, || model.catalogues().cloned());
    }
    let proto: ModelProto = prost_of(model)?;
    run::detached(py, || Catalogues::of_message(&proto))
}

/// The catalogues of a model that may be left out.
///
/// # Errors
/// As [`catalogues_of`].
pub(crate) fn catalogues_or_none(model: Option<&Bound<'_, PyAny>>) -> PyResult<Catalogues> {
    model.map_or_else(|| Ok(Catalogues::default()), catalogues_of)
}

/// Whether an object is a message of this kind, of ours or of the official package.
pub(crate) fn is_message(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> bool {
    if let Ok(message) = object.cast::<Message>() {
        return message.get().descriptor() == descriptor;
    }
    let name = object
        .getattr("DESCRIPTOR")
        .and_then(|found| found.getattr("full_name"));
    name.is_ok_and(|name| name.extract::<&str>().ok() == Some(descriptor.full_name))
}

/// The value that an object was handed out for, when it is a message of ours of which nothing has changed since.
pub(crate) fn unchanged(object: &Bound<'_, PyAny>) -> Option<RuntimeValue> {
    let message = object.cast::<Message>().ok()?;
    message.get().unchanged_value(object.py()).cloned()
}

/// The value of an `EncodedValueProto`, a `PagedCacheProto` or a `SharedQuantizedValue`; `None` for other objects.
///
/// # Errors
/// When the message breaks a rule, or refers to what the catalogues do not have.
pub(crate) fn read(
    object: &Bound<'_, PyAny>,
    catalogues: &Catalogues,
) -> PyResult<Option<RuntimeValue>> {
    let py = object.py();
    if let Some(value) = unchanged(object) {
        return Ok(Some(value));
    }
    if let Ok(shared) = object.cast::<PySharedQuantizedValue>() {
        return Ok(Some(shared.get().value().clone().into()));
    }
    if is_message(object, &descriptors::ENCODED_VALUE_PROTO) {
        let proto: EncodedValueProto = prost_of(object)?;
        let read = run::detached(py, || values::encoded_from_proto(&proto, catalogues))?;
        return Ok(Some(read.into()));
    }
    if is_message(object, &descriptors::PAGED_CACHE_PROTO) {
        let proto: PagedCacheProto = prost_of(object)?;
        let read = run::detached(py, || values::from_paged_cache(&proto, catalogues))?;
        return Ok(Some(read));
    }
    Ok(None)
}

/// The Python form of a value that has one of its own: a `PagedCacheProto` for a structure that is built as a cache is, an
/// `EncodedValueProto`, or a `SharedQuantizedValue` where parameters are shared. `None` for other values. The message of a
/// cache is made when it is looked at.
///
/// # Errors
/// When a cache has a page that breaks a rule, or Python is out of memory.
pub(crate) fn write<'py>(
    py: Python<'py>,
    value: &RuntimeValue,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let RuntimeValue::Encoded(encoded) = value {
        return encoded_form(py, encoded).map(Some);
    }
    if !has_paged_cache_structure(value) {
        return Ok(None);
    }
    if is_whole_cache(value) {
        let origin = Origin::new(value.clone());
        return message::wrap_deferred(py, &descriptors::PAGED_CACHE_PROTO, origin).map(Some);
    }
    let proto = run::detached(py, || values::to_paged_cache(value, ""))?;
    message_of(py, &proto).map(Some)
}

/// The Python form of an encoded value.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn encoded_form<'py>(
    py: Python<'py>,
    value: &EncodedValue,
) -> PyResult<Bound<'py, PyAny>> {
    if value.parameters().is_some() {
        let shared = PySharedQuantizedValue::new(value.clone());
        return Ok(Bound::new(py, shared)?.into_any());
    }
    encoded_message(py, value)
}

/// The message of an encoded value.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn encoded_message<'py>(
    py: Python<'py>,
    value: &EncodedValue,
) -> PyResult<Bound<'py, PyAny>> {
    let proto = run::attached::<_, ModelError>(py, || values::encoded_to_proto(value))?;
    message_of(py, &proto)
}
