//! Values of shape arithmetic: what the operators that exporters build shapes with give for elements that are known as
//! expressions.
//!
//! Each function answers for output 0 of its operator, from [`Inference::value`] of the inputs; `None` where nothing can
//! be told, which is never an error: the types of the node are checked by its own rule.

use super::rules::constant_int;
use super::slice::slice_range;
use super::split::split_sizes;
use crate::schema::{Inference, normalize_axis};
use crate::shape_inference::{DimExpr, ShapeValue};
use crate::types::Dim;
use refeed_values::DType;
use std::cmp::Ordering;

type Expr = Option<DimExpr>;

/// Elements as a value without axes when the output has none, else of one axis.
fn of_rank(elements: Vec<Expr>, rank: usize) -> Option<ShapeValue> {
    match rank {
        0 | 1 => ShapeValue::vector(elements)?.with_rank(rank == 0),
        _ => None,
    }
}

/// The value of an input whose length alone may be known.
fn vector(cx: &Inference<'_>, index: usize) -> Option<ShapeValue> {
    if let Some(value) = cx.value(index) {
        return (!value.is_scalar()).then_some(value);
    }
    let length = cx.length(index)?;
    if length > crate::shape_inference::VALUE_LIMIT {
        return None;
    }
    ShapeValue::vector(vec![None; length])
}

/// `Shape`: the dimensions from `start` to `end`.
pub(super) fn shape(cx: &Inference<'_>, start: usize, end: usize) -> Option<ShapeValue> {
    ShapeValue::from_dims(cx.shape(0)?.get(start..end)?)
}

/// `Size`: the product of all dimensions.
pub(super) fn size(cx: &Inference<'_>) -> Option<ShapeValue> {
    Some(ShapeValue::scalar(Dim::product(cx.shape(0)?).expr()))
}

/// The input's own value, under the shape of the output: `Identity`, `Reshape`, `Squeeze`, `Unsqueeze`, `Transpose`.
pub(super) fn moved(cx: &Inference<'_>, rank: Option<usize>) -> Option<ShapeValue> {
    of_rank(cx.value(0)?.elements().to_vec(), rank?)
}

/// `Cast` between types that hold whole numbers. A number that the target does not hold is not known.
pub(super) fn cast(cx: &Inference<'_>, to: DType) -> Option<ShapeValue> {
    let value = cx.value(0)?;
    match to {
        DType::Int64 => Some(value),
        DType::Int32 => Some(value.map(|e| {
            let fits = e.constant().is_none_or(|n| i32::try_from(n).is_ok());
            fits.then(|| e.clone())
        })),
        DType::Bool => Some(value.map(|e| sign(e).map(|sign| truth(sign != Ordering::Equal)))),
        _ => None,
    }
}

/// Two operands element by element.
pub(super) fn binary(cx: &Inference<'_>, f: fn(&DimExpr, &DimExpr) -> Expr) -> Option<ShapeValue> {
    cx.value(0)?.zip(&cx.value(1)?, f)
}

/// Any number of operands, folded.
pub(super) fn folded(cx: &Inference<'_>, f: fn(&DimExpr, &DimExpr) -> Expr) -> Option<ShapeValue> {
    let mut held = cx.value(0)?;
    for index in 1..cx.input_count() {
        held = held.zip(&cx.value(index)?, f)?;
    }
    Some(held)
}

/// `Div` of whole numbers, which cuts towards zero; expressions stand for extents, where that is rounding down.
pub(super) fn div(a: &DimExpr, b: &DimExpr) -> Expr {
    match (a.constant(), b.constant()) {
        (Some(a), Some(b)) => a.checked_div(b).map(DimExpr::from),
        _ if a.is_natural() && b.is_natural() => a.div_floor(b),
        _ => a.div_exact(b),
    }
}

/// `Neg`
pub(super) fn negated(e: &DimExpr) -> Expr {
    DimExpr::from(0).minus(e)
}

