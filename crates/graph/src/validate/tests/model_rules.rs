use super::*;

/// Rule 3.11.1.
#[test]
fn l3_a_model_needs_a_graph_and_operator_sets() {
    refused(
        ModelProto {
            graph: None,
            ..accumulate()
        },
        &["no graph"],
    );
    refused(
        ModelProto {
            opset_import: vec![],
            ..accumulate()
        },
        &["at least one opset import"],
    );
    let twice = vec![opset("", 18), opset("ai.onnx", 19)];
    refused(
        ModelProto {
            opset_import: twice,
            ..accumulate()
        },
        &["`ai.onnx` is imported more than once"],
    );
    refused(
        ModelProto {
            opset_import: vec![opset("", 0)],
            ..accumulate()
        },
        &["expected 1 or more, got 0"],
    );
    refused(
        ModelProto {
            ir_version: Some(15),
            ..accumulate()
        },
        &["expected 1 to 14, got 15"],
    );
    accepted(ModelProto {
        ir_version: Some(14),
        ..accumulate()
    });
    assert_eq!(
        load(ModelProto {
            ir_version: None,
            ..accumulate()
        })
        .unwrap()
        .warnings()
        .len(),
        1
    );
}

#[test]
fn bindings_are_judged_before_the_rest() {
    let mut model = accumulate();
    model.graph.as_mut().unwrap().persistent_bindings[0].output_name = Some("nothing".to_string());
    model.opset_import.clear();
    refused(model, &["exact", "input/output"]);
}

#[test]
fn validation_is_linear_in_the_number_of_nodes() {
    let long = |count: usize| {
        let name = |i: usize| {
            if i == 0 {
                "x".to_string()
            } else if i == count {
                "y".to_string()
            } else {
                format!("t{i}")
            }
        };
        chain(
            (0..count)
                .map(|i| node("Neg", &name(i), &name(i + 1)))
                .collect(),
        )
    };
    let start = Instant::now();
    accepted(long(100_000));
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    // The worst order: every node before the one it needs.
    let mut reversed = long(20_000);
    reversed.graph.as_mut().unwrap().node.reverse();
    let start = Instant::now();
    refused(reversed, &["is used before"]);
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
}
