//! Sequences of tensors.

use super::join::join;
use super::layout::axis_of;
use super::rules::{dtype_attribute, refused};
use super::{MANY, NONE, ONE, TWO, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema, normalize_axis};
use crate::types::{Dim, TensorType, ValueType};
use refeed_values::DType;

/// The type of the elements when that of an input is added to those that have the type `held`.
fn joined(cx: &Inference<'_>, index: usize, held: &ValueType) -> Result<ValueType, InferError> {
    let new = cx.input_type(index).unwrap_or(&ValueType::Unset);
    join(held, new)
        .ok_or_else(|| cx.unexpected_kind(index, "an element like the others of the sequence"))
}

fn empty(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = dtype_attribute(cx, "dtype", Some(DType::Float))?;
    let element = TensorType { dtype, shape: None };
    cx.set_type(0, ValueType::sequence_of(element));
    Ok(())
}

fn construct(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let mut element = cx.input_type(0).cloned().unwrap_or_default();
    for index in 1..cx.input_count() {
        element = joined(cx, index, &element)?;
    }
    cx.set_type(0, ValueType::sequence_of(element));
    Ok(())
}

fn insert(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let held = cx.sequence_element(0)?.cloned().unwrap_or_default();
    let element = joined(cx, 1, &held)?;
    cx.set_type(0, ValueType::sequence_of(element));
    Ok(())
}

fn erase(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.sequence_element(0)?;
    cx.same_as_input();
    Ok(())
}

fn at(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let element = cx.sequence_element(0)?.cloned().unwrap_or_default();
    cx.set_type(0, element);
    Ok(())
}

fn length(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.sequence_element(0)?;
    cx.set(0, Some(DType::Int64), Some(Vec::new()));
    Ok(())
}

/// The elements side by side along an axis, their own or a new one.
fn concat(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.required_int("axis")?;
    let stack = cx.attributes.flag("new_axis", false)?;
    let Some(element) = cx.sequence_element(0)? else {
        return Ok(());
    };
    let (dtype, shape) = match element {
        ValueType::Tensor(tensor) => (tensor.dtype, tensor.shape.as_deref()),
        ValueType::Unset => (None, None),
        _ => return Err(cx.unexpected_kind(0, "a sequence of tensors")),
    };
    let out = match shape {
        None => None,
        Some(shape) if stack => {
            let rank = shape.len() + 1;
            let Some(axis) = normalize_axis(axis, rank) else {
                return refused(format!(
                    "axis: expected a value in [-{rank}, {rank}), got {axis}"
                ));
            };
            let mut out = shape.to_vec();
            out.insert(axis, Dim::Unknown);
            Some(out)
        }
        Some(shape) => {
            let mut out = shape.to_vec();
            out[axis_of(axis, shape.len())?] = Dim::Unknown;
            Some(out)
        }
    };
    cx.set(0, dtype, out);
    Ok(())
}

/// The extent that all parts of an axis have when it is cut as input 1 says.
fn part(cx: &Inference<'_>, whole: &Dim) -> Result<Dim, InferError> {
    let Some(sizes) = cx.constant_ints(1) else {
        return Ok(Dim::Unknown);
    };
    let scalar = cx.shape(1).is_some_and(<[Dim]>::is_empty);
    if scalar {
        let [size] = sizes[..] else {
            return Ok(Dim::Unknown);
        };
        let Some(size) = usize::try_from(size).ok().filter(|&size| size > 0) else {
            return refused(format!("split: expected a number above 0, got {size}"));
        };
        // The last part is shorter unless it goes up.
        let even = whole.known().is_some_and(|n| n.is_multiple_of(size));
        return Ok(if even { Dim::Known(size) } else { Dim::Unknown });
    }
    let parts: Option<Vec<usize>> = sizes.iter().map(|&n| usize::try_from(n).ok()).collect();
    let total = parts
        .iter()
        .flatten()
        .try_fold(0usize, |sum, &n| sum.checked_add(n));
    match (parts, total, whole.known()) {
        (Some(_), Some(total), Some(whole)) if total != whole => refused(format!(
            "split: expected sizes that add up to {whole}, got {sizes:?}"
        )),
        (Some(parts), Some(_), _) => match parts.first() {
            Some(first) if parts.iter().all(|part| part == first) => Ok(Dim::Known(*first)),
            _ => Ok(Dim::Unknown),
        },
        _ => refused(format!(
            "split: expected numbers of at least 0, got {sizes:?}"
        )),
    }
}

/// Parts of a tensor along an axis: of the sizes that input 1 gives, or slices.
fn split(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let axis = cx.attributes.int_or("axis", 0)?;
    let keep = cx.attributes.flag("keepdims", true)?;
    let shape = match cx.shape(0) {
        None => None,
        Some(shape) => {
            let axis = axis_of(axis, shape.len())?;
            let mut out = shape.to_vec();
            if cx.has(1) {
                out[axis] = part(cx, &shape[axis])?;
            } else if keep {
                out[axis] = Dim::Known(1);
            } else {
                out.remove(axis);
            }
            Some(out)
        }
    };
    let dtype = cx.dtype(0);
    cx.set_type(0, ValueType::sequence_of(TensorType { dtype, shape }));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("SequenceEmpty", &[11], NONE, empty).attributes(&[Attr::int("dtype")]),
    op("SequenceConstruct", &[11], MANY, construct),
    op("SequenceInsert", &[11], Arity::between(2, 3), insert),
    op("SequenceErase", &[11], Arity::between(1, 2), erase),
    op("SequenceAt", &[11], TWO, at),
    op("SequenceLength", &[11], ONE, length),
    op("ConcatFromSequence", &[11], ONE, concat)
        .attributes(&[Attr::int("axis").required(), Attr::int("new_axis")]),
    op("SplitToSequence", &[11, 24], Arity::between(1, 2), split)
        .attributes(&[Attr::int("axis"), Attr::int("keepdims")]),
];
