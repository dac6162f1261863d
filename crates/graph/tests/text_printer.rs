//! The text form's printer from outside: what it prints comes back, whatever is in the message.

use proptest::prelude::*;
use refeed_graph::parser;
use refeed_graph::printer::{Fidelity, to_text};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::tensor_shape_proto::{Dimension, dimension};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{
    AttributeProto, Bytes, GraphProto, Message, NodeProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};

/// Names, good and bad.
fn name() -> impl Strategy<Value = Option<String>> {
    let names = [
        "", "x", "a_1", "float", "seq", "inf", "nan", "int", "a b", "\"", "\\", "a\"b\\c", "#",
        "é", "a.b", "1", "\n", "@x", "=>", "a-b",
    ];
    prop::option::weighted(
        0.9,
        prop::sample::select(names.map(str::to_string).to_vec()),
    )
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(name().prop_map(Option::unwrap_or_default), 0..4)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        3 => name().prop_map(|name| Bytes::from(name.unwrap_or_default())),
        1 => prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from),
    ]
}

/// Floats of any bits, the special ones often.
fn float() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<u32>().prop_map(f32::from_bits),
        prop::sample::select(vec![
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            1e-45,
            f32::NAN
        ]),
    ]
}

fn shape() -> impl Strategy<Value = Option<TensorShapeProto>> {
    let value = prop_oneof![
        any::<i64>().prop_map(|n| Some(dimension::Value::DimValue(n))),
        name().prop_map(|name| name.map(dimension::Value::DimParam)),
    ];
    let dim = value.prop_map(|value| Dimension {
        denotation: None,
        value,
    });
    let shape = prop::collection::vec(dim, 0..3).prop_map(|dim| TensorShapeProto { dim });
    prop::option::of(shape)
}

fn ty() -> impl Strategy<Value = TypeProto> {
    let of = |value| TypeProto {
        denotation: None,
        value,
    };
    let leaf = prop_oneof![
        6 => (prop::option::of(-1..32), shape()).prop_map(|(elem_type, shape)| {
            Some(Value::TensorType(type_proto::Tensor { elem_type, shape }))
        }),
        1 => (0..30, shape()).prop_map(|(elem_type, shape)| {
            Some(Value::SparseTensorType(type_proto::SparseTensor { elem_type: Some(elem_type), shape }))
        }),
        1 => (name(), name()).prop_map(|(domain, name)| {
            Some(Value::OpaqueType(type_proto::Opaque { domain, name }))
        }),
        1 => Just(None),
    ]
    .prop_map(of);
    leaf.prop_recursive(3, 4, 1, move |inner| {
        let inner = prop::option::weighted(0.9, inner.prop_map(Box::new));
        (inner, 0..3, 0..30).prop_map(move |(elem_type, kind, key)| {
            of(Some(match kind {
                0 => Value::SequenceType(Box::new(type_proto::Sequence { elem_type })),
                1 => Value::OptionalType(Box::new(type_proto::Optional { elem_type })),
                _ => Value::MapType(Box::new(type_proto::Map {
                    key_type: Some(key),
                    value_type: elem_type,
                })),
            }))
        })
    })
}

fn value() -> impl Strategy<Value = ValueInfoProto> {
    (name(), prop::option::of(ty())).prop_map(|(name, r#type)| ValueInfoProto {
        name,
        r#type,
        ..Default::default()
    })
}

fn tensor() -> impl Strategy<Value = TensorProto> {
    let data = (
        prop::option::weighted(0.3, prop::collection::vec(any::<u8>(), 0..17)),
        prop::collection::vec(float(), 0..3),
        prop::collection::vec(any::<i32>(), 0..3),
        prop::collection::vec(any::<i64>(), 0..3),
        prop::collection::vec(any::<u64>(), 0..3),
        prop::collection::vec(bytes(), 0..3),
    );
    let dims = prop::collection::vec(any::<i64>(), 0..3);
    (name(), dims, -1..32, data).prop_map(|(name, dims, data_type, data)| {
        let (raw, floats, ints, longs, unsigned, strings) = data;
        let mut tensor = TensorProto {
            name,
            dims,
            data_type: Some(data_type),
            raw_data: raw.map(Bytes::from),
            ..Default::default()
        };
        // Mostly the field of the type, sometimes one too many.
        match data_type {
            1 | 14 => tensor.float_data = floats,
            7 => tensor.int64_data = longs,
            8 => tensor.string_data = strings,
            11 | 15 => tensor.double_data = floats.into_iter().map(f64::from).collect(),
            12 | 13 => tensor.uint64_data = unsigned,
            _ => tensor.int32_data = ints,
        }
        tensor
    })
}

