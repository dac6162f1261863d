//! Operators that give the same elements another layout: mostly views, seldom copies.
//!
//! The shape arithmetic stands here once; the kernels of the runtime crate call it with the same numbers.

use super::arithmetic;
use super::rules::broadcast_shapes;
use super::{MANY, ONE, TWO, op};
use crate::schema::{
    Arity, Attr, InferError, Inference, OpSchema, all_known, known_dims, normalize_axis,
};
use crate::shape_inference::DimExpr;
use crate::types::Dim;
use refeed_values::MAX_RANK;
use refeed_values::layout::Dims;

fn shape_error(text: String) -> InferError {
    InferError::Shape(text)
}

/// The axis as an index below `rank`.
///
/// # Errors
/// When it is outside `-rank..rank`.
pub fn axis_of(axis: i64, rank: usize) -> Result<usize, InferError> {
    normalize_axis(axis, rank).ok_or_else(|| {
        shape_error(format!(
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
        return Err(shape_error(format!(
            "expected at most {MAX_RANK} axes, got {got}"
        )));
    }
    let mut out = Dims::new();
    for &axis in axes {
        let axis = axis_of(axis, rank)?;
        if out.contains(&axis) {
            return Err(shape_error(format!("axis {axis} is given twice")));
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
        return Err(shape_error(format!(
            "perm: expected {rank} axes, got {}",
            perm.len()
        )));
    }
    axes_of(perm, rank)
}

/// The shape that `Reshape` gives: 0 copies the input's dimension unless `allow_zero`, one -1 takes what is left.
///
/// # Errors
/// When the element counts cannot agree, a number is below -1, or more than one is -1.
pub fn reshape_shape(
    input: &[usize],
    wanted: &[i64],
    allow_zero: bool,
) -> Result<Dims, InferError> {
    let refuse = || shape_error(format!("cannot reshape {input:?} to {wanted:?}"));
    let mut out = Dims::with_capacity(wanted.len());
    let mut free = None;
    for (axis, &dim) in wanted.iter().enumerate() {
        out.push(match dim {
            0 if !allow_zero => *input.get(axis).ok_or_else(refuse)?,
            -1 if free.is_none() => {
                free = Some(axis);
                1
            }
            _ => usize::try_from(dim).map_err(|_| refuse())?,
        });
    }
    let elements = count(input).ok_or_else(refuse)?;
    let rest = count(&out).ok_or_else(refuse)?;
    if let Some(axis) = free {
        // Beside a 0 every number would fit: refused, as NumPy does.
        if rest == 0 || elements % rest != 0 {
            return Err(refuse());
        }
        out[axis] = elements / rest;
        return Ok(out);
    }
    if rest == elements {
        Ok(out)
    } else {
        Err(refuse())
    }
}

/// The number of elements, when it fits.
fn count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))
}

/// The positions that `Slice` takes of one axis of extent `dim`: first position and count.
///
/// # Errors
/// When `step` is 0.
pub fn slice_range(
    dim: usize,
    start: i64,
    end: i64,
    step: i64,
) -> Result<(usize, usize), InferError> {
    if step == 0 {
        return Err(shape_error(
            "steps: expected a number other than 0, got 0".to_string(),
        ));
    }
    // Extents are at most `isize::MAX`; the wide type keeps sums of extreme numbers exact.
    let extent = dim as i128;
    let from_end = |at: i64| {
        if at < 0 {
            i128::from(at) + extent
        } else {
            i128::from(at)
        }
    };
    let step = i128::from(step);
    let (low, high) = if step > 0 {
        (0, extent)
    } else {
        (-1, extent - 1)
    };
    let (start, end) = (
        from_end(start).clamp(low, high),
        from_end(end).clamp(low, high),
    );
    let span = if step > 0 { end - start } else { start - end };
    if span <= 0 {
        return Ok((0, 0));
    }
    let count = (span + step.abs() - 1) / step.abs();
    Ok((start as usize, count as usize))
}

/// The extents that `Split` gives along an axis of extent `dim`.
///
/// # Errors
/// When the sizes do not add up, one is negative, or `dim` is not cut evenly where the operator's version asks for it.
pub fn split_sizes(
    dim: usize,
    sizes: Option<&[i64]>,
    outputs: usize,
    uneven: bool,
) -> Result<Dims, InferError> {
    let Some(sizes) = sizes else {
        if outputs == 0 {
            return Err(shape_error(
                "split: expected at least one output".to_string(),
            ));
        }
        if !dim.is_multiple_of(outputs) && !uneven {
            return Err(shape_error(format!(
                "an axis of {dim} cannot be split into {outputs} equal parts"
            )));
        }
        let part = dim.div_ceil(outputs);
        return Ok((0..outputs)
            .map(|i| dim.saturating_sub(i * part).min(part))
            .collect());
    };
    if sizes.len() != outputs {
        return Err(shape_error(format!(
            "split: expected {outputs} sizes, got {}",
            sizes.len()
        )));
    }
    let out: Option<Dims> = sizes
        .iter()
        .map(|&size| usize::try_from(size).ok())
        .collect();
    let total = out
        .as_ref()
        .and_then(|o| o.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)));
    match (out, total) {
        (Some(out), Some(total)) if total == dim => Ok(out),
        _ => Err(shape_error(format!(
            "split: expected sizes that add up to {dim}, got {sizes:?}"
        ))),
    }
}

