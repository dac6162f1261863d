//! The bound on what decoding takes, against what was decoded.

#![allow(clippy::unwrap_used)] // helpers of tests

use proptest::prelude::*;
use refeed_proto::*;

/// Four times the size of every message of these types in `model`, found in its printed form.
fn printed(model: &ModelProto) -> u64 {
    let text = format!("{model:?}");
    let words = text
        .split(|c: char| !c.is_alphanumeric() && c != ' ')
        .flat_map(str::split_whitespace);
    let size = |word: &str| match word {
        "GraphProto" => size_of::<GraphProto>(),
        "NodeProto" => size_of::<NodeProto>(),
        "AttributeProto" => size_of::<AttributeProto>(),
        "TensorProto" => size_of::<TensorProto>(),
        "SparseTensorProto" => size_of::<SparseTensorProto>(),
        "ValueInfoProto" => size_of::<ValueInfoProto>(),
        "TypeProto" => size_of::<TypeProto>(),
        "Dimension" => size_of::<tensor_shape_proto::Dimension>(),
        "FunctionProto" => size_of::<FunctionProto>(),
        "EncodedValueProto" => size_of::<EncodedValueProto>(),
        "PagedCacheBlockProto" => size_of::<PagedCacheBlockProto>(),
        "PersistentBindingProto" => size_of::<PersistentBindingProto>(),
        "StructTypeProto" => size_of::<StructTypeProto>(),
        "StringStringEntryProto" => size_of::<StringStringEntryProto>(),
        _ => 0,
    };
    words.map(|word| 4 * size(word) as u64).sum()
}

fn sample() -> ModelProto {
    let entry = StringStringEntryProto {
        key: Some("k".into()),
        value: Some("v".into()),
    };
    let tensor = TensorProto {
        dims: vec![3],
        raw_data: Some(Bytes::from_static(b"\x0A\x00\x0A\x00")),
        external_data: vec![entry.clone(); 2],
        ..Default::default()
    };
    let shape = TensorShapeProto {
        dim: vec![Default::default(); 4],
    };
    let kind = TypeProto {
        value: Some(type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: Some(1),
            shape: Some(shape),
        })),
        ..Default::default()
    };
    let value = ValueInfoProto {
        r#type: Some(kind),
        ..Default::default()
    };
    let encoded = EncodedValueProto {
        layout: Some(encoded_value_proto::Layout::StructType(StructTypeProto {
            decoder: Some(Box::new(FunctionProto {
                node: vec![Default::default(); 2],
                ..Default::default()
            })),
            ..Default::default()
        })),
        ..Default::default()
    };
    let page = PagedCacheBlockProto {
        key_payload: Some(paged_cache_block_proto::KeyPayload::Key(tensor.clone())),
        value_payload: Some(paged_cache_block_proto::ValuePayload::EncodedValue(
            encoded.clone(),
        )),
        ..Default::default()
    };
    let inner = GraphProto {
        sparse_initializer: vec![Default::default()],
        ..Default::default()
    };
    let node = NodeProto {
        input: vec!["a".into(), String::new()],
        attribute: vec![
            AttributeProto {
                t: Some(Box::new(tensor.clone())),
                ..Default::default()
            },
            AttributeProto {
                g: Some(Box::new(inner)),
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    ModelProto {
        graph: Some(GraphProto {
            node: vec![node.clone(), node.clone(), Default::default()],
            initializer: vec![tensor],
            input: vec![value; 3],
            encoded_initializer: vec![encoded],
            persistent_bindings: vec![Default::default(); 5],
            paged_cache_initializer: vec![PagedCacheProto {
                blocks: vec![page; 2],
                ..Default::default()
            }],
            metadata_props: vec![entry],
            ..Default::default()
        }),
        functions: vec![FunctionProto {
            node: vec![node],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn the_bound_covers_every_message() {
    let model = sample();
    let bound = structure_bytes(&model.encode_to_vec(), u64::MAX).unwrap();
    let found = printed(&model);
    assert!(found > 30_000);
    assert!(bound >= found, "{bound} {found}");
    // Not counted by print: strings of lists, and messages without a name of their own.
    assert!(bound < found * 2, "{bound} {found}");
    assert_eq!(structure_bytes(b"", 0), Some(0));
}

#[test]
fn payloads_and_unknown_fields_are_not_walked() {
    let nodes = [0x0A, 0].repeat(1000);
    let wire = |field: u8| [&[field << 3 | 2, 0xD0, 0x0F][..], &nodes].concat();
    assert!(structure_bytes(&wire(7), u64::MAX).unwrap() > 100_000);
    // As text, as an unknown field, and inside an unknown group.
    assert_eq!(structure_bytes(&wire(6), 0), Some(0));
    assert_eq!(structure_bytes(&wire(15), 0), Some(0));
    let group = [&[0x9B, 0x06][..], &wire(7), &[0x9C, 0x06]].concat();
    assert_eq!(structure_bytes(&group, 0), Some(0));
    // What follows a group is seen, also when the group holds what would be no graph.
    let after = [&[0x9B, 0x06, 0x3A, 0x01, 0xFF, 0x9C, 0x06][..], &wire(7)].concat();
    assert!(ModelProto::decode(&after[..]).is_ok());
    assert_eq!(structure_bytes(&after, 100_000), None);
}

#[test]
fn a_field_that_crosses_its_message_is_walked_to_its_end() {
    // The graph claims 4 bytes, its node claims 2000: the decoder reads the attributes before it finds out.
    let wire = [&[0x3A, 4, 0x0A, 0xD0, 0x0F][..], &[0x2A, 0].repeat(1000)].concat();
    assert!(ModelProto::decode(&wire[..]).is_err());
    assert_eq!(structure_bytes(&wire, 1_000_000), None);
}

#[test]
fn deep_nesting_takes_no_stack() {
    let mut reversed: Vec<u8> = Vec::new();
    for level in 0..20_000 {
        let mut header = vec![[0x0A, 0x32, 0x2A][level % 3]];
        let mut length = reversed.len();
        while length >= 0x80 {
            header.push(length as u8 | 0x80);
            length >>= 7;
        }
        header.push(length as u8);
        reversed.extend(header.iter().rev());
    }
    reversed.reverse();
    assert!(structure_bytes(&reversed, u64::MAX).is_some());
    let groups = [0x9B, 0x06].repeat(1_000_000);
    assert_eq!(structure_bytes(&groups, u64::MAX), Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4_000, ..Default::default() })]

    #[test]
    fn the_bound_covers_what_damaged_bytes_decode_to(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut wire = sample().encode_to_vec();
        for (at, byte) in damage {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        let bound = structure_bytes(&wire, u64::MAX).unwrap();
        if let Ok(model) = ModelProto::decode(&wire[..]) {
            prop_assert!(bound >= printed(&model));
        }
    }

    #[test]
    fn any_bytes_are_walked(wire in proptest::collection::vec(any::<u8>(), 0..300), limit in 0u64..10_000) {
        let bound = structure_bytes(&wire, u64::MAX).unwrap();
        prop_assert_eq!(structure_bytes(&wire, limit), (bound <= limit).then_some(bound));
    }
}
