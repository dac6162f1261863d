//! Messages and files.

use super::message::Message;
use super::options::{ParseOptions, SerializeOptions};
use super::repeated::too_deep;
use super::{tree, wire};
use crate::error::{Class, IntoPyErr, os_error};
use crate::interop::descriptor;
use crate::run;
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use refeed_graph::LoadOptions;
use refeed_graph::files::{self, FileError, Split};
use refeed_graph::load::ExternalData;
use refeed_proto::message::{FrozenMessage, TextFault};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl IntoPyErr for FileError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match self {
            FileError::Load(source) => source.into_py(py),
            FileError::Write(source) => source.into_py(py),
            FileError::Decode { .. } => Class::Decode.error(py, message),
            FileError::Encode { .. } => Class::Encode.error(py, message),
            _ => Class::Model.error(py, message),
        }
    }
}

/// Where a file-like name is `None` or empty, there is no file.
fn given(name: Option<PathBuf>) -> Option<PathBuf> {
    name.filter(|name| !name.as_os_str().is_empty())
}

/// `message.SerializeToFile`.
pub(crate) fn serialize(
    message: &Bound<'_, Message>,
    name: PathBuf,
    options: &SerializeOptions,
    external_data_file: Option<PathBuf>,
) -> PyResult<()> {
    let py = message.py();
    let frozen = options.apply(py, message.get().frozen(py)?)?;
    let threshold = options.threshold();
    run::detached(py, || {
        let split = match given(external_data_file) {
            Some(data) => Some(Split::new(files::location_of(&data, &name)?, threshold)),
            None => None,
        };
        files::write(&name, &frozen, split.as_ref())
    })
}

/// `message.ParseFromFile`.
pub(crate) fn parse(
    message: &Bound<'_, Message>,
    name: PathBuf,
    options: &ParseOptions,
    external_data_file: Option<PathBuf>,
) -> PyResult<()> {
    let py = message.py();
    let cell = message.get().cell(py)?;
    let (load, limits) = (options.load(), options.limits());
    let frozen = run::detached(py, || -> Result<Arc<FrozenMessage>, FileError> {
        let frozen = files::read(&name, cell.descriptor(), &load, &limits)?;
        let Some(data) = given(external_data_file) else {
            return Ok(frozen);
        };
        let location = files::location_of(&data, &name)?;
        let folder = name.parent().unwrap_or(Path::new(""));
        let external = ExternalData::in_folder(folder, &load)?;
        files::bring_in(&frozen, &external, Some(&location))
    })?;
    let frozen = options.apply(py, frozen)?;
    tree::with(py, |lock| cell.replace(lock, frozen)).map_err(|error| too_deep(py, error))
}

/// `message.SerializeToFileDescriptor`.
pub(crate) fn serialize_to_descriptor(
    message: &Bound<'_, Message>,
    number: i32,
    options: &SerializeOptions,
) -> PyResult<()> {
    let py = message.py();
    let frozen = options.apply(py, message.get().frozen(py)?)?;
    let mut file = descriptor::duplicate(number)
        .map_err(|error| os_error(&error, format!("file descriptor {number}: {error}")))?;
    let written = run::detached(py, || frozen.encode_to(&mut file));
    written.map(|_| ())
}

/// `message.SerializeToOstream`: the whole message to an object that has `write`.
pub(crate) fn serialize_to_stream(
    output: &Bound<'_, PyAny>,
    wire: &Bound<'_, PyBytes>,
) -> PyResult<()> {
    // A raw stream may take less than it was given and says how much.
    let mut rest = wire.clone();
    loop {
        let taken = output.call_method1("write", (&rest,))?;
        let size = rest.as_bytes().len();
        match taken.extract::<usize>() {
            Ok(taken) if taken < size => {
                if taken == 0 {
                    let text = format!("write() took nothing of {size} bytes");
                    return Err(PyOSError::new_err(text));
                }
                rest = PyBytes::new(output.py(), &rest.as_bytes()[taken..]);
            }
            _ => return Ok(()),
        }
    }
}

/// Reads the elements of tensors that a message keeps in files of `folder` into the message.
#[pyfunction]
pub(crate) fn bring_in(message: &Bound<'_, PyAny>, folder: PathBuf, mmap: bool) -> PyResult<()> {
    let py = message.py();
    let message = message
        .cast::<Message>()
        .map_err(|_| not_a_message(message))?;
    let frozen = message.get().frozen(py)?;
    let options = LoadOptions::default().with_mmap(mmap);
    let whole = run::detached(py, || -> Result<_, FileError> {
        let external = ExternalData::in_folder(&folder, &options)?;
        files::bring_in(&frozen, &external, None)
    })?;
    if Arc::ptr_eq(&frozen, &whole) {
        return Ok(());
    }
    let cell = message.get().cell(py)?;
    tree::with(py, |lock| cell.replace(lock, whole)).map_err(|error| too_deep(py, error))
}

/// Writes a message to a file, large tensors to data files beside it.
#[pyfunction]
pub(crate) fn write_split(
    message: &Bound<'_, PyAny>,
    path: PathBuf,
    location: Option<String>,
    threshold: usize,
    everywhere: bool,
) -> PyResult<()> {
    let py = message.py();
    let message = message
        .cast::<Message>()
        .map_err(|_| not_a_message(message))?;
    let frozen = message.get().frozen(py)?;
    run::detached(py, || {
        let mut split = match location {
            Some(location) => Split::new(location, threshold),
            None => Split::new(String::new(), threshold).one_file_each(),
        };
        if !everywhere {
            split = split.initializers_only();
        }
        files::write(&path, &frozen, Some(&split))
    })
}

/// Merges protobuf's text form into a message.
#[pyfunction]
pub(crate) fn parse_textproto(text: &str, message: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = message.py();
    let message = message
        .cast::<Message>()
        .map_err(|_| not_a_message(message))?;
    let cell = message.get().cell(py)?;
    let read = wire::run(py, text.len(), || {
        FrozenMessage::from_text(cell.descriptor(), text)
    })?;
    tree::with(py, |lock| cell.merge(lock, &read)).map_err(|error| too_deep(py, error))
}

impl IntoPyErr for TextFault {
    fn into_py(self, py: Python<'_>) -> PyErr {
        Class::Decode.error(py, self)
    }
}

/// Writes bytes to a file, whole or not at all.
#[pyfunction]
pub(crate) fn write_bytes(py: Python<'_>, path: PathBuf, content: &[u8]) -> PyResult<()> {
    run::detached(py, || files::write_bytes(&path, content))
}

fn not_a_message(object: &Bound<'_, PyAny>) -> PyErr {
    match object.get_type().fully_qualified_name() {
        Ok(got) => PyTypeError::new_err(format!("expected a message, got {got}")),
        Err(error) => error,
    }
}

/// The folders and the file that a location of external data names.
///
/// # Errors
/// `ModelError` that says why it names no file inside the model's folder.
#[pyfunction(name = "_location_parts")]
pub(crate) fn location_parts<'a>(py: Python<'_>, location: &'a str) -> PyResult<Vec<&'a str>> {
    let parts = refeed_graph::load::location_parts(location);
    parts.map_err(|fault| Class::Model.error(py, fault))
}
