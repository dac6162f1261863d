//! Operators that give the same elements another layout: mostly views, seldom copies.
//!
//! The shape arithmetic stands here once; the kernels of the runtime crate call it with the same numbers.

use super::arithmetic;
use super::rules::{broadcast_shapes, refused};
use super::{ONE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{
    Arity, Attr, InferError, Inference, OpSchema, all_known, known_dims, normalize_axis,
};
use crate::types::Dim;
use refeed_values::MAX_RANK;
use refeed_values::layout::Dims;

/// The axis as an index below `rank`.
///
/// # Errors
/// When it is outside `-rank..rank`.
pub fn axis_of(axis: i64, rank: usize) -> Result<usize, InferError> {
    normalize_axis(axis, rank).ok_or_else(|| {
        InferError::Shape(format!(
            "axis: expected a value in [-{rank}, {rank}), got {axis}"
        ))
    })
}

/// Several axes as indices below `rank`, in the order given.
///
/// # Errors
/// When one is out of range or given twice.
pub fn axes_of(axes: &[i64], rank: usize) -> Result<Dims, InferError> {
    if axes.len() > MAX_RANK {
        let got = axes.len();
        return Err(InferError::Shape(format!(
            "expected at most {MAX_RANK} axes, got {got}"
        )));
    }
    let mut out = Dims::new();
    for &axis in axes {
        let axis = axis_of(axis, rank)?;
        if out.contains(&axis) {
            return Err(InferError::Shape(format!("axis {axis} is given twice")));
        }
        out.push(axis);
    }
    Ok(out)
}

/// Axis order of `Transpose`: the attribute, or the reverse order.
///
/// # Errors
/// When `perm` is not a permutation of the axes.
pub fn transpose_order(perm: Option<&[i64]>, rank: usize) -> Result<Dims, InferError> {
    let Some(perm) = perm else {
        return Ok((0..rank).rev().collect());
    };
    if perm.len() != rank {
        return Err(InferError::Shape(format!(
            "perm: expected {rank} axes, got {}",
            perm.len()
        )));
    }
    axes_of(perm, rank)
}

fn transpose(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let perm = cx.attributes.ints("perm")?;
    let mut out = None;
    if let Some(shape) = cx.shape(0) {
        let order = transpose_order(perm, shape.len())?;
        out = Some(order.iter().map(|&axis| shape[axis].clone()).collect());
    }
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

/// Axes of `Squeeze`, `Unsqueeze`, `Slice` and others: an attribute in old versions, an input since.
/// The outer `None` means that they are given but not known yet, the inner one that they are not given.
pub(super) fn given_axes(
    cx: &Inference<'_>,
    input: usize,
    as_input: i64,
) -> Result<Option<Option<Vec<i64>>>, InferError> {
    if cx.opset < as_input {
        return Ok(Some(cx.attributes.ints("axes")?.map(<[i64]>::to_vec)));
    }
    if !cx.has(input) {
        return Ok(Some(None));
    }
    Ok(cx.constant_ints(input).map(Some))
}

fn squeeze(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axes = given_axes(cx, 1, 13)?;
    let out = match (cx.shape(0), axes) {
        (None, _) => None,
        (Some(shape), Some(Some(axes))) => {
            let axes = axes_of(&axes, shape.len())?;
            let long = |&&axis: &&usize| shape[axis].known().is_some_and(|n| n != 1);
            if let Some(&axis) = axes.iter().find(long) {
                let extent = &shape[axis];
                return refused(format!("axis {axis} of extent {extent} cannot be squeezed"));
            }
            Some(without(shape, &axes))
        }
        (Some(shape), Some(None)) => all_known(shape)
            .map(|known| known_dims(&known.into_iter().filter(|&n| n != 1).collect::<Dims>())),
        (Some(shape), None) => unplaced(cx, |count| shape.len().checked_sub(count)),
    };
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

/// Unknown dimensions when of the axes at input 1 only the number is known.
fn unplaced(cx: &Inference<'_>, rank: impl Fn(usize) -> Option<usize>) -> Option<Vec<Dim>> {
    let rank = rank(cx.length(1)?).filter(|&rank| rank <= MAX_RANK)?;
    Some(vec![Dim::Unknown; rank])
}

fn without(shape: &[Dim], axes: &[usize]) -> Vec<Dim> {
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, dim)| dim.clone()).collect()
}

fn unsqueeze(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axes = given_axes(cx, 1, 13)?;
    let out = match (cx.shape(0), axes) {
        (None, _) => None,
        (Some(shape), Some(axes)) => {
            let missing = AttributeError::Missing { name: "axes" };
            let axes = axes.ok_or(missing)?;
            let mut axes = axes_of(&axes, shape.len().saturating_add(axes.len()))?;
            axes.sort_unstable();
            let mut dims = shape.to_vec();
            for axis in axes {
                dims.insert(axis, Dim::Known(1));
            }
            Some(dims)
        }
        (Some(shape), None) => unplaced(cx, |count| shape.len().checked_add(count)),
    };
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

fn expand(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let out = match (cx.shape(0), cx.dims(1)?) {
        (Some(input), Some(wanted)) => Some(broadcast_shapes(input, &wanted)?),
        _ => None,
    };
    let value = out
        .as_ref()
        .and_then(|shape| arithmetic::expanded(cx, shape));
    cx.set_value(0, value);
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

const RECENT: &[i64] = &[1, 13, 21, 23, 24, 25];
const SQUEEZE: &[i64] = &[1, 11, 13, 21, 23, 24, 25];
const AXES: Arity = Arity::between(1, 2);

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Transpose", RECENT, ONE, transpose).attributes(&[Attr::ints("perm")]),
    op("Squeeze", SQUEEZE, AXES, squeeze).attributes(&[Attr::ints("axes")]),
    op("Unsqueeze", SQUEEZE, AXES, unsqueeze).attributes(&[Attr::ints("axes")]),
    op("Expand", &[8, 13], TWO, expand),
];
