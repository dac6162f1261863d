//! Decode with KV caches that stay in one buffer, and count what each token costs.
//!
//! The twin of `docs/examples/contiguous_kv_decode.py`: the same model, the same tokens, the same tables, the same
//! figures. Run it: `cargo run -p refeed --example contiguous_kv_decode -- 10`

#![allow(clippy::print_stdout)] // a program that shows tables

use refeed::proto::tensor_shape_proto::{Dimension, dimension::Value as Dim};
use refeed::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto, type_proto,
};
use refeed::{
    AppendReuse, BindRequest, KernelContext, LoadOptions, Model, OpsetId, PersistentValueState,
    RuntimeContext, RuntimeContextOptions, RuntimeEventAction, RuntimeSessionOptions,
    StorageReport, Tensor, bind,
};
use std::error::Error;

const QUERY_HEADS: usize = 6;
const DK: usize = 5;
const DV: usize = 7;

/// A FLOAT value `[1, heads, length, width]`.
fn value(name: &str, heads: usize, length: &str, width: usize) -> ValueInfoProto {
    let dim = |value| Dimension {
        value: Some(value),
        ..Default::default()
    };
    let number = |extent: usize| dim(Dim::DimValue(extent as i64));
    let length = dim(Dim::DimParam(length.into()));
    let tensor = type_proto::Tensor {
        elem_type: Some(1),
        shape: Some(TensorShapeProto {
            dim: vec![number(1), number(heads), length, number(width)],
        }),
    };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A decode step: `heads` cached heads, queries in groups over them.
fn attention_model(heads: usize) -> Result<Model, Box<dyn Error>> {
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let causal = AttributeProto {
        name: Some("is_causal".into()),
        r#type: Some(attribute_proto::AttributeType::Int as i32),
        i: Some(1),
        ..Default::default()
    };
    let node = NodeProto {
        op_type: Some("Attention".into()),
        input: names(&["query", "key", "value", "", "past_key", "past_value"]),
        output: names(&["out", "present_key", "present_value"]),
        attribute: vec![causal],
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("decode_step".into()),
        node: vec![node],
        input: vec![
            value("query", QUERY_HEADS, "new", DK),
            value("key", heads, "new", DK),
            value("value", heads, "new", DV),
            value("past_key", heads, "past", DK),
            value("past_value", heads, "past", DV),
        ],
        output: vec![
            value("out", QUERY_HEADS, "new", DV),
            value("present_key", heads, "present", DK),
            value("present_value", heads, "present", DV),
        ],
        ..Default::default()
    };
    let proto = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(24),
        }],
        graph: Some(graph),
        ..Default::default()
    };
    let pairs = [("past_key", "present_key"), ("past_value", "present_value")];
    let model = Model::from_proto(proto, &LoadOptions::default())?;
    Ok(bind(&model, &BindRequest::pairs(pairs))?.0)
}

/// Numbers in [-1, 1) by a linear congruence, one row of `width` for each head.
fn numbers(heads: usize, width: usize, seed: usize) -> Vec<f32> {
    let mut x = seed as u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..heads * width).map(|_| next()).collect()
}

