//! Messages that know their descriptor as prost structs, and back.

#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "messages/random.rs"]
mod random;

use proptest::prelude::*;
use random::Random;
use refeed_proto::message::descriptors::*;
use refeed_proto::message::{
    DecodeLimits, FrozenMessage, MessageDescriptor, Payload, Text, UnknownPlace, Value,
};
use refeed_proto::{
    AttributeProto, Bytes, Convert, ConvertReason, GraphProto, Message, ModelProto, NodeProto,
    SequenceProto, StructTypeProto, TensorProto, TypeProto,
};

fn decode(descriptor: &'static MessageDescriptor, wire: &[u8]) -> FrozenMessage {
    FrozenMessage::decode(
        descriptor,
        Bytes::from(wire.to_vec()),
        &DecodeLimits::default(),
    )
    .unwrap()
}

/// A struct of a message says what prost reads from the message's bytes, and gives the message back.
fn check<T: Convert + Message + Default + PartialEq>(seed: u64) -> Result<(), TestCaseError> {
    let message = Random(seed).message(T::DESCRIPTOR, 5);
    let converted = T::from_message(&message).unwrap();
    // Bytes, as a NaN is not equal to itself.
    let by_prost = T::decode(&message.encode().unwrap()[..]).unwrap();
    prop_assert!(converted.encode_to_vec() == by_prost.encode_to_vec());
    prop_assert!(converted.to_message().unwrap() == message);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 100, ..Default::default() })]

    #[test]
    fn random_messages_are_converted_there_and_back(seed: u64) {
        check::<ModelProto>(seed)?;
        check::<TensorProto>(seed)?;
        check::<TypeProto>(seed)?;
        check::<StructTypeProto>(seed)?;
        check::<SequenceProto>(seed)?;
        check::<AttributeProto>(seed)?;
    }
}

#[test]
fn payloads_are_shared_both_ways() {
    let raw = Bytes::from(vec![7; 1000]);
    let list = Bytes::from(vec![8; 1000]);
    let tensor = TensorProto {
        raw_data: Some(raw.clone()),
        string_data: vec![list.clone()],
        ..Default::default()
    };
    let message = tensor.to_message().unwrap();
    let slot = |name: &str| TENSOR_PROTO.field(name).unwrap().slot;
    let Value::Bytes(payload) = message.value(slot("raw_data")) else {
        panic!()
    };
    assert_eq!(payload.bytes().as_ptr(), raw.as_ptr());
    let Value::Payloads(payloads) = message.value(slot("string_data")) else {
        panic!()
    };
    assert_eq!(payloads[0].bytes().as_ptr(), list.as_ptr());
    let back = TensorProto::from_message(&message).unwrap();
    assert_eq!(back.raw_data().as_ptr(), raw.as_ptr());
    assert_eq!(back.string_data[0].as_ptr(), list.as_ptr());
}

#[test]
fn text_that_is_not_utf8_is_an_error_that_names_its_field() {
    let bad = Text::from_wire(b"ok\xFF");
    let with = |descriptor: &'static MessageDescriptor, name: &str, value: Value| {
        let mut values = vec![Value::Absent; descriptor.fields.len()];
        values[usize::from(descriptor.field(name).unwrap().slot)] = value;
        FrozenMessage::new(descriptor, values, None).unwrap()
    };
    let node = with(
        &NODE_PROTO,
        "input",
        Value::Texts([Text::from("a"), bad.clone()].into()),
    );
    let good = FrozenMessage::empty(&NODE_PROTO);
    let nodes = Value::Messages([good.into(), node.into()].into());
    let graph = with(&GRAPH_PROTO, "node", nodes);
    let model = with(&MODEL_PROTO, "graph", Value::Message(graph.into()));
    let error = ModelProto::from_message(&model).unwrap_err();
    assert_eq!(
        error.to_string(),
        "onnx.ModelProto, graph.node[1].input[1]: expected UTF-8 text, got bytes that are not from byte 2 on: ok\\xff"
    );
    // A member of a oneof.
    let dimension = with(&TENSOR_SHAPE_PROTO_DIMENSION, "dim_param", Value::Text(bad));
    let shape = with(
        &TENSOR_SHAPE_PROTO,
        "dim",
        Value::Messages([dimension.into()].into()),
    );
    let error = refeed_proto::TensorShapeProto::from_message(&shape).unwrap_err();
    assert_eq!(error.path, "dim[0].dim_param");
    let error = GraphProto::from_message(&model).unwrap_err();
    assert_eq!(
        error.to_string(),
        "onnx.GraphProto: expected a message of this kind, got onnx.ModelProto"
    );
}

