use super::*;
use crate::testing::*;
use refeed_proto::TypeProto;
use refeed_proto::struct_type_proto::bit_packing::Component;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::struct_type_proto::{Array, BitPacking};
use std::time::{Duration, Instant};

fn model(entries: Vec<(u64, StructTypeProto)>) -> ModelProto {
    let entry = |(id, declared): (u64, StructTypeProto)| StructTypeProto {
        type_id: Some(id),
        ..declared
    };
    ModelProto {
        struct_types: entries.into_iter().map(entry).collect(),
        ..accumulate()
    }
}

fn one(ty: TypeProto) -> StructTypeProto {
    structure(vec![("a", Content::Type(ty))])
}

fn plain() -> StructTypeProto {
    one(tensor_type(FLOAT, "2"))
}

#[track_caller]
fn refused(model: &ModelProto, expected: &str) {
    let text = StructTypes::new(model).unwrap_err().to_string();
    assert_eq!(text, expected);
}

/// Rule 3.9.1.
#[test]
fn identities_are_unique() {
    let model_of = |first, second| model(vec![(first, plain()), (second, plain())]);
    let two = model_of(4, 9);
    let catalogue = StructTypes::new(&two).unwrap();
    assert!(catalogue.get(4).is_some() && catalogue.get(9).is_some());
    assert!(catalogue.get(5).is_none());
    refused(
        &model_of(4, 4),
        "struct_types[1].type_id: expected an identity of its own, got 4 for the second time",
    );
    refused(
        &model_of(4, 0),
        "struct_types[1].type_id: expected a nonzero identity, got 0",
    );
}

/// Rules 3.2.6, 3.9.2.
#[test]
fn references_resolve() {
    let to = |id| model(vec![(4, plain()), (9, one(reference_to(id)))]);
    assert!(StructTypes::new(&to(4)).is_ok());
    refused(
        &to(5),
        "struct_types[1].structure.field[0] \"a\".type.struct_type: expected the identity of an \
         entry of the model's struct_types, got 5",
    );
    // Apart from the model they are taken on trust.
    let ty = reference_to(5);
    let found = types::walk_type(&ty, &Path::root("type"), types::Asked::Everything).unwrap();
    assert!(StructTypes::deferred().check(&found).is_ok());
    assert!(StructTypes::default().check(&found).is_err());
}

/// Rule 3.9.2.
#[test]
fn types_do_not_contain_themselves() {
    refused(
        &model(vec![(4, one(reference_to(4)))]),
        "struct_types[0]: expected a type that does not contain itself, got 4 -> 4",
    );
    // By two others, one of them through a sequence.
    refused(
        &model(vec![
            (4, one(sequence(reference_to(6)))),
            (5, one(reference_to(4))),
            (6, one(reference_to(5))),
        ]),
        "struct_types[1]: expected a type that does not contain itself, got 4 -> 6 -> 5 -> 4",
    );
    // Two ways to one entry are no circle.
    let twice = structure(vec![
        ("a", Content::Type(reference_to(4))),
        ("b", Content::Type(reference_to(4))),
    ]);
    assert!(StructTypes::new(&model(vec![(5, twice), (4, plain())])).is_ok());
}

/// Entries 1 to `length`, each in the one before.
fn chain_of(length: u64) -> ModelProto {
    let link = |id| {
        if id == length {
            plain()
        } else {
            one(reference_to(id + 1))
        }
    };
    model((1..=length).map(|id| (id, link(id))).collect())
}

