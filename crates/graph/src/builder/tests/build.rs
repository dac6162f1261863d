use super::*;
use crate::builder::{BuildError, NEWEST_OPSET, Output};
use crate::validate::NESTING_LIMIT;
use refeed_proto::{StructTypeProto, TensorProto, TypeProto, struct_type_proto};

#[test]
fn a_model_from_nothing() {
    let mut builder = GraphBuilder::new("running");
    builder.make_input("past", float()).unwrap();
    builder.make_input("delta", float()).unwrap();
    let weight = builder
        .make_initializer(floats("", &[3], &[1.0, 2.0, 4.0]))
        .unwrap();
    let sum = builder
        .make_node(NewNode::new("Add").inputs(["past", "delta"]))
        .unwrap();
    let scaled = NewNode::new("Mul")
        .inputs([sum[0].as_str(), &weight])
        .output("present");
    assert_eq!(builder.make_node(scaled).unwrap(), ["present"]);
    builder.make_output("present", float()).unwrap();
    builder.make_persistent_binding(binding("past", "present"));

    let model = builder.to_model().unwrap();
    assert_eq!(
        listing(model.graph()),
        "Add(past, delta) -> Add; Mul(Add, initializer) -> present"
    );
    assert_eq!(model.opset(""), Some(NEWEST_OPSET));
    assert_eq!(model.proto().ir_version, Some(14));
    assert_eq!(model.bindings()[0].output.as_ref(), "present");
    assert_eq!(names(&model.graph().input), "past delta");
    // The builder can go on after an export.
    builder
        .make_node(NewNode::new("Neg").inputs(["present"]).output("negative"))
        .unwrap();
    builder.make_output("negative", float()).unwrap();
    assert_eq!(builder.to_model().unwrap().graph().node.len(), 3);
}

#[test]
fn versions_that_are_stated_stay() {
    let mut builder = GraphBuilder::new("g");
    builder.make_input("x", float()).unwrap();
    builder
        .make_node(NewNode::new("Neg").inputs(["x"]).output("y"))
        .unwrap();
    builder.make_output("y", float()).unwrap();
    for (opset, ir_version) in [
        (8, 3),
        (13, 7),
        (18, 8),
        (21, 10),
        (23, 11),
        (27, 13),
        (28, 14),
    ] {
        builder.set_opset("ai.onnx", opset).unwrap();
        let model = builder.to_model().unwrap();
        assert_eq!(
            (model.opset(""), model.proto().ir_version),
            (Some(opset), Some(ir_version))
        );
        assert_eq!(model.proto().opset_import.len(), 1);
    }
    builder.set_ir_version(9).unwrap();
    builder.set_opset("mine", 2).unwrap();
    let model = builder.to_model().unwrap();
    assert_eq!(
        (model.opset("mine"), model.proto().ir_version),
        (Some(2), Some(9))
    );
    assert_eq!((builder.opset(""), builder.opset("else")), (Some(28), None));
    assert_eq!(
        builder.set_opset("", 0).unwrap_err().to_string(),
        "opset version of domain `ai.onnx`: expected 1 or more, got 0"
    );
    assert_eq!(
        builder.set_ir_version(15).unwrap_err().to_string(),
        "IR version: expected 1 to 14, got 15"
    );
}

#[test]
fn a_domain_without_a_version_is_named_at_export() {
    let mut builder = GraphBuilder::new("g");
    builder.make_input("x", float()).unwrap();
    builder
        .make_node(
            NewNode::new("Mine")
                .domain("mine")
                .inputs(["x"])
                .output("y"),
        )
        .unwrap();
    builder.make_output("y", float()).unwrap();
    builder.set_opset("", 18).unwrap();
    let refused = builder.to_model().unwrap_err().to_string();
    assert_eq!(
        refused,
        "graph.node[0] (mine::Mine): domain `mine` is not imported; imported: ai.onnx"
    );
}

