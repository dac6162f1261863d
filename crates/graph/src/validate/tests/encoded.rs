//! Encoded values: affine layouts, structured layouts, and where payloads are.

use super::*;
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::struct_type_proto::bit_packing::Component;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::struct_type_proto::{BitPacking, Kind};
use refeed_proto::{AffineLayoutProto, EncodedValueProto, StringStringEntryProto, StructTypeProto};

const INT8: i32 = 3;
const UINT8: i32 = 2;
const INT4: i32 = 22;
const UINT4: i32 = 21;
const INT2: i32 = 26;
const UINT2: i32 = 25;

fn raw(bytes: &[u8]) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(bytes))
}

fn parameter(data_type: i32, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        data_type: Some(data_type),
        dims: dims.to_vec(),
        raw_data: raw(bytes),
        ..TensorProto::default()
    }
}

fn affine(storage_type: i32) -> AffineLayoutProto {
    AffineLayoutProto {
        storage_type: Some(storage_type),
        scale: Some(floats("", &[], &[0.25])),
        ..AffineLayoutProto::default()
    }
}

fn value(layout: AffineLayoutProto, dims: &str, payload: &[u8]) -> EncodedValueProto {
    EncodedValueProto {
        layout: Some(Layout::Affine(Box::new(layout))),
        logical_type: Some(tensor_type(FLOAT, dims)),
        raw_data: raw(payload),
        ..EncodedValueProto::default()
    }
}

fn structured(declared: StructTypeProto, payload: &[u8]) -> EncodedValueProto {
    EncodedValueProto {
        layout: Some(Layout::StructType(declared)),
        raw_data: raw(payload),
        ..EncodedValueProto::default()
    }
}

fn verdict(value: &EncodedValueProto) -> Result<(), String> {
    PartVerifier::default()
        .check_encoded_value(value)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn fits(value: &EncodedValueProto) {
    assert_eq!(verdict(value), Ok(()));
}

#[track_caller]
fn faulty(value: &EncodedValueProto, expected: &str) {
    assert_eq!(verdict(value), Err(format!("encoded_value{expected}")));
}

/// Rule 3.10.1.
#[test]
fn an_encoded_value_has_a_layout() {
    let good = value(affine(INT8), "2 3", &[0; 6]);
    fits(&good);
    faulty(
        &EncodedValueProto {
            layout: None,
            ..good
        },
        ": expected an affine layout or a struct type, got neither",
    );
}

/// Rule 3.10.2; S114.
#[test]
fn a_payload_is_in_one_place() {
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_string()),
        value: Some(value.to_string()),
    };
    let good = value(affine(INT8), "2 3", &[0; 6]);
    let external = |entries: &[(&str, &str)]| EncodedValueProto {
        raw_data: None,
        data_location: Some(1),
        external_data: entries.iter().map(|(k, v)| entry(k, v)).collect(),
        ..good.clone()
    };
    let whole = [("location", "w.bin"), ("length", "6"), ("offset", "64")];
    fits(&external(&whole));
    fits(&external(&whole[..2]));
    faulty(
        &EncodedValueProto {
            raw_data: None,
            ..good.clone()
        },
        ".raw_data: expected a payload, got none",
    );
    // Present and empty is a payload.
    fits(&EncodedValueProto {
        raw_data: raw(&[]),
        logical_type: Some(tensor_type(FLOAT, "0 3")),
        ..good.clone()
    });
    faulty(
        &EncodedValueProto {
            raw_data: raw(&[0; 6]),
            ..external(&whole)
        },
        ".raw_data: expected no payload beside external_data, got one",
    );
    faulty(
        &EncodedValueProto {
            external_data: vec![entry("location", "w.bin")],
            ..good.clone()
        },
        ".external_data: expected no entry unless data_location is EXTERNAL, got some",
    );
    faulty(
        &EncodedValueProto {
            data_location: Some(2),
            ..good.clone()
        },
        ".data_location: expected 0 or 1, got 2",
    );
    for (entries, fault) in [
        (
            vec![("location", "w.bin"), ("", "6")],
            "[1]: expected a key, got an empty one",
        ),
        (
            vec![
                ("location", "w.bin"),
                ("length", "6"),
                ("location", "v.bin"),
            ],
            "[2]: expected a key of its own, got `location` for the second time",
        ),
        (
            vec![("length", "6")],
            "[\"location\"]: expected a path inside the model's folder, got ``, which names no file",
        ),
        (
            vec![("location", "../w.bin"), ("length", "6")],
            "[\"location\"]: expected a path inside the model's folder, got `../w.bin`, which has a `..` part",
        ),
        (
            vec![("location", "/w.bin"), ("length", "6")],
            "[\"location\"]: expected a path inside the model's folder, got `/w.bin`, which is absolute",
        ),
        (
            vec![("location", "w.bin")],
            "[\"length\"]: expected a nonnegative integer, got none",
        ),
        (
            vec![("location", "w.bin"), ("length", "six")],
            "[\"length\"]: expected a nonnegative integer, got `six`",
        ),
        (
            vec![("location", "w.bin"), ("length", "6"), ("offset", "-1")],
            "[\"offset\"]: expected a nonnegative integer, got `-1`",
        ),
        (
            vec![
                ("location", "w.bin"),
                ("length", "6"),
                ("offset", "9223372036854775802"),
            ],
            ": expected offset and length that add up to at most 9223372036854775807, \
             got 9223372036854775802 and 6",
        ),
    ] {
        faulty(&external(&entries), &format!(".external_data{fault}"));
    }
    // Its length is the payload's.
    let text = verdict(&external(&[("location", "w.bin"), ("length", "7")])).unwrap_err();
    assert!(text.contains("expected 6 bytes"), "{text}");
}

