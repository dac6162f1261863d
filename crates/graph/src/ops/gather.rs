//! Operators that pick elements by index.

use super::arithmetic;
use super::layout::axis_of;
use super::rules::{extent, input_extent};
use super::{ONE, THREE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema, normalize_axis};
use crate::types::Dim;
use refeed_values::DType;

fn gather(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", 0)?;
    let mut out = None;
    if let Some(shape) = cx.shape(0) {
        let axis = axis_of(axis, shape.len())?;
        if let Some(indices) = cx.shape(1) {
            out = Some([&shape[..axis], indices, &shape[axis + 1..]].concat());
        }
    }
    if cx.shape(0).is_some_and(|shape| shape.len() == 1) {
        cx.set_value(0, arithmetic::gathered(cx));
    }
    let dtype = cx.dtype(0);
    cx.set(0, dtype, out);
    Ok(())
}

fn gather_elements(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", 0)?;
    if let Some(shape) = cx.shape(0) {
        axis_of(axis, shape.len())?;
    }
    let (dtype, shape) = (cx.dtype(0), cx.shape(1).map(<[Dim]>::to_vec));
    cx.set(0, dtype, shape);
    Ok(())
}

fn gather_nd(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let batch = cx.attributes.int_or("batch_dims", 0)?;
    let batch = usize::try_from(batch).map_err(|_| AttributeError::Value {
        name: "batch_dims",
        expected: "at least 0",
        got: batch.to_string(),
    })?;
    let mut out = None;
    if let (Some(data), Some(indices)) = (cx.shape(0), cx.shape(1)) {
        if batch >= data.len().min(indices.len()) {
            return Err(InferError::Shape(format!(
                "batch_dims {batch} leaves no axis to index"
            )));
        }
        if let Some(Dim::Known(depth)) = indices.last() {
            let Some(kept) = depth.checked_add(batch).and_then(|from| data.get(from..)) else {
                let rank = data.len();
                return Err(InferError::Shape(format!(
                    "{depth} indices for {batch} batch axes of {rank}"
                )));
            };
            out = Some([&indices[..indices.len() - 1], kept].concat());
        }
    }
    let dtype = cx.dtype(0);
    cx.set(0, dtype, out);
    Ok(())
}

fn top_k(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", -1)?;
    let k = match cx.opset {
        ..10 => extent(Some(cx.attributes.required_int("k")?), "k")?,
        _ => input_extent(cx, 1, "K")?,
    };
    let mut out = None;
    if let Some(shape) = cx.shape(0) {
        let axis = axis_of(axis, shape.len())?;
        let mut dims = shape.to_vec();
        dims[axis] = k;
        out = Some(dims);
    }
    let dtype = cx.dtype(0);
    cx.set(0, dtype, out.clone());
    cx.set(1, Some(DType::Int64), out);
    Ok(())
}

fn non_zero(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let rank = cx
        .shape(0)
        .map_or(Dim::Unknown, |shape| Dim::Known(shape.len()));
    cx.set(0, Some(DType::Int64), Some(vec![rank, Dim::Unknown]));
    Ok(())
}

fn one_hot(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", -1)?;
    let depth = input_extent(cx, 1, "depth")?;
    let mut out = None;
    if let Some(indices) = cx.shape(0) {
        let rank = indices.len() + 1;
        let axis = normalize_axis(axis, rank).ok_or_else(|| {
            InferError::Shape(format!(
                "axis: expected a value in [-{rank}, {rank}), got {axis}"
            ))
        })?;
        let mut dims = indices.to_vec();
        dims.insert(axis, depth);
        out = Some(dims);
    }
    let dtype = cx.dtype(2);
    cx.set(0, dtype, out);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Gather", &[1, 11, 13], TWO, gather).attributes(&[Attr::int("axis")]),
    op("GatherElements", &[11, 13], TWO, gather_elements).attributes(&[Attr::int("axis")]),
    op("GatherND", &[11, 12, 13], TWO, gather_nd).attributes(&[Attr::int("batch_dims")]),
    op("TopK", &[1, 10, 11, 24], Arity::between(1, 2), top_k)
        .outputs(TWO)
        .attributes(&[
            Attr::int("axis"),
            Attr::int("k"),
            Attr::int("largest"),
            Attr::int("sorted"),
        ]),
    op("NonZero", &[9, 13], ONE, non_zero),
    op("OneHot", &[9, 11, 28], THREE, one_hot).attributes(&[Attr::int("axis")]),
];
