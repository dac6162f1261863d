use super::*;

#[test]
fn l3_the_domain_of_every_node_is_imported() {
    refused(
        chain(vec![call("other", "Op", "x", "y")]),
        &[
            "graph.node[0] (other::Op)",
            "`other` is not imported",
            "ai.onnx, mine",
        ],
    );
    // An unknown operator of an imported domain is the session's business.
    accepted(chain(vec![call("mine", "Op", "x", "y")]));
    accepted(chain(vec![node("NoSuchOperator", "x", "y")]));
    accepted(chain(vec![call("ai.onnx", "Neg", "x", "y")]));
}

#[test]
fn arity_is_held_to_the_schema_where_one_is_known() {
    refused(
        chain(vec![node("Concat", "", "y").with(int("axis", 0))]),
        &["graph.node[0] (Concat): expected at least 1 inputs, got 0"],
    );
    refused(
        chain(vec![node("Transpose", "x x", "y")]),
        &["graph.node[0] (Transpose)", "inputs, got 2"],
    );
    accepted(chain(vec![node("Transpose", "x _", "y")]));
    let mut model = chain(vec![call("mine", "f", "x x", "y")]);
    model
        .functions
        .push(function("f", "a", vec![node("Neg", "a", "b")], "b"));
    refused(
        model,
        &["graph.node[0] (mine::f): expected 0 to 1 inputs, got 2"],
    );
}