/// Rules 3.7.10, 3.10.3.
#[test]
fn s117_an_affine_value_decodes_to_a_tensor_of_known_dimensions() {
    let with = |ty| EncodedValueProto {
        logical_type: ty,
        ..value(affine(INT8), "2 3", &[0; 6])
    };
    fits(&with(Some(tensor_type(FLOAT, "2 3"))));
    faulty(
        &with(None),
        ".logical_type: expected a tensor type, got none",
    );
    faulty(
        &with(Some(sequence(tensor_type(FLOAT, "2 3")))),
        ".logical_type: expected a tensor type, got a sequence",
    );
    let mut no_shape = tensor_type(FLOAT, "");
    if let Some(refeed_proto::type_proto::Value::TensorType(tensor)) = &mut no_shape.value {
        tensor.shape = None;
    }
    faulty(
        &with(Some(no_shape)),
        ".logical_type.tensor_type.shape: expected dimensions that are numbers, got none",
    );
    for (dims, shown) in [("2 n", "FLOAT[2, n]"), ("2 ?", "FLOAT[2, ?]")] {
        faulty(
            &with(Some(tensor_type(FLOAT, dims))),
            &format!(".logical_type.tensor_type.shape.dim[1]: expected a number, got {shown}"),
        );
    }
    for dims in ["2 -3", "4611686018427387904 4611686018427387904"] {
        let text = verdict(&with(Some(tensor_type(FLOAT, dims)))).unwrap_err();
        assert!(
            text.contains("shape: expected dimensions with a size"),
            "{text}"
        );
    }
    for element in [0, STRING] {
        let text = verdict(&with(Some(tensor_type(element, "2 3")))).unwrap_err();
        assert!(
            text.contains("expected an element type that is not STRING"),
            "{text}"
        );
    }
}

/// Rule 3.10.3.
#[test]
fn codes_take_exactly_the_bytes_that_they_need() {
    // The number of bytes by hand, for 13 elements.
    for (storage, bytes) in [
        (INT8, 13),
        (UINT8, 13),
        (INT4, 7),
        (UINT4, 7),
        (INT2, 4),
        (UINT2, 4),
    ] {
        for length in 0..16 {
            let got = verdict(&value(affine(storage), "13", &vec![0; length]));
            assert_eq!(got.is_ok(), length == bytes, "{storage} {length} {got:?}");
        }
    }
    faulty(
        &value(affine(INT4), "13", &[0; 8]),
        ".raw_data: expected 7 bytes, as INT4[13] takes, got 8",
    );
    for storage in [1, 0, 7, 23, 99] {
        let text = verdict(&value(affine(storage), "13", &[0; 13])).unwrap_err();
        assert!(
            text.contains("affine.storage_type: expected an integer type of 2, 4 or 8 bits"),
            "{text}"
        );
    }
}

