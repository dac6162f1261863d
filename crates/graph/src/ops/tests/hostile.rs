//! All rules under nodes that no honest exporter writes.

use crate::attributes::Attributes;
use crate::ops::all;
use crate::schema::{Attr, EnterGraph, InferError, Inference};
use crate::shape_inference::ShapeValue;
use crate::types::{Dim, TensorType, ValueType};
use proptest::prelude::*;
use proptest::sample::select;
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use refeed_values::{Allocator, DType, Tensor, TensorMut};

const NUMBERS: &[i64] = &[
    i64::MIN,
    i64::MIN + 1,
    -(1 << 40),
    -65,
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    7,
    16,
    64,
    1 << 31,
    1 << 40,
    i64::MAX - 1,
    i64::MAX,
];
const FLOATS: &[f32] = &[
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    -1.5,
    -0.0,
    0.0,
    0.5,
    1.0,
    2.0,
    3e38,
];
const TEXTS: &[&str] = &[
    "",
    "NOTSET",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "none",
    "mean",
    "bidirectional",
    "not_larger",
    "not_smaller",
    "tf_crop_and_resize",
    "Grayscale",
    "TO_FLOAT",
    "SPARSE",
    "constant",
    "FLOAT",
    "ij,jk->ik",
    "i...j,...->...",
    "...->",
    "->,",
    "ii",
    "\u{fffd}",
];
const EXTENTS: &[usize] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    12,
    64,
    1 << 31,
    1 << 40,
    isize::MAX as usize,
    usize::MAX,
];

fn dim() -> impl Strategy<Value = Dim> {
    prop_oneof![
        6 => select(EXTENTS).prop_map(Dim::Known),
        3 => select(&[1, 2, 3, 4, 6, 8][..]).prop_map(Dim::Known),
        1 => select(&["n", "past"][..]).prop_map(|name| Dim::Symbol(name.into())),
        1 => Just(Dim::Unknown),
    ]
}

fn tensor_type() -> impl Strategy<Value = TensorType> {
    let shape = proptest::option::weighted(0.9, proptest::collection::vec(dim(), 0..7));
    let dtype = prop_oneof![
        4 => Just(Some(DType::Float)),
        2 => Just(Some(DType::Int64)),
        2 => select(&DType::ALL[..]).prop_map(Some),
        1 => Just(None),
    ];
    (dtype, shape).prop_map(|(dtype, shape)| TensorType { dtype, shape })
}

fn numbers() -> impl Strategy<Value = Vec<i64>> {
    let small = prop_oneof![
        2 => select(NUMBERS).boxed(),
        3 => (0i64..5).boxed(),
    ];
    proptest::collection::vec(small, 0..7)
}

/// An attribute of this type, with any value.
fn payload(kind: AttributeType) -> BoxedStrategy<AttributeProto> {
    let of = AttributeProto {
        r#type: Some(kind as i32),
        ..AttributeProto::default()
    };
    let texts = |count| {
        let bytes = select(TEXTS).prop_map(|text| text.as_bytes().to_vec().into());
        proptest::collection::vec(bytes, count)
    };
    match kind {
        AttributeType::Int => prop_oneof![select(NUMBERS), 0i64..29]
            .prop_map(move |i| AttributeProto {
                i: Some(i),
                ..of.clone()
            })
            .boxed(),
        AttributeType::Ints => numbers()
            .prop_map(move |ints| AttributeProto { ints, ..of.clone() })
            .boxed(),
        AttributeType::Float => select(FLOATS)
            .prop_map(move |f| AttributeProto {
                f: Some(f),
                ..of.clone()
            })
            .boxed(),
        AttributeType::Floats => proptest::collection::vec(select(FLOATS), 0..5)
            .prop_map(move |floats| AttributeProto {
                floats,
                ..of.clone()
            })
            .boxed(),
        AttributeType::String => texts(1..2)
            .prop_map(move |mut texts| AttributeProto {
                s: texts.pop(),
                ..of.clone()
            })
            .boxed(),
        AttributeType::Strings => texts(0..4)
            .prop_map(move |strings| AttributeProto {
                strings,
                ..of.clone()
            })
            .boxed(),
        AttributeType::Tensor => (numbers(), 0i32..30)
            .prop_map(move |(dims, data_type)| AttributeProto {
                t: Some(Box::new(TensorProto {
                    dims,
                    data_type: Some(data_type),
                    ..TensorProto::default()
                })),
                ..of.clone()
            })
            .boxed(),
        AttributeType::Graph => (0usize..4, 0usize..4)
            .prop_map(move |(inputs, outputs)| AttributeProto {
                g: Some(Box::new(graph(inputs, outputs))),
                ..of.clone()
            })
            .boxed(),
        AttributeType::TypeProto => value_type()
            .prop_map(move |ty| AttributeProto {
                tp: Some(Box::new(ty.to_proto())),
                ..of.clone()
            })
            .boxed(),
        _ => Just(of).boxed(),
    }
}

fn graph(inputs: usize, outputs: usize) -> GraphProto {
    let named = |role: &str, count: usize| {
        (0..count)
            .map(|at| ValueInfoProto {
                name: Some(format!("{role}{at}")),
                ..ValueInfoProto::default()
            })
            .collect()
    };
    GraphProto {
        input: named("in", inputs),
        output: named("out", outputs),
        ..GraphProto::default()
    }
}

