//! What the verifier and the checker ask for beyond a session.

use super::*;
use refeed_proto::{StringStringEntryProto, ValueInfoProto, type_proto};

fn verdict(model: &ModelProto, rules: Rules) -> Result<(), String> {
    validate(model, Some(&ExternalData::none()), rules)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Refused by the checker alone.
#[track_caller]
fn checker_refuses(model: &ModelProto, part: &str) {
    assert_eq!(verdict(model, Rules::Verifier), Ok(()));
    let text = verdict(model, Rules::CHECKER).expect_err("the checker must refuse");
    assert!(text.contains(part), "{text}");
}

#[track_caller]
fn checker_accepts(model: &ModelProto) {
    assert_eq!(verdict(model, Rules::CHECKER), Ok(()));
}

fn plain() -> ModelProto {
    chain(vec![node("Neg", "x", "y")])
}

/// Rule 3.11.4.
#[test]
fn tensors_of_the_root_graph_state_a_shape() {
    let mut model = plain();
    checker_accepts(&model);
    let value: &mut ValueInfoProto = &mut model.graph.as_mut().unwrap().input[0];
    if let Some(type_proto::Value::TensorType(tensor)) = &mut value.r#type.as_mut().unwrap().value {
        tensor.shape = None;
    }
    assert_eq!(verdict(&model, Rules::Session), Ok(()));
    for rules in [Rules::Verifier, Rules::CHECKER] {
        assert_eq!(
            verdict(&model, rules),
            Err(
                "graph.input[0] \"x\".type.tensor_type.shape: expected a shape, got none"
                    .to_string()
            )
        );
    }
}

#[test]
fn the_checker_asks_for_an_ir_version() {
    let model = ModelProto {
        ir_version: None,
        ..plain()
    };
    checker_refuses(&model, "ir_version: expected 1 to 14, got 0");
}

#[test]
fn the_checker_asks_for_metadata_keys_of_their_own() {
    let entry = |key: &str| StringStringEntryProto {
        key: Some(key.to_string()),
        value: None,
    };
    let with = |keys: [&str; 2]| ModelProto {
        metadata_props: keys.iter().map(|key| entry(key)).collect(),
        ..plain()
    };
    checker_accepts(&with(["a", "b"]));
    checker_refuses(
        &with(["a", "a"]),
        "metadata_props[1]: key `a` is defined more than once",
    );
}

#[test]
fn before_ir_version_3_operator_sets_were_not_imported() {
    let old = |imports| ModelProto {
        ir_version: Some(2),
        opset_import: imports,
        ..plain()
    };
    assert_eq!(verdict(&old(vec![]), Rules::Session), Ok(()));
    checker_refuses(
        &old(vec![opset("", 1)]),
        "none before IR version 3, as the model's is 2",
    );
}

#[test]
fn the_checker_asks_for_names_of_graphs() {
    let mut model = plain();
    model.graph.as_mut().unwrap().name = None;
    checker_refuses(&model, "graph: expected a name for the graph");
    let unnamed = GraphProto {
        name: None,
        ..graph("", vec![node("Neg", "x", "u")], "u")
    };
    let other = graph("", vec![node("Neg", "x", "v")], "v");
    checker_refuses(
        &chain(vec![branches(unnamed, other, "y")]),
        "attribute[\"then_branch\"].g: expected a name for the graph",
    );
}

#[test]
fn the_checker_asks_for_nodes_that_are_connected() {
    checker_refuses(
        &chain(vec![call("mine", "Op", "", ""), node("Neg", "x", "y")]),
        "graph.node[0] (mine::Op): expected an input or an output, got neither",
    );
}

