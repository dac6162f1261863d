//! Between Python's messages and the structs that Rust code reads.

use super::message::{self, Message};
use super::wire;
use crate::error::Class;
use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use refeed_proto as proto;
use refeed_proto::message::{
    DecodeLimits, EditableMessage, FrozenMessage, MessageDescriptor, descriptors,
};

/// A struct and the message that it stands for.
pub(crate) trait Described: proto::Message + Default {
    /// The message.
    const DESCRIPTOR: &'static MessageDescriptor;
}

macro_rules! described {
    ($($name:ident $descriptor:ident,)*) => {
        $(impl Described for proto::$name {
            const DESCRIPTOR: &'static MessageDescriptor = &descriptors::$descriptor;
        })*
    };
}

described! {
    ModelProto MODEL_PROTO,
    GraphProto GRAPH_PROTO,
    FunctionProto FUNCTION_PROTO,
    NodeProto NODE_PROTO,
    AttributeProto ATTRIBUTE_PROTO,
    ValueInfoProto VALUE_INFO_PROTO,
    TypeProto TYPE_PROTO,
    TensorShapeProto TENSOR_SHAPE_PROTO,
    TensorProto TENSOR_PROTO,
    SparseTensorProto SPARSE_TENSOR_PROTO,
    SequenceProto SEQUENCE_PROTO,
    MapProto MAP_PROTO,
    OptionalProto OPTIONAL_PROTO,
    OperatorSetIdProto OPERATOR_SET_ID_PROTO,
    PersistentBindingProto PERSISTENT_BINDING_PROTO,
    PagedCacheProto PAGED_CACHE_PROTO,
    EncodedValueProto ENCODED_VALUE_PROTO,
    StructTypeProto STRUCT_TYPE_PROTO,
}

/// The struct of a message. Fields that the schema does not know are left out. An object of the official package is
/// serialised; a message of ours is not.
///
/// # Errors
/// `TypeError` when the object is not such a message.
pub(crate) fn prost_of<T: Described>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    if let Ok(message) = object.cast::<Message>()
        && message.get().cell().descriptor() == T::DESCRIPTOR
    {
        return prost_of_frozen(object.py(), &*message.get().frozen(object.py())?);
    }
    match official(object, T::DESCRIPTOR)? {
        Some(wire) => decode_prost(object.py(), wire),
        None => {
            let expected = T::DESCRIPTOR.full_name;
            let got = object.get_type().fully_qualified_name()?;
            Err(PyTypeError::new_err(format!(
                "expected an {expected}, got {got}"
            )))
        }
    }
}

/// The struct of an immutable message.
///
/// # Errors
/// When messages are nested too deep.
pub(crate) fn prost_of_frozen<T: Described>(
    py: Python<'_>,
    message: &FrozenMessage,
) -> PyResult<T> {
    let wire = wire::run(py, 0, || message.encode())?;
    decode_prost(py, Bytes::from(wire))
}

fn decode_prost<T: Described>(py: Python<'_>, wire: Bytes) -> PyResult<T> {
    T::decode(wire).map_err(|error| {
        let name = T::DESCRIPTOR.full_name;
        Class::Decode.error(py, format_args!("{name}: {error}"))
    })
}

/// The bytes of an object of the official package that stands for the same message.
fn official(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Option<Bytes>> {
    if !object.hasattr("SerializeToString")? || !object.hasattr("DESCRIPTOR")? {
        return Ok(None);
    }
    let name = object.getattr("DESCRIPTOR")?.getattr("full_name")?;
    if name.extract::<&str>().ok() != Some(descriptor.full_name) {
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
pub(crate) fn message_of<'py, T: Described>(
    py: Python<'py>,
    content: &T,
) -> PyResult<Bound<'py, PyAny>> {
    let wire = Bytes::from(content.encode_to_vec());
    let frozen = wire::decode(py, T::DESCRIPTOR, wire, &DecodeLimits::default())?;
    message::wrap(py, EditableMessage::from_frozen(frozen))
}
