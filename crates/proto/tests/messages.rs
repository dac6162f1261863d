//! Messages that know their descriptor, on the wire: against prost, which reads and writes the same schema by generated
//! code of its own.

#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "messages/limits.rs"]
mod limits;
#[path = "messages/models.rs"]
mod models;
#[path = "messages/random.rs"]
mod random;

use proptest::prelude::*;
use random::Random;
use refeed_proto::message::descriptors::*;
use refeed_proto::message::{
    DecodeFault, DecodeLimits, FrozenMessage, Malformed, MessageDescriptor, Text, UnknownField,
    UnknownValue, Value,
};
use refeed_proto::{self as structs, Bytes, Message};

fn decode(
    descriptor: &'static MessageDescriptor,
    wire: impl Into<Bytes>,
) -> Result<FrozenMessage, DecodeFault> {
    FrozenMessage::decode(descriptor, wire.into(), &DecodeLimits::default())
}

fn get<'a>(message: &'a FrozenMessage, name: &str) -> &'a Value {
    message.value(message.descriptor().field(name).unwrap().slot)
}

fn inner<'a>(message: &'a FrozenMessage, name: &str) -> &'a FrozenMessage {
    match get(message, name) {
        Value::Message(message) => message,
        other => panic!("{name}: {other:?}"),
    }
}

/// What prost makes of the wire, written by prost.
fn by_prost(descriptor: &MessageDescriptor, wire: &[u8]) -> Result<Vec<u8>, structs::DecodeError> {
    macro_rules! of {
        ($($name:ident)*) => {
            match descriptor.full_name {
                $(concat!("onnx.", stringify!($name)) => structs::$name::decode(wire).map(|m| m.encode_to_vec()),)*
                other => panic!("{other}: no struct"),
            }
        };
    }
    of!(ModelProto OperatorSetIdProto GraphProto NodeProto AttributeProto FunctionProto TrainingInfoProto
    StringStringEntryProto TensorAnnotation DeviceConfigurationProto NodeDeviceConfigurationProto
    ShardingSpecProto ShardedDimProto SimpleShardedDimProto IntIntListEntryProto TensorProto SparseTensorProto
    ValueInfoProto TensorShapeProto TypeProto PersistentBindingProto PagedCacheProto PagedCacheBlockProto
    AffineLayoutProto StructTypeProto EncodedValueProto SequenceProto MapProto OptionalProto
    OperatorProto OperatorSetProto
    )
}

/// Whether both say the same. prost writes the members of a oneof where the one with the lowest number would stand.
fn same_apart_from_order(
    descriptor: &'static MessageDescriptor,
    ours: &[u8],
    prosts: &[u8],
) -> bool {
    ours.len() == prosts.len()
        && decode(descriptor, ours.to_vec()) == decode(descriptor, prosts.to_vec())
}

/// Runs `work` on a stack of 256 KiB, so that recursion without a limit would end the process.
fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// `innermost` inside length-delimited fields; `tags` are used in turn, from the inside out, `depth` in all.
fn nested(tags: &[u8], depth: usize, innermost: &[u8]) -> Vec<u8> {
    let mut reversed: Vec<u8> = innermost.iter().rev().copied().collect();
    for tag in tags.iter().cycle().take(depth) {
        let header = [vec![*tag], varint(reversed.len())].concat();
        reversed.extend(header.iter().rev());
    }
    reversed.reverse();
    reversed
}

