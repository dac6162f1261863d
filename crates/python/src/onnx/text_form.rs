//! The text form: `refeed.onnx.parser` and `refeed.onnx.printer`.

use super::message::{self, Message};
use crate::error::{Class, IntoPyErr};
use crate::run;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use refeed_graph::printer::{Fidelity, TextForm, to_text};
use refeed_graph::{ParseError, PrintError, parser};
use refeed_proto::message::{
    DecodeFault, DecodeLimits, EditableMessage, EncodeFault, FrozenMessage, MessageDescriptor,
    descriptors,
};
use refeed_proto::{
    AttributeProto, Bytes, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto,
    TypeProto, ValueInfoProto,
};
use std::sync::Arc;

/// Why a text and a message do not become each other.
enum Fault {
    Parse(ParseError),
    Print(PrintError),
    /// A message goes from one form of ours to the other over the wire; it may be too large for that, or no UTF-8.
    Encode(EncodeFault),
    Decode(DecodeFault),
    Wire(refeed_proto::DecodeError),
}

impl IntoPyErr for Fault {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let made = match self {
            Fault::Encode(fault) => return fault.into_py(py),
            Fault::Decode(fault) => return fault.into_py(py),
            Fault::Wire(fault) => return Class::Decode.error(py, fault),
            Fault::Parse(error) => parse_error(py, &error),
            Fault::Print(error) => print_error(py, &error),
        };
        made.unwrap_or_else(|error| error)
    }
}

fn parse_error(py: Python<'_>, error: &ParseError) -> PyResult<PyErr> {
    let keywords = PyDict::new(py);
    keywords.set_item("line", error.line)?;
    keywords.set_item("column", error.column)?;
    let error = Class::Parse
        .class(py)?
        .call((error.to_string(),), Some(&keywords))?;
    Ok(PyErr::from_value(error))
}

fn print_error(py: Python<'_>, error: &PrintError) -> PyResult<PyErr> {
    let lost = error
        .lost
        .iter()
        .map(|lost| (&lost.path, lost.why.to_string()));
    let keywords = PyDict::new(py);
    keywords.set_item("lost", PyTuple::new(py, lost.collect::<Vec<_>>())?)?;
    let error = Class::Print
        .class(py)?
        .call((error.to_string(),), Some(&keywords))?;
    Ok(PyErr::from_value(error))
}

/// A kind of message with a text form: how it is read and written, both through the wire format.
struct Form {
    descriptor: &'static MessageDescriptor,
    parse: fn(&[u8]) -> Result<Vec<u8>, Fault>,
    print: fn(Bytes, Fidelity) -> Result<String, Fault>,
}

fn parsed<M: refeed_proto::Message>(message: Result<M, ParseError>) -> Result<Vec<u8>, Fault> {
    Ok(message.map_err(Fault::Parse)?.encode_to_vec())
}

fn printed<M: TextForm + refeed_proto::Message + Default>(
    wire: Bytes,
    fidelity: Fidelity,
) -> Result<String, Fault> {
    let message = M::decode(wire).map_err(Fault::Wire)?;
    to_text(&message, fidelity).map_err(Fault::Print)
}

static FORMS: [Form; 8] = [
    Form {
        descriptor: &descriptors::MODEL_PROTO,
        parse: |text| parsed(parser::parse_model(text)),
        print: printed::<ModelProto>,
    },
    Form {
        descriptor: &descriptors::GRAPH_PROTO,
        parse: |text| parsed(parser::parse_graph(text)),
        print: printed::<GraphProto>,
    },
    Form {
        descriptor: &descriptors::FUNCTION_PROTO,
        parse: |text| parsed(parser::parse_function(text)),
        print: printed::<FunctionProto>,
    },
    Form {
        descriptor: &descriptors::NODE_PROTO,
        parse: |text| parsed(parser::parse_node(text)),
        print: printed::<NodeProto>,
    },
    Form {
        descriptor: &descriptors::ATTRIBUTE_PROTO,
        parse: |text| parsed(parser::parse_attribute(text)),
        print: printed::<AttributeProto>,
    },
    Form {
        descriptor: &descriptors::TENSOR_PROTO,
        parse: |text| parsed(parser::parse_tensor(text)),
        print: printed::<TensorProto>,
    },
    Form {
        descriptor: &descriptors::VALUE_INFO_PROTO,
        parse: |text| parsed(parser::parse_value_info(text)),
        print: printed::<ValueInfoProto>,
    },
    Form {
        descriptor: &descriptors::TYPE_PROTO,
        parse: |text| parsed(parser::parse_type(text)),
        print: printed::<TypeProto>,
    },
];

/// A text that Python gives.
enum Text {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
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
    let Some(form) = FORMS.iter().find(|form| form.descriptor.name == name) else {
        return Err(PyTypeError::new_err(format!("{name} has no text form")));
    };
    let text = if let Ok(text) = text.cast::<PyString>() {
        Text::Str(text.clone().try_into()?)
    } else if let Ok(bytes) = text.cast::<PyBytes>() {
        Text::Bytes(bytes.clone().into())
    } else {
        let got = text.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "text: expected str or bytes, got {got}"
        )));
    };
    let frozen = run::detached(py, || {
        let wire = Bytes::from((form.parse)(text.as_ref())?);
        let limits = DecodeLimits::default();
        FrozenMessage::decode(form.descriptor, wire, &limits).map_err(Fault::Decode)
    })?;
    message::wrap(py, EditableMessage::from_frozen(Arc::new(frozen)))
}

/// Writes a message as text. `fidelity` is `"exact"`, `"equivalent"` or `"lossy"`.
///
/// # Errors
/// `PrintError` with the fields that the text form cannot carry; `TypeError` for a message without a text form,
/// `ValueError` for another fidelity.
#[pyfunction(name = "_print_text")]
pub(crate) fn print_text(
    py: Python<'_>,
    proto: &Bound<'_, PyAny>,
    fidelity: &str,
) -> PyResult<String> {
    let fidelity = match fidelity {
        "exact" => Fidelity::Exact,
        "equivalent" => Fidelity::Equivalent,
        "lossy" => Fidelity::Lossy,
        got => {
            let message = format!("fidelity: expected exact, equivalent or lossy, got {got:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    let unsupported = || -> PyResult<PyErr> {
        let names: Vec<_> = FORMS.iter().map(|form| form.descriptor.name).collect();
        let (expected, got) = (names.join(", "), proto.get_type().name()?);
        Ok(PyTypeError::new_err(format!(
            "proto: expected one of {expected}, got {got}"
        )))
    };
    let Ok(object) = proto.cast::<Message>() else {
        return Err(unsupported()?);
    };
    let frozen = object.get().frozen(py)?;
    let Some(form) = FORMS
        .iter()
        .find(|form| form.descriptor == frozen.descriptor())
    else {
        return Err(unsupported()?);
    };
    run::detached(py, || {
        let wire = frozen.encode().map_err(Fault::Encode)?;
        (form.print)(Bytes::from(wire), fidelity)
    })
}
