//! Paged attention of a state through the Rust API: the kernel's registration, and a closure that chooses formats.

use refeed_graph::{LoadOptions, Model};
use refeed_proto::{PersistentBindingProto, TypeProto, type_proto::Value};
use refeed_runtime::paged_attention::{Format, Formats, PagedAttention};
use refeed_runtime::{PersistentValueState, RuntimeContext, RuntimeSessionOptions};
use refeed_values::paged_cache::{blocks, page};
use refeed_values::{DType, RuntimeValue, Tensor};
use std::sync::{Arc, Mutex};

/// `Y, present = PagedAttention(Q, K, V, past)`, bound.
fn model() -> Model {
    let text = r#"<ir_version: 10, opset_import: ["" : 18, "ai.rt" : 1]>
        decode (float[1, 2, n, 4] Q, float[1, 2, n, 4] K, float[1, 2, n, 4] V, float past)
            => (float[1, 2, n, 4] Y, float present)
        { Y, present = ai.rt.PagedAttention(Q, K, V, past) }"#;
    let mut proto = refeed_graph::parser::parse_model(text).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    let cache = TypeProto {
        value: Some(Value::StructType(Box::default())),
        ..TypeProto::default()
    };
    graph.input[3].r#type = Some(cache.clone());
    graph.output[1].r#type = Some(cache);
    graph.persistent_bindings.push(PersistentBindingProto {
        input_name: Some("past".to_string()),
        output_name: Some("present".to_string()),
        ..PersistentBindingProto::default()
    });
    Model::from_proto(proto, &LoadOptions::default()).unwrap()
}

fn feeds(length: usize, seed: usize) -> [(&'static str, RuntimeValue); 3] {
    let numbers: Vec<f32> = (0..8 * length)
        .map(|i| ((i * 29 + seed * 17) % 97) as f32 / 48.0 - 1.0)
        .collect();
    ["Q", "K", "V"].map(|name| {
        let tensor = Tensor::from_slice(&[1, 2, length, 4], &numbers).unwrap();
        (name, tensor.into())
    })
}

fn state() -> PersistentValueState {
    let initial = [("past", PagedAttention::empty_cache().unwrap())];
    PersistentValueState::new(model(), initial, RuntimeSessionOptions::default()).unwrap()
}

/// Rules 6.1.7, 6.3.3; S200, S201.
#[test]
fn a_factory_of_a_context_makes_the_kernel_and_a_closure_chooses_formats() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let select = move |key: &Tensor, value: &Tensor, retained: usize| {
        let lengths = (key.shape()[2], value.shape()[2], retained);
        seen.lock().unwrap().push(lengths);
        Ok(match retained < 1024 {
            true => Formats::default(),
            false => Formats {
                key: Format::affine(DType::Int8, 0.01, 0),
                value: Format::affine(DType::Uint4, 0.25, 8),
            },
        })
    };
    let (own, other) = (RuntimeContext::default(), RuntimeContext::default());
    PagedAttention::with_selector(select)
        .register_in(&own)
        .unwrap();
    let state = state();
    let lengths = [1000, 24, 1, 5];
    for (seed, length) in lengths.into_iter().enumerate() {
        state.run(&own, feeds(length, seed)).unwrap();
    }
    let refused = state.run(&other, feeds(1, 9)).unwrap_err();
    assert!(refused.to_string().contains("PagedAttention"), "{refused}");
    assert_eq!(
        *told.lock().unwrap(),
        [(1000, 1000, 0), (24, 24, 1000), (1, 1, 1024), (5, 5, 1025)]
    );
    let values = state.values().unwrap();
    let mut pages = 0;
    for held in blocks(&values[0].1).unwrap().iter() {
        let held = page(held).unwrap();
        pages += 1;
        match held.start < 1024 {
            true => assert_eq!(held.key.tensor().unwrap().dtype(), DType::Float),
            false => {
                let storage = |payload: &RuntimeValue| {
                    payload.encoded().unwrap().affine_layout().unwrap().storage
                };
                assert_eq!(storage(held.key), DType::Int8);
                assert_eq!(storage(held.value), DType::Uint4);
            }
        }
    }
    // 62 full pages and one of 8, one of 16 and one of 8, one, one.
    assert_eq!(pages, 63 + 2 + 1 + 1);
}
