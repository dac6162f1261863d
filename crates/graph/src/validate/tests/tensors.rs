use super::*;

#[test]
fn m5_m12_tensors_hold_what_they_declare() {
    let with = |tensor: TensorProto| {
        let mut graph = graph("x", vec![node("Neg", "x", "y")], "y");
        graph.initializer.push(tensor);
        model(graph)
    };
    let good = || floats("w", &[2, 3], &[0.0; 6]);
    accepted(with(good()));
    refused(
        with(TensorProto {
            dims: vec![128],
            ..good()
        }),
        &["tensor `w`", "512", "24"],
    );
    refused(
        with(TensorProto {
            dims: vec![-2, -3],
            ..good()
        }),
        &["tensor `w`", "-2"],
    );
    refused(
        with(TensorProto {
            dims: vec![i64::MAX, i64::MAX],
            ..good()
        }),
        &["tensor `w`"],
    );
    refused(
        with(TensorProto {
            raw_data: Some(Bytes::from_static(&[0; 7])),
            ..good()
        }),
        &["tensor `w`", "24", "7"],
    );
    refused(
        with(TensorProto {
            float_data: vec![0.0; 6],
            ..good()
        }),
        &["raw_data", "float_data"],
    );
    for number in [0, 99, -1] {
        refused(
            with(TensorProto {
                data_type: Some(number),
                ..good()
            }),
            &["tensor `w`", &number.to_string()],
        );
    }
    let text = |count| TensorProto {
        name: Some("w".to_string()),
        data_type: Some(STRING),
        dims: vec![2],
        string_data: vec![Bytes::from_static(b"\xFF\x00"); count],
        ..Default::default()
    };
    accepted(with(text(2)));
    refused(with(text(3)), &["tensor `w`", "2 elements", "got 3"]);
    // A tensor attribute of a nested graph is held to the same.
    let value = AttributeProto {
        t: Some(Box::new(TensorProto {
            dims: vec![5],
            ..good()
        })),
        ..attribute("value", AttributeType::Tensor)
    };
    let inner = graph("", vec![node("Constant", "", "u").with(value)], "u");
    refused(
        chain(vec![branches(inner, graph("", vec![], "x"), "y")]),
        &["tensor `w`", "20", "24"],
    );
}