fn attribute(graph: impl Strategy<Value = GraphProto>) -> impl Strategy<Value = AttributeProto> {
    let scalars = (
        prop::option::of(float()),
        prop::option::of(any::<i64>()),
        prop::option::of(bytes()),
        prop::collection::vec(float(), 0..3),
        prop::collection::vec(any::<i64>(), 0..3),
        prop::collection::vec(bytes(), 0..3),
    );
    let messages = (
        prop::collection::vec(tensor(), 0..3),
        prop::collection::vec(ty(), 0..3),
        prop::collection::vec(graph, 0..3),
    );
    let reference = prop::option::weighted(0.1, name().prop_map(Option::unwrap_or_default));
    (name(), reference, -1..16, scalars, messages).prop_map(
        |(name, reference, kind, scalars, messages)| {
            let (f, i, s, floats, ints, strings) = scalars;
            let (mut tensors, mut types, mut graphs) = messages;
            let mut attribute = AttributeProto {
                name,
                r#type: Some(kind),
                ref_attr_name: reference,
                ..Default::default()
            };
            match AttributeType::try_from(kind) {
                _ if attribute.ref_attr_name.is_some() => {}
                Ok(AttributeType::Float) => attribute.f = f,
                Ok(AttributeType::Int) => attribute.i = i,
                Ok(AttributeType::String) => attribute.s = s,
                Ok(AttributeType::Floats) => attribute.floats = floats,
                Ok(AttributeType::Ints) => attribute.ints = ints,
                Ok(AttributeType::Strings) => attribute.strings = strings,
                Ok(AttributeType::Tensor) => attribute.t = tensors.pop().map(Box::new),
                Ok(AttributeType::Tensors) => attribute.tensors = tensors,
                Ok(AttributeType::TypeProto) => attribute.tp = types.pop().map(Box::new),
                Ok(AttributeType::TypeProtos) => attribute.type_protos = types,
                Ok(AttributeType::Graph) => attribute.g = graphs.pop().map(Box::new),
                Ok(AttributeType::Graphs) => attribute.graphs = graphs,
                _ => attribute.i = i,
            }
            attribute
        },
    )
}

fn graph_of(nodes: impl Strategy<Value = Vec<NodeProto>>) -> impl Strategy<Value = GraphProto> {
    let values = || prop::collection::vec(value(), 0..3);
    let initializers = prop::collection::vec(tensor(), 0..2);
    (name(), nodes, values(), values(), values(), initializers).prop_map(
        |(name, node, input, output, value_info, initializer)| GraphProto {
            name,
            node,
            input,
            output,
            value_info,
            initializer,
            ..Default::default()
        },
    )
}

fn nodes(graph: impl Strategy<Value = GraphProto>) -> impl Strategy<Value = Vec<NodeProto>> {
    let attributes = prop::collection::vec(attribute(graph), 0..3);
    let node = (name(), name(), name(), name(), names(), names(), attributes).prop_map(
        |(name, domain, op_type, overload, input, output, attribute)| NodeProto {
            name,
            domain,
            op_type,
            overload,
            input,
            output,
            attribute,
            ..Default::default()
        },
    );
    prop::collection::vec(node, 0..3)
}

fn graph() -> impl Strategy<Value = GraphProto> {
    graph_of(nodes(graph_of(nodes(Just(GraphProto::default())))))
}

proptest! {
    #[test]
    fn what_is_printed_comes_back(graph in graph()) {
        if let Ok(text) = to_text(&graph, Fidelity::Exact) {
            let again = parser::parse_graph(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(again.encode_to_vec(), graph.encode_to_vec(), "{}", text);
        }
        if let Ok(text) = to_text(&graph, Fidelity::Equivalent) {
            // The second time nothing changes.
            let again = parser::parse_graph(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let second = to_text(&again, Fidelity::Exact).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(second, text);
        }
        let text = to_text(&graph, Fidelity::Lossy).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let again = parser::parse_graph(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let second = to_text(&again, Fidelity::Exact).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(second, text);
    }

    #[test]
    fn parts_that_are_printed_come_back(
        ty in ty(),
        tensor in tensor(),
        value in value(),
        attribute in attribute(graph_of(Just(Vec::new()))),
    ) {
        if let Ok(text) = to_text(&ty, Fidelity::Exact) {
            prop_assert_eq!(parser::parse_type(text).unwrap(), ty);
        }
        if let Ok(text) = to_text(&tensor, Fidelity::Exact) {
            prop_assert_eq!(parser::parse_tensor(text).unwrap().encode_to_vec(), tensor.encode_to_vec());
        }
        if let Ok(text) = to_text(&value, Fidelity::Exact) {
            prop_assert_eq!(parser::parse_value_info(text).unwrap(), value);
        }
        if let Ok(text) = to_text(&attribute, Fidelity::Exact) {
            let again = parser::parse_attribute(text).unwrap();
            prop_assert_eq!(again.encode_to_vec(), attribute.encode_to_vec());
        }
    }
}
