//! Tensors, their elements one by one.

use super::error::Why;
use super::writer::Writer;
use refeed_proto::tensor_proto::{DataLocation, DataType};
use refeed_proto::{StringStringEntryProto, TensorProto};

/// Around elements.
const BRACES: [&str; 3] = ["{", ",", "}"];

impl Writer {
    /// Writes a tensor; false, with nothing written, when its element type has no name. An initializer has its name and
    /// an equals sign in any case.
    pub(super) fn tensor(&mut self, tensor: &TensorProto, initializer: bool) -> bool {
        let TensorProto {
            dims,
            data_type,
            segment,
            name,
            doc_string,
            metadata_props,
            data_location,
            external_data,
            // The elements are checked where they are written.
            float_data: _,
            int32_data: _,
            string_data: _,
            int64_data: _,
            raw_data: _,
            double_data: _,
            uint64_data: _,
        } = tensor;
        self.none_of("segment", usize::from(segment.is_some()));
        self.no_place("doc_string", doc_string.as_deref());
        self.none_of("metadata_props", metadata_props.len());
        self.presence("name", name.is_none());
        if !self.element_type("data_type", *data_type) {
            return false;
        }
        let data_type = DataType::try_from(tensor.data_type()).unwrap_or_default();
        if !dims.is_empty() {
            self.list(["[", ",", "]"], dims, |writer, _, dim| writer.int(dim));
        }
        let name = name.as_deref().unwrap_or_default();
        let external = match data_location.map(DataLocation::try_from) {
            None => false,
            Some(Ok(DataLocation::Default)) => {
                self.presence("data_location", true);
                false
            }
            Some(Ok(DataLocation::External)) => true,
            Some(Err(_)) => {
                let got = data_location.unwrap_or_default().to_string();
                self.lose("data_location", Why::value("0 or 1", &got));
                false
            }
        };
        self.text.push(' ');
        if initializer || !name.is_empty() {
            self.name(name);
            self.text.push(' ');
        }
        // In an attribute a type before `[` would be all, so the equals sign says that data follow.
        if initializer || external {
            self.text.push_str("= ");
        }
        if external {
            self.unused(tensor, "");
            if external_data.is_empty() {
                self.lose("external_data", Why::Missing);
                self.text.push_str("{}");
            } else {
                self.entries("external_data", external_data);
            }
        } else {
            self.none_of("external_data", external_data.len());
            self.elements(data_type, tensor);
        }
        true
    }

    /// Writes `["key": "value", ...]`.
    pub(super) fn entries(&mut self, field: &'static str, entries: &[StringStringEntryProto]) {
        self.list(["[", ", ", "]"], entries, |writer, index, entry| {
            let StringStringEntryProto { key, value } = entry;
            writer.inside(field, Some(index), |writer| {
                writer.presence("key", key.is_none());
                writer.presence("value", value.is_none());
            });
            writer.string(key.as_deref().unwrap_or_default());
            writer.text.push_str(": ");
            writer.string(value.as_deref().unwrap_or_default());
        });
    }

    fn elements(&mut self, data_type: DataType, tensor: &TensorProto) {
        let field = match data_type {
            DataType::Float | DataType::Complex64 => "float_data",
            DataType::Double | DataType::Complex128 => "double_data",
            DataType::Int64 => "int64_data",
            DataType::Uint32 | DataType::Uint64 => "uint64_data",
            DataType::String => "string_data",
            _ => "int32_data",
        };
        if let Some(raw) = &tensor.raw_data {
            self.unused(tensor, "raw_data");
            self.representation("raw_data", field);
            self.raw(data_type, &tensor.dims, raw);
            return;
        }
        self.unused(tensor, field);
        match field {
            "float_data" => self.floats(field, BRACES, tensor.float_data.iter().copied()),
            "double_data" => self.floats(field, BRACES, tensor.double_data.iter().copied()),
            "int64_data" => self.list(BRACES, &tensor.int64_data, |writer, _, n| writer.int(n)),
            "uint64_data" => self.list(BRACES, &tensor.uint64_data, |writer, _, n| writer.int(n)),
            "string_data" => {
                self.list(
                    ["{", ", ", "}"],
                    &tensor.string_data,
                    |writer, index, value| {
                        writer.bytes(field, Some(index), value);
                    },
                );
            }
            _ => self.list(BRACES, &tensor.int32_data, |writer, _, n| writer.int(n)),
        }
    }

