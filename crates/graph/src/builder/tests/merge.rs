use super::*;
use crate::builder::BuildError;
use refeed_proto::{
    Bytes, OperatorSetIdProto, StructTypeProto, TensorProto, TrainingInfoProto, struct_type_proto,
};
use std::fs;

fn scaled() -> ModelProto {
    let mut root = graph(
        "x",
        vec![node("Mul", "x w", "m"), node("Neg", "m", "y")],
        "y",
    );
    root.initializer.push(floats("w", &[3], &[1.0, 2.0, 3.0]));
    model(root)
}

#[test]
fn outputs_become_inputs() {
    let first = of(
        "a b",
        vec![node("Add", "a b", "c"), node("Neg", "a", "d")],
        "c d",
    );
    let mut merged = first;
    let other = imported(scaled());
    let address = other.graph().initializer[0]
        .raw_data
        .as_ref()
        .unwrap()
        .as_ptr();
    merged.merge(other, &[("c", "x")], "second_").unwrap();
    let graph = merged.graph();
    assert_eq!(
        listing(graph),
        "Add(a, b) -> c; Neg(a) -> d; Mul(c, second_w) -> second_m; Neg(second_m) -> second_y"
    );
    assert_eq!(
        (names(&graph.input), names(&graph.output)),
        ("a b".into(), "d second_y".into())
    );
    assert_eq!(names(&graph.value_info), "c");
    assert_eq!(
        graph.initializer[0].raw_data.as_ref().unwrap().as_ptr(),
        address
    );
    merged.to_model().unwrap();
}

#[test]
fn names_that_clash_are_listed() {
    let mut merged = imported(scaled());
    let before = merged.proto().clone();
    let refused = merged
        .merge(imported(scaled()), &[("y", "x")], "")
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "the models share names of values: `m`, `w`, `y`; give a prefix"
    );
    assert_eq!(merged.proto(), &before);
    // The mapped input may have the name of the output, or of another value.
    let neg = || of("y", vec![node("Neg", "y", "z")], "z");
    merged.merge(neg(), &[("y", "y")], "").unwrap();
    assert_eq!(
        listing(merged.graph()),
        "Mul(x, w) -> m; Neg(m) -> y; Neg(y) -> z"
    );
    let neg = of("m", vec![node("Neg", "m", "last")], "last");
    merged.merge(neg, &[("z", "m")], "").unwrap();
    assert_eq!(
        listing(merged.graph()),
        "Mul(x, w) -> m; Neg(m) -> y; Neg(y) -> z; Neg(z) -> last"
    );
    assert_eq!(names(&merged.graph().output), "last");
    merged.to_model().unwrap();
}

#[test]
fn nested_graphs_and_functions_get_the_prefix() {
    let branch = |value: &str| graph("", vec![call("mine", "Twice", "x", value)], value);
    let mut proto = model(graph(
        "x cond",
        vec![branches(branch("t"), branch("e"), "y")],
        "y",
    ));
    proto.functions = vec![
        function("Twice", "a", vec![call("mine", "Once", "a", "b")], "b"),
        function("Once", "a", vec![node("Add", "a a", "b")], "b"),
    ];
    let mut merged = imported(proto.clone());
    merged.merge(imported(proto), &[("y", "x")], "p.").unwrap();
    let functions: Vec<&str> = merged.proto().functions.iter().map(|f| f.name()).collect();
    assert_eq!(functions, ["Twice", "Once", "p.Twice", "p.Once"]);
    assert_eq!(merged.proto().functions[2].node[0].op_type(), "p.Once");
    let inner = merged.graph().node[1].attribute[0].g.as_deref().unwrap();
    assert_eq!(listing(inner), "p.Twice(y) -> p.t");
    assert_eq!(names(&merged.graph().input), "x cond p.cond");
    merged.to_model().unwrap();
}

#[test]
fn bindings_add_up() {
    let mut proto = accumulate();
    proto
        .graph
        .as_mut()
        .unwrap()
        .metadata_props
        .push(entry("refeed.publish:past", "once"));
    let mut merged = imported(proto.clone());
    merged
        .merge(imported(proto), &[("present", "delta")], "b_")
        .unwrap();
    assert_eq!(
        merged.persistent_bindings(),
        [binding("past", "present"), binding("b_past", "b_present")]
    );
    // A bound output stays an output although it is mapped.
    assert_eq!(names(&merged.graph().output), "present b_present");
    let model = merged.to_model().unwrap();
    assert_eq!(model.bindings()[1].publish.as_str(), "once");
    // A bound input cannot be fed otherwise.
    let refused = merged
        .merge(imported(accumulate()), &[("present", "past")], "c_")
        .unwrap_err();
    assert!(matches!(
        refused,
        BuildError::BindingCut { lost: "input", .. }
    ));
}

