//! `Gemm`.

use super::op;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

fn gemm(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype(0..cx.input_count())?;
    let (trans_a, trans_b) = (
        cx.attributes.int_or("transA", 0)? != 0,
        cx.attributes.int_or("transB", 0)? != 0,
    );
    let pair = |index: usize, turned: bool| match cx.shape(index) {
        None => Ok((Dim::Unknown, Dim::Unknown)),
        Some([rows, columns]) if turned => Ok((columns.clone(), rows.clone())),
        Some([rows, columns]) => Ok((rows.clone(), columns.clone())),
        Some(other) => Err(InferError::Shape(format!(
            "input {index}: expected 2 axes, got {}",
            other.len()
        ))),
    };
    let ((m, k), (k2, n)) = (pair(0, trans_a)?, pair(1, trans_b)?);
    if let (Dim::Known(left), Dim::Known(right)) = (k, k2)
        && left != right
    {
        return Err(InferError::Shape(format!(
            "rows of {left} elements meet columns of {right}"
        )));
    }
    cx.set(0, dtype, Some(vec![m, n]));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] =
    &[
        op("Gemm", &[1, 6, 7, 9, 11, 13], Arity::between(2, 3), gemm).attributes(&[
            Attr::float("alpha"),
            Attr::float("beta"),
            Attr::int("broadcast"),
            Attr::int("transA"),
            Attr::int("transB"),
        ]),
    ];
