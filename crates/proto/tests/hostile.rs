//! Bytes that nobody should send: every answer is a value or an error, on a small stack.

#![allow(clippy::unwrap_used)] // helpers of tests

use proptest::prelude::*;
use refeed_proto::{
    AttributeProto, Bytes, GraphProto, Message, ModelProto, NodeProto, TensorProto, TypeProto,
    type_proto,
};

/// Runs `work` on a stack of 256 KiB, so that recursion without a limit would end the process.
fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn_scoped(scope, work)
            .unwrap()
            .join()
            .unwrap()
    })
}

/// `innermost` inside length-delimited fields; `tags` are used in turn, from the inside out, `depth` in all.
fn nested(tags: &[u8], depth: usize, innermost: &[u8]) -> Vec<u8> {
    let mut reversed: Vec<u8> = innermost.iter().rev().copied().collect();
    for tag in tags.iter().cycle().take(depth) {
        let mut header = vec![*tag];
        push_varint(reversed.len(), &mut header);
        reversed.extend(header.iter().rev());
    }
    reversed.reverse();
    reversed
}

fn push_varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7F) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const GRAPH_IN_ATTRIBUTE: u8 = 6 << 3 | 2;
const ATTRIBUTE_IN_NODE: u8 = 5 << 3 | 2;
const NODE_IN_GRAPH: u8 = 1 << 3 | 2;

fn nested_graphs(depth: usize) -> Vec<u8> {
    nested(
        &[NODE_IN_GRAPH, GRAPH_IN_ATTRIBUTE, ATTRIBUTE_IN_NODE],
        depth,
        b"",
    )
}

#[test]
fn nesting_up_to_the_limit_is_decoded_copied_written_and_dropped() {
    // 99 is a multiple of 3, so the outermost message is a node.
    let wire = nested_graphs(99);
    on_small_stack(|| {
        let node = NodeProto::decode(&wire[..]).unwrap();
        let copy = node.clone();
        assert_eq!(copy, node);
        assert_eq!(copy.encode_to_vec(), wire);
        let mut levels = 0;
        let mut graph = node.attribute[0].g.as_deref();
        while let Some(next) = graph {
            levels += 1;
            graph = next
                .node
                .first()
                .and_then(|node| node.attribute.first())
                .and_then(|a| a.g.as_deref());
        }
        assert_eq!(levels, 33);
        assert!(format!("{node:?}").len() > 1000);
    });
}

#[test]
fn nesting_past_the_limit_is_an_error() {
    for depth in [102, 300, 3_000, 60_000] {
        let wire = nested_graphs(depth);
        on_small_stack(|| NodeProto::decode(&wire[..]).unwrap_err());
    }
    // Types nest through boxes: sequence of sequence of ...
    let wire = nested(&[1 << 3 | 2, 4 << 3 | 2], 30_000, b"");
    on_small_stack(|| TypeProto::decode(&wire[..]).unwrap_err());
}

#[test]
fn a_type_nested_to_the_limit_is_dropped() {
    let wire = nested(&[1 << 3 | 2, 4 << 3 | 2], 98, b"");
    on_small_stack(|| {
        let decoded = TypeProto::decode(&wire[..]).unwrap();
        assert!(matches!(
            decoded.value,
            Some(type_proto::Value::SequenceType(_))
        ));
        assert_eq!(decoded.clone(), decoded);
    });
}

#[test]
fn groups_are_skipped_when_balanced_and_limited() {
    // Field 99 as a group: 0x9B 0x06 opens, 0x9C 0x06 closes.
    let group = |depth: usize| [[0x9B, 0x06].repeat(depth), [0x9C, 0x06].repeat(depth)].concat();
    on_small_stack(|| {
        ModelProto::decode(&group(50)[..]).unwrap();
        ModelProto::decode(&group(1_000_000)[..]).unwrap_err();
        ModelProto::decode(&[0x9B, 0x06].repeat(1_000_000)[..]).unwrap_err();
        ModelProto::decode(&group(50)[..150]).unwrap_err();
    });
    // Closed by another number, and closed without being open.
    ModelProto::decode(&b"\x9B\x06\x94\x06"[..]).unwrap_err();
    ModelProto::decode(&b"\x9C\x06"[..]).unwrap_err();
}

