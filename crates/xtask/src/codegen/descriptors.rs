//! The tables behind `refeed_proto::message`: every message, field and enum of the schema as a static.

use std::collections::HashMap;
use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

use super::Outcome;

/// Tags of `FileDescriptorProto`, `DescriptorProto` and `EnumDescriptorProto` that make up the paths of comments.
pub(super) mod tag {
    pub(crate) const FILE_MESSAGE: i32 = 4;
    pub(crate) const FILE_ENUM: i32 = 5;
    pub(crate) const MESSAGE_FIELD: i32 = 2;
    pub(crate) const MESSAGE_NESTED: i32 = 3;
    pub(crate) const MESSAGE_ENUM: i32 = 4;
}

struct Tables<'a> {
    text: String,
    /// Comments by their path in the file.
    comments: HashMap<&'a [i32], String>,
    /// Messages written so far.
    messages: u16,
}

/// The comments of a schema on one line each, by their path in the file.
pub(super) fn comments(schema: &FileDescriptorProto) -> HashMap<&[i32], String> {
    let locations = schema
        .source_code_info
        .iter()
        .flat_map(|info| &info.location);
    let comments = locations.filter_map(|location| {
        let comment = location.leading_comments.as_deref()?;
        let lines: Vec<&str> = comment.lines().map(str::trim).collect();
        Some((&location.path[..], lines.join(" ").trim().to_string()))
    });
    comments.collect()
}

pub(super) fn table(schema: &FileDescriptorProto) -> Outcome<String> {
    let mut tables = Tables {
        text: String::from(
            "\nuse super::{EnumDescriptor, EnumValue, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};\n",
        ),
        comments: comments(schema),
        messages: 0,
    };
    let package = format!(".{}", schema.package());
    for (index, message) in (0..).zip(&schema.message_type) {
        tables.message(message, &package, &[tag::FILE_MESSAGE, index])?;
    }
    for (index, descriptor) in (0..).zip(&schema.enum_type) {
        tables.enumeration(descriptor, &package, &[tag::FILE_ENUM, index])?;
    }
    let names = schema.message_type.iter().map(|message| message.name());
    tables.list("MESSAGES", "MessageDescriptor", "messages", &package, names)?;
    let names = schema.enum_type.iter().map(|descriptor| descriptor.name());
    tables.list("ENUMS", "EnumDescriptor", "enums", &package, names)?;
    Ok(tables.text)
}

