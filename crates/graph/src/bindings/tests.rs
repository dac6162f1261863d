use super::*;
use crate::testing::*;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::type_proto::Value;
use refeed_proto::{Bytes, Message, StringStringEntryProto, StructTypeProto};

fn verdict(model: &ModelProto) -> Result<Bindings, String> {
    let catalogue = StructTypes::new(model).map_err(|error| error.to_string())?;
    verify_persistent_bindings(model, &catalogue).map_err(|error| error.to_string())
}

fn refused(model: &ModelProto) -> String {
    verdict(model).expect_err("the bindings must be refused")
}

/// `past` of one type, `present` of another, bound.
fn bound(input: TypeProto, output: TypeProto) -> ModelProto {
    let mut model = accumulate();
    let graph = model.graph.as_mut().unwrap();
    graph.input[0] = value("past", input);
    graph.output[0] = value("present", output);
    model
}

/// Rule 3.1.9.
#[test]
fn s001_the_graph_declares_feedback_under_its_own_tag() {
    let model = accumulate();
    let bindings = verdict(&model).unwrap();
    assert_eq!(bindings.uses, BindingUses::One);
    let [binding] = bindings.list.as_slice() else {
        panic!("one binding")
    };
    assert_eq!((&*binding.input, &*binding.output), ("past", "present"));
    assert_eq!(
        (binding.input_index, binding.output_index, binding.publish),
        (0, 0, Publish::Always)
    );
    let wire = model.encode_to_vec();
    assert!(wire.windows(2).any(|tag| tag == [0xCA, 0x3E]));
}

/// Rule 3.1.4.
#[test]
fn s002_types_come_from_the_declarations_of_the_graph() {
    assert!(verdict(&bound(tensor_type(FLOAT, "2 3"), tensor_type(FLOAT, "2 3"))).is_ok());
    let text = refused(&bound(tensor_type(FLOAT, "2 3"), tensor_type(FLOAT, "2 5")));
    assert!(
        text.contains(
            "graph.output[0] \"present\".type: expected FLOAT[2, 3], got FLOAT[2, 5]: axis 1 is 3 and 5"
        ),
        "{text}"
    );
    assert!(
        text.contains("compatible tensor/struct/sequence types and declared dimensions"),
        "{text}"
    );
}

/// Rule 3.1.10.
#[test]
fn s057_retired_field_paths_are_refused_as_parts_of_values() {
    for side in 0..2 {
        let mut model = accumulate();
        let binding = &mut model.graph.as_mut().unwrap().persistent_bindings[0];
        let path = Some(Bytes::from_static(b"field"));
        if side == 0 {
            binding.retired_input_field_path = path;
        } else {
            binding.retired_output_field_path = path;
        }
        assert!(refused(&model).contains("whole"), "{}", refused(&model));
    }
}

/// Rule 3.1.2.
#[test]
fn s058_s059_names_are_literal() {
    for name in ["request.cache", "a\\b", "{past}", "é"] {
        let mut model = accumulate();
        let graph = model.graph.as_mut().unwrap();
        graph.input[0].name = Some(name.to_string());
        graph.node[0].input[0] = name.to_string();
        graph.persistent_bindings[0].input_name = Some(name.to_string());
        assert_eq!(&*verdict(&model).unwrap().list[0].input, name);
    }
    // The part before the dot is another input, never the whole of this one.
    let mut model = accumulate();
    model.graph.as_mut().unwrap().persistent_bindings[0].input_name =
        Some("past.cache".to_string());
    assert!(refused(&model).contains("exact"));
}

