use super::*;
use crate::builder::BuildError;

#[test]
fn readers_read_another_value() {
    let branch = |value: &str| graph("", vec![node("Neg", "a", value)], value);
    let mut builder = of(
        "x cond",
        vec![
            node("Neg", "x", "a"),
            node("Exp", "a", "b"),
            branches(branch("t"), branch("e"), "c"),
            node("Add", "a b", "y"),
        ],
        "y c a",
    );
    builder
        .make_node(NewNode::new("Abs").inputs(["a"]).output("new"))
        .unwrap();
    assert_eq!(builder.replace_all_uses("a", "new").unwrap(), 3);
    assert_eq!(
        listing(builder.graph()),
        "Neg(x) -> a; Abs(a) -> new; Exp(new) -> b; If(cond) -> c; Add(new, b) -> y"
    );
    let inner = builder.graph().node[3].attribute[1].g.as_deref().unwrap();
    assert_eq!(listing(inner), "Neg(new) -> e");
    // The output of that name is still that value.
    assert_eq!(names(&builder.graph().output), "y c a");
    assert_eq!(builder.producer("b"), Some(2));
    builder.to_model().unwrap();
    assert_eq!(builder.replace_all_uses("b", "b").unwrap(), 0);
    assert!(matches!(
        builder.replace_all_uses("b", "t").unwrap_err(),
        BuildError::Missing { .. }
    ));
}

#[test]
fn a_nested_value_of_the_new_name_is_in_the_way() {
    let own = || graph("", vec![node("Neg", "a", "b")], "b");
    let mut builder = of(
        "a b cond",
        vec![branches(own(), own(), "y"), node("Add", "a b", "z")],
        "y z",
    );
    let refused = builder.replace_all_uses("a", "b").unwrap_err().to_string();
    assert_eq!(
        refused,
        "node 0 (If) has its own value `b`, which would hide the one of the root graph; rename one of them"
    );
    assert_eq!(listing(builder.graph()), "If(cond) -> y; Add(a, b) -> z");
}

#[test]
fn one_node_for_another() {
    let mut builder = of("x", vec![node("Neg", "x", "a"), node("Exp", "a", "y")], "y");
    builder.replace_node(0, node("Abs", "x", "")).unwrap();
    assert_eq!(listing(builder.graph()), "Abs(x) -> a; Exp(a) -> y");
    assert!(matches!(
        builder.replace_node(7, node("Abs", "x", "")).unwrap_err(),
        BuildError::Missing { what: "node", .. }
    ));
    builder.to_model().unwrap();
}

#[test]
fn nodes_are_fused_and_split() {
    let mut builder = of(
        "x w b",
        vec![
            node("MatMul", "x w", "m"),
            node("Neg", "x", "n"),
            node("Add", "m b", "y"),
            node("Exp", "n", "z"),
        ],
        "y z",
    );
    builder.graph_mut().value_info.push(value("m", float()));
    builder
        .replace_nodes(&[2, 0], vec![node("Gemm", "x w b", "y")])
        .unwrap();
    assert_eq!(
        listing(builder.graph()),
        "Gemm(x, w, b) -> y; Neg(x) -> n; Exp(n) -> z"
    );
    assert!(builder.graph().value_info.is_empty() && !builder.has_value("m"));
    // The order is made right: the second new node needs what stands behind it.
    builder
        .replace_nodes(
            &[0],
            vec![node("Add", "late z", "y"), node("Mul", "x w", "late")],
        )
        .unwrap();
    assert_eq!(
        listing(builder.graph()),
        "Mul(x, w) -> late; Neg(x) -> n; Exp(n) -> z; Add(late, z) -> y"
    );
    assert_eq!(builder.producer("y"), Some(3));
    builder.to_model().unwrap();
}

#[test]
fn refused_replacements_change_nothing() {
    let branch = |value: &str| graph("", vec![node("Neg", "a", value)], value);
    let mut builder = of(
        "x cond",
        vec![
            node("Neg", "x", "a"),
            node("Exp", "a", "b"),
            branches(branch("t"), branch("e"), "y"),
        ],
        "y b",
    );
    let before = builder.proto().clone();
    let mut text = |removed: &[usize], added: Vec<NodeProto>| {
        builder
            .replace_nodes(removed, added)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        text(&[0, 1], vec![node("Exp", "x", "b")]),
        "removing its node leaves value `a` without a definition, but node 2 (If) reads it"
    );
    assert_eq!(
        text(&[1], vec![]),
        "removing its node leaves value `b` without a definition, but a graph output reads it"
    );
    assert_eq!(
        text(&[0], vec![node("Abs", "b", "a")]),
        "the edit makes a cycle: node 0 (Abs) -> node 1 (Exp) -> node 0 (Abs)"
    );
    assert_eq!(
        text(&[0], vec![node("Abs", "gone", "a")]),
        "node 0 (Abs): value `gone` is defined nowhere in the root graph; make it first"
    );
    assert!(
        text(&[0], vec![node("Abs", "x", "a"), node("Abs", "x", "a")]).contains("more than once")
    );
    assert!(
        text(&[0], vec![node("Abs", "x", "a"), node("Abs", "x", "b")])
            .contains("taken by node 1 (Exp)")
    );
    assert!(
        text(&[0], vec![node("Abs", "x", "a"), node("Abs", "x", "t")]).contains("a nested graph")
    );
    assert_eq!(builder.proto(), &before);
    builder.remove_node(2).unwrap_err();
    builder.remove_output("y").unwrap();
    builder.remove_node(2).unwrap();
    assert_eq!(listing(builder.graph()), "Neg(x) -> a; Exp(a) -> b");
}