// ------------------------------------------------------------------------------------------------------- against prost

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..Default::default() })]

    #[test]
    fn random_messages_are_written_as_prost_does_and_read_back(seed: u64, index: prop::sample::Index) {
        let descriptor = *index.get(MESSAGES);
        let message = Random(seed).message(descriptor, 5);
        let wire = message.encode().unwrap();
        prop_assert_eq!(message.encoded_len().unwrap(), wire.len());
        prop_assert!(same_apart_from_order(descriptor, &wire, &by_prost(descriptor, &wire).unwrap()));
        let mut written = Vec::new();
        prop_assert_eq!(message.encode_to(&mut written).unwrap(), wire.len());
        prop_assert!(written == wire);
        let read = decode(descriptor, wire.clone()).unwrap();
        prop_assert_eq!(read.height(), message.height());
        prop_assert!(read == message);
        prop_assert!(read.encode().unwrap() == wire);
    }

    #[test]
    fn messages_behind_each_other_merge_as_in_prost(seed: u64, index: prop::sample::Index, parts in 2usize..5) {
        let descriptor = *index.get(MESSAGES);
        let mut random = Random(seed);
        let wire: Vec<u8> = (0..parts)
            .flat_map(|_| random.message(descriptor, 4).encode().unwrap())
            .collect();
        let read = decode(descriptor, wire.clone()).unwrap();
        let expected = by_prost(descriptor, &wire).unwrap();
        prop_assert!(same_apart_from_order(descriptor, &read.encode().unwrap(), &expected));
        prop_assert!(decode(descriptor, expected).unwrap() == read);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(
        wire in prop::collection::vec(any::<u8>(), 0..200),
        index: prop::sample::Index,
    ) {
        let descriptor = *index.get(MESSAGES);
        check_hostile(descriptor, &wire)?;
    }

    #[test]
    fn damaged_messages_are_messages_or_errors(
        seed: u64,
        index: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..6),
    ) {
        let descriptor = *index.get(MESSAGES);
        let mut wire = Random(seed).message(descriptor, 4).encode().unwrap();
        for (at, action, byte) in damage {
            if wire.is_empty() {
                break;
            }
            let at = at.index(wire.len());
            match action {
                0 => wire[at] = byte,
                1 => wire.truncate(at),
                2 => wire.insert(at, byte),
                _ => drop(wire.remove(at)),
            }
        }
        check_hostile(descriptor, &wire)?;
    }
}

/// A value or an error; a value is written and read back; where prost reads it too, it reads the same.
fn check_hostile(descriptor: &'static MessageDescriptor, wire: &[u8]) -> Result<(), TestCaseError> {
    let prost = by_prost(descriptor, wire);
    let read = match decode(descriptor, wire.to_vec()) {
        Ok(read) => read,
        Err(error) => {
            let text = error.to_string();
            prop_assert!(
                text.starts_with(error.message) && text.len() < 400,
                "{}",
                text
            );
            prop_assert!(error.offset <= wire.len() as u64);
            // What prost reads and we do not: retired fields, and keys of more than five bytes.
            let stricter = error.fault == Malformed::Retired
                || error.fault == (Malformed::NumberTooLong { limit: 5 });
            prop_assert!(prost.is_err() || stricter, "{}", error);
            return Ok(());
        }
    };
    let written = read.encode().unwrap();
    let again = decode(descriptor, written.clone()).unwrap();
    prop_assert!(again == read);
    prop_assert!(again.encode().unwrap() == written);
    if let Ok(expected) = prost {
        prop_assert!(by_prost(descriptor, &written).unwrap() == expected);
    }
    Ok(())
}

// ------------------------------------------------------------------------------------------------------------ reading