#[test]
fn outputs_are_named_fresh_or_omitted() {
    let mut builder = of("x", vec![node("Neg", "x", "TopK")], "TopK");
    let new = NewNode::new("Split").inputs(["x"]).fresh_outputs(2);
    assert_eq!(builder.make_node(new).unwrap(), ["Split", "Split_1"]);
    // As many as the operator must have, or the function has.
    let new = NewNode::new("TopK").inputs(["x", "x"]);
    assert_eq!(builder.make_node(new).unwrap(), ["TopK_1", "TopK_2"]);
    builder
        .make_function(function(
            "Three",
            "a",
            vec![node("Split", "a", "p q r")],
            "p q r",
        ))
        .unwrap();
    let new = NewNode::new("Three").domain("mine").inputs(["x"]);
    assert_eq!(
        builder.make_node(new).unwrap(),
        ["Three", "Three_1", "Three_2"]
    );
    let new = NewNode::new("Dropout").inputs(["x"]).outputs([
        Output::Named("kept".to_string()),
        Output::Omitted,
        Output::Fresh,
    ]);
    assert_eq!(builder.make_node(new).unwrap(), ["kept", "", "Dropout"]);
    assert_eq!(builder.producer("Dropout"), Some(4));
    // A name that was chosen by the caller is not handed out.
    assert_eq!(
        builder
            .make_node(NewNode::new("Abs").inputs(["x"]).output("Abs"))
            .unwrap(),
        ["Abs"]
    );
    assert_eq!(
        builder
            .make_node(NewNode::new("Abs").inputs(["x"]))
            .unwrap(),
        ["Abs_1"]
    );
    assert_eq!(builder.fresh_name("Abs"), "Abs_2");
    assert!(builder.has_name("Abs_2") && !builder.has_value("Abs_2"));
}

#[test]
fn fresh_names_avoid_those_of_nested_graphs() {
    let inner = |value: &str| graph("", vec![node("Neg", "x", value)], value);
    let mut builder = of("x cond", vec![branches(inner("Add"), inner("b"), "y")], "y");
    let node = NewNode::new("Add").inputs(["x", "y"]);
    assert_eq!(builder.make_node(node).unwrap(), ["Add_1"]);
    let node = NewNode::new("If")
        .inputs(["cond"])
        .graph("then_branch", inner("Sub"))
        .graph("else_branch", inner("If"));
    assert_eq!(builder.make_node(node).unwrap(), ["If_1"]);
    assert_eq!(
        builder
            .make_node(NewNode::new("Sub").inputs(["x", "y"]))
            .unwrap(),
        ["Sub_1"]
    );
}

#[test]
fn what_is_not_there_cannot_be_read() {
    let mut builder = of("x cond", vec![node("Neg", "x", "y")], "y");
    let refused = |error: BuildError| error.to_string();
    let missing = builder
        .make_node(NewNode::new("Add").inputs(["x", "z"]))
        .unwrap_err();
    assert_eq!(
        refused(missing),
        "node 1 (Add): value `z` is defined nowhere in the root graph; make it first"
    );
    let inner = graph("", vec![node("Neg", "far", "i")], "i");
    let missing = builder
        .make_node(
            NewNode::new("If")
                .inputs(["cond"])
                .graph("then_branch", inner),
        )
        .unwrap_err();
    assert!(refused(missing).contains("value `far`"));
    assert!(matches!(
        builder.make_node(NewNode::new("Abs").inputs(["x"]).output("y")).unwrap_err(),
        BuildError::NameTaken { name, by, .. } if name == "y" && by == "node 0 (Neg)"
    ));
    assert!(matches!(
        builder.make_node(NewNode::new("TopK").inputs(["x", "x"]).outputs(["a", "a"])).unwrap_err(),
        BuildError::Duplicate { name, .. } if name == "a"
    ));
    assert!(matches!(
        builder.make_node(NewNode::new("")).unwrap_err(),
        BuildError::Unnamed { .. }
    ));
    assert!(matches!(
        builder.make_output("z", float()).unwrap_err(),
        BuildError::Undefined { .. }
    ));
    assert!(matches!(
        builder.make_output("y", float()).unwrap_err(),
        BuildError::Duplicate { .. }
    ));
    assert!(matches!(
        builder.make_input("x", float()).unwrap_err(),
        BuildError::Duplicate { .. }
    ));
    assert!(matches!(
        builder.make_input("y", float()).unwrap_err(),
        BuildError::NameTaken { .. }
    ));
    // Nothing of all that is left behind.
    assert_eq!(listing(builder.graph()), "Neg(x) -> y");
    assert!(!builder.has_name("a") && !builder.has_name("i"));
    builder.to_model().unwrap();
}