/// Attention of one query over rows of one head, from its formula in double precision.
fn expected(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f64> {
    let dot = |key: &Vec<f32>| -> f64 {
        let terms = query.iter().zip(key);
        terms.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let weights: Vec<f64> = keys
        .iter()
        .map(|key| (dot(key) / (DK as f64).sqrt()).exp())
        .collect();
    let sum: f64 = weights.iter().sum();
    let column = |at: usize| {
        let terms = weights.iter().zip(values);
        terms
            .map(|(weight, row)| weight * f64::from(row[at]))
            .sum::<f64>()
            / sum
    };
    (0..DV).map(column).collect()
}

/// Rows of one cached head since the first token.
type Rows = Vec<Vec<f32>>;

/// Whether a cache shows these rows, head by head.
fn shows(cache: &Tensor, heads: &[Rows], length: usize) -> Result<bool, Box<dyn Error>> {
    let rows = heads.iter().flat_map(|rows| &rows[..length]);
    Ok(cache.view::<f32>()?.to_vec() == rows.flatten().copied().collect::<Vec<_>>())
}

/// Decodes `count` tokens, prints one line a token, and returns the counters of each step.
fn decode(
    title: &str,
    heads: usize,
    count: usize,
    hold: bool,
    options: RuntimeSessionOptions,
) -> Result<Vec<StorageReport>, Box<dyn Error>> {
    let empty = |width| Tensor::from_slice::<f32>(&[1, heads, 0, width], &[]);
    let initial = [("past_key", empty(DK)?), ("past_value", empty(DV)?)];
    let state = PersistentValueState::new(attention_model(heads)?, initial, options)?;
    let context = RuntimeContext::with_options(
        KernelContext::new(OpsetId::default_opset(24)),
        RuntimeContextOptions {
            events_enabled: true,
            ..RuntimeContextOptions::default()
        },
    );
    let (mut keys, mut values): (Vec<Rows>, Vec<Rows>) =
        (vec![Rows::new(); heads], vec![Rows::new(); heads]);
    let (mut steps, mut held) = (Vec::new(), Vec::new());
    let how = if hold { "held" } else { "released" };
    println!("{title}; cached heads: {heads}; outputs {how}");
    println!("token  buffers  bytes requested  prefix copied  appended  reused");
    for step in 0..count {
        let query = numbers(QUERY_HEADS, DK, 3 * step);
        let key = numbers(heads, DK, 3 * step + 1);
        let value = numbers(heads, DV, 3 * step + 2);
        for (head, rows) in keys.iter_mut().enumerate() {
            rows.push(key[head * DK..][..DK].to_vec());
        }
        for (head, rows) in values.iter_mut().enumerate() {
            rows.push(value[head * DV..][..DV].to_vec());
        }
        let feeds = [
            (
                "query",
                Tensor::from_slice(&[1, QUERY_HEADS, 1, DK], &query)?,
            ),
            ("key", Tensor::from_slice(&[1, heads, 1, DK], &key)?),
            ("value", Tensor::from_slice(&[1, heads, 1, DV], &value)?),
        ];
        context.clear_events();
        let outputs = state.run(&context, feeds)?;
        let mut total = StorageReport::default();
        for event in context.events() {
            if event.action == RuntimeEventAction::PersistentStorage {
                total.add(&event.storage);
            }
        }
        println!(
            "{:5}  {:7}  {:15}  {:13}  {:8}  {:6}",
            step + 1,
            total.allocations,
            total.allocated_bytes,
            total.prefix_copied_bytes,
            total.append_copied_bytes,
            total.reuse_count
        );
        steps.push(total);
        let out = outputs["out"].view::<f32>()?.to_vec();
        for (head, out) in out.chunks(DV).enumerate() {
            let cached = head * heads / QUERY_HEADS;
            let want = expected(&query[head * DK..][..DK], &keys[cached], &values[cached]);
            let close = |(got, want): (&f32, &f64)| (f64::from(*got) - want).abs() < 1e-5;
            assert!(out.iter().zip(&want).all(close), "{out:?} is not {want:?}");
        }
        if hold {
            held.push(outputs);
        }
    }
    print!("{}", state.explain()?);
    // Whatever was appended since, an output that somebody holds is what it was.
    for (step, outputs) in held.iter().enumerate() {
        assert!(shows(&outputs["present_key"], &keys, step + 1)?);
        assert!(shows(&outputs["present_value"], &values, step + 1)?);
    }
    Ok(steps)
}

/// What each token must cost when caches grow by doubling; unless `alone`, no buffer serves twice.
fn growing(count: usize, heads: usize, capacity: usize, alone: bool) -> Vec<StorageReport> {
    let row = (4 * heads * (DK + DV)) as u64;
    let mut room = 0;
    let step = |length: usize| {
        let full = length >= room;
        if full {
            room = capacity.max(2 * room);
        }
        let moves = full || !alone;
        StorageReport {
            allocations: if moves { 2 } else { 0 },
            allocated_bytes: if moves { room as u64 * row } else { 0 },
            prefix_copied_bytes: if moves { length as u64 * row } else { 0 },
            append_copied_bytes: row,
            reuse_count: if moves { 0 } else { 2 },
        }
    };
    (0..count).map(step).collect()
}

/// What each token must cost when both caches are written anew.
fn dense(count: usize, heads: usize) -> Vec<StorageReport> {
    let row = (4 * heads * (DK + DV)) as u64;
    let step = |length: u64| StorageReport {
        allocations: 2,
        allocated_bytes: (length + 1) * row,
        prefix_copied_bytes: length * row,
        append_copied_bytes: row,
        reuse_count: 0,
    };
    (0..count as u64).map(step).collect()
}

/// Decodes under each setting and holds the counters to the documented figures.
fn compare(count: usize) -> Result<(), Box<dyn Error>> {
    let capacity = |rows| RuntimeSessionOptions {
        persistent_tensor_initial_capacity: rows,
        ..Default::default()
    };

    // Any number of heads, every output still held: no prefix is copied but when the buffer is full.
    let steps = decode("in place, capacity 4", 3, count, true, capacity(4))?;
    assert_eq!(steps, growing(count, 3, 4, true));

    // The longest length is known: one buffer for each cache, and no prefix is ever copied.
    let options = RuntimeSessionOptions {
        max_length: Some(count),
        ..Default::default()
    };
    let steps = decode(
        &format!("in place, max_length {count}"),
        3,
        count,
        true,
        options,
    )?;
    assert_eq!(steps, growing(count, 3, count, true));

    // No capacity: each step writes both caches again.
    let steps = decode("capacity 0", 3, count, true, capacity(0))?;
    assert_eq!(steps, dense(count, 3));

    // The stricter rule reuses a buffer only for one head, and only while nobody else holds the value.
    let exclusive = RuntimeSessionOptions {
        append_reuse: AppendReuse::Exclusive,
        ..capacity(4)
    };
    let steps = decode("exclusive", 3, count, false, exclusive.clone())?;
    assert_eq!(steps, dense(count, 3));
    let steps = decode("exclusive", 1, count, false, exclusive.clone())?;
    assert_eq!(steps, growing(count, 1, 4, true));
    let steps = decode("exclusive", 1, count, true, exclusive)?;
    assert_eq!(steps, growing(count, 1, 4, false));
    println!("all figures are as documented");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).unwrap_or_else(|| "10".into());
    compare(count.parse()?)
}

#[test]
fn the_figures_hold() {
    compare(20).expect("every step runs");
}