#[test]
fn payloads_and_unknown_fields_are_slices_of_the_input() {
    let tensor = [&b"\x42\x01w\x4A\x05hello"[..], b"\x98\x06\x01"].concat();
    let attribute = b"\x22\x03abc\x4A\x02de\x4A\x00\x4A\x01f";
    let graph = [
        &[0x0A, attribute.len() as u8 + 2, 0x2A, attribute.len() as u8][..],
        &attribute[..],
        &[0x2A, tensor.len() as u8],
        &tensor,
    ]
    .concat();
    let wire = Bytes::from([&[0x3A, graph.len() as u8][..], &graph].concat());
    let model = decode(&MODEL_PROTO, wire.clone()).unwrap();
    let address = |needle: &[u8]| {
        let at = wire
            .windows(needle.len())
            .position(|window| window == needle)
            .unwrap();
        wire[at..].as_ptr()
    };
    let graph = inner(&model, "graph");
    let tensor = &get(graph, "initializer").messages()[0];
    let Value::Bytes(raw) = get(tensor, "raw_data") else {
        panic!()
    };
    assert_eq!(raw.bytes().as_ptr(), address(b"hello"));
    let spans = tensor.unknown().unwrap();
    assert_eq!(
        (spans.len(), spans[0].as_ptr()),
        (1, address(b"\x98\x06\x01"))
    );
    let attribute = &get(&get(graph, "node").messages()[0], "attribute").messages()[0];
    let Value::Bytes(s) = get(attribute, "s") else {
        panic!()
    };
    assert_eq!(s.bytes().as_ptr(), address(b"abc"));
    let Value::Payloads(strings) = get(attribute, "strings") else {
        panic!()
    };
    let strings: Vec<&[u8]> = strings.iter().map(|item| &item.bytes()[..]).collect();
    assert_eq!(strings, [&b"de"[..], b"", b"f"]);
    assert_eq!(strings[2].as_ptr(), address(b"f"));
    assert_eq!(model.encode().unwrap(), wire);
}

#[test]
fn unknown_fields_are_kept_in_order_and_written_behind_the_known_ones() {
    let group = b"\x9B\x06\x08\x01\xA3\x06\x0A\x01x\xA4\x06\x9C\x06"; // a group in a group
    let parts: [&[u8]; 5] = [
        b"\xA2\x06\x02hi", // bytes
        group,
        b"\x98\x06\x80\x01",                         // a number
        b"\xAD\x06\x01\x02\x03\x04",                 // four bytes
        b"\xA9\x06\x01\x02\x03\x04\x05\x06\x07\x08", // eight bytes
    ];
    let unknown = parts.concat();
    let wire = [
        parts[0],
        parts[1],
        b"\x08\x05",
        parts[2],
        parts[3],
        b"\x12\x01p",
        parts[4],
    ]
    .concat();
    let model = decode(&MODEL_PROTO, wire).unwrap();
    assert_eq!(model.unknown().unwrap().len(), 5);
    assert_eq!(
        model.encode().unwrap(),
        [&b"\x08\x05\x12\x01p"[..], &unknown].concat()
    );
    let fields = model.unknown_fields().unwrap();
    let numbers: Vec<_> = fields
        .iter()
        .map(|field| (field.number, field.value.wire_type()))
        .collect();
    assert_eq!(numbers, [(100, 2), (99, 3), (99, 0), (101, 5), (101, 1)]);
    assert_eq!(fields[2].value, UnknownValue::Varint(128));
    assert_eq!(fields[3].value, UnknownValue::Fixed32(0x0403_0201));
    let field = |number, value| UnknownField { number, value };
    let innermost = field(1, UnknownValue::Bytes(Bytes::from_static(b"x")));
    assert_eq!(
        fields[1].value,
        UnknownValue::Group(vec![
            field(1, UnknownValue::Varint(1)),
            field(100, UnknownValue::Group(vec![innermost]))
        ])
    );
}

