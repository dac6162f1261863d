use super::*;
use crate::builder::BuildError;
use refeed_proto::{
    NodeDeviceConfigurationProto, ShardingSpecProto, TensorAnnotation, TrainingInfoProto,
};

#[test]
fn a_name_changes_wherever_it_stands() {
    let mut root = graph(
        "past delta",
        vec![node("Add", "past delta", "present")],
        "present",
    );
    root.value_info.push(value("past", float()));
    root.quantization_annotation.push(TensorAnnotation {
        tensor_name: Some("past".to_string()),
        quant_parameter_tensor_names: vec![entry("SCALE_TENSOR", "scale")],
    });
    root.initializer.push(floats("scale", &[], &[2.0]));
    root.initializer.push(floats("past", &[1, 3], &[0.0; 3]));
    root.persistent_bindings.push(binding("past", "present"));
    root.metadata_props = vec![entry("refeed.publish:past", "once"), entry("past", "past")];
    root.node[0]
        .device_configurations
        .push(NodeDeviceConfigurationProto {
            sharding_spec: vec![ShardingSpecProto {
                tensor_name: Some("past".to_string()),
                ..ShardingSpecProto::default()
            }],
            ..NodeDeviceConfigurationProto::default()
        });
    let mut whole = model(root);
    let mut step = TrainingInfoProto {
        algorithm: Some(graph("", vec![node("Add", "past g", "new")], "new")),
        update_binding: vec![entry("past", "new")],
        ..TrainingInfoProto::default()
    };
    step.algorithm
        .as_mut()
        .unwrap()
        .initializer
        .push(floats("g", &[1], &[1.0]));
    whole.training_info.push(step);
    let mut builder = imported(whole);
    builder
        .rename_values([("past", "state"), ("present", "next"), ("scale", "s")])
        .unwrap();

    let graph = builder.graph();
    assert_eq!(listing(graph), "Add(state, delta) -> next");
    assert_eq!(names(&graph.input), "state delta");
    assert_eq!(names(&graph.output), "next");
    assert_eq!(names(&graph.value_info), "state");
    assert_eq!(graph.persistent_bindings, [binding("state", "next")]);
    let initializers: Vec<&str> = graph
        .initializer
        .iter()
        .map(|tensor| tensor.name())
        .collect();
    assert_eq!(initializers, ["s", "state"]);
    assert_eq!(graph.quantization_annotation[0].tensor_name(), "state");
    assert_eq!(
        graph.quantization_annotation[0].quant_parameter_tensor_names,
        [entry("SCALE_TENSOR", "s")]
    );
    assert_eq!(
        graph.metadata_props,
        [entry("refeed.publish:state", "once"), entry("past", "past")]
    );
    let placed = &graph.node[0].device_configurations[0].sharding_spec[0];
    assert_eq!(placed.tensor_name(), "state");
    let step = &builder.proto().training_info[0];
    assert_eq!(
        listing(step.algorithm.as_ref().unwrap()),
        "Add(state, g) -> new"
    );
    assert_eq!(step.update_binding, [entry("state", "new")]);
    let model = builder.to_model().unwrap();
    assert_eq!(model.bindings()[0].publish.as_str(), "once");
}

#[test]
fn all_four_kinds_of_initializers_are_renamed() {
    let mut builder = of("", vec![], "");
    for make in [
        |b: &mut GraphBuilder| b.make_initializer(floats("d", &[1], &[1.0])),
        |b: &mut GraphBuilder| {
            b.make_sparse_initializer(refeed_proto::SparseTensorProto {
                values: Some(floats("s", &[1], &[2.5])),
                ..Default::default()
            })
        },
        |b: &mut GraphBuilder| {
            b.make_encoded_initializer(refeed_proto::EncodedValueProto {
                name: Some("e".to_string()),
                ..Default::default()
            })
        },
        |b: &mut GraphBuilder| b.make_paged_cache_initializer(cache("p")),
    ] {
        make(&mut builder).unwrap();
    }
    builder
        .rename_values([("d", "d2"), ("s", "s2"), ("e", "e2"), ("p", "p2")])
        .unwrap();
    let names: Vec<&str> = crate::uses::initializer_names(builder.graph()).collect();
    assert_eq!(names, ["d2", "s2", "e2", "p2"]);
    assert_eq!(
        builder.paged_cache_initializers()[0].blocks,
        cache("p").blocks
    );
}

