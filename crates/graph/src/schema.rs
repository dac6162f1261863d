//! What an operator accepts and what it gives: arity, element types, versions, and the type of each output.
//!
//! A schema says nothing about how to compute (kernels register themselves elsewhere, and a schema without a kernel is
//! a normal thing): it is what validation, inspection and planning read.

mod inference;

pub use inference::{EnterGraph, Inference};

use crate::attributes::AttributeError;
use crate::types::Dim;
use refeed_proto::NodeProto;
use refeed_proto::attribute_proto::AttributeType;
use refeed_values::DType;
use refeed_values::layout::Dims;
use std::fmt;
use thiserror::Error;

/// How many inputs or outputs a node may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arity {
    /// Positions that must be there and named.
    pub min: usize,
    /// Positions that may be there; `usize::MAX` for variadic ones.
    pub max: usize,
}

impl Arity {
    /// Exactly `n`.
    pub const fn exactly(n: usize) -> Arity {
        Arity { min: n, max: n }
    }
    /// From `min` to `max`.
    pub const fn between(min: usize, max: usize) -> Arity {
        Arity { min, max }
    }
    /// At least `min`.
    pub const fn at_least(min: usize) -> Arity {
        Arity {
            min,
            max: usize::MAX,
        }
    }
}

impl fmt::Display for Arity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, max) if min == max => write!(f, "{min}"),
            (min, usize::MAX) => write!(f, "at least {min}"),
            (min, max) => write!(f, "{min} to {max}"),
        }
    }
}

/// A node with another number of inputs or outputs than its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArityFault {
    /// `"inputs"` or `"outputs"`.
    pub what: &'static str,
    /// What the operator has.
    pub expected: Arity,
    /// What the node has, up to its last named one.
    pub got: usize,
}

/// An attribute that an operator has in one of its covered versions.
///
/// ```
/// use refeed_graph::schema::Attr;
/// const ATTRIBUTES: &[Attr] = &[Attr::int("axis").required(), Attr::floats("scales")];
/// assert!(ATTRIBUTES[0].required && !ATTRIBUTES[1].required);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: AttributeType,
    /// Whether it must be there in every covered version. One that only some versions ask for is not required here;
    /// the operator's type rule and kernel, which know the version, ask for it.
    pub required: bool,
}

impl Attr {
    const fn of(name: &'static str, kind: AttributeType) -> Attr {
        Attr {
            name,
            kind,
            required: false,
        }
    }
    /// An INT.
    pub const fn int(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Int)
    }
    /// Several INTs.
    pub const fn ints(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Ints)
    }
    /// A FLOAT.
    pub const fn float(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Float)
    }
    /// Several FLOATs.
    pub const fn floats(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Floats)
    }
    /// A STRING.
    pub const fn string(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::String)
    }
    /// Several STRINGs.
    pub const fn strings(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Strings)
    }
    /// A TENSOR.
    pub const fn tensor(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Tensor)
    }
    /// A SPARSE_TENSOR.
    pub const fn sparse_tensor(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::SparseTensor)
    }
    /// A GRAPH.
    pub const fn graph(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::Graph)
    }
    /// A TYPE_PROTO.
    pub const fn type_proto(name: &'static str) -> Attr {
        Attr::of(name, AttributeType::TypeProto)
    }
    /// The same attribute, which must be there.
    pub const fn required(self) -> Attr {
        Attr {
            required: true,
            ..self
        }
    }
}

/// One operator of one domain.
#[derive(Debug)]
pub struct OpSchema {
    /// Operator domain; `""` is ai.onnx.
    pub domain: &'static str,
    /// Operator name.
    pub op_type: &'static str,
    /// The opset versions at which the operator was introduced or changed, oldest first, as far as this schema
    /// covers them: a model whose opset is older than the first cannot be read by it.
    pub since: &'static [i64],
    /// Inputs.
    pub inputs: Arity,
    /// Outputs.
    pub outputs: Arity,
    /// All attributes of all covered versions, by name. One whose type changed stands once for each type.
    pub attributes: &'static [Attr],
    /// Computes the output types.
    pub infer: InferFn,
}

impl OpSchema {
    /// What is wrong with the number of a node's inputs or outputs.
    pub fn arity_fault(&self, node: &NodeProto) -> Option<ArityFault> {
        let fault = |what: &'static str, expected: Arity, names: &[String]| {
            let named = names.iter().rposition(|name| !name.is_empty());
            let mut got = named.map_or(0, |last| last + 1);
            // An output that nothing needs may be skipped, the last one too, as long as it has its place.
            if what == "outputs" {
                got = got.max(names.len().min(expected.min));
            }
            let fits = (expected.min..=expected.max).contains(&got);
            (!fits).then_some(ArityFault {
                what,
                expected,
                got,
            })
        };
        fault("inputs", self.inputs, &node.input)
            .or_else(|| fault("outputs", self.outputs, &node.output))
    }
}

/// A type rule: reads input types, attributes and constants, writes output types.
pub type InferFn = fn(&mut Inference<'_>) -> Result<(), InferError>;

/// A node whose types contradict its operator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InferError {
    /// An attribute cannot be used.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// Two inputs that must have one element type differ.
    #[error("input {index}: expected elements of {expected}, got {got}")]
    DType {
        /// Input position.
        index: usize,
        /// What the operator or another input asks for.
        expected: String,
        /// What the input has.
        got: DType,
    },
    /// An input or output of another kind than the operator takes.
    #[error("input {index}: expected {expected}, got {got}")]
    Kind {
        /// Input position.
        index: usize,
        /// The kind of value that the operator takes.
        expected: &'static str,
        /// What the input has.
        got: String,
    },
    /// A structured type that the operator does not take.
    #[error("struct type: {0}")]
    StructType(String),
    /// Shapes that can never fit.
    #[error("shapes do not fit: {0}")]
    Shape(String),
    /// A nested graph whose inputs or outputs do not fit its node.
    #[error("attribute `{attribute}`: expected {expected} {what}, got {got}")]
    Graph {
        /// Attribute that holds the graph.
        attribute: &'static str,
        /// `"inputs"` or `"outputs"`.
        what: &'static str,
        /// Number that the operator gives or takes.
        expected: String,
        /// Number that the graph has.
        got: usize,
    },
}

/// Turns an axis that may count from the end into an index below `rank`; `None` when out of range.
pub fn normalize_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 {
        axis.checked_add(rank)?
    } else {
        axis
    };
    (0..rank).contains(&axis).then_some(axis as usize)
}

/// Dimensions of a tensor as known dimensions.
pub fn known_dims(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// All dimensions as numbers, when all are known.
pub fn all_known(shape: &[Dim]) -> Option<Dims> {
    shape.iter().map(Dim::known).collect()
}
