//! Declared types as messages show them.

use crate::load::shown;
use refeed_proto::ext::data_type_name;
use refeed_proto::struct_type_proto::Kind;
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TensorShapeProto, TypeProto};

/// One dimension as a file declares it; the number may be negative.
#[derive(Clone, Copy)]
pub(crate) enum Dim<'a> {
    Value(i64),
    Symbol(&'a str),
    Unknown,
}

/// The dimensions of a shape.
pub(crate) fn sizes(shape: &TensorShapeProto) -> impl Iterator<Item = Dim<'_>> {
    shape.dim.iter().map(|dim| match &dim.value {
        Some(dimension::Value::DimValue(n)) => Dim::Value(*n),
        Some(dimension::Value::DimParam(name)) if !name.is_empty() => Dim::Symbol(name),
        _ => Dim::Unknown,
    })
}

fn shape_text(shape: Option<&TensorShapeProto>) -> String {
    let Some(shape) = shape else {
        return "[...]".to_string();
    };
    // A shape with very many axes is cut: the text is for people.
    let mut dims: Vec<String> = sizes(shape)
        .take(16)
        .map(|dim| match dim {
            Dim::Value(n) => n.to_string(),
            Dim::Symbol(name) => shown(name),
            Dim::Unknown => "?".to_string(),
        })
        .collect();
    if shape.dim.len() > dims.len() {
        dims.push("...".to_string());
    }
    format!("[{}]", dims.join(", "))
}

/// The name of an element type, whatever its number.
pub(crate) fn element_text(number: Option<i32>) -> String {
    let number = number.unwrap_or(0);
    data_type_name(number).map_or_else(|| format!("element type {number}"), str::to_string)
}

/// `FLOAT[2, n, ?]`.
pub(crate) fn tensor_text(tensor: &type_proto::Tensor) -> String {
    format!(
        "{}{}",
        element_text(tensor.elem_type),
        shape_text(tensor.shape.as_ref())
    )
}

/// The kind of a type, for messages.
pub(crate) fn kind(ty: &TypeProto) -> &'static str {
    match &ty.value {
        None => "no type",
        Some(Value::TensorType(_)) => "a tensor",
        Some(Value::SequenceType(_)) => "a sequence",
        Some(Value::MapType(_)) => "a map",
        Some(Value::OptionalType(_)) => "an optional",
        Some(Value::SparseTensorType(_)) => "a sparse tensor",
        Some(Value::OpaqueType(_)) => "an opaque value",
        Some(Value::StructType(_)) => "a struct",
    }
}

/// The kind of a struct type, for messages.
pub(crate) fn struct_kind(declared: &StructTypeProto) -> &'static str {
    match &declared.kind {
        None => "a struct of no kind",
        Some(Kind::Array(_)) => "an array",
        Some(Kind::Structure(_)) => "a structure",
        Some(Kind::BitPacking(_)) => "a bit packing",
        Some(Kind::TypeRef(_)) => "a reference to a struct type",
    }
}
