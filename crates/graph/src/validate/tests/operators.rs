//! Nodes against the one imported version of their operator. `tests/python` compares the same with the `onnx` package.

use super::*;

fn checked(nodes: Vec<NodeProto>, version: i64) -> Result<(), String> {
    let model = ModelProto {
        opset_import: vec![
            opset("", version),
            opset("mine", 1),
            opset("com.microsoft", 1),
        ],
        ..chain(nodes)
    };
    validate(&model, Some(&ExternalData::none()), Rules::CHECKER)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn faulty(node: NodeProto, version: i64, expected: &str) {
    assert_eq!(checked(vec![node], version), Err(expected.to_string()));
}

#[track_caller]
fn fits(node: NodeProto, version: i64) {
    assert_eq!(checked(vec![node], version), Ok(()));
}

#[test]
fn operators_are_those_of_the_imported_set() {
    fits(node("Gelu", "x", "y"), 20);
    faulty(
        node("Gelu", "x", "y"),
        19,
        "graph.node[0] (Gelu).op_type: expected an operator of ai.onnx of version 19, got `Gelu`",
    );
    // Operators of trial had no schema; other domains are their owners' business.
    fits(node("ScaledTanh", "x", "y"), 8);
    fits(call("mine", "Op", "x", "y"), 18);
}

#[test]
fn operators_are_not_deprecated() {
    fits(node("Scatter", "x x x", "y"), 10);
    faulty(
        node("Scatter", "x x x", "y"),
        11,
        "graph.node[0] (Scatter).op_type: expected an operator that is not deprecated, \
         got ai.onnx::Scatter of version 11, deprecated since 11",
    );
}

#[test]
fn numbers_of_inputs_and_outputs_are_the_versions() {
    fits(node("Clip", "x", "y"), 6);
    fits(node("Clip", "x x x", "y"), 13);
    faulty(
        node("Clip", "x x x", "y"),
        6,
        "graph.node[0] (Clip): expected 1 inputs, got 3",
    );
    fits(node("Concat", "x x x x", "y").with(int("axis", 0)), 18);
    faulty(
        node("Split", "x", "").with(int("axis", 0)),
        18,
        "graph.node[0] (Split): expected at least 1 outputs, got 0",
    );
}

#[test]
fn required_inputs_and_outputs_are_named() {
    fits(node("Clip", "x _ x", "y"), 13);
    faulty(
        node("Clip", "_ x x", "y"),
        13,
        "graph.node[0] (Clip).input[0]: expected a name, got an empty one",
    );
    faulty(
        node("TopK", "x x", "_ y"),
        11,
        "graph.node[0] (TopK).output[0]: expected a name, got an empty one",
    );
    // A session asks for the inputs as well, by the imported version: in 8 `Scan` began with an optional one.
    refused(
        chain(vec![node("Clip", "_ x x", "y")]),
        &["graph.node[0] (Clip).input[0]: expected a name, as the operator asks for this input"],
    );
}

#[test]
fn attributes_are_the_versions_and_of_their_types() {
    let with = |attribute| node("Squeeze", "x", "y").with(attribute);
    let axes = || AttributeProto {
        ints: vec![0],
        ..attribute("axes", AttributeType::Ints)
    };
    fits(with(axes()), 11);
    faulty(
        with(axes()),
        13,
        "graph.node[0] (Squeeze).attribute[\"axes\"]: expected no attribute, \
         as ai.onnx::Squeeze of version 13 has none, got `axes`",
    );
    faulty(
        with(int("axes", 0)),
        11,
        "graph.node[0] (Squeeze).attribute[\"axes\"].type: expected INTS, got INT",
    );
    faulty(
        with(int("axis", 0)),
        11,
        "graph.node[0] (Squeeze).attribute[\"axis\"]: expected an attribute of \
         ai.onnx::Squeeze of version 11: axes, got `axis`",
    );
    // Names that start with two underscores are nobody's.
    fits(with(int("__origin", 7)), 13);
}

#[test]
fn required_attributes_are_there() {
    fits(node("Cast", "x", "y").with(int("to", 1)), 13);
    faulty(
        node("Cast", "x", "y"),
        13,
        "graph.node[0] (Cast).attribute[\"to\"]: expected INT, which ai.onnx::Cast of version 13 asks for, got none",
    );
}

#[test]
fn functions_mean_the_operators_of_the_model() {
    let with = |operator: &str, imported: i64| {
        let body = vec![node(operator, "x", "y")];
        let function = FunctionProto {
            opset_import: vec![opset("", imported)],
            ..function("f", "x", body, "y")
        };
        ModelProto {
            functions: vec![function],
            ..chain(vec![call("mine", "f", "x", "y")])
        }
    };
    let verdict = |model: &ModelProto, rules| {
        validate(model, Some(&ExternalData::none()), rules)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    // The model imports 18: `Neg` changed in 13, `Softmax` too.
    assert_eq!(verdict(&with("Neg", 13), Rules::CHECKER), Ok(()));
    assert_eq!(verdict(&with("Softmax", 17), Rules::CHECKER), Ok(()));
    let old = with("Softmax", 12);
    assert_eq!(
        verdict(&old, Rules::CHECKER),
        Err(
            "functions[\"mine::f\"].node[0] (Softmax).op_type: expected version 13, as in the model's \
             operator set 18, got version 11, as in the function's operator set 12"
                .to_string()
        )
    );
    let skipping = Rules::Checker(Checker {
        skip_opset_compatibility: true,
        ..Checker::default()
    });
    assert_eq!(verdict(&old, skipping), Ok(()));
    assert_eq!(verdict(&old, Rules::Verifier), Ok(()));
}

#[test]
fn a_schema_is_asked_for_in_every_domain_when_the_caller_wishes() {
    let all = Rules::Checker(Checker {
        custom_domains: true,
        ..Checker::default()
    });
    let verdict = |node| {
        let model = ModelProto {
            opset_import: vec![opset("", 18), opset("mine", 1), opset("com.microsoft", 1)],
            ..chain(vec![node])
        };
        validate(&model, Some(&ExternalData::none()), all)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        verdict(call("mine", "Op", "x", "y")),
        Err(
            "graph.node[0] (mine::Op).op_type: expected an operator of mine of version 1, got `Op`"
                .to_string()
        )
    );
    // Operators that are known here are known.
    let known = crate::ops::all().find(|schema| schema.domain == "com.microsoft");
    let known = known.expect("a schema of another domain").op_type;
    let refused = verdict(call("com.microsoft", known, "x", "y"));
    assert!(!refused.is_err_and(|text| text.contains("op_type")));
}
