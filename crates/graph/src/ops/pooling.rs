//! Pooling over windows and over whole channels, and its reverse.

use super::rules::{ranked, ranked_from, refused};
use super::window::{Sliding, dim, linear, numbers};
use super::{ONE, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// `kernel_shape`, which must be there.
fn kernel_shape(cx: &Inference<'_>, axes: usize) -> Result<Vec<Dim>, InferError> {
    if !cx.attributes.has("kernel_shape") {
        return Err(AttributeError::Missing {
            name: "kernel_shape",
        }
        .into());
    }
    let kernel = numbers(cx, "kernel_shape", axes, 1, 1)?;
    Ok(kernel.into_iter().map(|n| dim(i128::from(n))).collect())
}

/// The shape of a pooled input: batch and channels stay.
fn pooled(cx: &Inference<'_>) -> Result<Option<Vec<Dim>>, InferError> {
    let Some(x) = ranked_from(cx, 0, 3)? else {
        return Ok(None);
    };
    let axes = x.len() - 2;
    let kernel = kernel_shape(cx, axes)?;
    let sliding = Sliding::read(cx, axes)?;
    let mut out = x[..2].to_vec();
    for (axis, kernel) in kernel.iter().enumerate() {
        out.push(sliding.positions(axis, &x[2 + axis], kernel)?);
    }
    Ok(Some(out))
}

fn pool(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = pooled(cx)?;
    cx.set(0, cx.dtype(0), shape);
    Ok(())
}

/// The second output tells where each maximum was.
fn max_pool(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = pooled(cx)?;
    cx.set(0, cx.dtype(0), shape.clone());
    cx.set(1, Some(DType::Int64), shape);
    Ok(())
}

/// One window over all spatial axes.
fn global(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = ranked_from(cx, 0, 2)?.map(|x| {
        let mut out = x[..2].to_vec();
        out.resize(x.len(), Dim::Known(1));
        out
    });
    cx.set(0, cx.dtype(0), shape);
    Ok(())
}

/// The shape is given, or the one that the windows would have been taken from.
fn max_unpool(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let Some(x) = ranked_from(cx, 0, 3)? else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let axes = x.len() - 2;
    let kernel = kernel_shape(cx, axes)?;
    let sliding = Sliding::read(cx, axes)?;
    let out = if cx.has(2) {
        given_shape(cx, x.len())?
    } else {
        let mut out = x[..2].to_vec();
        for (axis, kernel) in kernel.iter().enumerate() {
            out.push(unpooled(&sliding, axis, &x[2 + axis], kernel)?);
        }
        out
    };
    cx.set(0, dtype, Some(out));
    Ok(())
}

fn given_shape(cx: &Inference<'_>, rank: usize) -> Result<Vec<Dim>, InferError> {
    let given = cx.dims(2)?.unwrap_or_else(|| vec![Dim::Unknown; rank]);
    if given.len() != rank {
        let got = given.len();
        return refused(format!("output_shape: expected {rank} numbers, got {got}"));
    }
    Ok(given)
}

fn unpooled(sliding: &Sliding, axis: usize, input: &Dim, kernel: &Dim) -> Result<Dim, InferError> {
    let Some(kernel) = kernel.known() else {
        return Ok(Dim::Unknown);
    };
    let (before, after) = sliding.padding(axis);
    let stride = i128::from(sliding.strides[axis]);
    let Some(input) = input.known() else {
        let more = kernel as i128 - before - after - stride;
        let extent = linear(input, sliding.strides[axis], more);
        return Ok(extent.map_or(Dim::Unknown, |extent| Dim::from_expr(&extent)));
    };
    let extent = stride * (input as i128 - 1) + kernel as i128 - before - after;
    if extent < 0 {
        return refused(format!(
            "spatial axis {axis}: {input} windows with these pads leave {extent} elements"
        ));
    }
    Ok(dim(extent))
}

/// Regions of interest, each pooled to `pooled_shape`.
fn max_roi_pool(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1])?;
    let x = ranked(cx, 0, 4)?;
    let rois = ranked(cx, 1, 2)?;
    if !cx.attributes.has("pooled_shape") {
        return Err(AttributeError::Missing {
            name: "pooled_shape",
        }
        .into());
    }
    let pooled = numbers(cx, "pooled_shape", 2, 1, 1)?;
    let mut shape = vec![
        rois.map_or(Dim::Unknown, |rois| rois[0].clone()),
        x.map_or(Dim::Unknown, |x| x[1].clone()),
    ];
    shape.extend(pooled.into_iter().map(|n| dim(i128::from(n))));
    cx.set(0, dtype, Some(shape));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("AveragePool", &[1, 7, 10, 11, 19, 22], ONE, pool).attributes(&[
        Attr::string("auto_pad"),
        Attr::int("ceil_mode"),
        Attr::int("count_include_pad"),
        Attr::ints("dilations"),
        Attr::ints("kernel_shape").required(),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ]),
    op("MaxPool", &[1, 8, 10, 11, 12, 22], ONE, max_pool)
        .outputs(Arity::between(1, 2))
        .attributes(&[
            Attr::string("auto_pad"),
            Attr::int("ceil_mode"),
            Attr::ints("dilations"),
            Attr::ints("kernel_shape").required(),
            Attr::ints("pads"),
            Attr::int("storage_order"),
            Attr::ints("strides"),
        ]),
    op("LpPool", &[1, 2, 11, 18, 22], ONE, pool).attributes(&[
        Attr::string("auto_pad"),
        Attr::int("ceil_mode"),
        Attr::ints("dilations"),
        Attr::ints("kernel_shape"),
        Attr::int("p"),
        Attr::float("p"),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ]),
    op("GlobalAveragePool", &[1, 22], ONE, global),
    op("GlobalMaxPool", &[1, 22], ONE, global),
    op("GlobalLpPool", &[1, 2, 22], ONE, global).attributes(&[Attr::int("p"), Attr::float("p")]),
    op("MaxUnpool", &[9, 11, 22], Arity::between(2, 3), max_unpool).attributes(&[
        Attr::ints("kernel_shape").required(),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ]),
    op("MaxRoiPool", &[1, 22], Arity::exactly(2), max_roi_pool).attributes(&[
        Attr::ints("pooled_shape").required(),
        Attr::float("spatial_scale"),
    ]),
];
