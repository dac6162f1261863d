//! Operators that copy elements to other places without computing on them (scatters may combine).

use super::arithmetic;
use super::layout::{axes_of, axis_of};
use super::rules::{constant_int, extent, ranked, ranked_from};
use super::{THREE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::shape_inference::DimExpr;
use crate::types::Dim;

/// How `Pad` fills what it adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadMode {
    /// One value.
    Constant,
    /// Mirrored at the first and last position, which are not repeated.
    Reflect,
    /// The nearest position.
    Edge,
    /// As on a ring.
    Wrap,
}

impl PadMode {
    /// Reads the attribute `mode`.
    ///
    /// # Errors
    /// When it names no mode.
    pub fn from_name(name: Option<&str>) -> Result<PadMode, AttributeError> {
        match name {
            None | Some("constant") => Ok(PadMode::Constant),
            Some("reflect") => Ok(PadMode::Reflect),
            Some("edge") => Ok(PadMode::Edge),
            Some("wrap") => Ok(PadMode::Wrap),
            Some(other) => Err(AttributeError::Value {
                name: "mode",
                expected: "constant, reflect, edge or wrap",
                got: other.to_string(),
            }),
        }
    }
}

/// Pads of every axis (before, after; negative ones cut), from the operator's list and its `axes`.
///
/// # Errors
/// When the list does not have two numbers an axis, or an axis is out of range or given twice.
pub fn pad_widths(
    pads: &[i64],
    axes: Option<&[i64]>,
    rank: usize,
) -> Result<Vec<(i64, i64)>, InferError> {
    let axes = match axes {
        Some(axes) => axes_of(axes, rank)?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        let (got, want) = (pads.len(), 2 * axes.len());
        return Err(InferError::Shape(format!(
            "pads: expected {want} numbers, got {got}"
        )));
    }
    let mut out = vec![(0, 0); rank];
    for (i, &axis) in axes.iter().enumerate() {
        out[axis] = (pads[i], pads[axes.len() + i]);
    }
    Ok(out)
}

/// Extent of an axis after padding.
///
/// # Errors
/// When more is cut than there is, or the extent does not fit.
pub fn padded_extent(dim: usize, before: i64, after: i64) -> Result<usize, InferError> {
    let total = dim as i128 + i128::from(before) + i128::from(after);
    usize::try_from(total)
        .ok()
        .filter(|&n| isize::try_from(n).is_ok())
        .ok_or_else(|| {
            InferError::Shape(format!(
                "pads: an axis of {dim} cannot be padded by {before} and {after}"
            ))
        })
}

/// A named extent after padding.
fn padded(dim: &Dim, before: i64, after: i64) -> Option<Dim> {
    let total = before.checked_add(after)?;
    Some(Dim::from_expr(&dim.expr()?.plus(&DimExpr::from(total))?))
}

