//! Struct types.

use super::*;
use refeed_proto::struct_type_proto::BitPacking;
use refeed_proto::struct_type_proto::bit_packing::Component;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::{FunctionProto, StringStringEntryProto};
use refeed_values::Tensor;
use refeed_values::encoded::{Field, FieldContent, StorageType, StructKind, StructType};

fn packing() -> StructTypeProto {
    let component = |(name, bits): (&str, u32)| Component {
        name: Some(name.to_string()),
        bit_width: Some(bits),
    };
    of_kind(Kind::BitPacking(BitPacking {
        component: [("low", 3), ("high", 5)].map(component).into(),
        dimension: Some(2),
    }))
}

#[test]
fn what_a_type_says_beside_its_layout_is_kept() {
    let declared = StructTypeProto {
        name: Some("block".to_string()),
        doc_string: Some("of two".to_string()),
        metadata_props: vec![StringStringEntryProto {
            key: Some("k".to_string()),
            value: Some("v".to_string()),
        }],
        decoder: Some(Box::new(FunctionProto {
            name: Some("decode".to_string()),
            ..FunctionProto::default()
        })),
        ..structure(vec![
            ("scale", Content::Type(tensor_type(10, ""))),
            ("kind", Content::Constant(floats("one", &[], &[1.0]))),
            ("codes", Content::Type(of_struct(packing()))),
        ])
    };
    let made = struct_type_from_proto(&declared, &Catalogues::default()).unwrap();
    assert_eq!(
        (made.bits(), made.name().map(|name| &**name)),
        (32, Some("block"))
    );
    assert_eq!(struct_type_to_proto(&made).unwrap(), declared);
}

#[test]
fn a_type_made_here_is_written_from_its_parts() {
    let codes = StorageType::Tensor {
        dtype: DType::Int4,
        shape: [2usize, 3][..].into(),
    };
    let inner = StructType::new(StructKind::Array {
        element: codes,
        dimension: 5,
    });
    let fields = [
        ("one", FieldContent::Constant(Tensor::scalar(1i64).unwrap())),
        (
            "codes",
            FieldContent::Type(StorageType::Struct(Arc::new(inner.unwrap()))),
        ),
    ];
    let fields = fields.map(|(name, content)| Field {
        name: name.into(),
        content,
    });
    let made = StructType::new(StructKind::Structure(fields.into()))
        .unwrap()
        .named("mine");
    let proto = struct_type_to_proto(&made).unwrap();
    let again = struct_type_from_proto(&proto, &Catalogues::default()).unwrap();
    assert_eq!((again.bits(), made.bits()), (120, 120));
    assert_eq!(struct_type_to_proto(&again).unwrap(), proto);
}

#[test]
fn only_types_of_fixed_size_are_layouts() {
    let none = Catalogues::default();
    let refuse = |declared: StructTypeProto, parts: &[&str]| {
        refused(struct_type_from_proto(&declared, &none), parts);
    };
    refuse(StructTypeProto::default(), &["no kind"]);
    refuse(
        array_of(sequence(tensor_type(FLOAT, "2")), 2),
        &["a type of fixed size"],
    );
    refuse(array_of(tensor_type(FLOAT, "n"), 2), &["expected a number"]);
    refuse(
        array_of(tensor_type(STRING, "2"), 2),
        &["elements of fixed size"],
    );
    refuse(array_of(tensor_type(FLOAT, "2"), 0), &["1 or more"]);
    refuse(of_kind(Kind::TypeRef(3)), &["struct_types, got 3"]);
}

#[test]
fn entries_may_refer_to_each_other_and_are_made_once() {
    let mut entries = vec![StructTypeProto {
        type_id: Some(1),
        ..array_of(tensor_type(2, "1"), 2)
    }];
    // Each refers twice to the one before: 2^21 bytes, 20 layouts.
    for id in 2..=21u64 {
        let half = |name| (name, Content::Type(reference_to(id - 1)));
        entries.push(StructTypeProto {
            type_id: Some(id),
            ..structure(vec![half("a"), half("b")])
        });
    }
    let catalogues = types(entries);
    let last = of_kind(Kind::TypeRef(21));
    let made = struct_type_from_proto(&last, &catalogues).unwrap();
    assert_eq!(made.record_bytes().unwrap(), 1 << 21);
    let fields = made.fields().unwrap();
    let (FieldContent::Type(StorageType::Struct(a)), FieldContent::Type(StorageType::Struct(b))) =
        (&fields[0].content, &fields[1].content)
    else {
        panic!("two struct types");
    };
    assert!(Arc::ptr_eq(a, b));
}

#[test]
fn cycles_of_references_are_refused_when_the_model_is_loaded() {
    let entry = |id, to| StructTypeProto {
        type_id: Some(id),
        ..structure(vec![("next", Content::Type(reference_to(to)))])
    };
    let graph = graph("x", vec![node("Neg", "x", "y")], "y");
    let model = ModelProto {
        struct_types: vec![entry(1, 2), entry(2, 1)],
        ..model(graph)
    };
    let loaded = Model::from_proto(model, &LoadOptions::default());
    refused(loaded, &["a type that does not contain itself", "->"]);
}

#[test]
fn declarations_of_caches_are_read() {
    use crate::types::Dim;
    let none = Catalogues::default();
    let pages = declared_pages(&cache_structure("blocks"), &none).unwrap();
    let [
        Dim::Known(1),
        Dim::Known(2),
        Dim::Symbol(rows),
        Dim::Known(3),
    ] = &pages.key.unwrap()
    else {
        panic!("1 2 rows 3");
    };
    assert_eq!(&**rows, "rows");
    assert_eq!(pages.value.unwrap()[3], Dim::Known(5));
    assert!(declared_pages(&cache_structure("pages"), &none).is_err());
    assert!(declared_pages(&array_of(tensor_type(FLOAT, "2"), 2), &none).is_err());
    assert!(declared_pages(&of_kind(Kind::TypeRef(3)), &none).is_err());
}
