//! Reductions over axes, and sums, searches and normalised exponentials along one axis.

use super::layout::{axes_of, axis_of};
use crate::schema::{Arity, Attr, InferError, InferFn, Inference, OpSchema};
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
        None => None,
    };
    cx.set(0, dtype, out);
    Ok(())
}

fn reduce_sum(cx: &mut Inference<'_>) -> Result<(), InferError> {
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

fn cum_sum(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_as_input();
    Ok(())
}

const fn op(
    op_type: &'static str,
    since: &'static [i64],
    inputs: Arity,
    attributes: &'static [Attr],
    infer: InferFn,
) -> OpSchema {
    OpSchema {
        domain: "",
        op_type,
        since,
        inputs,
        outputs: Arity::exactly(1),
        attributes,
        infer,
    }
}

const ONE: Arity = Arity::exactly(1);
const AXES: Arity = Arity::between(1, 2);
const REDUCED: &[Attr] = &[
    Attr::ints("axes"),
    Attr::int("keepdims"),
    Attr::int("noop_with_empty_axes"),
];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("ReduceSum", &[1, 11, 13], AXES, REDUCED, reduce_sum),
    op("ReduceMean", &[1, 11, 13, 18], AXES, REDUCED, reduce_other),
    op(
        "ReduceMax",
        &[1, 11, 12, 13, 18, 20],
        AXES,
        REDUCED,
        reduce_other,
    ),
    op(
        "ReduceMin",
        &[1, 11, 12, 13, 18, 20],
        AXES,
        REDUCED,
        reduce_other,
    ),
    op("ReduceProd", &[1, 11, 13, 18], AXES, REDUCED, reduce_other),
    op(
        "ArgMax",
        &[1, 11, 12, 13],
        ONE,
        &[
            Attr::int("axis"),
            Attr::int("keepdims"),
            Attr::int("select_last_index"),
        ],
        arg_max,
    ),
    op(
        "CumSum",
        &[11, 14],
        Arity::exactly(2),
        &[Attr::int("exclusive"), Attr::int("reverse")],
        cum_sum,
    ),
    op("Softmax", &[1, 11, 13], ONE, &[Attr::int("axis")], softmax),
    op(
        "LogSoftmax",
        &[1, 11, 13],
        ONE,
        &[Attr::int("axis")],
        softmax,
    ),
];