/// Rule 3.1.2.
#[test]
fn s060_s089_unknown_empty_and_untyped_names_are_refused() {
    for (input, output, why) in [
        (
            "nothing",
            "present",
            "input `nothing`, which is not declared",
        ),
        ("past", "nothing", "output `nothing`, which is not declared"),
        ("", "present", "input ``, which is empty"),
        ("past", "", "output ``, which is empty"),
        // An output is no input, an input no output.
        (
            "present",
            "present",
            "input `present`, which is not declared",
        ),
        ("past", "past", "output `past`, which is not declared"),
        ("Past", "present", "input `Past`, which is not declared"),
    ] {
        let mut model = accumulate();
        model.graph.as_mut().unwrap().persistent_bindings[0] = binding(input, output);
        let text = refused(&model);
        assert!(text.contains(why), "{text}");
        let at = text.find("exact").unwrap();
        assert!(text[at..].contains("input/output"), "{text}");
    }
    let mut model = accumulate();
    model.graph.as_mut().unwrap().output[0].r#type = None;
    assert!(refused(&model).contains("declared without a type"));
}

/// Rules 3.1.4, 3.3.1, 3.3.2, 3.3.3.
#[test]
fn s089_element_types_ranks_and_concrete_dimensions_must_agree() {
    for (input, output, fits) in [
        (tensor_type(FLOAT, "a 3"), tensor_type(FLOAT, "b 3"), true),
        (tensor_type(FLOAT, "a 3"), tensor_type(FLOAT, "4 ?"), true),
        (tensor_type(FLOAT, ""), tensor_type(FLOAT, ""), true),
        (tensor_type(FLOAT, "a 3"), tensor_type(INT64, "a 3"), false),
        (
            tensor_type(FLOAT, "a 3"),
            tensor_type(FLOAT, "a 3 1"),
            false,
        ),
        (tensor_type(FLOAT, "a 3"), tensor_type(FLOAT, "a 0"), false),
        (
            tensor_type(FLOAT, "a -1"),
            tensor_type(FLOAT, "a -1"),
            false,
        ),
        (tensor_type(FLOAT, "a ?"), tensor_type(FLOAT, "-2 ?"), false),
        (
            tensor_type(FLOAT, "2"),
            sequence(tensor_type(FLOAT, "2")),
            false,
        ),
        (
            sequence(tensor_type(FLOAT, "2")),
            sequence(tensor_type(FLOAT, "n")),
            true,
        ),
        (
            sequence(tensor_type(FLOAT, "2")),
            sequence(tensor_type(FLOAT, "3")),
            false,
        ),
    ] {
        let got = verdict(&bound(input.clone(), output.clone()));
        assert_eq!(got.is_ok(), fits, "{input:?} {output:?} {got:?}");
    }
    let mut no_shape = tensor_type(FLOAT, "");
    if let Some(Value::TensorType(tensor)) = &mut no_shape.value {
        tensor.shape = None;
    }
    assert!(verdict(&bound(no_shape.clone(), tensor_type(FLOAT, "2 7"))).is_ok());
    assert!(verdict(&bound(no_shape, tensor_type(INT64, "2 7"))).is_err());
}

/// Rule 3.1.5.
#[test]
fn s093_an_input_and_an_output_are_bound_once() {
    let mut model = accumulate();
    let graph = model.graph.as_mut().unwrap();
    graph
        .output
        .push(value("other", tensor_type(FLOAT, "rows 3")));
    graph.persistent_bindings.push(binding("past", "other"));
    assert_eq!(
        refused(&model),
        "graph.persistent_bindings[1]: input `past` is already in binding 0"
    );
    model.graph.as_mut().unwrap().persistent_bindings[1] = binding("delta", "present");
    assert_eq!(
        refused(&model),
        "graph.persistent_bindings[1]: output `present` is already in binding 0"
    );
    model.graph.as_mut().unwrap().persistent_bindings[1] = binding("delta", "other");
    assert_eq!(verdict(&model).unwrap().list.len(), 2);
}

