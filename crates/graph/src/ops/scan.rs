//! `Scan`: a graph for each slice of tensors, with states that go from one to the next.

use super::control_flow::{enter, stack};
use super::layout::axes_of;
use super::rules::{merge, refused};
use super::{MANY, op};
use crate::attributes::AttributeError;
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::{Dim, TensorType, ValueType};

/// Numbers of states and of scanned inputs, of all inputs after the first `skipped`.
fn scanned(cx: &Inference<'_>, skipped: usize) -> Result<(usize, usize, usize), InferError> {
    let number = cx.attributes.required_int("num_scan_inputs")?;
    let all = cx.input_count().saturating_sub(skipped);
    let scans = usize::try_from(number).ok().filter(|&n| 0 < n && n <= all);
    let Some(scans) = scans else {
        return Err(AttributeError::Value {
            name: "num_scan_inputs",
            expected: "at least 1, and at most the number of inputs",
            got: number.to_string(),
        }
        .into());
    };
    let states = all - scans;
    let Some(outputs) = cx.output_count().checked_sub(states) else {
        return refused(format!(
            "expected an output for each of {states} states, got {}",
            cx.output_count()
        ));
    };
    Ok((states, scans, outputs))
}

/// Axes of one list attribute, 0 where there is none.
fn scan_axes(cx: &Inference<'_>, name: &'static str, count: usize) -> Result<Vec<i64>, InferError> {
    match cx.attributes.ints(name)? {
        None => Ok(vec![0; count]),
        Some(axes) if axes.len() == count => Ok(axes.to_vec()),
        Some(axes) => Err(AttributeError::Value {
            name,
            expected: "one axis for each scanned input or output",
            got: format!("{axes:?}"),
        }
        .into()),
    }
}

/// A state before the loop and after it, which have one shape.
fn lasting(state: &ValueType, last: &ValueType, index: usize) -> Result<ValueType, InferError> {
    let what = format!("an extent of state {index}");
    Ok(match (state, last) {
        (ValueType::Tensor(a), ValueType::Tensor(b)) => {
            let shape = match (&a.shape, &b.shape) {
                (Some(a), Some(b)) if a.len() == b.len() => {
                    let dims = a.iter().zip(b).map(|(a, b)| merge(a, b, &what));
                    Some(dims.collect::<Result<_, _>>()?)
                }
                (Some(a), Some(b)) => {
                    return refused(format!(
                        "state {index} has {} axes before an iteration and {} after it",
                        a.len(),
                        b.len()
                    ));
                }
                (a, b) => a.clone().or(b.clone()),
            };
            let dtype = a.dtype.or(b.dtype);
            TensorType { dtype, shape }.into()
        }
        (ValueType::Unset, other) | (other, _) => other.clone(),
    })
}

/// A type without some of its axes, and the extents of those.
fn without(
    ty: Option<&ValueType>,
    axes: &[i64],
) -> Result<(ValueType, Option<Vec<Dim>>), InferError> {
    let Some(ValueType::Tensor(tensor)) = ty else {
        return Ok((ty.cloned().unwrap_or_default(), None));
    };
    let Some(shape) = &tensor.shape else {
        return Ok((tensor.clone().into(), None));
    };
    let axes = axes_of(axes, shape.len())?;
    let taken = axes.iter().map(|&axis| shape[axis].clone()).collect();
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis));
    let shape = Some(kept.map(|(_, dim)| dim.clone()).collect());
    let dtype = tensor.dtype;
    Ok((TensorType { dtype, shape }.into(), Some(taken)))
}

/// States, then tensors that are gone through along an axis. The outputs are the last states, and what each iteration
/// gives besides, side by side.
fn scan(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if cx.opset < 9 {
        return scan_batches(cx);
    }
    let (states, scans, outputs) = scanned(cx, 0)?;
    let input_axes = scan_axes(cx, "scan_input_axes", scans)?;
    let output_axes = scan_axes(cx, "scan_output_axes", outputs)?;
    let mut inputs: Vec<ValueType> = (0..states)
        .map(|index| cx.input_type(index).cloned().unwrap_or_default())
        .collect();
    let mut length = Dim::Unknown;
    for (place, &axis) in input_axes.iter().enumerate() {
        let (element, taken) = without(cx.input_type(states + place), &[axis])?;
        if let Some(taken) = taken {
            length = merge(&length, &taken[0], "the extent of the scanned axis")?;
        }
        inputs.push(element);
    }
    let Some(given) = enter(cx, "body", &inputs, states + outputs)? else {
        for (index, state) in inputs[..states].iter().enumerate() {
            cx.set_type(index, state.clone());
        }
        return Ok(());
    };
    for (index, (state, last)) in inputs[..states].iter().zip(&given).enumerate() {
        let ty = lasting(state, last, index)?;
        cx.set_type(index, ty);
    }
    for (place, &axis) in output_axes.iter().enumerate() {
        stack(cx, states + place, &given[states + place], axis, &length)?;
    }
    Ok(())
}

/// The first version: input 0 has the lengths, all others begin with a batch axis, and the scanned ones with the axis
/// of the sequence after it.
fn scan_batches(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let (states, scans, outputs) = scanned(cx, 1)?;
    let (mut batch, mut length) = (Dim::Unknown, Dim::Unknown);
    let mut inputs = Vec::with_capacity(states + scans);
    for place in 0..states + scans {
        let axes: &[i64] = if place < states { &[0] } else { &[0, 1] };
        let (element, taken) = without(cx.input_type(1 + place), axes)?;
        if let Some(taken) = taken {
            batch = merge(&batch, &taken[0], "the batch size")?;
            if let Some(own) = taken.get(1) {
                length = merge(&length, own, "the extent of the scanned axis")?;
            }
        }
        inputs.push(element);
    }
    let Some(given) = enter(cx, "body", &inputs, states + outputs)? else {
        return Ok(());
    };
    for (index, last) in given.iter().enumerate() {
        let mut ty = match inputs[..states].get(index) {
            Some(state) => lasting(state, last, index)?,
            None => last.clone(),
        };
        if let ValueType::Tensor(TensorType {
            shape: Some(shape), ..
        }) = &mut ty
        {
            if index >= states {
                shape.insert(0, length.clone());
            }
            shape.insert(0, batch.clone());
        }
        cx.set_type(index, ty);
    }
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] =
    &[op("Scan", &[8, 9, 11, 16, 19, 21, 23, 24, 25], MANY, scan)
        .outputs(MANY)
        .attributes(&[
            Attr::graph("body").required(),
            Attr::ints("directions"),
            Attr::int("num_scan_inputs").required(),
            Attr::ints("scan_input_axes"),
            Attr::ints("scan_input_directions"),
            Attr::ints("scan_output_axes"),
            Attr::ints("scan_output_directions"),
        ])];
