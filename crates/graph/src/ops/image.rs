//! Images: sampling, cropping, decoding, regions of interest and boxes.

use super::layout::axes_of;
use super::rules::{extent, merge, ranked, ranked_from, refused};
use super::{ONE, THREE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// X `[N, C, ...]` sampled at the places of a grid `[N, ..., axes]`.
fn grid_sample(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let (x, grid) = (ranked_from(cx, 0, 3)?, ranked_from(cx, 1, 3)?);
    let out = match (x, grid) {
        (Some(x), Some(grid)) => {
            if x.len() != grid.len() {
                let (got, want) = (grid.len(), x.len());
                return refused(format!("input 1: expected {want} axes, got {got}"));
            }
            let axes = Dim::Known(x.len() - 2);
            merge(&axes, &grid[grid.len() - 1], "the last axis of the grid")?;
            let batch = merge(&x[0], &grid[0], "the batch size of X and the grid")?;
            let mut out = vec![batch, x[1].clone()];
            out.extend_from_slice(&grid[1..grid.len() - 1]);
            Some(out)
        }
        (Some(x), None) => {
            let mut out = x[..2].to_vec();
            out.resize(x.len(), Dim::Unknown);
            Some(out)
        }
        (None, Some(grid)) => {
            let mut out = vec![grid[0].clone(), Dim::Unknown];
            out.extend_from_slice(&grid[1..grid.len() - 1]);
            Some(out)
        }
        (None, None) => None,
    };
    cx.set(0, dtype, out);
    Ok(())
}

/// Matrices `[N, 2, 3]` or `[N, 3, 4]` and a size `(N, C, ...)` give a grid `[N, ..., 2 or 3]`.
fn affine_grid(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let (theta, size) = (ranked(cx, 0, 3)?, cx.dims(1)?);
    let by_theta = theta.and_then(|theta| {
        theta[1]
            .known()
            .or_else(|| theta[2].known()?.checked_sub(1))
    });
    let by_size = size.as_ref().map(|size| size.len().saturating_sub(2));
    let axes = match (by_theta, by_size) {
        (Some(a), Some(b)) if a != b => {
            return refused(format!(
                "theta is for {a} spatial axes, size has {b} of them"
            ));
        }
        (a, b) => a.or(b),
    };
    let Some(axes) = axes else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    if !(2..=3).contains(&axes) {
        return refused(format!("expected 2 or 3 spatial axes, got {axes}"));
    }
    let mut out = vec![Dim::Unknown; axes + 2];
    if let Some(size) = &size {
        out[0] = size[0].clone();
        out[1..=axes].clone_from_slice(&size[2..]);
    }
    if let Some(theta) = theta {
        out[0] = merge(&out[0], &theta[0], "the batch size of theta and size")?;
    }
    out[axes + 1] = Dim::Known(axes);
    cx.set(0, dtype, Some(out));
    Ok(())
}

/// One pooled map `[C, height, width]` for each region.
fn roi_align(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1])?;
    let (x, rois, images) = (ranked(cx, 0, 4)?, ranked(cx, 1, 2)?, ranked(cx, 2, 1)?);
    let mut count = Dim::Unknown;
    if let Some(rois) = rois {
        merge(&Dim::Known(4), &rois[1], "the numbers of a region")?;
        count = rois[0].clone();
    }
    if let Some(images) = images {
        count = merge(&count, &images[0], "the number of regions")?;
    }
    let channels = x.map_or(Dim::Unknown, |x| x[1].clone());
    let height = cx.attributes.int_or("output_height", 1)?;
    let width = cx.attributes.int_or("output_width", 1)?;
    let out = vec![
        count,
        channels,
        extent(Some(height), "output_height")?,
        extent(Some(width), "output_width")?,
    ];
    cx.set(0, dtype, Some(out));
    Ok(())
}

/// Rows of batch, class and box; how many depends on the scores.
fn non_max_suppression(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let (boxes, scores) = (ranked(cx, 0, 3)?, ranked(cx, 1, 3)?);
    if let Some(boxes) = boxes {
        merge(&Dim::Known(4), &boxes[2], "the numbers of a box")?;
    }
    if let (Some(boxes), Some(scores)) = (boxes, scores) {
        merge(&boxes[0], &scores[0], "the batch size of boxes and scores")?;
        merge(&boxes[1], &scores[2], "the number of boxes")?;
    }
    let out = vec![Dim::Unknown, Dim::Known(3)];
    cx.set(0, Some(DType::Int64), Some(out));
    Ok(())
}

