//! Normalisations.

use super::layout::{axes_of, axis_of};
use super::rules::{common_shape, merge, ranked, ranked_from, refused};
use super::{ONE, THREE, TWO, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
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

/// Input, weight of a run of its last axis, gate.
fn gated_norm(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype(0..3)?;
    common_shape(cx, [0, 2])?;
    ranked(cx, 1, 1)?;
    cx.same_as_input();
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

/// The extent of the channel axis, which the given one-axis inputs repeat.
fn channels(cx: &Inference<'_>, inputs: &[usize]) -> Result<Dim, InferError> {
    let mut held = match cx.shape(0) {
        None => Dim::Unknown,
        // One axis alone is a batch of one channel.
        Some([_]) => Dim::Known(1),
        Some([_, channels, ..]) => channels.clone(),
        Some([]) => {
            return refused("input 0: expected at least 1 axis, got 0".to_string());
        }
    };
    for &index in inputs {
        if let Some([extent]) = ranked(cx, index, 1)? {
            held = merge(&held, extent, "the number of channels")?;
        }
    }
    Ok(held)
}

/// Scale and bias have a number for each channel.
fn by_channel(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype(0..cx.input_count())?;
    ranked_from(cx, 0, 2)?;
    channels(cx, &[1, 2])?;
    cx.same_as_input();
    Ok(())
}

/// Scale and bias have a number for each channel; in the first version of the operator, for each group.
fn group_norm(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype(0..cx.input_count())?;
    ranked_from(cx, 0, 2)?;
    if cx.opset >= 21 {
        channels(cx, &[1, 2])?;
    }
    cx.same_as_input();
    Ok(())
}

/// Further outputs are statistics, a number for each channel: mean and variance, old ones and new.
fn batch_norm(cx: &mut Inference<'_>) -> Result<(), InferError> {
    // `spatial` 0 has a number for each element of a sample instead.
    let by_channel = cx.opset >= 9 || cx.attributes.int_or("spatial", 1)? != 0;
    let statistics = match by_channel {
        true => Some(vec![channels(cx, &[1, 2, 3, 4])?]),
        false => cx.shape(3).map(<[Dim]>::to_vec),
    };
    cx.same_as_input();
    for (output, input) in [(1, 3), (2, 4), (3, 3), (4, 4)] {
        cx.set(output, cx.dtype(input), statistics.clone());
    }
    Ok(())
}

/// Sums over neighbouring channels.
fn local_response(cx: &mut Inference<'_>) -> Result<(), InferError> {
    ranked_from(cx, 0, 2)?;
    cx.same_as_input();
    Ok(())
}

/// Mean and variance are taken over `axes`.
fn mean_variance(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axes = cx.attributes.ints("axes")?.unwrap_or(&[0, 2, 3]);
    if let Some(shape) = cx.shape(0) {
        axes_of(axes, shape.len())?;
    }
    cx.same_as_input();
    Ok(())
}

const MICROSOFT: &str = "com.microsoft";
const LAYER: &[Attr] = &[
    Attr::int("axis"),
    Attr::float("epsilon"),
    Attr::int("stash_type"),
];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op(
        "LayerNormalization",
        &[17],
        Arity::between(2, 3),
        layer_norm,
    )
    .outputs(Arity::between(1, 3))
    .attributes(LAYER),
    op("RMSNormalization", &[23], TWO, layer_norm).attributes(LAYER),
    op("SimplifiedLayerNormalization", &[1], TWO, layer_norm)
        .outputs(Arity::between(1, 2))
        .attributes(LAYER),
    op("SimplifiedLayerNormalization", &[1], TWO, layer_norm)
        .of(MICROSOFT)
        .outputs(Arity::between(1, 2))
        .attributes(LAYER),
    op(
        "SkipSimplifiedLayerNormalization",
        &[1],
        Arity::between(3, 4),
        skip_norm,
    )
    .of(MICROSOFT)
    .outputs(Arity::between(1, 4))
    .attributes(&[Attr::float("epsilon")]),
    op(
        "SkipLayerNormalization",
        &[1],
        Arity::between(3, 5),
        skip_norm,
    )
    .of(MICROSOFT)
    .outputs(Arity::between(1, 4))
    .attributes(&[Attr::float("epsilon")]),
    op("GatedRMSNorm", &[1], THREE, gated_norm)
        .of(MICROSOFT)
        .attributes(&[Attr::string("activation"), Attr::float("epsilon")]),
    op("LpNormalization", &[1, 22], ONE, along_axis)
        .attributes(&[Attr::int("axis"), Attr::int("p")]),
    op("MeanVarianceNormalization", &[9, 13], ONE, mean_variance).attributes(&[Attr::ints("axes")]),
    op("LRN", &[1, 13], ONE, local_response).attributes(&[
        Attr::float("alpha"),
        Attr::float("beta"),
        Attr::float("bias"),
        Attr::int("size").required(),
    ]),
    op(
        "BatchNormalization",
        &[1, 6, 7, 9, 14, 15],
        Arity::exactly(5),
        batch_norm,
    )
    .outputs(Arity::between(1, 5))
    .attributes(&[
        Attr::ints("consumed_inputs"),
        Attr::float("epsilon"),
        Attr::int("is_test"),
        Attr::float("momentum"),
        Attr::int("spatial"),
        Attr::int("training_mode"),
    ]),
    op("InstanceNormalization", &[1, 6, 22], THREE, by_channel)
        .attributes(&[Attr::ints("consumed_inputs"), Attr::float("epsilon")]),
    op("GroupNormalization", &[18, 21], THREE, group_norm).attributes(&[
        Attr::float("epsilon"),
        Attr::int("num_groups").required(),
        Attr::int("stash_type"),
    ]),
];