#[test]
fn a_known_field_of_another_wire_type_is_unknown() {
    let cases: [(&'static MessageDescriptor, &[u8]); 8] = [
        (&MODEL_PROTO, b"\x0A\x01\x05"),         // ir_version as bytes
        (&MODEL_PROTO, b"\x10\x05"),             // producer_name as a number
        (&MODEL_PROTO, b"\x3D\x01\x02\x03\x04"), // graph as four bytes
        (&MODEL_PROTO, b"\x3B\x0A\x00\x3C"),     // graph as a group
        (&ATTRIBUTE_PROTO, b"\x10\x01"),         // f as a number
        (&ATTRIBUTE_PROTO, b"\x39\x01\x02\x03\x04\x05\x06\x07\x08"), // floats of eight bytes
        (&ATTRIBUTE_PROTO, b"\x45\x01\x02\x03\x04"), // ints of four bytes
        (&PERSISTENT_BINDING_PROTO, b"\x18\x01"), // a retired field, but not as it was
    ];
    for (descriptor, wire) in cases {
        let message = decode(descriptor, wire.to_vec()).unwrap();
        assert!(message.values().all(Value::is_absent), "{wire:02X?}");
        assert_eq!(message.unknown().unwrap()[..], [Bytes::from(wire.to_vec())]);
        assert_eq!(message.encode().unwrap(), wire);
    }
}

#[test]
fn lists_come_packed_or_not_and_in_pieces() {
    // int64_data, declared packed; ints, not.
    let tensor = decode(
        &TENSOR_PROTO,
        b"\x38\x01\x3A\x03\x02\xAC\x02\x3A\x00\x38\x03".to_vec(),
    )
    .unwrap();
    assert_eq!(
        *get(&tensor, "int64_data"),
        Value::Ints([1, 2, 300, 3].into())
    );
    assert_eq!(tensor.encode().unwrap(), b"\x3A\x05\x01\x02\xAC\x02\x03");
    let tensor = decode(
        &TENSOR_PROTO,
        b"\x3A\x01\x05\x12\x01\x00\x3A\x02\x06\x07\x38\x08".to_vec(),
    )
    .unwrap();
    assert_eq!(
        *get(&tensor, "int64_data"),
        Value::Ints([5, 6, 7, 8].into())
    );
    let attribute = decode(
        &ATTRIBUTE_PROTO,
        b"\x42\x02\x01\x02\x40\x03\x42\x00".to_vec(),
    )
    .unwrap();
    assert_eq!(*get(&attribute, "ints"), Value::Ints([1, 2, 3].into()));
    assert_eq!(attribute.encode().unwrap(), b"\x40\x01\x40\x02\x40\x03");
    let attribute = decode(
        &ATTRIBUTE_PROTO,
        b"\x3A\x08\0\0\x80\x3F\0\0\0\x40\x3D\0\0\x40\x40".to_vec(),
    )
    .unwrap();
    assert_eq!(
        *get(&attribute, "floats"),
        Value::Floats([1.0, 2.0, 3.0].into())
    );
    assert_eq!(
        attribute.encode().unwrap(),
        b"\x3D\0\0\x80\x3F\x3D\0\0\0\x40\x3D\0\0\x40\x40"
    );
    // Empty blocks make no list.
    assert!(
        decode(&TENSOR_PROTO, b"\x3A\x00\x22\x00".to_vec())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn numbers_of_32_bits_are_cut_as_protobuf_cuts_them() {
    let wire = b"\x10\x81\x80\x80\x80\x10\x2A\x0A\x81\x80\x80\x80\x10\xFF\xFF\xFF\xFF\x0F";
    let tensor = decode(&TENSOR_PROTO, wire.to_vec()).unwrap();
    assert_eq!(*get(&tensor, "data_type"), Value::Int(1));
    assert_eq!(*get(&tensor, "int32_data"), Value::Int32s([1, -1].into()));
    // Bits beyond the 64th are dropped.
    let model = decode(
        &MODEL_PROTO,
        b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F".to_vec(),
    )
    .unwrap();
    assert_eq!(*get(&model, "ir_version"), Value::Int(-1));
    assert_eq!(
        model.encode().unwrap(),
        b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
    );
}

#[test]
fn the_last_value_wins_and_messages_merge() {
    // elem_type, then shape, of the same member; then another member; then the first one again, from nothing.
    let once = decode(&TYPE_PROTO, b"\x0A\x02\x08\x01\x0A\x02\x12\x00".to_vec()).unwrap();
    assert_eq!(once.encode().unwrap(), b"\x0A\x04\x08\x01\x12\x00");
    let twice = decode(
        &TYPE_PROTO,
        b"\x0A\x02\x08\x01\x22\x00\x0A\x02\x12\x00".to_vec(),
    )
    .unwrap();
    assert_eq!(twice.encode().unwrap(), b"\x0A\x02\x12\x00");
    let other = decode(
        &TYPE_PROTO,
        b"\x0A\x02\x08\x01\x0A\x02\x12\x00\x22\x00".to_vec(),
    )
    .unwrap();
    assert_eq!(other.encode().unwrap(), b"\x22\x00");
    let dim = decode(
        &TENSOR_SHAPE_PROTO_DIMENSION,
        b"\x08\x05\x12\x01a\x08\x06".to_vec(),
    )
    .unwrap();
    assert_eq!(dim.encode().unwrap(), b"\x08\x06");
    // Three times, two levels down, with lists and unknown fields at both.
    let part = |name: &str| {
        [
            &[0x3A, 7, 0x0A, 0, 0x12, 1][..],
            name.as_bytes(),
            b"\x98\x06\x01",
        ]
        .concat()
    };
    let part = |name| {
        let mut part = part(name);
        part[1] = part.len() as u8 - 2;
        part
    };
    let model = decode(&MODEL_PROTO, [part("a"), part("b"), part("c")].concat()).unwrap();
    let graph = inner(&model, "graph");
    assert_eq!(get(graph, "node").len(), 3);
    assert_eq!(*get(graph, "name"), Value::Text(Text::from("c")));
    assert_eq!(graph.unknown().unwrap().len(), 3);
}

#[test]
fn a_message_repeated_very_often_takes_linear_time() {
    // Each part adds a node to the one graph, and to a graph in its one training info's algorithm.
    let started = std::time::Instant::now();
    let model = decode(&MODEL_PROTO, b"\x3A\x02\x0A\x00".repeat(400_000)).unwrap();
    assert_eq!(get(inner(&model, "graph"), "node").len(), 400_000);
    let info = decode(
        &TRAINING_INFO_PROTO,
        b"\x12\x05\x0A\x00\x12\x01g\x0A\x02\x0A\x00".repeat(200_000),
    )
    .unwrap();
    assert_eq!(get(inner(&info, "algorithm"), "node").len(), 200_000);
    assert_eq!(get(inner(&info, "initialization"), "node").len(), 200_000);
    // Packed blocks of one number.
    let tensor = decode(&TENSOR_PROTO, b"\x3A\x01\x05".repeat(400_000)).unwrap();
    assert_eq!(get(&tensor, "int64_data").len(), 400_000);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn text_that_is_not_utf8_is_kept() {
    let wire = b"\x12\x02\xC3\x28";
    let graph = decode(&GRAPH_PROTO, wire.to_vec()).unwrap();
    let Value::Text(name) = get(&graph, "name") else {
        panic!()
    };
    assert_eq!(name.as_bytes(), b"\xC3\x28");
    name.as_str().unwrap_err();
    assert_eq!(graph.encode().unwrap(), wire);
}

#[test]
fn retired_fields_are_refused() {
    for wire in [&b"\x0A\x02in\x1A\x01a"[..], b"\x22\x00"] {
        let error = decode(&PERSISTENT_BINDING_PROTO, wire.to_vec()).unwrap_err();
        assert_eq!(error.fault, Malformed::Retired);
        assert!(error.to_string().contains("whole"), "{error}");
    }
    let graph = b"\xCA\x3E\x03\x1A\x01a";
    let error = decode(&GRAPH_PROTO, graph.to_vec()).unwrap_err();
    assert_eq!(
        (error.message, error.offset),
        ("onnx.PersistentBindingProto", 3)
    );
}

#[test]
fn malformed_bytes_are_errors_that_say_where() {
    use Malformed::*;
    let ten = NumberTooLong { limit: 10 };
    /// Bytes; message, field and place of the fault.
    type Case<'a> = (&'a [u8], &'static str, Option<&'static str>, u64, Malformed);
    let cases: [Case<'_>; 20] = [
        (
            b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
            "onnx.ModelProto",
            Some("ir_version"),
            0,
            ten,
        ),
        (
            b"\x08\x05\x28\x80",
            "onnx.ModelProto",
            Some("model_version"),
            2,
            NumberEnds,
        ),
        (b"\x88", "onnx.ModelProto", None, 0, NumberEnds),
        (
            b"\x88\x80\x80\x80\x80\x00\x05",
            "onnx.ModelProto",
            None,
            0,
            NumberTooLong { limit: 5 },
        ),
        (
            b"\x00\x01",
            "onnx.ModelProto",
            None,
            0,
            Key {
                field: 0,
                wire_type: 0,
            },
        ),
        (
            b"\x0E",
            "onnx.ModelProto",
            None,
            0,
            Key {
                field: 1,
                wire_type: 6,
            },
        ),
        (
            b"\x0F",
            "onnx.ModelProto",
            None,
            0,
            Key {
                field: 1,
                wire_type: 7,
            },
        ),
        (
            b"\xF8\xFF\xFF\xFF\x1F\x00",
            "onnx.ModelProto",
            None,
            0,
            Key {
                field: 0x3FFF_FFFF,
                wire_type: 0,
            },
        ),
        (
            b"\x3A\xFF\xFF\xFF\xFF\x07\0\0",
            "onnx.ModelProto",
            Some("graph"),
            0,
            Truncated {
                length: 0x7FFF_FFFF,
                left: 2,
            },
        ),
        (
            b"\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
            "onnx.ModelProto",
            Some("producer_name"),
            0,
            Truncated {
                length: u64::MAX,
                left: 0,
            },
        ),
        // The inner message ends before its field does, the outer one goes on.
        (
            b"\x3A\x03\x12\x02a\x08\x05",
            "onnx.GraphProto",
            Some("name"),
            2,
            Truncated { length: 2, left: 1 },
        ),
        (
            b"\x3A\x02\x0A\x01\x08\x05",
            "onnx.GraphProto",
            Some("node"),
            2,
            Truncated { length: 1, left: 0 },
        ),
        (
            b"\x9C\x06",
            "onnx.ModelProto",
            None,
            0,
            Group {
                expected: 0,
                got: 99,
            },
        ),
        (
            b"\x9B\x06\x94\x06",
            "onnx.ModelProto",
            None,
            0,
            Group {
                expected: 99,
                got: 98,
            },
        ),
        (
            b"\x9B\x06\x08\x01",
            "onnx.ModelProto",
            None,
            0,
            Group {
                expected: 99,
                got: 0,
            },
        ),
        (
            b"\x3C",
            "onnx.ModelProto",
            Some("graph"),
            0,
            Group {
                expected: 0,
                got: 7,
            },
        ),
        (
            b"\x3A\x07\x2A\x05\x22\x03\0\0\0",
            "onnx.TensorProto",
            Some("float_data"),
            4,
            Packed { length: 3, item: 4 },
        ),
        (
            b"\x3A\x05\x2A\x03\x3A\x01\x80",
            "onnx.TensorProto",
            Some("int64_data"),
            4,
            NumberEnds,
        ),
        (
            b"\x3A\x10\x2A\x0E\x3A\x0C\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
            "onnx.TensorProto",
            Some("int64_data"),
            4,
            ten,
        ),
        (
            b"\x99\x06\x00\x00",
            "onnx.ModelProto",
            None,
            0,
            Truncated { length: 8, left: 2 },
        ),
    ];
    for (wire, message, field, offset, fault) in cases {
        let error = decode(&MODEL_PROTO, wire.to_vec()).unwrap_err();
        let expected = DecodeFault {
            message,
            field,
            offset,
            fault,
        };
        assert_eq!(error, expected, "{wire:02X?}");
    }
    let error = decode(&MODEL_PROTO, b"\x3A\x03\x12\x02a\x08\x05".to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "onnx.GraphProto, field `name`, byte 2: expected 2 bytes, got 1 before the end of the message"
    );
}

// ----------------------------------------------------------------------------------------------------------- equality

#[test]
fn equality_is_that_of_protobuf() {
    let attribute = |wire: &[u8]| decode(&ATTRIBUTE_PROTO, wire.to_vec()).unwrap();
    let nan = attribute(b"\x15\0\0\xC0\x7F");
    assert_eq!(nan, attribute(b"\x15\0\0\xC0\x7F"));
    assert_ne!(nan, attribute(b"\x15\x01\0\xC0\x7F"), "another NaN");
    assert_ne!(
        attribute(b"\x15\0\0\0\0"),
        attribute(b"\x15\0\0\0\x80"),
        "zero and minus zero"
    );
    assert_ne!(
        attribute(b"\x15\0\0\0\0"),
        attribute(b""),
        "present and absent"
    );
    assert_eq!(
        attribute(b"\x3D\0\0\xC0\x7F"),
        attribute(b"\x3D\0\0\xC0\x7F"),
        "in a list"
    );
    assert_ne!(attribute(b"\x40\x01\x40\x02"), attribute(b"\x40\x01"));
    // Unknown fields by what they say, in any order of numbers.
    let (one, two): (&[u8], &[u8]) = (b"\xB8\x3E\x01", b"\xC0\x3E\x02");
    let all = attribute(&[one, two].concat());
    assert_eq!(all, attribute(&[two, one].concat()));
    assert_ne!(all, attribute(one));
    assert_eq!(attribute(one), attribute(b"\xB8\x3E\x81\x00"));
    assert_ne!(
        attribute(one),
        attribute(b"\xBD\x3E\x01\0\0\0"),
        "another wire type"
    );
    let later: &[u8] = b"\xB8\x3E\x03";
    assert_ne!(
        attribute(&[one, later].concat()),
        attribute(&[later, one].concat())
    );
    assert_eq!(
        attribute(&[one, two, later].concat()),
        attribute(&[one, later, two].concat())
    );
    let group = |a: &[u8], b: &[u8]| attribute(&[b"\xBB\x3E", a, b, b"\xBC\x3E"].concat());
    assert_eq!(
        group(b"\x08\x01", b"\x10\x02"),
        group(b"\x10\x02", b"\x08\x01")
    );
    assert_ne!(
        group(b"\x08\x01", b"\x10\x02"),
        group(b"\x08\x02", b"\x10\x01")
    );
}

// ---------------------------------------------------------------------------------------------------------- text form

#[test]
fn the_text_form_is_what_python_prints() {
    let attribute = [
        &b"\x0A\x01x\x15\xCD\xCC\xCC\x3D\x18\xFB\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"[..],
        b"\x22\x10\xFF\x00abc\xC3\xA9'\"\t\r\n\x7F\x80\\ ",
        b"\x40\x01\x40\x02\x4A\x01a\x4A\x01\n\xA0\x01\x02\xAA\x01\x01r",
        b"\x6A\x09d\n\"'\\\xC3\xA9\x01\xFF",
        b"\xB8\x3E\x01", // unknown
    ]
    .concat();
    let expected = r#"name: "x"
f: 0.1
i: -5
s: "\377\000abc\303\251\'\"\t\r\n\177\200\\ "
ints: 1
ints: 2
strings: "a"
strings: "\n"
doc_string: "d\n\"\'\\é\001\377"
type: INT
ref_attr_name: "r"
"#;
    let attribute = decode(&ATTRIBUTE_PROTO, attribute).unwrap();
    assert_eq!(attribute.to_string(), expected);

    // Two nodes, the second empty; a graph in an attribute.
    let wire = [
        &[0x3A, 17][..],
        b"\x0A\x0B\x0A\x00\x2A\x07\x32\x02\x12\x00\xA0\x01\x63\x0A\x00\x12\x00",
    ]
    .concat();
    let expected = r#"graph {
  node {
    input: ""
    attribute {
      g {
        name: ""
      }
      type: 99
    }
  }
  node {
  }
  name: ""
}
"#;
    assert_eq!(decode(&MODEL_PROTO, wire).unwrap().to_string(), expected);
    assert_eq!(decode(&MODEL_PROTO, Vec::new()).unwrap().to_string(), "");
    let affine = decode(&AFFINE_LAYOUT_PROTO, b"\x30\x01\x08\x16".to_vec()).unwrap();
    assert_eq!(
        affine.to_string(),
        "storage_type: INT4\nsigned_storage: true\n"
    );
}