fn transpose(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let perm = cx.attributes.ints("perm")?;
    let mut out = None;
    if let Some(shape) = cx.shape(0) {
        let order = transpose_order(perm, shape.len())?;
        out = Some(order.iter().map(|&axis| shape[axis].clone()).collect());
    }
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

/// The product of dimensions as one dimension.
pub(super) fn product(dims: &[Dim]) -> Dim {
    Dim::product(dims)
}

fn reshape(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let allow_zero = cx.attributes.flag("allowzero", false)?;
    let dtype = cx.dtype(0);
    let wanted = match cx.opset {
        ..5 => cx.attributes.ints("shape")?.map(<[i64]>::to_vec),
        _ => cx.constant_ints(1),
    };
    let input = cx.shape(0);
    let out = match (wanted, input.and_then(all_known)) {
        (Some(wanted), Some(known)) => {
            Some(known_dims(&reshape_shape(&known, &wanted, allow_zero)?))
        }
        (Some(wanted), None) => {
            let wanted: Vec<Option<DimExpr>> =
                wanted.into_iter().map(|n| Some(DimExpr::from(n))).collect();
            Some(reshaped(input, &wanted, allow_zero)?)
        }
        (None, _) => match cx.value(1) {
            Some(value) => Some(reshaped(input, value.elements(), allow_zero)?),
            // Only the rank is known, from the length of the shape input.
            None => cx
                .length(1)
                .filter(|&rank| rank <= MAX_RANK)
                .map(|rank| vec![Dim::Unknown; rank]),
        },
    };
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, dtype, out);
    Ok(())
}

/// The dimensions after a reshape of an input, or to entries, that are not all numbers.
fn reshaped(
    input: Option<&[Dim]>,
    wanted: &[Option<DimExpr>],
    allow_zero: bool,
) -> Result<Vec<Dim>, InferError> {
    let mut out = Vec::with_capacity(wanted.len());
    // The entry that is -1, or the only one of which nothing is known: the number of elements tells it.
    let (mut free, mut unknown) = (None, 0);
    for (axis, entry) in wanted.iter().enumerate() {
        out.push(match (entry, entry.as_ref().and_then(DimExpr::constant)) {
            (_, Some(0)) if !allow_zero => match input {
                None => Dim::Unknown,
                Some(input) => input.get(axis).cloned().ok_or_else(|| {
                    shape_error(format!(
                        "shape: entry {axis} is 0, but the input has {} axes",
                        input.len()
                    ))
                })?,
            },
            (_, Some(-1)) if free.is_none() => {
                free = Some(axis);
                Dim::Unknown
            }
            (_, Some(dim)) => Dim::Known(usize::try_from(dim).map_err(|_| {
                shape_error(format!(
                    "shape: expected at most one -1 and no other negative number, got {dim} at {axis}"
                ))
            })?),
            (Some(entry), None) => Dim::from_expr(entry),
            (None, None) => {
                unknown += 1;
                Dim::Unknown
            }
        });
    }
    let alone = (unknown == 1 && free.is_none())
        .then(|| wanted.iter().position(Option::is_none))
        .flatten();
    if let (Some(axis), Some(input)) = (free.filter(|_| unknown == 0).or(alone), input) {
        out[axis] = left_over(input, &out, axis);
    }
    Ok(out)
}

