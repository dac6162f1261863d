//! Paged caches.

use super::*;
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::struct_type_proto::Kind;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::{
    AffineLayoutProto, EncodedValueProto, PagedCacheBlockProto, StructTypeProto, TypeProto,
};

/// A FLOAT tensor of the given dimensions.
fn dense(dims: &[i64]) -> TensorProto {
    floats("", dims, &vec![0.5; dims.iter().product::<i64>() as usize])
}

/// An INT8 tensor of the given dimensions that decodes to FLOAT.
fn encoded(dims: &str, elements: usize, scale: f32) -> EncodedValueProto {
    EncodedValueProto {
        layout: Some(Layout::Affine(Box::new(AffineLayoutProto {
            storage_type: Some(3),
            scale: Some(floats("", &[], &[scale])),
            ..AffineLayoutProto::default()
        }))),
        logical_type: Some(tensor_type(FLOAT, dims)),
        raw_data: Some(Bytes::from(vec![0; elements])),
        ..EncodedValueProto::default()
    }
}

/// A page of `length` tokens in a capacity of 4: two batches, one head, keys of 3, values of 5.
fn page(start: i64, length: i64) -> PagedCacheBlockProto {
    PagedCacheBlockProto {
        start: Some(start),
        length: Some(length),
        key_payload: Some(KeyPayload::Key(dense(&[2, 1, 4, 3]))),
        value_payload: Some(ValuePayload::Value(dense(&[2, 1, 4, 5]))),
    }
}

fn cache(blocks: Vec<PagedCacheBlockProto>) -> PagedCacheProto {
    PagedCacheProto {
        blocks,
        name: Some("cache".to_string()),
        ..PagedCacheProto::default()
    }
}

fn verdict(blocks: Vec<PagedCacheBlockProto>) -> Result<(), String> {
    PartVerifier::default()
        .check_paged_cache(&cache(blocks))
        .map_err(|error| error.to_string())
}

#[track_caller]
fn fits(blocks: Vec<PagedCacheBlockProto>) {
    assert_eq!(verdict(blocks), Ok(()));
}

#[track_caller]
fn faulty(blocks: Vec<PagedCacheBlockProto>, expected: &str) {
    assert_eq!(
        verdict(blocks),
        Err(format!("paged_cache.blocks{expected}"))
    );
}

fn with_key(key: KeyPayload) -> PagedCacheBlockProto {
    PagedCacheBlockProto {
        key_payload: Some(key),
        ..page(4, 2)
    }
}

#[test]
fn s226_pages_are_consecutive() {
    fits(vec![]);
    fits(vec![page(0, 4), page(4, 1), page(5, 3)]);
    faulty(vec![page(1, 4)], "[0].start: expected 0, got 1");
    faulty(vec![page(0, 4), page(5, 1)], "[1].start: expected 4, got 5");
    faulty(vec![page(0, 4), page(3, 1)], "[1].start: expected 4, got 3");
    faulty(vec![page(-1, 4)], "[0].start: expected 0, got -1");
    let absent = PagedCacheBlockProto {
        start: None,
        ..page(0, 4)
    };
    faulty(vec![absent], "[0].start: expected 0, got none");
}

#[test]
fn s226_a_page_holds_1_to_capacity_tokens() {
    fits(vec![page(0, 1)]);
    faulty(vec![page(0, 0)], "[0].length: expected 1 or more, got 0");
    faulty(vec![page(0, -2)], "[0].length: expected 1 or more, got -2");
    faulty(
        vec![page(0, 5)],
        "[0].length: expected at most 4, the capacity of the page, got 5",
    );
    let absent = PagedCacheBlockProto {
        length: None,
        ..page(0, 4)
    };
    faulty(vec![absent], "[0].length: expected 1 or more, got none");
    faulty(
        vec![page(0, 4), page(4, i64::MAX)],
        "[1].length: expected tokens that end before 9223372036854775807, \
         got 9223372036854775807 tokens from 4 on",
    );
}

#[test]
fn s222_a_page_has_one_key_and_one_value() {
    fits(vec![
        page(0, 4),
        with_key(KeyPayload::EncodedKey(encoded("2 1 4 3", 24, 0.5))),
    ]);
    faulty(
        vec![PagedCacheBlockProto {
            key_payload: None,
            ..page(0, 4)
        }],
        "[0]: expected key or encoded_key, got neither",
    );
    faulty(
        vec![PagedCacheBlockProto {
            value_payload: None,
            ..page(0, 4)
        }],
        "[0]: expected value or encoded_value, got neither",
    );
}

