use super::*;
use crate::publish::USES_KEY;
use refeed_proto::{Bytes, TensorAnnotation, TensorProto, TrainingInfoProto};

fn any_use(mut proto: ModelProto) -> ModelProto {
    proto.metadata_props.push(entry(USES_KEY, "any"));
    proto
}

#[test]
fn identities_go_and_the_interface_stays() {
    let mut builder = of(
        "x",
        vec![
            node("Identity", "x", "a"),
            node("Identity", "a", "b"),
            node("Neg", "b", "c"),
            node("Identity", "c", "d"),
            node("Identity", "d", "y"),
            node("Abs", "c", "z"),
        ],
        "y z",
    );
    assert_eq!(builder.remove_identity_nodes(), 4);
    assert_eq!(listing(builder.graph()), "Neg(x) -> y; Abs(y) -> z");
    assert_eq!(names(&builder.graph().output), "y z");
    builder.to_model().unwrap();
    assert_eq!(builder.remove_identity_nodes(), 0);
}

#[test]
fn identities_between_names_of_the_interface_stay() {
    // An input, an initializer and a value that is an output already cannot take an output's name.
    let nodes = || {
        vec![
            node("Identity", "x", "o1"),
            node("Identity", "w", "o2"),
            node("Neg", "x", "o3"),
            node("Identity", "o3", "o4"),
            node("Abs", "x", "a"),
            node("Identity", "a", "o5"),
            node("Identity", "a", "o6"),
        ]
    };
    let mut builder = of("x w", nodes(), "o1 o2 o3 o4 o5 o6");
    builder
        .make_initializer(floats("w", &[1, 3], &[1.0; 3]))
        .unwrap();
    builder.remove_input("w").unwrap();
    assert_eq!(builder.remove_identity_nodes(), 1);
    assert_eq!(
        listing(builder.graph()),
        "Identity(x) -> o1; Identity(w) -> o2; Neg(x) -> o3; Identity(o3) -> o4; Abs(x) -> o5; Identity(o5) -> o6"
    );
    builder.to_model().unwrap();
}

#[test]
fn bindings_survive_every_pass() {
    let mut root = graph(
        "state.in",
        vec![node("Identity", "state.in", "state.out")],
        "state.out",
    );
    root.persistent_bindings
        .push(binding("state.in", "state.out"));
    let mut builder = imported(model(root.clone()));
    assert_eq!(builder.remove_identity_nodes(), 0);
    assert_eq!(builder.remove_unused_nodes(), 0);
    assert_eq!(builder.remove_duplicate_nodes(), 0);
    assert_eq!(builder.to_model().unwrap().graph(), &root);
}

#[test]
fn a_bound_input_gets_no_second_use() {
    let nodes = || {
        vec![
            node("Identity", "past", "once"),
            node("Identity", "once", "twice"),
            node("Shape", "twice", "length"),
            node("Concat", "twice delta", "present").with(int("axis", 0)),
        ]
    };
    let mut root = graph("past delta", nodes(), "present length");
    root.output[1] = value("length", tensor_type(INT64, "2"));
    root.persistent_bindings.push(binding("past", "present"));
    let mut builder = imported(model(root.clone()));
    assert_eq!(builder.remove_identity_nodes(), 1);
    assert_eq!(
        listing(builder.graph()),
        "Identity(past) -> twice; Shape(twice) -> length; Concat(twice, delta) -> present"
    );
    builder.to_model().unwrap();
    // A model that allows more uses loses both.
    let mut builder = imported(any_use(model(root)));
    assert_eq!(builder.remove_identity_nodes(), 2);
    assert_eq!(
        listing(builder.graph()),
        "Shape(past) -> length; Concat(past, delta) -> present"
    );
    builder.to_model().unwrap();
}

#[test]
fn identities_in_nested_graphs() {
    let then_branch = graph(
        "",
        vec![
            node("Identity", "x", "t1"),
            node("Neg", "t1", "t2"),
            node("Identity", "t2", "t3"),
        ],
        "t3",
    );
    // An outer value cannot become this graph's output by a new name.
    let else_branch = graph("", vec![node("Identity", "a", "e1")], "e1");
    let mut builder = of(
        "x cond",
        vec![
            node("Identity", "x", "a"),
            branches(then_branch, else_branch, "y"),
        ],
        "y",
    );
    assert_eq!(builder.remove_identity_nodes(), 3);
    let inner = |index: usize| {
        builder.graph().node[0].attribute[index]
            .g
            .as_deref()
            .unwrap()
    };
    assert_eq!(listing(inner(0)), "Neg(x) -> t3");
    assert_eq!(listing(inner(1)), "Identity(x) -> e1");
    builder.to_model().unwrap();
}

