//! Tensors to values of the affine profile and back, with parameters of their own or of a shared set.

use super::profile::{Local, Numbers, Plan};
use super::{EncodedError, EncodedValue, ParameterSet, StructType};
use crate::{Allocator, DType, Extent, Tensor, TensorMut};
use half::{bf16, f16};
use std::sync::Arc;

/// Encodes a tensor with the parameters of a set. Numbers outside the range of the shared scales saturate.
///
/// # Errors
/// [`EncodedError::Unsupported`] when the set is not of the affine profile; when the tensor is of another type or shape
/// than the set decodes to, or has elements that are not finite.
pub fn quantize_shared(
    tensor: &Tensor,
    set: &Arc<ParameterSet>,
) -> Result<EncodedValue, EncodedError> {
    let plan = set.plan()?;
    let numbers = Numbers::of_set(set, plan)?;
    if (tensor.dtype(), tensor.shape()) != set.logical() {
        let (dtype, shape) = set.logical();
        return Err(EncodedError::part(
            "tensor",
            format!("{dtype}{shape:?}, as `{}` has", set.name()),
            format!("{}{:?}", tensor.dtype(), tensor.shape()),
        ));
    }
    let local = numbers.encode(plan, &finite_elements(tensor)?)?;
    let payload = bytes(&local.payload())?;
    let declared = Arc::clone(set.local_type()?);
    EncodedValue::shared(declared, set.logical(), payload, Arc::clone(set))
}

/// A value that carries its parameters itself and refers to no set and no catalogue. A value without a set is given back.
///
/// # Errors
/// [`EncodedError::Unsupported`] when the set is not of the affine profile.
pub fn materialize(value: &EncodedValue) -> Result<EncodedValue, EncodedError> {
    let Some(set) = value.parameters() else {
        return Ok(value.clone());
    };
    let plan = set.plan()?;
    let numbers = Numbers::of_set(set, plan)?;
    let local = Local::of_payload(plan, value.payload().as_bytes().unwrap_or_default())?;
    let payload = bytes(&numbers.payload(plan, &local))?;
    let declared = match set.storage_type() {
        declared if declared.is_catalogued() => Arc::new(plan.storage_type()?),
        declared => Arc::clone(declared),
    };
    EncodedValue::records(declared, Some(set.logical()), payload)
}

/// Decodes a value of the affine profile.
pub(super) fn decode(value: &EncodedValue, allocator: &Allocator) -> Result<Tensor, EncodedError> {
    let payload = value.payload().as_bytes().unwrap_or_default();
    let (dtype, shape) = value.logical().ok_or_else(|| EncodedError::Unsupported {
        what: "an encoding that does not say what it decodes to".to_string(),
    })?;
    let values = match (value.parameters(), value.struct_type()) {
        (Some(set), _) => {
            let plan = set.plan()?;
            let numbers = Numbers::of_set(set, plan)?;
            numbers.decode(plan, &Local::of_payload(plan, payload)?)?
        }
        (None, Some(declared)) => decode_self_contained(declared, payload)?,
        (None, None) => Vec::new(),
    };
    tensor_of(&values, dtype, shape, allocator)
}

fn decode_self_contained(declared: &StructType, payload: &[u8]) -> Result<Vec<f64>, EncodedError> {
    let plan = Plan::of(declared)?;
    let record = declared.record_bytes()?;
    if payload.len() as u64 != record {
        let expected = format!("one record of {record} bytes");
        return Err(EncodedError::part(
            "payload",
            expected,
            payload.len().to_string(),
        ));
    }
    let (numbers, local) = Numbers::of_payload(&plan, payload)?;
    numbers.decode(&plan, &local)
}

fn bytes(payload: &[u8]) -> Result<Tensor, EncodedError> {
    Ok(Tensor::from_slice(&[payload.len()], payload)?)
}

/// The elements in double, all of them finite.
fn finite_elements(tensor: &Tensor) -> Result<Vec<f64>, EncodedError> {
    let values: Vec<f64> = match tensor.dtype() {
        DType::Float => tensor.view::<f32>()?.iter().map(f64::from).collect(),
        DType::Double => tensor.view::<f64>()?.to_vec(),
        DType::Float16 => tensor.view::<f16>()?.iter().map(f16::to_f64).collect(),
        DType::Bfloat16 => tensor.view::<bf16>()?.iter().map(bf16::to_f64).collect(),
        other => {
            let expected = "FLOAT, DOUBLE, FLOAT16 or BFLOAT16";
            return Err(EncodedError::part("tensor", expected, other.name()));
        }
    };
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(values),
        Some(value) => Err(EncodedError::part(
            "tensor",
            "finite elements",
            value.to_string(),
        )),
    }
}

/// Numbers as elements of a type that holds them.
fn tensor_of(
    values: &[f64],
    dtype: DType,
    shape: &[usize],
    allocator: &Allocator,
) -> Result<Tensor, EncodedError> {
    if Extent::new(dtype, shape)?.elements() != values.len() {
        return Err(EncodedError::part(
            "logical_type",
            format!("{} elements, as the layout has", values.len()),
            format!("{dtype}{shape:?}"),
        ));
    }
    let mut out = TensorMut::new(allocator, dtype, shape)?;
    match dtype {
        DType::Float => fill(out.as_mut_slice()?, values, |v| v as f32, f32::is_finite)?,
        DType::Double => fill(out.as_mut_slice()?, values, |v| v, f64::is_finite)?,
        DType::Float16 => fill(out.as_mut_slice()?, values, f16::from_f64, f16::is_finite)?,
        DType::Bfloat16 => fill(out.as_mut_slice()?, values, bf16::from_f64, bf16::is_finite)?,
        other => {
            let expected = "FLOAT, DOUBLE, FLOAT16 or BFLOAT16";
            return Err(EncodedError::part("logical_type", expected, other.name()));
        }
    }
    Ok(out.freeze())
}

fn fill<T: Copy>(
    slots: &mut [T],
    values: &[f64],
    narrow: impl Fn(f64) -> T,
    is_finite: impl Fn(T) -> bool,
) -> Result<(), EncodedError> {
    for (slot, &value) in slots.iter_mut().zip(values) {
        *slot = narrow(value);
        if !is_finite(*slot) {
            let expected = "numbers that the element type holds";
            return Err(EncodedError::part(
                "decoded value",
                expected,
                value.to_string(),
            ));
        }
    }
    Ok(())
}
