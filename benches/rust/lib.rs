//! Models that the benchmarks run.

use refeed_graph::{BindRequest, BindingUses, LoadOptions, Model, bind};
use refeed_proto::tensor_shape_proto::{Dimension, dimension::Value::DimValue};
use refeed_proto::type_proto::{self, Value::TensorType};
use refeed_proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto,
    ValueInfoProto,
};
use refeed_runtime::{PersistentValueState, RuntimeSessionOptions};
use refeed_values::Tensor;

/// `present = Add(delta, past)` on FLOAT[2], with `past` fed by `present`.
///
/// # Panics
/// Never: the model is valid.
pub fn accumulate() -> Model {
    let value = |name: &str| ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto {
            value: Some(TensorType(type_proto::Tensor {
                elem_type: Some(1),
                shape: Some(TensorShapeProto {
                    dim: vec![Dimension {
                        value: Some(DimValue(2)),
                        ..Default::default()
                    }],
                }),
            })),
            ..Default::default()
        }),
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("accumulate".into()),
        node: vec![NodeProto {
            op_type: Some("Add".into()),
            input: vec!["delta".into(), "past".into()],
            output: vec!["present".into()],
            ..Default::default()
        }],
        input: vec![value("delta"), value("past")],
        output: vec![value("present")],
        ..Default::default()
    };
    let opset = OperatorSetIdProto {
        domain: Some(String::new()),
        version: Some(18),
    };
    let proto = ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset],
        graph: Some(graph),
        ..Default::default()
    };
    let model = Model::from_proto(proto, &LoadOptions::default()).expect("a valid model");
    bind(&model, &BindRequest::pairs([("past", "present")]))
        .expect("a valid pair")
        .0
}

/// Empty caches of the decoder.
fn empty_caches(model: &Model) -> Vec<(String, Tensor)> {
    let cache = || Tensor::from_slice::<f32>(&[1, 2, 0, 16], &[]).expect("an empty cache");
    model
        .bindings()
        .iter()
        .map(|binding| (binding.input.to_string(), cache()))
        .collect()
}

/// Feeds of the decode step that makes the caches this long.
pub type Feeds = Box<dyn Fn(usize) -> Vec<(&'static str, Tensor)>>;

/// The shipped llama export with empty caches, and the feeds of its steps.
///
/// # Panics
/// When the repository's own model is missing.
pub fn decoder(options: &RuntimeSessionOptions) -> (PersistentValueState, Feeds) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/data/models/dynamo18_llama/model.onnx"
    );
    let model = Model::load(path, &LoadOptions::default()).expect("the shipped decoder");
    let request = BindRequest::patterns(["known"]).with_uses(BindingUses::Any);
    let (model, _) = bind(&model, &request).expect("known names");
    let caches = empty_caches(&model);
    let caches = caches
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.clone()));
    let state = PersistentValueState::new(model.clone(), caches, options.clone()).expect("a state");
    let feeds = |length: usize| {
        let row = |values: &[i64]| Tensor::from_slice(&[1, values.len()], values).expect("a row");
        vec![
            ("input_ids", row(&[(length % 500) as i64])),
            ("attention_mask", row(&vec![1; length])),
            ("position_ids", row(&[length as i64 - 1])),
        ]
    };
    (state, Box::new(feeds))
}

/// Empties the decoder's caches.
///
/// # Panics
/// Never: empty caches always fit.
pub fn rewind(state: &PersistentValueState) {
    let caches = empty_caches(state.model());
    let caches = caches
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.clone()));
    state.reset(caches).expect("empty caches fit");
}
