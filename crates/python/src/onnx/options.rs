//! `SerializeOptions` and `ParseOptions`: what of a message goes to the wire, what comes from it, and at what cost.

use super::descriptor::fields;
use super::repeated::too_deep;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use refeed_graph::LoadOptions;
use refeed_proto::message::{DecodeLimits, FrozenMessage, NestingError, Value};
use std::sync::Arc;

/// Tensors of at least this many bytes are the large ones.
const THRESHOLD: usize = 1024;

/// How messages are written.
#[pyclass(name = "SerializeOptions", module = "refeed.onnx", get_all, set_all)]
#[derive(Clone)]
pub(crate) struct SerializeOptions {
    /// Tensors of at least this many bytes are the large ones.
    raw_data_threshold: usize,
    /// Leave out the elements of large tensors.
    skip_raw_data: bool,
}

impl Default for SerializeOptions {
    fn default() -> SerializeOptions {
        SerializeOptions {
            raw_data_threshold: THRESHOLD,
            skip_raw_data: false,
        }
    }
}

impl SerializeOptions {
    /// The options of a call. `True` and `False` stand where protobuf's own interface has `deterministic`.
    pub(crate) fn given(options: Option<&Bound<'_, PyAny>>) -> PyResult<SerializeOptions> {
        match options {
            None => Ok(SerializeOptions::default()),
            Some(object) if object.is_none() => Ok(SerializeOptions::default()),
            Some(object) if object.is_instance_of::<pyo3::types::PyBool>() => {
                Ok(SerializeOptions::default())
            }
            Some(object) => match object.cast::<SerializeOptions>() {
                Ok(options) => Ok(options.borrow().clone()),
                Err(_) => Err(wrong_options("SerializeOptions", object)),
            },
        }
    }

    pub(crate) fn threshold(&self) -> usize {
        self.raw_data_threshold
    }

    /// What of a message is written.
    pub(crate) fn apply(
        &self,
        py: Python<'_>,
        message: Arc<FrozenMessage>,
    ) -> PyResult<Arc<FrozenMessage>> {
        if self.skip_raw_data {
            without_large(py, &message, self.raw_data_threshold)
        } else {
            Ok(message)
        }
    }
}

#[pymethods]
impl SerializeOptions {
    #[new]
    #[pyo3(signature = (raw_data_threshold = 1024, skip_raw_data = false))]
    fn new(raw_data_threshold: usize, skip_raw_data: bool) -> SerializeOptions {
        SerializeOptions {
            raw_data_threshold,
            skip_raw_data,
        }
    }

    fn __repr__(&self) -> String {
        let skip = if self.skip_raw_data { "True" } else { "False" };
        format!(
            "SerializeOptions(raw_data_threshold={}, skip_raw_data={skip})",
            self.raw_data_threshold
        )
    }
}

/// How messages are read.
#[pyclass(name = "ParseOptions", module = "refeed.onnx", get_all, set_all)]
#[derive(Clone)]
pub(crate) struct ParseOptions {
    /// Tensors of at least this many bytes are the large ones.
    raw_data_threshold: usize,
    /// Leave out the elements of large tensors.
    skip_raw_data: bool,
    /// Map files instead of reading them.
    mmap: bool,
    /// The most memory that messages and lists may take.
    structure_bytes: u64,
}

impl Default for ParseOptions {
    fn default() -> ParseOptions {
        ParseOptions {
            raw_data_threshold: THRESHOLD,
            skip_raw_data: false,
            mmap: true,
            structure_bytes: DecodeLimits::default().structure_bytes,
        }
    }
}

impl ParseOptions {
    /// The options of a call.
    pub(crate) fn given(options: Option<&Bound<'_, PyAny>>) -> PyResult<ParseOptions> {
        match options {
            None => Ok(ParseOptions::default()),
            Some(object) if object.is_none() => Ok(ParseOptions::default()),
            Some(object) => match object.cast::<ParseOptions>() {
                Ok(options) => Ok(options.borrow().clone()),
                Err(_) => Err(wrong_options("ParseOptions", object)),
            },
        }
    }