impl Tables<'_> {
    fn comment(&self, path: &[i32]) -> &str {
        self.comments.get(path).map_or("", String::as_str)
    }

    fn list<'n>(
        &mut self,
        name: &str,
        kind: &str,
        what: &str,
        scope: &str,
        items: impl Iterator<Item = &'n str>,
    ) -> Outcome<()> {
        writeln!(
            self.text,
            "\n/// The {what} that lie in no other, in the schema's order."
        )?;
        writeln!(self.text, "pub static {name}: &[&{kind}] = &[")?;
        for item in items {
            writeln!(self.text, "    &{},", constant(&format!("{scope}.{item}")))?;
        }
        writeln!(self.text, "];")?;
        Ok(())
    }

    fn message(&mut self, message: &DescriptorProto, scope: &str, path: &[i32]) -> Outcome<()> {
        let full_name = format!("{scope}.{}", message.name());
        let below = |tag, index| [path, &[tag, index]].concat();
        for (index, nested) in (0..).zip(&message.nested_type) {
            self.message(nested, &full_name, &below(tag::MESSAGE_NESTED, index))?;
        }
        for (index, nested) in (0..).zip(&message.enum_type) {
            self.enumeration(nested, &full_name, &below(tag::MESSAGE_ENUM, index))?;
        }
        // A message says in 32 bits which of its fields are there.
        if message.field.len() > 32 {
            let got = message.field.len();
            return Err(format!("{full_name}: expected at most 32 fields, got {got}").into());
        }
        let doc = self.comment(path).to_string();
        let mut text = String::new();
        writeln!(text, "\n/// `{}`.", &full_name[1..])?;
        writeln!(
            text,
            "pub static {}: MessageDescriptor = MessageDescriptor {{",
            constant(&full_name)
        )?;
        writeln!(text, "    name: {:?},", message.name())?;
        writeln!(text, "    full_name: {:?},", &full_name[1..])?;
        writeln!(text, "    doc: {doc:?},")?;
        writeln!(text, "    ordinal: {},", self.messages)?;
        self.messages += 1;
        let mut by_number: Vec<usize> = (0..message.field.len()).collect();
        by_number.sort_by_key(|&slot| message.field[slot].number());
        writeln!(text, "    fields: &[")?;
        for (slot, field) in (0..).zip(&message.field) {
            let doc = self.comment(&below(tag::MESSAGE_FIELD, slot));
            let lower = message.field.iter();
            let place = lower
                .filter(|other| other.number() < field.number())
                .count();
            writeln!(text, "        {},", field_entry(field, slot, place, doc)?)?;
        }
        writeln!(text, "    ],")?;
        writeln!(text, "    by_number: &{by_number:?},")?;
        let mut low = [0; 32];
        for (slot, field) in (1..).zip(&message.field) {
            if let Some(entry) = low.get_mut(usize::try_from(field.number())?) {
                *entry = slot;
            }
        }
        writeln!(text, "    low: {low:?},")?;
        writeln!(text, "    oneofs: &[")?;
        for (index, oneof) in (0..).zip(&message.oneof_decl) {
            let members = message.field.iter().enumerate();
            let members: Vec<usize> = members
                .filter(|(_, field)| field.oneof_index == Some(index))
                .map(|(slot, _)| slot)
                .collect();
            writeln!(
                text,
                "        OneofDescriptor {{ name: {:?}, fields: &{members:?} }},",
                oneof.name()
            )?;
        }
        writeln!(text, "    ],")?;
        let nested = |names: Vec<&str>| -> String {
            let names = names
                .iter()
                .map(|name| format!("&{}", constant(&format!("{full_name}.{name}"))));
            names.collect::<Vec<_>>().join(", ")
        };
        writeln!(
            text,
            "    messages: &[{}],",
            nested(message.nested_type.iter().map(|m| m.name()).collect())
        )?;
        writeln!(
            text,
            "    enums: &[{}],",
            nested(message.enum_type.iter().map(|e| e.name()).collect())
        )?;
        writeln!(text, "}};")?;
        self.text.push_str(&text);
        Ok(())
    }

    fn enumeration(
        &mut self,
        descriptor: &EnumDescriptorProto,
        scope: &str,
        path: &[i32],
    ) -> Outcome<()> {
        let full_name = format!("{scope}.{}", descriptor.name());
        let doc = self.comment(path).to_string();
        let text = &mut self.text;
        writeln!(text, "\n/// `{}`.", &full_name[1..])?;
        writeln!(
            text,
            "pub static {}: EnumDescriptor = EnumDescriptor {{",
            constant(&full_name)
        )?;
        writeln!(text, "    name: {:?},", descriptor.name())?;
        writeln!(text, "    full_name: {:?},", &full_name[1..])?;
        writeln!(text, "    doc: {doc:?},")?;
        writeln!(text, "    values: &[")?;
        for value in &descriptor.value {
            writeln!(
                text,
                "        EnumValue {{ name: {:?}, number: {} }},",
                value.name(),
                value.number()
            )?;
        }
        writeln!(text, "    ],\n}};")?;
        Ok(())
    }
}

fn field_entry(
    field: &FieldDescriptorProto,
    slot: i32,
    place: usize,
    doc: &str,
) -> Outcome<String> {
    let kind = match field.r#type() {
        Type::Int32 => "Kind::Int32".to_string(),
        Type::Int64 => "Kind::Int64".to_string(),
        Type::Uint32 => "Kind::Uint32".to_string(),
        Type::Uint64 => "Kind::Uint64".to_string(),
        Type::Bool => "Kind::Bool".to_string(),
        Type::Float => "Kind::Float".to_string(),
        Type::Double => "Kind::Double".to_string(),
        Type::String => "Kind::String".to_string(),
        Type::Bytes => "Kind::Bytes".to_string(),
        Type::Enum => format!("Kind::Enum(&{})", constant(field.type_name())),
        Type::Message => format!("Kind::Message(&{})", constant(field.type_name())),
        other => {
            let name = field.name();
            return Err(format!(
                "proto/onnx.proto: {name}: fields of type {other:?} have no table"
            )
            .into());
        }
    };
    if field.label() == Label::Required || field.default_value.is_some() {
        let name = field.name();
        return Err(format!(
            "proto/onnx.proto: {name}: required fields and defaults have no table"
        )
        .into());
    }
    Ok(format!(
        "FieldDescriptor {{ name: {:?}, number: {}, slot: {slot}, place: {place}, kind: {kind}, repeated: {}, packed: {}, oneof: {:?}, retired: {}, doc: {doc:?} }}",
        field.name(),
        field.number(),
        field.label() == Label::Repeated,
        field
            .options
            .as_ref()
            .is_some_and(|options| options.packed()),
        field.oneof_index,
        field.name().starts_with("retired_"),
    ))
}

/// The static of a full name: `.onnx.TypeProto.Tensor` is `TYPE_PROTO_TENSOR`.
pub(super) fn constant(full_name: &str) -> String {
    let names = full_name.split('.').skip(2);
    let names: Vec<String> = names
        .map(|name| {
            let mut out = String::new();
            for (index, character) in name.chars().enumerate() {
                if character.is_ascii_uppercase() && index > 0 {
                    out.push('_');
                }
                out.push(character.to_ascii_uppercase());
            }
            out
        })
        .collect();
    names.join("_")
}
