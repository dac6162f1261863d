use super::*;

/// Rules 3.11.2, 3.11.3.
#[test]
fn l3_values_are_defined_once() {
    refused(
        chain(vec![node("Neg", "x", "y"), node("Abs", "x", "y")]),
        &[
            "graph.node[1] (Abs).output[0]",
            "`y` is defined more than once",
            "before by graph.node[0] (Neg)",
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

/// Rule 3.11.3.
#[test]
fn l3_inputs_and_outputs_are_defined_somewhere() {
    refused(
        chain(vec![node("Add", "x q", "y")]),
        &["graph.node[0] (Add).input[1]: input `q` is defined nowhere"],
    );
    refused(
        chain(vec![node("Neg", "x", "z")]),
        &["graph.output[0] \"y\": output `y` is defined nowhere"],
    );
    accepted(chain(vec![node("Clip", "x _ x", "y")]));
    let mut straight = graph("x", vec![], "x");
    straight.initializer.push(floats("w", &[1], &[1.0]));
    accepted(model(straight));
}

/// Rule 3.11.3.
#[test]
fn l3_nodes_are_in_topological_order() {
    refused(
        chain(vec![node("Neg", "t", "y"), node("Abs", "x", "t")]),
        &["graph.node[0] (Neg).input[0]: input `t` is used before graph.node[1] (Abs) makes it"],
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
        &[
            "`c` closes a cycle: graph.node[0] (Add) -> graph.node[1] (Neg) -> graph.node[2] (Abs) -> graph.node[0] (Add)",
        ],
    );
    refused(
        chain(vec![node("Add", "x y", "y")]),
        &["closes a cycle: graph.node[0] (Add) -> graph.node[0] (Add)"],
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
            "graph.node[0] (If).attribute[\"then_branch\"].g.node[0] (Neg)",
            "`b` closes a cycle: graph.node[0] (If) -> graph.node[1] (Neg) -> graph.node[0] (If)",
        ],
    );
}

/// Rule 3.11.2; S232.
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