    /// What decoding may ask for.
    pub(crate) fn limits(&self) -> DecodeLimits {
        DecodeLimits::default().with_structure_bytes(self.structure_bytes)
    }

    /// How files are read.
    pub(crate) fn load(&self) -> LoadOptions {
        LoadOptions::default().with_mmap(self.mmap)
    }

    /// What of a message is kept.
    pub(crate) fn apply(
        &self,
        py: Python<'_>,
        message: Arc<FrozenMessage>,
    ) -> PyResult<Arc<FrozenMessage>> {
        if self.skip_raw_data {
            without_large(py, &message, self.raw_data_threshold)
        } else {
            Ok(message)
        }
    }
}

#[pymethods]
impl ParseOptions {
    #[new]
    #[pyo3(signature = (
        raw_data_threshold = 1024,
        skip_raw_data = false,
        mmap = true,
        structure_bytes = 1073741824,
    ))]
    fn new(
        raw_data_threshold: usize,
        skip_raw_data: bool,
        mmap: bool,
        structure_bytes: u64,
    ) -> PyResult<ParseOptions> {
        if structure_bytes == 0 {
            return Err(PyValueError::new_err(
                "structure_bytes: expected at least 1, got 0",
            ));
        }
        Ok(ParseOptions {
            raw_data_threshold,
            skip_raw_data,
            mmap,
            structure_bytes,
        })
    }

    fn __repr__(&self) -> String {
        let word = |flag| if flag { "True" } else { "False" };
        format!(
            "ParseOptions(raw_data_threshold={}, skip_raw_data={}, mmap={}, structure_bytes={})",
            self.raw_data_threshold,
            word(self.skip_raw_data),
            word(self.mmap),
            self.structure_bytes
        )
    }
}

fn wrong_options(expected: &str, object: &Bound<'_, PyAny>) -> PyErr {
    match object.get_type().fully_qualified_name() {
        Ok(got) => PyTypeError::new_err(format!("options: expected {expected}, got {got}")),
        Err(error) => error,
    }
}

/// Slot and size of the `raw_data` of a message, when it has one.
fn raw_data(message: &FrozenMessage) -> Option<(u16, usize)> {
    let mut fields = fields(message.descriptor());
    let field = fields.find(|field| field.name == "raw_data")?;
    match message.value(field.slot) {
        Value::Bytes(payload) => Some((field.slot, payload.bytes().len())),
        _ => None,
    }
}

/// Bytes in payloads of at least `threshold` bytes, anywhere in a message.
pub(crate) fn large_bytes(
    py: Python<'_>,
    message: &Arc<FrozenMessage>,
    threshold: usize,
) -> PyResult<usize> {
    let mut total = 0;
    let all = message.rewrite(|_, message| {
        let size = raw_data(message).map_or(0, |(_, size)| size);
        if size >= threshold {
            total += size;
        }
        Ok::<_, NestingError>(None)
    });
    all.map_err(|error| too_deep(py, error))?;
    Ok(total)
}

fn without_large(
    py: Python<'_>,
    message: &Arc<FrozenMessage>,
    threshold: usize,
) -> PyResult<Arc<FrozenMessage>> {
    message
        .rewrite(|_, message| match raw_data(message) {
            Some((slot, size)) if size >= threshold => {
                message.with_values([(slot, Value::Absent)]).map(Some)
            }
            _ => Ok(None),
        })
        .map_err(|error| too_deep(py, error))
}

/// What a message takes when it is written.
#[pyclass(name = "SerializeSizeResult", module = "refeed.onnx", frozen, get_all)]
pub(crate) struct SerializeSizeResult {
    /// Bytes of the message.
    pub(crate) size: usize,
    /// Bytes in the elements of large tensors.
    pub(crate) raw_data_size: usize,
}

#[pymethods]
impl SerializeSizeResult {
    fn __int__(&self) -> usize {
        self.size
    }

    fn __repr__(&self) -> String {
        format!(
            "SerializeSizeResult(size={}, raw_data_size={})",
            self.size, self.raw_data_size
        )
    }
}