/// `Abs`
pub(super) fn absolute(e: &DimExpr) -> Expr {
    if e.is_natural() {
        return Some(e.clone());
    }
    e.constant()?.checked_abs().map(DimExpr::from)
}

/// One operand element by element.
pub(super) fn unary(cx: &Inference<'_>, f: fn(&DimExpr) -> Expr) -> Option<ShapeValue> {
    Some(cx.value(0)?.map(f))
}

fn truth(value: bool) -> DimExpr {
    DimExpr::from(i64::from(value))
}

/// How an expression compares with 0, when that is the same for all extents.
fn sign(e: &DimExpr) -> Option<Ordering> {
    match e.constant() {
        Some(number) => Some(number.cmp(&0)),
        None if e.is_positive() => Some(Ordering::Greater),
        None if negated(e)?.is_positive() => Some(Ordering::Less),
        None => None,
    }
}

/// A comparison; BOOL as 0 and 1.
pub(super) fn compare(cx: &Inference<'_>, holds: fn(Ordering) -> bool) -> Option<ShapeValue> {
    cx.value(0)?.zip(&cx.value(1)?, |a, b| {
        sign(&a.minus(b)?).map(|sign| truth(holds(sign)))
    })
}

/// `Not`
pub(super) fn inverted(e: &DimExpr) -> Expr {
    e.constant().map(|number| truth(number == 0))
}

/// `And`
pub(super) fn both(a: &DimExpr, b: &DimExpr) -> Expr {
    Some(truth(a.constant()? != 0 && b.constant()? != 0))
}

/// `Or`
pub(super) fn either(a: &DimExpr, b: &DimExpr) -> Expr {
    Some(truth(a.constant()? != 0 || b.constant()? != 0))
}

/// `Where`, element by element of one length, or of one element repeated.
pub(super) fn chosen(cx: &Inference<'_>) -> Option<ShapeValue> {
    let operands = [
        cx.value(0),
        vector_or_scalar(cx, 1),
        vector_or_scalar(cx, 2),
    ];
    let [condition, yes, no] = operands;
    let (condition, yes, no) = (condition?, yes?, no?);
    let lengths = [&condition, &yes, &no].map(|value| value.elements().len());
    let length = lengths.into_iter().max()?;
    if lengths.iter().any(|&held| held != length && held != 1) {
        return None;
    }
    let at = |value: &ShapeValue, index: usize| -> Expr {
        let elements = value.elements();
        elements[if elements.len() == 1 { 0 } else { index }].clone()
    };
    let pick = |index| match at(&condition, index).and_then(|e| e.constant()) {
        Some(0) => at(&no, index),
        Some(_) => at(&yes, index),
        // Both ways the same.
        None => at(&yes, index).filter(|yes| at(&no, index).as_ref() == Some(yes)),
    };
    let scalar = condition.is_scalar() && yes.is_scalar() && no.is_scalar();
    of_rank((0..length).map(pick).collect(), usize::from(!scalar))
}

fn vector_or_scalar(cx: &Inference<'_>, index: usize) -> Option<ShapeValue> {
    match cx.value(index) {
        Some(value) => Some(value),
        None if cx.shape(index)?.is_empty() => Some(ShapeValue::scalar(None)),
        None => vector(cx, index),
    }
}

/// `Gather` along the one axis.
pub(super) fn gathered(cx: &Inference<'_>) -> Option<ShapeValue> {
    let data = vector(cx, 0)?;
    let indices = cx.value(1)?;
    let pick = |index: &Expr| {
        let index = normalize_axis(index.as_ref()?.constant()?, data.elements().len())?;
        data.elements()[index].clone()
    };
    let picked = indices.elements().iter().map(pick).collect();
    of_rank(picked, usize::from(!indices.is_scalar()))
}

