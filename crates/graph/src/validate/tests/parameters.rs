//! Shared quantization parameters.

use super::*;
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::struct_type_proto::{Array, Kind};
use refeed_proto::{
    EncodedValueProto, Message, StringStringEntryProto, StructTypeProto, TensorAnnotation,
};

const UINT8: i32 = 2;
const PREFIX: &str = "onnx_light.quantization.parameters:";

fn bytes(name: &str, wire: Vec<u8>) -> TensorProto {
    TensorProto {
        name: Some(name.to_string()),
        data_type: Some(UINT8),
        dims: vec![wire.len() as i64],
        raw_data: Some(Bytes::from(wire)),
        ..TensorProto::default()
    }
}

/// An array of bytes.
fn storage(count: u64) -> StructTypeProto {
    of_kind(Kind::Array(Box::new(Array {
        element_type: Some(Box::new(tensor_type(UINT8, "1"))),
        dimension: Some(count),
    })))
}

fn annotation(name: &str, roles: &[(&str, &str)]) -> TensorAnnotation {
    TensorAnnotation {
        tensor_name: Some(format!("{PREFIX}{name}")),
        quant_parameter_tensor_names: roles
            .iter()
            .map(|(role, initializer)| StringStringEntryProto {
                key: Some(role.to_string()),
                value: Some(initializer.to_string()),
            })
            .collect(),
    }
}

const ROLES: [(&str, &str); 3] = [
    ("storage_type", "set/storage"),
    ("logical_type", "set/logical"),
    ("scales", "set/scales"),
];

/// A model with one set, `set`, for values that decode to FLOAT[4], and one value that refers to it.
fn shared() -> ModelProto {
    let mut model = chain(vec![node("Neg", "x", "y")]);
    let graph = model.graph.as_mut().unwrap();
    graph.initializer = vec![
        bytes("set/storage", storage(5).encode_to_vec()),
        bytes("set/logical", tensor_type(FLOAT, "4").encode_to_vec()),
        floats("set/scales", &[1], &[0.5]),
        floats("other", &[1], &[0.5]),
    ];
    graph.quantization_annotation = vec![annotation("set", &ROLES)];
    graph.encoded_initializer = vec![EncodedValueProto {
        name: Some("w".to_string()),
        layout: Some(Layout::StructType(storage(3))),
        logical_type: Some(tensor_type(FLOAT, "4")),
        raw_data: Some(Bytes::from_static(&[0, 0x21, 0x43])),
        parameter_ref: Some("set".to_string()),
        ..EncodedValueProto::default()
    }];
    model
}

fn changed(change: impl FnOnce(&mut GraphProto)) -> ModelProto {
    let mut model = shared();
    change(model.graph.as_mut().unwrap());
    model
}

/// Rule 7.5.2.
#[test]
fn a_set_has_a_name_of_its_own() {
    accepted(shared());
    // Other annotations mean what they always mean.
    accepted(changed(|graph| {
        graph.quantization_annotation.push(TensorAnnotation {
            tensor_name: Some("x".to_string()),
            quant_parameter_tensor_names: vec![StringStringEntryProto {
                key: Some("SCALE_TENSOR".to_string()),
                value: Some("nothing".to_string()),
            }],
        });
    }));
    refused(
        changed(|graph| {
            graph
                .quantization_annotation
                .push(annotation("set", &ROLES))
        }),
        &[
            "graph.quantization_annotation[1] \"set\".tensor_name",
            "`set` for the second time",
        ],
    );
    refused(
        changed(|graph| graph.quantization_annotation.push(annotation("", &ROLES))),
        &[
            "graph.quantization_annotation[1].tensor_name",
            "an empty one",
        ],
    );
}

/// Rule 7.5.2.
#[test]
fn roles_are_known_and_name_initializers() {
    let with = |role: &str, initializer: &str| {
        changed(|graph| {
            graph.quantization_annotation[0]
                .quant_parameter_tensor_names
                .push(StringStringEntryProto {
                    key: Some(role.to_string()),
                    value: Some(initializer.to_string()),
                });
        })
    };
    accepted(with("offsets", "other"));
    refused(
        with("offset", "other"),
        &[
            "quant_parameter_tensor_names[\"offset\"]",
            "a role of quantization parameters",
        ],
    );
    refused(
        with("offsets", "nothing"),
        &[
            "quant_parameter_tensor_names[\"offsets\"]",
            "an initializer of the root graph, got `nothing`",
        ],
    );
    refused(
        with("scales", "other"),
        &["quant_parameter_tensor_names[\"scales\"]: expected each role once"],
    );
    for (missing, (role, _)) in ROLES.into_iter().enumerate() {
        let model = changed(|graph| {
            graph.quantization_annotation[0]
                .quant_parameter_tensor_names
                .remove(missing);
        });
        refused(
            model,
            &[&format!("[\"{role}\"]: expected an initializer, got none")],
        );
    }
}