#[test]
fn identities_stay_where_a_nested_graph_would_hide_the_value() {
    // The branches have their own `x`, so they would read another value if `a` became `x`.
    let own = || graph("", vec![node("Neg", "a", "x")], "x");
    let mut builder = of(
        "x cond",
        vec![node("Identity", "x", "a"), branches(own(), own(), "y")],
        "y",
    );
    assert_eq!(builder.remove_identity_nodes(), 0);
    // The same for an output's name.
    let own = || graph("", vec![node("Neg", "a", "y")], "y");
    let mut builder = of(
        "x cond",
        vec![
            node("Abs", "x", "a"),
            branches(own(), own(), "z"),
            node("Identity", "a", "y"),
        ],
        "y z",
    );
    assert_eq!(builder.remove_identity_nodes(), 0);
    builder.to_model().unwrap();
    // A value that takes the name of an output is hidden no more.
    let own = || graph("", vec![node("Neg", "x", "a")], "a");
    let mut builder = of(
        "x cond",
        vec![
            node("Abs", "x", "a"),
            branches(own(), own(), "z"),
            node("Identity", "a", "y"),
            node("Identity", "a", "b"),
            node("Neg", "b", "n"),
        ],
        "y z n",
    );
    assert_eq!(builder.remove_identity_nodes(), 2);
    assert_eq!(
        listing(builder.graph()),
        "Abs(x) -> y; If(cond) -> z; Neg(y) -> n"
    );
    builder.to_model().unwrap();
}

#[test]
fn annotated_values_and_those_of_training_stay() {
    let nodes = vec![
        node("Identity", "x", "a"),
        node("Identity", "x", "b"),
        node("Add", "a b", "y"),
        node("Neg", "x", "unused"),
    ];
    let mut root = graph("x", nodes, "y");
    root.quantization_annotation.push(TensorAnnotation {
        tensor_name: Some("a".to_string()),
        quant_parameter_tensor_names: vec![entry("SCALE_TENSOR", "scale")],
    });
    root.initializer = vec![floats("scale", &[], &[2.0]), floats("idle", &[1], &[2.0])];
    let mut proto = model(root);
    proto.training_info.push(TrainingInfoProto {
        algorithm: Some(graph("", vec![node("Neg", "unused", "n")], "n")),
        ..TrainingInfoProto::default()
    });
    let mut builder = imported(proto);
    assert_eq!(builder.remove_identity_nodes(), 1);
    assert_eq!(builder.remove_unused_nodes(), 0);
    assert_eq!(builder.remove_unused_initializers(), 1);
    assert_eq!(
        listing(builder.graph()),
        "Identity(x) -> a; Add(a, x) -> y; Neg(x) -> unused"
    );
    assert_eq!(builder.graph().initializer[0].name(), "scale");
    builder.to_model().unwrap();
}

#[test]
fn unused_nodes_go_with_their_types() {
    let branch = |value: &str| {
        let nodes = vec![
            node("Neg", "captured", value),
            node("Abs", "only_here", "dead"),
        ];
        graph("", nodes, value)
    };
    let nodes = vec![
        node("Neg", "x", "captured"),
        node("Exp", "x", "only_here"),
        branches(branch("t"), branch("e"), "y"),
        node("Abs", "x", "dead1"),
        node("Neg", "dead1", "dead2"),
    ];
    let mut root = graph("x cond", nodes, "y");
    root.value_info = ["captured", "dead2", "only_here"]
        .map(|name| value(name, float()))
        .to_vec();
    let mut builder = imported(model(root));
    assert_eq!(builder.remove_unused_nodes(), 5);
    assert_eq!(
        listing(builder.graph()),
        "Neg(x) -> captured; If(cond) -> y"
    );
    assert_eq!(names(&builder.graph().value_info), "captured");
    let inner = builder.graph().node[1].attribute[0].g.as_deref().unwrap();
    assert_eq!(listing(inner), "Neg(captured) -> t");
    assert!(!builder.has_value("dead1"));
    builder.to_model().unwrap();
}

#[test]
fn the_only_use_of_a_bound_input_stays() {
    let nodes = vec![
        node("Neg", "past", "n"),
        node("Abs", "n", "dead"),
        node("Exp", "n", "deader"),
        node("Neg", "delta", "present"),
    ];
    let mut root = graph("past delta", nodes, "present");
    root.persistent_bindings.push(binding("past", "present"));
    let mut builder = imported(model(root.clone()));
    assert_eq!(builder.remove_unused_nodes(), 2);
    assert_eq!(
        listing(builder.graph()),
        "Neg(past) -> n; Neg(delta) -> present"
    );
    builder.to_model().unwrap();
    let mut builder = imported(any_use(model(root)));
    assert_eq!(builder.remove_unused_nodes(), 3);
    builder.to_model().unwrap();
}

#[test]
fn duplicates_go() {
    let axis = |node: NodeProto, axis: i64| node.with(int("axis", axis));
    let mut builder = of(
        "x k",
        vec![
            node("Neg", "x", "a1"),
            node("Neg", "x", "a2"),
            axis(node("Softmax", "a1", "s1"), 1),
            axis(node("Softmax", "a2", "s2"), 1),
            axis(node("Softmax", "a2", "s3"), 0),
            axis(node("TopK", "x k", "v1 i1"), 0),
            axis(node("TopK", "x k", "v2 i2"), 0),
            node("Sum", "s1 s2 s3 v1 v2", "y"),
            node("Identity", "i2", "z"),
        ],
        "y z",
    );
    assert_eq!(builder.remove_duplicate_nodes(), 3);
    assert_eq!(
        listing(builder.graph()),
        "Neg(x) -> a1; Softmax(a1) -> s1; Softmax(a1) -> s3; TopK(x, k) -> v1, i1; \
         Sum(s1, s1, s3, v1, v1) -> y; Identity(i1) -> z"
    );
    builder.to_model().unwrap();
    assert_eq!(builder.remove_duplicate_nodes(), 0);
}