#[test]
fn bits_past_the_last_code_are_0() {
    for (storage, dims, last, fits) in [
        (INT4, "3", 0x0F, true),
        (INT4, "3", 0x1F, false),
        (INT4, "4", 0xFF, true),
        (UINT2, "5", 0x03, true),
        (UINT2, "5", 0x04, false),
        (UINT2, "7", 0x3F, true),
        (UINT2, "7", 0x40, false),
        (INT8, "2", 0xFF, true),
    ] {
        let got = verdict(&value(affine(storage), dims, &[0xFF, last]));
        assert_eq!(got.is_ok(), fits, "{storage} {dims} {last:#x} {got:?}");
    }
    faulty(
        &value(affine(INT4), "3", &[0, 0x10]),
        ".raw_data: expected 0 in the bits past the last code, got 0b00010000 in the last byte",
    );
}

#[test]
fn s254_a_sign_alone_gives_the_width_when_only_one_fits() {
    let signed = |signed, dims: &str, payload: &[u8]| {
        value(
            AffineLayoutProto {
                storage_type: None,
                signed_storage: Some(signed),
                ..affine(INT8)
            },
            dims,
            payload,
        )
    };
    for (dims, bytes) in [("8", 8), ("8", 4), ("8", 2), ("3", 2), ("3", 3), ("3", 1)] {
        fits(&signed(true, dims, &vec![0; bytes]));
        fits(&signed(false, dims, &vec![0; bytes]));
    }
    // An explicit zero point carries the concrete type.
    let with_zero = |data_type| {
        let mut found = signed(true, "8", &[0; 4]);
        if let Some(Layout::Affine(layout)) = &mut found.layout {
            layout.zero_point = Some(parameter(data_type, &[], &[0]));
        }
        found
    };
    fits(&with_zero(INT4));
    faulty(
        &with_zero(INT8),
        ".affine.zero_point.data_type: expected INT4, got INT8",
    );
    faulty(
        &signed(true, "1", &[0]),
        ".affine.signed_storage: expected one code width that makes [1] take 1 bytes, \
         got INT8 and INT4 and INT2",
    );
    faulty(
        &signed(false, "2", &[0]),
        ".affine.signed_storage: expected one code width that makes [2] take 1 bytes, \
         got UINT4 and UINT2",
    );
    faulty(
        &signed(false, "8", &[0; 5]),
        ".affine.signed_storage: expected one code width that makes [8] take 5 bytes, got none",
    );
    let neither = AffineLayoutProto {
        storage_type: None,
        ..affine(INT8)
    };
    let both = AffineLayoutProto {
        signed_storage: Some(true),
        ..affine(INT8)
    };
    for (layout, got) in [(neither, "neither"), (both, "both")] {
        faulty(
            &value(layout, "8", &[0; 8]),
            &format!(".affine: expected storage_type or signed_storage, got {got}"),
        );
    }
}

/// Rule 3.10.3.
#[test]
fn parameters_have_the_shape_of_their_axis_and_blocks() {
    let with = |axis, block_size, dims: &[i64]| {
        let count = dims.iter().product::<i64>() as usize;
        value(
            AffineLayoutProto {
                axis,
                block_size,
                scale: Some(floats("", dims, &vec![0.5; count])),
                zero_point: Some(parameter(INT8, dims, &vec![0; count])),
                ..affine(INT8)
            },
            "2 7 3",
            &[0; 42],
        )
    };
    fits(&with(None, None, &[]));
    fits(&with(Some(1), None, &[7]));
    fits(&with(Some(-1), None, &[3]));
    fits(&with(Some(-3), None, &[2]));
    fits(&with(Some(1), Some(2), &[2, 4, 3]));
    fits(&with(Some(1), Some(7), &[2, 1, 3]));
    fits(&with(Some(1), Some(u64::MAX), &[2, 1, 3]));
    for (found, fault) in [
        (
            with(None, None, &[1]),
            ".affine.scale.dims: expected [], got [1]",
        ),
        (
            with(Some(1), None, &[3]),
            ".affine.scale.dims: expected [7], got [3]",
        ),
        (
            with(Some(1), Some(2), &[7]),
            ".affine.scale.dims: expected [2, 4, 3], got [7]",
        ),
        (
            with(Some(1), Some(0), &[7]),
            ".affine.block_size: expected 1 or more, got 0",
        ),
        (
            with(None, Some(2), &[]),
            ".affine.axis: expected an axis beside block_size, got none",
        ),
        (
            with(Some(3), None, &[3]),
            ".affine.axis: expected an axis from -3 to 2, got 3",
        ),
        (
            with(Some(-4), None, &[3]),
            ".affine.axis: expected an axis from -3 to 2, got -4",
        ),
        (
            with(Some(i64::MIN), None, &[3]),
            ".affine.axis: expected an axis from -3 to 2, got -9223372036854775808",
        ),
    ] {
        faulty(&found, fault);
    }
    let scalar = value(
        AffineLayoutProto {
            axis: Some(0),
            ..affine(INT8)
        },
        "",
        &[0],
    );
    faulty(
        &scalar,
        ".affine.axis: expected none, as the value has no axis, got 0",
    );
}