#[test]
fn before_ir_version_4_initializers_were_inputs() {
    let with = |version| {
        let mut model = plain();
        model.ir_version = Some(version);
        let weights = floats("w", &[1], &[0.5]);
        model.graph.as_mut().unwrap().initializer.push(weights);
        model
    };
    checker_accepts(&with(4));
    checker_refuses(
        &with(3),
        "graph.initializer[0] \"w\": expected the name of a graph input",
    );
    let mut named = with(3);
    named.graph.as_mut().unwrap().initializer[0].name = Some("x".to_string());
    checker_accepts(&named);
}

#[test]
fn the_checker_lets_no_nested_graph_write_an_outer_name() {
    let with = |inner: &str, outer: &str| {
        let branch = |out: &str| graph("", vec![node("Neg", "x", out)], out);
        chain(vec![
            node("Abs", "x", outer),
            branches(branch(inner), branch("v"), "y"),
        ])
    };
    checker_accepts(&with("u", "t"));
    checker_refuses(
        &with("t", "t"),
        "attribute[\"then_branch\"].g.node[0] (Neg).output[0]: value `t` is defined more than once, \
         before by graph.node[0] (Abs)",
    );
    // A name that is written later is not there yet; an input of a body may have any name.
    let mut later = with("w", "t");
    let nodes = &mut later.graph.as_mut().unwrap().node;
    nodes.push(node("Abs", "x", "w"));
    checker_accepts(&later);
    let body = graph(
        "i c x",
        vec![node("Neg", "x", "x_out"), node("Identity", "c", "c_out")],
        "c_out x_out",
    );
    checker_accepts(&chain(vec![
        node("Loop", "cond cond x", "y").with(graph_attribute("body", body)),
    ]));
}

#[test]
fn the_checker_lets_no_nested_graph_give_an_outer_value() {
    let inner = graph("", vec![node("Neg", "x", "u")], "u");
    let through = graph("", vec![], "x");
    checker_refuses(
        &chain(vec![branches(inner, through, "y")]),
        "attribute[\"else_branch\"].g.output[0] \"x\": output `x` is defined nowhere",
    );
}

#[test]
fn the_checker_asks_for_names_of_opaque_types() {
    let with = |name: &str| {
        let mut model = plain();
        let opaque = type_proto::Opaque {
            domain: None,
            name: Some(name.to_string()),
        };
        let ty = of_value(type_proto::Value::OpaqueType(opaque));
        model.graph.as_mut().unwrap().input.push(value("z", ty));
        model
    };
    checker_accepts(&with("thing"));
    checker_refuses(
        &with(""),
        "graph.input[2] \"z\".type.opaque_type.name: expected a name",
    );
}

#[test]
fn the_checker_asks_for_domains_of_functions_and_bounds_their_number() {
    let with = |function: FunctionProto| ModelProto {
        functions: vec![function],
        ..plain()
    };
    let good = || function("f", "x", vec![node("Neg", "x", "y")], "y");
    checker_accepts(&with(good()));
    checker_refuses(
        &with(FunctionProto {
            domain: None,
            ..good()
        }),
        "functions[\"ai.onnx::f\"].domain: expected a domain, got none",
    );
    let many = ModelProto {
        functions: (0..10_001)
            .map(|index| FunctionProto {
                name: Some(format!("f{index}")),
                ..good()
            })
            .collect(),
        ..plain()
    };
    checker_refuses(
        &many,
        "functions: functions: expected at most 10000, got 10001",
    );
}

#[test]
fn the_checker_asks_for_zeros_past_the_last_six_bits() {
    let with = |last| {
        let mut model = plain();
        model.graph.as_mut().unwrap().initializer.push(TensorProto {
            name: Some("w".to_string()),
            data_type: Some(27),
            dims: vec![3],
            raw_data: Some(Bytes::from(vec![0xFF, 0xFF, last])),
            ..TensorProto::default()
        });
        model
    };
    checker_accepts(&with(0x03));
    checker_refuses(
        &with(0x07),
        "graph.initializer[0] \"w\".raw_data: expected 0 in the bits past the last element, got 0b00000111",
    );
}
