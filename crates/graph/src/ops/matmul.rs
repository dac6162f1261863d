//! `MatMul`.

use crate::schema::{Arity, InferError, Inference, OpSchema};
use crate::types::Dim;

fn matmul(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1])?;
    let (Some(a), Some(b)) = (cx.shape(0), cx.shape(1)) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    if a.is_empty() || b.is_empty() {
        return Err(InferError::Shape("a scalar is no matrix".to_string()));
    }
    let inner = (&a[a.len() - 1], &b[b.len().saturating_sub(2)]);
    if let (Dim::Known(left), Dim::Known(right)) = inner
        && left != right
    {
        return Err(InferError::Shape(format!(
            "rows of {left} elements meet columns of {right}"
        )));
    }
    let lead = |shape: &[Dim]| shape[..shape.len().saturating_sub(2)].to_vec();
    let mut out = batch(&lead(a), &lead(b))?;
    if a.len() > 1 {
        out.push(a[a.len() - 2].clone());
    }
    if b.len() > 1 {
        out.push(b[b.len() - 1].clone());
    }
    cx.set(0, dtype, Some(out));
    Ok(())
}

fn batch(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let rank = a.len().max(b.len());
    let at = |shape: &[Dim], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own].clone(),
        None => Dim::Known(1),
    };
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => Ok(x),
            (Dim::Known(1), other) | (other, Dim::Known(1)) => Ok(other),
            (Dim::Known(x), Dim::Known(y)) => Err(InferError::Shape(format!(
                "batch axis {axis}: {x} does not broadcast with {y}"
            ))),
            (Dim::Known(n), _) | (_, Dim::Known(n)) => Ok(Dim::Known(n)),
            _ => Ok(Dim::Unknown),
        })
        .collect()
}

pub(super) const SCHEMAS: &[OpSchema] = &[OpSchema {
    domain: "",
    op_type: "MatMul",
    since: &[1, 9, 13],
    inputs: Arity::exactly(2),
    outputs: Arity::exactly(1),
    attributes: &[],
    infer: matmul,
}];
