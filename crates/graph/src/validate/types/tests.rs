use super::*;
use crate::testing::*;
use refeed_proto::struct_type_proto::bit_packing::Component;
use refeed_proto::struct_type_proto::{Array, BitPacking};
use refeed_proto::type_proto::{Map, Opaque, Optional, Sequence, SparseTensor};
use refeed_proto::{StringStringEntryProto, TensorProto, TensorShapeProto};

fn verdict(ty: &TypeProto) -> Result<(), FieldError> {
    check_declared(ty, &Path::root("type"), &StructTypes::deferred())
}

#[track_caller]
fn accepted(ty: &TypeProto) {
    if let Err(fault) = verdict(ty) {
        panic!("{fault}");
    }
}

#[track_caller]
fn refused(ty: &TypeProto, expected: &str) {
    let text = verdict(ty).expect_err("must be refused").to_string();
    assert_eq!(text, expected);
}

#[track_caller]
fn struct_refused(declared: StructTypeProto, expected: &str) {
    refused(&of_struct(declared), expected);
}

/// Rule 3.2.6.
#[test]
fn a_type_says_what_it_is() {
    accepted(&tensor_type(FLOAT, "2 n ?"));
    refused(&TypeProto::default(), "type: expected a type, got none");
    refused(
        &tensor_type(0, "2"),
        "type.tensor_type.elem_type: expected an element type, got 0",
    );
    refused(
        &tensor_type(29, "2"),
        "type.tensor_type.elem_type: expected an element type, got 29",
    );
    let sparse = |element| {
        of_value(Value::SparseTensorType(SparseTensor {
            elem_type: Some(element),
            shape: None,
        }))
    };
    accepted(&sparse(FLOAT));
    refused(
        &sparse(0),
        "type.sparse_tensor_type.elem_type: expected an element type, got 0",
    );
    accepted(&of_value(Value::OpaqueType(Opaque::default())));
}

#[test]
fn sizes_are_not_negative() {
    accepted(&tensor_type(FLOAT, "0 3"));
    refused(
        &tensor_type(FLOAT, "3 -1"),
        "type.tensor_type.shape.dim[1]: expected a size of 0 or more, got -1",
    );
    refused(
        &sequence(tensor_type(FLOAT, "-7")),
        "type.sequence_type.elem_type.tensor_type.shape.dim[0]: expected a size of 0 or more, got -7",
    );
}

/// Rule 3.2.6.
#[test]
fn sequences_optionals_and_maps_have_elements() {
    let none = of_value(Value::SequenceType(Box::new(Sequence { elem_type: None })));
    accepted(&sequence(sequence(tensor_type(FLOAT, "2"))));
    refused(
        &none,
        "type.sequence_type.elem_type: expected a type, got none",
    );
    let optional = |inner: Option<TypeProto>| {
        of_value(Value::OptionalType(Box::new(Optional {
            elem_type: inner.map(Box::new),
        })))
    };
    accepted(&optional(Some(tensor_type(FLOAT, "2"))));
    refused(
        &optional(None),
        "type.optional_type.elem_type: expected a type, got none",
    );
    refused(
        &optional(Some(TypeProto::default())),
        "type.optional_type.elem_type: expected a type, got none",
    );
    let map = |key, inner: Option<TypeProto>| {
        of_value(Value::MapType(Box::new(Map {
            key_type: Some(key),
            value_type: inner.map(Box::new),
        })))
    };
    for key in [2, 3, 4, 5, 6, INT64, STRING, 12, 13] {
        accepted(&map(key, Some(tensor_type(FLOAT, "2"))));
    }
    for (key, name) in [
        (0, "UNDEFINED"),
        (FLOAT, "FLOAT"),
        (9, "BOOL"),
        (16, "BFLOAT16"),
    ] {
        refused(
            &map(key, Some(tensor_type(FLOAT, "2"))),
            &format!(
                "type.map_type.key_type: expected map keys of an integer type or STRING, got {name}"
            ),
        );
    }
    refused(
        &map(INT64, None),
        "type.map_type.value_type: expected a type, got none",
    );
}

/// Rule 3.2.5.
#[test]
fn types_are_nested_no_deeper_than_64() {
    let nest = |depth| (0..depth).fold(tensor_type(FLOAT, "2"), |inner, _| sequence(inner));
    accepted(&nest(64));
    let text = verdict(&nest(65)).unwrap_err().to_string();
    assert!(
        text.ends_with("expected types nested at most 64 deep, got one at depth 65"),
        "{text}"
    );
}

