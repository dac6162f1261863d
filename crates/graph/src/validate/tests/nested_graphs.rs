use super::*;

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
            "graph.node[0] (If).attribute[\"then_branch\"].g.node[0] (Neg)",
            "`t` is used before graph.node[1] (Abs) makes it",
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
        &[
            "attribute[\"then_branch\"].g.node[0] (Neg)",
            "`x` closes a cycle",
        ],
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
        &["graph.node[0] (Loop).attribute[\"body\"].g: expected 4 inputs, got 3"],
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
        &["attribute[\"then_branch\"].g: expected 0 inputs, got 1"],
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

/// Rule 3.1.1.
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
        &[
            "graph.node[0] (If).attribute[\"then_branch\"].g",
            "root graph",
        ],
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
        &[
            "attribute[\"else_branch\"].g.node[0] (If).attribute[\"then_branch\"].g",
            "root graph",
        ],
    );
    let mut model = chain(vec![call("mine", "f", "x cond", "y")]);
    let nodes = vec![branches(inner(), plain(), "y")];
    model.functions.push(function("f", "x cond", nodes, "y"));
    refused(
        model,
        &[
            "functions[\"mine::f\"].node[0] (If).attribute[\"then_branch\"].g",
            "root graph",
        ],
    );
}
