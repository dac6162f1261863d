//! Parts of a model that are checked by themselves.

use super::*;
use refeed_proto::StructTypeProto;

fn text<T>(verdict: Result<T, ModelError>) -> String {
    match verdict {
        Ok(_) => "accepted".to_string(),
        Err(error) => error.to_string(),
    }
}

fn verifier() -> PartVerifier {
    PartVerifier::default()
}

#[test]
fn a_node_needs_no_graph_but_its_nested_graphs_need_their_names() {
    assert_eq!(
        text(verifier().check_node(&node("Add", "a b", "c"))),
        "accepted"
    );
    let inner = graph("", vec![node("Neg", "a", "u")], "u");
    let whole = branches(inner, graph("", vec![node("Neg", "b", "v")], "v"), "y");
    let in_it = |names: &[&str]| {
        let names = names.iter().map(|name| name.to_string());
        text(verifier().nested(names).check_node(&whole))
    };
    assert_eq!(in_it(&["a", "b"]), "accepted");
    assert_eq!(
        in_it(&["a"]),
        "node (If).attribute[\"else_branch\"].g.node[0] (Neg).input[0]: input `b` is defined nowhere"
    );
    // Attributes of a function that is not there are taken on trust.
    let refers = node("Op", "a", "b").with(reference("axis", AttributeType::Int, "k"));
    assert_eq!(text(verifier().check_node(&refers)), "accepted");
    let only = |domain: &str| {
        let imports = [(domain.to_string(), 13)];
        text(
            verifier()
                .with_opset_imports(imports)
                .check_node(&node("Add", "a b", "c")),
        )
    };
    assert_eq!(only("ai.onnx"), "accepted");
    assert_eq!(
        only("mine"),
        "node (Add): domain `ai.onnx` is not imported; imported: mine"
    );
}

#[test]
fn an_attribute_is_checked_with_its_graphs() {
    assert_eq!(
        text(verifier().check_attribute(&int("axis", 1))),
        "accepted"
    );
    let inner = graph("x", vec![node("Neg", "q", "u")], "u");
    assert_eq!(
        text(verifier().check_attribute(&graph_attribute("body", inner))),
        "attribute[\"body\"].g.node[0] (Neg).input[0]: input `q` is defined nowhere"
    );
}

#[test]
fn a_function_is_checked_by_its_own_imports() {
    let good = function("f", "x", vec![node("Neg", "x", "y")], "y");
    assert_eq!(text(verifier().check_function(&good)), "accepted");
    let broken = function("f", "x", vec![node("Neg", "q", "y")], "y");
    assert_eq!(
        text(verifier().check_function(&broken)),
        "functions[\"mine::f\"].node[0] (Neg).input[0]: input `q` is defined nowhere"
    );
}

/// Rule 3.1.1.
#[test]
fn s101_a_root_graph_is_checked_with_its_bindings_and_a_nested_one_has_none() {
    let bound = accumulate().graph.unwrap();
    assert_eq!(text(verifier().check_graph(&bound)), "accepted");
    let nested = verifier().nested([]);
    let refused = text(nested.check_graph(&bound));
    assert!(refused.contains("root graph"), "{refused}");
    assert_eq!(
        text(nested.check_graph(&graph("x", vec![], "x"))),
        "accepted"
    );
    // The rule of one use is the verifier's as well.
    let mut twice = bound.clone();
    twice.node.push(node("Neg", "past", "other"));
    let refused = text(verifier().check_graph(&twice));
    assert!(
        refused.contains("`past` must be used exactly once, got 2"),
        "{refused}"
    );
    let mut unknown = bound;
    unknown.persistent_bindings[0].input_name = Some("nothing".to_string());
    assert!(text(verifier().check_graph(&unknown)).contains("exact"));
}

#[test]
fn value_infos_of_nested_graphs_may_have_no_type() {
    let typed = value("x", tensor_type(FLOAT, "2"));
    let untyped = refeed_proto::ValueInfoProto {
        r#type: None,
        ..typed.clone()
    };
    assert_eq!(text(verifier().check_value_info(&typed)), "accepted");
    assert_eq!(
        text(verifier().check_value_info(&untyped)),
        "value_info.type: expected a type, got none"
    );
    assert_eq!(
        text(verifier().nested([]).check_value_info(&untyped)),
        "accepted"
    );
    let unnamed = refeed_proto::ValueInfoProto {
        name: None,
        ..typed
    };
    let refused = text(verifier().nested([]).check_value_info(&unnamed));
    assert!(refused.contains("expected a name"), "{refused}");
}

#[test]
fn tensors_and_struct_types_stand_alone() {
    assert_eq!(
        text(verifier().check_tensor(&floats("", &[2], &[0.5; 2]))),
        "accepted"
    );
    assert!(text(verifier().check_tensor(&floats("", &[3], &[0.5; 2]))).starts_with("tensor: "));
    let declared = StructTypeProto::default();
    assert_eq!(text(verifier().check_struct_type(&declared)), "accepted");
    let named = StructTypeProto {
        type_id: Some(3),
        ..declared
    };
    assert!(text(verifier().check_struct_type(&named)).starts_with("struct_type.type_id"));
}

#[test]
fn deep_parts_are_refused_without_recursion() {
    let mut inner = graph("", vec![node("Neg", "x", "leaf")], "leaf");
    for level in 0..2_000 {
        let name = format!("y{level}");
        let attribute = graph_attribute("then_branch", inner);
        inner = graph("", vec![node("If", "cond", &name).with(attribute)], &name);
    }
    let check = move || {
        let verdicts = [
            text(verifier().check_node(&inner.node[0])),
            text(verifier().check_attribute(&inner.node[0].attribute[0])),
            text(verifier().check_graph(&inner)),
        ];
        for verdict in verdicts {
            assert!(
                verdict.contains("nested graphs: expected at most 64"),
                "{verdict}"
            );
            assert!(verdict.len() < 4096);
        }
        // Dropping nested messages recurses in prost's structs.
        std::mem::forget(inner);
    };
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(check)
        .unwrap()
        .join()
        .unwrap();
}
