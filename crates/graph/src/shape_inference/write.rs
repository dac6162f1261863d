//! Writes what was found into a copy of the model.

use super::driver::{Types, address};
use crate::error::ModelError;
use crate::types::{Dim, TensorType, ValueType};
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::Value;
use refeed_proto::{AttributeProto, GraphProto, TensorShapeProto, TypeProto, ValueInfoProto};
use std::collections::{HashMap, HashSet};

/// Names of dimensions may take so many bytes in all that is written.
const TEXT_LIMIT: u64 = 1 << 28;

/// Adds `value_info` and refines declarations, in `typed` and all graphs nested in it. `graph` is the graph that was
/// walked, and `typed` its copy.
///
/// # Errors
/// When the names of dimensions would take more than the limit.
pub(super) fn write(
    graph: &GraphProto,
    typed: &mut GraphProto,
    types: &Types,
) -> Result<(), ModelError> {
    let mut text = 0;
    let mut open = vec![(graph, typed)];
    while let Some((graph, typed)) = open.pop() {
        if let Some(found) = types.get(&address(graph)) {
            for (info, ty) in typed.input.iter_mut().zip(&found.inputs) {
                refine_info(info, ty);
            }
            for (info, ty) in typed.output.iter_mut().zip(&found.outputs) {
                refine_info(info, ty);
            }
            let names = graph.node.iter().flat_map(|node| &node.output);
            let names = names.filter(|name| !name.is_empty());
            let values = names.map(String::as_str).zip(&found.values);
            add_values(graph, typed, values, &mut text)?;
        }
        for (node, typed) in graph.node.iter().zip(&mut typed.node) {
            for (attribute, typed) in node.attribute.iter().zip(&mut typed.attribute) {
                open.extend(nested(attribute, typed));
            }
        }
    }
    Ok(())
}

/// Pairs of nested graphs and their copies.
fn nested<'a>(
    attribute: &'a AttributeProto,
    typed: &'a mut AttributeProto,
) -> impl Iterator<Item = (&'a GraphProto, &'a mut GraphProto)> {
    let one = attribute.g.as_deref().zip(typed.g.as_deref_mut());
    one.into_iter()
        .chain(attribute.graphs.iter().zip(&mut typed.graphs))
}

/// Writes the types of values that nodes compute.
fn add_values<'a>(
    graph: &'a GraphProto,
    typed: &mut GraphProto,
    values: impl Iterator<Item = (&'a str, &'a ValueType)>,
    text: &mut u64,
) -> Result<(), ModelError> {
    let held = graph.value_info.iter().enumerate();
    let held: HashMap<&str, usize> = held.map(|(index, info)| (info.name(), index)).collect();
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    for (name, ty) in values {
        *text = text.saturating_add(name_bytes(ty));
        if *text > TEXT_LIMIT {
            return Err(ModelError::Limit {
                at: "value_info".to_string(),
                what: "bytes of dimension names",
                limit: TEXT_LIMIT,
                got: *text,
            });
        }
        if let Some(&index) = held.get(name) {
            refine_info(&mut typed.value_info[index], ty);
        } else if is_said(ty) && !outputs.contains(name) {
            typed.value_info.push(ValueInfoProto {
                name: Some(name.to_string()),
                r#type: Some(ty.to_proto()),
                ..ValueInfoProto::default()
            });
        }
    }
    Ok(())
}

fn name_bytes(ty: &ValueType) -> u64 {
    let shape = ty.tensor().and_then(|tensor| tensor.shape.as_ref());
    let dims = shape.into_iter().flatten();
    dims.map(|dim| match dim {
        Dim::Symbol(name) => name.len() as u64,
        _ => 0,
    })
    .sum()
}

/// Whether a type can be written: ONNX asks for element types.
fn is_said(ty: &ValueType) -> bool {
    match ty {
        ValueType::Tensor(tensor) | ValueType::SparseTensor(tensor) => tensor.dtype.is_some(),
        ValueType::Sequence(inner) | ValueType::Optional(inner) => is_said(inner),
        ValueType::Map { key, value } => key.is_some() && is_said(value),
        ValueType::Struct(_) | ValueType::Opaque { .. } => true,
        ValueType::Unset => false,
    }
}

fn refine_info(info: &mut ValueInfoProto, ty: &ValueType) {
    if !is_said(ty) {
        return;
    }
    match &mut info.r#type {
        Some(declared) => refine(declared, ty),
        None => info.r#type = Some(ty.to_proto()),
    }
}

/// Adds to a declaration what it does not say, and leaves the rest of it as it is, denotations included.
fn refine(declared: &mut TypeProto, ty: &ValueType) {
    let mut next = Some((declared, ty));
    while let Some((declared, ty)) = next.take() {
        match (&mut declared.value, ty) {
            (Some(Value::TensorType(held)), ValueType::Tensor(tensor)) => {
                refine_tensor(&mut held.elem_type, &mut held.shape, tensor);
            }
            (Some(Value::SparseTensorType(held)), ValueType::SparseTensor(tensor)) => {
                refine_tensor(&mut held.elem_type, &mut held.shape, tensor);
            }
            (Some(Value::SequenceType(held)), ValueType::Sequence(inner)) => {
                next = Some((held.elem_type.get_or_insert_default(), inner));
            }
            (Some(Value::OptionalType(held)), ValueType::Optional(inner)) => {
                next = Some((held.elem_type.get_or_insert_default(), inner));
            }
            (Some(Value::MapType(held)), ValueType::Map { value, .. }) => {
                next = Some((held.value_type.get_or_insert_default(), value));
            }
            (value @ None, ty) => *value = ty.to_proto().value,
            // Another kind, or one that says all: the declaration stands.
            _ => {}
        }
    }
}

fn refine_tensor(
    elem_type: &mut Option<i32>,
    shape: &mut Option<TensorShapeProto>,
    tensor: &TensorType,
) {
    if elem_type.unwrap_or(0) == 0 {
        *elem_type = tensor.dtype.map(refeed_values::DType::to_onnx);
    }
    let Some(dims) = &tensor.shape else { return };
    let Some(shape) = shape else {
        let dim = dims.iter().map(Dim::to_proto).collect();
        *shape = Some(TensorShapeProto { dim });
        return;
    };
    if shape.dim.len() != dims.len() {
        return;
    }
    for (held, dim) in shape.dim.iter_mut().zip(dims) {
        let says_more = match (&held.value, dim) {
            (Some(dimension::Value::DimValue(_)), _) => false,
            (Some(dimension::Value::DimParam(name)), Dim::Symbol(_)) => name.is_empty(),
            (_, Dim::Unknown) => false,
            _ => true,
        };
        if says_more {
            held.value = dim.to_proto().value;
        }
    }
}