#[test]
fn s224_a_dense_page_is_inline_floating_point_and_whole() {
    let key = |tensor| vec![page(0, 4), with_key(KeyPayload::Key(tensor))];
    let half = |data_type| TensorProto {
        data_type: Some(data_type),
        raw_data: Some(Bytes::from(vec![0; 48])),
        ..dense(&[2, 1, 4, 3])
    };
    fits(key(half(10)));
    fits(key(half(16)));
    // Typed fields, as they are for each type.
    let typed = |data_type| TensorProto {
        raw_data: None,
        int32_data: vec![0x3C00; 24],
        ..half(data_type)
    };
    fits(key(typed(10)));
    fits(key(typed(16)));
    fits(key(TensorProto {
        raw_data: None,
        float_data: vec![0.5; 24],
        ..dense(&[2, 1, 4, 3])
    }));
    let wrong = TensorProto {
        float_data: vec![0.5; 24],
        int32_data: Vec::new(),
        ..typed(10)
    };
    let text = verdict(key(wrong)).unwrap_err();
    assert!(
        text.contains("blocks[1].key") && text.contains("int32_data"),
        "{text}"
    );
    faulty(
        key(TensorProto {
            data_type: Some(11),
            ..dense(&[2, 1, 4, 3])
        }),
        "[1].key.data_type: expected FLOAT, FLOAT16 or BFLOAT16, got DOUBLE",
    );
    faulty(
        key(TensorProto {
            raw_data: None,
            data_location: Some(1),
            ..dense(&[2, 1, 4, 3])
        }),
        "[1].key.data_location: expected elements in the message, got elements in another file",
    );
    faulty(
        key(TensorProto {
            raw_data: Some(Bytes::from(vec![0; 95])),
            ..dense(&[2, 1, 4, 3])
        }),
        "[1].key: expected exactly the elements of the dimensions, \
         got unnamed tensor: expected 96 bytes in raw_data, got 95",
    );
}

#[test]
fn s224_an_encoded_page_is_inline_and_decodes_to_float() {
    let key = |value| vec![page(0, 4), with_key(KeyPayload::EncodedKey(value))];
    let good = || encoded("2 1 4 3", 24, 0.5);
    fits(key(good()));
    faulty(
        key(EncodedValueProto {
            logical_type: Some(tensor_type(10, "2 1 4 3")),
            ..good()
        }),
        "[1].encoded_key.logical_type.tensor_type.elem_type: expected FLOAT, got FLOAT16",
    );
    faulty(
        key(EncodedValueProto {
            logical_type: Some(tensor_type(FLOAT, "2 1 n 3")),
            ..good()
        }),
        "[1].encoded_key.logical_type.tensor_type.shape.dim[2]: expected a number, \
         got FLOAT[2, 1, n, 3]",
    );
    faulty(
        key(EncodedValueProto {
            raw_data: None,
            data_location: Some(1),
            ..good()
        }),
        "[1].encoded_key.data_location: expected a page in the message, got a page in another file",
    );
    faulty(
        key(EncodedValueProto {
            layout: None,
            ..good()
        }),
        "[1].encoded_key: expected an affine layout or a struct type, got neither",
    );
    // A structured encoding says what it decodes to as well.
    let bytes = refeed_proto::struct_type_proto::Array {
        element_type: Some(Box::new(tensor_type(2, "24"))),
        dimension: Some(1),
    };
    let structured = EncodedValueProto {
        layout: Some(Layout::StructType(of_kind(Kind::Array(Box::new(bytes))))),
        ..good()
    };
    fits(key(structured.clone()));
    faulty(
        key(EncodedValueProto {
            logical_type: None,
            ..structured
        }),
        "[1].encoded_key.logical_type: expected a tensor type, got none",
    );
}

