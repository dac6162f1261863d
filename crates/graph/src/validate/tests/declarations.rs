use super::*;

/// Rule 3.11.4.
#[test]
fn declarations_say_a_type() {
    let with = |ty| {
        let mut model = accumulate();
        model.graph.as_mut().unwrap().persistent_bindings.clear();
        model.graph.as_mut().unwrap().input[1].r#type = ty;
        model
    };
    refused(
        with(None),
        &["graph.input[1] \"delta\".type: expected a type, got none"],
    );
    refused(
        with(Some(tensor_type(0, "2"))),
        &["graph.input[1] \"delta\".type.tensor_type.elem_type: expected an element type, got 0"],
    );
    refused(with(Some(tensor_type(99, "2"))), &["got 99"]);
    refused(
        with(Some(tensor_type(FLOAT, "2 -5"))),
        &["type.tensor_type.shape.dim[1]", "got -5"],
    );
    let map = refeed_proto::type_proto::Map {
        key_type: Some(FLOAT),
        value_type: Some(Box::new(tensor_type(FLOAT, ""))),
    };
    refused(
        with(Some(of_value(refeed_proto::type_proto::Value::MapType(
            Box::new(map),
        )))),
        &["map keys", "FLOAT"],
    );
}