/// Rule 7.5.2.
#[test]
fn descriptors_are_serialised_messages() {
    let with = |index: usize, tensor: TensorProto| {
        changed(|graph| {
            let name = graph.initializer[index].name.clone();
            graph.initializer[index] = TensorProto { name, ..tensor };
        })
    };
    refused(
        with(0, floats("", &[2], &[0.5; 2])),
        &["[\"storage_type\"]", "UINT8 with one axis, got FLOAT[2]"],
    );
    refused(
        with(0, bytes("", vec![0xFF; 3])),
        &["[\"storage_type\"]: expected a serialised StructTypeProto"],
    );
    refused(
        with(0, bytes("", vec![])),
        &["[\"storage_type\"].struct_type: expected an array, a structure or a bit packing"],
    );
    let dynamic = of_kind(Kind::Array(Box::new(Array {
        element_type: Some(Box::new(sequence(tensor_type(FLOAT, "2")))),
        dimension: Some(3),
    })));
    refused(
        with(0, bytes("", dynamic.encode_to_vec())),
        &[
            "[\"storage_type\"].struct_type",
            "a type of fixed size, got a sequence",
        ],
    );
    let reference = of_kind(Kind::TypeRef(9)).encode_to_vec();
    let mut by_reference = with(0, bytes("", reference));
    refused(by_reference.clone(), &["struct_types, got 9"]);
    by_reference.struct_types = vec![StructTypeProto {
        type_id: Some(9),
        ..storage(5)
    }];
    accepted(by_reference);
    refused(
        with(1, bytes("", vec![0xFF; 3])),
        &["[\"logical_type\"]: expected a serialised TypeProto"],
    );
    refused(
        with(1, bytes("", tensor_type(FLOAT, "n").encode_to_vec())),
        &[
            "[\"logical_type\"].type.tensor_type.shape.dim[0]",
            "expected a number",
        ],
    );
    // Empty fields of a structure: two bytes each, hundreds in memory.
    let many = [&[0x12, 0x80, 0x80, 0x20][..], &[0x0A, 0x00].repeat(1 << 18)].concat();
    let text = load(with(0, bytes("", many))).unwrap_err().to_string();
    assert!(text.contains("bytes of memory, got a larger one"), "{text}");
    refused(
        with(0, bytes("", vec![0; (1 << 20) + 1])),
        &["bytes of a descriptor"],
    );
}

#[test]
fn scales_are_floating_point_and_the_other_roles_numbers() {
    let with = |role: &str, tensor: TensorProto| {
        changed(|graph| {
            graph.initializer.push(TensorProto {
                name: Some("added".to_string()),
                ..tensor
            });
            let roles = &mut graph.quantization_annotation[0].quant_parameter_tensor_names;
            roles.retain(|entry| entry.key() != role);
            roles.push(StringStringEntryProto {
                key: Some(role.to_string()),
                value: Some("added".to_string()),
            });
        })
    };
    let integers = || TensorProto {
        data_type: Some(INT64),
        dims: vec![2],
        int64_data: vec![1, 0],
        ..TensorProto::default()
    };
    let texts = || TensorProto {
        data_type: Some(STRING),
        dims: vec![1],
        string_data: vec![Bytes::from_static(b"a")],
        ..TensorProto::default()
    };
    refused(
        with("scales", integers()),
        &["[\"scales\"]: expected FLOAT, FLOAT16, DOUBLE or BFLOAT16, got INT64"],
    );
    accepted(with("permutation", integers()));
    refused(
        with("permutation", floats("", &[2], &[1.0, 0.0])),
        &["[\"permutation\"]: expected INT64, got FLOAT"],
    );
    accepted(with("outliers", integers()));
    refused(
        with("codebooks", texts()),
        &["[\"codebooks\"]: expected numbers, got STRING"],
    );
}

/// Rule 7.5.5.
#[test]
fn p23_values_refer_to_sets_that_are_there() {
    let with = |change: fn(&mut EncodedValueProto)| {
        changed(|graph| change(&mut graph.encoded_initializer[0]))
    };
    refused(
        with(|value| value.parameter_ref = Some("sett".to_string())),
        &[
            "graph.encoded_initializer[0] \"w\".parameter_ref",
            "got `sett`",
        ],
    );
    refused(
        with(|value| value.logical_type = Some(tensor_type(FLOAT, "5"))),
        &[
            "graph.encoded_initializer[0] \"w\".logical_type",
            "expected FLOAT[4], got FLOAT[5]",
        ],
    );
    refused(
        with(|value| value.raw_data = Some(Bytes::from_static(&[7, 0x21, 0x43]))),
        &[
            "graph.encoded_initializer[0] \"w\".raw_data",
            "reserved first byte, got 7",
        ],
    );
}
