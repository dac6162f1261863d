//! Values in an encoded form: quantised tensors with their scales, and records laid out bit by bit.

use crate::{DType, Tensor};
use std::sync::Arc;

/// How the codes of a quantised tensor become numbers: `(code - zero point) * scale`.
#[derive(Debug, Clone)]
pub struct Affine {
    /// Element type of the codes: INT8, UINT8, INT4, UINT4, INT2 or UINT2.
    pub storage: DType,
    /// One number, one a coordinate of `axis`, or one a block along `axis`.
    pub scale: Tensor,
    /// Of the scale's shape and the storage's type; absent means 0.
    pub zero_point: Option<Tensor>,
    /// The axis that the parameters vary along, counted from the front; absent for one scale a tensor.
    pub axis: Option<usize>,
    /// Elements of `axis` that share a parameter, when they come in blocks.
    pub block_size: Option<usize>,
}

/// What a payload's bytes mean.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Encoding {
    /// Codes of a quantised tensor.
    Affine(Affine),
}

#[derive(Debug)]
struct Encoded {
    encoding: Encoding,
    logical: (DType, Box<[usize]>),
    payload: Tensor,
}

/// An immutable value in an encoded form. Cloning shares the payload and the parameters.
#[derive(Debug, Clone)]
pub struct EncodedValue(Arc<Encoded>);

impl EncodedValue {
    /// Joins a checked encoding, the decoded type and shape, and the payload's bytes.
    pub fn from_parts(
        encoding: Encoding,
        dtype: DType,
        shape: &[usize],
        payload: Tensor,
    ) -> EncodedValue {
        EncodedValue(Arc::new(Encoded {
            encoding,
            logical: (dtype, shape.into()),
            payload,
        }))
    }

    /// What the bytes mean.
    pub fn encoding(&self) -> &Encoding {
        &self.0.encoding
    }

    /// Element type after decoding.
    pub fn dtype(&self) -> DType {
        self.0.logical.0
    }

    /// Extents after decoding.
    pub fn shape(&self) -> &[usize] {
        &self.0.logical.1
    }

    /// The bytes: UINT8, one axis.
    pub fn payload(&self) -> &Tensor {
        &self.0.payload
    }
}