/// Rule 3.1.6.
#[test]
fn the_checks_come_in_their_order() {
    // The second binding repeats the first input and names an unknown output: names come first.
    let mut model = accumulate();
    model
        .graph
        .as_mut()
        .unwrap()
        .persistent_bindings
        .push(binding("past", "nothing"));
    assert!(refused(&model).contains("not declared"));
    // STRING against FLOAT: what cannot be kept comes before what does not fit.
    let model = bound(tensor_type(STRING, "2"), tensor_type(FLOAT, "2"));
    assert!(refused(&model).contains("String tensors cannot be persistent"));
}

/// Rules 3.1.3, 3.2.1, 3.2.2; S077, S078.
#[test]
fn strings_are_refused_wherever_they_are_nested() {
    let text = tensor_type(STRING, "2");
    let constant = refeed_proto::TensorProto {
        data_type: Some(STRING),
        string_data: vec![Bytes::from_static(b"text")],
        ..Default::default()
    };
    for ty in [
        text.clone(),
        sequence(sequence(text.clone())),
        of_struct(structure(vec![
            ("a", Content::Type(tensor_type(FLOAT, "2"))),
            ("b", Content::Type(text)),
        ])),
        of_struct(structure(vec![("a", Content::Constant(constant))])),
    ] {
        assert!(refused(&bound(ty.clone(), ty)).contains("String tensors cannot be persistent"));
    }
}

/// Rules 3.1.3, 3.2.3; S118.
#[test]
fn only_tensors_sequences_and_structs_can_be_kept() {
    use refeed_proto::type_proto::{Map, Opaque, Optional, SparseTensor};
    let inner = Some(Box::new(tensor_type(FLOAT, "2")));
    let sparse = SparseTensor {
        elem_type: Some(FLOAT),
        shape: None,
    };
    for (value, word) in [
        (
            Value::OptionalType(Box::new(Optional {
                elem_type: inner.clone(),
            })),
            "optional",
        ),
        (
            Value::MapType(Box::new(Map {
                key_type: Some(INT64),
                value_type: inner,
            })),
            "map",
        ),
        (Value::SparseTensorType(sparse), "sparse tensor"),
        (Value::OpaqueType(Opaque::default()), "opaque"),
    ] {
        let ty = of_value(value);
        assert!(check_type(&ty, &StructTypes::default()).is_ok(), "{word}");
        let text = refused(&bound(ty.clone(), ty));
        assert!(
            text.contains(&format!("{word} types cannot be persistent")),
            "{text}"
        );
    }
}

/// Rule 3.2.5.
#[test]
fn deep_types_are_refused_not_followed() {
    let nest = |depth| (0..depth).fold(tensor_type(FLOAT, "2"), |inner, _| sequence(inner));
    assert!(verdict(&bound(nest(64), nest(64))).is_ok());
    assert!(
        refused(&bound(nest(65), nest(65))).contains("nested at most 64 deep, got one at depth 65")
    );
}

/// Rule 3.3.4.
#[test]
fn the_catalogue_gives_structs_one_identity() {
    let reference = reference_to;
    let entry = |id| StructTypeProto {
        type_id: Some(id),
        ..structure(vec![("a", Content::Type(tensor_type(FLOAT, "2")))])
    };
    let inline = of_struct(structure(vec![(
        "a",
        Content::Type(tensor_type(FLOAT, "2")),
    )]));
    for (input, output, fits) in [
        (reference(4), reference(4), true),
        (reference(4), reference(9), false),
        (reference(4), inline.clone(), false),
        (inline.clone(), inline, true),
        (reference(7), reference(7), false),
    ] {
        let mut model = bound(input, output);
        model.struct_types = vec![entry(4), entry(9)];
        assert_eq!(verdict(&model).is_ok(), fits, "{:?}", verdict(&model));
    }
}

/// Rule 3.3.7; S187.
#[test]
fn a_category_takes_a_declared_cache_and_itself_only() {
    let category = || of_struct(StructTypeProto::default());
    let cache = of_struct(cache_structure("blocks"));
    let other = of_struct(cache_structure("pages"));
    assert!(verdict(&bound(category(), category())).is_ok());
    assert!(verdict(&bound(category(), cache.clone())).is_ok());
    assert!(verdict(&bound(cache, category())).is_ok());
    assert!(verdict(&bound(category(), other)).is_err());
}

