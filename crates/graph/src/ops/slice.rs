//! `Slice`: positions of a tensor along its axes.

use super::arithmetic;
use super::layout::{axes_of, given_axes};
use super::op;
use super::rules::refused;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::shape_inference::DimExpr;
use crate::types::Dim;
use refeed_values::MAX_RANK;

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
        return refused("steps: expected a number other than 0, got 0".to_string());
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
    if dim == 0 {
        return Ok((0, 0));
    }
    let step = i128::from(step);
    // Backwards, a start before the first position is the first position, other than in Python.
    let (start, end) = if step > 0 {
        let clamp = |at: i64| from_end(at).clamp(0, extent);
        (clamp(start), clamp(end))
    } else {
        (
            from_end(start).clamp(0, extent - 1),
            from_end(end).clamp(-1, extent - 1),
        )
    };
    let span = if step > 0 { end - start } else { start - end };
    if span <= 0 {
        return Ok((0, 0));
    }
    let count = (span + step.abs() - 1) / step.abs();
    Ok((start as usize, count as usize))
}

/// A list of bounds: an attribute in the first version, an input since. `None` when not even their number is known.
fn bounds(
    cx: &Inference<'_>,
    name: &'static str,
    input: usize,
) -> Result<Option<Vec<Option<DimExpr>>>, InferError> {
    if cx.opset < 10 {
        let numbers = cx.attributes.ints(name)?;
        return Ok(numbers.map(|numbers| numbers.iter().map(|&n| Some(n.into())).collect()));
    }
    if let Some(value) = cx.value(input) {
        return Ok(Some(value.elements().to_vec()));
    }
    let count = cx.length(input).filter(|&count| count <= MAX_RANK);
    Ok(count.map(|count| vec![None; count]))
}

/// Numbers from here on stand for the end of an axis, however long.
const ENDLESS: i64 = i32::MAX as i64;

/// A bound of a slice with steps forward, counted from the beginning and kept within the axis.
fn clamped(bound: &DimExpr, extent: &DimExpr) -> Option<DimExpr> {
    match bound.constant() {
        Some(n) if n >= ENDLESS => Some(extent.clone()),
        Some(n) if n <= -ENDLESS => Some(DimExpr::from(0)),
        Some(n) if n < 0 => extent.plus(bound)?.larger(&DimExpr::from(0)),
        // Of an expression that may be negative it is not known from where it counts.
        _ if bound.is_natural() => extent.smaller(bound),
        _ => None,
    }
}

/// How many positions a slice takes of an axis whose extent or bounds are expressions.
fn taken(extent: &DimExpr, start: &DimExpr, end: &DimExpr, step: i64) -> Option<DimExpr> {
    if step < 0 {
        // The whole axis from behind is all that is told.
        let last = start.constant().is_some_and(|n| n == -1 || n >= ENDLESS);
        let first = end.constant().is_some_and(|n| n <= -ENDLESS);
        let by = DimExpr::from(step.checked_neg()?);
        return (last && first).then(|| extent.div_ceil(&by)).flatten();
    }
    let end = clamped(end, extent)?;
    // The last ones, as many as there are.
    if let Some(count) = start.constant().filter(|&n| n < 0 && n > -ENDLESS)
        && end == *extent
    {
        let count = extent.smaller(&DimExpr::from(count.checked_neg()?))?;
        return count.div_ceil(&DimExpr::from(step));
    }
    // From as far back as the axis is long, or farther: as if from the first.
    let zero = DimExpr::from(0);
    if zero.minus(start)?.minus(extent)?.is_natural() {
        return end.div_ceil(&DimExpr::from(step));
    }
    // A start beyond the end gives nothing, wherever it is: only one that counts from the end needs the extent.
    let start = if start.is_natural() && start.constant().is_none_or(|n| n < ENDLESS) {
        start.clone()
    } else {
        clamped(start, extent)?
    };
    let span = end.minus(&start)?;
    let span = if span.is_natural() {
        span
    } else {
        span.larger(&zero)?
    };
    span.div_ceil(&DimExpr::from(step))
}

/// The extent of a slice of one axis.
fn sliced(
    dim: &Dim,
    start: Option<&DimExpr>,
    end: Option<&DimExpr>,
    step: Option<i64>,
) -> Result<Dim, InferError> {
    if step == Some(0) {
        return refused("steps: expected a number other than 0, got 0".to_string());
    }
    let (Some(start), Some(end), Some(step)) = (start, end, step) else {
        return Ok(Dim::Unknown);
    };
    if let (Some(dim), Some(start), Some(end)) = (dim.known(), start.constant(), end.constant()) {
        return Ok(Dim::Known(slice_range(dim, start, end, step)?.1));
    }
    Ok(match dim.expr() {
        Some(extent) => {
            taken(&extent, start, end, step).map_or(Dim::Unknown, |count| Dim::from_expr(&count))
        }
        None => Dim::Unknown,
    })
}

