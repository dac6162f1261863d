use super::*;
use crate::testing::*;
use crate::{LoadOptions, Model, ModelError};
use refeed_proto::GraphProto;

/// Number of uses of `past`.
fn uses(graph: &GraphProto) -> usize {
    count_uses(graph, &["past"])[0].count
}

/// A graph over `past`, `cond` and `delta`.
fn over(nodes: Vec<refeed_proto::NodeProto>, outputs: &str) -> GraphProto {
    graph("past cond delta", nodes, outputs)
}

fn branch(nodes: Vec<refeed_proto::NodeProto>, output: &str) -> GraphProto {
    graph("", nodes, output)
}

/// Whether a model with `past -> present` bound over these nodes passes the rule.
fn accepted(nodes: Vec<refeed_proto::NodeProto>, outputs: &str) -> bool {
    let mut graph = over(nodes, outputs);
    graph.persistent_bindings.push(binding("past", "present"));
    let model = Model::from_proto(model(graph), &LoadOptions::default()).unwrap();
    let any = model.check_binding_uses(Some(BindingUses::Any));
    assert!(any.is_ok(), "binding_uses=any takes any number");
    match model.verify() {
        Ok(()) => true,
        Err(ModelError::Binding(error @ BindingError::Uses { .. })) => {
            let text = error.to_string();
            assert!(text.contains("`past` must be used exactly once"), "{text}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Rule 3.4.1.
#[test]
fn s005_one_use_is_asked_for_and_none_is_refused_too() {
    assert!(accepted(
        vec![node("Add", "past delta", "present")],
        "present"
    ));
    assert!(!accepted(
        vec![node("Add", "delta delta", "present")],
        "present"
    ));
    assert!(!accepted(
        vec![node("Neg", "past", "a"), node("Add", "past a", "present")],
        "present"
    ));
}

/// Rule 3.4.1.
#[test]
fn s006_two_positions_of_one_node_are_two_uses() {
    assert!(!accepted(
        vec![node("Add", "past past", "present")],
        "present"
    ));
}

/// Rule 3.4.1.
#[test]
fn s007_shape_is_a_use() {
    assert!(!accepted(
        vec![
            node("Shape", "past", "s"),
            node("Add", "past delta", "present")
        ],
        "present"
    ));
}

/// Rule 3.4.2.
#[test]
fn s008_a_graph_output_is_a_use() {
    assert!(!accepted(
        vec![node("Add", "past delta", "present")],
        "present past"
    ));
    let graph = over(vec![], "past past");
    assert_eq!(uses(&graph), 2);
}

/// Rule 3.4.3.
#[test]
fn s009_captures_count_at_any_depth() {
    let inner = branch(vec![node("Neg", "past", "c")], "c");
    let quiet = |out: &str| branch(vec![node("Neg", "delta", out)], out);
    let middle = branch(vec![branches(inner, quiet("d"), "b")], "b");
    let nodes = vec![branches(middle, quiet("e"), "present")];
    assert!(accepted(nodes.clone(), "present"));
    let mut twice = nodes;
    twice.push(node("Neg", "past", "unused"));
    assert!(!accepted(twice, "present"));
}

/// Rule 3.4.3.
#[test]
fn s009_an_output_of_a_nested_graph_is_a_use() {
    let nodes = vec![branches(
        branch(vec![], "past"),
        branch(vec![node("Neg", "delta", "d")], "d"),
        "present",
    )];
    assert!(accepted(nodes, "present"));
}

/// Rule 3.4.3.
#[test]
fn s010_exclusive_branches_add_up() {
    let side = |out: &str| branch(vec![node("Neg", "past", out)], out);
    assert!(!accepted(
        vec![branches(side("a"), side("b"), "present")],
        "present"
    ));
}

/// Rule 3.4.4.
#[test]
fn s011_declarations_bindings_and_value_info_are_no_uses() {
    let mut graph = over(vec![node("Add", "past delta", "present")], "present");
    graph.persistent_bindings.push(binding("past", "present"));
    graph
        .value_info
        .push(value("past", tensor_type(FLOAT, "rows 3")));
    graph
        .initializer
        .push(floats("past", &[1, 3], &[1.0, 2.0, 3.0]));
    assert_eq!(uses(&graph), 1);
    assert!(
        Model::from_proto(model(graph), &LoadOptions::default())
            .unwrap()
            .verify()
            .is_ok()
    );
}

/// Rule 3.4.8.
#[test]
fn s013_graphs_without_bindings_share_as_they_like() {
    let graph = over(vec![node("Add", "past past", "present")], "present");
    assert!(
        Model::from_proto(model(graph), &LoadOptions::default())
            .unwrap()
            .verify()
            .is_ok()
    );
}

/// Rule 3.4.5.
#[test]
fn a_nested_graph_that_defines_the_name_hides_it_from_itself_and_below() {
    // As a node output, after the place where it is read: hiding does not depend on positions.
    let inner = branch(vec![node("Neg", "past", "y")], "y");
    let mut by_output = branch(
        vec![
            node("Neg", "past", "x"),
            branches(inner.clone(), inner, "z"),
        ],
        "z",
    );
    by_output.node.push(node("Neg", "x", "past"));
    // As an input of a loop body.
    let by_input = graph("i c past", vec![node("Neg", "past", "next")], "c next");
    // As an initializer.
    let mut by_initializer = branch(vec![node("Neg", "past", "w")], "w");
    by_initializer
        .initializer
        .push(floats("past", &[1], &[2.0]));
    // As one of the other kinds of initializers.
    let hidden = || branch(vec![node("Neg", "past", "w")], "w");
    let (mut by_sparse, mut by_encoded, mut by_cache) = (hidden(), hidden(), hidden());
    by_sparse
        .sparse_initializer
        .push(refeed_proto::SparseTensorProto {
            values: Some(floats("past", &[1], &[2.0])),
            ..Default::default()
        });
    by_encoded
        .encoded_initializer
        .push(refeed_proto::EncodedValueProto {
            name: Some("past".to_string()),
            ..Default::default()
        });
    by_cache
        .paged_cache_initializer
        .push(refeed_proto::PagedCacheProto {
            name: Some("past".to_string()),
            ..Default::default()
        });
    for hiding in [
        by_output,
        by_input,
        by_initializer,
        by_sparse,
        by_encoded,
        by_cache,
    ] {
        let nodes = vec![node("Loop", "m cond delta", "out").with(graph_attribute("body", hiding))];
        assert_eq!(uses(&over(nodes, "out")), 0);
    }
    // A sibling sees it still.
    let mut hiding = branch(vec![node("Neg", "past", "w")], "w");
    hiding.initializer.push(floats("past", &[1], &[2.0]));
    let open = branch(vec![node("Neg", "past", "v")], "v");
    assert_eq!(uses(&over(vec![branches(hiding, open, "out")], "out")), 1);
}

/// Rule 3.4.3.
#[test]
fn every_graph_of_a_list_attribute_is_walked() {
    let open = |out: &str| branch(vec![node("Neg", "past", out)], out);
    let mut list = attribute(
        "graphs",
        refeed_proto::attribute_proto::AttributeType::Graphs,
    );
    list.graphs = vec![open("a"), open("b"), open("c")];
    assert_eq!(
        uses(&over(vec![node("Many", "delta", "out").with(list)], "out")),
        3
    );
}

#[test]
fn places_of_use_are_named() {
    let side = branch(vec![node("Neg", "past", "a")], "a");
    let other = branch(vec![node("Neg", "delta", "b")], "b");
    let mut named = node("Concat", "delta past", "c");
    named.name = Some("cat".to_string());
    let graph = over(vec![named, branches(side, other, "out")], "out past");
    let found = &count_uses(&graph, &["past"])[0];
    assert_eq!(found.count, 3);
    assert_eq!(
        found.sites,
        [
            "graph.node[0] \"cat\" (Concat).input[1]",
            "graph.output[1] \"past\"",
            "graph.node[1] (If).attribute[\"then_branch\"].g.node[0] (Neg).input[0]"
        ]
    );
}

#[test]
fn many_names_are_counted_in_one_pass() {
    let graph = over(
        vec![node("Add", "past delta", "x"), node("Add", "delta x", "y")],
        "y",
    );
    let counts: Vec<usize> = count_uses(&graph, &["delta", "past", "cond"])
        .iter()
        .map(|u| u.count)
        .collect();
    assert_eq!(counts, [2, 1, 0]);
}

#[test]
fn captures_are_the_free_names_of_nested_graphs() {
    let inner = branch(vec![node("Add", "own outer", "y")], "y");
    let mut then_branch = branch(
        vec![
            node("Neg", "past", "own"),
            branches(inner, branch(vec![], "own"), "z"),
        ],
        "z",
    );
    then_branch
        .output
        .push(value("delta", tensor_type(FLOAT, "3")));
    let node = branches(
        then_branch,
        branch(vec![node("Neg", "past", "b")], "b"),
        "out",
    );
    let mut found = captures(&node);
    found.sort_unstable();
    assert_eq!(found, ["cond", "delta", "outer", "past"]);
}

#[test]
fn a_deep_graph_is_counted_without_recursion() {
    let mut graph = branch(vec![node("Neg", "past", "x0")], "x0");
    for depth in 0..2_000 {
        let name = format!("y{depth}");
        graph = branch(
            vec![node("If", "c", &name).with(graph_attribute("then_branch", graph))],
            &name,
        );
    }
    assert_eq!(uses(&graph), 1);
    assert!(captures(&graph.node[0]).contains(&"past"));
    // Dropping nested messages recurses in prost's structs; this one is dropped by a thread with room for it.
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || drop(graph))
        .unwrap()
        .join()
        .unwrap();
}

/// Rule 3.4.6: the name in a body is the body's own.
#[test]
fn bodies_of_functions_are_not_looked_at() {
    let mut graph = over(vec![call("mine", "Twice", "past", "present")], "present");
    graph.persistent_bindings.push(binding("past", "present"));
    let body = function("Twice", "past", vec![node("Add", "past past", "y")], "y");
    let mut model = model(graph);
    model.functions.push(body);
    let model = Model::from_proto(model, &LoadOptions::default()).unwrap();
    model.verify().unwrap();
}