/// What -1 stands for: the input's dimensions after those that both sides share are struck out.
fn left_over(input: &[Dim], out: &[Dim], free: usize) -> Dim {
    let mut rest: Vec<Dim> = input.to_vec();
    let mut divisor = Dim::Known(1);
    for (axis, dim) in out.iter().enumerate() {
        if axis == free {
            continue;
        }
        match dim {
            Dim::Known(0) | Dim::Unknown => return Dim::Unknown,
            dim => match rest.iter().position(|other| other == dim) {
                Some(at) => drop(rest.remove(at)),
                None => divisor = divisor.times(dim),
            },
        }
    }
    let total = product(&rest);
    if divisor == Dim::Known(1) {
        return total;
    }
    let (Some(total), Some(divisor)) = (total.expr(), divisor.expr()) else {
        return Dim::Unknown;
    };
    match total.div_exact(&divisor) {
        Some(exact) => Dim::from_expr(&exact),
        // A model that runs divides evenly, so that rounding takes nothing away.
        None if total.constant().is_none() && divisor.constant().is_some() => total
            .div_floor(&divisor)
            .map_or(Dim::Unknown, |whole| Dim::from_expr(&whole)),
        None => Dim::Unknown,
    }
}

fn flatten(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", 1)?;
    let out = match cx.shape(0) {
        Some(shape) => {
            let at = flatten_axis(axis, shape.len())?;
            vec![product(&shape[..at]), product(&shape[at..])]
        }
        None => vec![Dim::Unknown; 2],
    };
    cx.set(0, cx.dtype(0), Some(out));
    Ok(())
}

/// The axis of `Flatten`, which may equal the rank.
///
/// # Errors
/// When it is outside `-rank..=rank`.
pub fn flatten_axis(axis: i64, rank: usize) -> Result<usize, InferError> {
    if usize::try_from(axis) == Ok(rank) {
        Ok(rank)
    } else {
        axis_of(axis, rank)
    }
}

/// Axes of `Squeeze`, `Unsqueeze`, `Slice` and others: an attribute in old versions, an input since.
/// The outer `None` means that they are given but not known yet, the inner one that they are not given.
fn given_axes(
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
    let mut out = None;
    if let (Some(shape), Some(axes)) = (cx.shape(0), axes) {
        out = match axes {
            Some(axes) => {
                let axes = axes_of(&axes, shape.len())?;
                if let Some(axis) = axes
                    .iter()
                    .find(|&&axis| shape[axis].known().is_some_and(|n| n != 1))
                {
                    return Err(shape_error(format!(
                        "axis {axis} of extent {} cannot be squeezed",
                        shape[*axis]
                    )));
                }
                Some(without(shape, &axes))
            }
            None => all_known(shape)
                .map(|known| known_dims(&known.into_iter().filter(|&n| n != 1).collect::<Dims>())),
        };
    }
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, cx.dtype(0), out);
    Ok(())
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
    let mut out = None;
    if let (Some(shape), Some(axes)) = (cx.shape(0), axes) {
        let mut axes = axes_of(&axes.unwrap_or_default(), shape.len() + axes_len(cx)?)?;
        axes.sort_unstable();
        let mut dims = shape.to_vec();
        for axis in axes {
            dims.insert(axis, Dim::Known(1));
        }
        out = Some(dims);
    }
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, cx.dtype(0), out);
    Ok(())
}

fn axes_len(cx: &Inference<'_>) -> Result<usize, InferError> {
    Ok(given_axes(cx, 1, 13)?
        .flatten()
        .map_or(0, |axes| axes.len()))
}

fn expand(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let out = match (cx.shape(0), cx.dims(1)?) {
        (Some(input), Some(wanted)) => Some(broadcast_shapes(input, &wanted)?),
        _ => None,
    };
    let value = out
        .as_ref()
        .and_then(|shape| arithmetic::expanded(cx, shape));
    cx.set_value(0, value);
    cx.set(0, dtype, out);
    Ok(())
}

