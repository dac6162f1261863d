//! Copies that share no payload.

use super::{Affine, Encoded, EncodedValue, Encoding};
use crate::{Allocator, Tensor, TensorError};
use std::sync::Arc;

impl EncodedValue {
    /// As [`crate::RuntimeValue::deep_copy`]: codes, scales and zero points in new memory; struct type, shared parameters and
    /// declaration shared.
    pub(crate) fn deep_copy(&self, allocator: &Allocator) -> Result<EncodedValue, TensorError> {
        let copy = |tensor: &Tensor| tensor.to_dense(allocator);
        let encoding = match &self.0.encoding {
            Encoding::Struct(declared) => Encoding::Struct(declared.clone()),
            Encoding::Affine(affine) => Encoding::Affine(Affine {
                scale: copy(&affine.scale)?,
                zero_point: affine.zero_point.as_ref().map(copy).transpose()?,
                ..affine.clone()
            }),
        };
        Ok(EncodedValue(Arc::new(Encoded {
            encoding,
            payload: copy(&self.0.payload)?,
            ..(*self.0).clone()
        })))
    }
}
