//! Types and declared values.

use super::error::Why;
use super::writer::Writer;
use crate::syntax::{element_word, is_identifier, starts_type};
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{TensorShapeProto, TypeProto, ValueInfoProto};

impl Writer {
    /// Writes a type; false, with nothing written, when it has no text form.
    pub(super) fn type_proto(&mut self, ty: &TypeProto) -> bool {
        let TypeProto { denotation, value } = ty;
        self.no_place("denotation", denotation.as_deref());
        if self.too_deep() {
            return false;
        }
        let start = self.text.len();
        let written = match value {
            None => {
                self.lose("value", Why::Missing);
                false
            }
            Some(Value::TensorType(type_proto::Tensor { elem_type, shape })) => {
                self.inside("tensor_type", None, |writer| {
                    writer.shaped(*elem_type, shape.as_ref())
                })
            }
            Some(Value::SparseTensorType(type_proto::SparseTensor { elem_type, shape })) => self
                .inside("sparse_tensor_type", None, |writer| {
                    writer.text.push_str("sparse_tensor(");
                    let written = writer.shaped(*elem_type, shape.as_ref());
                    writer.text.push(')');
                    written
                }),
            Some(Value::SequenceType(sequence)) => {
                self.wrapped("seq(", "sequence_type", sequence.elem_type.as_deref())
            }
            Some(Value::OptionalType(optional)) => {
                self.wrapped("optional(", "optional_type", optional.elem_type.as_deref())
            }
            Some(Value::MapType(map)) => self.inside("map_type", None, |writer| {
                writer.text.push_str("map(");
                let key = writer.element_type("key_type", map.key_type);
                writer.text.push_str(", ");
                let value = writer.nested_type("value_type", map.value_type.as_deref());
                writer.text.push(')');
                key && value
            }),
            Some(Value::OpaqueType(opaque)) => {
                self.inside("opaque_type", None, |writer| writer.opaque(opaque));
                true
            }
            Some(Value::StructType(_)) => {
                self.lose("struct_type", Why::NoSyntax);
                false
            }
        };
        if !written {
            self.text.truncate(start);
        }
        written
    }

    fn wrapped(&mut self, open: &str, field: &'static str, element: Option<&TypeProto>) -> bool {
        self.inside(field, None, |writer| {
            writer.text.push_str(open);
            let written = writer.nested_type("elem_type", element);
            writer.text.push(')');
            written
        })
    }

    fn nested_type(&mut self, field: &'static str, ty: Option<&TypeProto>) -> bool {
        match ty {
            Some(ty) => self.inside(field, None, |writer| writer.type_proto(ty)),
            None => {
                self.lose(field, Why::Missing);
                false
            }
        }
    }

    /// Writes an element type and a shape.
    fn shaped(&mut self, element: Option<i32>, shape: Option<&TensorShapeProto>) -> bool {
        let written = self.element_type("elem_type", element);
        match shape {
            None => self.text.push_str("[]"),
            Some(TensorShapeProto { dim }) => {
                self.inside("shape", None, |writer| {
                    if dim.is_empty() {
                        return;
                    }
                    writer.list(["[", ",", "]"], dim, |writer, index, dim| {
                        writer.inside("dim", Some(index), |writer| {
                            writer.no_place("denotation", dim.denotation.as_deref());
                        });
                        match &dim.value {
                            None => writer.text.push('?'),
                            Some(dimension::Value::DimValue(number)) => writer.int(number),
                            Some(dimension::Value::DimParam(name)) => writer.name(name),
                        }
                    });
                });
            }
        }
        written
    }

    pub(super) fn element_type(&mut self, field: &'static str, number: Option<i32>) -> bool {
        let word = number.and_then(element_word);
        match (word, number) {
            (Some(word), _) => self.text.push_str(word),
            (None, None) => self.lose(field, Why::Missing),
            (None, Some(number)) => {
                let expected = "a known element type";
                self.lose(field, Why::value(expected, &number.to_string()));
            }
        }
        word.is_some()
    }

    fn opaque(&mut self, opaque: &type_proto::Opaque) {
        let type_proto::Opaque { domain, name } = opaque;
        self.text.push_str("opaque(");
        let (domain, name) = (domain.as_deref(), name.as_deref());
        if let Some(domain) = domain.filter(|domain| !domain.is_empty()) {
            self.dotted("domain", domain);
            self.text.push_str(", ");
            match name {
                Some(name) => self.identifier("name", name),
                None => {
                    self.lose("name", Why::Missing);
                    self.text.push('_');
                }
            }
        } else {
            self.presence("domain", domain.is_some());
            match name {
                None => {}
                Some("") => self.presence("name", true),
                Some(name) => self.dotted("name", name),
            }
        }
        self.text.push(')');
    }

    /// Writes a value with its type, if it has one.
    pub(super) fn value_info(&mut self, value: &ValueInfoProto) {
        let ValueInfoProto {
            name,
            r#type,
            doc_string,
            metadata_props,
        } = value;
        self.presence("name", name.is_none());
        self.no_place("doc_string", doc_string.as_deref());
        self.none_of("metadata_props", metadata_props.len());
        let name = name.as_deref().unwrap_or_default();
        let empty = TypeProto::default();
        let typed = match r#type {
            None => false,
            Some(ty) if *ty == empty => {
                self.presence("type", true);
                false
            }
            Some(ty) => self.inside("type", None, |writer| writer.type_proto(ty)),
        };
        if typed {
            self.text.push(' ');
            self.name(name);
        } else {
            self.untyped_name(name);
        }
    }

    /// Writes a name where a type may stand before it.
    pub(super) fn untyped_name(&mut self, name: &str) {
        if is_identifier(name) && starts_type(name) {
            self.string(name);
        } else {
            self.name(name);
        }
    }
}