/// Rules 3.2.5, 3.9.2.
#[test]
fn references_are_followed_no_deeper_than_64() {
    // Each entry but the last is two levels: the field, and the entry that it refers to.
    assert!(StructTypes::new(&chain_of(32)).is_ok());
    let text = StructTypes::new(&chain_of(33)).unwrap_err().to_string();
    assert!(text.contains("nested at most 64 deep"), "{text}");
    // A value adds its own levels.
    let deep = chain_of(32);
    let catalogue = StructTypes::new(&deep).unwrap();
    let check = |ty: &TypeProto| types::check_declared(ty, &Path::root("type"), &catalogue);
    assert!(check(&reference_to(1)).is_ok());
    let text = check(&sequence(reference_to(1))).unwrap_err().to_string();
    assert!(text.contains("got 65 levels"), "{text}");
    // A long chain is refused, and not by way of the thread's stack.
    let long = chain_of(50_000);
    let start = Instant::now();
    assert!(StructTypes::new(&long).is_err());
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_tree_of_references_is_looked_at_once() {
    // Each entry holds the next one twice: 2^60 leaves.
    let pair = |id: u64| {
        structure(vec![
            ("a", Content::Type(reference_to(id + 1))),
            ("b", Content::Type(reference_to(id + 1))),
        ])
    };
    let mut entries: Vec<(u64, StructTypeProto)> = (1..=30).map(|id| (id, pair(id))).collect();
    entries.push((31, plain()));
    let doubling = model(entries);
    let start = Instant::now();
    let catalogue = StructTypes::new(&doubling).unwrap();
    let bits = |id| {
        let declared = catalogue.get(id).unwrap();
        catalogue.bit_size(declared, &Path::root("at")).unwrap()
    };
    assert_eq!(
        (bits(31), bits(30), bits(1)),
        (Some(64), Some(128), Some(64 << 30))
    );
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// Rule 3.2.2; S078.
#[test]
fn strings_are_found_behind_references() {
    let text = model(vec![
        (4, one(tensor_type(STRING, "2"))),
        (5, one(reference_to(4))),
        (6, plain()),
    ]);
    let catalogue = StructTypes::new(&text).unwrap();
    let kept = |id| types::check_kept(&reference_to(id), &Path::root("type"), &catalogue);
    assert!(kept(6).is_ok());
    for id in [4, 5] {
        let fault = kept(id).unwrap_err().to_string();
        assert!(
            fault.contains("String tensors cannot be persistent"),
            "{fault}"
        );
        assert!(
            fault.contains("struct_types[0].structure.field[0]"),
            "{fault}"
        );
    }
}

fn size(declared: &StructTypeProto) -> Result<Option<u64>, String> {
    StructTypes::deferred()
        .bit_size(declared, &Path::root("at"))
        .map_err(|fault| fault.to_string())
}

fn array(element: TypeProto, dimension: u64) -> StructTypeProto {
    of_kind(Kind::Array(Box::new(Array {
        element_type: Some(Box::new(element)),
        dimension: Some(dimension),
    })))
}

fn packing(widths: &[u32], dimension: u64) -> StructTypeProto {
    let component = widths
        .iter()
        .map(|&bits| Component {
            name: None,
            bit_width: Some(bits),
        })
        .collect();
    of_kind(Kind::BitPacking(BitPacking {
        component,
        dimension: Some(dimension),
    }))
}

#[test]
fn sizes_are_sums_without_padding() {
    let typed = Content::Type;
    for (declared, bits) in [
        (one(tensor_type(FLOAT, "2 3")), 192),
        (one(tensor_type(22, "3")), 12),
        (one(tensor_type(27, "5")), 30),
        (one(tensor_type(FLOAT, "0 3")), 0),
        (packing(&[3, 5, 1], 7), 63),
        (array(tensor_type(FLOAT, "2"), 5), 320),
        (array(of_struct(packing(&[3], 5)), 7), 105),
        (
            structure(vec![
                ("head", typed(of_struct(packing(&[1, 4], 3)))),
                ("kind", Content::Constant(floats("", &[9], &[0.0; 9]))),
                ("body", typed(tensor_type(INT64, "2"))),
            ]),
            15 + 128,
        ),
    ] {
        assert_eq!(size(&declared), Ok(Some(bits)), "{declared:?}");
    }
    assert_eq!(size(&one(reference_to(4))), Ok(None));
}

#[test]
fn only_some_types_have_a_fixed_size() {
    let at = "at.structure.field[0] \"a\".type";
    for (ty, fault) in [
        (
            sequence(tensor_type(FLOAT, "2")),
            ": expected a type of fixed size, got a sequence",
        ),
        (
            TypeProto::default(),
            ": expected a type of fixed size, got no type",
        ),
        (
            of_struct(StructTypeProto::default()),
            ".struct_type: expected a type of fixed size, got a struct of no kind",
        ),
        (
            tensor_type(STRING, "2"),
            ".tensor_type.elem_type: expected elements of fixed size, got STRING",
        ),
        (
            tensor_type(FLOAT, "2 n"),
            ".tensor_type.shape.dim[1]: expected a number, got a dimension that is not known",
        ),
    ] {
        assert_eq!(size(&one(ty)), Err(format!("{at}{fault}")));
    }
    // Through a reference.
    let named = model(vec![
        (4, one(sequence(tensor_type(FLOAT, "2")))),
        (5, one(reference_to(4))),
    ]);
    let catalogue = StructTypes::new(&named).unwrap();
    let fault = catalogue
        .bit_size(&of_kind(Kind::TypeRef(5)), &Path::root("at"))
        .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "at.type_ref: expected a type of fixed size, got struct type 5, which has none"
    );
}

#[test]
fn sizes_are_computed_without_overflow() {
    let huge = 1 << 62;
    let nested = array(of_struct(array(tensor_type(FLOAT, "2"), huge)), huge);
    for declared in [
        nested,
        array(tensor_type(FLOAT, "2"), huge),
        packing(&[64, 64, 64], huge),
        structure(vec![
            ("a", Content::Type(of_struct(packing(&[2], huge)))),
            ("b", Content::Type(of_struct(packing(&[2], huge)))),
        ]),
    ] {
        let text = size(&declared).unwrap_err();
        assert!(text.contains("fits in 64 bits"), "{text}");
    }
    assert_eq!(size(&packing(&[3], huge)), Ok(Some(3 << 62)));
}

#[test]
fn s187_s188_s189_a_cache_declares_float_pages() {
    let verdict = |declared: &StructTypeProto| {
        let catalogue = StructTypes::default();
        cache::declaration(declared, &Path::root("at"), &catalogue)
            .map(|found| found.map(|cache| (cache.key.is_some(), cache.value.is_some())))
            .map_err(|fault| fault.to_string())
    };
    assert_eq!(
        verdict(&StructTypeProto::default()),
        Ok(Some((false, false)))
    );
    assert_eq!(verdict(&cache_structure("blocks")), Ok(Some((true, true))));
    let page = |changed: &str, content: Option<Content>| {
        let mut fields = vec![
            ("start", Content::Type(tensor_type(INT64, ""))),
            ("length", Content::Type(tensor_type(INT64, ""))),
            ("key", Content::Type(tensor_type(FLOAT, "1 2 rows 3"))),
            ("value", Content::Type(tensor_type(FLOAT, "1 2 rows 5"))),
        ];
        match content {
            Some(content) => {
                for (name, held) in &mut fields {
                    if *name == changed {
                        *held = content.clone();
                    }
                }
            }
            None => fields.retain(|(name, _)| *name != changed),
        }
        structure(vec![(
            "blocks",
            Content::Type(sequence(of_struct(structure(fields)))),
        )])
    };
    let typed = |element, dims| Some(Content::Type(tensor_type(element, dims)));
    let shapeless = {
        let mut ty = tensor_type(FLOAT, "");
        if let Some(refeed_proto::type_proto::Value::TensorType(tensor)) = &mut ty.value {
            tensor.shape = None;
        }
        Some(Content::Type(ty))
    };
    assert_eq!(verdict(&page("key", shapeless)), Ok(Some((false, true))));
    let inner = "at.structure.field[\"blocks\"].type.sequence_type.elem_type.struct_type.structure";
    for (declared, fault) in [
        (
            page("key", None),
            format!(
                "{inner}: expected exactly the fields start, length, key, value, got start, length, value"
            ),
        ),
        (
            page("key", typed(10, "1 2 rows 3")),
            format!("{inner}.field[\"key\"].type: expected FLOAT elements, got FLOAT16"),
        ),
        (
            page("value", typed(FLOAT, "1 2 3")),
            format!(
                "{inner}.field[\"value\"].type: expected four axes: batch, heads, capacity, width, got FLOAT[1, 2, 3]"
            ),
        ),
        (
            page("start", typed(6, "")),
            format!("{inner}.field[\"start\"].type: expected INT64 elements, got INT32"),
        ),
        (
            page("length", typed(INT64, "1")),
            format!("{inner}.field[\"length\"].type: expected a scalar, got INT64[1]"),
        ),
        (
            page("length", Some(Content::Constant(floats("", &[1], &[0.0])))),
            format!("{inner}.field[\"length\"]: expected a type, got a constant"),
        ),
        (
            cache_structure("pages"),
            "at.structure: expected exactly the fields blocks, got pages".to_string(),
        ),
        (
            one(tensor_type(FLOAT, "2")),
            "at.structure: expected exactly the fields blocks, got a".to_string(),
        ),
        (
            array(tensor_type(FLOAT, "2"), 3),
            "at: expected a paged cache: a structure with the field `blocks`, got an array"
                .to_string(),
        ),
        (
            packing(&[3], 5),
            "at: expected a paged cache: a structure with the field `blocks`, got a bit packing"
                .to_string(),
        ),
    ] {
        assert_eq!(verdict(&declared), Err(fault));
    }
    // By reference, to the cache or to the page.
    let named = model(vec![(4, cache_structure("blocks"))]);
    let catalogue = StructTypes::new(&named).unwrap();
    let by_reference = of_kind(Kind::TypeRef(4));
    let found = cache::declaration(&by_reference, &Path::root("at"), &catalogue).unwrap();
    assert!(found.is_some_and(|cache| cache.key.is_some()));
}
