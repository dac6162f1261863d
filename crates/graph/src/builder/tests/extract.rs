use super::*;
use crate::builder::BuildError;

#[test]
fn a_part_with_all_that_belongs_to_it() {
    let branch = |value: &str| graph("", vec![call("mine", "Scale", "captured", value)], value);
    let nodes = vec![
        node("Neg", "x", "a"),
        node("Abs", "a", "captured"),
        node("Add", "a w", "b"),
        branches(branch("t"), branch("e"), "c"),
        node("Mul", "b c", "d"),
        node("Exp", "d", "y"),
    ];
    let mut root = graph("x other cond", nodes, "y");
    root.initializer = vec![floats("unread", &[1], &[0.0]), floats("w", &[3], &[1.0; 3])];
    root.paged_cache_initializer = vec![cache("pages")];
    root.value_info = ["a", "b", "d", "captured"]
        .map(|name| value(name, float()))
        .to_vec();
    let mut proto = model(root);
    let inner = function("Inner", "p", vec![node("Neg", "p", "q")], "q");
    let scale = function("Scale", "p", vec![call("mine", "Inner", "p", "q")], "q");
    let unread = function("Unread", "p", vec![node("Neg", "p", "q")], "q");
    proto.functions = vec![unread, inner, scale];
    let whole = imported(proto);

    let part = whole.extract(&["a", "cond"], &["d"]).unwrap();
    let graph = part.graph();
    assert_eq!(
        listing(graph),
        "Abs(a) -> captured; Add(a, w) -> b; If(cond) -> c; Mul(b, c) -> d"
    );
    assert_eq!(
        (names(&graph.input), names(&graph.output)),
        ("a cond".into(), "d".into())
    );
    assert_eq!(names(&graph.value_info), "b captured");
    let initializers: Vec<&str> = crate::uses::initializer_names(graph).collect();
    assert_eq!(initializers, ["w"]);
    let functions: Vec<&str> = part.proto().functions.iter().map(|f| f.name()).collect();
    assert_eq!(functions, ["Inner", "Scale"]);
    assert_eq!(
        graph.initializer[0].raw_data.as_ref().unwrap().as_ptr(),
        whole.graph().initializer[1]
            .raw_data
            .as_ref()
            .unwrap()
            .as_ptr()
    );
    part.to_model().unwrap();
    // An input further down leaves more behind.
    let part = whole.extract(&["x"], &["a", "b"]).unwrap();
    assert_eq!(listing(part.graph()), "Neg(x) -> a; Add(a, w) -> b");
}

#[test]
fn types_that_nothing_declares_are_inferred() {
    let nodes = vec![
        node("Neg", "x", "a"),
        node("Exp", "a", "b"),
        call("mine", "Unheard", "b", "c"),
        node("Abs", "c", "y"),
    ];
    let builder = of("x", nodes, "y");
    let part = builder.extract(&["a"], &["b"]).unwrap();
    assert_eq!(part.graph().input, [value("a", float())]);
    assert_eq!(part.graph().output, [value("b", float())]);
    part.to_model().unwrap();
    let refused = builder.extract(&["c"], &["y"]).unwrap_err();
    assert!(matches!(refused, BuildError::NoType { what: "graph input", name } if name == "c"));
}

#[test]
fn what_a_part_needs_must_be_given() {
    let builder = of(
        "x z y",
        vec![node("Add", "x y", "a"), node("Add", "a z", "b")],
        "b",
    );
    let refused = builder.extract(&["x"], &["b"]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the nodes that make the outputs need values that are no inputs of the cut: `y`, `z`; \
         add them, or choose inputs closer to the outputs"
    );
    assert!(matches!(
        builder.extract(&["x", "x"], &["b"]).unwrap_err(),
        BuildError::Duplicate { .. }
    ));
    assert!(matches!(
        builder.extract(&["n"], &["b"]).unwrap_err(),
        BuildError::Missing { .. }
    ));
    // A default serves in place of an input.
    let mut builder = builder;
    builder
        .make_initializer(floats("y", &[1, 3], &[1.0; 3]))
        .unwrap();
    let part = builder.extract(&["x", "z"], &["b"]).unwrap();
    assert_eq!(names(&part.graph().input), "x z");
    part.to_model().unwrap();
}

#[test]
fn a_node_that_makes_an_input_too() {
    let nodes = vec![node("Split", "x", "a b"), node("Add", "a b", "y")];
    let mut root = graph("x", nodes, "y");
    root.value_info = vec![value("a", float()), value("b", float())];
    let part = imported(model(root)).extract(&["x", "a"], &["y"]).unwrap();
    assert_eq!(listing(part.graph()), "Split(x) -> a_1, b; Add(a, b) -> y");
    part.to_model().unwrap();
}

#[test]
fn bindings_come_along_whole_or_not_at_all() {
    let nodes = vec![
        node("Add", "p1 x", "n1"),
        node("Mul", "p2 n1", "n2"),
        node("Neg", "n2", "y"),
    ];
    let mut root = graph("p1 p2 x", nodes, "n1 n2 y");
    root.persistent_bindings = vec![binding("p1", "n1"), binding("p2", "n2")];
    root.metadata_props = vec![
        entry("refeed.publish:p1", "once"),
        entry("refeed.publish:p2", "if_present"),
        entry("author", "somebody"),
    ];
    let whole = imported(model(root));
    let part = whole.extract(&["p1", "x"], &["n1"]).unwrap();
    assert_eq!(part.persistent_bindings(), [binding("p1", "n1")]);
    assert_eq!(
        part.graph().metadata_props,
        [
            entry("refeed.publish:p1", "once"),
            entry("author", "somebody")
        ]
    );
    part.to_model().unwrap();
    let part = whole.extract(&["n2"], &["y"]).unwrap();
    assert!(part.persistent_bindings().is_empty());
    part.to_model().unwrap();
    let refused = whole.extract(&["p2", "n1"], &["y"]).unwrap_err();
    assert!(matches!(
        refused,
        BuildError::BindingCut { lost: "output", .. }
    ));
    assert!(
        refused
            .to_string()
            .starts_with("persistent binding `p2` -> `n2` would lose its output:")
    );
    let refused = whole.extract(&["n1"], &["n1"]).unwrap_err();
    assert!(matches!(
        refused,
        BuildError::BindingCut { lost: "input", .. }
    ));
}

#[test]
fn cache_initializers_come_along() {
    let mut root = graph("", vec![node("Identity", "past", "present")], "");
    root.input = vec![value("past", category())];
    root.output = vec![value("present", category())];
    root.paged_cache_initializer = vec![cache("past"), cache("unread")];
    let part = imported(model(root))
        .extract(&["past"], &["present"])
        .unwrap();
    assert_eq!(part.paged_cache_initializers(), [cache("past")]);
    part.to_model().unwrap();
}