    /// Notes every field with elements but `used`.
    fn unused(&mut self, tensor: &TensorProto, used: &str) {
        let raw = tensor.raw_data.as_ref().map(|raw| raw.len());
        self.presence("raw_data", used != "raw_data" && raw == Some(0));
        let counts = [
            ("float_data", tensor.float_data.len()),
            ("int32_data", tensor.int32_data.len()),
            ("string_data", tensor.string_data.len()),
            ("int64_data", tensor.int64_data.len()),
            ("raw_data", raw.unwrap_or_default()),
            ("double_data", tensor.double_data.len()),
            ("uint64_data", tensor.uint64_data.len()),
        ];
        for (field, count) in counts {
            if field != used {
                self.none_of(field, count);
            }
        }
    }

    /// Writes the elements that raw bytes hold, as the typed field has them.
    fn raw(&mut self, data_type: DataType, dims: &[i64], raw: &[u8]) {
        let width = match data_type {
            DataType::Double | DataType::Complex128 | DataType::Int64 | DataType::Uint64 => 8,
            DataType::Float | DataType::Complex64 | DataType::Int32 | DataType::Uint32 => 4,
            DataType::Int16 | DataType::Uint16 | DataType::Float16 | DataType::Bfloat16 => 2,
            _ => 1,
        };
        if !raw.len().is_multiple_of(width) {
            let why = Why::Value {
                expected: "whole elements",
                got: format!("{} bytes of elements of {width}", raw.len()),
            };
            self.lose("raw_data", why);
        }
        match data_type {
            DataType::Float | DataType::Complex64 => {
                self.floats("raw_data", BRACES, fixed(raw).map(f32::from_le_bytes));
            }
            DataType::Double | DataType::Complex128 => {
                self.floats("raw_data", BRACES, fixed(raw).map(f64::from_le_bytes));
            }
            DataType::Int64 => self.ints(fixed(raw).map(i64::from_le_bytes)),
            DataType::Uint64 => self.ints(fixed(raw).map(u64::from_le_bytes)),
            DataType::Int32 => self.ints(fixed(raw).map(i32::from_le_bytes)),
            DataType::Uint32 => self.ints(fixed(raw).map(u32::from_le_bytes)),
            DataType::Int16 => self.ints(fixed(raw).map(i16::from_le_bytes)),
            DataType::Uint16 | DataType::Float16 | DataType::Bfloat16 => {
                self.ints(fixed(raw).map(u16::from_le_bytes));
            }
            DataType::Int8 => self.ints(fixed(raw).map(i8::from_le_bytes)),
            DataType::Float6e2m3 | DataType::Float6e3m2 => self.sixes(dims, raw),
            DataType::String | DataType::Undefined => {
                self.none_of("raw_data", raw.len());
                self.text.push_str("{}");
            }
            _ => self.ints(raw.iter().copied()),
        }
    }

    fn ints<T: std::fmt::Display>(&mut self, values: impl IntoIterator<Item = T>) {
        self.list(BRACES, values, |writer, _, value| writer.int(value));
    }

    /// Writes elements of six bits, the lowest first, which the typed field has one a number.
    fn sixes(&mut self, dims: &[i64], raw: &[u8]) {
        let count = dims.iter().try_fold(1_usize, |count, &dim| {
            count.checked_mul(usize::try_from(dim).ok()?)
        });
        let code = |index: usize| {
            let bit = index * 6;
            let low = raw.get(bit / 8).copied().unwrap_or_default();
            let high = raw.get(bit / 8 + 1).copied().unwrap_or_default();
            (u16::from_le_bytes([low, high]) >> (bit % 8)) & 0x3F
        };
        let whole = count.filter(|count| {
            let Some(bits) = count.checked_mul(6) else {
                return false;
            };
            // Bits behind the last element would be lost.
            let rest = bits % 8;
            let clean = rest == 0 || raw.last().is_none_or(|last| last >> rest == 0);
            bits.div_ceil(8) == raw.len() && clean
        });
        match whole {
            Some(count) => self.ints((0..count).map(code)),
            None => {
                let why = Why::Value {
                    expected: "six bits an element, and zeros behind them",
                    got: format!("{} bytes for dimensions {dims:?}", raw.len()),
                };
                self.lose("raw_data", why);
                self.text.push_str("{}");
            }
        }
    }
}

/// The bytes in pieces; what is left over is not among them.
fn fixed<const N: usize>(raw: &[u8]) -> impl Iterator<Item = [u8; N]> {
    raw.as_chunks::<N>().0.iter().copied()
}
