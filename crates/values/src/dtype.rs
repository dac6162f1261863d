//! Element types: every ONNX `TensorProto.DataType`, with its width in bits.

use std::fmt;

/// An ONNX element type. Discriminants are the wire numbers of `TensorProto.DataType`.
///
/// Source: the ONNX IR specification, tensor element types.
///
/// ```
/// use refeed_values::DType;
/// assert_eq!(DType::from_onnx(1), Some(DType::Float));
/// assert_eq!(DType::Int4.bits(), 4);
/// assert_eq!(DType::Bfloat16.to_string(), "BFLOAT16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // the names are ONNX's own
pub enum DType {
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
    Double = 11,
    Uint32 = 12,
    Uint64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    Bfloat16 = 16,
    Float8E4M3FN = 17,
    Float8E4M3FNUZ = 18,
    Float8E5M2 = 19,
    Float8E5M2FNUZ = 20,
    Uint4 = 21,
    Int4 = 22,
    Float4E2M1 = 23,
    Float8E8M0 = 24,
    Uint2 = 25,
    Int2 = 26,
    Float6E2M3 = 27,
    Float6E3M2 = 28,
}

impl DType {
    /// Every element type, in the order of the wire numbers.
    pub const ALL: [DType; 28] = [
        DType::Float,
        DType::Uint8,
        DType::Int8,
        DType::Uint16,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::String,
        DType::Bool,
        DType::Float16,
        DType::Double,
        DType::Uint32,
        DType::Uint64,
        DType::Complex64,
        DType::Complex128,
        DType::Bfloat16,
        DType::Float8E4M3FN,
        DType::Float8E4M3FNUZ,
        DType::Float8E5M2,
        DType::Float8E5M2FNUZ,
        DType::Uint4,
        DType::Int4,
        DType::Float4E2M1,
        DType::Float8E8M0,
        DType::Uint2,
        DType::Int2,
        DType::Float6E2M3,
        DType::Float6E3M2,
    ];

    /// The type with this wire number, or `None` for 0 (UNDEFINED) and unknown numbers.
    pub fn from_onnx(number: i32) -> Option<DType> {
        usize::try_from(number.checked_sub(1)?)
            .ok()
            .and_then(|index| DType::ALL.get(index).copied())
    }

    /// The wire number of `TensorProto.DataType`.
    pub const fn to_onnx(self) -> i32 {
        self as i32
    }

    /// Bits one element takes in memory; 0 for STRING, whose elements have no fixed width.
    pub const fn bits(self) -> usize {
        match self {
            DType::String => 0,
            DType::Uint2 | DType::Int2 => 2,
            DType::Uint4 | DType::Int4 | DType::Float4E2M1 => 4,
            DType::Float6E2M3 | DType::Float6E3M2 => 6,
            DType::Uint8
            | DType::Int8
            | DType::Bool
            | DType::Float8E4M3FN
            | DType::Float8E4M3FNUZ
            | DType::Float8E5M2
            | DType::Float8E5M2FNUZ
            | DType::Float8E8M0 => 8,
            DType::Uint16 | DType::Int16 | DType::Float16 | DType::Bfloat16 => 16,
            DType::Float | DType::Int32 | DType::Uint32 => 32,
            DType::Int64 | DType::Uint64 | DType::Double | DType::Complex64 => 64,
            DType::Complex128 => 128,
        }
    }

    /// Bytes of one element, or `None` for STRING and the packed sub-byte types.
    pub const fn size(self) -> Option<usize> {
        match self.bits() {
            0 => None,
            bits if bits % 8 == 0 => Some(bits / 8),
            _ => None,
        }
    }

    /// Alignment in bytes that typed access needs; complex numbers align as their parts.
    pub const fn align(self) -> usize {
        match self {
            DType::Complex64 => 4,
            DType::Complex128 => 8,
            _ => match self.size() {
                Some(size) => size,
                None => 1,
            },
        }
    }

    /// Whether several elements share one byte.
    pub const fn is_packed(self) -> bool {
        matches!(self.bits(), 2 | 4 | 6)
    }

    /// FLOAT, DOUBLE, FLOAT16 or BFLOAT16.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            DType::Float | DType::Double | DType::Float16 | DType::Bfloat16
        )
    }

    /// The ONNX name, in upper case as the specification writes it.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Float => "FLOAT",
            DType::Uint8 => "UINT8",
            DType::Int8 => "INT8",
            DType::Uint16 => "UINT16",
            DType::Int16 => "INT16",
            DType::Int32 => "INT32",
            DType::Int64 => "INT64",
            DType::String => "STRING",
            DType::Bool => "BOOL",
            DType::Float16 => "FLOAT16",
            DType::Double => "DOUBLE",
            DType::Uint32 => "UINT32",
            DType::Uint64 => "UINT64",
            DType::Complex64 => "COMPLEX64",
            DType::Complex128 => "COMPLEX128",
            DType::Bfloat16 => "BFLOAT16",
            DType::Float8E4M3FN => "FLOAT8E4M3FN",
            DType::Float8E4M3FNUZ => "FLOAT8E4M3FNUZ",
            DType::Float8E5M2 => "FLOAT8E5M2",
            DType::Float8E5M2FNUZ => "FLOAT8E5M2FNUZ",
            DType::Uint4 => "UINT4",
            DType::Int4 => "INT4",
            DType::Float4E2M1 => "FLOAT4E2M1",
            DType::Float8E8M0 => "FLOAT8E8M0",
            DType::Uint2 => "UINT2",
            DType::Int2 => "INT2",
            DType::Float6E2M3 => "FLOAT6E2M3",
            DType::Float6E3M2 => "FLOAT6E3M2",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that reads elements of some [`DType`].
///
/// BOOL is read as `u8` holding 0 or 1; any nonzero byte counts as true.
pub trait Element: bytemuck::Pod + Send + Sync + Default + PartialEq + fmt::Debug {
    /// The dtype that new tensors of this type get.
    const DTYPE: DType;
    /// Whether memory of `dtype` may be read as this type.
    fn reads(dtype: DType) -> bool {
        dtype == Self::DTYPE
    }
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),* $(,)?) => { $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })* };
}
element! {
    f32 => Float, f64 => Double, half::f16 => Float16, half::bf16 => Bfloat16,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u16 => Uint16, u32 => Uint32, u64 => Uint64,
}
impl Element for u8 {
    const DTYPE: DType = DType::Uint8;
    fn reads(dtype: DType) -> bool {
        matches!(dtype, DType::Uint8 | DType::Bool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_numbers_round_trip() {
        for (index, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!(dtype.to_onnx(), index as i32 + 1);
            assert_eq!(DType::from_onnx(dtype.to_onnx()), Some(dtype));
        }
        for number in [i32::MIN, -1, 0, 29, i32::MAX] {
            assert_eq!(DType::from_onnx(number), None);
        }
    }
}