/// One of the bounds or steps of `Slice`: an attribute in old versions, an input since.
fn slice_numbers(
    cx: &Inference<'_>,
    attribute: &str,
    input: usize,
) -> Result<Option<Vec<Option<DimExpr>>>, InferError> {
    if cx.opset >= 10 {
        return Ok(cx.value(input).map(|value| value.elements().to_vec()));
    }
    let numbers = cx.attributes.ints(attribute)?;
    Ok(numbers.map(|numbers| numbers.iter().map(|&n| Some(DimExpr::from(n))).collect()))
}

fn slice(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let starts = slice_numbers(cx, "starts", 1)?;
    let ends = slice_numbers(cx, "ends", 2)?;
    let steps = slice_numbers(cx, "steps", 4)?;
    let axes = given_axes(cx, 3, 10)?;
    let Some(shape) = cx.shape(0) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let mut out = shape.to_vec();
    let count = starts.as_ref().map(Vec::len).or_else(|| cx.length(1));
    let axes = match axes {
        Some(Some(axes)) => Some(axes_of(&axes, shape.len())?),
        Some(None) => match count {
            Some(count) if count <= shape.len() => Some((0..count).collect()),
            Some(count) => {
                return Err(shape_error(format!(
                    "starts: {count} numbers for {} axes",
                    shape.len()
                )));
            }
            None => None,
        },
        None => None,
    };
    let Some(axes) = axes else {
        cx.set(0, dtype, Some(vec![Dim::Unknown; out.len()]));
        return Ok(());
    };
    let one = Some(DimExpr::from(1));
    for (i, &axis) in axes.iter().enumerate() {
        let at = |list: &Option<Vec<Option<DimExpr>>>| list.as_ref()?.get(i)?.clone();
        let step = if cx.has(4) { at(&steps) } else { one.clone() };
        let (start, end) = (at(&starts), at(&ends));
        let number = |e: &Option<DimExpr>| e.as_ref()?.constant();
        let numbers = (number(&start), number(&end), number(&step));
        out[axis] = match (numbers, shape[axis].known()) {
            ((Some(start), Some(end), Some(step)), Some(dim)) => {
                Dim::Known(slice_range(dim, start, end, step)?.1)
            }
            ((_, _, Some(step)), _) => start
                .zip(end)
                .and_then(|(start, end)| slice_extent(&shape[axis], &start, &end, step))
                .unwrap_or(Dim::Unknown),
            _ => Dim::Unknown,
        };
        if let ((Some(start), Some(end), Some(step)), 1) = (numbers, shape.len()) {
            cx.set_value(0, arithmetic::sliced(cx, start, end, step));
        }
    }
    cx.set(0, dtype, Some(out));
    Ok(())
}

/// The extent that `Slice` leaves of an axis when not all is numbers.
fn slice_extent(dim: &Dim, start: &DimExpr, end: &DimExpr, step: i64) -> Option<Dim> {
    let zero = DimExpr::from(0);
    let dim = dim.expr()?;
    // The largest numbers stand for the end, whatever the extent: exporters write any of them.
    let beyond = |e: &DimExpr| e.constant().is_some_and(|n| n >= i64::from(i32::MAX));
    let bound = |e: &DimExpr| -> Option<DimExpr> {
        match e.constant() {
            _ if beyond(e) => Some(dim.clone()),
            Some(n) if n < 0 => dim.plus(e)?.larger(&zero),
            None if !e.is_natural() => None,
            _ => e.smaller(&dim),
        }
    };
    match (start.constant(), end.constant(), step) {
        // The whole axis backwards.
        (Some(-1), Some(end), -1) if end <= -i64::from(i32::MAX) => Some(Dim::from_expr(&dim)),
        // The last ones.
        (Some(first), _, 1) if first < 0 && beyond(end) => {
            Some(Dim::from_expr(&zero.minus(start)?.smaller(&dim)?))
        }
        (_, _, 1..) => {
            let span = bound(end)?.minus(&bound(start)?)?.larger(&zero)?;
            Some(Dim::from_expr(&span.div_ceil(&DimExpr::from(step))?))
        }
        _ => None,
    }
}

