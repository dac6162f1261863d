//! What goes over the wire: known bytes, shared payloads, presence, oneofs, extension tags.

#![allow(clippy::unwrap_used)] // helpers of tests

use refeed_proto::{
    AffineLayoutProto, AttributeProto, Bytes, EncodedValueProto, GraphProto, Message, ModelProto,
    NodeProto, PagedCacheBlockProto, PagedCacheProto, PersistentBindingProto, StructTypeProto,
    TensorProto, TypeProto, encoded_value_proto, paged_cache_block_proto, struct_type_proto,
    type_proto,
};

fn tensor(name: &str, payload: &[u8]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        raw_data: Some(Bytes::copy_from_slice(payload)),
        ..Default::default()
    }
}

/// A model with one payload in each place that can hold one, at several depths.
fn model_with_payloads() -> ModelProto {
    let inner = GraphProto {
        initializer: vec![tensor("inner", &[3; 33])],
        node: vec![NodeProto {
            attribute: vec![AttributeProto {
                t: Some(Box::new(tensor("attribute", &[4; 44]))),
                s: Some(Bytes::from_static(&[5; 55])),
                strings: vec![Bytes::from_static(&[6; 66]), Bytes::from_static(&[7; 77])],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let encoded = EncodedValueProto {
        raw_data: Some(Bytes::from_static(&[8; 88])),
        ..Default::default()
    };
    let page = PagedCacheBlockProto {
        start: Some(0),
        length: Some(1),
        key_payload: Some(paged_cache_block_proto::KeyPayload::Key(tensor(
            "key", &[9; 99],
        ))),
        value_payload: Some(paged_cache_block_proto::ValuePayload::EncodedValue(
            encoded.clone(),
        )),
    };
    ModelProto {
        graph: Some(GraphProto {
            initializer: vec![tensor("weight", &[1; 11]), tensor("empty", &[])],
            node: vec![NodeProto {
                attribute: vec![AttributeProto {
                    g: Some(Box::new(inner)),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            encoded_initializer: vec![encoded],
            paged_cache_initializer: vec![PagedCacheProto {
                blocks: vec![page],
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn payloads(model: &ModelProto) -> Vec<Bytes> {
    let graph = model.graph.as_ref().unwrap();
    let inner = graph.node[0].attribute[0].g.as_ref().unwrap();
    let attribute = &inner.node[0].attribute[0];
    let page = &graph.paged_cache_initializer[0].blocks[0];
    let Some(paged_cache_block_proto::KeyPayload::Key(key)) = &page.key_payload else {
        panic!()
    };
    let Some(paged_cache_block_proto::ValuePayload::EncodedValue(value)) = &page.value_payload
    else {
        panic!()
    };
    let tensors = [
        &graph.initializer[0],
        &inner.initializer[0],
        attribute.t.as_deref().unwrap(),
        key,
    ];
    let encoded = [&graph.encoded_initializer[0], value];
    let mut all: Vec<Bytes> = tensors
        .iter()
        .map(|t| t.raw_data.clone().unwrap())
        .collect();
    all.extend(encoded.iter().map(|e| e.raw_data.clone().unwrap()));
    all.push(attribute.s.clone().unwrap());
    all.extend(attribute.strings.iter().cloned());
    all
}

/// An owner like a mapped file: not a `Vec`, counted by nobody but `Bytes`.
struct Mapping(Box<[u8]>);

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn decoding_shares_every_payload_with_its_source() {
    let wire = model_with_payloads().encode_to_vec();
    for source in [
        Bytes::from(wire.clone()),
        Bytes::from_owner(Mapping(wire.into())),
    ] {
        let range = source.as_ptr_range();
        let model = ModelProto::decode(source.clone()).unwrap();
        let all = payloads(&model);
        let sizes: Vec<usize> = all.iter().map(Bytes::len).collect();
        assert_eq!(sizes, [11, 33, 44, 99, 88, 88, 55, 66, 77]);
        for payload in &all {
            let part = payload.as_ptr_range();
            assert!(range.start <= part.start && part.end <= range.end);
        }
        let copy = model.clone();
        for (a, b) in all.iter().zip(payloads(&copy)) {
            assert_eq!(a.as_ptr(), b.as_ptr());
        }
        drop((source, model, copy));
        assert_eq!(all[1], [3; 33][..]);
    }
}

#[test]
fn a_model_survives_the_round_trip() {
    let model = model_with_payloads();
    let wire = model.encode_to_vec();
    let back = ModelProto::decode(&wire[..]).unwrap();
    assert_eq!(back, model);
    assert_eq!(back.encode_to_vec(), wire);
}

#[test]
fn presence_is_kept() {
    let absent = EncodedValueProto::default();
    let empty = EncodedValueProto {
        raw_data: Some(Bytes::new()),
        ..Default::default()
    };
    assert_eq!(absent.encode_to_vec(), b"");
    assert_eq!(empty.encode_to_vec(), b"\x22\x00");
    assert_eq!(
        EncodedValueProto::decode(&b"\x22\x00"[..])
            .unwrap()
            .raw_data,
        Some(Bytes::new())
    );
    let page = PagedCacheBlockProto::decode(&b"\x08\x00"[..]).unwrap();
    assert_eq!((page.start, page.length), (Some(0), None));
}

#[test]
fn persistent_bindings_have_their_documented_bytes() {
    let binding = PersistentBindingProto {
        input_name: Some("in".into()),
        output_name: Some("out".into()),
        ..Default::default()
    };
    let wire = [0x0A, 0x02, 0x69, 0x6E, 0x12, 0x03, 0x6F, 0x75, 0x74];
    assert_eq!(binding.encode_to_vec(), wire);
    let graph = GraphProto {
        persistent_bindings: vec![binding],
        ..Default::default()
    };
    let mut in_graph = vec![0xCA, 0x3E, 9];
    in_graph.extend(wire);
    assert_eq!(graph.encode_to_vec(), in_graph);
    assert_eq!(GraphProto::decode(&in_graph[..]).unwrap(), graph);
}

#[test]
fn retired_binding_fields_are_seen() {
    let binding = PersistentBindingProto::decode(&b"\x1A\x00\x22\x01x"[..]).unwrap();
    assert_eq!(binding.retired_input_field_path, Some(Bytes::new()));
    assert_eq!(
        binding.retired_output_field_path,
        Some(Bytes::from_static(b"x"))
    );
    // The same numbers with another wire type are no binding at all.
    PersistentBindingProto::decode(&b"\x18\x01"[..]).unwrap_err();
}

#[test]
fn extension_fields_have_their_numbers() {
    let encoded = GraphProto {
        encoded_initializer: vec![Default::default()],
        ..Default::default()
    };
    assert_eq!(encoded.encode_to_vec(), b"\xC2\x3E\x00");
    let paged = GraphProto {
        paged_cache_initializer: vec![Default::default()],
        ..Default::default()
    };
    assert_eq!(paged.encode_to_vec(), b"\xD2\x3E\x00");
    let catalogue = ModelProto {
        struct_types: vec![Default::default()],
        ..Default::default()
    };
    assert_eq!(catalogue.encode_to_vec(), b"\xC2\x3E\x00");
    let structured = TypeProto {
        value: Some(type_proto::Value::StructType(Box::new(StructTypeProto {
            kind: Some(struct_type_proto::Kind::TypeRef(7)),
            ..Default::default()
        }))),
        ..Default::default()
    };
    assert_eq!(structured.encode_to_vec(), b"\xC2\x3E\x02\x20\x07");
    let affine = EncodedValueProto {
        layout: Some(encoded_value_proto::Layout::Affine(Box::new(
            AffineLayoutProto {
                storage_type: Some(22),
                axis: Some(-1),
                block_size: Some(32),
                signed_storage: Some(true),
                ..Default::default()
            },
        ))),
        parameter_ref: Some("p".into()),
        ..Default::default()
    };
    let mut wire = vec![0x0A, 17, 0x08, 22, 0x20];
    wire.extend([0xFF; 9]);
    wire.extend([0x01, 0x28, 32, 0x30, 1, 0x52, 1, b'p']);
    assert_eq!(affine.encode_to_vec(), wire);
}

#[test]
fn the_last_member_of_a_oneof_wins() {
    let page = PagedCacheBlockProto::decode(&b"\x1A\x00\x2A\x00"[..]).unwrap();
    assert!(matches!(
        page.key_payload,
        Some(paged_cache_block_proto::KeyPayload::EncodedKey(_))
    ));
    let kind = TypeProto::decode(&b"\x0A\x00\xC2\x3E\x00"[..]).unwrap();
    assert!(matches!(kind.value, Some(type_proto::Value::StructType(_))));
}

#[test]
fn numbers_are_read_packed_and_unpacked() {
    let packed = TensorProto::decode(&b"\x2A\x03\x01\x80\x01"[..]).unwrap();
    let unpacked = TensorProto::decode(&b"\x28\x01\x28\x80\x01"[..]).unwrap();
    assert_eq!(packed.int32_data, [1, 128]);
    assert_eq!(packed, unpacked);
    assert_eq!(packed.encode_to_vec(), b"\x2A\x03\x01\x80\x01");
    let dims = TensorProto {
        dims: vec![2, 3],
        ..Default::default()
    };
    assert_eq!(dims.encode_to_vec(), b"\x08\x02\x08\x03");
}