#[test]
fn malformed_keys_and_numbers_are_errors() {
    let bad: [&[u8]; 9] = [
        b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", // eleven bytes
        b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02",     // tenth byte above 1
        b"\x08\x80",                                         // ends early
        b"\x00\x01",                                         // field number 0
        b"\x0E",                                             // wire type 6
        b"\x0F",                                             // wire type 7
        b"\x0A\x00",                                         // a number as length-delimited
        b"\xF8\xFF\xFF\xFF\xFF\xFF\x01\x00",                 // field number above the range
        b"\x3A\xFF\xFF\xFF\xFF\x07\x00\x00",                 // a graph that claims 2 GiB
    ];
    for wire in bad {
        assert!(ModelProto::decode(wire).is_err(), "{wire:02X?}");
    }
    // Payload and packed data that claim more than there is.
    TensorProto::decode(&b"\x4A\xFF\xFF\xFF\xFF\x07abc"[..]).unwrap_err();
    TensorProto::decode(&b"\x22\xFF\xFF\xFF\xFF\x0F\x00\x00\x80\x3F"[..]).unwrap_err();
    TensorProto::decode(&b"\x4A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"[..]).unwrap_err();
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
    GraphProto::decode(&b"\x12\x02\xC3\x28"[..]).unwrap_err();
    NodeProto::decode(&b"\x0A\x01\xFF"[..]).unwrap_err();
    // Attribute strings are bytes and may hold anything.
    let attribute = AttributeProto::decode(&b"\x22\x02\xC3\x28"[..]).unwrap();
    assert_eq!(attribute.s, Some(Bytes::from_static(b"\xC3\x28")));
}

fn sample() -> Vec<u8> {
    let tensor = TensorProto {
        name: Some("weight".into()),
        dims: vec![2, 3],
        data_type: Some(1),
        float_data: vec![0.5; 6],
        raw_data: Some(Bytes::from_static(&[9; 24])),
        ..Default::default()
    };
    let node = NodeProto {
        op_type: Some("Add".into()),
        input: vec!["a".into(); 2],
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![node; 3],
        initializer: vec![tensor],
        persistent_bindings: vec![Default::default()],
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        ..Default::default()
    }
    .encode_to_vec()
}

#[test]
fn every_cut_is_an_error_or_ends_between_fields() {
    let wire = sample();
    let full = ModelProto::decode(&wire[..]).unwrap();
    for end in 0..wire.len() {
        match ModelProto::decode(&wire[..end]) {
            // The only places where a top-level field ends: before everything, and after `ir_version`.
            Ok(part) => assert!(end == 0 || end == 2, "{end}: {part:?}"),
            Err(_) => assert!(end != 0 && end != 2),
        }
    }
    assert_eq!(full.graph.unwrap().node.len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..Default::default() })]

    #[test]
    fn what_decodes_is_written_and_read_back(wire in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(model) = ModelProto::decode(&wire[..]) {
            let written = model.encode_to_vec();
            prop_assert_eq!(ModelProto::decode(&written[..]).unwrap().encode_to_vec(), written);
        }
    }

    #[test]
    fn a_flipped_byte_never_breaks_the_reader(at in any::<prop::sample::Index>(), mask in 1u8..) {
        let mut wire = sample();
        let at = at.index(wire.len());
        wire[at] ^= mask;
        if let Ok(model) = ModelProto::decode(&wire[..]) {
            let written = model.encode_to_vec();
            prop_assert_eq!(ModelProto::decode(&written[..]).unwrap().encode_to_vec(), written);
        }
    }
}