#[test]
fn duplicates_keep_names_of_the_interface() {
    let mut builder = of(
        "x",
        vec![
            node("Neg", "x", "a"),
            node("Exp", "a", "e"),
            node("Neg", "x", "y1"),
            node("Neg", "x", "y2"),
            node("Exp", "y1", "y3"),
        ],
        "y1 y2 y3 e",
    );
    // `a` becomes y1; y2 must stay another value; e and y3 are both outputs.
    assert_eq!(builder.remove_duplicate_nodes(), 1);
    assert_eq!(
        listing(builder.graph()),
        "Neg(x) -> y1; Exp(y1) -> e; Neg(x) -> y2; Exp(y1) -> y3"
    );
    builder.to_model().unwrap();
}

#[test]
fn what_may_differ_each_time_is_no_duplicate() {
    let twice =
        |make: &dyn Fn(&str) -> NodeProto| vec![make("a"), make("b"), node("Add", "a b", "y")];
    let branch = || graph("", vec![node("Neg", "x", "t")], "t");
    let cases: [&dyn Fn(&str) -> NodeProto; 5] = [
        &|out| node("RandomNormalLike", "x", out),
        &|out| node("Dropout", "x", out),
        &|out| branches(branch(), branch(), out),
        &|out| call("elsewhere", "Op", "x", out),
        &|out| call("mine", "Noise", "x", out),
    ];
    for case in cases {
        let mut proto = model(graph("x cond", twice(case), "y"));
        proto.opset_import.push(opset("elsewhere", 1));
        proto.functions.push(function(
            "Noise",
            "a",
            vec![node("RandomNormalLike", "a", "b")],
            "b",
        ));
        let mut builder = imported(proto);
        assert_eq!(
            builder.remove_duplicate_nodes(),
            0,
            "{}",
            listing(builder.graph())
        );
    }
}

#[test]
fn constants_are_compared_by_content_or_by_address() {
    let constant = |name: &str, tensor: &TensorProto| {
        NewNode::new("Constant")
            .output(name)
            .tensor("value", tensor.clone())
    };
    let large = |value: f32| floats("", &[20_000], &vec![value; 20_000]);
    let (shared, equal, other) = (large(1.0), large(1.0), large(2.0));
    let small = floats("", &[2], &[1.0, 2.0]);
    let mut copied = small.clone();
    copied.raw_data = Some(Bytes::copy_from_slice(small.raw_data.as_ref().unwrap()));
    let mut builder = GraphBuilder::new("constants");
    for (name, tensor) in [
        ("shared1", &shared),
        ("shared2", &shared),
        ("equal", &equal),
        ("other", &other),
        ("small1", &small),
        ("small2", &copied),
    ] {
        builder.make_node(constant(name, tensor)).unwrap();
    }
    let all = ["shared1", "shared2", "equal", "other", "small1", "small2"];
    builder
        .make_node(
            NewNode::new("Concat")
                .inputs(all)
                .output("y")
                .int("axis", 0),
        )
        .unwrap();
    builder
        .make_output("y", tensor_type(FLOAT, "80004"))
        .unwrap();
    assert_eq!(builder.remove_duplicate_nodes(), 2);
    let last = builder.graph().node.last().unwrap();
    assert_eq!(
        last.input,
        ["shared1", "shared1", "equal", "other", "small1", "small1"]
    );
    builder.to_model().unwrap();
}

#[test]
fn passes_copy_no_payload() {
    let mut root = graph(
        "x",
        vec![
            node("Identity", "x", "i"),
            node("Add", "i w", "a"),
            node("Add", "i w", "b"),
            node("Add", "a b", "y"),
            node("Neg", "x", "dead"),
        ],
        "y",
    );
    root.initializer.push(floats("w", &[3], &[1.0, 2.0, 3.0]));
    root.paged_cache_initializer.push(cache("pages"));
    let address = |graph: &GraphProto| graph.initializer[0].raw_data.as_ref().unwrap().as_ptr();
    let page = |graph: &GraphProto| match &graph.paged_cache_initializer[0].blocks[0].key_payload {
        Some(page::KeyPayload::Key(key)) => key.raw_data.as_ref().unwrap().as_ptr(),
        _ => panic!("a dense key"),
    };
    let before = (address(&root), page(&root));
    let mut builder = imported(model(root));
    builder.remove_identity_nodes();
    builder.remove_duplicate_nodes();
    builder.remove_unused_nodes();
    builder.rename_value("w", "weight").unwrap();
    let model = builder.to_model().unwrap();
    assert_eq!(
        listing(model.graph()),
        "Add(x, weight) -> a; Add(a, a) -> y"
    );
    assert_eq!((address(model.graph()), page(model.graph())), before);
}
