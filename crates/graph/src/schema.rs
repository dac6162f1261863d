//! What an operator accepts and what it gives: arity, element types, versions, and the type of each output.
//!
//! A schema says nothing about how to compute (kernels register themselves elsewhere, and a schema without a kernel is
//! a normal thing): it is what validation, inspection and planning read.

use crate::attributes::{AttributeError, Attributes};
use crate::types::{Dim, TensorType};
use refeed_values::layout::Dims;
use refeed_values::{DType, Tensor};
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
    /// Names of all attributes of all covered versions.
    pub attributes: &'static [&'static str],
    /// Computes the output types.
    pub infer: InferFn,
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
    /// Shapes that can never fit.
    #[error("shapes do not fit: {0}")]
    Shape(String),
}

/// The input of a type rule, and where it writes.
pub struct Inference<'a> {
    /// The node's attributes; type rules may read any of them.
    pub attributes: &'a Attributes<'a>,
    /// Version of the node's domain that the model imports.
    pub opset: i64,
    inputs: &'a [Option<TensorType>],
    constants: &'a [Option<Tensor>],
    outputs: Vec<TensorType>,
}

impl<'a> Inference<'a> {
    /// Prepares a node. `inputs[i]` is `None` for an absent optional input; `constants[i]` is the value of an input
    /// that is known before the first run.
    pub fn new(
        attributes: &'a Attributes<'a>,
        opset: i64,
        inputs: &'a [Option<TensorType>],
        constants: &'a [Option<Tensor>],
        outputs: usize,
    ) -> Inference<'a> {
        let outputs = vec![TensorType::default(); outputs];
        Inference {
            attributes,
            opset,
            inputs,
            constants,
            outputs,
        }
    }

    /// Whether an input is there and named.
    pub fn has(&self, index: usize) -> bool {
        matches!(self.inputs.get(index), Some(Some(_)))
    }

    /// Number of input positions, absent ones included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that the node names or skips.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// The type of an input, when it is there.
    pub fn input(&self, index: usize) -> Option<&'a TensorType> {
        self.inputs.get(index)?.as_ref()
    }

    /// Element type of an input, when known.
    pub fn dtype(&self, index: usize) -> Option<DType> {
        self.input(index)?.dtype
    }

    /// Dimensions of an input, when its rank is known.
    pub fn shape(&self, index: usize) -> Option<&'a [Dim]> {
        self.input(index)?.shape.as_deref()
    }

    /// The value of an input that is known before the first run.
    pub fn constant(&self, index: usize) -> Option<&'a Tensor> {
        self.constants.get(index)?.as_ref()
    }

    /// A constant INT64 (or INT32) input as numbers.
    pub fn constant_ints(&self, index: usize) -> Option<Vec<i64>> {
        let tensor = self.constant(index)?;
        match tensor.dtype() {
            DType::Int64 => Some(tensor.view::<i64>().ok()?.to_vec()),
            DType::Int32 => Some(tensor.view::<i32>().ok()?.iter().map(i64::from).collect()),
            _ => None,
        }
    }

    /// Sets an output's type; outputs that the node does not have are passed over.
    pub fn set(&mut self, index: usize, dtype: Option<DType>, shape: Option<Vec<Dim>>) {
        if let Some(slot) = self.outputs.get_mut(index) {
            *slot = TensorType { dtype, shape };
        }
    }

    /// Gives output 0 the type of input 0.
    pub fn same_as_input(&mut self) {
        let ty = self.input(0).cloned().unwrap_or_default();
        self.set(0, ty.dtype, ty.shape);
    }

    /// # Errors
    /// When the element types of the given inputs, as far as they are known, differ.
    pub fn same_dtype(
        &self,
        indices: impl IntoIterator<Item = usize>,
    ) -> Result<Option<DType>, InferError> {
        let mut held: Option<DType> = None;
        for index in indices {
            match (held, self.dtype(index)) {
                (Some(expected), Some(got)) if expected != got => {
                    return Err(InferError::DType {
                        index,
                        expected: expected.to_string(),
                        got,
                    });
                }
                (None, got) => held = got,
                _ => {}
            }
        }
        Ok(held)
    }

    /// The broadcast shape of the given inputs, as far as it can be told.
    ///
    /// # Errors
    /// When two known dimensions can never broadcast.
    pub fn broadcast(
        &self,
        indices: impl IntoIterator<Item = usize>,
    ) -> Result<Option<Vec<Dim>>, InferError> {
        let mut out: Vec<Dim> = Vec::new();
        for index in indices {
            let Some(shape) = self.shape(index) else {
                return Ok(None);
            };
            while out.len() < shape.len() {
                out.insert(0, Dim::Known(1));
            }
            let lead = out.len() - shape.len();
            for (axis, dim) in shape.iter().enumerate() {
                let held = &mut out[lead + axis];
                *held = match (&*held, dim) {
                    (a, b) if a == b => continue,
                    (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
                    (Dim::Known(a), Dim::Known(b)) => {
                        return Err(InferError::Shape(format!(
                            "axis {axis} of input {index} is {b}, which does not broadcast with {a}"
                        )));
                    }
                    // One is a number above 1: the other can only be that or 1.
                    (Dim::Known(a), _) | (_, Dim::Known(a)) => Dim::Known(*a),
                    _ => Dim::Unknown,
                };
            }
        }
        Ok(Some(out))
    }

    /// The output types, once the rule has run.
    pub fn into_outputs(self) -> Vec<TensorType> {
        self.outputs
    }
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