#[test]
fn as_deep_as_the_wire_allows() {
    // Graphs in attributes in nodes, `levels` messages in all; the innermost is a graph.
    let tags = [1 << 3 | 2, 6 << 3 | 2, 5 << 3 | 2u8];
    let wire = |levels: usize| {
        let mut wire = Vec::new();
        for tag in tags.iter().cycle().take(levels - 1) {
            let length = wire.len();
            let mut header = vec![*tag];
            if length >= 0x80 {
                header.extend([length as u8 | 0x80, (length >> 7) as u8]);
            } else {
                header.push(length as u8);
            }
            wire.splice(0..0, header);
        }
        wire
    };
    let deepest = wire(101);
    let on_small_stack = std::thread::Builder::new().stack_size(256 * 1024);
    let thread = on_small_stack.spawn(move || {
        let message = decode(&GRAPH_PROTO, &deepest[..]);
        assert_eq!(message.height(), 101);
        let converted = GraphProto::from_message(&message);
        let converted = converted.unwrap();
        assert_eq!(converted.to_message().unwrap(), message);
        // One level more.
        let deeper = AttributeProto {
            g: Some(Box::new(converted)),
            ..Default::default()
        };
        assert_eq!(deeper.to_message().unwrap_err().fault, ConvertReason::Depth);
        let mut values = vec![Value::Absent; ATTRIBUTE_PROTO.fields.len()];
        let g = ATTRIBUTE_PROTO.field("g").unwrap().slot;
        values[usize::from(g)] = Value::Message(message.into());
        let deeper = FrozenMessage::new(&ATTRIBUTE_PROTO, values, None).unwrap();
        assert_eq!(
            AttributeProto::from_message(&deeper).unwrap_err().fault,
            ConvertReason::Depth
        );
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn unknown_fields_are_found_and_left_out() {
    let unknown = b"\x98\x06\x01";
    let node = |extra: &[u8]| [&[0x0A, 3 + extra.len() as u8][..], b"\x22\x01N", extra].concat();
    let graph = [node(b""), node(unknown), b"\x12\x01g".to_vec()].concat();
    let wire = [&[0x3A, graph.len() as u8][..], &graph].concat();
    let model = decode(&MODEL_PROTO, &wire);
    let place = |path: &str, number| {
        Some(UnknownPlace {
            path: path.into(),
            number,
        })
    };
    assert_eq!(model.first_unknown(), place("graph.node[1]", 99));
    let outer = decode(&MODEL_PROTO, &[&wire[..], b"\xA0\x06\x01"].concat());
    assert_eq!(outer.first_unknown(), place("", 100));
    let known = decode(&MODEL_PROTO, b"\x08\x05\x3A\x04\x0A\x00\x0A\x00");
    assert!(!known.has_unknown() && model.has_unknown());
    let converted = ModelProto::from_message(&model).unwrap();
    let nodes = &converted.graph.as_ref().unwrap().node;
    assert_eq!(
        nodes.iter().map(NodeProto::op_type).collect::<Vec<_>>(),
        ["N", "N"]
    );
    assert!(!converted.to_message().unwrap().has_unknown());
}

#[test]
fn absent_and_empty_stay_apart() {
    let empty = TensorProto {
        name: Some(String::new()),
        raw_data: Some(Bytes::new()),
        data_type: Some(0),
        ..Default::default()
    };
    let message = empty.to_message().unwrap();
    assert_eq!(message.encode().unwrap(), b"\x10\x00\x42\x00\x4A\x00");
    assert_eq!(TensorProto::from_message(&message).unwrap(), empty);
    assert_eq!(
        TensorProto::from_message(&FrozenMessage::empty(&TENSOR_PROTO)).unwrap(),
        TensorProto::default()
    );
    let payload = Value::bytes(Payload::new(Bytes::new()));
    assert_eq!(
        *message.value(TENSOR_PROTO.field("raw_data").unwrap().slot),
        payload
    );
}