#[test]
fn graphs_nested_too_deep_are_refused() {
    let mut inner = graph("", vec![node("Neg", "x", "v0")], "v0");
    for level in 1..=NESTING_LIMIT {
        let name = format!("v{level}");
        let node = NewNode::new("If")
            .inputs(["c"])
            .graph("then_branch", inner)
            .node;
        inner = graph(
            "",
            vec![NodeProto {
                output: vec![name.clone()],
                ..node
            }],
            &name,
        );
    }
    let mut builder = of("x c", vec![], "x");
    let node = NewNode::new("If").inputs(["c"]).graph("then_branch", inner);
    let refused = builder.make_node(node).unwrap_err().to_string();
    assert!(
        refused.contains("nested graphs: expected at most 64, got 65"),
        "{refused}"
    );
}

#[test]
fn initializers_of_every_kind() {
    let mut builder = of("x", vec![], "x");
    let shared = floats("w", &[3], &[1.0, 2.0, 3.0]);
    let address = shared.raw_data.as_ref().unwrap().as_ptr();
    assert_eq!(builder.make_initializer(shared).unwrap(), "w");
    assert_eq!(
        builder.make_initializer(floats("", &[1], &[7.0])).unwrap(),
        "initializer"
    );
    // The default of an input.
    assert_eq!(
        builder
            .make_initializer(floats("x", &[2, 3], &[0.0; 6]))
            .unwrap(),
        "x"
    );
    let sparse = refeed_proto::SparseTensorProto {
        values: Some(floats("s", &[1], &[2.5])),
        indices: Some(TensorProto {
            data_type: Some(INT64),
            dims: vec![1],
            int64_data: vec![4],
            ..TensorProto::default()
        }),
        dims: vec![7],
    };
    assert_eq!(builder.make_sparse_initializer(sparse).unwrap(), "s");
    assert_eq!(
        builder
            .make_paged_cache_initializer(cache("pages"))
            .unwrap(),
        "pages"
    );
    assert_eq!(
        builder.make_paged_cache_initializer(cache("")).unwrap(),
        "paged_cache_initializer"
    );
    assert_eq!(builder.paged_cache_initializers().len(), 2);
    for name in ["w", "s", "pages", "initializer", "x"] {
        let twice = builder
            .make_initializer(floats(name, &[1], &[1.0]))
            .unwrap_err();
        assert_eq!(
            twice.to_string(),
            format!("initializer `{name}` is given more than once")
        );
    }
    let constant = builder.make_constant(floats("c", &[1], &[1.0])).unwrap();
    assert_eq!((constant.as_str(), builder.producer("c")), ("c", Some(0)));
    assert!(matches!(
        builder
            .make_initializer(floats("c", &[1], &[1.0]))
            .unwrap_err(),
        BuildError::NameTaken { .. }
    ));
    let model = builder.to_model().unwrap();
    assert_eq!(
        model.graph().initializer[0]
            .raw_data
            .as_ref()
            .unwrap()
            .as_ptr(),
        address
    );
    assert_eq!(model.graph().paged_cache_initializer[0], cache("pages"));
}

#[test]
fn types_of_outputs_are_found() {
    let mut builder = of(
        "x",
        vec![
            node("Identity", "x", "y"),
            node("Identity", "y", "z"),
            node("Neg", "z", "n"),
        ],
        "x",
    );
    builder
        .make_initializer(floats("w", &[2, 5], &[0.0; 10]))
        .unwrap();
    builder
        .make_paged_cache_initializer(cache("pages"))
        .unwrap();
    for name in ["z", "w", "pages"] {
        builder
            .make_output_info(refeed_proto::ValueInfoProto {
                name: Some(name.to_string()),
                ..Default::default()
            })
            .unwrap();
    }
    let output = |builder: &GraphBuilder, name: &str| {
        let model = builder.to_model().unwrap();
        let found = model
            .graph()
            .output
            .iter()
            .find(|info| info.name() == name)
            .cloned();
        found.unwrap().r#type.unwrap()
    };
    assert_eq!(output(&builder, "z"), float());
    assert_eq!(output(&builder, "w"), tensor_type(FLOAT, "2 5"));
    assert_eq!(output(&builder, "pages"), category());
    // What no declaration says, operators do.
    assert_eq!(builder.value_type("n"), None::<TypeProto>);
    let untyped = |name: &str| refeed_proto::ValueInfoProto {
        name: Some(name.to_string()),
        ..Default::default()
    };
    builder.make_output_info(untyped("n")).unwrap();
    assert_eq!(output(&builder, "n"), float());
    builder
        .make_node(
            NewNode::new("Unheard")
                .domain("mine")
                .inputs(["x"])
                .output("u"),
        )
        .unwrap();
    builder.make_output_info(untyped("u")).unwrap();
    assert_eq!(
        builder.to_model().unwrap_err().to_string(),
        "graph output `u`: expected a type, got none, and none can be inferred; give it"
    );
}

