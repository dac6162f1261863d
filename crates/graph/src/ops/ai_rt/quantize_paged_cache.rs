//! `ai.rt::QuantizePagedCache`: chosen pages of a cache under other codes or types, the rest as it was.

use super::cache;
use crate::ops::op;
use crate::ops::rules::{expect_dtype, ranked};
use crate::schema::{Arity, InferError, Inference, OpSchema};
use refeed_values::DType;

/// Element types of zero points: the storage of codes, or for dense pages their own type.
const TARGETS: [DType; 9] = [
    DType::Int8,
    DType::Uint8,
    DType::Int4,
    DType::Uint4,
    DType::Int2,
    DType::Uint2,
    DType::Float,
    DType::Float16,
    DType::Bfloat16,
];

fn quantize_paged_cache(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.attributes.finish()?;
    cache::page(cx, 0)?;
    expect_dtype(cx, 1, &[DType::Int64])?;
    ranked(cx, 1, 1)?;
    for (scale, zero_point) in [(2, 3), (4, 5)] {
        expect_dtype(cx, scale, &[DType::Float])?;
        expect_dtype(cx, zero_point, &TARGETS)?;
        ranked(cx, scale, 0)?;
        ranked(cx, zero_point, 0)?;
    }
    cx.same_as_input();
    Ok(())
}

pub(in crate::ops) const SCHEMAS: &[OpSchema] = &[op(
    "QuantizePagedCache",
    &[1],
    Arity::exactly(6),
    quantize_paged_cache,
)
.of(super::DOMAIN)];
