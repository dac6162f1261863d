use super::*;
use crate::testing::*;
use crate::{LoadOptions, Model};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{
    AttributeProto, Bytes, NodeProto, PagedCacheProto, SparseTensorProto, TensorProto,
};
use std::time::{Duration, Instant};

fn load(model: ModelProto) -> Result<Model, ModelError> {
    Model::from_proto(model, &LoadOptions::default())
}

fn accepted(model: ModelProto) {
    if let Err(error) = load(model) {
        panic!("{error}");
    }
}

/// Refused with a text that has all the parts.
#[track_caller]
fn refused(model: ModelProto, parts: &[&str]) {
    let text = load(model)
        .expect_err("the model must be refused")
        .to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

fn chain(nodes: Vec<NodeProto>) -> ModelProto {
    model(graph("x cond", nodes, "y"))
}

#[test]
fn l3_a_model_needs_a_graph_and_operator_sets() {
    refused(
        ModelProto {
            graph: None,
            ..accumulate()
        },
        &["no graph"],
    );
    refused(
        ModelProto {
            opset_import: vec![],
            ..accumulate()
        },
        &["at least one opset import"],
    );
    let twice = vec![opset("", 18), opset("ai.onnx", 19)];
    refused(
        ModelProto {
            opset_import: twice,
            ..accumulate()
        },
        &["`ai.onnx` is imported more than once"],
    );
    refused(
        ModelProto {
            opset_import: vec![opset("", 0)],
            ..accumulate()
        },
        &["expected 1 or more, got 0"],
    );
    refused(
        ModelProto {
            ir_version: Some(15),
            ..accumulate()
        },
        &["expected 1 to 14, got 15"],
    );
    accepted(ModelProto {
        ir_version: Some(14),
        ..accumulate()
    });
    assert_eq!(
        load(ModelProto {
            ir_version: None,
            ..accumulate()
        })
        .unwrap()
        .warnings()
        .len(),
        1
    );
}

#[test]
fn l3_the_domain_of_every_node_is_imported() {
    refused(
        chain(vec![call("other", "Op", "x", "y")]),
        &[
            "node 0 (other::Op)",
            "`other` is not imported",
            "ai.onnx, mine",
        ],
    );
    // An unknown operator of an imported domain is the session's business.
    accepted(chain(vec![call("mine", "Op", "x", "y")]));
    accepted(chain(vec![node("NoSuchOperator", "x", "y")]));
    accepted(chain(vec![call("ai.onnx", "Neg", "x", "y")]));
}

#[test]
fn l3_values_are_defined_once() {
    refused(
        chain(vec![node("Neg", "x", "y"), node("Abs", "x", "y")]),
        &[
            "node 1 (Abs)",
            "`y` is defined more than once",
            "before by node 0 (Neg)",
        ],
    );
    refused(
        chain(vec![node("Split", "x", "y y")]),
        &["`y` is defined more than once"],
    );
    refused(
        chain(vec![node("Neg", "x", "x"), node("Neg", "x", "y")]),
        &["`x`", "an input or initializer"],
    );
    refused(
        model(graph("x x", vec![node("Neg", "x", "y")], "y")),
        &["graph input `x` is defined more than once"],
    );
    refused(
        model(graph("x", vec![node("Neg", "x", "y")], "y y")),
        &["graph output `y` is defined more than once"],
    );
    // Absent outputs have no name and no clash.
    accepted(chain(vec![
        node("Dropout", "x", "y _"),
        node("Dropout", "x", "z _"),
    ]));
}

#[test]
fn l3_inputs_and_outputs_are_defined_somewhere() {
    refused(
        chain(vec![node("Add", "x q", "y")]),
        &["node 0 (Add): input `q` is defined nowhere"],
    );
    refused(
        chain(vec![node("Neg", "x", "z")]),
        &["graph: output `y` is defined nowhere"],
    );
    accepted(chain(vec![node("Clip", "x _ x", "y")]));
    let mut straight = graph("x", vec![], "x");
    straight.initializer.push(floats("w", &[1], &[1.0]));
    accepted(model(straight));
}

#[test]
fn l3_nodes_are_in_topological_order() {
    refused(
        chain(vec![node("Neg", "t", "y"), node("Abs", "x", "t")]),
        &["node 0 (Neg): input `t` is used before node 1 (Abs) makes it"],
    );
}

#[test]
fn l3_a_cycle_is_named_node_by_node() {
    refused(
        chain(vec![
            node("Add", "x c", "a"),
            node("Neg", "a", "b"),
            node("Abs", "b", "c"),
            node("Neg", "a", "y"),
        ]),
        &["`c` closes a cycle: node 0 (Add) -> node 1 (Neg) -> node 2 (Abs) -> node 0 (Add)"],
    );
    refused(
        chain(vec![node("Add", "x y", "y")]),
        &["closes a cycle: node 0 (Add) -> node 0 (Add)"],
    );
    // Through a capture.
    let inner = graph("", vec![node("Neg", "b", "u")], "u");
    let other = graph("", vec![node("Neg", "x", "v")], "v");
    refused(
        chain(vec![
            branches(inner, other, "a"),
            node("Neg", "a", "b"),
            node("Neg", "a", "y"),
        ]),
        &[
            "node 0 (If) then_branch / node 0 (Neg)",
            "`b` closes a cycle: node 0 (If) -> node 1 (Neg) -> node 0 (If)",
        ],
    );
}

#[test]
fn nested_graphs_see_outer_values_that_are_made_before() {
    let inner = |read: &str| graph("", vec![node("Neg", read, "u")], "u");
    let other = || graph("", vec![node("Neg", "x", "v")], "v");
    accepted(chain(vec![
        node("Abs", "x", "t"),
        branches(inner("t"), other(), "y"),
    ]));
    refused(
        chain(vec![
            branches(inner("t"), other(), "y"),
            node("Abs", "x", "t"),
        ]),
        &[
            "node 0 (If) then_branch / node 0 (Neg)",
            "`t` is used before node 1 (Abs) makes it",
        ],
    );
    refused(
        chain(vec![branches(inner("y"), other(), "y")]),
        &["`y` closes a cycle"],
    );
    // What a nested graph defines is not seen outside, nor in its sibling.
    refused(
        chain(vec![
            branches(inner("x"), other(), "w"),
            node("Neg", "u", "y"),
        ]),
        &["`u` is defined nowhere"],
    );
    let sibling = graph("", vec![node("Neg", "u", "v")], "v");
    refused(
        chain(vec![branches(inner("x"), sibling, "y")]),
        &["else_branch", "`u` is defined nowhere"],
    );
}

#[test]
fn k1_a_nested_graph_may_use_an_outer_name_for_its_own_value() {
    let body = graph(
        "i c x",
        vec![node("Neg", "x", "x_out"), node("Identity", "c", "c_out")],
        "c_out x_out",
    );
    accepted(chain(vec![
        node("Loop", "cond cond x", "y").with(graph_attribute("body", body)),
    ]));
    // Its own name is never the outer one, not even before its definition.
    let own = graph("", vec![node("Neg", "x", "u"), node("Neg", "u", "x")], "x");
    let other = graph("", vec![], "x");
    refused(
        chain(vec![branches(own, other, "y")]),
        &["then_branch / node 0 (Neg)", "`x` closes a cycle"],
    );
}

#[test]
fn k6_bodies_take_what_the_node_gives() {
    let body = |inputs: &str, outputs: &str| {
        let nodes = vec![node("Neg", "s", "s_out"), node("Identity", "c", "c_out")];
        graph_attribute("body", graph(inputs, nodes, outputs))
    };
    accepted(chain(vec![
        node("Loop", "cond cond x", "y").with(body("i c s", "c_out s_out")),
    ]));
    refused(
        chain(vec![
            node("Loop", "cond cond x x", "y").with(body("i c s", "c_out s_out")),
        ]),
        &["node 0 (Loop) body: expected 4 inputs, got 3"],
    );
    refused(
        chain(vec![
            node("Loop", "cond cond x", "y z").with(body("i c s", "c_out s_out")),
        ]),
        &["expected at least 3 outputs, got 2"],
    );
    let mut twice = body("i c s", "c_out s_out");
    twice
        .g
        .as_mut()
        .unwrap()
        .initializer
        .push(floats("s", &[1], &[1.0]));
    refused(
        chain(vec![node("Loop", "cond cond x", "y").with(twice)]),
        &["`s` is defined more than once"],
    );
    let takes = graph("q", vec![node("Neg", "q", "u")], "u");
    refused(
        chain(vec![branches(takes, graph("", vec![], "x"), "y")]),
        &["then_branch: expected 0 inputs, got 1"],
    );
    let gives = graph("", vec![], "x");
    refused(
        chain(vec![branches(gives.clone(), gives, "y z")]),
        &["expected 2 outputs, got 1"],
    );
}

#[test]
fn nested_deeper_than_the_limit_is_refused_and_dropped() {
    let nest = |depth: u64| {
        let mut inner = graph("", vec![node("Neg", "x", "leaf")], "leaf");
        for level in 0..depth - 1 {
            let name = format!("y{level}");
            let attribute = graph_attribute("then_branch", inner);
            inner = graph("", vec![node("If", "cond", &name).with(attribute)], &name);
        }
        chain(vec![
            node("If", "cond", "y").with(graph_attribute("then_branch", inner)),
        ])
    };
    accepted(nest(NESTING_LIMIT));
    refused(nest(NESTING_LIMIT + 1), &["expected at most 64, got 65"]);
}

#[test]
fn s101_bindings_belong_to_the_root_graph() {
    let bound = |mut graph: GraphProto| {
        graph.persistent_bindings.push(binding("x", "y"));
        graph
    };
    let plain = || graph("", vec![node("Neg", "x", "v")], "v");
    let inner = || bound(graph("", vec![node("Neg", "x", "u")], "u"));
    refused(
        chain(vec![branches(inner(), plain(), "y")]),
        &["node 0 (If) then_branch", "root graph"],
    );
    let body = bound(graph("i c s", vec![], "c s"));
    let looped = node("Loop", "cond cond x", "y").with(graph_attribute("body", body.clone()));
    refused(chain(vec![looped]), &["root graph"]);
    refused(
        chain(vec![
            node("Scan", "x", "y").with(graph_attribute("body", body)),
        ]),
        &["root graph"],
    );
    let middle = graph("", vec![branches(inner(), plain(), "w")], "w");
    refused(
        chain(vec![branches(plain(), middle, "y")]),
        &["else_branch / node 0 (If) then_branch", "root graph"],
    );
    let mut model = chain(vec![call("mine", "f", "x cond", "y")]);
    let nodes = vec![branches(inner(), plain(), "y")];
    model.functions.push(function("f", "x cond", nodes, "y"));
    refused(
        model,
        &["function mine::f / node 0 (If) then_branch", "root graph"],
    );
}

#[test]
fn initializer_names_are_unique_over_all_kinds() {
    let with = |fill: fn(&mut GraphProto)| {
        let mut graph = graph("x", vec![node("Neg", "x", "y")], "y");
        graph.initializer.push(floats("w", &[2], &[1.0, 2.0]));
        fill(&mut graph);
        model(graph)
    };
    let sparse = || SparseTensorProto {
        values: Some(floats("w", &[1], &[1.0])),
        indices: Some(TensorProto {
            data_type: Some(INT64),
            dims: vec![1],
            int64_data: vec![3],
            ..Default::default()
        }),
        dims: vec![5],
    };
    accepted(with(|_| {}));
    refused(
        with(|g| g.initializer.push(floats("w", &[1], &[1.0]))),
        &["initializer `w` is defined more than once"],
    );
    let mut clash = with(|_| {});
    clash
        .graph
        .as_mut()
        .unwrap()
        .sparse_initializer
        .push(sparse());
    refused(clash, &["initializer `w`"]);
    let named = || Some("w".to_string());
    let mut clash = with(|_| {});
    let encoded = refeed_proto::EncodedValueProto {
        name: named(),
        ..Default::default()
    };
    clash
        .graph
        .as_mut()
        .unwrap()
        .encoded_initializer
        .push(encoded);
    refused(clash, &["initializer `w`"]);
    let mut clash = with(|_| {});
    let paged = PagedCacheProto {
        name: named(),
        ..Default::default()
    };
    clash
        .graph
        .as_mut()
        .unwrap()
        .paged_cache_initializer
        .push(paged);
    refused(clash, &["initializer `w`"]);
    refused(
        with(|g| g.initializer.push(floats("", &[1], &[1.0]))),
        &["expected a name for an initializer"],
    );
    // A default of an input, in any IR version; but no second definition of a node's output.
    accepted(with(|g| {
        g.initializer.push(floats("x", &[1, 3], &[1.0, 2.0, 3.0]))
    }));
    refused(
        with(|g| g.initializer.push(floats("y", &[1], &[1.0]))),
        &["`y` is defined more than once"],
    );
    let only = with(|g| g.sparse_initializer.push(SparseTensorProto::default()));
    refused(only, &["expected a name for an initializer"]);
}

#[test]
fn m5_m12_tensors_hold_what_they_declare() {
    let with = |tensor: TensorProto| {
        let mut graph = graph("x", vec![node("Neg", "x", "y")], "y");
        graph.initializer.push(tensor);
        model(graph)
    };
    let good = || floats("w", &[2, 3], &[0.0; 6]);
    accepted(with(good()));
    refused(
        with(TensorProto {
            dims: vec![128],
            ..good()
        }),
        &["tensor `w`", "512", "24"],
    );
    refused(
        with(TensorProto {
            dims: vec![-2, -3],
            ..good()
        }),
        &["tensor `w`", "-2"],
    );
    refused(
        with(TensorProto {
            dims: vec![i64::MAX, i64::MAX],
            ..good()
        }),
        &["tensor `w`"],
    );
    refused(
        with(TensorProto {
            raw_data: Some(Bytes::from_static(&[0; 7])),
            ..good()
        }),
        &["tensor `w`", "24", "7"],
    );
    refused(
        with(TensorProto {
            float_data: vec![0.0; 6],
            ..good()
        }),
        &["raw_data", "float_data"],
    );
    for number in [0, 99, -1] {
        refused(
            with(TensorProto {
                data_type: Some(number),
                ..good()
            }),
            &["tensor `w`", &number.to_string()],
        );
    }
    let text = |count| TensorProto {
        name: Some("w".to_string()),
        data_type: Some(STRING),
        dims: vec![2],
        string_data: vec![Bytes::from_static(b"\xFF\x00"); count],
        ..Default::default()
    };
    accepted(with(text(2)));
    refused(with(text(3)), &["tensor `w`", "2 elements", "got 3"]);
    // A tensor attribute of a nested graph is held to the same.
    let value = AttributeProto {
        t: Some(Box::new(TensorProto {
            dims: vec![5],
            ..good()
        })),
        ..attribute("value", AttributeType::Tensor)
    };
    let inner = graph("", vec![node("Constant", "", "u").with(value)], "u");
    refused(
        chain(vec![branches(inner, graph("", vec![], "x"), "y")]),
        &["tensor `w`", "20", "24"],
    );
}

#[test]
fn attributes_have_one_payload_of_their_type() {
    let with = |attribute: AttributeProto| chain(vec![node("Op", "x", "y").with(attribute)]);
    accepted(with(int("axis", -1)));
    // A zero or an empty list may be left out of the wire.
    accepted(with(attribute("axis", AttributeType::Int)));
    accepted(with(attribute("axes", AttributeType::Ints)));
    refused(
        with(AttributeProto {
            r#type: None,
            ..int("axis", 1)
        }),
        &["`axis`: expected a type, got none"],
    );
    refused(
        with(AttributeProto {
            r#type: Some(77),
            ..int("axis", 1)
        }),
        &["`axis`", "77"],
    );
    refused(
        with(AttributeProto {
            r#type: Some(AttributeType::Float as i32),
            ..int("axis", 1)
        }),
        &["FLOAT", "INT"],
    );
    refused(
        with(AttributeProto {
            f: Some(1.0),
            ..int("axis", 1)
        }),
        &["one value of type INT, got FLOAT and INT"],
    );
    refused(
        with(attribute("value", AttributeType::Tensor)),
        &["`value`: expected TENSOR, got no value"],
    );
    refused(with(int("", 1)), &["expected a name for attribute"]);
    refused(
        chain(vec![
            node("Op", "x", "y").with(int("a", 1)).with(int("a", 2)),
        ]),
        &["attribute `a` is defined more than once"],
    );
    refused(
        with(reference("axis", AttributeType::Int, "k")),
        &["only nodes of function bodies"],
    );
    // Before IR version 2 attributes had no type.
    accepted(ModelProto {
        ir_version: Some(1),
        ..with(AttributeProto {
            r#type: None,
            ..int("axis", 1)
        })
    });
}

#[test]
fn arity_is_held_to_the_schema_where_one_is_known() {
    refused(
        chain(vec![node("Concat", "", "y").with(int("axis", 0))]),
        &["node 0 (Concat): expected at least 1 inputs, got 0"],
    );
    refused(
        chain(vec![node("Transpose", "x x", "y")]),
        &["node 0 (Transpose)", "inputs, got 2"],
    );
    accepted(chain(vec![node("Transpose", "x _", "y")]));
    let mut model = chain(vec![call("mine", "f", "x x", "y")]);
    model
        .functions
        .push(function("f", "a", vec![node("Neg", "a", "b")], "b"));
    refused(model, &["node 0 (mine::f): expected 0 to 1 inputs, got 2"]);
}

#[test]
fn declarations_say_a_type() {
    let with = |ty| {
        let mut model = accumulate();
        model.graph.as_mut().unwrap().persistent_bindings.clear();
        model.graph.as_mut().unwrap().input[1].r#type = ty;
        model
    };
    refused(
        with(None),
        &["graph input `delta`: expected a type, got none"],
    );
    refused(
        with(Some(tensor_type(0, "2"))),
        &["graph input `delta`", "element type, got 0"],
    );
    refused(with(Some(tensor_type(99, "2"))), &["got 99"]);
    refused(
        with(Some(tensor_type(FLOAT, "2 -5"))),
        &["axis 1", "got -5"],
    );
    let map = refeed_proto::type_proto::Map {
        key_type: Some(FLOAT),
        value_type: Some(Box::new(tensor_type(FLOAT, ""))),
    };
    refused(
        with(Some(of_value(refeed_proto::type_proto::Value::MapType(
            Box::new(map),
        )))),
        &["map keys", "FLOAT"],
    );
}

fn calling(name: &str, callees: &[&str]) -> FunctionProto {
    let mut nodes: Vec<NodeProto> = Vec::new();
    let mut last = "x".to_string();
    for (index, callee) in callees.iter().enumerate() {
        let next = format!("t{index}");
        nodes.push(call("mine", callee, &last, &next));
        last = next;
    }
    nodes.push(node("Neg", &last, "y"));
    function(name, "x", nodes, "y")
}

fn with_functions(functions: Vec<FunctionProto>) -> ModelProto {
    ModelProto {
        functions,
        ..chain(vec![call("mine", "f0", "x", "y")])
    }
}

#[test]
fn functions_do_not_call_themselves() {
    refused(
        with_functions(vec![calling("f0", &["f0"])]),
        &["mine::f0", "mine::f0 -> mine::f0"],
    );
    refused(
        with_functions(vec![
            calling("f0", &["f1"]),
            calling("f1", &["f2"]),
            calling("f2", &["f1"]),
        ]),
        &["`mine::f1` calls itself: mine::f1 -> mine::f2 -> mine::f1"],
    );
    // Through the branch of an `If`.
    let inner = graph("", vec![call("mine", "f0", "x cond", "u")], "u");
    let nodes = vec![branches(inner, graph("", vec![], "x"), "y")];
    let mut model = chain(vec![call("mine", "f0", "x cond", "y")]);
    model.functions.push(function("f0", "x cond", nodes, "y"));
    refused(model, &["`mine::f0` calls itself"]);
    // One that nothing calls is held to the same.
    refused(
        with_functions(vec![calling("f0", &[]), calling("f1", &["f1"])]),
        &["`mine::f1` calls itself"],
    );
    accepted(with_functions(vec![
        calling("f0", &["f1", "f1"]),
        calling("f1", &[]),
    ]));
}

#[test]
fn chains_of_functions_and_their_expansion_are_bounded() {
    let chain_of = |length: usize| {
        let names: Vec<String> = (0..=length).map(|i| format!("f{i}")).collect();
        let functions = (0..length).map(|i| match i + 1 < length {
            true => calling(&names[i], &[&names[i + 1]]),
            false => calling(&names[i], &[]),
        });
        with_functions(functions.collect())
    };
    accepted(chain_of(100));
    refused(
        chain_of(101),
        &["depth of function calls", "at most 100, got 101"],
    );
    refused(chain_of(3_000), &["depth of function calls"]);

    let doubling = |levels: usize| {
        let names: Vec<String> = (0..=levels).map(|i| format!("f{i}")).collect();
        let functions = (0..levels).map(|i| calling(&names[i], &[&names[i + 1], &names[i + 1]]));
        with_functions(functions.chain([calling(&names[levels], &[])]).collect())
    };
    accepted(doubling(17));
    let start = Instant::now();
    refused(
        doubling(26),
        &["nodes, with functions expanded", "at most 1000000"],
    );
    refused(doubling(90), &["nodes, with functions expanded"]);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn functions_are_whole() {
    let with = |function: FunctionProto| ModelProto {
        functions: vec![function],
        ..chain(vec![node("Neg", "x", "y")])
    };
    let body = || vec![node("Neg", "x", "y")];
    accepted(with(function("f", "x", body(), "y")));
    refused(
        with(function("f", "x x", body(), "y")),
        &["function mine::f: input `x` is defined more than once"],
    );
    refused(
        with(function("f", "x", body(), "y y")),
        &["function mine::f: output `y` is defined more than once"],
    );
    refused(
        with(function("f", "x", body(), "z")),
        &["function mine::f: output `z` is defined nowhere"],
    );
    refused(
        with(function("f", "a", body(), "y")),
        &["function mine::f / node 0 (Neg): input `x` is defined nowhere"],
    );
    let bare = FunctionProto {
        opset_import: vec![],
        ..function("f", "x", body(), "y")
    };
    refused(
        with(bare),
        &["function mine::f: expected at least one opset import"],
    );
    let foreign = FunctionProto {
        opset_import: vec![opset("mine", 1)],
        ..function("f", "x", body(), "y")
    };
    refused(
        with(foreign),
        &[
            "function mine::f / node 0 (Neg)",
            "`ai.onnx` is not imported",
        ],
    );
    let nodes = vec![node("Op", "x", "y").with(reference("axis", AttributeType::Int, "k"))];
    refused(
        with(function("f", "x", nodes.clone(), "y")),
        &["`axis` refers to `k`, which the function does not declare"],
    );
    let declared = FunctionProto {
        attribute: vec!["k".to_string()],
        ..function("f", "x", nodes.clone(), "y")
    };
    accepted(with(declared.clone()));
    refused(
        with(FunctionProto {
            attribute_proto: vec![int("k", 3)],
            ..declared
        }),
        &["attribute `k` is defined more than once"],
    );
    accepted(with(FunctionProto {
        attribute_proto: vec![int("k", 3)],
        ..function("f", "x", nodes, "y")
    }));
    let twice = ModelProto {
        functions: vec![function("f", "x", body(), "y"); 2],
        ..chain(body())
    };
    refused(twice, &["function `mine::f` is defined more than once"]);
}

#[test]
fn bindings_are_judged_before_the_rest() {
    let mut model = accumulate();
    model.graph.as_mut().unwrap().persistent_bindings[0].output_name = Some("nothing".to_string());
    model.opset_import.clear();
    refused(model, &["exact", "input/output"]);
}

#[test]
fn validation_is_linear_in_the_number_of_nodes() {
    let long = |count: usize| {
        let name = |i: usize| {
            if i == 0 {
                "x".to_string()
            } else if i == count {
                "y".to_string()
            } else {
                format!("t{i}")
            }
        };
        chain(
            (0..count)
                .map(|i| node("Neg", &name(i), &name(i + 1)))
                .collect(),
        )
    };
    let start = Instant::now();
    accepted(long(100_000));
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    // The worst order: every node before the one it needs.
    let mut reversed = long(20_000);
    reversed.graph.as_mut().unwrap().node.reverse();
    let start = Instant::now();
    refused(reversed, &["is used before"]);
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}