#[test]
fn an_input_that_is_passed_on_keeps_its_name() {
    let mut merged = of("a", vec![node("Neg", "a", "b")], "b");
    merged
        .merge(
            of("x", vec![node("Exp", "x", "y")], "x y"),
            &[("b", "x")],
            "",
        )
        .unwrap();
    assert_eq!(
        listing(merged.graph()),
        "Neg(a) -> b; Identity(b) -> x; Exp(x) -> y"
    );
    assert_eq!(names(&merged.graph().output), "x y");
    merged.to_model().unwrap();
    // Without another name for it, it is the same value.
    let mut merged = of("a", vec![node("Neg", "a", "x")], "x");
    merged
        .merge(
            of("x", vec![node("Exp", "x", "y")], "x y"),
            &[("x", "x")],
            "",
        )
        .unwrap();
    assert_eq!(listing(merged.graph()), "Neg(a) -> x; Exp(x) -> y");
    assert_eq!(names(&merged.graph().output), "x y");
    merged.to_model().unwrap();
}

#[test]
fn models_must_agree() {
    let refused = |first: ModelProto, second: ModelProto| {
        imported(first)
            .merge(imported(second), &[("y", "x")], "p_")
            .unwrap_err()
            .to_string()
    };
    let mut other = scaled();
    other.opset_import[0].version = Some(17);
    assert_eq!(
        refused(scaled(), other),
        "the models disagree about the version of domain `ai.onnx`: 18 and 17"
    );
    let (mut first, mut other) = (scaled(), scaled());
    first.metadata_props.push(entry("author", "one"));
    other.metadata_props.push(entry("author", "two"));
    assert_eq!(
        refused(first, other),
        "the models disagree about metadata `author`: `one` and `two`"
    );
    let declared = |dimension: u64| StructTypeProto {
        type_id: Some(7),
        name: Some(format!("of {dimension}")),
        kind: Some(struct_type_proto::Kind::Array(Box::new(
            struct_type_proto::Array {
                element_type: Some(Box::new(tensor_type(2, "4"))),
                dimension: Some(dimension),
            },
        ))),
        ..StructTypeProto::default()
    };
    let (mut first, mut other) = (scaled(), scaled());
    first.struct_types.push(declared(3));
    other.struct_types.push(declared(5));
    assert_eq!(
        refused(first.clone(), other),
        "the models disagree about struct type 7: `of 3` and `of 5`"
    );
    let mut other = scaled();
    other.training_info.push(TrainingInfoProto::default());
    assert!(refused(scaled(), other).contains("training steps"));
    // What they agree about is there once.
    let mut merged = imported(first.clone());
    first.opset_import.push(OperatorSetIdProto {
        domain: Some("more".to_string()),
        version: Some(2),
    });
    merged.merge(imported(first), &[("y", "x")], "p_").unwrap();
    assert_eq!(merged.struct_types().len(), 1);
    assert_eq!(
        (merged.opset("more"), merged.proto().opset_import.len()),
        (Some(2), 3)
    );
}

#[test]
fn a_bad_map_is_refused() {
    let mut merged = imported(scaled());
    let mut text = |io_map: &[(&str, &str)]| {
        merged
            .merge(imported(scaled()), io_map, "p_")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        text(&[("nowhere", "x")]),
        "the graph has no value `nowhere`"
    );
    assert_eq!(text(&[("y", "w")]), "the graph has no input `p_w`");
    assert_eq!(
        text(&[("y", "x"), ("m", "x")]),
        "mapped input `p_x` is given more than once"
    );
    let mut other = scaled();
    other.graph.as_mut().unwrap().input[0] = value("x", tensor_type(INT64, "rows 3"));
    let mut merged = imported(scaled());
    let refused = merged
        .merge(imported(other), &[("y", "x")], "p_")
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("value `y` cannot be input `p_x`:"),
        "{refused}"
    );
}

#[test]
fn tensors_in_files_become_payloads() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("w.bin"),
        [1.5f32, 2.5, 3.5].map(f32::to_le_bytes).concat(),
    )
    .unwrap();
    let mut proto = scaled();
    proto.graph.as_mut().unwrap().initializer[0] = TensorProto {
        name: Some("w".to_string()),
        data_type: Some(FLOAT),
        dims: vec![3],
        data_location: Some(1),
        external_data: vec![entry("location", "w.bin")],
        ..TensorProto::default()
    };
    let options = LoadOptions::default().with_external_base(folder.path());
    let other = GraphBuilder::from_proto(proto, &options).unwrap();
    let mut merged = imported(scaled());
    merged.merge(other.clone(), &[("y", "x")], "p_").unwrap();
    let model = merged.to_model().unwrap();
    let tensor = &model.graph().initializer[1];
    assert!(!tensor.is_external() && tensor.external_data.is_empty());
    let expected = Bytes::from([1.5f32, 2.5, 3.5].map(f32::to_le_bytes).concat());
    assert_eq!(tensor.raw_data.as_ref(), Some(&expected));
    // So do those of a model that is exported as a message.
    let exported = other.to_onnx().unwrap().graph.unwrap();
    assert_eq!(exported.initializer[0].raw_data.as_ref(), Some(&expected));
    // One model's own files stay where they are.
    let mut merged = other.clone();
    merged.merge(other, &[("y", "x")], "p_").unwrap();
    assert!(merged.to_model().unwrap().graph().initializer[1].is_external());
}