fn with_metadata(entries: &[(&str, &str)], on_model: bool) -> ModelProto {
    let mut model = accumulate();
    let entries = entries
        .iter()
        .map(|(key, value)| StringStringEntryProto {
            key: Some(key.to_string()),
            value: Some(value.to_string()),
        })
        .collect();
    if on_model {
        model.metadata_props = entries;
    } else {
        model.graph.as_mut().unwrap().metadata_props = entries;
    }
    model
}

#[test]
fn policies_are_read_from_the_metadata_of_graph_or_model() {
    for on_model in [false, true] {
        let entries = [
            ("refeed.binding_uses", "any"),
            ("refeed.publish:past", "once"),
            ("author", "refeed.x"),
        ];
        let bindings = verdict(&with_metadata(&entries, on_model)).unwrap();
        assert_eq!(
            (bindings.uses, bindings.list[0].publish),
            (BindingUses::Any, Publish::Once)
        );
        let bindings = verdict(&with_metadata(
            &[("refeed.publish:past", "if_present")],
            on_model,
        ))
        .unwrap();
        assert_eq!(
            (bindings.uses, bindings.list[0].publish),
            (BindingUses::One, Publish::IfPresent)
        );
    }
}

#[test]
fn unknown_metadata_of_ours_is_refused() {
    for (entries, part) in [
        (
            vec![("refeed.binding_uses", "two")],
            "expected `any`, got `two`",
        ),
        (vec![("refeed.binding_uses", "Any")], "got `Any`"),
        (vec![("refeed.binding_uses", "")], "got ``"),
        (
            vec![("refeed.publish:past", "always")],
            "expected `once` or `if_present`, got `always`",
        ),
        (
            vec![("refeed.publish:delta", "once")],
            "`refeed.publish:delta`: the input is not bound",
        ),
        (
            vec![("refeed.publish:nothing", "once")],
            "`refeed.publish:nothing`: the input is not bound",
        ),
        (
            vec![("refeed.publish", "once")],
            "unknown metadata key `refeed.publish`",
        ),
        (vec![("refeed.", "any")], "unknown metadata key `refeed.`"),
        (
            vec![
                ("refeed.binding_uses", "any"),
                ("refeed.binding_uses", "any"),
            ],
            "more than once",
        ),
        (
            vec![
                ("refeed.publish:past", "once"),
                ("refeed.publish:past", "once"),
            ],
            "more than once",
        ),
    ] {
        let text = refused(&with_metadata(&entries, false));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn policies_without_bindings_are_refused_only_when_they_name_one() {
    let mut model = with_metadata(&[("refeed.binding_uses", "any")], false);
    model.graph.as_mut().unwrap().persistent_bindings.clear();
    assert_eq!(verdict(&model).unwrap().list, []);
    let mut model = with_metadata(&[("refeed.publish:past", "once")], false);
    model.graph.as_mut().unwrap().persistent_bindings.clear();
    assert!(refused(&model).contains("not bound"));
}

/// Rule 3.3.6: arrays, packings and structures fit part by part.
#[test]
fn struct_types_without_identity_fit_part_by_part() {
    use refeed_proto::struct_type_proto::bit_packing::Component;
    use refeed_proto::struct_type_proto::{Array, BitPacking, Kind};
    let array = |element: TypeProto, dimension| {
        of_kind(Kind::Array(Box::new(Array {
            element_type: Some(Box::new(element)),
            dimension: Some(dimension),
        })))
    };
    let packing = |dimension, components: &[(&str, u32)]| {
        let component = components.iter().map(|(name, width)| Component {
            name: Some(name.to_string()),
            bit_width: Some(*width),
        });
        of_kind(Kind::BitPacking(BitPacking {
            dimension: Some(dimension),
            component: component.collect(),
        }))
    };
    let field = |name: &'static str, dims| (name, Content::Type(tensor_type(FLOAT, dims)));
    let number = |raw: &'static [u8]| {
        let constant = refeed_proto::TensorProto {
            data_type: Some(FLOAT),
            raw_data: Some(Bytes::from_static(raw)),
            ..Default::default()
        };
        ("c", Content::Constant(constant))
    };
    let cases = [
        (
            array(tensor_type(FLOAT, "2"), 3),
            array(tensor_type(FLOAT, "2"), 3),
            true,
        ),
        (
            array(tensor_type(FLOAT, "2"), 3),
            array(tensor_type(FLOAT, "2"), 4),
            false,
        ),
        (
            array(tensor_type(FLOAT, "2"), 3),
            array(tensor_type(INT64, "2"), 3),
            false,
        ),
        (
            array(tensor_type(FLOAT, "2"), 3),
            packing(3, &[("a", 2)]),
            false,
        ),
        (
            packing(3, &[("a", 2), ("b", 4)]),
            packing(3, &[("a", 2), ("b", 4)]),
            true,
        ),
        (
            packing(3, &[("a", 2), ("b", 4)]),
            packing(2, &[("a", 2), ("b", 4)]),
            false,
        ),
        (
            packing(3, &[("a", 2), ("b", 4)]),
            packing(3, &[("b", 4), ("a", 2)]),
            false,
        ),
        (
            packing(3, &[("a", 2), ("b", 4)]),
            packing(3, &[("a", 2), ("b", 5)]),
            false,
        ),
        (
            packing(3, &[("a", 2), ("b", 4)]),
            packing(3, &[("a", 2)]),
            false,
        ),
        (
            structure(vec![field("a", "n 2"), field("b", "3")]),
            structure(vec![field("a", "4 2"), field("b", "m")]),
            true,
        ),
        (
            structure(vec![field("a", "2"), field("b", "3")]),
            structure(vec![field("b", "3"), field("a", "2")]),
            false,
        ),
        (
            structure(vec![field("a", "2"), field("b", "3")]),
            structure(vec![field("a", "2")]),
            false,
        ),
        (
            structure(vec![number(&[0, 0, 128, 63])]),
            structure(vec![number(&[0, 0, 128, 63])]),
            true,
        ),
        // 0 and -0 are equal numbers and other bits.
        (
            structure(vec![number(&[0, 0, 0, 0])]),
            structure(vec![number(&[0, 0, 0, 128])]),
            false,
        ),
        (
            structure(vec![number(&[0, 0, 128, 63])]),
            structure(vec![field("c", "")]),
            false,
        ),
    ];
    for (input, output, fits) in cases {
        let got = verdict(&bound(of_struct(input.clone()), of_struct(output.clone())));
        assert_eq!(got.is_ok(), fits, "{input:?} {output:?} {got:?}");
    }
}

/// Rule 3.3.5.
#[test]
fn a_codec_needs_a_shared_identity() {
    let plain = structure(vec![("a", Content::Type(tensor_type(FLOAT, "2")))]);
    let coded = StructTypeProto {
        decoder: Some(Default::default()),
        ..plain.clone()
    };
    for (input, output) in [(&coded, &plain), (&plain, &coded), (&coded, &coded)] {
        let text = refused(&bound(of_struct(input.clone()), of_struct(output.clone())));
        assert!(text.contains("one type_id for both struct types"), "{text}");
    }
    let mut model = bound(reference_to(4), reference_to(4));
    model.struct_types = vec![StructTypeProto {
        type_id: Some(4),
        ..coded
    }];
    // One entry is itself: what its codec computes is not looked at here.
    assert!(verdict(&model).is_ok(), "{:?}", verdict(&model));
}
