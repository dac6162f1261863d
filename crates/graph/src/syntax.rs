//! The words of the ONNX text form, which its parser and its printer share.

use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::tensor_proto::DataType;

/// Names of element types, as types are written: `float[3]`.
const ELEMENT_TYPES: [(&str, DataType); 28] = [
    ("float", DataType::Float),
    ("int64", DataType::Int64),
    ("float16", DataType::Float16),
    ("bfloat16", DataType::Bfloat16),
    ("double", DataType::Double),
    ("int32", DataType::Int32),
    ("bool", DataType::Bool),
    ("uint8", DataType::Uint8),
    ("int8", DataType::Int8),
    ("uint16", DataType::Uint16),
    ("int16", DataType::Int16),
    ("string", DataType::String),
    ("uint32", DataType::Uint32),
    ("uint64", DataType::Uint64),
    ("complex64", DataType::Complex64),
    ("complex128", DataType::Complex128),
    ("float8e4m3fn", DataType::Float8e4m3fn),
    ("float8e4m3fnuz", DataType::Float8e4m3fnuz),
    ("float8e5m2", DataType::Float8e5m2),
    ("float8e5m2fnuz", DataType::Float8e5m2fnuz),
    ("float8e8m0", DataType::Float8e8m0),
    ("uint4", DataType::Uint4),
    ("int4", DataType::Int4),
    ("float4e2m1", DataType::Float4e2m1),
    ("uint2", DataType::Uint2),
    ("int2", DataType::Int2),
    ("float6e2m3", DataType::Float6e2m3),
    ("float6e3m2", DataType::Float6e3m2),
];

/// Names of attribute types, as in `axis: int = 1`.
const ATTRIBUTE_TYPES: [(&str, AttributeType); 14] = [
    ("int", AttributeType::Int),
    ("ints", AttributeType::Ints),
    ("float", AttributeType::Float),
    ("floats", AttributeType::Floats),
    ("string", AttributeType::String),
    ("strings", AttributeType::Strings),
    ("tensor", AttributeType::Tensor),
    ("tensors", AttributeType::Tensors),
    ("graph", AttributeType::Graph),
    ("graphs", AttributeType::Graphs),
    ("sparse_tensor", AttributeType::SparseTensor),
    ("sparse_tensors", AttributeType::SparseTensors),
    ("type_proto", AttributeType::TypeProto),
    ("type_protos", AttributeType::TypeProtos),
];

/// Words that start a type which is no plain tensor.
const TYPE_FORMS: [&str; 5] = ["seq", "map", "optional", "sparse_tensor", "opaque"];

/// The element type of a name.
pub(crate) fn element_type(word: &str) -> Option<DataType> {
    let found = ELEMENT_TYPES.iter().find(|(name, _)| *name == word)?;
    Some(found.1)
}

/// The name of an element type; `None` for `UNDEFINED` and unknown numbers.
pub(crate) fn element_word(number: i32) -> Option<&'static str> {
    let found = ELEMENT_TYPES
        .iter()
        .find(|(_, data_type)| *data_type as i32 == number)?;
    Some(found.0)
}

/// The attribute type of a name.
pub(crate) fn attribute_type(word: &str) -> Option<AttributeType> {
    let found = ATTRIBUTE_TYPES.iter().find(|(name, _)| *name == word)?;
    Some(found.1)
}

/// The name of an attribute type; `undefined` has none that the parser takes.
pub(crate) fn attribute_word(kind: AttributeType) -> &'static str {
    ATTRIBUTE_TYPES
        .iter()
        .find(|(_, other)| *other == kind)
        .map_or("undefined", |found| found.0)
}

/// Whether a name, unquoted, starts a type where a type may stand.
pub(crate) fn starts_type(word: &str) -> bool {
    element_type(word).is_some() || TYPE_FORMS.contains(&word)
}

/// The number that a name is, unquoted, where a number may stand: `inf`, `infinity`, `nan` in any case.
pub(crate) fn float_word(word: &str) -> Option<f32> {
    if word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity") {
        Some(f32::INFINITY)
    } else if word.eq_ignore_ascii_case("nan") {
        Some(f32::from_bits(CANONICAL_NAN))
    } else {
        None
    }
}

/// The bits of `nan`; `-nan` has the sign bit too. No other NaN can be written.
pub(crate) const CANONICAL_NAN: u32 = 0x7FC0_0000;
/// The same for `double`.
pub(crate) const CANONICAL_NAN_64: u64 = 0x7FF8_0000_0000_0000;

/// Whether a byte may start an identifier.
pub(crate) fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Whether a byte may continue an identifier.
pub(crate) fn continues_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a name can be written without quotes.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.bytes().next().is_some_and(starts_identifier) && name.bytes().all(continues_identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_schema_has_its_name_in_lower_case() {
        for number in 1..=28 {
            let name = DataType::try_from(number).unwrap().as_str_name();
            let word = element_word(number).unwrap();
            assert_eq!(word, name.to_ascii_lowercase());
            assert_eq!(element_type(word).unwrap() as i32, number);
            assert_eq!(element_type(name), None);
        }
        assert_eq!((element_word(0), element_word(29)), (None, None));
        for number in 1..=14 {
            let kind = AttributeType::try_from(number).unwrap();
            let word = attribute_word(kind);
            assert_eq!(word, kind.as_str_name().to_ascii_lowercase());
            assert_eq!(attribute_type(word), Some(kind));
        }
        assert_eq!(attribute_type("undefined"), None);
    }

    #[test]
    fn identifiers_are_ascii_words() {
        for name in ["a", "_", "_9", "Conv2d", "float"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["", "9a", "a.b", "a-b", "é", "a b", "a\0"] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}
