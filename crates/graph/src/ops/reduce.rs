//! Reductions over axes, and sums, searches and normalised exponentials along one axis.

use super::arithmetic;
use super::layout::{axes_of, axis_of};
use super::rules::{constant_int, ranked_from};
use super::{ONE, TWO, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::shape_inference::DimExpr;
use crate::types::Dim;
use refeed_values::DType;

/// The opset version from which a reduction takes its axes as an input.
pub fn axes_input_since(op_type: &str) -> i64 {
    if op_type == "ReduceSum" { 13 } else { 18 }
}

/// The dimensions that are left of `shape` when `axes` are reduced.
fn without(shape: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let all = shape.iter().enumerate();
    if keep {
        return all
            .map(|(axis, dim)| {
                if axes.contains(&axis) {
                    Dim::Known(1)
                } else {
                    dim.clone()
                }
            })
            .collect();
    }
    all.filter(|(axis, _)| !axes.contains(axis))
        .map(|(_, dim)| dim.clone())
        .collect()
}

fn reduce(cx: &mut Inference<'_>, axes_input_since: i64) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let keep = cx.attributes.flag("keepdims", true)?;
    let noop = cx.attributes.flag("noop_with_empty_axes", false)?;
    let Some(shape) = cx.shape(0) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let axes = if cx.opset < axes_input_since {
        Some(cx.attributes.ints("axes")?.unwrap_or_default().to_vec())
    } else if cx.has(1) {
        cx.constant_ints(1)
    } else {
        Some(Vec::new())
    };
    let out = match axes {
        Some(axes) if axes.is_empty() && noop => Some(shape.to_vec()),
        Some(axes) if axes.is_empty() => {
            let all: Vec<usize> = (0..shape.len()).collect();
            Some(without(shape, &all, keep))
        }
        Some(axes) => Some(without(shape, &axes_of(&axes, shape.len())?, keep)),
        None if keep => Some(vec![Dim::Unknown; shape.len()]),
        // The axes are different ones, so their number alone tells the rank that is left.
        None => match cx.shape(1) {
            Some([Dim::Known(count)]) if *count > 0 => shape
                .len()
                .checked_sub(*count)
                .map(|rank| vec![Dim::Unknown; rank]),
            _ => None,
        },
    };
    cx.set(0, dtype, out);
    Ok(())
}

/// A reduction of the one axis of a value of shape arithmetic.
fn reduce_value(
    cx: &mut Inference<'_>,
    f: fn(&DimExpr, &DimExpr) -> Option<DimExpr>,
) -> Result<(), InferError> {
    let keep = cx.attributes.flag("keepdims", true)?;
    let noop = cx.attributes.flag("noop_with_empty_axes", false)?;
    if cx.shape(0).is_some_and(|shape| shape.len() == 1) && !noop {
        cx.set_value(0, arithmetic::reduced(cx, f, usize::from(keep)));
    }
    Ok(())
}

fn reduce_prod(cx: &mut Inference<'_>) -> Result<(), InferError> {
    reduce_value(cx, DimExpr::times)?;
    reduce_other(cx)
}

fn reduce_max(cx: &mut Inference<'_>) -> Result<(), InferError> {
    reduce_value(cx, DimExpr::larger)?;
    reduce_other(cx)
}

fn reduce_min(cx: &mut Inference<'_>) -> Result<(), InferError> {
    reduce_value(cx, DimExpr::smaller)?;
    reduce_other(cx)
}

fn reduce_sum(cx: &mut Inference<'_>) -> Result<(), InferError> {
    reduce_value(cx, DimExpr::plus)?;
    reduce(cx, axes_input_since("ReduceSum"))
}

fn reduce_other(cx: &mut Inference<'_>) -> Result<(), InferError> {
    reduce(cx, axes_input_since(""))
}

fn arg_max(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let keep = cx.attributes.flag("keepdims", true)?;
    let axis = cx.attributes.int_or("axis", 0)?;
    let out = match cx.shape(0) {
        None => None,
        Some(shape) => Some(without(shape, &[axis_of(axis, shape.len())?], keep)),
    };
    cx.set(0, Some(DType::Int64), out);
    Ok(())
}

fn softmax(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx
        .attributes
        .int_or("axis", if cx.opset < 13 { 1 } else { -1 })?;
    if let Some(rank) = cx.shape(0).map(<[Dim]>::len) {
        // Before opset 13 the axis splits the shape in two, and may stand at its end; a scalar has no axis but is
        // normalised all the same.
        let split = cx.opset < 13 && usize::try_from(axis) == Ok(rank);
        if !split && rank > 0 {
            axis_of(axis, rank)?;
        }
    }
    cx.same_as_input();
    Ok(())
}

/// Running sums and products along the axis at input 1.
fn running(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = ranked_from(cx, 0, 1)?;
    if let (Some(shape), Some(axis)) = (shape, constant_int(cx, 1)) {
        axis_of(axis, shape.len())?;
    }
    cx.same_as_input();
    Ok(())
}

const AXES: Arity = Arity::between(1, 2);
const REDUCED: &[Attr] = &[
    Attr::ints("axes"),
    Attr::int("keepdims"),
    Attr::int("noop_with_empty_axes"),
];
const FOUND: &[Attr] = &[
    Attr::int("axis"),
    Attr::int("keepdims"),
    Attr::int("select_last_index"),
];
const RUNNING: &[Attr] = &[Attr::int("exclusive"), Attr::int("reverse")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("ReduceSum", &[1, 11, 13], AXES, reduce_sum).attributes(REDUCED),
    op("ReduceMean", &[1, 11, 13, 18], AXES, reduce_other).attributes(REDUCED),
    op("ReduceMax", &[1, 11, 12, 13, 18, 20], AXES, reduce_max).attributes(REDUCED),
    op("ReduceMin", &[1, 11, 12, 13, 18, 20], AXES, reduce_min).attributes(REDUCED),
    op("ReduceProd", &[1, 11, 13, 18], AXES, reduce_prod).attributes(REDUCED),
    op("ReduceL1", &[1, 11, 13, 18], AXES, reduce_other).attributes(REDUCED),
    op("ReduceL2", &[1, 11, 13, 18], AXES, reduce_other).attributes(REDUCED),
    op("ReduceSumSquare", &[1, 11, 13, 18], AXES, reduce_other).attributes(REDUCED),
    op("ReduceLogSum", &[1, 11, 13, 18, 28], AXES, reduce_other).attributes(REDUCED),
    op("ReduceLogSumExp", &[1, 11, 13, 18, 28], AXES, reduce_other).attributes(REDUCED),
    op("ArgMax", &[1, 11, 12, 13], ONE, arg_max).attributes(FOUND),
    op("ArgMin", &[1, 11, 12, 13], ONE, arg_max).attributes(FOUND),
    op("CumSum", &[11, 14], TWO, running).attributes(RUNNING),
    op("CumProd", &[26], TWO, running).attributes(RUNNING),
    op("Softmax", &[1, 11, 13], ONE, softmax).attributes(&[Attr::int("axis")]),
    op("LogSoftmax", &[1, 11, 13], ONE, softmax).attributes(&[Attr::int("axis")]),
    op("Hardmax", &[1, 11, 13], ONE, softmax).attributes(&[Attr::int("axis")]),
];
