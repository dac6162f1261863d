//! The types of `refeed.onnx.messages` for Python's checkers: a head that is written by hand, and the messages.

use std::collections::HashMap;
use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

use super::Outcome;
use super::descriptors::{comments, tag};

/// Widest line of Python code here.
const WIDTH: usize = 120;

const HEAD: &str = include_str!("messages_head.txt");

struct Stub<'a> {
    text: String,
    comments: HashMap<&'a [i32], String>,
}

/// The text of `python/refeed/onnx/messages.pyi`.
pub(super) fn stub(schema: &FileDescriptorProto) -> Outcome<String> {
    let mut stub = Stub {
        text: HEAD.replace("__all__: list[str]", &all(schema)?),
        comments: comments(schema),
    };
    for (index, message) in (0..).zip(&schema.message_type) {
        stub.message(message, 0, &[tag::FILE_MESSAGE, index])?;
    }
    stub.text.push('\n');
    for each in &schema.enum_type {
        stub.enumeration(each, "")?;
    }
    Ok(stub.text)
}

/// `__all__`: the classes of the head and everything that lies in no message.
fn all(schema: &FileDescriptorProto) -> Outcome<String> {
    let classes = HEAD.lines().filter_map(|line| line.strip_prefix("class "));
    let classes = classes.filter_map(|line| line.split(['(', ':']).next());
    let messages = schema.message_type.iter().map(|message| message.name());
    let enums = schema.enum_type.iter().flat_map(|each| {
        let values = each.value.iter().map(|value| value.name());
        std::iter::once(each.name()).chain(values)
    });
    let mut names: Vec<&str> = classes.chain(messages).chain(enums).collect();
    names.retain(|name| !name.starts_with('_'));
    // As ruff sorts them: constants, then classes.
    let constant = |name: &str| !name.contains(|letter: char| letter.is_ascii_lowercase());
    names.sort_by_key(|&name| (!constant(name), name));
    let mut text = String::from("__all__ = [\n");
    for name in names {
        writeln!(text, "    \"{name}\",")?;
    }
    text.push(']');
    Ok(text)
}