/// Rule 3.9.1.
#[test]
fn only_entries_of_the_catalogue_have_an_identity() {
    let named = |type_id| StructTypeProto {
        type_id,
        ..structure(vec![("a", Content::Type(tensor_type(FLOAT, "2")))])
    };
    accepted(&of_struct(named(None)));
    struct_refused(
        named(Some(7)),
        "type.struct_type.type_id: expected none outside the catalogue of the model, got 7",
    );
    let at = Path::root("entry");
    assert!(walk_struct(&named(Some(7)), Role::Entry, &at).is_ok());
    for id in [None, Some(0)] {
        let fault = walk_struct(&named(id), Role::Entry, &at).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "entry.type_id: expected a nonzero identity, got 0"
        );
    }
    let fault = walk_struct(&named(Some(7)), Role::Layout, &at).unwrap_err();
    assert_eq!(fault.got, "7");
}

/// Rule 3.9.5.
#[test]
fn only_a_declared_struct_type_may_have_no_kind() {
    accepted(&of_struct(StructTypeProto::default()));
    struct_refused(
        StructTypeProto {
            decoder: Some(Box::default()),
            ..StructTypeProto::default()
        },
        "type.struct_type: expected no decoder and no encoder on a struct type of no kind, got one",
    );
    let bare = StructTypeProto {
        type_id: Some(3),
        ..StructTypeProto::default()
    };
    for (declared, role) in [
        (bare, Role::Entry),
        (StructTypeProto::default(), Role::Layout),
    ] {
        let fault = walk_struct(&declared, role, &Path::root("at")).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "at: expected an array, a structure or a bit packing, got no kind"
        );
    }
}

/// Rule 3.9.2.
#[test]
fn a_reference_says_nothing_else() {
    let reference = |id| of_kind(Kind::TypeRef(id));
    accepted(&of_struct(reference(9)));
    struct_refused(
        reference(0),
        "type.struct_type.type_ref: expected a nonzero identity, got 0",
    );
    let more = [
        (
            StructTypeProto {
                decoder: Some(Box::default()),
                ..reference(9)
            },
            "a decoder",
        ),
        (
            StructTypeProto {
                encoder: Some(Box::default()),
                ..reference(9)
            },
            "an encoder",
        ),
        (
            StructTypeProto {
                name: Some("n".to_string()),
                ..reference(9)
            },
            "a name",
        ),
        (
            StructTypeProto {
                doc_string: Some("d".to_string()),
                ..reference(9)
            },
            "a doc string",
        ),
        (
            StructTypeProto {
                metadata_props: vec![StringStringEntryProto::default()],
                ..reference(9)
            },
            "metadata",
        ),
    ];
    for (declared, got) in more {
        struct_refused(
            declared,
            &format!("type.struct_type.type_ref: expected nothing beside a reference, got {got}"),
        );
    }
    let entry = StructTypeProto {
        type_id: Some(3),
        ..reference(9)
    };
    let fault = walk_struct(&entry, Role::Entry, &Path::root("entry")).unwrap_err();
    assert_eq!(fault.got, "a reference to a struct type");
}

/// Rule 3.9.3.
#[test]
fn an_array_has_an_element_type_and_a_dimension() {
    let array = |element: Option<TypeProto>, dimension| {
        of_kind(Kind::Array(Box::new(Array {
            element_type: element.map(Box::new),
            dimension: Some(dimension),
        })))
    };
    accepted(&of_struct(array(Some(tensor_type(FLOAT, "2")), 3)));
    struct_refused(
        array(None, 3),
        "type.struct_type.array.element_type: expected a type, got none",
    );
    struct_refused(
        array(Some(tensor_type(FLOAT, "2")), 0),
        "type.struct_type.array.dimension: expected 1 or more, got 0",
    );
    struct_refused(
        array(Some(tensor_type(0, "2")), 3),
        "type.struct_type.array.element_type.tensor_type.elem_type: expected an element type, got 0",
    );
}

/// Rule 3.9.3.
#[test]
fn a_bit_packing_has_components_of_1_to_64_bits() {
    let packing = |parts: &[(&str, u32)], dimension| {
        let component = parts
            .iter()
            .map(|&(name, bits)| Component {
                name: Some(name.to_string()),
                bit_width: Some(bits),
            })
            .collect();
        of_kind(Kind::BitPacking(BitPacking {
            component,
            dimension: Some(dimension),
        }))
    };
    accepted(&of_struct(packing(&[("a", 1), ("b", 64)], 3)));
    for (declared, fault) in [
        (
            packing(&[], 3),
            ".component: expected at least one, got none",
        ),
        (
            packing(&[("a", 4)], 0),
            ".dimension: expected 1 or more, got 0",
        ),
        (
            packing(&[("a", 4), ("b", 0)], 3),
            ".component[1] \"b\".bit_width: expected 1 to 64 bits, got 0",
        ),
        (
            packing(&[("a", 65)], 3),
            ".component[0] \"a\".bit_width: expected 1 to 64 bits, got 65",
        ),
        (
            packing(&[("a", 4), ("", 4)], 3),
            ".component[1].name: expected a name, got an empty one",
        ),
        (
            packing(&[("a", 4), ("a", 5)], 3),
            ".component[1] \"a\".name: expected a name of its own, got `a` for the second time",
        ),
    ] {
        struct_refused(declared, &format!("type.struct_type.bit_packing{fault}"));
    }
}