/// The shape after padding by numbers that are expressions.
fn padded_by_value(
    cx: &Inference<'_>,
    shape: &[Dim],
    axes: Option<&[i64]>,
) -> Result<Vec<Dim>, InferError> {
    let axes = match axes {
        Some(axes) => axes_of(axes, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    let pads = cx.value(1);
    let mut out = shape.to_vec();
    for (i, &axis) in axes.iter().enumerate() {
        let padded = pads.as_ref().and_then(|pads| {
            let pads = pads.elements();
            let (before, after) = (pads.get(i)?.as_ref()?, pads.get(axes.len() + i)?.as_ref()?);
            shape[axis].expr()?.plus(before)?.plus(after)
        });
        out[axis] = padded.map_or(Dim::Unknown, |extent| Dim::from_expr(&extent));
    }
    Ok(out)
}

fn pad(cx: &mut Inference<'_>) -> Result<(), InferError> {
    PadMode::from_name(cx.attributes.string("mode")?)?;
    let pads = match cx.opset {
        ..=1 => cx.attributes.ints("paddings")?.map(<[i64]>::to_vec),
        2..=10 => cx.attributes.ints("pads")?.map(<[i64]>::to_vec),
        _ => cx.constant_ints(1),
    };
    let axes = if cx.has(3) {
        cx.constant_ints(3).map(Some)
    } else {
        Some(None)
    };
    let mut out = cx.shape(0).map(|shape| vec![Dim::Unknown; shape.len()]);
    if let (Some(shape), None, Some(axes)) = (cx.shape(0), &pads, &axes) {
        out = Some(padded_by_value(cx, shape, axes.as_deref())?);
    }
    if let (Some(shape), Some(pads), Some(axes)) = (cx.shape(0), pads, axes) {
        let widths = pad_widths(&pads, axes.as_deref(), shape.len())?;
        let dims: Result<Vec<Dim>, InferError> = shape
            .iter()
            .zip(widths)
            .map(|(dim, (before, after))| match dim {
                Dim::Known(n) => padded_extent(*n, before, after).map(Dim::Known),
                dim => Ok(padded(dim, before, after).unwrap_or(Dim::Unknown)),
            })
            .collect();
        out = Some(dims?);
    }
    let dtype = cx.dtype(0);
    cx.set(0, dtype, out);
    Ok(())
}

fn trilu(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if let Some(rank) = cx.shape(0).map(<[Dim]>::len)
        && rank < 2
    {
        return Err(InferError::Shape(format!(
            "input 0: expected at least 2 axes, got {rank}"
        )));
    }
    cx.same_as_input();
    Ok(())
}

/// The first version repeats along one axis: inputs 1 and 2 are how often, and the axis.
fn tile_axis(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let mut out = cx.shape(0).map(<[Dim]>::to_vec);
    if let Some(out) = &mut out {
        match (constant_int(cx, 1), constant_int(cx, 2)) {
            (Some(times), Some(axis)) => {
                let axis = axis_of(axis, out.len())?;
                out[axis] = out[axis].times(&extent(Some(times), "tiles")?);
            }
            _ => out.fill(Dim::Unknown),
        }
    }
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

fn tile(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if cx.opset < 6 {
        return tile_axis(cx);
    }
    let dtype = cx.dtype(0);
    let out = match (cx.shape(0), cx.dims(1)?) {
        (Some(shape), Some(repeats)) => {
            if repeats.len() != shape.len() {
                let (got, want) = (repeats.len(), shape.len());
                return Err(InferError::Shape(format!(
                    "repeats: expected {want} numbers, got {got}"
                )));
            }
            let tiled = shape.iter().zip(&repeats);
            Some(tiled.map(|(dim, times)| dim.times(times)).collect())
        }
        (Some(shape), None) => Some(vec![Dim::Unknown; shape.len()]),
        (None, repeats) => repeats.map(|repeats| vec![Dim::Unknown; repeats.len()]),
    };
    if cx.shape(0).is_some_and(|shape| shape.len() == 1) {
        cx.set_value(0, arithmetic::tiled(cx));
    }
    cx.set(0, dtype, out);
    Ok(())
}

/// Slices along the time axis, each turned as far as its length says.
fn reverse_sequence(cx: &mut Inference<'_>) -> Result<(), InferError> {
    ranked_from(cx, 0, 2)?;
    ranked(cx, 1, 1)?;
    for (name, default) in [("time_axis", 0), ("batch_axis", 1)] {
        let axis = cx.attributes.int_or(name, default)?;
        if !(0..2).contains(&axis) {
            return Err(AttributeError::Value {
                name,
                expected: "0 or 1",
                got: axis.to_string(),
            }
            .into());
        }
    }
    cx.same_as_input();
    Ok(())
}

/// Output as input 0; `updates` (input 2) has its element type.
fn scatter(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 2])?;
    cx.same_as_input();
    Ok(())
}

fn scatter_elements(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", 0)?;
    if let Some(shape) = cx.shape(0) {
        axis_of(axis, shape.len())?;
    }
    scatter(cx)
}

fn tensor_scatter(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", -2)?;
    cx.same_dtype([0, 1])?;
    if let Some(shape) = cx.shape(0)
        && axis_of(axis, shape.len())? == 0
    {
        return Err(InferError::Shape(
            "axis: expected another axis than the batch axis 0".to_string(),
        ));
    }
    cx.same_as_input();
    Ok(())
}

const PAD: &[i64] = &[1, 2, 11, 13, 18, 19, 21, 23, 24, 25];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Pad", PAD, Arity::between(1, 4), pad).attributes(&[
        Attr::string("mode"),
        Attr::ints("paddings"),
        Attr::ints("pads"),
        Attr::float("value"),
    ]),
    op("Trilu", &[14], Arity::between(1, 2), trilu).attributes(&[Attr::int("upper")]),
    op("Tile", &[1, 6, 13], Arity::between(2, 3), tile),
    op("ReverseSequence", &[10, 28], TWO, reverse_sequence)
        .attributes(&[Attr::int("batch_axis"), Attr::int("time_axis")]),
    op("ScatterND", &[11, 13, 16, 18], THREE, scatter).attributes(&[Attr::string("reduction")]),
    op(
        "ScatterElements",
        &[11, 13, 16, 18],
        THREE,
        scatter_elements,
    )
    .attributes(&[Attr::int("axis"), Attr::string("reduction")]),
    op("Scatter", &[9, 11], THREE, scatter_elements).attributes(&[Attr::int("axis")]),
    op("TensorScatter", &[24], Arity::between(2, 3), tensor_scatter)
        .attributes(&[Attr::int("axis"), Attr::string("mode")]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_belong_to_their_axes() {
        assert_eq!(
            pad_widths(&[1, 2, 3, 4], None, 2).unwrap(),
            [(1, 3), (2, 4)]
        );
        assert_eq!(
            pad_widths(&[5, 6], Some(&[-1]), 3).unwrap(),
            [(0, 0), (0, 0), (5, 6)]
        );
        assert!(pad_widths(&[1, 2, 3], None, 2).is_err());
        assert!(pad_widths(&[1, 2, 3, 4], Some(&[0, -2]), 2).is_err());
        assert!(pad_widths(&[1, 2], Some(&[i64::MIN]), 2).is_err());
    }

    #[test]
    fn extents_after_padding_are_checked() {
        assert_eq!(padded_extent(5, -3, 1).unwrap(), 3);
        assert_eq!(padded_extent(5, -3, -2).unwrap(), 0);
        assert!(padded_extent(5, -3, -3).is_err());
        assert!(padded_extent(5, i64::MAX, i64::MAX).is_err());
        assert!(padded_extent(5, i64::MIN, i64::MIN).is_err());
    }
}