#[test]
fn scales_of_pages_are_positive_numbers() {
    let with = |scale| {
        let value = encoded("2 1 4 3", 24, scale);
        vec![page(0, 4), with_key(KeyPayload::EncodedKey(value))]
    };
    for scale in [0.25, f32::MIN_POSITIVE, 1e-42, f32::MAX] {
        fits(with(scale));
    }
    for (scale, shown) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (-1.0, "-1"),
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
    ] {
        faulty(
            with(scale),
            &format!(
                "[1].encoded_key.affine.scale[0]: expected a positive finite number, got {shown}"
            ),
        );
    }
    // The other types of scales, by the bits of 1, -1, infinity and NaN.
    for (data_type, good, bad) in [
        (
            10,
            vec![0x00, 0x3C],
            [vec![0x00, 0xBC], vec![0x00, 0x7C], vec![0x01, 0x7C]],
        ),
        (
            16,
            vec![0x80, 0x3F],
            [vec![0x80, 0xBF], vec![0x80, 0x7F], vec![0x81, 0x7F]],
        ),
        (
            11,
            1f64.to_le_bytes().to_vec(),
            [
                (-1f64).to_le_bytes().to_vec(),
                f64::INFINITY.to_le_bytes().to_vec(),
                f64::NAN.to_le_bytes().to_vec(),
            ],
        ),
    ] {
        let typed = |bytes: Vec<u8>| {
            let mut value = encoded("2 1 4 3", 24, 1.0);
            if let Some(Layout::Affine(affine)) = &mut value.layout {
                affine.scale = Some(TensorProto {
                    data_type: Some(data_type),
                    raw_data: Some(Bytes::from(bytes)),
                    ..TensorProto::default()
                });
            }
            verdict(vec![page(0, 4), with_key(KeyPayload::EncodedKey(value))])
        };
        assert_eq!(typed(good), Ok(()));
        for bytes in bad {
            let text = typed(bytes).unwrap_err();
            assert!(text.contains("expected a positive finite number"), "{text}");
        }
    }
}

#[test]
fn a_payload_has_four_axes_that_are_not_empty() {
    for (dims, fault) in [
        (
            vec![2, 4, 3],
            ".dims: expected four axes: batch, heads, capacity, width, got [2, 4, 3]",
        ),
        (
            vec![2, 1, 4, 3, 1],
            ".dims: expected four axes: batch, heads, capacity, width, got [2, 1, 4, 3, 1]",
        ),
        (
            vec![0, 1, 4, 3],
            ".dims.axis[\"batch\"]: expected 1 or more, got 0",
        ),
        (
            vec![2, 0, 4, 3],
            ".dims.axis[\"heads\"]: expected 1 or more, got 0",
        ),
        (
            vec![2, 1, 0, 3],
            ".dims.axis[\"capacity\"]: expected 1 or more, got 0",
        ),
        (
            vec![2, 1, 4, 0],
            ".dims.axis[\"width\"]: expected 1 or more, got 0",
        ),
    ] {
        let block = PagedCacheBlockProto {
            key_payload: Some(KeyPayload::Key(dense(&dims))),
            ..page(0, 2)
        };
        faulty(vec![block], &format!("[0].key{fault}"));
    }
    let negative = TensorProto {
        dims: vec![2, 1, -4, 3],
        ..dense(&[1])
    };
    let block = PagedCacheBlockProto {
        key_payload: Some(KeyPayload::Key(negative)),
        ..page(0, 2)
    };
    faulty(
        vec![block],
        "[0].key.dims.axis[\"capacity\"]: expected 1 or more, got -4",
    );
}

#[test]
fn s226_extents_agree_in_a_page_and_over_pages() {
    let block = |key: &[i64], value: &[i64]| PagedCacheBlockProto {
        key_payload: Some(KeyPayload::Key(dense(key))),
        value_payload: Some(ValuePayload::Value(dense(value))),
        ..page(4, 2)
    };
    // Capacities may differ between pages.
    fits(vec![page(0, 4), block(&[2, 1, 9, 3], &[2, 1, 9, 5])]);
    for (key, value, fault) in [
        (
            [2, 1, 4, 3],
            [2, 1, 5, 5],
            "value.axis[\"capacity\"]: expected 4, as the key has, got 5",
        ),
        (
            [2, 1, 4, 3],
            [1, 1, 4, 5],
            "value.axis[\"batch\"]: expected 2, as the key has, got 1",
        ),
        (
            [2, 1, 4, 3],
            [2, 3, 4, 5],
            "value.axis[\"heads\"]: expected 1, as the key has, got 3",
        ),
        (
            [2, 1, 4, 7],
            [2, 1, 4, 5],
            "key.axis[\"width\"]: expected 3, as the first page has, got 7",
        ),
        (
            [2, 1, 4, 3],
            [2, 1, 4, 7],
            "value.axis[\"width\"]: expected 5, as the first page has, got 7",
        ),
        (
            [3, 1, 4, 3],
            [3, 1, 4, 5],
            "key.axis[\"batch\"]: expected 2, as the first page has, got 3",
        ),
        (
            [2, 3, 4, 3],
            [2, 3, 4, 5],
            "key.axis[\"heads\"]: expected 1, as the first page has, got 3",
        ),
    ] {
        faulty(
            vec![page(0, 4), block(&key, &value)],
            &format!("[1].{fault}"),
        );
    }
}