#[test]
fn scales_are_inline_floats_and_zero_points_inline_codes() {
    let with_scale = |scale| {
        let layout = AffineLayoutProto {
            scale,
            ..affine(INT8)
        };
        value(layout, "3", &[0; 3])
    };
    for (data_type, bytes) in [(1, 4), (10, 2), (11, 8), (16, 2)] {
        fits(&with_scale(Some(parameter(
            data_type,
            &[],
            &vec![0; bytes],
        ))));
    }
    faulty(
        &with_scale(None),
        ".affine.scale: expected a tensor, got none",
    );
    faulty(
        &with_scale(Some(parameter(6, &[], &[0; 4]))),
        ".affine.scale.data_type: expected FLOAT, FLOAT16, DOUBLE or BFLOAT16, got INT32",
    );
    faulty(
        &with_scale(Some(parameter(1, &[], &[0; 3]))),
        ".affine.scale: expected exactly the elements of the dimensions, \
         got unnamed tensor: expected 4 bytes in raw_data, got 3",
    );
    let external = TensorProto {
        raw_data: None,
        data_location: Some(1),
        ..parameter(1, &[], &[])
    };
    faulty(
        &with_scale(Some(external)),
        ".affine.scale.data_location: expected elements in the message, got elements in another file",
    );
    let with_zero = |storage, zero_point| {
        let layout = AffineLayoutProto {
            zero_point: Some(zero_point),
            ..affine(storage)
        };
        value(layout, "16", &[0; 8])
    };
    fits(&with_zero(UINT4, parameter(UINT4, &[], &[8])));
    // Typed fields hold as many codes an entry as fit.
    fits(&with_zero(
        UINT4,
        TensorProto {
            raw_data: None,
            int32_data: vec![8],
            ..parameter(UINT4, &[], &[])
        },
    ));
    faulty(
        &with_zero(UINT4, parameter(INT4, &[], &[8])),
        ".affine.zero_point.data_type: expected UINT4, got INT4",
    );
    faulty(
        &with_zero(UINT4, parameter(UINT4, &[1], &[8])),
        ".affine.zero_point.dims: expected [], got [1]",
    );
    // A typed zero point that its type does not hold.
    let wide = TensorProto {
        raw_data: None,
        int32_data: vec![128],
        ..parameter(INT8, &[], &[])
    };
    let layout = AffineLayoutProto {
        zero_point: Some(wide),
        ..affine(INT8)
    };
    let text = verdict(&value(layout, "3", &[0; 3])).unwrap_err();
    assert!(text.contains("128 does not fit INT8"), "{text}");
}

fn packing(widths: &[u32], dimension: u64) -> StructTypeProto {
    let names = ["a", "b", "c"];
    let component = widths
        .iter()
        .zip(names)
        .map(|(&bits, name)| Component {
            name: Some(name.to_string()),
            bit_width: Some(bits),
        })
        .collect();
    of_kind(Kind::BitPacking(BitPacking {
        component,
        dimension: Some(dimension),
    }))
}

