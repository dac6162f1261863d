//! Between FLOAT rows and what pages of a cache keep: FLOAT, FLOAT16, BFLOAT16, or affine codes of 2, 4 or 8 bits.
//!
//! A payload is `[batch, heads, capacity, width]`; the first rows of each `batch x head` slice are valid, the rest is
//! room. Decoding reads valid rows only. Encoding writes every byte: rows without a token hold what 0 is in the format.
//!
//! Codes: `real = (code - zero_point) * scale` in f64, then narrowed. Encoding divides, rounds ties to even, adds the
//! zero point and saturates, so that what does not saturate is off by at most half a scale. Packing is that of ONNX:
//! element 0 in the low bits of byte 0, two's complement, zeros past the last code.
//! (<https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>)
//!
//! These are plain loops, one element after the other: the definition that faster kernels are held to.

mod decode;
mod encode;
mod format;
mod linear;
mod parameters;
#[cfg(test)]
mod tests;

pub use decode::Payload;
pub use encode::{Division, Rows, encode, quantize};
pub use format::{Format, Storage};
pub use linear::{
    INTEGERS, ScaleAndZero, Spread, dequantize_linear, dynamic_parameters, quantize_linear,
    quantize_rows,
};
pub use parameters::Parameters;

use refeed_values::TensorError;
use refeed_values::encoded::EncodedError;
use thiserror::Error;

/// Why rows cannot be decoded or encoded.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A payload, parameter or number is not as the conversion asks for.
    #[error("{part}: expected {expected}, got {got}")]
    Part {
        /// Which one: `payload`, `scale`, `zero_point`, ...
        part: &'static str,
        /// What is asked for.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The parts do not make an encoded value.
    #[error(transparent)]
    Encoded(#[from] EncodedError),
    /// Memory or layout of a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl QuantizeError {
    pub(crate) fn part(
        part: &'static str,
        expected: impl Into<String>,
        got: impl ToString,
    ) -> QuantizeError {
        QuantizeError::Part {
            part,
            expected: expected.into(),
            got: got.to_string(),
        }
    }
}