/// Rule 3.9.3.
#[test]
fn a_structure_has_fields_of_a_type_or_a_constant() {
    let typed = || Content::Type(tensor_type(FLOAT, "2"));
    accepted(&of_struct(structure(vec![("a", typed()), ("b", typed())])));
    for (declared, fault) in [
        (structure(vec![]), ".field: expected at least one, got none"),
        (
            structure(vec![("a", typed()), ("", typed())]),
            ".field[1].name: expected a name, got an empty one",
        ),
        (
            structure(vec![("a", typed()), ("b", typed()), ("a", typed())]),
            ".field[2] \"a\".name: expected a name of its own, got `a` for the second time",
        ),
        (
            structure(vec![("a", Content::Type(TypeProto::default()))]),
            ".field[0] \"a\".type: expected a type, got none",
        ),
    ] {
        struct_refused(declared, &format!("type.struct_type.structure{fault}"));
    }
    let mut empty = structure(vec![("a", typed())]);
    if let Some(Kind::Structure(structure)) = &mut empty.kind {
        structure.field[0].content = None;
    }
    struct_refused(
        empty,
        "type.struct_type.structure.field[0] \"a\": expected a type or a constant, got neither",
    );
}

/// Rule 3.9.4.
#[test]
fn a_constant_is_inline_and_whole() {
    let with = |constant| of_struct(structure(vec![("c", Content::Constant(constant))]));
    let at = "type.struct_type.structure.field[0] \"c\".constant";
    let packed = |data_type, count: i64, int32_data: Vec<i32>| TensorProto {
        data_type: Some(data_type),
        dims: vec![count],
        int32_data,
        ..TensorProto::default()
    };
    // Eight 4-bit or sixteen 2-bit elements an entry.
    accepted(&with(packed(22, 9, vec![1, 2])));
    accepted(&with(packed(26, 17, vec![1, 2])));
    accepted(&with(floats("", &[2, 3], &[0.5; 6])));
    for (constant, got) in [
        (
            packed(22, 17, vec![1, 2]),
            "unnamed tensor: expected 9 entries in int32_data, got 2",
        ),
        (
            floats("w", &[2, 3], &[0.5; 5]),
            "tensor `w`: expected 24 bytes in raw_data, got 20",
        ),
    ] {
        refused(
            &with(constant),
            &format!("{at}: expected exactly the elements of the dimensions, got {got}"),
        );
    }
    let external = TensorProto {
        data_location: Some(1),
        ..floats("w", &[2], &[0.5; 2])
    };
    refused(
        &with(external),
        &format!(
            "{at}.data_location: expected elements in the message, got elements in another file"
        ),
    );
}

#[test]
fn value_info_may_leave_everything_out_but_struct_types() {
    let lenient = |ty: &TypeProto| {
        walk_type(ty, &Path::root("type"), Asked::StructTypes)
            .map(drop)
            .map_err(|fault| fault.to_string())
    };
    let none = of_value(Value::SequenceType(Box::new(Sequence { elem_type: None })));
    for ty in [TypeProto::default(), tensor_type(0, "2 -1"), none] {
        assert_eq!(lenient(&ty), Ok(()));
    }
    let broken = of_kind(Kind::TypeRef(0));
    let expected = "type_ref: expected a nonzero identity, got 0";
    let text = lenient(&sequence(of_struct(broken))).unwrap_err();
    assert_eq!(
        text,
        format!("type.sequence_type.elem_type.struct_type.{expected}")
    );
    // A field of a struct type is as good as any declaration.
    let field = structure(vec![("a", Content::Type(tensor_type(0, "2")))]);
    assert!(lenient(&of_struct(field)).unwrap_err().ends_with("got 0"));
}

#[test]
fn shapes_of_many_axes_are_cut_in_messages() {
    let shape = TensorShapeProto {
        dim: vec![Default::default(); 1_000],
    };
    let tensor = refeed_proto::type_proto::Tensor {
        elem_type: Some(FLOAT),
        shape: Some(shape),
    };
    assert!(tensor_text(&tensor).len() < 100);
}
