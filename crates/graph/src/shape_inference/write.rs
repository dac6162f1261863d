//! What was found, as declarations of the model's graphs.

use super::driver::{GraphTypes, Types, address};
use crate::error::ModelError;
use crate::types::{Dim, TensorType, ValueType};
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::Value;
use refeed_proto::{GraphProto, TensorShapeProto, TypeProto, ValueInfoProto};
use std::collections::{HashMap, HashSet};

/// Names of dimensions may take so many bytes in all that is written.
const TEXT_LIMIT: u64 = 1 << 28;

/// A nested graph's place in the graph around it: the node, its attribute, and for a list of graphs the position there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphStep {
    /// Position of the node.
    pub node: usize,
    /// Position of the attribute in the node.
    pub attribute: usize,
    /// Position in the attribute's `graphs`; `None` for its `g`.
    pub graph: Option<usize>,
}

impl GraphStep {
    /// The nested graph of a graph.
    pub fn of(self, graph: &mut GraphProto) -> Option<&mut GraphProto> {
        let node = graph.node.get_mut(self.node)?;
        let attribute = node.attribute.get_mut(self.attribute)?;
        match self.graph {
            Some(at) => attribute.graphs.get_mut(at),
            None => attribute.g.as_deref_mut(),
        }
    }
}

/// All that one graph declares once types are inferred.
#[derive(Debug, Clone, PartialEq)]
pub struct Declarations {
    /// The way from the root graph; empty for the root graph itself.
    pub path: Vec<GraphStep>,
    /// The graph's inputs.
    pub input: Vec<ValueInfoProto>,
    /// The graph's outputs.
    pub output: Vec<ValueInfoProto>,
    /// The declared values in between, and those whose types were found, in the order of the nodes.
    pub value_info: Vec<ValueInfoProto>,
}

/// What the root graph and all graphs nested in it declare, with what was found.
///
/// # Errors
/// When the names of dimensions would take more than the limit.
pub(super) fn declarations(
    graph: &GraphProto,
    types: &Types,
) -> Result<Vec<Declarations>, ModelError> {
    let mut text = 0;
    let mut all = Vec::new();
    let mut open = vec![(graph, Vec::new())];
    while let Some((graph, path)) = open.pop() {
        for (index, node) in graph.node.iter().enumerate() {
            for (at, attribute) in node.attribute.iter().enumerate() {
                let step = |graph| {
                    let mut path = path.clone();
                    path.push(GraphStep {
                        node: index,
                        attribute: at,
                        graph,
                    });
                    path
                };
                open.extend(attribute.g.iter().map(|graph| (&**graph, step(None))));
                let list = attribute.graphs.iter().enumerate();
                open.extend(list.map(|(at, graph)| (graph, step(Some(at)))));
            }
        }
        if let Some(found) = types.get(&address(graph)) {
            all.push(declare(graph, path, found, &mut text)?);
        }
    }
    Ok(all)
}

/// Puts declarations in their places.
pub(super) fn write(root: &mut GraphProto, declarations: Vec<Declarations>) {
    for declared in declarations {
        let mut graph = Some(&mut *root);
        for step in declared.path {
            graph = graph.and_then(|graph| step.of(graph));
        }
        if let Some(graph) = graph {
            graph.input = declared.input;
            graph.output = declared.output;
            graph.value_info = declared.value_info;
        }
    }
}

fn declare(
    graph: &GraphProto,
    path: Vec<GraphStep>,
    found: &GraphTypes,
    text: &mut u64,
) -> Result<Declarations, ModelError> {
    let mut declared = Declarations {
        path,
        input: graph.input.clone(),
        output: graph.output.clone(),
        value_info: graph.value_info.clone(),
    };
    for (info, ty) in declared.input.iter_mut().zip(&found.inputs) {
        refine_info(info, ty);
    }
    for (info, ty) in declared.output.iter_mut().zip(&found.outputs) {
        refine_info(info, ty);
    }
    let held = graph.value_info.iter().enumerate();
    let held: HashMap<&str, usize> = held.map(|(index, info)| (info.name(), index)).collect();
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    let names = graph.node.iter().flat_map(|node| &node.output);
    let names = names.filter(|name| !name.is_empty());
    for (name, ty) in names.zip(&found.values) {
        *text = text.saturating_add(name_bytes(ty));
        if *text > TEXT_LIMIT {
            return Err(ModelError::Limit {
                at: "value_info".to_string(),
                what: "bytes of dimension names",
                limit: TEXT_LIMIT,
                got: *text,
            });
        }
        if let Some(&index) = held.get(name.as_str()) {
            refine_info(&mut declared.value_info[index], ty);
        } else if is_said(ty) && !outputs.contains(name.as_str()) {
            declared.value_info.push(ValueInfoProto {
                name: Some(name.clone()),
                r#type: Some(ty.to_proto()),
                ..ValueInfoProto::default()
            });
        }
    }
    Ok(declared)
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