fn slice(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let starts = bounds(cx, "starts", 1)?;
    let ends = bounds(cx, "ends", 2)?;
    let steps = if cx.opset >= 10 && cx.has(4) {
        cx.constant_ints(4)
    } else {
        Some(Vec::new())
    };
    let axes = given_axes(cx, 3, 10)?;
    let Some(shape) = cx.shape(0) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let count = [&starts, &ends].into_iter().flatten().map(Vec::len).next();
    let axes = match (axes, count) {
        (Some(Some(axes)), _) => axes_of(&axes, shape.len())?,
        (Some(None), Some(count)) if count <= shape.len() => (0..count).collect(),
        (Some(None), Some(count)) => {
            let rank = shape.len();
            return refused(format!("starts: {count} numbers for {rank} axes"));
        }
        _ => {
            cx.set(0, dtype, Some(vec![Dim::Unknown; shape.len()]));
            return Ok(());
        }
    };
    let mut out = shape.to_vec();
    for (i, &axis) in axes.iter().enumerate() {
        let at = |bounds: &'_ Option<Vec<Option<DimExpr>>>| bounds.as_ref()?.get(i)?.clone();
        let (start, end) = (at(&starts), at(&ends));
        let step = match &steps {
            Some(steps) if steps.is_empty() => Some(1),
            Some(steps) => steps.get(i).copied(),
            None => None,
        };
        out[axis] = sliced(&shape[axis], start.as_ref(), end.as_ref(), step)?;
        let numbers = (
            start.and_then(|start| start.constant()),
            end.and_then(|end| end.constant()),
            step,
        );
        if let (1, (Some(start), Some(end), Some(step))) = (shape.len(), numbers) {
            cx.set_value(0, arithmetic::sliced(cx, start, end, step));
        }
    }
    cx.set(0, dtype, Some(out));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] =
    &[
        op("Slice", &[1, 10, 11, 13], Arity::between(1, 5), slice).attributes(&[
            Attr::ints("axes"),
            Attr::ints("ends"),
            Attr::ints("starts"),
        ]),
    ];

#[cfg(test)]
mod tests {
    use super::*;

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
        } else if n > 0 {
            let (mut at, end) = (start.clamp(0, n - 1), end.clamp(-1, n - 1));
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
    fn slices_of_symbolic_axes_are_expressions() {
        let symbol = |text: &str| Dim::Symbol(text.into());
        let parse = |text: &str| match text.parse::<i64>() {
            Ok(number) => DimExpr::from(number),
            Err(_) => DimExpr::parse(text),
        };
        let count = |dim: &Dim, start: &str, end: &str, step| {
            let (start, end) = (parse(start), parse(end));
            sliced(dim, Some(&start), Some(&end), Some(step)).unwrap()
        };
        let n = symbol("n");
        assert_eq!(count(&n, "0", "2147483647", 1), n);
        assert_eq!(count(&n, "0", "n", 1), n);
        assert_eq!(count(&n, "0", "1", 1).to_string(), "min(n, 1)");
        assert_eq!(
            count(&n, "1", "9223372036854775807", 1),
            symbol("max(0, n - 1)")
        );
        assert_eq!(count(&n, "0", "-1", 1), symbol("max(0, n - 1)"));
        assert_eq!(count(&n, "-1", "2147483647", 1), symbol("min(n, 1)"));
        assert_eq!(count(&n, "-1", "-9223372036854775807", -1), n);
        assert_eq!(count(&n, "0", "2147483647", 2), symbol("(n + 1)//2"));
        let whole = symbol("past + new");
        assert_eq!(count(&whole, "past", "past + new", 1), symbol("new"));
        assert_eq!(count(&Dim::Known(64), "0", "n", 1), symbol("min(64, n)"));
        assert_eq!(count(&n, "-n", "2147483647", 1), n);
        assert_eq!(count(&n, "-3*n - 1", "n", 1), n);
        // It may count from the end.
        assert_eq!(count(&whole, "0", "past - 4", 1), Dim::Unknown);
        assert!(sliced(&n, None, None, Some(0)).is_err());
    }
}