/// Rule 3.10.4.
#[test]
fn a_structured_value_is_whole_records_of_whole_bytes() {
    // Records of 24 bits.
    let record = || packing(&[5, 3], 3);
    for length in 0..10 {
        let got = verdict(&structured(record(), &vec![0; length]));
        assert_eq!(got.is_ok(), length % 3 == 0, "{length} {got:?}");
    }
    faulty(
        &structured(record(), &[0; 4]),
        ".struct_type: expected a payload of whole records of 3 bytes, got 4 bytes",
    );
    faulty(
        &structured(packing(&[5, 4], 3), &[]),
        ".struct_type: expected records of whole bytes, at least one, got records of 27 bits",
    );
    let empty = structure(vec![("a", Content::Type(tensor_type(FLOAT, "0")))]);
    faulty(
        &structured(empty, &[]),
        ".struct_type: expected records of whole bytes, at least one, got records of 0 bits",
    );
    let dynamic = structure(vec![(
        "a",
        Content::Type(sequence(tensor_type(FLOAT, "2"))),
    )]);
    faulty(
        &structured(dynamic, &[]),
        ".struct_type.structure.field[0] \"a\".type: expected a type of fixed size, got a sequence",
    );
    faulty(
        &structured(StructTypeProto::default(), &[]),
        ".struct_type: expected an array, a structure or a bit packing, got no kind",
    );
    let named = StructTypeProto {
        type_id: Some(3),
        ..record()
    };
    faulty(
        &structured(named, &[]),
        ".struct_type.type_id: expected none outside the catalogue of the model, got 3",
    );
    // Apart from the model a reference is taken on trust; in it, it is resolved.
    let by_reference = |bytes: usize| {
        let reference = of_kind(Kind::TypeRef(9));
        let found = structured(reference, &vec![0; bytes]);
        fits(&found);
        let mut model = chain(vec![node("Neg", "x", "y")]);
        model.struct_types = vec![StructTypeProto {
            type_id: Some(9),
            ..record()
        }];
        model.graph.as_mut().unwrap().encoded_initializer = vec![EncodedValueProto {
            name: Some("w".to_string()),
            ..found
        }];
        model
    };
    accepted(by_reference(6));
    refused(
        by_reference(7),
        &[
            "graph.encoded_initializer[0] \"w\".struct_type",
            "3 bytes, got 7",
        ],
    );
    let mut missing = by_reference(6);
    missing.struct_types.clear();
    refused(missing, &["struct_types, got 9"]);
}

/// Rule 3.10.1.
#[test]
fn shared_parameters_belong_to_structured_values_that_decode_to_something() {
    let named = |value: EncodedValueProto, name: &str| EncodedValueProto {
        parameter_ref: Some(name.to_string()),
        ..value
    };
    let shared = EncodedValueProto {
        logical_type: Some(tensor_type(FLOAT, "4")),
        ..structured(packing(&[8], 3), &[0; 3])
    };
    fits(&named(shared.clone(), "w"));
    faulty(
        &named(shared.clone(), ""),
        ".parameter_ref: expected the name of a parameter set, got an empty one",
    );
    faulty(
        &named(value(affine(INT8), "3", &[0; 3]), "w"),
        ".parameter_ref: expected a struct type beside shared parameters, got an affine layout",
    );
    faulty(
        &named(
            EncodedValueProto {
                logical_type: None,
                ..shared
            },
            "w",
        ),
        ".parameter_ref: expected a logical_type beside shared parameters, got none",
    );
}

/// Rule 3.10.2; S114.
#[test]
fn encoded_values_in_other_files_are_compared_with_the_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.bin"), [0; 70]).unwrap();
    let external = |offset: &str| {
        let entries = [("location", "w.bin"), ("length", "6"), ("offset", offset)];
        let mut model = chain(vec![node("Neg", "x", "y")]);
        model.graph.as_mut().unwrap().encoded_initializer = vec![EncodedValueProto {
            name: Some("w".to_string()),
            raw_data: None,
            data_location: Some(1),
            external_data: entries
                .iter()
                .map(|(key, value)| StringStringEntryProto {
                    key: Some(key.to_string()),
                    value: Some(value.to_string()),
                })
                .collect(),
            ..value(affine(INT8), "2 3", &[])
        }];
        model
    };
    let options = LoadOptions::default().with_external_base(folder.path());
    assert!(Model::from_proto(external("64"), &options).is_ok());
    let error = Model::from_proto(external("65"), &options).unwrap_err();
    told(
        &error,
        &[
            "graph.encoded_initializer[0] \"w\"",
            "6 bytes at offset 65",
            "70",
        ],
    );
    refused(external("64"), &["no folder"]);
}
