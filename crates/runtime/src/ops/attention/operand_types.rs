//! Element types of `Attention` beside that of the query: values of a narrower one, masks of any number.
//!
//! ONNX lets V and past_value have a type of their own, and a mask any. Attention is computed in the query's type. What
//! comes in another one is converted where the conversion keeps every value, and refused where it would not; of an
//! integer mask, the numbers are rounded as those of a sum are, as long as they are finite in the query's type.

use super::super::cast;
use crate::kernel::{Build, Invocation, OpError};
use refeed_kernels::{Accumulator, Real};
use refeed_values::{DType, Tensor};

/// Whether every value of `from` is one of `to`.
fn keeps(from: DType, to: DType) -> bool {
    from == to
        || matches!(
            (from, to),
            (
                DType::Float16 | DType::Bfloat16,
                DType::Float | DType::Double
            ) | (DType::Float, DType::Double)
        )
}

fn is_integer(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::Uint8
            | DType::Uint16
            | DType::Uint32
            | DType::Uint64
    )
}

fn not_kept(index: usize, query: DType, got: DType, or: &str) -> OpError {
    OpError::DType {
        index,
        expected: format!("{or}{query} as the query, or of a type whose values all are {query}"),
        got,
    }
}

/// Refuses values of a type that the query's does not hold.
pub(super) fn check_values(query: DType, values: DType) -> Result<(), OpError> {
    match keeps(values, query) {
        true => Ok(()),
        false => Err(not_kept(2, query, values, "")),
    }
}

fn check_mask(index: usize, query: DType, mask: DType) -> Result<(), OpError> {
    match mask == DType::Bool || is_integer(mask) || keeps(mask, query) {
        true => Ok(()),
        false => Err(not_kept(index, query, mask, "BOOL, an integer type, ")),
    }
}

/// The same for `Attention` before its first run, as far as types are known.
pub(super) fn check_known(build: &Build<'_>) -> Result<(), OpError> {
    let dtype = |index| build.input(index).and_then(|ty| ty.dtype);
    if let (Some(query), Some(values)) = (dtype(0), dtype(2)) {
        check_values(query, values)?;
    }
    if let (Some(query), Some(mask)) = (dtype(0), dtype(3)) {
        check_mask(3, query, mask)?;
    }
    if let (Some(values), Some(past)) = (dtype(2), dtype(5))
        && values != past
    {
        return Err(OpError::DType {
            index: 5,
            expected: format!("{values} as V"),
            got: past,
        });
    }
    Ok(())
}

/// The tensor in type `T`, which holds every value of it.
pub(super) fn widened<T: Real>(
    call: &mut Invocation<'_>,
    tensor: Tensor,
) -> Result<Tensor, OpError> {
    cast::converted(call, &tensor, T::DTYPE)
}

/// A mask in a type that the kernel reads beside queries of type `T`: BOOL, or `T`.
pub(super) fn summand<T: Real>(
    call: &mut Invocation<'_>,
    mask: &Tensor,
    index: usize,
) -> Result<Tensor, OpError> {
    check_mask(index, T::DTYPE, mask.dtype())?;
    if mask.dtype() == DType::Bool {
        return Ok(mask.clone());
    }
    let summand = cast::converted(call, mask, T::DTYPE)?;
    if is_integer(mask.dtype()) {
        let view = summand.view::<T>()?;
        if view.iter().any(|x| !x.to_acc().is_finite()) {
            return Err(OpError::Value {
                what: "attn_mask",
                expected: format!("integers that are finite as {}", T::DTYPE),
                got: format!("one of {} that is not", mask.dtype()),
            });
        }
    }
    Ok(summand)
}
