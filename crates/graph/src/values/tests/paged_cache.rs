//! Paged caches.

use super::*;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::{PagedCacheBlockProto, PagedCacheProto};
use refeed_values::paged_cache::{self, cache_of, has_paged_cache_structure, page_of};
use refeed_values::{RuntimeValue, Tensor};

fn dense(data_type: DType, dims: &[i64]) -> TensorProto {
    let elements = dims.iter().product::<i64>() as usize;
    TensorProto {
        data_type: Some(data_type.to_onnx()),
        dims: dims.to_vec(),
        raw_data: Some(Bytes::from(vec![1; elements * data_type.bits() / 8])),
        ..TensorProto::default()
    }
}

fn block(start: i64, length: i64, key: KeyPayload, value: ValuePayload) -> PagedCacheBlockProto {
    PagedCacheBlockProto {
        start: Some(start),
        length: Some(length),
        key_payload: Some(key),
        value_payload: Some(value),
    }
}

/// Pages of every kind of payload, of 1 sequence and 2 heads; keys of width 3, values of width 5.
fn mixed() -> PagedCacheProto {
    let int4 = affine(DType::Int4, "1 2 4 3", &[0; 12]);
    let uint2 = affine(DType::Uint2, "1 2 4 5", &[0; 10]);
    PagedCacheProto {
        blocks: vec![
            block(
                0,
                2,
                KeyPayload::Key(dense(DType::Float, &[1, 2, 2, 3])),
                ValuePayload::Value(dense(DType::Bfloat16, &[1, 2, 2, 5])),
            ),
            block(
                2,
                3,
                KeyPayload::EncodedKey(int4),
                ValuePayload::EncodedValue(uint2),
            ),
            block(
                5,
                1,
                KeyPayload::Key(dense(DType::Float16, &[1, 2, 1, 3])),
                ValuePayload::Value(dense(DType::Float, &[1, 2, 1, 5])),
            ),
        ],
        name: Some("cache".to_string()),
        doc_string: None,
    }
}

fn read(proto: &PagedCacheProto) -> Result<RuntimeValue, ModelError> {
    from_paged_cache(proto, &Catalogues::default())
}

fn payload(proto: &PagedCacheProto, index: usize) -> &[u8] {
    match &proto.blocks[index].key_payload {
        Some(KeyPayload::Key(tensor)) => tensor.raw_data(),
        Some(KeyPayload::EncodedKey(value)) => value.raw_data(),
        None => panic!("a key"),
    }
}

/// Rule 7.1.6; S227.
#[test]
fn a_cache_comes_back_as_it_was_and_its_payloads_are_shared() {
    let proto = mixed();
    let cache = read(&proto).unwrap();
    assert!(has_paged_cache_structure(&cache));
    let shape = paged_cache::check(&cache).unwrap();
    assert_eq!((shape.tokens, shape.dims.unwrap().most_capacity), (6, 4));
    let again = to_paged_cache(&cache, "cache").unwrap();
    assert_eq!(again, proto);
    for index in 0..3 {
        assert_eq!(
            payload(&again, index).as_ptr(),
            payload(&proto, index).as_ptr()
        );
    }
    assert_eq!(to_paged_cache(&cache, "").unwrap().name, None);
}

#[test]
fn an_empty_cache_is_a_cache() {
    let empty = PagedCacheProto::default();
    let cache = read(&empty).unwrap();
    assert!(has_paged_cache_structure(&cache));
    assert_eq!(to_paged_cache(&cache, "").unwrap(), empty);
}

#[test]
fn typed_fields_of_dense_pages_are_read() {
    let half = |data_type: DType, bits: i32, width: i64| TensorProto {
        data_type: Some(data_type.to_onnx()),
        dims: vec![1, 1, 1, width],
        int32_data: vec![bits; width as usize],
        ..TensorProto::default()
    };
    let float = TensorProto {
        data_type: Some(FLOAT),
        dims: vec![1, 1, 1, 2],
        float_data: vec![1.5, -2.0],
        ..TensorProto::default()
    };
    // 1.0 in FLOAT16 and in BFLOAT16.
    let proto = PagedCacheProto {
        blocks: vec![
            block(
                0,
                1,
                KeyPayload::Key(half(DType::Float16, 0x3C00, 2)),
                ValuePayload::Value(half(DType::Bfloat16, 0x3F80, 3)),
            ),
            block(
                1,
                1,
                KeyPayload::Key(float),
                ValuePayload::Value(dense(DType::Float, &[1, 1, 1, 3])),
            ),
        ],
        ..PagedCacheProto::default()
    };
    let cache = read(&proto).unwrap();
    let pages = paged_cache::blocks(&cache).unwrap();
    let first = paged_cache::page(pages.get(0).unwrap()).unwrap();
    let ones = first.key.tensor().unwrap().as_bytes().unwrap();
    assert_eq!(ones, [0x00, 0x3C, 0x00, 0x3C]);
    let ones = first.value.tensor().unwrap().as_bytes().unwrap();
    assert_eq!(ones, [0x80, 0x3F, 0x80, 0x3F, 0x80, 0x3F]);
    let second = paged_cache::page(pages.get(1).unwrap()).unwrap();
    let key = second.key.tensor().unwrap();
    assert_eq!(key.view::<f32>().unwrap().to_vec(), [1.5, -2.0]);
    // What was in typed fields is written as raw data.
    let again = to_paged_cache(&cache, "").unwrap();
    assert_eq!(payload(&again, 0), [0x00, 0x3C, 0x00, 0x3C]);
}

