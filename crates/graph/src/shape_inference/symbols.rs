//! Symbols for extents that nothing names: `unk__0`, `unk__1`, ... as the `onnx` package calls them.

use super::ShapeValue;
use crate::types::{Dim, ValueType};
use crate::uses;
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::Value;
use refeed_proto::{GraphProto, ModelProto, TypeProto};
use std::sync::Arc;

const PREFIX: &str = "unk__";

/// Whether a dimension's name was made here for what nothing names.
pub(crate) fn is_made(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Numbers of the fresh symbols in a text.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    let found = text.match_indices(PREFIX);
    found.filter_map(move |(at, _)| {
        let digits = &text[at + PREFIX.len()..];
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        digits[..count].parse().ok()
    })
}

/// Gives out symbols that the model does not have.
#[derive(Debug)]
pub(super) struct Symbols {
    next: u64,
}

impl Symbols {
    /// Starts beyond the symbols of this form that the model declares.
    pub(super) fn new(model: &ModelProto) -> Symbols {
        let mut next = 0;
        let mut graphs: Vec<&GraphProto> = model.graph.iter().collect();
        let bodies = model.functions.iter().flat_map(|function| &function.node);
        graphs.extend(bodies.flat_map(|node| node.attribute.iter().flat_map(uses::nested)));
        while let Some(graph) = graphs.pop() {
            for info in graph
                .input
                .iter()
                .chain(&graph.output)
                .chain(&graph.value_info)
            {
                for text in info.r#type.iter().flat_map(names) {
                    for number in numbers(text) {
                        next = next.max(number.saturating_add(1));
                    }
                }
            }
            for node in &graph.node {
                graphs.extend(node.attribute.iter().flat_map(uses::nested));
            }
        }
        Symbols { next }
    }

    /// The number of the next symbol: a mark for [`forget`].
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// A symbol for every unknown dimension of a tensor. Other kinds of values are left as they are: the elements of a
    /// sequence have no extent in common.
    pub(super) fn name_unknown(&mut self, ty: &mut ValueType) {
        let ValueType::Tensor(tensor) = ty else {
            return;
        };
        for dim in tensor.shape.iter_mut().flatten() {
            if *dim == Dim::Unknown {
                *dim = Dim::Symbol(Arc::from(format!("{PREFIX}{}", self.next)));
                self.next = self.next.saturating_add(1);
            }
        }
    }
}

/// All names of dimensions in a declaration.
fn names(ty: &TypeProto) -> Vec<&str> {
    let mut found = Vec::new();
    let mut next = Some(ty);
    while let Some(ty) = next.take() {
        let shape = match &ty.value {
            Some(Value::TensorType(tensor)) => tensor.shape.as_ref(),
            Some(Value::SparseTensorType(tensor)) => tensor.shape.as_ref(),
            Some(Value::SequenceType(sequence)) => {
                next = sequence.elem_type.as_deref();
                None
            }
            Some(Value::OptionalType(optional)) => {
                next = optional.elem_type.as_deref();
                None
            }
            Some(Value::MapType(map)) => {
                next = map.value_type.as_deref();
                None
            }
            _ => None,
        };
        for dim in shape.iter().flat_map(|shape| &shape.dim) {
            if let Some(dimension::Value::DimParam(name)) = &dim.value {
                found.push(name.as_str());
            }
        }
    }
    found
}

/// Takes what was named since a mark out of a type: within a body that runs many times, a symbol stands for an extent
/// of one run, which means nothing outside.
pub(super) fn forget(ty: &mut ValueType, mark: u64) {
    match ty {
        ValueType::Tensor(tensor) | ValueType::SparseTensor(tensor) => {
            for dim in tensor.shape.iter_mut().flatten() {
                if let Dim::Symbol(text) = dim
                    && numbers(text).any(|number| number >= mark)
                {
                    *dim = Dim::Unknown;
                }
            }
        }
        ValueType::Sequence(inner)
        | ValueType::Optional(inner)
        | ValueType::Map { value: inner, .. } => forget(inner, mark),
        _ => {}
    }
}

/// The same for a value.
pub(super) fn forget_value(value: &ShapeValue, mark: u64) -> ShapeValue {
    value.map(|expr| {
        let text = expr.to_string();
        let fresh = numbers(&text).any(|number| number >= mark);
        (!fresh).then(|| expr.clone())
    })
}
