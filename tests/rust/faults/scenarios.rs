//! States of every kind that a failure is planted into, each made the same way every time.

use crate::models::{attention, concat, group_query, text};
use refeed_graph::{BindRequest, BindingUses, LoadOptions, Model, bind};
use refeed_proto::struct_type_proto::structure::{Field, field::Content};
use refeed_proto::struct_type_proto::{Kind, Structure};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TypeProto};
use refeed_runtime::{AppendReuse, PersistentValueState, RuntimeSessionOptions};
use refeed_values::{DType, RuntimeSequence, RuntimeValue, StructValue, Tensor, paged_cache};

pub(super) type Feeds = Vec<(&'static str, RuntimeValue)>;

/// A state, and what each step feeds it.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) build: fn() -> PersistentValueState,
    pub(super) feeds: fn(usize) -> Feeds,
    /// Whether the outputs of earlier steps are still held when the failure happens.
    pub(super) held: bool,
}

/// Values that differ in every element and step.
fn filled(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 + seed * 101) % 61) as f32 / 16.0 - 1.5)
        .collect();
    Tensor::from_slice(shape, &values).unwrap()
}

fn fed(name: &'static str, shape: &[usize], seed: usize) -> (&'static str, RuntimeValue) {
    (name, filled(shape, seed).into())
}

fn int(name: &'static str, value: i64) -> (&'static str, RuntimeValue) {
    (name, Tensor::from_slice(&[], &[value]).unwrap().into())
}

fn with_capacity(rows: usize) -> RuntimeSessionOptions {
    RuntimeSessionOptions {
        persistent_tensor_initial_capacity: rows,
        ..Default::default()
    }
}