/// Height, width and channels.
fn image_decoder(cx: &mut Inference<'_>) -> Result<(), InferError> {
    ranked(cx, 0, 1)?;
    let channels = match cx.attributes.string("pixel_format")? {
        None | Some("RGB" | "BGR") => 3,
        Some("Grayscale") => 1,
        Some(other) => {
            return Err(AttributeError::Value {
                name: "pixel_format",
                expected: "RGB, BGR or Grayscale",
                got: other.to_string(),
            }
            .into());
        }
    };
    let out = vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)];
    cx.set(0, Some(DType::Uint8), Some(out));
    Ok(())
}

/// The given axes get the extents of `shape`.
fn center_crop_pad(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let wanted = cx.dims(1)?;
    let given = cx.attributes.ints("axes")?;
    let out = match cx.shape(0) {
        // Without axes, the extents are those of the whole output.
        None if given.is_none() => wanted,
        None => None,
        Some(x) => {
            let axes: Vec<usize> = match given {
                Some(axes) => axes_of(axes, x.len())?.to_vec(),
                None => (0..x.len()).collect(),
            };
            if let Some(wanted) = &wanted
                && wanted.len() != axes.len()
            {
                let (got, want) = (wanted.len(), axes.len());
                return refused(format!("shape: expected {want} numbers, got {got}"));
            }
            let mut out = x.to_vec();
            for (at, &axis) in axes.iter().enumerate() {
                out[axis] = match &wanted {
                    Some(wanted) => wanted[at].clone(),
                    None => Dim::Unknown,
                };
            }
            Some(out)
        }
    };
    cx.set(0, dtype, out);
    Ok(())
}

/// Channels to blocks of `blocksize` by `blocksize` places, or back.
fn space(cx: &mut Inference<'_>, to_depth: bool) -> Result<(), InferError> {
    let block = cx.attributes.required_int("blocksize")?;
    let Some(block) = usize::try_from(block).ok().filter(|&n| n > 0) else {
        return Err(AttributeError::Value {
            name: "blocksize",
            expected: "a number above 0",
            got: block.to_string(),
        }
        .into());
    };
    let times = |dim: &Dim, factor: Option<usize>| {
        factor.map_or(Dim::Unknown, |factor| dim.times(&Dim::Known(factor)))
    };
    let parts = |dim: &Dim, divisor: Option<usize>, what: &str| match (dim, divisor) {
        (Dim::Known(n), Some(divisor)) if n % divisor == 0 => Ok(Dim::Known(n / divisor)),
        (Dim::Known(n), _) => refused(format!("{what}: {n} is no multiple of the block")),
        (dim, Some(divisor)) => Ok(dim.div_floor(&Dim::Known(divisor))),
        _ => Ok(Dim::Unknown),
    };
    let area = block.checked_mul(block);
    let out = match ranked(cx, 0, 4)? {
        Some([batch, channels, height, width]) if to_depth => Some(vec![
            batch.clone(),
            times(channels, area),
            parts(height, Some(block), "height")?,
            parts(width, Some(block), "width")?,
        ]),
        Some([batch, channels, height, width]) => Some(vec![
            batch.clone(),
            parts(channels, area, "channels")?,
            times(height, Some(block)),
            times(width, Some(block)),
        ]),
        _ => None,
    };
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

fn space_to_depth(cx: &mut Inference<'_>) -> Result<(), InferError> {
    space(cx, true)
}

fn depth_to_space(cx: &mut Inference<'_>) -> Result<(), InferError> {
    space(cx, false)
}

const BLOCKS: &[Attr] = &[Attr::int("blocksize").required(), Attr::string("mode")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("GridSample", &[16, 20, 22], TWO, grid_sample).attributes(&[
        Attr::int("align_corners"),
        Attr::string("mode"),
        Attr::string("padding_mode"),
    ]),
    op("AffineGrid", &[20], TWO, affine_grid).attributes(&[Attr::int("align_corners")]),
    op("RoiAlign", &[10, 16, 22], THREE, roi_align).attributes(&[
        Attr::string("coordinate_transformation_mode"),
        Attr::string("mode"),
        Attr::int("output_height"),
        Attr::int("output_width"),
        Attr::int("sampling_ratio"),
        Attr::float("spatial_scale"),
    ]),
    op(
        "NonMaxSuppression",
        &[10, 11],
        Arity::between(2, 5),
        non_max_suppression,
    )
    .attributes(&[Attr::int("center_point_box")]),
    op("ImageDecoder", &[20], ONE, image_decoder).attributes(&[Attr::string("pixel_format")]),
    op("CenterCropPad", &[18], TWO, center_crop_pad).attributes(&[Attr::ints("axes")]),
    op("SpaceToDepth", &[1, 13, 28], ONE, space_to_depth).attributes(BLOCKS),
    op("DepthToSpace", &[1, 11, 13, 28], ONE, depth_to_space).attributes(BLOCKS),
];