#[test]
fn nested_graphs_are_followed_with_their_scopes() {
    // The else branch has its own `a`, and so has nothing to do with the outer one; what is in it has not either.
    let deep = graph("", vec![node("Neg", "a", "d")], "d");
    let reads = graph("", vec![node("Neg", "a", "t")], "t");
    let own = graph(
        "",
        vec![node("Abs", "x", "a"), branches(deep.clone(), deep, "e")],
        "e",
    );
    let passes = graph("", vec![], "a");
    let mut builder = of(
        "x cond",
        vec![
            node("Neg", "x", "a"),
            branches(reads, own, "y"),
            branches(passes.clone(), passes, "z"),
        ],
        "y z",
    );
    builder.rename_value("a", "renamed").unwrap();
    let inner = |node: usize, branch: usize| {
        let graph = builder.graph();
        graph.node[node].attribute[branch]
            .g
            .as_deref()
            .unwrap()
            .clone()
    };
    assert_eq!(listing(&inner(1, 0)), "Neg(renamed) -> t");
    assert_eq!(listing(&inner(1, 1)), "Abs(x) -> a; If(cond) -> e");
    assert_eq!(
        listing(inner(1, 1).node[1].attribute[0].g.as_deref().unwrap()),
        "Neg(a) -> d"
    );
    assert_eq!(names(&inner(2, 1).output), "renamed");
    builder.to_model().unwrap();
}

#[test]
fn names_can_be_swapped() {
    let mut builder = of("a b", vec![node("Sub", "a b", "c")], "c");
    builder.rename_values([("a", "b"), ("b", "a")]).unwrap();
    assert_eq!(listing(builder.graph()), "Sub(b, a) -> c");
    assert_eq!(names(&builder.graph().input), "b a");
    // A name that was given up can be taken again, by a rename and by a node.
    builder.rename_value("a", "z").unwrap();
    builder.rename_value("z", "a").unwrap();
    builder
        .make_node(NewNode::new("Neg").inputs(["a"]).output("z"))
        .unwrap();
    builder.to_model().unwrap();
}

#[test]
fn refused_renames_change_nothing() {
    let inner = |value: &str| graph("", vec![node("Neg", "a", value)], value);
    let mut builder = of(
        "a b cond",
        vec![
            node("Sub", "a b", "c"),
            branches(inner("t"), inner("e"), "d"),
        ],
        "c d",
    );
    let before = builder.proto().clone();
    let text = |builder: &mut GraphBuilder, old: &str, new: &str| {
        builder.rename_value(old, new).unwrap_err().to_string()
    };
    assert_eq!(
        text(&mut builder, "nowhere", "z"),
        "the graph has no value `nowhere`"
    );
    assert_eq!(text(&mut builder, "t", "z"), "the graph has no value `t`");
    assert_eq!(
        text(&mut builder, "a", ""),
        "new name: expected a name, got an empty one"
    );
    assert_eq!(
        text(&mut builder, "a", "c"),
        "new name `c`: the name is taken by another value; choose another one"
    );
    assert_eq!(
        text(&mut builder, "a", "t"),
        "new name `t`: the name is taken by a value of a nested graph; choose another one"
    );
    for pairs in [[("a", "z"), ("b", "z")], [("a", "y"), ("a", "z")]] {
        assert!(matches!(
            builder.rename_values(pairs).unwrap_err(),
            BuildError::Duplicate { .. }
        ));
    }
    builder.rename_value("a", "a").unwrap();
    assert_eq!(builder.proto(), &before);
}

#[test]
fn a_model_with_a_dangling_binding_is_refused() {
    let mut proto = accumulate();
    proto.graph.as_mut().unwrap().input[0].name = Some("renamed".to_string());
    proto.graph.as_mut().unwrap().node[0].input[0] = "renamed".to_string();
    let refused = GraphBuilder::from_proto(proto, &LoadOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("exact names of a typed root graph input/output"),
        "{refused}"
    );
    // And so is one whose end was taken away here.
    let mut builder = imported(accumulate());
    builder.remove_output("present").unwrap();
    let refused = builder.to_model().unwrap_err().to_string();
    assert!(
        refused.contains("root graph input/output, got output `present`"),
        "{refused}"
    );
    assert_eq!(
        builder.remove_persistent_binding("past").unwrap(),
        binding("past", "present")
    );
    builder.make_output("present", float()).unwrap();
    assert!(builder.to_model().unwrap().bindings().is_empty());
}