fn state<const N: usize>(
    model: Model,
    initial: [(&'static str, RuntimeValue); N],
    options: RuntimeSessionOptions,
) -> PersistentValueState {
    PersistentValueState::new(model, initial, options).unwrap()
}

fn rows(step: usize) -> Feeds {
    vec![fed("new", &[2, 3, 1 + step % 2, 5], step)]
}

fn heads(step: usize) -> Feeds {
    let n = 1 + step % 3;
    vec![
        fed("q", &[1, 4, n, 6], step),
        fed("k", &[1, 2, n, 6], step + 50),
        fed("v", &[1, 2, n, 6], step + 90),
    ]
}

fn caches(heads: usize, size: usize) -> [(&'static str, RuntimeValue); 2] {
    [
        fed("past_key", &[1, heads, 0, size], 0),
        fed("past_value", &[1, heads, 0, size], 1),
    ]
}

fn grouped(step: usize) -> Feeds {
    let length = Tensor::from_slice(&[1], &[step as i32]).unwrap();
    let total = Tensor::from_slice(&[], &[step as i32 + 1]).unwrap();
    vec![
        fed("q", &[1, 1, 32], step),
        fed("k", &[1, 1, 16], step + 50),
        fed("v", &[1, 1, 16], step + 90),
        ("lengths", length.into()),
        ("total", total.into()),
    ]
}

/// Each step appends one element, then a loop sums all of them up.
fn remembering() -> PersistentValueState {
    let model = text(
        "remember (float[2, 3] new, seq(float[2, 3]) past, float[2, 3] zero) \
            => (seq(float[2, 3]) present, float[2, 3] sum) {
            present = SequenceInsert (past, new)
            count = SequenceLength (present)
            go = Constant <value_int = 1> ()
            condition = Cast <to = 9> (go)
            sum = Loop (count, condition, zero) <body = body (int64 i, bool c, float[2, 3] total)
                => (bool again, float[2, 3] next) {
                again = Identity (c)
                element = SequenceAt (present, i)
                next = Add (total, element)
            }>
        }",
    );
    let (model, _) = bind(
        &model,
        &BindRequest::pairs([("past", "present")]).with_uses(BindingUses::Any),
    )
    .unwrap();
    let options = RuntimeSessionOptions::default();
    let first = RuntimeValue::from(filled(&[2, 3], 70));
    let initial = RuntimeSequence::from_values([first]).unwrap();
    state(model, [("past", initial.into())], options)
}

fn elements(step: usize) -> Feeds {
    let zero = Tensor::from_slice(&[2, 3], &[0f32; 6]).unwrap();
    vec![fed("new", &[2, 3], step), ("zero", zero.into())]
}

fn tensor_type(element: i32, dims: &str) -> TypeProto {
    let info = crate::models::value("", DType::from_onnx(element).unwrap(), dims);
    info.r#type.unwrap()
}

fn structure(fields: Vec<(&str, TypeProto)>) -> TypeProto {
    let field = |(name, ty): (&str, TypeProto)| Field {
        name: Some(name.to_string()),
        content: Some(Content::Type(ty)),
        ..Field::default()
    };
    let field = fields.into_iter().map(field).collect();
    let declared = StructTypeProto {
        kind: Some(Kind::Structure(Structure { field })),
        ..StructTypeProto::default()
    };
    TypeProto {
        value: Some(Value::StructType(Box::new(declared))),
        ..TypeProto::default()
    }
}

fn sequence(element: TypeProto) -> TypeProto {
    TypeProto {
        value: Some(Value::SequenceType(Box::new(type_proto::Sequence {
            elem_type: Some(Box::new(element)),
        }))),
        ..TypeProto::default()
    }
}

/// `past`, of the given type, handed on by Identity in one branch and as it is in the other; a sum beside it.
fn forwarding(ty: &TypeProto, initial: RuntimeValue) -> PersistentValueState {
    let graph = refeed_graph::parser::parse_model(
        "<ir_version: 10, opset_import: [\"\" : 24]> forward (bool pick, float[2, 3] new, float past) \
            => (float present, float[2, 3] doubled) {
            present = If (pick) <then_branch = a () => (float kept) { kept = Identity (past) },
                else_branch = b () => (float other) { middle = Identity (past) other = Identity (middle) }>
            doubled = Add (new, new)
        }",
    );
    let mut proto = graph.unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.input[2].r#type = Some(ty.clone());
    graph.output[0].r#type = Some(ty.clone());
    for attribute in &mut graph.node[0].attribute {
        let branch = attribute.g.as_mut().unwrap();
        branch.output[0].r#type = Some(ty.clone());
    }
    let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
    let request = BindRequest::pairs([("past", "present")]).with_uses(BindingUses::Any);
    let (model, _) = bind(&model, &request).unwrap();
    state(model, [("past", initial)], RuntimeSessionOptions::default())
}

fn picks(step: usize) -> Feeds {
    let pick = Tensor::from_slice(&[], &[u8::from(step.is_multiple_of(2))]).unwrap();
    let pick = pick.reinterpret(DType::Bool).unwrap();
    vec![("pick", pick.into()), fed("new", &[2, 3], step)]
}

fn record() -> PersistentValueState {
    let ty = structure(vec![
        ("position", tensor_type(7, "")),
        ("rows", sequence(tensor_type(1, "2 n"))),
    ]);
    let list = [filled(&[2, 4], 3), filled(&[2, 1], 4)].map(RuntimeValue::from);
    let fields = [
        ("position", int("", 11).1),
        ("rows", RuntimeSequence::from_values(list).unwrap().into()),
    ];
    forwarding(&ty, StructValue::new(fields).unwrap().into())
}

fn pages() -> PersistentValueState {
    let page = structure(vec![
        ("start", tensor_type(7, "")),
        ("length", tensor_type(7, "")),
        ("key", tensor_type(1, "1 2 4 3")),
        ("value", tensor_type(1, "1 2 4 5")),
    ]);
    let ty = structure(vec![("blocks", sequence(page))]);
    let made = [(0, 4), (4, 3)].map(|(start, length)| {
        let number = |value: i64| Tensor::from_slice(&[], &[value]).unwrap();
        let key = filled(&[1, 2, 4, 3], start as usize);
        let value = filled(&[1, 2, 4, 5], start as usize + 7);
        paged_cache::page_of(number(start), number(length), key.into(), value.into()).unwrap()
    });
    forwarding(&ty, paged_cache::cache_of(made).unwrap())
}

pub(super) fn scenarios() -> Vec<Scenario> {
    fn start() -> [(&'static str, RuntimeValue); 1] {
        [fed("past", &[2, 3, 1, 5], 0)]
    }
    let scenario = |name, build, feeds| Scenario {
        name,
        build,
        feeds,
        held: false,
    };
    vec![
        scenario(
            "dense append",
            || state(concat(2, 3, 5), start(), with_capacity(0)),
            rows,
        ),
        scenario(
            "growth",
            || state(concat(2, 3, 5), start(), with_capacity(3)),
            rows,
        ),
        Scenario {
            held: true,
            ..scenario(
                "alias held",
                || {
                    let options = RuntimeSessionOptions {
                        append_reuse: AppendReuse::Exclusive,
                        ..with_capacity(3)
                    };
                    let past = [fed("past", &[2, 3, 1, 5], 0)];
                    state(concat(2, 3, 5), past, options)
                },
                rows,
            )
        },
        scenario(
            "attention",
            || state(attention(1, 2, 6), caches(2, 6), with_capacity(4)),
            heads,
        ),
        scenario(
            "grouped query attention",
            || state(group_query(1, 2, 8), caches(2, 8), with_capacity(4)),
            grouped,
        ),
        scenario("sequence and loop", remembering, elements),
        scenario("struct", record, picks),
        scenario("paged cache", pages, picks),
    ]
}
