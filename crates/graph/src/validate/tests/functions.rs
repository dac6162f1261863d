use super::*;

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

/// Rule 3.11.6.
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
    assert!(start.elapsed() < Duration::from_secs(60));
}

/// Rule 3.11.6.
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
        &["functions[\"mine::f\"].input[1]: input `x` is defined more than once"],
    );
    refused(
        with(function("f", "x", body(), "y y")),
        &["functions[\"mine::f\"].output[1]: output `y` is defined more than once"],
    );
    refused(
        with(function("f", "x", body(), "z")),
        &["functions[\"mine::f\"].output[0] \"z\": output `z` is defined nowhere"],
    );
    refused(
        with(function("f", "a", body(), "y")),
        &["functions[\"mine::f\"].node[0] (Neg).input[0]: input `x` is defined nowhere"],
    );
    let bare = FunctionProto {
        opset_import: vec![],
        ..function("f", "x", body(), "y")
    };
    refused(
        with(bare),
        &["functions[\"mine::f\"].opset_import: expected at least one opset import"],
    );
    let foreign = FunctionProto {
        opset_import: vec![opset("mine", 1)],
        ..function("f", "x", body(), "y")
    };
    refused(
        with(foreign),
        &[
            "functions[\"mine::f\"].node[0] (Neg)",
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