fn split(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let axis = cx.attributes.int_or("axis", 0)?;
    let outputs = cx.output_count();
    let given = cx.has(1);
    let sizes = match cx.opset {
        // The first version took them as an input too.
        ..2 if cx.has(1) => cx.constant_ints(1),
        ..13 => cx.attributes.ints("split")?.map(<[i64]>::to_vec),
        _ => cx.constant_ints(1),
    };
    let Some(shape) = cx.shape(0) else {
        for index in 0..outputs {
            cx.set(index, dtype, None);
        }
        return Ok(());
    };
    let axis = axis_of(axis, shape.len())?;
    let uneven = cx.opset >= 18;
    let parts: Vec<Dim> = match (shape[axis].known(), &sizes) {
        (Some(dim), Some(sizes)) => known_dims(&split_sizes(dim, Some(sizes), outputs, false)?),
        (Some(dim), None) if !given => known_dims(&split_sizes(dim, None, outputs, uneven)?),
        (None, None) if !given => split_extent(&shape[axis], outputs, uneven),
        _ => cx.dims(1)?.unwrap_or_default(),
    };
    for index in 0..outputs {
        let mut dims = shape.to_vec();
        dims[axis] = parts.get(index).cloned().unwrap_or(Dim::Unknown);
        cx.set(index, dtype, Some(dims));
    }
    if shape.len() == 1 && (sizes.is_some() || !given) {
        let values = arithmetic::split(cx, sizes.as_deref(), uneven).unwrap_or_default();
        for (index, value) in values.into_iter().enumerate() {
            cx.set_value(index, Some(value));
        }
    }
    Ok(())
}

/// The parts of an axis whose extent is no number, equal but for the last one.
fn split_extent(dim: &Dim, outputs: usize, uneven: bool) -> Vec<Dim> {
    let count = Dim::Known(outputs);
    if !uneven {
        return vec![dim.div_floor(&count); outputs];
    }
    let part = dim.div_ceil(&count);
    let mut parts = vec![part.clone(); outputs];
    let exact = dim.expr().zip(count.expr());
    let exact = exact.is_some_and(|(dim, count)| dim.div_exact(&count).is_some());
    if !exact {
        // With few positions the parts before the last one are cut short, too.
        parts.fill(Dim::Unknown);
        if let Some(first) = parts.first_mut() {
            *first = part;
        }
    }
    parts
}

