//! Operators whose output holds some of the input's elements, as the values say.

use super::layout::axis_of;
use super::rules::{expect_dtype, ranked, ranked_from};
use super::{ONE, TWO, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// The different values, or the different slices along an axis.
fn unique(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let mut inverse = Dim::Unknown;
    let out = match (cx.attributes.int("axis")?, cx.shape(0)) {
        (None, shape) => {
            if let Some(shape) = shape {
                inverse = Dim::product(shape);
            }
            Some(vec![Dim::Unknown])
        }
        (Some(axis), Some(shape)) => {
            let axis = axis_of(axis, shape.len())?;
            inverse = shape[axis].clone();
            let mut out = shape.to_vec();
            out[axis] = Dim::Unknown;
            Some(out)
        }
        (Some(_), None) => None,
    };
    cx.set(0, cx.dtype(0), out);
    let int64 = Some(DType::Int64);
    cx.set(1, int64, Some(vec![Dim::Unknown]));
    cx.set(2, int64, Some(vec![inverse]));
    cx.set(3, int64, Some(vec![Dim::Unknown]));
    Ok(())
}

/// The slices along an axis, or the elements, where the condition holds.
fn compress(cx: &mut Inference<'_>) -> Result<(), InferError> {
    expect_dtype(cx, 1, &[DType::Bool])?;
    ranked(cx, 1, 1)?;
    let x = ranked_from(cx, 0, 1)?;
    let out = match (cx.attributes.int("axis")?, x) {
        (None, _) => Some(vec![Dim::Unknown]),
        (Some(axis), Some(x)) => {
            let mut out = x.to_vec();
            out[axis_of(axis, x.len())?] = Dim::Unknown;
            Some(out)
        }
        (Some(_), None) => None,
    };
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Unique", &[11, 28], ONE, unique)
        .outputs(Arity::between(1, 4))
        .attributes(&[Attr::int("axis"), Attr::int("sorted")]),
    op("Compress", &[9, 11, 28], TWO, compress).attributes(&[Attr::int("axis")]),
];
