//! Whatever a model can be given as: a path, bytes, an official `onnx.ModelProto`, or a `refeed.Model`.

use crate::model::PyModel;
use crate::run;
use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use refeed_graph::{LoadOptions, Model};
use std::path::PathBuf;

/// The model behind a Python object.
///
/// # Errors
/// `TypeError` when it is none of the accepted kinds; otherwise what loading says.
pub(crate) fn model(source: &Bound<'_, PyAny>, mmap: bool) -> PyResult<Model> {
    let py = source.py();
    if let Ok(model) = source.cast::<PyModel>() {
        return Ok(model.get().inner.clone());
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
    let kind = source.get_type().fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "model: expected a path, bytes, an onnx.ModelProto or a refeed.Model, got {kind}"
    )))
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
