//! `Concat`.

use super::arithmetic;
use super::layout::axis_of;
use super::rules::{merge, refused};
use super::{MANY, op};
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

fn concat(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let count = cx.input_count();
    let dtype = cx.same_dtype(0..count)?;
    let axis = match cx.opset {
        ..4 => cx.attributes.int_or("axis", 1)?,
        _ => cx.attributes.required_int("axis")?,
    };
    let Some(rank) = (0..count).find_map(|index| Some(cx.shape(index)?.len())) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let axis = axis_of(axis, rank)?;
    let mut out = vec![Dim::Unknown; rank];
    let mut total = Dim::Known(0);
    for index in 0..count {
        let Some(shape) = cx.shape(index) else {
            total = Dim::Unknown;
            continue;
        };
        if shape.len() != rank {
            let got = shape.len();
            return refused(format!("input {index} has {got} axes, others {rank}"));
        }
        for (at, dim) in shape.iter().enumerate() {
            if at == axis {
                total = total.plus(dim);
            } else {
                out[at] = merge(&out[at], dim, &format!("axis {at} of input {index}"))?;
            }
        }
    }
    out[axis] = total;
    if rank == 1 {
        cx.set_value(0, arithmetic::joined(cx));
    }
    cx.set(0, dtype, Some(out));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] =
    &[op("Concat", &[1, 4, 11, 13], MANY, concat).attributes(&[Attr::int("axis")])];
