//! Resampling along axes: `Resize` and its forerunner `Upsample`.

use super::layout::axes_of;
use super::op;
use super::rules::{constant_floats, refused};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema, all_known};
use crate::types::Dim;

/// An extent after scaling, computed in single precision as the operator's page does.
fn scaled(dim: &Dim, scale: f32) -> Result<Dim, InferError> {
    if !scale.is_finite() || scale < 0.0 {
        return refused(format!("scales: expected positive numbers, got {scale}"));
    }
    Ok(match dim {
        Dim::Known(n) => {
            let extent = (*n as f32 * scale).floor();
            // Every float below 2^62 is an exact integer here.
            if extent < (1u64 << 62) as f32 {
                Dim::Known(extent as usize)
            } else {
                Dim::Unknown
            }
        }
        // Whole numbers scale a dimension whatever it is, as far as single precision is exact.
        dim if scale.fract() == 0.0 && scale < 65536.0 => dim.times(&Dim::Known(scale as usize)),
        _ => Dim::Unknown,
    })
}

/// The shape after scaling the given axes.
fn scaled_shape(x: &[Dim], axes: &[usize], scales: &[f32]) -> Result<Vec<Dim>, InferError> {
    if scales.len() != axes.len() {
        let (got, want) = (scales.len(), axes.len());
        return refused(format!("scales: expected {want} numbers, got {got}"));
    }
    let mut out = x.to_vec();
    for (&axis, &scale) in axes.iter().zip(scales) {
        out[axis] = scaled(&x[axis], scale)?;
    }
    Ok(out)
}

/// How `sizes` are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

impl Policy {
    fn read(cx: &Inference<'_>) -> Result<Policy, InferError> {
        match cx.attributes.string("keep_aspect_ratio_policy")? {
            None | Some("stretch") => Ok(Policy::Stretch),
            Some("not_larger") => Ok(Policy::NotLarger),
            Some("not_smaller") => Ok(Policy::NotSmaller),
            Some(other) => Err(AttributeError::Value {
                name: "keep_aspect_ratio_policy",
                expected: "stretch, not_larger or not_smaller",
                got: other.to_string(),
            }
            .into()),
        }
    }
}

/// The shape when `sizes` are asked for along the given axes.
fn sized_shape(
    x: &[Dim],
    axes: &[usize],
    sizes: &[Dim],
    policy: Policy,
) -> Result<Vec<Dim>, InferError> {
    if sizes.len() != axes.len() {
        let (got, want) = (sizes.len(), axes.len());
        return refused(format!("sizes: expected {want} numbers, got {got}"));
    }
    let mut out = x.to_vec();
    if policy == Policy::Stretch {
        for (&axis, size) in axes.iter().zip(sizes) {
            out[axis] = size.clone();
        }
        return Ok(out);
    }
    let known: Option<Vec<usize>> = axes.iter().map(|&axis| x[axis].known()).collect();
    let known = known.filter(|known| !known.contains(&0));
    let (Some(known), Some(sizes)) = (known, all_known(sizes)) else {
        for &axis in axes {
            out[axis] = Dim::Unknown;
        }
        return Ok(out);
    };
    let ratios = known
        .iter()
        .zip(sizes)
        .map(|(&n, size)| size as f32 / n as f32);
    let scale = match policy {
        Policy::NotLarger => ratios.fold(f32::MAX, f32::min),
        _ => ratios.fold(0.0, f32::max),
    };
    for (&axis, &n) in axes.iter().zip(&known) {
        let extent = (scale * n as f32).round();
        out[axis] = if extent < (1u64 << 62) as f32 {
            Dim::Known(extent as usize)
        } else {
            Dim::Unknown
        };
    }
    Ok(out)
}

/// An input that is there and is not an empty list, which some writers use for an absent one.
fn given(cx: &Inference<'_>, index: usize) -> bool {
    cx.has(index) && cx.shape(index) != Some(&[Dim::Known(0)])
}

/// Source: ONNX `Resize`, whose first version had no regions and no sizes.
fn resize(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    if cx.opset < 11 {
        return upsample_by_input(cx);
    }
    let policy = Policy::read(cx)?;
    let (by_scale, by_size) = (given(cx, 2), given(cx, 3));
    if by_scale && by_size {
        return refused("expected either scales or sizes, got both".to_string());
    }
    let Some(x) = cx.shape(0) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let axes = match cx.attributes.ints("axes")? {
        Some(axes) => axes_of(axes, x.len())?.to_vec(),
        None => (0..x.len()).collect(),
    };
    // Regions cut the input before it is scaled.
    let regions =
        cx.attributes.string("coordinate_transformation_mode")? == Some("tf_crop_and_resize");
    let scales = constant_floats(cx, 2).filter(|_| by_scale && !regions);
    let sizes = cx.dims(3)?.filter(|_| by_size);
    let out = match (scales, sizes) {
        (Some(scales), _) => scaled_shape(x, &axes, &scales)?,
        (None, Some(sizes)) => sized_shape(x, &axes, &sizes, policy)?,
        (None, None) => {
            let mut out = x.to_vec();
            for &axis in &axes {
                out[axis] = Dim::Unknown;
            }
            out
        }
    };
    cx.set(0, dtype, Some(out));
    Ok(())
}

/// The scales are input 1.
fn upsample_by_input(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let out = match (cx.shape(0), constant_floats(cx, 1)) {
        (Some(x), Some(scales)) => {
            let axes: Vec<usize> = (0..x.len()).collect();
            Some(scaled_shape(x, &axes, &scales)?)
        }
        (x, _) => x.map(|x| vec![Dim::Unknown; x.len()]),
    };
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

/// Source: ONNX `Upsample`: two numbers first, then a list of them, at last an input.
fn upsample(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if cx.opset >= 9 {
        return upsample_by_input(cx);
    }
    let required = |name: &'static str| {
        let scale = cx.attributes.float(name)?;
        scale.ok_or(AttributeError::Missing { name })
    };
    let scales = if cx.opset >= 7 {
        let scales = cx.attributes.floats("scales")?;
        scales
            .ok_or(AttributeError::Missing { name: "scales" })?
            .to_vec()
    } else {
        vec![
            1.0,
            1.0,
            required("height_scale")?,
            required("width_scale")?,
        ]
    };
    let out = match cx.shape(0) {
        Some(x) => {
            let axes: Vec<usize> = (0..x.len()).collect();
            Some(scaled_shape(x, &axes, &scales)?)
        }
        None => None,
    };
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op(
        "Resize",
        &[10, 11, 13, 18, 19],
        Arity::between(1, 4),
        resize,
    )
    .attributes(&[
        Attr::int("antialias"),
        Attr::ints("axes"),
        Attr::string("coordinate_transformation_mode"),
        Attr::float("cubic_coeff_a"),
        Attr::int("exclude_outside"),
        Attr::float("extrapolation_value"),
        Attr::string("keep_aspect_ratio_policy"),
        Attr::string("mode"),
        Attr::string("nearest_mode"),
    ]),
    op("Upsample", &[1, 7, 9, 10], Arity::between(1, 2), upsample).attributes(&[
        Attr::float("height_scale"),
        Attr::string("mode"),
        Attr::floats("scales"),
        Attr::float("width_scale"),
    ]),
];
