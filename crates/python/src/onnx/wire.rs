//! Messages to bytes and back.

use crate::error::{Class, IntoPyErr, os_error};
use crate::run;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};
use refeed_proto::Bytes;
use refeed_proto::message::{
    DecodeFault, DecodeLimits, EncodeFault, FrozenMessage, MessageDescriptor,
};
use std::sync::Arc;

/// Work on more bytes than this lets other Python threads run.
const LONG: usize = 1 << 20;

impl IntoPyErr for DecodeFault {
    fn into_py(self, py: Python<'_>) -> PyErr {
        Class::Decode.error(py, self)
    }
}

impl IntoPyErr for EncodeFault {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            EncodeFault::Write(source) => os_error(&source, source.to_string()),
            fault => Class::Encode.error(py, fault),
        }
    }
}

/// Runs work on `size` bytes, without the interpreter when it takes long.
pub(crate) fn run<T, E, F>(py: Python<'_>, size: usize, work: F) -> PyResult<T>
where
    F: FnOnce() -> Result<T, E> + Send,
    T: Send,
    E: IntoPyErr + Send,
{
    if size > LONG {
        run::detached(py, work)
    } else {
        run::attached(py, work)
    }
}

/// The bytes of a message that is given to be parsed. Those of `bytes` are shared, others may change and are copied;
/// text stands for its UTF-8 bytes.
///
/// # Errors
/// `TypeError` when the object is neither bytes-like nor text.
pub(crate) fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(Bytes::from_owner(PyBackedBytes::from(bytes.clone())));
    }
    if let Ok(text) = data.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_cow()?.as_bytes()));
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(data) {
        return Ok(Bytes::from(buffer.to_vec(data.py())?));
    }
    let got = data.get_type().name()?;
    Err(PyTypeError::new_err(format!("expected bytes, {got} found")))
}

/// Reads a message.
///
/// # Errors
/// `refeed.onnx.DecodeError` when the bytes are not a message.
pub(crate) fn decode(
    py: Python<'_>,
    descriptor: &'static MessageDescriptor,
    wire: Bytes,
    limits: &DecodeLimits,
) -> PyResult<Arc<FrozenMessage>> {
    run(py, wire.len(), || {
        FrozenMessage::decode(descriptor, wire, limits).map(Arc::new)
    })
}

/// A message on the wire.
///
/// # Errors
/// `refeed.onnx.EncodeError` when it is larger than a message may be, or nested too deep.
pub(crate) fn encode<'py>(
    py: Python<'py>,
    message: &FrozenMessage,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = run::attached(py, || message.encoded_len())?;
    if size <= LONG || size > refeed_proto::message::MESSAGE_LIMIT {
        let wire = run::attached(py, || message.encode())?;
        return Ok(PyBytes::new(py, &wire));
    }
    // Straight into the object, so that a large message is there once.
    PyBytes::new_with(py, size, |mut place| {
        let written = run::detached(py, || message.encode_to(&mut place))?;
        if written == size {
            Ok(())
        } else {
            let text = format!("expected {size} bytes on the wire, wrote {written}");
            Err(Class::Internal.error(py, text))
        }
    })
    .map_err(|error| {
        if error.is_instance_of::<PyMemoryError>(py) {
            PyMemoryError::new_err(format!("cannot allocate {size} bytes for a message"))
        } else {
            error
        }
    })
}
