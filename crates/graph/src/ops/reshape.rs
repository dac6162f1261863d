//! `Reshape` and `Flatten`: the same elements, counted along other axes.

use super::arithmetic;
use super::layout::axis_of;
use super::rules::refused;
use super::{ONE, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema, all_known, known_dims};
use crate::shape_inference::DimExpr;
use crate::types::Dim;
use refeed_values::MAX_RANK;
use refeed_values::layout::Dims;

/// The shape that `Reshape` gives: 0 copies the input's dimension unless `allow_zero`, one -1 takes what is left.
///
/// # Errors
/// When the element counts cannot agree, a number is below -1, or more than one is -1.
pub fn reshape_shape(
    input: &[usize],
    wanted: &[i64],
    allow_zero: bool,
) -> Result<Dims, InferError> {
    let refuse = || InferError::Shape(format!("cannot reshape {input:?} to {wanted:?}"));
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

/// The entries of the shape that is asked for, as far as they are known; `None` when not even their number is.
fn wanted(cx: &Inference<'_>) -> Result<Option<Vec<Option<DimExpr>>>, InferError> {
    let numbers = match cx.opset {
        ..5 => cx.attributes.ints("shape")?.map(<[i64]>::to_vec),
        // Also those of a longer list than values are followed for.
        _ => cx.constant_ints(1),
    };
    if let Some(numbers) = numbers {
        return Ok(Some(numbers.into_iter().map(|n| Some(n.into())).collect()));
    }
    if cx.opset < 5 {
        return Ok(None);
    }
    if let Some(value) = cx.value(1) {
        return Ok(Some(value.elements().to_vec()));
    }
    let rank = cx.length(1).filter(|&rank| rank <= MAX_RANK);
    Ok(rank.map(|rank| vec![None; rank]))
}

/// The shape that a reshaped input has, entry by entry: 0 copies, and one that is left open takes the rest.
fn reshaped(
    input: Option<&[Dim]>,
    wanted: &[Option<DimExpr>],
    allow_zero: bool,
) -> Result<Vec<Dim>, InferError> {
    let numbers: Option<Vec<i64>> = wanted
        .iter()
        .map(|entry| entry.as_ref()?.constant())
        .collect();
    if let (Some(input), Some(numbers)) = (input.and_then(all_known), numbers) {
        return Ok(known_dims(&reshape_shape(&input, &numbers, allow_zero)?));
    }
    let mut out = Vec::with_capacity(wanted.len());
    let (mut free, mut open) = (None, Vec::new());
    for (axis, entry) in wanted.iter().enumerate() {
        let number = entry.as_ref().and_then(DimExpr::constant);
        out.push(match (number, entry) {
            (Some(0), _) if !allow_zero => match input {
                None => Dim::Unknown,
                Some(input) => match input.get(axis) {
                    Some(dim) => dim.clone(),
                    None => {
                        return refused(format!(
                            "shape: entry {axis} is 0, but the input has {} axes",
                            input.len()
                        ));
                    }
                },
            },
            (Some(-1), _) if free.is_none() => {
                free = Some(axis);
                Dim::Unknown
            }
            (Some(n), _) if n < 0 => {
                return refused(format!(
                    "shape: expected at most one -1 and no other negative number, got {n} at {axis}"
                ));
            }
            (_, Some(entry)) => Dim::from_expr(entry),
            (_, None) => Dim::Unknown,
        });
        if out.last() == Some(&Dim::Unknown) {
            open.push(axis);
        }
    }
    // Whatever the one entry is that is not known: the number of elements stays.
    if let (Some(input), [axis]) = (input, &open[..]) {
        out[*axis] = left_over(input, &out, *axis);
    }
    Ok(out)
}

fn reshape(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let allow_zero = cx.attributes.flag("allowzero", false)?;
    let dtype = cx.dtype(0);
    let out = match wanted(cx)? {
        Some(wanted) => Some(reshaped(cx.shape(0), &wanted, allow_zero)?),
        None => None,
    };
    let rank = out.as_ref().map(Vec::len);
    cx.set_value(0, arithmetic::moved(cx, rank));
    cx.set(0, dtype, out);
    Ok(())
}

/// The extent at `free`: the product of the input's dimensions over that of the others, those that both sides share
/// struck out first.
fn left_over(input: &[Dim], out: &[Dim], free: usize) -> Dim {
    let mut rest: Vec<Dim> = input.to_vec();
    let mut divisors = Vec::new();
    for (axis, dim) in out.iter().enumerate() {
        if axis == free {
            continue;
        }
        // Over 0, every extent has as many elements.
        if matches!(dim, Dim::Known(0) | Dim::Unknown) {
            return Dim::Unknown;
        }
        match rest.iter().position(|other| other == dim) {
            Some(at) => drop(rest.remove(at)),
            None => divisors.push(dim.clone()),
        }
    }
    let (total, divisor) = (Dim::product(&rest), Dim::product(&divisors));
    if divisor == Dim::Known(1) {
        return total;
    }
    let (Some(total), Some(divisor)) = (total.expr(), divisor.expr()) else {
        return Dim::Unknown;
    };
    let quotient = match total.div_exact(&divisor) {
        // A model that runs divides evenly, so that rounding takes nothing away.
        None if total.constant().is_none() && divisor.constant().is_some() => {
            total.div_floor(&divisor)
        }
        quotient => quotient,
    };
    quotient.map_or(Dim::Unknown, |quotient| Dim::from_expr(&quotient))
}

fn flatten(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", 1)?;
    let out = match cx.shape(0) {
        Some(shape) => {
            let at = flatten_axis(axis, shape.len())?;
            vec![Dim::product(&shape[..at]), Dim::product(&shape[at..])]
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

const RESHAPE: &[i64] = &[1, 5, 13, 14, 19, 21, 23, 24, 25];
const FLATTEN: &[i64] = &[1, 9, 11, 13, 21, 23, 24, 25];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Reshape", RESHAPE, Arity::between(1, 2), reshape).attributes(&[
        Attr::int("allowzero"),
        Attr::ints("consumed_inputs"),
        Attr::ints("shape"),
    ]),
    op("Flatten", FLATTEN, ONE, flatten).attributes(&[Attr::int("axis")]),
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

    fn symbol(text: &str) -> Dim {
        Dim::Symbol(text.into())
    }

    #[test]
    fn what_is_left_over_keeps_its_symbol() {
        let input = [symbol("batch"), symbol("length"), Dim::Known(12)];
        let heads = [symbol("batch"), Dim::Unknown, Dim::Known(3), Dim::Known(4)];
        assert_eq!(left_over(&input, &heads, 1), symbol("length"));
        let rows = [Dim::Unknown, Dim::Known(12)];
        assert_eq!(left_over(&input, &rows, 0), symbol("batch*length"));
        let uneven = [symbol("batch"), Dim::Unknown, Dim::Known(5)];
        assert_eq!(left_over(&input, &uneven, 1), symbol("(12 * length) // 5"));
        let empty = [Dim::Known(0), Dim::Unknown];
        assert_eq!(left_over(&input, &empty, 1), Dim::Unknown);
        let input = [Dim::Known(2), Dim::Known(6), Dim::Known(5)];
        let out = [Dim::Known(4), Dim::Unknown];
        assert_eq!(left_over(&input, &out, 1), Dim::Known(15));
    }

    #[test]
    fn entries_that_are_expressions_are_dimensions() {
        let input = [symbol("batch"), symbol("past + new"), Dim::Known(8)];
        let entry = |text: &str| Some(DimExpr::parse(text));
        let number = |n: i64| Some(DimExpr::from(n));
        let shape = |wanted: &[Option<DimExpr>], zero| reshaped(Some(&input), wanted, zero);
        assert_eq!(
            shape(&[entry("batch"), number(-1), number(2), number(4)], false),
            Ok(vec![
                symbol("batch"),
                symbol("past + new"),
                Dim::Known(2),
                Dim::Known(4)
            ])
        );
        // One entry that is not known at all is told by the number of elements.
        assert_eq!(
            shape(&[None, entry("past + new"), number(8)], false),
            Ok(input.to_vec())
        );
        assert_eq!(
            shape(&[number(0), number(0), number(-1)], false),
            Ok(input.to_vec())
        );
        assert!(shape(&[number(-1), number(-1)], false).is_err());
        assert!(shape(&[number(1), number(1), number(1), number(0)], false).is_err());
        assert!(shape(&[number(-2)], false).is_err());
    }
}
