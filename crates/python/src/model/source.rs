//! Whatever a model can be given as: a path, bytes, a `ModelProto` of ours or of the official package, or a
//! `refeed.Model`.

use crate::error::class_of;
use crate::model::PyModel;
use crate::onnx::convert;
use crate::onnx::message::Message;
use crate::run;
use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use refeed_graph::{LoadOptions, Model, WeakModel};
use refeed_proto::message::{FrozenMessage, descriptors};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The model behind a Python object.
///
/// # Errors
/// `TypeError` when it is none of the accepted kinds; otherwise what loading says.
pub(crate) fn model(source: &Bound<'_, PyAny>, mmap: bool) -> PyResult<Model> {
    let py = source.py();
    if let Ok(model) = source.cast::<PyModel>() {
        return Ok(model.get().inner.clone());
    }
    if let Ok(message) = source.cast::<Message>() {
        return from_message(py, message.get());
    }
    let options = LoadOptions::default().with_mmap(mmap);
    if let Ok(bytes) = source.cast::<PyBytes>() {
        return from_bytes(py, bytes, &options);
    }
    if source.is_instance_of::<PyString>() || source.hasattr("__fspath__")? {
        let path: PathBuf = source.extract()?;
        return run::detached(py, || Model::load(path, &options));
    }
    // What others may still change is copied; `bytes` are kept as they are.
    if let Ok(array) = source.cast::<PyByteArray>() {
        return from_bytes(py, &PyBytes::new(py, &array.to_vec()), &options);
    }
    if let Ok(view) = source.cast::<PyMemoryView>() {
        let bytes = view.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        return from_bytes(py, &bytes, &options);
    }
    if source.hasattr("SerializeToString")? && source.hasattr("graph")? {
        let bytes = source
            .call_method0("SerializeToString")?
            .cast_into::<PyBytes>()?;
        return from_bytes(py, &bytes, &options);
    }
    let kind = class_of(source);
    Err(PyTypeError::new_err(format!(
        "model: expected a path, bytes, a ModelProto or a refeed.Model, got {kind}"
    )))
}

/// Models made from messages, by the address of the immutable message. The message is kept from being freed, not from
/// being dropped, so that an address stays that of one message.
type Made = BTreeMap<usize, (Weak<FrozenMessage>, WeakModel)>;

/// The model of a message as it is now: payloads are shared, structure is copied. The model of an unchanged message is
/// the same one for as long as somebody keeps it.
fn from_message(py: Python<'_>, message: &Message) -> PyResult<Model> {
    static MADE: Mutex<Made> = Mutex::new(Made::new());
    let descriptor = message.descriptor();
    if descriptor != &descriptors::MODEL_PROTO {
        let got = descriptor.full_name;
        return Err(PyTypeError::new_err(format!(
            "model: expected an onnx.ModelProto, got an {got}"
        )));
    }
    let frozen = message.frozen(py)?;
    let address = Arc::as_ptr(&frozen).addr();
    // Nothing that is done under the lock can panic half way.
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(model) = made().get(&address).and_then(|(_, model)| model.upgrade()) {
        return Ok(model);
    }
    let proto = convert::prost_of_frozen(py, &frozen)?;
    let model = run::detached(py, || Model::from_proto(proto, &LoadOptions::default()))?;
    let mut made = made();
    made.retain(|_, (_, model)| model.is_kept());
    made.insert(address, (Arc::downgrade(&frozen), model.downgrade()));
    Ok(model)
}

fn from_bytes(
    py: Python<'_>,
    bytes: &Bound<'_, PyBytes>,
    options: &LoadOptions,
) -> PyResult<Model> {
    // The payloads share the memory of the bytes object.
    let bytes = Bytes::from_owner(PyBackedBytes::from(bytes.clone()));
    run::detached(py, || Model::from_bytes(bytes, options))
}