#[test]
fn the_rules_of_pages_are_held_on_the_way_in() {
    let with = |change: fn(&mut PagedCacheBlockProto)| {
        let mut proto = mixed();
        change(&mut proto.blocks[1]);
        read(&proto)
    };
    refused(
        with(|b| b.start = Some(3)),
        &["paged_cache.blocks[1].start: expected 2, got 3"],
    );
    refused(
        with(|b| b.start = None),
        &["blocks[1].start: expected 2, got none"],
    );
    refused(
        with(|b| b.length = Some(0)),
        &["blocks[1].length: expected 1 or more, got 0"],
    );
    refused(
        with(|b| b.length = Some(5)),
        &["blocks[1].length: expected at most 4"],
    );
    refused(
        with(|b| b.length = Some(2)),
        &["blocks[2].start: expected 4, got 5"],
    );
    refused(
        with(|b| b.key_payload = None),
        &["blocks[1]: expected key or encoded_key"],
    );
    refused(
        with(|b| {
            let width = affine(DType::Int4, "1 2 4 4", &[0; 16]);
            b.key_payload = Some(KeyPayload::EncodedKey(width));
        }),
        &["blocks[1].key.axis[\"width\"]: expected 3, as the first page has, got 4"],
    );
    refused(
        with(|b| {
            let mut negative = affine(DType::Int4, "1 2 4 3", &[0; 12]);
            layout_mut(&mut negative).scale = Some(floats("", &[], &[-1.0]));
            b.key_payload = Some(KeyPayload::EncodedKey(negative));
        }),
        &["blocks[1].encoded_key.affine.scale[0]"],
    );
    refused(
        with(|b| {
            let mut short = dense(DType::Float, &[1, 2, 4, 3]);
            short.raw_data = raw(&[0; 4]);
            b.key_payload = Some(KeyPayload::Key(short));
        }),
        &["blocks[1].key"],
    );
    refused(
        with(|b| {
            let mut huge = dense(DType::Float, &[1, 1, 1, 1]);
            huge.dims = vec![i64::MAX; 4];
            b.key_payload = Some(KeyPayload::Key(huge));
        }),
        &["blocks[1].key"],
    );
}

#[test]
fn the_rules_of_pages_are_held_on_the_way_out() {
    let scalar = |n: i64| Tensor::scalar(n).unwrap();
    let tensor = || RuntimeValue::from(Tensor::from_slice(&[1, 1, 2, 3], &[0f32; 6]).unwrap());
    let page = |start, length| page_of(scalar(start), scalar(length), tensor(), tensor()).unwrap();
    let write = |pages: Vec<RuntimeValue>| to_paged_cache(&cache_of(pages).unwrap(), "");
    assert_eq!(write(vec![page(0, 2), page(2, 1)]).unwrap().blocks.len(), 2);
    refused(
        write(vec![page(0, 2), page(3, 1)]),
        &["blocks[1].start: expected 2, got 3"],
    );
    refused(
        write(vec![tensor()]),
        &["blocks[0]: expected a structure of start, length"],
    );
    refused(to_paged_cache(&tensor(), ""), &["the one field `blocks`"]);
}

#[test]
fn a_strided_payload_is_written_dense() {
    let data: Vec<f32> = (0..12).map(|n| n as f32).collect();
    let rows = Tensor::from_slice(&[1, 2, 3, 2], &data).unwrap();
    let (layout, delta) = rows.layout().slice(2, 1, 2, 1).unwrap();
    let turned = rows.with_layout(layout, delta).unwrap();
    let scalar = |n: i64| Tensor::scalar(n).unwrap();
    let page = page_of(scalar(0), scalar(2), turned.clone().into(), turned.into()).unwrap();
    let proto = to_paged_cache(&cache_of([page]).unwrap(), "").unwrap();
    let expected: Vec<u8> = [2f32, 3.0, 4.0, 5.0, 8.0, 9.0, 10.0, 11.0]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    assert_eq!(payload(&proto, 0), expected);
}
