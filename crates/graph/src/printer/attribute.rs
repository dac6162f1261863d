//! Attributes.

use super::error::Why;
use super::writer::Writer;
use crate::syntax::{attribute_word, float_word, starts_type};
use refeed_proto::AttributeProto;
use refeed_proto::attribute_proto::AttributeType;

const BRACKETS: [&str; 3] = ["[", ", ", "]"];

impl Writer {
    /// Writes ` <attributes>`, or nothing when there are none.
    pub(super) fn attributes(&mut self, field: &'static str, attributes: &[AttributeProto]) {
        let mut separator = " <";
        for (index, attribute) in attributes.iter().enumerate() {
            let start = self.text.len();
            self.text.push_str(separator);
            if self.inside(field, Some(index), |writer| {
                writer.attribute(attribute, false)
            }) {
                separator = ", ";
            } else {
                self.text.truncate(start);
            }
        }
        if separator == ", " {
            self.text.push('>');
        }
    }

    /// Writes an attribute; false, when it has no text form. The text may be cut back then to where it was. Names of the
    /// defaults of a function may be in quotes.
    pub(super) fn attribute(&mut self, attribute: &AttributeProto, quotable: bool) -> bool {
        let AttributeProto {
            name,
            ref_attr_name,
            doc_string,
            r#type,
            // The values are checked where they are written.
            f: _,
            i: _,
            s: _,
            t: _,
            g: _,
            sparse_tensor: _,
            tp: _,
            floats: _,
            ints: _,
            strings: _,
            tensors: _,
            graphs: _,
            sparse_tensors: _,
            type_protos: _,
        } = attribute;
        self.no_place("doc_string", doc_string.as_deref());
        let name = name.as_deref().unwrap_or_default();
        if quotable {
            self.presence("name", attribute.name.is_none());
            self.name(name);
        } else {
            self.identifier("name", name);
        }
        let kind = r#type.unwrap_or_default();
        let kind = match AttributeType::try_from(kind) {
            Ok(AttributeType::Undefined) if ref_attr_name.is_some() => {
                self.presence("type", r#type.is_some());
                None
            }
            Ok(AttributeType::Undefined) => {
                self.lose("type", Why::Missing);
                return false;
            }
            Ok(kind) => Some(kind),
            Err(_) => {
                let expected = "a known attribute type";
                self.lose("type", Why::value(expected, &kind.to_string()));
                return false;
            }
        };
        if let Some(kind) = kind {
            self.text.push_str(": ");
            self.text.push_str(attribute_word(kind));
        }
        self.text.push_str(" = ");
        if let Some(reference) = ref_attr_name {
            self.unused_values(attribute, "");
            self.text.push('@');
            self.name(reference);
            return true;
        }
        kind.is_some_and(|kind| self.value(attribute, kind))
    }

    /// Writes the value of an attribute; false when it has no text form.
    fn value(&mut self, attribute: &AttributeProto, kind: AttributeType) -> bool {
        let field = value_field(kind);
        self.unused_values(attribute, field);
        match kind {
            AttributeType::Int => {
                self.presence(field, attribute.i.is_none());
                self.int(attribute.i());
            }
            AttributeType::Float => {
                self.presence(field, attribute.f.is_none());
                self.float(field, attribute.f());
            }
            AttributeType::String => {
                self.presence(field, attribute.s.is_none());
                self.bytes(field, None, attribute.s());
            }
            AttributeType::Ints => {
                self.list(BRACKETS, &attribute.ints, |writer, _, value| {
                    writer.int(value)
                });
            }
            AttributeType::Floats => {
                self.floats(field, BRACKETS, attribute.floats.iter().copied());
            }
            AttributeType::Strings => {
                self.list(BRACKETS, &attribute.strings, |writer, index, value| {
                    writer.bytes(field, Some(index), value);
                });
            }
            AttributeType::Tensor => {
                return self.one(field, attribute.t.as_deref(), |writer, tensor| {
                    writer.tensor(tensor, false)
                });
            }
            AttributeType::TypeProto => {
                return self.one(field, attribute.tp.as_deref(), Writer::type_proto);
            }
            AttributeType::Graph => {
                return self.one(field, attribute.g.as_deref(), |writer, graph| {
                    writer.graph(graph, true)
                });
            }
            AttributeType::Tensors => self.each(field, &attribute.tensors, |writer, tensor| {
                writer.tensor(tensor, false)
            }),
            AttributeType::TypeProtos => {
                self.each(field, &attribute.type_protos, Writer::type_proto)
            }
            AttributeType::Graphs => self.each(field, &attribute.graphs, |writer, graph| {
                writer.graph(graph, true)
            }),
            AttributeType::SparseTensors => {
                self.none_of(field, attribute.sparse_tensors.len());
                self.text.push_str("[]");
            }
            AttributeType::SparseTensor | AttributeType::Undefined => {
                self.lose(field, Why::NoSyntax);
                return false;
            }
        }
        true
    }

    /// Writes a message that must be there.
    fn one<M>(
        &mut self,
        field: &'static str,
        message: Option<&M>,
        write: impl FnOnce(&mut Writer, &M) -> bool,
    ) -> bool {
        match message {
            Some(message) => self.inside(field, None, |writer| {
                writer.indented(|writer| write(writer, message))
            }),
            None => {
                self.lose(field, Why::Missing);
                false
            }
        }
    }

    /// Writes messages in brackets; those without a text form are left out.
    fn each<M>(
        &mut self,
        field: &'static str,
        messages: &[M],
        write: impl Fn(&mut Writer, &M) -> bool,
    ) {
        let mut separator = "[";
        for (index, message) in messages.iter().enumerate() {
            let start = self.text.len();
            self.text.push_str(separator);
            let written = self.inside(field, Some(index), |writer| {
                writer.indented(|writer| write(writer, message))
            });
            if written {
                separator = ", ";
            } else {
                self.text.truncate(start);
            }
        }
        self.text
            .push_str(if separator == "[" { "[]" } else { "]" });
    }

    /// Does something with nodes further to the right.
    fn indented<R>(&mut self, act: impl FnOnce(&mut Writer) -> R) -> R {
        self.indent += 3;
        let result = act(self);
        self.indent -= 3;
        result
    }

    /// Notes every field with a value but `used`.
    fn unused_values(&mut self, attribute: &AttributeProto, used: &str) {
        let counts = [
            ("f", usize::from(attribute.f.is_some())),
            ("i", usize::from(attribute.i.is_some())),
            ("s", usize::from(attribute.s.is_some())),
            ("t", usize::from(attribute.t.is_some())),
            ("g", usize::from(attribute.g.is_some())),
            (
                "sparse_tensor",
                usize::from(attribute.sparse_tensor.is_some()),
            ),
            ("tp", usize::from(attribute.tp.is_some())),
            ("floats", attribute.floats.len()),
            ("ints", attribute.ints.len()),
            ("strings", attribute.strings.len()),
            ("tensors", attribute.tensors.len()),
            ("graphs", attribute.graphs.len()),
            ("sparse_tensors", attribute.sparse_tensors.len()),
            ("type_protos", attribute.type_protos.len()),
        ];
        for (field, count) in counts {
            if field != used {
                self.none_of(field, count);
            }
        }
    }

    /// Writes the name of a graph inside an attribute, in quotes where it would read as a type or a number.
    pub(super) fn graph_name(&mut self, name: &str) {
        if starts_type(name) || float_word(name).is_some() {
            self.string(name);
        } else {
            self.name(name);
        }
    }
}

/// The field that holds the values of a type.
fn value_field(kind: AttributeType) -> &'static str {
    match kind {
        AttributeType::Undefined => "type",
        AttributeType::Float => "f",
        AttributeType::Int => "i",
        AttributeType::String => "s",
        AttributeType::Tensor => "t",
        AttributeType::Graph => "g",
        AttributeType::SparseTensor => "sparse_tensor",
        AttributeType::TypeProto => "tp",
        AttributeType::Floats => "floats",
        AttributeType::Ints => "ints",
        AttributeType::Strings => "strings",
        AttributeType::Tensors => "tensors",
        AttributeType::Graphs => "graphs",
        AttributeType::SparseTensors => "sparse_tensors",
        AttributeType::TypeProtos => "type_protos",
    }
}