#[test]
fn struct_types_and_functions() {
    let mut builder = of("x", vec![], "x");
    let declared = StructTypeProto {
        type_id: Some(7),
        kind: Some(struct_type_proto::Kind::Array(Box::new(
            struct_type_proto::Array {
                element_type: Some(Box::new(tensor_type(2, "4"))),
                dimension: Some(3),
            },
        ))),
        ..StructTypeProto::default()
    };
    assert_eq!(builder.make_struct_type(declared.clone()).unwrap(), 7);
    assert!(matches!(
        builder.make_struct_type(declared).unwrap_err(),
        BuildError::Duplicate {
            what: "struct type",
            ..
        }
    ));
    assert!(
        builder
            .make_struct_type(StructTypeProto::default())
            .is_err()
    );
    let twice = function("Twice", "a", vec![node("Add", "a a", "b")], "b");
    builder.make_function(twice.clone()).unwrap();
    assert_eq!(
        builder.make_function(twice).unwrap_err().to_string(),
        "function `mine::Twice` is given more than once"
    );
    builder
        .make_node(
            NewNode::new("Twice")
                .domain("mine")
                .inputs(["x"])
                .output("y"),
        )
        .unwrap();
    builder.make_output("y", float()).unwrap();
    let model = builder.to_model().unwrap();
    assert_eq!(
        (
            model.proto().struct_types.len(),
            model.proto().functions.len()
        ),
        (1, 1)
    );
}

#[test]
fn inputs_and_outputs_can_go() {
    let mut builder = of("x unused", vec![node("Neg", "x", "y")], "y");
    assert_eq!(builder.remove_input("unused").unwrap().name(), "unused");
    assert!(matches!(
        builder.remove_input("x").unwrap_err(),
        BuildError::StillUsed { reader, .. } if reader == "graph.node[0] (Neg).input[0]"
    ));
    builder
        .make_initializer(floats("x", &[1, 3], &[1.0; 3]))
        .unwrap();
    builder.remove_input("x").unwrap();
    assert!(builder.has_value("x"));
    builder.remove_output("y").unwrap();
    assert!(builder.remove_output("y").is_err() && builder.remove_input("y").is_err());
    assert!(builder.graph().input.is_empty() && builder.graph().output.is_empty());
}

#[test]
fn a_fresh_name_takes_one_trial_however_many_there_are() {
    let mut builder = GraphBuilder::new("chain");
    builder.make_input("x", float()).unwrap();
    let mut last = "x".to_string();
    for _ in 0..2_000 {
        let outputs = builder.make_node(NewNode::new("Neg").inputs([last]));
        last = outputs.unwrap().remove(0);
    }
    assert_eq!(last, "Neg_1999");
    assert_eq!(builder.names.trials("Neg"), 2_000);
    // A name that is in the way costs one more, once.
    builder
        .make_node(NewNode::new("Abs").inputs(["x"]).output("Neg_2000"))
        .unwrap();
    builder
        .make_node(NewNode::new("Neg").inputs(["x"]))
        .unwrap();
    builder
        .make_node(NewNode::new("Neg").inputs(["x"]))
        .unwrap();
    assert_eq!(builder.names.trials("Neg"), 2_003);
    builder.make_output(&last, float()).unwrap();
    assert_eq!(builder.to_model().unwrap().graph().node.len(), 2_003);
}
