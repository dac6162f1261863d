//! Normalisations.

use super::layout::axis_of;
use crate::schema::{Arity, Attr, InferError, InferFn, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// The shape of per-row statistics: extents before `axis`, ones from there on.
fn statistics(shape: &[Dim], axis: usize) -> Vec<Dim> {
    let kept = |(at, dim): (usize, &Dim)| {
        if at < axis {
            dim.clone()
        } else {
            Dim::Known(1)
        }
    };
    shape.iter().enumerate().map(kept).collect()
}

/// Element type of `Mean` and `InvStdDev`, which `stash_type` names.
fn stash(cx: &Inference<'_>) -> Result<Option<DType>, InferError> {
    let number = cx.attributes.int_or("stash_type", 1)?;
    Ok(i32::try_from(number).ok().and_then(DType::from_onnx))
}

/// Outputs 1 and 2 are statistics of each row; the simplified form has one, the inverse of the root mean square.
fn layer_norm(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_as_input();
    let axis = cx.attributes.int_or("axis", -1)?;
    let stash = stash(cx)?;
    let mut rows = None;
    if let Some(shape) = cx.shape(0) {
        rows = Some(statistics(shape, axis_of(axis, shape.len())?));
    }
    cx.set(1, stash, rows.clone());
    cx.set(2, stash, rows);
    Ok(())
}

/// `com.microsoft` norms of a sum: output 1 and 2 are statistics, output 3 the sum.
fn skip_norm(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype(0..cx.input_count())?;
    cx.same_as_input();
    let rows = cx
        .shape(0)
        .and_then(|shape| Some(statistics(shape, shape.len().checked_sub(1)?)));
    cx.set(1, Some(DType::Float), rows.clone());
    cx.set(2, Some(DType::Float), rows);
    let ty = cx.input(0).cloned().unwrap_or_default();
    cx.set(3, ty.dtype, ty.shape);
    Ok(())
}

fn along_axis(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", -1)?;
    if let Some(shape) = cx.shape(0) {
        axis_of(axis, shape.len())?;
    }
    cx.same_as_input();
    Ok(())
}

/// Output 0 as input 0: the channel of input 0 stands at axis 1.
fn by_channel(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if let Some(rank) = cx.shape(0).map(<[Dim]>::len)
        && rank < 2
        && !(rank == 1 && cx.input_count() == 5)
    {
        return Err(InferError::Shape(format!(
            "input 0: expected at least 2 axes, got {rank}"
        )));
    }
    cx.same_as_input();
    Ok(())
}

const fn op(
    domain: &'static str,
    op_type: &'static str,
    since: &'static [i64],
    inputs: Arity,
    outputs: usize,
    attributes: &'static [Attr],
    infer: InferFn,
) -> OpSchema {
    let outputs = Arity::between(1, outputs);
    OpSchema {
        domain,
        op_type,
        since,
        inputs,
        outputs,
        attributes,
        infer,
    }
}

const MICROSOFT: &str = "com.microsoft";
const LAYER: &[Attr] = &[
    Attr::int("axis"),
    Attr::float("epsilon"),
    Attr::int("stash_type"),
];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op(
        "",
        "LayerNormalization",
        &[17],
        Arity::between(2, 3),
        3,
        LAYER,
        layer_norm,
    ),
    op(
        "",
        "RMSNormalization",
        &[23],
        Arity::exactly(2),
        1,
        LAYER,
        layer_norm,
    ),
    op(
        "",
        "SimplifiedLayerNormalization",
        &[1],
        Arity::exactly(2),
        2,
        LAYER,
        layer_norm,
    ),
    op(
        MICROSOFT,
        "SimplifiedLayerNormalization",
        &[1],
        Arity::exactly(2),
        2,
        LAYER,
        layer_norm,
    ),
    op(
        MICROSOFT,
        "SkipSimplifiedLayerNormalization",
        &[1],
        Arity::between(3, 4),
        4,
        &[Attr::float("epsilon")],
        skip_norm,
    ),
    op(
        MICROSOFT,
        "SkipLayerNormalization",
        &[1],
        Arity::between(3, 5),
        4,
        &[Attr::float("epsilon")],
        skip_norm,
    ),
    op(
        "",
        "LpNormalization",
        &[1, 22],
        Arity::exactly(1),
        1,
        &[Attr::int("axis"), Attr::int("p")],
        along_axis,
    ),
    op(
        "",
        "BatchNormalization",
        &[7, 9, 14, 15],
        Arity::exactly(5),
        5,
        &[
            Attr::float("epsilon"),
            Attr::float("momentum"),
            Attr::int("spatial"),
            Attr::int("training_mode"),
        ],
        by_channel,
    ),
    op(
        "",
        "InstanceNormalization",
        &[6, 22],
        Arity::exactly(3),
        1,
        &[Attr::float("epsilon")],
        by_channel,
    ),
    op(
        "",
        "GroupNormalization",
        &[18, 21],
        Arity::exactly(3),
        1,
        &[
            Attr::float("epsilon"),
            Attr::int("num_groups").required(),
            Attr::int("stash_type"),
        ],
        by_channel,
    ),
];
