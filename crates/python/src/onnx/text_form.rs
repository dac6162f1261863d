//! The text form: `refeed.onnx.parser` and `refeed.onnx.printer`.

use super::convert;
use crate::error::{Class, IntoPyErr};
use crate::run;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use refeed_graph::printer::{Fidelity, Lost, TextForm, Why, to_text};
use refeed_graph::{ParseError, PrintError, parser};
use refeed_proto::{
    AttributeProto, Convert, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto,
    TypeProto, ValueInfoProto,
};

impl IntoPyErr for ParseError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let made = || -> PyResult<PyErr> {
            let keywords = PyDict::new(py);
            keywords.set_item("line", self.line)?;
            keywords.set_item("column", self.column)?;
            let error = Class::Parse
                .class(py)?
                .call((self.to_string(),), Some(&keywords))?;
            Ok(PyErr::from_value(error))
        };
        made().unwrap_or_else(|error| error)
    }
}

/// A message that was not printed.
struct Refused {
    error: PrintError,
    /// Whether the rest of it can be.
    lossy: bool,
}

impl IntoPyErr for Refused {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let made = || -> PyResult<PyErr> {
            let mut text = self.error.to_string();
            if self.lossy {
                text.push_str("; fidelity=\"lossy\" prints the rest");
            }
            let lost = self.error.lost.iter();
            let lost = lost.map(|lost| (&lost.path, lost.why.to_string()));
            let keywords = PyDict::new(py);
            keywords.set_item("lost", PyTuple::new(py, lost.collect::<Vec<_>>())?)?;
            let error = Class::Print.class(py)?.call((text,), Some(&keywords))?;
            Ok(PyErr::from_value(error))
        };
        made().unwrap_or_else(|error| error)
    }
}

/// A kind of message with a text form.
struct Form {
    name: &'static str,
    parse: for<'py> fn(Python<'py>, &[u8]) -> PyResult<Bound<'py, PyAny>>,
    print: fn(&Bound<'_, PyAny>, Fidelity) -> PyResult<String>,
}

fn parsed<'py, M: Convert + Send>(
    py: Python<'py>,
    text: &[u8],
    parse: fn(&[u8]) -> Result<M, ParseError>,
) -> PyResult<Bound<'py, PyAny>> {
    let message = run::detached(py, || parse(text))?;
    convert::message_of(py, &message)
}

fn printed<M: Convert + TextForm + Send + Sync>(
    proto: &Bound<'_, PyAny>,
    fidelity: Fidelity,
) -> PyResult<String> {
    let py = proto.py();
    let frozen = convert::frozen_of(proto, M::DESCRIPTOR)?;
    let message: M = convert::prost_of_frozen(py, &frozen)?;
    run::detached(py, || {
        let printed = to_text(&message, fidelity);
        let printed = match frozen.first_unknown() {
            Some(unknown) if fidelity != Fidelity::Lossy => {
                let mut lost = printed.err().map_or_else(Vec::new, |error| error.lost);
                let dot = if unknown.path.is_empty() { "" } else { "." };
                lost.push(Lost {
                    path: format!("{}{dot}{}", unknown.path, unknown.number),
                    why: Why::Unknown,
                });
                Err(PrintError { lost })
            }
            _ => printed,
        };
        printed.map_err(|error| Refused {
            lossy: fidelity != Fidelity::Lossy && to_text(&message, Fidelity::Lossy).is_ok(),
            error,
        })
    })
}

macro_rules! forms {
    ($($message:ident $parse:ident,)*) => {
        [$(Form {
            name: stringify!($message),
            parse: |py, text| parsed(py, text, |text| parser::$parse(text)),
            print: printed::<$message>,
        },)*]
    };
}

static FORMS: [Form; 8] = forms! {
    ModelProto parse_model,
    GraphProto parse_graph,
    FunctionProto parse_function,
    NodeProto parse_node,
    AttributeProto parse_attribute,
    TensorProto parse_tensor,
    ValueInfoProto parse_value_info,
    TypeProto parse_type,
};

/// A text that Python gives.
enum Text {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Text::Str(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        }
    }
}

/// Reads a message of the class called `name` from text.
///
/// # Errors
/// `ParseError` with line and column; `TypeError` when the text is neither `str` nor `bytes`.
#[pyfunction(name = "_parse_text")]
pub(crate) fn parse_text<'py>(
    py: Python<'py>,
    name: &str,
    text: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        return Err(PyTypeError::new_err(format!("{name} has no text form")));
    };
    let text = if let Ok(text) = text.cast::<PyString>() {
        Text::Str(text.clone().try_into()?)
    } else if let Ok(bytes) = text.cast::<PyBytes>() {
        Text::Bytes(bytes.clone().into())
    } else {
        let got = text.get_type().name()?;
        let message = format!("text: expected str or bytes, got {got}");
        return Err(PyTypeError::new_err(message));
    };
    (form.parse)(py, text.bytes())
}

/// Writes a message as text; one of the official package is taken, too. `fidelity` is `"exact"`, `"equivalent"` or
/// `"lossy"`.
///
/// # Errors
/// `PrintError` with the fields that the text form cannot carry; `TypeError` for a message without a text form,
/// `ValueError` for another fidelity.
#[pyfunction(name = "_print_text")]
pub(crate) fn print_text(proto: &Bound<'_, PyAny>, fidelity: &str) -> PyResult<String> {
    let fidelity = match fidelity {
        "exact" => Fidelity::Exact,
        "equivalent" => Fidelity::Equivalent,
        "lossy" => Fidelity::Lossy,
        got => {
            let message = format!("fidelity: expected exact, equivalent or lossy, got {got:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    let class = proto.get_type().name()?;
    match FORMS.iter().find(|form| class == form.name) {
        Some(form) => (form.print)(proto, fidelity),
        None => {
            let names: Vec<_> = FORMS.iter().map(|form| form.name).collect();
            let message = format!("proto: expected one of {}, got {class}", names.join(", "));
            Err(PyTypeError::new_err(message))
        }
    }
}