/// `Concat` along the one axis; parts of which only the length is known keep the others' places.
pub(super) fn joined(cx: &Inference<'_>) -> Option<ShapeValue> {
    let mut elements = Vec::new();
    for index in 0..cx.input_count() {
        elements.extend_from_slice(vector(cx, index)?.elements());
        if elements.len() > crate::shape_inference::VALUE_LIMIT {
            return None;
        }
    }
    ShapeValue::vector(elements)
}

/// `Slice` along the one axis.
pub(super) fn sliced(cx: &Inference<'_>, start: i64, end: i64, step: i64) -> Option<ShapeValue> {
    let data = vector(cx, 0)?;
    let elements = data.elements();
    let (first, count) = slice_range(elements.len(), start, end, step).ok()?;
    // Every position is inside, so that no step leaves the range of the type.
    let at = |index: usize| -> Option<Expr> {
        let position = (first as i128) + i128::from(step) * (index as i128);
        elements.get(usize::try_from(position).ok()?).cloned()
    };
    ShapeValue::vector((0..count).map(at).collect::<Option<_>>()?)
}

/// `Split` along the one axis: the value of each output.
pub(super) fn split(
    cx: &Inference<'_>,
    sizes: Option<&[i64]>,
    uneven: bool,
) -> Option<Vec<ShapeValue>> {
    let data = cx.value(0).filter(|value| !value.is_scalar())?;
    let elements = data.elements();
    let sizes = split_sizes(elements.len(), sizes, cx.output_count(), uneven).ok()?;
    let mut at = 0;
    let parts = sizes.iter().map(|&size| {
        let part = elements.get(at..at + size)?.to_vec();
        at += size;
        ShapeValue::vector(part)
    });
    parts.collect()
}

/// One element a number of times: `Expand` and `Tile` of a single element, `ConstantOfShape`.
pub(super) fn repeated(element: Expr, shape: &[Dim]) -> Option<ShapeValue> {
    let count = match shape {
        [] => return Some(ShapeValue::scalar(element)),
        [Dim::Known(count)] if *count <= crate::shape_inference::VALUE_LIMIT => *count,
        _ => return None,
    };
    ShapeValue::vector(vec![element; count])
}

/// `Expand` to a known length.
pub(super) fn expanded(cx: &Inference<'_>, shape: &[Dim]) -> Option<ShapeValue> {
    let value = cx.value(0)?;
    match value.elements() {
        [one] => repeated(one.clone(), shape),
        _ => of_rank(value.elements().to_vec(), shape.len()),
    }
}

/// `Tile` along the one axis.
pub(super) fn tiled(cx: &Inference<'_>) -> Option<ShapeValue> {
    let value = vector(cx, 0)?;
    let times = usize::try_from(constant_int(cx, 1)?).ok()?;
    let length = value.elements().len().checked_mul(times)?;
    if length > crate::shape_inference::VALUE_LIMIT {
        return None;
    }
    let rounds = std::iter::repeat_n(value.elements(), times);
    ShapeValue::vector(rounds.flatten().cloned().collect())
}

/// `Range` between numbers.
pub(super) fn counted(cx: &Inference<'_>, count: &Dim) -> Option<ShapeValue> {
    let count = count
        .known()
        .filter(|&count| count <= crate::shape_inference::VALUE_LIMIT)?;
    let (start, delta) = (cx.value(0)?, cx.value(2)?);
    let (start, delta) = (start.single()?.clone(), delta.single()?.clone());
    let number = |index: usize| start.plus(&delta.times(&DimExpr::from(index as i64))?);
    ShapeValue::vector((0..count).map(number).collect())
}

/// A reduction of all elements to one.
pub(super) fn reduced(
    cx: &Inference<'_>,
    f: fn(&DimExpr, &DimExpr) -> Expr,
    rank: usize,
) -> Option<ShapeValue> {
    let value = cx.value(0)?;
    let (first, rest) = value.elements().split_first()?;
    let all = rest
        .iter()
        .try_fold(first.clone()?, |held, element| f(&held, element.as_ref()?));
    of_rank(vec![all], rank)
}