impl Stub<'_> {
    fn message(&mut self, message: &DescriptorProto, level: usize, path: &[i32]) -> Outcome<()> {
        let outer = "    ".repeat(level);
        let inner = "    ".repeat(level + 1);
        let below = |tag, index| [path, &[tag, index]].concat();
        writeln!(self.text, "\n{outer}@final")?;
        writeln!(self.text, "{outer}class {}(Message):", message.name())?;
        let doc = self.comments.get(path).map_or("", String::as_str);
        if !doc.is_empty() {
            writeln!(self.text, "{inner}\"\"\"{doc}\"\"\"\n")?;
        }
        writeln!(self.text, "{inner}DESCRIPTOR: Descriptor")?;
        for each in &message.enum_type {
            self.enumeration(each, &inner)?;
        }
        let visible = (0..).zip(&message.field);
        let visible: Vec<(i32, &FieldDescriptorProto)> = visible
            .filter(|(_, field)| !field.name().starts_with("retired_"))
            .collect();
        for (_, field) in &visible {
            let name = field.name().to_uppercase();
            writeln!(self.text, "{inner}{name}_FIELD_NUMBER: int")?;
        }
        for (index, nested) in (0..).zip(&message.nested_type) {
            self.message(nested, level + 1, &below(tag::MESSAGE_NESTED, index))?;
        }
        if !message.nested_type.is_empty() {
            self.text.push('\n');
        }
        writeln!(self.text, "{inner}def __new__(")?;
        writeln!(self.text, "{inner}    cls,")?;
        writeln!(self.text, "{inner}    *,")?;
        for (_, field) in &visible {
            let kind = given(field)?;
            writeln!(
                self.text,
                "{inner}    {}: {kind} | None = None,",
                field.name()
            )?;
        }
        writeln!(self.text, "{inner}) -> Self: ...")?;
        // Before the fields: one of them is called `overload`.
        let fields: Vec<&FieldDescriptorProto> = visible.iter().map(|(_, field)| *field).collect();
        self.names(message, &fields, &inner)?;
        for (index, field) in visible {
            let doc = self.comments.get(&below(tag::MESSAGE_FIELD, index)[..]);
            let doc = doc.cloned().unwrap_or_default();
            self.field(field, &inner, &doc)?;
        }
        Ok(())
    }

    /// The methods that take names, with the names that there are.
    fn names(
        &mut self,
        message: &DescriptorProto,
        fields: &[&FieldDescriptorProto],
        inner: &str,
    ) -> Outcome<()> {
        let oneofs = message.oneof_decl.iter().map(|oneof| oneof.name());
        let singular = fields
            .iter()
            .filter(|field| field.label() != Label::Repeated);
        let singular = singular.map(|field| field.name()).chain(oneofs.clone());
        let all = fields.iter().map(|field| field.name()).chain(oneofs);
        self.method(
            inner,
            "HasField",
            "field_name",
            &[(singular.collect(), vec![])],
            "bool",
        )?;
        self.method(
            inner,
            "ClearField",
            "field_name",
            &[(all.collect(), vec![])],
            "None",
        )?;
        let members = (0..).zip(&message.oneof_decl).map(|(index, oneof)| {
            let members = fields
                .iter()
                .filter(|field| field.oneof_index == Some(index));
            (
                vec![oneof.name()],
                members.map(|field| field.name()).collect(),
            )
        });
        let members: Vec<(Vec<&str>, Vec<&str>)> = members.collect();
        self.method(inner, "WhichOneof", "oneof_group", &members, "str | None")
    }

    /// A method that takes a name: lists of names, with the names that it answers or `None` (empty for `otherwise`), and
    /// what it answers for any other name.
    fn method(
        &mut self,
        inner: &str,
        method: &str,
        argument: &str,
        cases: &[(Vec<&str>, Vec<&str>)],
        otherwise: &str,
    ) -> Outcome<()> {
        let cases = cases.iter().filter(|(names, _)| !names.is_empty());
        let mut any = false;
        for (names, answers) in cases {
            any = true;
            writeln!(self.text, "{inner}@overload")?;
            let answer = match answers[..] {
                [] => otherwise.to_string(),
                _ => format!("{} | None", literal(answers)),
            };
            let taken = literal(names);
            let line = format!("{inner}def {method}(self, {argument}: {taken}) -> {answer}: ...");
            if line.len() <= WIDTH {
                writeln!(self.text, "{line}")?;
                continue;
            }
            writeln!(self.text, "{inner}def {method}(\n{inner}    self,")?;
            if let [_] = names[..] {
                writeln!(self.text, "{inner}    {argument}: {taken},")?;
            } else {
                writeln!(self.text, "{inner}    {argument}: Literal[")?;
                for name in names {
                    writeln!(self.text, "{inner}        \"{name}\",")?;
                }
                writeln!(self.text, "{inner}    ],")?;
            }
            let line = format!("{inner}) -> {answer}: ...");
            if line.len() <= WIDTH {
                writeln!(self.text, "{line}")?;
                continue;
            }
            writeln!(self.text, "{inner}) -> (\n{inner}    Literal[")?;
            for name in answers {
                writeln!(self.text, "{inner}        \"{name}\",")?;
            }
            writeln!(self.text, "{inner}    ]\n{inner}    | None\n{inner}): ...")?;
        }
        if any {
            writeln!(self.text, "{inner}@overload")?;
            writeln!(
                self.text,
                "{inner}def {method}(self, {argument}: str | bytes) -> {otherwise}: ..."
            )?;
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptorProto, inner: &str, doc: &str) -> Outcome<()> {
        let name = field.name();
        let repeated = field.label() == Label::Repeated;
        let single = kind(field)?;
        let held = match (repeated, field.r#type()) {
            (false, _) => single.clone(),
            (true, Type::Message) => format!("RepeatedComposite[{single}]"),
            (true, _) => format!("RepeatedScalar[{single}]"),
        };
        let text = &mut self.text;
        writeln!(text, "{inner}@property")?;
        if doc.is_empty() {
            writeln!(text, "{inner}def {name}(self) -> {held}: ...")?;
        } else {
            writeln!(text, "{inner}def {name}(self) -> {held}:")?;
            writeln!(text, "{inner}    \"\"\"{doc}\"\"\"")?;
        }
        if !repeated && field.r#type() != Type::Message {
            let kind = given(field)?;
            writeln!(text, "{inner}@{name}.setter")?;
            writeln!(text, "{inner}def {name}(self, value: {kind}) -> None: ...")?;
        }
        let told = match repeated {
            true => "has elements",
            false => "is set",
        };
        writeln!(text, "{inner}def has_{name}(self) -> bool:")?;
        writeln!(text, "{inner}    \"\"\"Tell whether `{name}` {told}.\"\"\"")?;
        match field.r#type() {
            Type::Message if !repeated => {
                writeln!(text, "{inner}def add_{name}(self) -> {single}:")?;
                writeln!(
                    text,
                    "{inner}    \"\"\"Set `{name}` to an empty message and give it.\"\"\""
                )?;
            }
            Type::Bytes if !repeated => {
                writeln!(text, "{inner}def {name}_view(self) -> memoryview:")?;
                writeln!(
                    text,
                    "{inner}    \"\"\"Give the bytes of `{name}` where they lie.\"\"\""
                )?;
            }
            _ => {}
        }
        Ok(())
    }

    fn enumeration(&mut self, each: &EnumDescriptorProto, inner: &str) -> Outcome<()> {
        writeln!(self.text, "{inner}{}: EnumTypeWrapper", each.name())?;
        for value in each
            .value
            .iter()
            .filter(|value| !value.name().starts_with('_'))
        {
            writeln!(self.text, "{inner}{}: int", value.name())?;
        }
        Ok(())
    }
}

fn literal(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("Literal[{}]", names.join(", "))
}

/// What one value of a field is in Python.
fn kind(field: &FieldDescriptorProto) -> Outcome<String> {
    Ok(match field.r#type() {
        Type::Int32 | Type::Int64 | Type::Uint32 | Type::Uint64 | Type::Enum => "int".into(),
        Type::Bool => "bool".into(),
        Type::Float | Type::Double => "float".into(),
        Type::String => "str".into(),
        Type::Bytes => "bytes".into(),
        Type::Message => {
            let name = field.type_name();
            let scoped = name.strip_prefix(".onnx.");
            scoped
                .ok_or_else(|| format!("{name}: expected a message of the package onnx"))?
                .into()
        }
        other => {
            let name = field.name();
            return Err(format!("{name}: {} fields are not known", other.as_str_name()).into());
        }
    })
}

/// What may be given for a field: to its setter, or in the constructor.
fn given(field: &FieldDescriptorProto) -> Outcome<String> {
    let single = match field.r#type() {
        Type::Enum => "int | str".to_string(),
        Type::String => "str | bytes".to_string(),
        Type::Message => format!("{} | dict[str, Any]", kind(field)?),
        _ => kind(field)?,
    };
    Ok(match field.label() {
        Label::Repeated => format!("Iterable[{single}]"),
        _ => single,
    })
}
