//! Small readers on the generated messages: what the wire makes awkward to ask.

use crate::{
    AttributeProto, NodeProto, StringStringEntryProto, TensorProto, TypeProto, ValueInfoProto,
    tensor_proto::{DataLocation, DataType},
    type_proto,
};

/// The value of the first entry with `key`, from `metadata_props`, `external_data` and the like.
///
/// ```
/// use refeed_proto::{StringStringEntryProto, ext::metadata};
/// let entries = [StringStringEntryProto { key: Some("offset".into()), value: Some("64".into()) }];
/// assert_eq!(metadata(&entries, "offset"), Some("64"));
/// assert_eq!(metadata(&entries, "length"), None);
/// ```
pub fn metadata<'a>(entries: &'a [StringStringEntryProto], key: &str) -> Option<&'a str> {
    entries
        .iter()
        .find(|entry| entry.key.as_deref() == Some(key))
        .map(StringStringEntryProto::value)
}

/// The ONNX name of a `TensorProto.DataType` number, in upper case, or `None` for an unknown number.
///
/// ```
/// use refeed_proto::ext::data_type_name;
/// assert_eq!(data_type_name(16), Some("BFLOAT16"));
/// assert_eq!(data_type_name(-1), None);
/// ```
pub fn data_type_name(number: i32) -> Option<&'static str> {
    DataType::try_from(number)
        .ok()
        .map(|data_type| data_type.as_str_name())
}

impl NodeProto {
    /// The first attribute called `name`.
    pub fn attribute_named(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute
            .iter()
            .find(|attribute| attribute.name.as_deref() == Some(name))
    }

    /// Name of input `index`; `None` when it is omitted, by an empty name or by a shorter list.
    pub fn input_name(&self, index: usize) -> Option<&str> {
        self.input
            .get(index)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// Name of output `index`; `None` when it is omitted, by an empty name or by a shorter list.
    pub fn output_name(&self, index: usize) -> Option<&str> {
        self.output
            .get(index)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }
}

impl TensorProto {
    /// Whether the elements are in another file.
    pub fn is_external(&self) -> bool {
        self.data_location() == DataLocation::External
    }
}

impl ValueInfoProto {
    /// The tensor type, when one is declared.
    pub fn tensor_type(&self) -> Option<&type_proto::Tensor> {
        self.r#type.as_ref()?.tensor_type()
    }
}

impl TypeProto {
    /// The tensor type, when this is one.
    pub fn tensor_type(&self) -> Option<&type_proto::Tensor> {
        match &self.value {
            Some(type_proto::Value::TensorType(tensor)) => Some(tensor),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_absent() {
        let node = NodeProto {
            input: vec!["x".into(), String::new()],
            output: vec![String::new(), "y".into()],
            attribute: vec![
                AttributeProto::default(),
                AttributeProto {
                    name: Some("axis".into()),
                    i: Some(-1),
                    ..Default::default()
                },
            ],
            ..Default::default()
        };
        assert_eq!(node.attribute_named("axis").map(|a| a.i()), Some(-1));
        assert!(node.attribute_named("").is_none());
        assert!(node.attribute_named("axes").is_none());
        assert_eq!(
            (node.input_name(0), node.input_name(1), node.input_name(2)),
            (Some("x"), None, None)
        );
        assert_eq!(
            (
                node.output_name(0),
                node.output_name(1),
                node.output_name(2)
            ),
            (None, Some("y"), None)
        );
    }

    #[test]
    fn data_type_names_are_onnx_names() {
        assert_eq!(data_type_name(1), Some("FLOAT"));
        assert_eq!(data_type_name(17), Some("FLOAT8E4M3FN"));
        assert_eq!(data_type_name(28), Some("FLOAT6E3M2"));
        assert_eq!(data_type_name(0), Some("UNDEFINED"));
        assert_eq!(data_type_name(29), None);
    }
}
