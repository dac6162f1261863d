//! The conversions behind `refeed_proto::Convert`: each prost struct from and to the message of its descriptor.

use std::fmt::Write;

use prost_types::{DescriptorProto, FileDescriptorProto};

use super::Outcome;
use super::descriptors::constant;
use super::nesting::{Message, messages};

pub(super) fn conversions(schema: &FileDescriptorProto) -> Outcome<String> {
    let mut text = String::from(
        "\nuse crate::convert::{Convert, Fault, Room, field, get, message, put, single};\nuse crate::message::{FrozenMessage, MessageDescriptor, Value, descriptors};\n",
    );
    for message in messages(schema) {
        conversion(&mut text, &message)?;
    }
    Ok(text)
}

fn conversion(text: &mut String, message: &Message<'_>) -> Outcome<()> {
    let Message {
        name,
        path,
        descriptor,
        ..
    } = message;
    writeln!(text, "\nimpl Convert for {path} {{")?;
    writeln!(
        text,
        "    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::{};\n",
        constant(name)
    )?;
    writeln!(
        text,
        "    fn read(message: &FrozenMessage) -> Result<Self, Fault> {{"
    )?;
    writeln!(text, "        Ok({path} {{")?;
    for (slot, field) in descriptor.field.iter().enumerate() {
        if field.oneof_index.is_none() {
            writeln!(
                text,
                "            {}: get(message, {slot})?,",
                rust_name(field.name())
            )?;
        }
    }
    for (index, oneof) in (0..).zip(&descriptor.oneof_decl) {
        write!(text, "            {}: ", rust_name(oneof.name()))?;
        for (slot, variant) in members(message, index) {
            writeln!(text, "if let Some(held) = get(message, {slot})? {{")?;
            writeln!(text, "                Some({variant}(held))")?;
            write!(text, "            }} else ")?;
        }
        writeln!(text, "{{\n                None\n            }},")?;
    }
    writeln!(text, "        }})\n    }}\n")?;
    writeln!(
        text,
        "    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {{"
    )?;
    writeln!(text, "        let room = room.below(Self::DESCRIPTOR)?;")?;
    writeln!(
        text,
        "        let values: [Value; {}] = [",
        descriptor.field.len()
    )?;
    for field in &descriptor.field {
        let name = rust_name(field.name());
        match field.oneof_index {
            None => writeln!(text, "            put(&self.{name}, room)?,")?,
            Some(index) => {
                let oneof = oneof_name(descriptor, index)?;
                let variant = variant(message, oneof, field.name());
                let oneof = rust_name(oneof);
                writeln!(text, "            match &self.{oneof} {{")?;
                writeln!(
                    text,
                    "                Some({variant}(held)) => single(held, room)?,"
                )?;
                writeln!(text, "                _ => Value::Absent,")?;
                writeln!(text, "            }},")?;
            }
        }
    }
    writeln!(text, "        ];")?;
    writeln!(
        text,
        "        message(Self::DESCRIPTOR, values)\n    }}\n}}\nfield!({path});"
    )?;
    Ok(())
}

/// Slot and Rust name of each member of a oneof.
fn members(message: &Message<'_>, index: i32) -> Vec<(usize, String)> {
    let fields = message.descriptor.field.iter().enumerate();
    let oneof = message.descriptor.oneof_decl.get(index as usize);
    let oneof = oneof.map_or("", |oneof| oneof.name());
    fields
        .filter(|(_, field)| field.oneof_index == Some(index))
        .map(|(slot, field)| (slot, variant(message, oneof, field.name())))
        .collect()
}

fn oneof_name(descriptor: &DescriptorProto, index: i32) -> Outcome<&str> {
    let oneof = usize::try_from(index)
        .ok()
        .and_then(|index| descriptor.oneof_decl.get(index));
    Ok(oneof
        .ok_or_else(|| format!("{}: no oneof {index}", descriptor.name()))?
        .name())
}

fn variant(message: &Message<'_>, oneof: &str, field: &str) -> String {
    format!(
        "{}::{}::{}",
        message.module,
        camel_case(oneof),
        camel_case(field)
    )
}

/// Names that Rust keeps for itself and the schema uses.
fn rust_name(name: &str) -> String {
    match name {
        "type" => "r#type".to_string(),
        other => other.to_string(),
    }
}

fn camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase())
            .into_iter()
            .chain(letters)
            .collect::<String>()
    });
    words.collect()
}
