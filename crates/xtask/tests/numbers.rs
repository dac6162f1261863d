//! The schema's numbers against those of the `onnx` package.
//!
//! `data/onnx-1.23-numbers.txt` lists every enum value and field of the descriptors of onnx 1.23 (`onnx_ml_pb2`,
//! `onnx_data_pb2`, `onnx_operators_ml_pb2`), one a line, sorted.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::collections::BTreeSet;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

const OFFICIAL: &str = include_str!("data/onnx-1.23-numbers.txt");

fn schema() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let files = protox::compile(["onnx.proto"], [folder]).unwrap().file;
    let [
        FileDescriptorProto {
            message_type,
            enum_type,
            ..
        },
    ] = &files[..]
    else {
        panic!("one file")
    };
    let mut lines = BTreeSet::new();
    for each in enum_type {
        add_enum("onnx", each, &mut lines);
    }
    for each in message_type {
        add_message("onnx", each, &mut lines);
    }
    lines
}

fn add_enum(scope: &str, each: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    for value in &each.value {
        lines.insert(format!(
            "enum {scope}.{} {} {}",
            each.name(),
            value.name(),
            value.number()
        ));
    }
}

fn add_message(scope: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let scope = format!("{scope}.{}", message.name());
    for each in &message.enum_type {
        add_enum(&scope, each, lines);
    }
    for each in &message.nested_type {
        add_message(&scope, each, lines);
    }
    for field in &message.field {
        lines.insert(line_of_field(&scope, message, field));
    }
}

fn line_of_field(scope: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let label = match field.label() {
        Label::Optional => "optional",
        Label::Required => "required",
        Label::Repeated => "repeated",
    };
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_string(),
        other => other
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase(),
    };
    let mut line = format!(
        "field {scope}.{} {} {label} {kind}",
        field.name(),
        field.number()
    );
    if field
        .options
        .as_ref()
        .is_some_and(|options| options.packed())
    {
        line.push_str(" packed");
    }
    if let Some(index) = field.oneof_index {
        line.push_str(&format!(
            " oneof={}",
            message.oneof_decl[index as usize].name()
        ));
    }
    line
}

#[test]
fn every_official_number_is_ours() {
    let ours = schema();
    let missing: Vec<&str> = OFFICIAL
        .lines()
        .filter(|line| !ours.contains(*line))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(OFFICIAL.lines().count() > 150);
}

/// The extension fields: message, then every field with its number.
const EXTENSIONS: [(&str, &str); 14] = [
    ("TypeProto", "struct_type 1000"),
    (
        "GraphProto",
        "encoded_initializer 1000, persistent_bindings 1001, paged_cache_initializer 1002",
    ),
    ("ModelProto", "struct_types 1000"),
    (
        "PersistentBindingProto",
        "input_name 1, output_name 2, retired_input_field_path 3, retired_output_field_path 4",
    ),
    ("PagedCacheProto", "blocks 1, name 2, doc_string 3"),
    (
        "PagedCacheBlockProto",
        "start 1, length 2, key 3, value 4, encoded_key 5, encoded_value 6",
    ),
    (
        "AffineLayoutProto",
        "storage_type 1, scale 2, zero_point 3, axis 4, block_size 5, signed_storage 6",
    ),
    (
        "EncodedValueProto",
        "affine 1, struct_type 2, logical_type 3, raw_data 4, external_data 5, data_location 6, name 7, doc_string 8, \
         parameter_ref 10",
    ),
    (
        "StructTypeProto",
        "array 1, structure 2, bit_packing 3, type_ref 4, decoder 5, encoder 6, name 7, doc_string 8, metadata_props 9, \
         type_id 10",
    ),
    ("StructTypeProto.Array", "element_type 1, dimension 2"),
    ("StructTypeProto.Structure", "field 1"),
    (
        "StructTypeProto.Structure.Field",
        "name 1, type 2, doc_string 3, constant 4",
    ),
    ("StructTypeProto.BitPacking", "component 1, dimension 2"),
    (
        "StructTypeProto.BitPacking.Component",
        "name 1, bit_width 2",
    ),
];

#[test]
fn what_is_not_official_is_a_known_extension() {
    let official: BTreeSet<&str> = OFFICIAL.lines().collect();
    let ours: BTreeSet<String> = schema()
        .iter()
        .filter(|line| !official.contains(line.as_str()))
        .map(|line| {
            line.split(' ')
                .skip(1)
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let expected: BTreeSet<String> = EXTENSIONS
        .iter()
        .flat_map(|(message, fields)| {
            fields
                .split(", ")
                .map(move |field| format!("onnx.{message}.{field}"))
        })
        .collect();
    assert_eq!(ours, expected);
}

#[test]
fn extension_payloads_exclude_each_other() {
    let ours = schema();
    for line in [
        "onnx.TypeProto.struct_type 1000 optional onnx.StructTypeProto oneof=value",
        "onnx.PagedCacheBlockProto.key 3 optional onnx.TensorProto oneof=key_payload",
        "onnx.PagedCacheBlockProto.encoded_key 5 optional onnx.EncodedValueProto oneof=key_payload",
        "onnx.PagedCacheBlockProto.value 4 optional onnx.TensorProto oneof=value_payload",
        "onnx.PagedCacheBlockProto.encoded_value 6 optional onnx.EncodedValueProto oneof=value_payload",
        "onnx.EncodedValueProto.affine 1 optional onnx.AffineLayoutProto oneof=layout",
        "onnx.EncodedValueProto.struct_type 2 optional onnx.StructTypeProto oneof=layout",
        "onnx.StructTypeProto.array 1 optional onnx.StructTypeProto.Array oneof=kind",
        "onnx.StructTypeProto.type_ref 4 optional uint64 oneof=kind",
        "onnx.StructTypeProto.Structure.Field.type 2 optional onnx.TypeProto oneof=content",
        "onnx.StructTypeProto.Structure.Field.constant 4 optional onnx.TensorProto oneof=content",
    ] {
        assert!(ours.contains(&format!("field {line}")), "{line}");
    }
}
