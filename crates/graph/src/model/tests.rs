use crate::testing::*;
use crate::{LoadOptions, Model, ModelError};
use refeed_proto::{Bytes, Message, TensorProto};
use refeed_values::Provenance;

fn with_weights(tensors: Vec<TensorProto>) -> Model {
    let mut graph = graph("x", vec![node("Neg", "x", "y")], "y");
    graph.initializer = tensors;
    Model::from_proto(model(graph), &LoadOptions::default()).unwrap()
}

/// A FLOAT tensor whose payload starts `shift` bytes past an aligned address.
fn shifted(name: &str, values: &[f32], shift: usize) -> TensorProto {
    let raw: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let mut memory = vec![0u8; raw.len() + 128];
    let start = memory.as_ptr().align_offset(64) + shift;
    memory[start..start + raw.len()].copy_from_slice(&raw);
    let payload = Bytes::from(memory).slice(start..start + raw.len());
    TensorProto {
        raw_data: Some(payload),
        ..floats(name, &[values.len() as i64], values)
    }
}

#[test]
fn aligned_payloads_are_shared() {
    let model = with_weights(vec![shifted("w", &[1.5, -2.0, 3.25], 0)]);
    let proto = &model.graph().initializer[0];
    let tensor = model.initializer(proto).unwrap();
    assert_eq!(tensor.as_ptr(), proto.raw_data.as_ref().unwrap().as_ptr());
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.5, -2.0, 3.25]);
    assert_eq!(
        (tensor.provenance(), model.moved_payloads()),
        (Provenance::Model, 0)
    );
}

#[test]
fn misaligned_payloads_are_moved_once() {
    let model = with_weights(vec![
        shifted("w", &[1.5, -2.0, 3.25], 1),
        shifted("v", &[4.0, 5.0], 3),
    ]);
    let [w, v] = model.graph().initializer.as_slice() else {
        panic!("two weights")
    };
    let first = model.initializer(w).unwrap();
    assert_eq!(first.view::<f32>().unwrap().to_vec(), [1.5, -2.0, 3.25]);
    assert!(first.is_aligned());
    assert_eq!(
        (first.provenance(), model.moved_payloads()),
        (Provenance::Model, 1)
    );
    let second = model.clone().initializer(w).unwrap();
    assert_eq!(
        (second.as_ptr(), model.moved_payloads()),
        (first.as_ptr(), 1)
    );
    assert_eq!(
        model
            .initializer(v)
            .unwrap()
            .view::<f32>()
            .unwrap()
            .to_vec(),
        [4.0, 5.0]
    );
    assert_eq!(model.moved_payloads(), 2);
}

#[test]
fn typed_fields_scalars_and_empty_tensors_become_tensors() {
    let typed = TensorProto {
        raw_data: None,
        float_data: vec![7.0, 8.0],
        ..floats("t", &[2, 1], &[])
    };
    let scalar = TensorProto {
        data_type: Some(INT64),
        int64_data: vec![-9],
        name: Some("s".into()),
        ..Default::default()
    };
    let empty = TensorProto {
        raw_data: None,
        ..floats("e", &[0, 4], &[])
    };
    let model = with_weights(vec![typed, scalar, empty]);
    let tensors: Vec<_> = model
        .graph()
        .initializer
        .iter()
        .map(|proto| model.initializer(proto).unwrap())
        .collect();
    assert_eq!(
        (
            tensors[0].shape(),
            tensors[0].view::<f32>().unwrap().to_vec()
        ),
        (&[2, 1][..], vec![7.0, 8.0])
    );
    assert_eq!(
        (
            tensors[1].rank(),
            tensors[1].view::<i64>().unwrap().to_vec()
        ),
        (0, vec![-9])
    );
    assert_eq!(
        (tensors[2].shape(), tensors[2].elements()),
        (&[0, 4][..], 0)
    );
    assert_eq!(model.moved_payloads(), 0);
}

#[test]
fn clones_and_messages_share_and_never_change_the_model() {
    let model = with_weights(vec![floats("w", &[2], &[1.0, 2.0])]);
    assert!(model.same(&model.clone()));
    let mut proto = model.proto().clone();
    let at = |tensor: &TensorProto| tensor.raw_data.as_ref().unwrap().as_ptr();
    assert_eq!(
        at(&proto.graph.as_ref().unwrap().initializer[0]),
        at(&model.graph().initializer[0])
    );
    proto.graph.as_mut().unwrap().input.clear();
    assert_eq!(model.inputs().len(), 1);
    assert_eq!(
        model.inputs()[0].ty.to_string(),
        "FLOAT[rows, 3]".replace("FLOAT", &refeed_values::DType::Float.to_string())
    );
}

#[test]
fn operator_sets_are_found_by_both_names_of_the_default_domain() {
    let model = with_weights(vec![]);
    assert_eq!(
        (model.opset(""), model.opset("ai.onnx"), model.opset("mine")),
        (Some(18), Some(18), Some(1))
    );
    assert_eq!(model.opset("other"), None);
    assert_eq!(model.opsets().collect::<Vec<_>>(), [("", 18), ("mine", 1)]);
}

#[test]
fn m1_prefixes_and_flips_are_models_or_errors() {
    let mut proto = accumulate();
    proto
        .graph
        .as_mut()
        .unwrap()
        .initializer
        .push(floats("w", &[2, 3], &[0.5; 6]));
    let branch = |out: &str| graph("", vec![node("Neg", "past", out)], out);
    proto
        .graph
        .as_mut()
        .unwrap()
        .node
        .push(branches(branch("a"), branch("b"), "u"));
    proto
        .functions
        .push(function("f", "x", vec![node("Neg", "x", "y")], "y"));
    let wire = proto.encode_to_vec();
    let try_load =
        |bytes: Vec<u8>| Model::from_bytes(Bytes::from(bytes), &LoadOptions::default()).map(drop);
    for end in 0..wire.len() {
        let _ = try_load(wire[..end].to_vec());
    }
    let mut refused = 0;
    for at in 0..wire.len() {
        for mask in [0x01, 0x08, 0x40, 0x80, 0xFF] {
            let mut bytes = wire.clone();
            bytes[at] ^= mask;
            refused += usize::from(try_load(bytes).is_err());
        }
    }
    assert!(
        refused > wire.len(),
        "most flips are errors: {refused} of {}",
        wire.len() * 5
    );
    assert!(matches!(
        try_load(b"\xFF".to_vec()),
        Err(ModelError::Load(_))
    ));
}
