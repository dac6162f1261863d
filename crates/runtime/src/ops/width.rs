//! Elements by width: an operator that only moves elements sees all types of one width as one.

use crate::kernel::{Invocation, OpError};
use refeed_values::{DType, Tensor, TensorMut};

/// Types whose elements can be moved one by one: whole bytes, up to eight.
pub(super) const MOVABLE: &[DType] = &[
    DType::Float,
    DType::Uint8,
    DType::Int8,
    DType::Uint16,
    DType::Int16,
    DType::Int32,
    DType::Int64,
    DType::Bool,
    DType::Float16,
    DType::Double,
    DType::Uint32,
    DType::Uint64,
    DType::Bfloat16,
    DType::Float8E4M3FN,
    DType::Float8E4M3FNUZ,
    DType::Float8E5M2,
    DType::Float8E5M2FNUZ,
    DType::Float8E8M0,
];

/// The unsigned type that moves elements of `dtype`.
///
/// # Errors
/// When elements of the type cannot be moved one by one.
pub(super) fn carrier(dtype: DType) -> Result<DType, OpError> {
    match dtype {
        DType::Complex64 | DType::Complex128 => None,
        _ => match dtype.bits() {
            8 => Some(DType::Uint8),
            16 => Some(DType::Uint16),
            32 => Some(DType::Uint32),
            64 => Some(DType::Uint64),
            _ => None,
        },
    }
    .ok_or_else(|| OpError::Unsupported(format!("moving single elements of {dtype}")))
}

/// The tensor read as its carrier type.
///
/// # Errors
/// When elements of the type cannot be moved one by one.
pub(super) fn carried(tensor: &Tensor) -> Result<Tensor, OpError> {
    retyped(tensor, carrier(tensor.dtype())?)
}

/// The tensor read as elements of another type of the same width.
///
/// # Errors
/// When the widths differ.
pub(super) fn retyped(tensor: &Tensor, dtype: DType) -> Result<Tensor, OpError> {
    tensor
        .reinterpret(dtype)
        .ok_or_else(|| OpError::Unsupported(format!("reading {} as {dtype}", tensor.dtype())))
}

/// Makes an output of `dtype` whose elements `write` moves in; it sees memory of the carrier type.
///
/// # Errors
/// When memory cannot be had or `write` fails.
pub(super) fn moved(
    call: &mut Invocation<'_>,
    dtype: DType,
    shape: &[usize],
    write: impl FnOnce(&mut TensorMut) -> Result<(), OpError>,
) -> Result<Tensor, OpError> {
    let mut out = call.allocate(carrier(dtype)?, shape)?;
    write(&mut out)?;
    retyped(&out.freeze(), dtype)
}

/// Runs `$body` with `$t` standing for the carrier type of `$dtype`.
macro_rules! by_width {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $crate::ops::width::carrier($dtype)? {
            refeed_values::DType::Uint8 => {
                type $t = u8;
                $body
            }
            refeed_values::DType::Uint16 => {
                type $t = u16;
                $body
            }
            refeed_values::DType::Uint32 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}
pub(super) use by_width;

/// Runs `$body` with `$i` standing for the integer type of an index tensor, input `$index`.
macro_rules! by_index {
    ($tensor:expr, $index:expr, $i:ident => $body:expr) => {
        match $tensor.dtype() {
            refeed_values::DType::Int64 => {
                type $i = i64;
                $body
            }
            refeed_values::DType::Int32 => {
                type $i = i32;
                $body
            }
            got => Err($crate::kernel::OpError::DType {
                index: $index,
                expected: "INT64 or INT32".to_string(),
                got,
            }),
        }
    };
}
pub(super) use by_index;

/// All elements of a dense tensor.
///
/// # Errors
/// When the tensor is strided, misaligned or of another type.
pub(super) fn elements<T: refeed_values::Element>(tensor: &Tensor) -> Result<&[T], OpError> {
    let view = tensor.view::<T>()?;
    view.as_slice()
        .ok_or_else(|| OpError::Unsupported("a strided tensor as one slice".to_string()))
}

/// The only number of an INT64 or INT32 input, if the input is there.
///
/// # Errors
/// When it has another type or not exactly one element.
pub(super) fn one_int(
    call: &Invocation<'_>,
    index: usize,
    what: &'static str,
) -> Result<Option<i64>, OpError> {
    if call.input(index).is_none() {
        return Ok(None);
    }
    match call.ints(index)?[..] {
        [number] => Ok(Some(number)),
        ref other => Err(OpError::Value {
            what,
            expected: "one number".to_string(),
            got: format!("{} numbers", other.len()),
        }),
    }
}
