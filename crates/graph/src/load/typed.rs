//! The typed fields of a tensor, converted to raw little-endian bytes.

use refeed_proto::{Bytes, TensorProto};
use refeed_values::{DType, Extent};

use super::LoadError;

/// The field that holds elements of this type, as the ONNX schema assigns them.
fn field_of(dtype: DType) -> &'static str {
    match dtype {
        DType::Float | DType::Complex64 => "float_data",
        DType::Double | DType::Complex128 => "double_data",
        DType::Int64 => "int64_data",
        DType::Uint32 | DType::Uint64 => "uint64_data",
        DType::String => "string_data",
        _ => "int32_data",
    }
}

/// The elements in the typed field `set` of `tensor`; `None` when no field is set at all.
pub(super) fn convert(
    tensor: &TensorProto,
    dtype: DType,
    extent: Extent,
    set: Option<&'static str>,
) -> Result<Bytes, LoadError> {
    let field = field_of(dtype);
    if let Some(got) = set.filter(|&got| got != field) {
        return Err(LoadError::WrongField {
            tensor: tensor.name().to_string(),
            dtype,
            expected: field,
            got,
        });
    }
    let source = Source {
        tensor,
        dtype,
        field,
        elements: extent.elements(),
    };
    let mut out = source.reserve(extent.bytes())?;
    match dtype {
        DType::Float | DType::Complex64 => {
            source.count(tensor.float_data.len(), dtype.bits() / 32)?;
            tensor
                .float_data
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        DType::Double | DType::Complex128 => {
            source.count(tensor.double_data.len(), dtype.bits() / 64)?;
            tensor
                .double_data
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        DType::Int64 => {
            source.count(tensor.int64_data.len(), 1)?;
            tensor
                .int64_data
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        DType::Uint64 => {
            source.count(tensor.uint64_data.len(), 1)?;
            tensor
                .uint64_data
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        DType::Uint32 => {
            source.count(tensor.uint64_data.len(), 1)?;
            for (index, &value) in tensor.uint64_data.iter().enumerate() {
                let narrow =
                    u32::try_from(value).map_err(|_| source.out_of_range(index, value.into()))?;
                out.extend_from_slice(&narrow.to_le_bytes());
            }
        }
        _ => source.narrow(&tensor.int32_data, extent.bytes(), &mut out)?,
    }
    debug_assert_eq!(out.len(), extent.bytes());
    Ok(Bytes::from(out))
}

/// Which tensor is converted, and the words of its errors.
struct Source<'a> {
    tensor: &'a TensorProto,
    dtype: DType,
    field: &'static str,
    elements: usize,
}

impl Source<'_> {
    /// Room for the result, once the field has as many bytes as that can need.
    fn reserve(&self, bytes: usize) -> Result<Vec<u8>, LoadError> {
        // An entry of any field gives at most 16 elements or 8 bytes: a size beyond that cannot be filled.
        let tensor = self.tensor;
        let entries = [
            tensor.float_data.len(),
            tensor.int32_data.len(),
            tensor.int64_data.len(),
            tensor.double_data.len(),
            tensor.uint64_data.len(),
        ];
        let entries = entries.into_iter().max().unwrap_or(0);
        if bytes > entries.saturating_mul(8) {
            return Err(self.size(self.elements, entries));
        }
        let mut out = Vec::new();
        out.try_reserve_exact(bytes)
            .map_err(|_| LoadError::Memory {
                what: super::error::tensor_label(self.tensor.name()),
                bytes,
            })?;
        Ok(out)
    }

    fn size(&self, expected: usize, got: usize) -> LoadError {
        let tensor = self.tensor.name().to_string();
        LoadError::DataSize {
            tensor,
            field: self.field,
            unit: "entries",
            expected,
            got,
        }
    }

    fn out_of_range(&self, index: usize, value: i128) -> LoadError {
        let tensor = self.tensor.name().to_string();
        LoadError::ValueRange {
            tensor,
            field: self.field,
            index,
            value,
            dtype: self.dtype,
        }
    }

    /// `per_element` entries for each element.
    fn count(&self, got: usize, per_element: usize) -> Result<(), LoadError> {
        let expected = self.elements.saturating_mul(per_element);
        if got == expected {
            Ok(())
        } else {
            Err(self.size(expected, got))
        }
    }

    /// Types of 32 bits or less, an entry for each element or for each byte of packed ones.
    fn narrow(&self, data: &[i32], bytes: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
        match self.dtype {
            DType::Uint2 | DType::Int2 | DType::Uint4 | DType::Int4 | DType::Float4E2M1 => {
                self.packed(data, bytes, out)
            }
            DType::Float6E2M3 | DType::Float6E3M2 => self.six_bits(data, out),
            _ => self.whole(data, out),
        }
    }

    fn whole(&self, data: &[i32], out: &mut Vec<u8>) -> Result<(), LoadError> {
        self.count(data.len(), 1)?;
        let (low, high) = match self.dtype {
            DType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            DType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            DType::Uint16 => (0, i64::from(u16::MAX)),
            DType::Int8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
            DType::Uint8 => (0, i64::from(u8::MAX)),
            DType::Bool => (i64::from(i32::MIN), i64::from(i32::MAX)),
            // Bit patterns of small floats, which some writers extend by their sign.
            dtype => bit_pattern(dtype.bits()),
        };
        let size = self.dtype.bits() / 8;
        for (index, &value) in data.iter().enumerate() {
            if !(low..=high).contains(&i64::from(value)) {
                return Err(self.out_of_range(index, value.into()));
            }
            let value = if self.dtype == DType::Bool {
                i32::from(value != 0)
            } else {
                value
            };
            out.extend_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(())
    }

    /// One byte of packed elements an entry, as the `onnx` package writes, or four.
    fn packed(&self, data: &[i32], bytes: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
        if data.len() == bytes {
            let (low, high) = bit_pattern(8);
            for (index, &value) in data.iter().enumerate() {
                if !(low..=high).contains(&i64::from(value)) {
                    return Err(self.out_of_range(index, value.into()));
                }
                out.push(value.to_le_bytes()[0]);
            }
        } else if data.len() == bytes.div_ceil(4) {
            data.iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
            out.truncate(bytes);
        } else {
            return Err(self.size(bytes, data.len()));
        }
        Ok(())
    }

    /// One element an entry; four of them make three bytes, from the low bits on.
    fn six_bits(&self, data: &[i32], out: &mut Vec<u8>) -> Result<(), LoadError> {
        self.count(data.len(), 1)?;
        for (chunk_index, chunk) in data.chunks(4).enumerate() {
            let mut bits = 0u32;
            for (index, &value) in chunk.iter().enumerate() {
                if !(0..64).contains(&value) {
                    return Err(self.out_of_range(chunk_index * 4 + index, value.into()));
                }
                bits |= (value as u32) << (6 * index);
            }
            out.extend_from_slice(&bits.to_le_bytes()[..(6 * chunk.len()).div_ceil(8)]);
        }
        Ok(())
    }
}

/// The integers whose low `bits` bits can be meant: unsigned, or extended by the sign.
fn bit_pattern(bits: usize) -> (i64, i64) {
    (-(1i64 << (bits - 1)), (1i64 << bits) - 1)
}
