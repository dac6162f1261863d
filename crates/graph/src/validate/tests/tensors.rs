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

#[test]
fn strings_have_one_field_for_their_elements() {
    let verdict = |tensor: TensorProto| {
        PartVerifier::default()
            .check_tensor(&tensor)
            .map_err(|error| error.to_string())
    };
    let text = || TensorProto {
        data_type: Some(STRING),
        dims: vec![2],
        string_data: vec![Bytes::from_static(b"a"); 2],
        ..TensorProto::default()
    };
    assert_eq!(verdict(text()), Ok(()));
    let raw = Some(Bytes::from_static(b"ab"));
    for tensor in [
        TensorProto {
            raw_data: raw.clone(),
            ..text()
        },
        TensorProto {
            raw_data: raw,
            string_data: vec![],
            ..text()
        },
        TensorProto {
            data_location: Some(1),
            string_data: vec![],
            ..text()
        },
        TensorProto {
            int32_data: vec![1, 2],
            ..text()
        },
    ] {
        let text = verdict(tensor).unwrap_err();
        assert!(text.contains("string_data"), "{text}");
    }
}

#[test]
fn tensors_in_other_files_are_held_to_their_entries_where_no_folder_is_known() {
    let external = |entries: &[(&str, &str)]| TensorProto {
        raw_data: None,
        data_location: Some(1),
        external_data: entries
            .iter()
            .map(|(key, value)| refeed_proto::StringStringEntryProto {
                key: Some(key.to_string()),
                value: Some(value.to_string()),
            })
            .collect(),
        ..floats("w", &[2, 3], &[0.0; 6])
    };
    let verdict = |entries: &[(&str, &str)]| {
        PartVerifier::default()
            .check_tensor(&external(entries))
            .map_err(|error| error.to_string())
    };
    assert_eq!(verdict(&[("location", "w.bin"), ("length", "24")]), Ok(()));
    assert_eq!(verdict(&[("location", "w.bin")]), Ok(()));
    for (entries, part) in [
        (vec![("length", "24")], "names no file"),
        (vec![("location", "a/../w")], "`..` part"),
        (
            vec![("location", "w"), ("length", "23")],
            "expected 24 bytes",
        ),
        (vec![("location", "w"), ("offset", "x")], "got `x`"),
        (vec![("location", "w"), ("location", "v")], "more than once"),
    ] {
        let text = verdict(&entries).unwrap_err();
        assert!(text.contains(part), "{text}");
    }
    // A model that is loaded knows its folder, or knows that there is none.
    let mut model = chain(vec![node("Neg", "x", "y")]);
    let entries = [("location", "w.bin"), ("length", "24")];
    model
        .graph
        .as_mut()
        .unwrap()
        .initializer
        .push(external(&entries));
    assert!(validate(&model, None, Rules::Verifier).is_ok());
    refused(
        model,
        &["graph.initializer[0] \"w\": tensor `w`", "no folder"],
    );
}
