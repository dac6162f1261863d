//! Operators that compute each output element from the elements at the same place, with NumPy broadcasting.
//!
//! A computation is found once, by operator and element type ([`binary`], [`unary`], ...), and is then a plain function
//! over tensors. What has no function for an element type is not computed on it: `None` is the answer to "is it
//! supported". FLOAT16 and BFLOAT16 are computed in f32 and rounded once.
//!
//! Integers wrap where NumPy wraps (sums, products, negation); what has no answer (division by zero, the smallest
//! integer divided by -1) is an error.

mod arithmetic;
mod binary;
mod broadcast;
mod dtypes;
mod erf;
mod functions;
mod power;
mod unary;

pub use arithmetic::Arithmetic;
pub use binary::{Binary, BinaryFn, ClipFn, ScaleFn, binary, clip, scale};
pub use power::{exponent_dtype, power};
pub use unary::{Unary, UnaryFn, unary};

pub(crate) use binary::scalar;
pub(crate) use broadcast::{map, zip, zip3};
pub(crate) use dtypes::typed;

use refeed_values::TensorError;
use thiserror::Error;

/// Why an elementwise computation has no result.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ElementwiseError {
    /// Operands do not broadcast to the output's shape.
    #[error("shape {got:?} does not broadcast to {expected:?}")]
    Shape {
        /// Shape of the output.
        expected: Vec<usize>,
        /// Shape of an operand.
        got: Vec<usize>,
    },
    /// An integer was divided by zero.
    #[error("integer division by zero, or of the smallest integer by -1")]
    Division,
    /// Zero was raised to a negative integer power.
    #[error("zero raised to a negative integer power")]
    Power,
    /// A largest element or a mean integer was asked for among no elements.
    #[error("no elements to reduce")]
    Empty,
    /// An operand that must have one element has another number of them.
    #[error("{operand}: expected one element, got {got}")]
    NotScalar {
        /// Which operand.
        operand: &'static str,
        /// Elements it has.
        got: usize,
    },
    /// An operand of another element type than the computation was chosen for.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

#[cfg(test)]
mod tests;
