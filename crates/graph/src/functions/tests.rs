use super::*;
use crate::testing::*;
use refeed_proto::attribute_proto::AttributeType;

fn scaled() -> FunctionProto {
    let body = vec![
        node("Scale", "x", "t").with(reference("factor", AttributeType::Int, "k")),
        node("Clip", "t", "y")
            .with(reference("limit", AttributeType::Int, "most"))
            .with(int("fixed", 3)),
    ];
    let mut function = function("scaled", "x", body, "y");
    function.attribute = vec!["k".to_string()];
    function.attribute_proto = vec![int("most", 9)];
    function
}

#[test]
fn functions_are_found_by_domain_name_and_overload() {
    let mut overload = scaled();
    overload.overload = Some("wide".to_string());
    let mut default_domain = scaled();
    default_domain.domain = Some("ai.onnx".to_string());
    let list = [scaled(), overload, default_domain];
    let table = FunctionTable::new(&list).unwrap();
    assert_eq!(table.find("mine", "scaled", ""), Some(0));
    assert_eq!(table.find("mine", "scaled", "wide"), Some(1));
    assert_eq!(table.find("", "scaled", ""), Some(2));
    assert_eq!(table.find("other", "scaled", ""), None);
    assert_eq!(
        table.get("mine", "scaled", "wide").unwrap().overload(),
        "wide"
    );
    let twice = [scaled(), scaled()];
    assert!(
        FunctionTable::new(&twice)
            .unwrap_err()
            .to_string()
            .contains("`mine::scaled` is defined more than once")
    );
}

#[test]
fn references_become_the_values_of_the_call_or_the_defaults() {
    let given = instantiate(
        &scaled(),
        &call("mine", "scaled", "a", "b").with(int("k", 5)),
    )
    .unwrap();
    assert_eq!(given[0].attribute, [int("factor", 5)]);
    assert_eq!(given[1].attribute, [int("limit", 9), int("fixed", 3)]);
    assert_eq!(
        (given[0].input.as_slice(), given[1].output.as_slice()),
        (&["x".to_string()][..], &["y".to_string()][..])
    );
    let call_with = call("mine", "scaled", "a", "b").with(int("most", -1));
    let given = instantiate(&scaled(), &call_with).unwrap();
    assert_eq!(
        given[0].attribute,
        [],
        "an attribute without value and default is left out"
    );
    assert_eq!(given[1].attribute, [int("limit", -1), int("fixed", 3)]);
}

#[test]
fn references_in_nested_graphs_are_replaced_too() {
    let inner = graph(
        "",
        vec![node("Scale", "x", "u").with(reference("factor", AttributeType::Int, "k"))],
        "u",
    );
    let middle = graph("", vec![branches(inner.clone(), inner, "v")], "v");
    let mut function = scaled();
    function.node = vec![branches(middle.clone(), middle, "y")];
    let nodes = instantiate(
        &function,
        &call("mine", "scaled", "a", "b").with(int("k", 6)),
    )
    .unwrap();
    let branch =
        |node: &NodeProto, index: usize| node.attribute[index].g.as_ref().unwrap().node[0].clone();
    for (outer, inner) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        assert_eq!(
            branch(&branch(&nodes[0], outer), inner).attribute,
            [int("factor", 6)]
        );
    }
}

#[test]
fn wrong_calls_are_refused() {
    let refused = |function: &FunctionProto, call: NodeProto| {
        instantiate(function, &call).unwrap_err().to_string()
    };
    let text = refused(
        &scaled(),
        call("mine", "scaled", "a", "b").with(int("q", 5)),
    );
    assert!(
        text.contains("function `mine::scaled` has no attribute `q`"),
        "{text}"
    );
    let text = refused(&scaled(), call("mine", "scaled", "a b", "c"));
    assert!(text.contains("expected at most 1 inputs, got 2"), "{text}");
    let text = refused(&scaled(), call("mine", "scaled", "a", "b c"));
    assert!(text.contains("expected at most 1 outputs, got 2"), "{text}");
    let wrong = AttributeProto {
        f: Some(1.5),
        ..attribute("k", AttributeType::Float)
    };
    let text = refused(&scaled(), call("mine", "scaled", "a", "b").with(wrong));
    assert!(text.contains("expected INT, got FLOAT"), "{text}");
    let mut stray = scaled();
    stray.attribute.clear();
    let text = refused(&stray, call("mine", "scaled", "a", "b"));
    assert!(
        text.contains("refers to `k`, which the function does not declare"),
        "{text}"
    );
}