/// A model with a cache for the default of its input `past`, which is declared with the given type.
fn with_input(declared: TypeProto, blocks: Vec<PagedCacheBlockProto>) -> ModelProto {
    let mut model = chain(vec![node("Neg", "x", "y")]);
    let graph = model.graph.as_mut().unwrap();
    graph.input.push(value("past", declared));
    graph.paged_cache_initializer = vec![PagedCacheProto {
        name: Some("past".to_string()),
        ..cache(blocks)
    }];
    model
}

fn declared(key: &str, value: &str) -> StructTypeProto {
    let page = structure(vec![
        ("start", Content::Type(tensor_type(INT64, ""))),
        ("length", Content::Type(tensor_type(INT64, ""))),
        ("key", Content::Type(tensor_type(FLOAT, key))),
        ("value", Content::Type(tensor_type(FLOAT, value))),
    ]);
    structure(vec![("blocks", Content::Type(sequence(of_struct(page))))])
}

/// Rule 3.12.2.
#[test]
fn pages_have_the_shapes_that_the_input_declares() {
    let blocks = || {
        let wide = PagedCacheBlockProto {
            key_payload: Some(KeyPayload::Key(dense(&[2, 1, 9, 3]))),
            value_payload: Some(ValuePayload::Value(dense(&[2, 1, 9, 5]))),
            ..page(4, 2)
        };
        vec![page(0, 4), wide]
    };
    let with = |key: &str, value: &str| with_input(of_struct(declared(key, value)), blocks());
    accepted(with("2 1 ? 3", "batch 1 ? 5"));
    accepted(with_input(of_struct(StructTypeProto::default()), blocks()));
    accepted(with("b h ? k", "b h ? v"));
    let at = "graph.paged_cache_initializer[0] \"past\".blocks";
    for (model, fault) in [
        (
            with("2 1 4 3", "2 1 ? 5"),
            "[1].key.axis[\"capacity\"]: expected 4, as the graph input declares, got 9",
        ),
        (
            with("3 1 ? 3", "? 1 ? 5"),
            "[0].key.axis[\"batch\"]: expected 3, as the graph input declares, got 2",
        ),
        (
            with("2 1 c 3", "2 1 ? 5"),
            "[1].key.axis[\"capacity\"]: expected 4, as `c` is, got 9",
        ),
        (
            with("2 1 ? w", "2 1 ? w"),
            "[0].value.axis[\"width\"]: expected 3, as `w` is, got 5",
        ),
    ] {
        refused(model, &[&format!("{at}{fault}")]);
    }
    // By a reference into the catalogue.
    let mut named = with_input(reference_to(7), blocks());
    named.struct_types = vec![StructTypeProto {
        type_id: Some(7),
        ..declared("2 1 ? 9", "2 1 ? 5")
    }];
    refused(named, &["[0].key.axis[\"width\"]: expected 9"]);
    // Other types are not the type of a cache.
    refused(
        with_input(tensor_type(FLOAT, "2"), blocks()),
        &[
            "graph.input[2] \"past\".type: expected a struct type",
            "got a tensor",
        ],
    );
    let other = structure(vec![("a", Content::Type(tensor_type(FLOAT, "2")))]);
    refused(
        with_input(of_struct(other), blocks()),
        &[
            "graph.input[2] \"past\".type.struct_type.structure",
            "fields blocks, got a",
        ],
    );
}

/// Rule 3.12.1; S231.
#[test]
fn a_cache_initializer_has_a_name() {
    let mut model = with_input(of_struct(StructTypeProto::default()), vec![page(0, 4)]);
    model.graph.as_mut().unwrap().paged_cache_initializer[0].name = None;
    refused(
        model,
        &["graph.paged_cache_initializer[0]: expected a name for an initializer"],
    );
}

#[test]
fn the_number_of_pages_is_bounded() {
    let shared = dense(&[1, 1, 1, 1]);
    let block = |start| PagedCacheBlockProto {
        start: Some(start),
        length: Some(1),
        key_payload: Some(KeyPayload::Key(shared.clone())),
        value_payload: Some(ValuePayload::Value(shared.clone())),
    };
    let blocks: Vec<PagedCacheBlockProto> = (0..100_000).map(block).collect();
    let start = Instant::now();
    fits(blocks);
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    let many = vec![PagedCacheBlockProto::default(); 1_000_001];
    let text = verdict(many).unwrap_err();
    assert_eq!(
        text,
        "paged_cache.blocks: pages: expected at most 1000000, got 1000001"
    );
}
