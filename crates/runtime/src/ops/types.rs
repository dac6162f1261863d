//! Lists of element types, for [`crate::kernel::KernelEntry::types`].

use refeed_values::DType;
use refeed_values::DType::{
    Bfloat16, Bool, Double, Float, Float16, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32,
    Uint64,
};

/// Floating point types that are computed with.
pub(super) const FLOATS: &[DType] = &[Float, Double, Float16, Bfloat16];

/// Numbers that have a sign.
pub(super) const SIGNED: &[DType] = &[Float, Double, Float16, Bfloat16, Int8, Int16, Int32, Int64];

/// All numbers.
pub(super) const NUMBERS: &[DType] = &[
    Float, Double, Float16, Bfloat16, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
];

/// All numbers, and BOOL.
pub(super) const ALL: &[DType] = &[
    Float, Double, Float16, Bfloat16, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    Bool,
];

/// BOOL alone.
pub(super) const BOOL: &[DType] = &[Bool];

/// What indices and shapes are given in.
pub(super) const INDICES: &[DType] = &[Int64, Int32];