/// The attribute as its schema has it, seldom of another type.
fn attribute(held: &Attr) -> impl Strategy<Value = AttributeProto> {
    let name = held.name;
    let other = select(
        &[
            AttributeType::Int,
            AttributeType::String,
            AttributeType::Ints,
        ][..],
    );
    prop_oneof![12 => payload(held.kind), 1 => other.prop_flat_map(payload)].prop_map(
        move |attribute| AttributeProto {
            name: Some(name.to_string()),
            ..attribute
        },
    )
}

fn constant() -> impl Strategy<Value = Tensor> {
    let integers = (numbers(), any::<bool>()).prop_map(|(values, scalar)| {
        let shape: &[usize] = if scalar && values.len() == 1 {
            &[]
        } else {
            &[values.len()]
        };
        let mut memory = TensorMut::new(&Allocator::default(), DType::Int64, shape).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_ne_bytes()).collect();
        memory.as_mut_bytes().copy_from_slice(&bytes);
        memory.freeze()
    });
    let floats = proptest::collection::vec(select(FLOATS), 0..5).prop_map(|values| {
        let mut memory =
            TensorMut::new(&Allocator::default(), DType::Float, &[values.len()]).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_ne_bytes()).collect();
        memory.as_mut_bytes().copy_from_slice(&bytes);
        memory.freeze()
    });
    prop_oneof![3 => integers, 1 => floats]
}

/// Types of all kinds, mostly tensors.
fn value_type() -> impl Strategy<Value = ValueType> {
    let leaf = prop_oneof![
        8 => tensor_type().prop_map(ValueType::Tensor),
        1 => Just(ValueType::Unset),
    ];
    leaf.prop_recursive(3, 4, 1, |inner| {
        prop_oneof![
            2 => inner.clone().prop_map(ValueType::sequence_of),
            2 => inner.clone().prop_map(ValueType::optional_of),
            1 => inner.prop_map(|value| ValueType::Map {
                key: Some(DType::Int64),
                value: Box::new(value),
            }),
        ]
    })
}

/// Inputs of a node: types, and what is known of the elements.
type Input = (ValueType, Option<Tensor>, Option<ShapeValue>);

fn inputs() -> impl Strategy<Value = Vec<Option<Input>>> {
    let valued = constant().prop_map(|tensor| {
        let ty = TensorType::concrete(tensor.dtype(), tensor.shape());
        (ValueType::Tensor(ty), Some(tensor), None)
    });
    let shape = proptest::collection::vec(dim(), 0..6).prop_map(|dims| {
        let ty = TensorType::concrete(DType::Int64, &[dims.len()]);
        (ValueType::Tensor(ty), None, ShapeValue::from_dims(&dims))
    });
    let input = prop_oneof![
        1 => Just(None),
        6 => tensor_type().prop_map(|ty| Some((ValueType::Tensor(ty), None, None))),
        2 => value_type().prop_map(|ty| Some((ty, None, None))),
        3 => valued.prop_map(Some),
        2 => shape.prop_map(Some),
    ];
    proptest::collection::vec(input, 0..7)
}

/// One of the schemas, by its place, with attributes under its own names.
fn node() -> impl Strategy<Value = (usize, Vec<AttributeProto>)> {
    (0..all().count()).prop_flat_map(|place| {
        let held = all().nth(place).map_or(&[][..], |schema| schema.attributes);
        let attributes: Vec<_> = held
            .iter()
            .map(|held| {
                let share = if held.required { 0.97 } else { 0.5 };
                proptest::option::weighted(share, attribute(held))
            })
            .collect();
        (Just(place), attributes)
            .prop_map(|(place, attributes)| (place, attributes.into_iter().flatten().collect()))
    })
}

/// Says of each output of a nested graph that nothing is known.
struct Outside;

impl EnterGraph for Outside {
    fn enter(
        &mut self,
        graph: &GraphProto,
        _: &[ValueType],
    ) -> Result<Option<Vec<ValueType>>, InferError> {
        Ok(Some(vec![ValueType::Unset; graph.output.len()]))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_node_makes_a_rule_panic(
        (place, attribute) in node(),
        inputs in inputs(),
        outputs in 0usize..5,
        opset in prop_oneof![1i64..30, Just(i64::MAX)],
    ) {
        let schema = all().nth(place).unwrap();
        let node = NodeProto { attribute, ..NodeProto::default() };
        let attributes = Attributes::new(&node);
        let types: Vec<_> = inputs.iter().map(|input| Some(input.as_ref()?.0.clone())).collect();
        let constants: Vec<_> = inputs.iter().map(|input| input.as_ref()?.1.clone()).collect();
        let values: Vec<_> = inputs.iter().map(|input| input.as_ref()?.2.clone()).collect();
        let mut outside = Outside;
        let mut cx = Inference::new(&attributes, opset, &types, &constants, outputs)
            .with_values(&values)
            .with_graphs(&mut outside);
        // Either answer is right, as long as there is one.
        if (schema.infer)(&mut cx).is_ok() {
            prop_assert_eq!(cx.into_types().len(), outputs);
        }
    }
}
