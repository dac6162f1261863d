//! Depth, structure and size: what is read and written, and what is refused.

use super::*;

#[test]
fn nesting_has_the_limit_of_protobuf_when_read_and_written() {
    const TAGS: [u8; 3] = [1 << 3 | 2, 6 << 3 | 2, 5 << 3 | 2]; // node in graph, graph in attribute, attribute in node
    // The outermost message of 99 and of 102 levels is a node, of 100 a graph, of 101 an attribute.
    let of = |depth: usize| [&NODE_PROTO, &GRAPH_PROTO, &ATTRIBUTE_PROTO][depth % 3];
    for depth in [99, 100] {
        let wire = nested(&TAGS, depth, b"");
        on_small_stack(|| {
            let message = decode(of(depth), wire.clone()).unwrap();
            assert_eq!(message.height(), depth + 1);
            assert_eq!(message.encode().unwrap(), wire);
            assert_eq!(message.clone(), decode(of(depth), wire.clone()).unwrap());
            assert!(format!("{message:?}").len() > 1000);
            assert_eq!(message.to_string().lines().count(), 2 * depth);
            let twice = decode(of(depth), wire.repeat(2)).unwrap();
            assert_eq!(twice.height(), depth + 1);
        });
    }
    for depth in [101, 102, 1_000, 100_000] {
        let wire = nested(&TAGS, depth, b"");
        let error = on_small_stack(|| decode(of(depth), wire).unwrap_err());
        assert_eq!(error.fault, Malformed::Depth { limit: 100 });
    }
    // One level more than can be read, built rather than read.
    let deepest = decode(&GRAPH_PROTO, nested(&TAGS, 100, b"")).unwrap();
    let mut values = vec![Value::Absent; ATTRIBUTE_PROTO.fields.len()];
    let g = ATTRIBUTE_PROTO.field("g").unwrap().slot;
    values[usize::from(g)] = Value::Message(deepest.into());
    let attribute = FrozenMessage::new(&ATTRIBUTE_PROTO, values, None).unwrap();
    for error in [
        attribute.encode().unwrap_err(),
        attribute.encoded_len().unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "onnx.AttributeProto: expected at most 101 levels of messages, got 102"
        );
    }
}

#[test]
fn groups_count_towards_the_limit() {
    let group = |depth: usize| [[0x9B, 0x06].repeat(depth), [0x9C, 0x06].repeat(depth)].concat();
    on_small_stack(|| {
        for (depth, fits) in [
            (99, true),
            (100, true),
            (101, false),
            (1_000, false),
            (1_000_000, false),
        ] {
            let read = decode(&MODEL_PROTO, group(depth));
            assert_eq!(read.is_ok(), fits, "{depth}");
            if let Ok(model) = read {
                assert_eq!(model.encode().unwrap(), group(depth));
                assert_eq!(model.unknown_fields().unwrap().len(), 1);
            }
        }
        // Inside a graph there is room for one group less.
        for (depth, fits) in [(99, true), (100, false)] {
            let inside = group(depth);
            let wire = [&[0x3A][..], &varint(inside.len()), &inside].concat();
            assert_eq!(decode(&MODEL_PROTO, wire).is_ok(), fits, "{depth}");
        }
        decode(&MODEL_PROTO, [0x9B, 0x06].repeat(1_000_000)).unwrap_err();
    });
}

#[test]
fn a_smaller_depth_can_be_asked_for_and_a_larger_one_cannot() {
    let types = |depth| nested(&[1 << 3 | 2, 4 << 3 | 2], depth, b"");
    let read = |depth, limit| {
        let limits = DecodeLimits::default().with_depth(limit);
        FrozenMessage::decode(&TYPE_PROTO, types(depth).into(), &limits)
    };
    assert!(read(6, 6).is_ok() && read(8, 6).is_err() && read(0, 0).is_ok() && read(2, 1).is_err());
    assert!(read(100, 1_000).is_ok() && read(102, 1_000).is_err());
}

#[test]
fn structure_has_a_budget() {
    let decode = |descriptor, wire: &[u8], bytes| {
        let limits = DecodeLimits::default().with_structure_bytes(bytes);
        FrozenMessage::decode(descriptor, Bytes::from(wire.to_vec()), &limits)
    };
    // What a message needs is found by trying; one byte less is then too little, one more is enough.
    let cases: [(&'static MessageDescriptor, Vec<u8>); 6] = [
        (&GRAPH_PROTO, b"\x0A\x03\x1A\x01n".repeat(1000)), // named nodes
        (&GRAPH_PROTO, b"\x0A\x00".repeat(1000)),          // empty nodes
        (&NODE_PROTO, b"\x0A\x00".repeat(1000)),           // empty text
        (&ATTRIBUTE_PROTO, b"\x4A\x00".repeat(1000)),      // empty bytes
        (&MODEL_PROTO, b"\x98\x06\x01".repeat(1000)),      // unknown fields
        (&MODEL_PROTO, b"\x3A\x02\x0A\x00".repeat(1000)),  // a message in pieces
    ];
    for (descriptor, wire) in cases {
        let (mut enough, mut little) = (1u64 << 30, 0);
        while enough - little > 1 {
            let middle = little + (enough - little) / 2;
            match decode(descriptor, &wire, middle) {
                Ok(_) => enough = middle,
                Err(_) => little = middle,
            }
        }
        let name = descriptor.full_name;
        assert!((8_000..300_000).contains(&enough), "{name}: {enough}");
        let error = decode(descriptor, &wire, enough - 1).unwrap_err();
        assert_eq!(error.fault, Malformed::Structure { limit: enough - 1 });
        decode(descriptor, &wire, enough).unwrap();
        decode(descriptor, &wire, enough + 1).unwrap();
    }
}

#[test]
fn empty_messages_share_their_memory() {
    let graph = decode(&GRAPH_PROTO, b"\x0A\x00".repeat(1000)).unwrap();
    let nodes = get(&graph, "node").messages();
    assert_eq!(nodes.len(), 1000);
    assert!(
        nodes
            .iter()
            .all(|node| std::sync::Arc::ptr_eq(node, &nodes[0]))
    );
}

#[test]
fn a_message_over_2_gib_is_read_and_not_written() {
    let length = (1usize << 31) + 12_345;
    let header = [&b"\x42\x01w\x4A"[..], &varint(length)].concat();
    // Zeroed memory that nobody touches costs nothing.
    let mut wire = vec![0; header.len() + length];
    wire[..header.len()].copy_from_slice(&header);
    let total = wire.len();
    let tensor = decode(&TENSOR_PROTO, wire).unwrap();
    let Value::Bytes(raw) = get(&tensor, "raw_data") else {
        panic!()
    };
    assert_eq!(raw.bytes().len(), length);
    assert_eq!(tensor.encoded_len().unwrap(), total);
    let mut written = Vec::new();
    for error in [
        tensor.encode().unwrap_err(),
        tensor.encode_to(&mut written).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(
            text.contains("external data") && text.contains("2 GiB"),
            "{text}"
        );
        assert!(text.contains(&total.to_string()), "{text}");
    }
    assert!(written.is_empty());
}
