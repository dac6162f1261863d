//! What a step of a long sequence costs: nodes looked at, not time.

use super::super::PersistentValueState;
use crate::{RuntimeContext, RuntimeSessionOptions};
use refeed_graph::types::{TensorType, ValueType};
use refeed_graph::{LoadOptions, Model};
use refeed_proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, PersistentBindingProto, ValueInfoProto,
};
use refeed_values::{DType, RuntimeSequence, RuntimeValue, Tensor};

fn frames() -> Model {
    let element = ValueType::from(TensorType::concrete(DType::Float, &[2]));
    let info = |name: &str, ty: &ValueType| ValueInfoProto {
        name: Some(name.to_string()),
        r#type: Some(ty.to_proto()),
        ..Default::default()
    };
    let frames = ValueType::sequence_of(element.clone());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    let graph = GraphProto {
        name: Some("frames".to_string()),
        input: vec![info("past", &frames), info("frame", &element)],
        output: vec![info("present", &frames)],
        node: vec![NodeProto {
            op_type: Some("SequenceInsert".to_string()),
            input: names(&["past", "frame"]),
            output: names(&["present"]),
            ..Default::default()
        }],
        persistent_bindings: vec![PersistentBindingProto {
            input_name: Some("past".to_string()),
            output_name: Some("present".to_string()),
            ..Default::default()
        }],
        ..Default::default()
    };
    let proto = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto {
            version: Some(20),
            ..Default::default()
        }],
        graph: Some(graph),
        ..Default::default()
    };
    Model::from_proto(proto, &LoadOptions::default()).unwrap()
}

#[test]
fn a_step_of_a_long_sequence_looks_at_new_nodes_only() {
    let frame = |n: f32| RuntimeValue::from(Tensor::from_slice(&[2], &[n, n]).unwrap());
    let past = RuntimeSequence::from_values((0..10_000).map(|n| frame(n as f32))).unwrap();
    let options = RuntimeSessionOptions::default();
    let past = [("past", RuntimeValue::from(past))];
    let state = PersistentValueState::new(frames(), past, options).unwrap();
    let known = || {
        let inner = state.take().unwrap();
        let workspace = &inner.workspace;
        workspace.table.known_nodes() + workspace.retained.known_nodes()
    };
    let context = RuntimeContext::default();
    state.run(&context, [("frame", frame(-1.0))]).unwrap();
    for step in 0..30 {
        let before = known();
        let outputs = state
            .run(&context, [("frame", frame(step as f32))])
            .unwrap();
        let present = outputs.get("present").unwrap().elements().unwrap();
        assert_eq!(present.len(), 10_002 + step);
        // As input, as output and as the next input: one path each, with the turns of the balance.
        let new = known() - before;
        assert!((3..=3 * 3 * 16).contains(&new), "{new}");
    }
}
