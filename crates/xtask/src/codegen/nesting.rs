//! The table behind `refeed_proto::structure_bytes`: which fields of which message make something on the heap.

use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorProto};

use super::Outcome;

/// A message of the schema and what prost calls it.
pub(super) struct Message<'a> {
    /// As the schema writes it: `.onnx.TypeProto.Tensor`.
    pub(super) name: String,
    /// As Rust writes it: `crate::type_proto::Tensor`.
    pub(super) path: String,
    /// The module of what is declared inside it: `crate::type_proto::tensor`.
    pub(super) module: String,
    pub(super) descriptor: &'a DescriptorProto,
}

/// All messages, each before those declared inside it.
pub(super) fn messages(schema: &FileDescriptorProto) -> Vec<Message<'_>> {
    let mut messages = Vec::new();
    let scope = format!(".{}", schema.package());
    for message in &schema.message_type {
        collect(message, &scope, "crate", &mut messages);
    }
    messages
}

pub(super) fn table(schema: &FileDescriptorProto) -> Outcome<String> {
    let messages = messages(schema);
    let mut text = String::from("\nuse crate::structure::Nested;\n\n");
    let root = messages
        .iter()
        .position(|message| message.name == ".onnx.ModelProto");
    let root = root.ok_or("proto/onnx.proto: no ModelProto")?;
    writeln!(
        text,
        "/// Index of `ModelProto` in [`MESSAGES`].\npub(crate) const MODEL: usize = {root};\n"
    )?;
    writeln!(
        text,
        "/// Of each message, the fields whose every occurrence takes memory of its own."
    )?;
    writeln!(
        text,
        "pub(crate) static MESSAGES: [&[Nested]; {}] = [",
        messages.len()
    )?;
    for message in &messages {
        writeln!(
            text,
            "    // {}\n    &[",
            message.name.trim_start_matches('.')
        )?;
        for field in &message.descriptor.field {
            let number = field.number();
            match field.r#type() {
                Type::Message => {
                    let inner = messages
                        .iter()
                        .position(|inner| inner.name == field.type_name());
                    let inner =
                        inner.ok_or_else(|| format!("{}: unknown type", field.type_name()))?;
                    writeln!(
                        text,
                        "        Nested::message::<{}>({number}, {inner}),",
                        messages[inner].path
                    )?;
                }
                Type::String | Type::Bytes if field.label() == Label::Repeated => {
                    let rust = if field.r#type() == Type::String {
                        "String"
                    } else {
                        "crate::Bytes"
                    };
                    writeln!(text, "        Nested::leaf::<{rust}>({number}),")?;
                }
                _ => {}
            }
        }
        writeln!(text, "    ],")?;
    }
    writeln!(text, "];")?;
    Ok(text)
}

fn collect<'a>(
    descriptor: &'a DescriptorProto,
    scope: &str,
    module: &str,
    messages: &mut Vec<Message<'a>>,
) {
    let name = format!("{scope}.{}", descriptor.name());
    let path = format!("{module}::{}", descriptor.name());
    let inner = format!("{module}::{}", snake_case(descriptor.name()));
    messages.push(Message {
        name: name.clone(),
        path,
        module: inner.clone(),
        descriptor,
    });
    for nested in &descriptor.nested_type {
        collect(nested, &name, &inner, messages);
    }
}

/// The module that prost makes for the types nested in a message.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (index, character) in name.chars().enumerate() {
        if character.is_ascii_uppercase() && index > 0 {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}
