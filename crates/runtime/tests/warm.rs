//! A warm step of an exported decoder asks the system for no memory: not in the caller's thread, not in the pool's.

#![allow(clippy::unwrap_used)]

#[path = "../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{Counting, requests_of_all};
use refeed_graph::{BindRequest, BindingUses, LoadOptions, Model, bind};
use refeed_runtime::{PersistentValueState, RunControl, RuntimeContext, RuntimeSessionOptions};
use refeed_values::{DType, RuntimeValue, Tensor};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `Attention` and RMSNormalization, `GroupQueryAttention`, attention in single nodes around an appending `Concat`, 16 bits.
const DECODERS: [&str; 6] = [
    "mobius_llama",
    "mobius_phi3_f16",
    "genai_llama_fp32",
    "dynamo23_llama",
    "dynamo18_llama",
    "optimum_llama",
];

const WARM: usize = 20;
const STEPS: usize = WARM + 100;

/// The decoder with its caches bound.
fn decoder(name: &str) -> Model {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/models");
    let path = format!("{root}/{name}/model.onnx");
    let model = Model::load(path, &LoadOptions::default()).unwrap();
    let inputs = model.inputs().iter();
    let pairs: Vec<(String, String)> = inputs
        .filter(|info| info.name.starts_with("past_key_values"))
        .map(|info| {
            let present = info.name.replace("past_key_values", "present");
            (info.name.to_string(), present)
        })
        .collect();
    let pairs = pairs.iter().map(|(past, present)| (&**past, &**present));
    let request = BindRequest::pairs(pairs).with_uses(BindingUses::Any);
    bind(&model, &request).unwrap().0
}

/// Caches of no position: one row, two heads of 16.
fn empty(model: &Model) -> Vec<(String, Tensor)> {
    let bindings = model.bindings().iter();
    bindings
        .map(|binding| {
            let input = &model.inputs()[binding.input_index];
            let shape = [1, 2, 0, 16];
            let tensor = match input.ty.tensor().unwrap().dtype {
                Some(DType::Float16) => Tensor::from_slice::<half::f16>(&shape, &[]),
                _ => Tensor::from_slice::<f32>(&shape, &[]),
            };
            (input.name.to_string(), tensor.unwrap())
        })
        .collect()
}

/// What is fed at each step: a token, a mask of all positions so far, the position.
fn feeds(state: &PersistentValueState) -> Vec<Vec<(usize, RuntimeValue)>> {
    let one_step = |step: usize| {
        let token = (step * 37 % 499) as i64;
        let given: [(&str, Vec<i64>); 3] = [
            ("input_ids", vec![token]),
            ("attention_mask", vec![1; step + 1]),
            ("position_ids", vec![step as i64]),
        ];
        let given = given.into_iter().filter_map(|(name, numbers)| {
            let position = state.input_position(name)?;
            let tensor = Tensor::from_slice(&[1, numbers.len()], &numbers).unwrap();
            Some((position, tensor.into()))
        });
        given.collect()
    };
    (0..STEPS).map(one_step).collect()
}

/// Requests for memory in a hundred warm steps, while the outputs of the step before are still there.
fn requests(name: &str) -> usize {
    let model = decoder(name);
    let initial = empty(&model);
    let again = || {
        initial
            .iter()
            .map(|(name, tensor)| (&**name, tensor.clone()))
    };
    let options = RuntimeSessionOptions {
        max_length: Some(STEPS),
        ..RuntimeSessionOptions::default()
    };
    let state = PersistentValueState::new(model.clone(), again(), options).unwrap();
    let feeds = feeds(&state);
    let context = RuntimeContext::default();
    let run = |feeds: &[(usize, RuntimeValue)]| {
        state
            .run_positions(&context, feeds, RunControl::default())
            .unwrap()
    };
    // A life of the same length before: sizes that follow the length of the cache have been seen.
    for feeds in &feeds {
        run(feeds);
    }
    state.reset(again()).unwrap();
    let mut before = 0;
    let mut last = None;
    for (step, feeds) in feeds.iter().enumerate() {
        if step == WARM {
            before = requests_of_all();
        }
        last = Some(run(feeds));
    }
    let requests = requests_of_all() - before;
    let last = last.unwrap();
    assert_eq!(last["logits"].shape()[..2], [1, 1]);
    assert_eq!(last.values()[1].tensor().unwrap().shape()[2], STEPS);
    requests
}

#[test]
fn warm_steps_of_decoders_allocate_nothing() {
    let counts = DECODERS.map(|name| (name, requests(name)));
    assert_eq!(counts, DECODERS.map(|name| (name, 0)));
}
