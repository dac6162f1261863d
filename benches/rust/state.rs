//! What a step of a state costs (the call itself, and a decode step of an exported decoder), and what a second state does.

use criterion::{Criterion, criterion_group, criterion_main};
use refeed_benches::{accumulate, decoder};
use refeed_runtime::{PersistentValueState, RunControl, RuntimeContext, RuntimeSessionOptions};
use refeed_values::Tensor;
use std::hint::black_box;

/// Two floats added to two floats: everything that is measured is the call.
fn call(criterion: &mut Criterion) {
    let initial = Tensor::from_slice(&[2], &[0f32; 2]).expect("two floats");
    let options = RuntimeSessionOptions::default();
    let state =
        PersistentValueState::new(accumulate(), [("past", initial)], options).expect("a state");
    let (context, delta) = (
        RuntimeContext::default(),
        Tensor::from_slice(&[2], &[1f32; 2]).expect("two floats"),
    );
    let position = state.input_position("delta").expect("an input");
    criterion.bench_function("state/accumulate", |bench| {
        bench.iter(|| {
            black_box(state.run_positions(
                &context,
                &[(position, delta.clone().into())],
                RunControl::default(),
            ))
        });
    });
}

/// One token through a small llama export, at a length where its caches no longer grow.
fn decode(criterion: &mut Criterion) {
    let (state, feeds) = decoder(&RuntimeSessionOptions {
        max_length: Some(4096),
        ..Default::default()
    });
    let context = RuntimeContext::default();
    let mut length = 0usize;
    criterion.bench_function("state/decode", |bench| {
        bench.iter(|| {
            length = if length == 256 { 1 } else { length + 1 };
            if length == 1 {
                refeed_benches::rewind(&state);
            }
            black_box(state.run(&context, feeds(length)).expect("a step"))
        });
    });
}

/// A fork of a decoder that has a prompt of 256 tokens in its caches, and a checkpoint of it that is gone back to.
fn second_state(criterion: &mut Criterion) {
    let (state, feeds) = decoder(&RuntimeSessionOptions::default());
    let context = RuntimeContext::default();
    for length in 1..=256 {
        state.run(&context, feeds(length)).expect("a step");
    }
    criterion.bench_function("state/fork", |bench| {
        bench.iter(|| black_box(state.fork().expect("a fork")));
    });
    criterion.bench_function("state/checkpoint and restore", |bench| {
        bench.iter(|| {
            let checkpoint = state.checkpoint().expect("a checkpoint");
            state.restore(&checkpoint).expect("the same values");
        });
    });
}

criterion_group!(benches, call, decode, second_state);
criterion_main!(benches);
