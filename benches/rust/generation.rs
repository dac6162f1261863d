//! What the token loop costs: a step of a generator beside a step of a state that is handed the same tensors, on a model
//! that computes next to nothing. The difference is the loop: feeds, mask, choice of a token.

use criterion::{Criterion, criterion_group, criterion_main};
use refeed_graph::parser::parse_model;
use refeed_graph::{BindRequest, LoadOptions, Model, bind};
use refeed_runtime::{
    GenerationOptions, Generator, GeneratorSettings, PersistentValueState, RunControl,
    RuntimeContext, RuntimeSessionOptions,
};
use refeed_values::Tensor;
use std::hint::black_box;

/// present = past + token; the next token is present modulo 64.
fn recurrent() -> Model {
    let text = r#"<ir_version: 10, opset_import: ["" : 18]>
        recurrent (int64[batch, n] input_ids, int64[batch, total] attention_mask, int64[batch, 1] past)
            => (float[batch, n, 64] logits, int64[batch, 1] present, int64[batch, total] mask)
        <int64[1] depth = {64}, float[2] values = {0, 1}>
        {
            sum = Add(past, input_ids)
            present = Mod(sum, depth)
            logits = OneHot(present, depth, values)
            mask = Identity(attention_mask)
        }"#;
    let proto = parse_model(text).expect("a model");
    let model = Model::from_proto(proto, &LoadOptions::default()).expect("a model");
    let request = BindRequest::pairs([("past", "present")]);
    bind(&model, &request).expect("a binding").0
}

fn by_hand(criterion: &mut Criterion) {
    let past = Tensor::from_slice(&[1, 1], &[0i64]).expect("a number");
    let options = RuntimeSessionOptions::default();
    let state = PersistentValueState::new(recurrent(), [("past", past)], options).expect("a state");
    let position = |name| state.input_position(name).expect("an input");
    let one = Tensor::from_slice(&[1, 1], &[1i64]).expect("a number");
    let feeds = [
        (position("input_ids"), one.clone().into()),
        (position("attention_mask"), one.into()),
    ];
    let context = RuntimeContext::default();
    criterion.bench_function("generation/a step of the state", |bench| {
        bench.iter(|| black_box(state.run_positions(&context, &feeds, RunControl::default())));
    });
}

fn generated(criterion: &mut Criterion) {
    let greedy = GenerationOptions {
        max_new_tokens: usize::MAX,
        ..GenerationOptions::default()
    };
    let drawn = GenerationOptions {
        temperature: 1.0,
        seed: Some(1),
        ..greedy.clone()
    };
    for (name, options) in [("greedy", greedy), ("drawn", drawn)] {
        let mut generator =
            Generator::new(recurrent(), GeneratorSettings::default()).expect("a generator");
        generator.append(&[vec![1]]).expect("a prompt");
        generator.begin(&options).expect("a call");
        criterion.bench_function(&format!("generation/a token, {name}"), |bench| {
            bench.iter(|| {
                black_box(
                    generator
                        .advance(RunControl::default())
                        .expect("a token")
                        .len(),
                )
            });
        });
    }
}

criterion_group!(benches, by_hand, generated);
criterion_main!(benches);