const RECENT: &[i64] = &[1, 13, 21, 23, 24, 25];
const SQUEEZE: &[i64] = &[1, 11, 13, 21, 23, 24, 25];
const FLATTEN: &[i64] = &[1, 9, 11, 13, 21, 23, 24, 25];
const RESHAPE: &[i64] = &[1, 5, 13, 14, 19, 21, 23, 24, 25];
const AXES: Arity = Arity::between(1, 2);

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Transpose", RECENT, ONE, transpose).attributes(&[Attr::ints("perm")]),
    op("Reshape", RESHAPE, AXES, reshape).attributes(&[
        Attr::int("allowzero"),
        Attr::ints("consumed_inputs"),
        Attr::ints("shape"),
    ]),
    op("Flatten", FLATTEN, ONE, flatten).attributes(&[Attr::int("axis")]),
    op("Squeeze", SQUEEZE, AXES, squeeze).attributes(&[Attr::ints("axes")]),
    op("Unsqueeze", SQUEEZE, AXES, unsqueeze).attributes(&[Attr::ints("axes")]),
    op("Expand", &[8, 13], TWO, expand),
    op("Slice", &[1, 10, 11, 13], Arity::between(1, 5), slice).attributes(&[
        Attr::ints("axes"),
        Attr::ints("ends"),
        Attr::ints("starts"),
    ]),
    op("Split", &[1, 2, 11, 13, 18], AXES, split)
        .outputs(MANY)
        .attributes(&[
            Attr::int("axis"),
            Attr::int("num_outputs"),
            Attr::ints("split"),
        ]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_follows_zero_and_minus_one() {
        for (input, wanted, zero, expected) in [
            (&[2, 3, 4][..], &[0, -1][..], false, Some(&[2, 12][..])),
            (&[2, 3, 4], &[4, 0, 2], false, Some(&[4, 3, 2])),
            (&[2, 3, 4], &[-1, -1], false, None),
            (&[2, 3, 4], &[5, -1], false, None),
            (&[2, 3, 4], &[2, 3, 4, 0], false, None),
            (&[0, 3], &[3, 0], true, Some(&[3, 0])),
            (&[0, 3], &[0, -1], false, None),
            (&[0, 3], &[-1, 0], true, None),
            (&[0, 3], &[-1, 5], false, Some(&[0, 5])),
            (&[2], &[i64::MIN], false, None),
            (&[2], &[i64::MAX, i64::MAX], false, None),
            (&[1 << 40, 1 << 40], &[-1], false, None),
            (&[], &[], false, Some(&[])),
            (&[1], &[-1], false, Some(&[1])),
        ] {
            let got = reshape_shape(input, wanted, zero).ok();
            assert_eq!(got.as_deref(), expected, "{input:?} {wanted:?} {zero}");
        }
    }

    /// The positions as the operator page of `Slice` describes them, by plain walking.
    fn walked(dim: usize, start: i64, end: i64, step: i64) -> Vec<i64> {
        let n = dim as i64;
        let shift = |at: i64| if at < 0 { at.saturating_add(n) } else { at };
        let (start, end) = (shift(start), shift(end));
        let mut out = Vec::new();
        if step > 0 {
            let (mut at, end) = (start.clamp(0, n), end.clamp(0, n));
            while at < end {
                out.push(at);
                at = at.saturating_add(step);
            }
        } else {
            let (mut at, end) = (start.clamp(-1, n - 1), end.clamp(-1, n - 1));
            while at > end {
                out.push(at);
                at = at.saturating_add(step);
            }
        }
        out
    }

    #[test]
    fn slice_ranges_agree_with_walking() {
        let edges = [i64::MIN, -8, -6, -5, -1, 0, 1, 3, 4, 5, 7, i64::MAX];
        for dim in [0, 1, 5] {
            for start in edges {
                for end in edges {
                    for step in [i64::MIN, -7, -2, -1, 1, 2, 7, i64::MAX] {
                        let want = walked(dim, start, end, step);
                        let (first, count) = slice_range(dim, start, end, step).unwrap();
                        assert_eq!(count, want.len(), "{dim} {start} {end} {step}");
                        if count > 0 {
                            assert_eq!(first as i64, want[0], "{dim} {start} {end} {step}");
                        }
                    }
                }
            }
        }
        assert!(slice_range(3, 0, 3, 0).is_err());
    }

    #[test]
    fn splits_add_up() {
        assert_eq!(split_sizes(7, None, 3, true).unwrap()[..], [3, 3, 1]);
        assert_eq!(split_sizes(2, None, 4, true).unwrap()[..], [1, 1, 0, 0]);
        assert!(split_sizes(7, None, 3, false).is_err());
        assert_eq!(
            split_sizes(7, Some(&[0, 5, 2]), 3, false).unwrap()[..],
            [0, 5, 2]
        );
        assert!(split_sizes(7, Some(&[8, -1]), 2, false).is_err());
        assert!(split_sizes(7, Some(&[i64::MAX, i64::MAX, 9]), 3, false).is_err());
        assert!(split_sizes(7, None, 0, true).is_err());
    }

    #[test]
    fn a_free_dimension_keeps_its_symbol() {
        let symbol = |name: &str| Dim::Symbol(name.into());
        let input = [symbol("batch"), symbol("length"), Dim::Known(12)];
        let out = [symbol("batch"), Dim::Unknown, Dim::Known(3), Dim::Known(4)];
        assert_eq!(left_over(&input, &out, 1), symbol("length"));
        let out = [symbol("batch"), Dim::Unknown, Dim::Known(5)];
        assert_eq!(left_over(&input, &out, 1), symbol("(12 * length) // 5"));
        let out = [symbol("rows"), Dim::Unknown];
        assert_eq!(left_over(&input, &out, 1), Dim::Unknown);
        let out = [symbol("batch"), Dim::Unknown, Dim::Known(12)];
        assert_eq!(left_over(&input, &out, 1), symbol("length"));
        let input = [Dim::Known(2), Dim::Known(6), Dim::Known(5)];
        let out = [Dim::Known(4), Dim::Unknown];
        assert_eq!(left_over(&input, &out, 1), Dim::Known(15));
    }
}
