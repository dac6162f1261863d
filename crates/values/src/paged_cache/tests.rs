//! The rules of pages, each with the block and the field that it names.

use super::*;
use crate::Extent;
use crate::encoded::Affine;

fn scalar(n: i64) -> Tensor {
    Tensor::scalar(n).unwrap()
}

fn dense(dtype: DType, shape: &[usize]) -> RuntimeValue {
    let bytes = Extent::new(dtype, shape).unwrap().bytes();
    let memory = Tensor::from_slice(&[bytes], &vec![0u8; bytes]).unwrap();
    Tensor::dense(dtype, shape, memory.into_buffer())
        .unwrap()
        .into()
}

fn coded(storage: DType, shape: &[usize], scale: f32, logical: DType) -> RuntimeValue {
    let bytes = Extent::new(storage, shape).unwrap().bytes();
    let payload = Tensor::from_slice(&[bytes], &vec![0u8; bytes]).unwrap();
    let affine = Affine::per_tensor(storage, Tensor::scalar(scale).unwrap());
    EncodedValue::affine(affine, (logical, shape), payload)
        .unwrap()
        .into()
}

fn made(start: i64, length: i64, key: RuntimeValue, value: RuntimeValue) -> RuntimeValue {
    page_of(scalar(start), scalar(length), key, value).unwrap()
}

/// A page of 2 sequences and 3 heads, keys of width 5 and values of width 4.
fn plain(start: i64, length: i64, capacity: usize) -> RuntimeValue {
    let key = dense(DType::Float, &[2, 3, capacity, 5]);
    made(
        start,
        length,
        key,
        dense(DType::Float, &[2, 3, capacity, 4]),
    )
}

fn refusal(pages: Vec<RuntimeValue>) -> (Option<usize>, String, String) {
    let fault = check(&cache_of(pages).unwrap()).unwrap_err();
    (fault.block, fault.field.clone(), fault.to_string())
}

#[test]
fn an_empty_cache_has_no_extents() {
    let shape = check(&cache_of([]).unwrap()).unwrap();
    assert_eq!((shape.tokens, shape.dims), (0, None));
}

#[test]
fn pages_of_different_capacity_and_format_fit_together() {
    let pages = vec![
        plain(0, 2, 2),
        made(
            2,
            1,
            coded(DType::Int4, &[2, 3, 7, 5], 0.5, DType::Float),
            dense(DType::Bfloat16, &[2, 3, 7, 4]),
        ),
        made(
            3,
            4,
            dense(DType::Float16, &[2, 3, 4, 5]),
            coded(DType::Uint2, &[2, 3, 4, 4], 0.5, DType::Float),
        ),
    ];
    let shape = check(&cache_of(pages).unwrap()).unwrap();
    let dims = shape.dims.unwrap();
    assert_eq!(shape.tokens, 7);
    assert_eq!(
        (dims.batch, dims.heads, dims.key_width, dims.value_width),
        (2, 3, 5, 4)
    );
    assert_eq!((dims.least_capacity, dims.most_capacity), (2, 7));
}

#[test]
fn the_first_page_starts_at_zero_and_pages_are_contiguous() {
    let (block, field, text) = refusal(vec![plain(1, 1, 2)]);
    assert_eq!((block, &field[..]), (Some(0), "start"));
    assert_eq!(text, "blocks[0].start: expected 0, got 1");
    let (_, _, text) = refusal(vec![plain(0, 2, 2), plain(2, 1, 2), plain(4, 1, 2)]);
    assert_eq!(text, "blocks[2].start: expected 3, got 4");
    let (_, _, text) = refusal(vec![plain(0, 2, 2), plain(1, 1, 2)]);
    assert_eq!(text, "blocks[1].start: expected 2, got 1");
    let (_, _, text) = refusal(vec![plain(-1, 1, 2)]);
    assert_eq!(text, "blocks[0].start: expected 0, got -1");
}

#[test]
fn a_length_is_positive_and_at_most_the_capacity() {
    for (length, expected) in [
        (0, "blocks[0].length: expected 1 or more, got 0"),
        (
            i64::MIN,
            "blocks[0].length: expected 1 or more, got -9223372036854775808",
        ),
        (
            3,
            "blocks[0].length: expected at most 2, the capacity of the page, got 3",
        ),
        (
            i64::MAX,
            "blocks[0].length: expected at most 2, the capacity of the page, got 9223372036854775807",
        ),
    ] {
        assert_eq!(refusal(vec![plain(0, length, 2)]).2, expected);
    }
    // The number that is out of place is the larger one.
    let (block, field, _) = refusal(vec![plain(i64::MAX, 1, 2)]);
    assert_eq!((block, &field[..]), (Some(0), "start"));
}

#[test]
fn keys_and_values_agree_in_all_but_width() {
    for (value, field) in [
        ([1, 3, 2, 4], "value.axis[\"batch\"]"),
        ([2, 1, 2, 4], "value.axis[\"heads\"]"),
        ([2, 3, 9, 4], "value.axis[\"capacity\"]"),
    ] {
        let key = dense(DType::Float, &[2, 3, 2, 5]);
        let page = made(2, 1, key, dense(DType::Float, &value));
        let found = refusal(vec![plain(0, 2, 2), page]);
        assert_eq!((found.0, &found.1[..]), (Some(1), field));
    }
}

#[test]
fn pages_agree_in_batch_heads_and_widths() {
    for (key, value, field) in [
        ([1, 3, 2, 5], [1, 3, 2, 4], "key.axis[\"batch\"]"),
        ([2, 6, 2, 5], [2, 6, 2, 4], "key.axis[\"heads\"]"),
        ([2, 3, 2, 6], [2, 3, 2, 4], "key.axis[\"width\"]"),
        ([2, 3, 2, 5], [2, 3, 2, 5], "value.axis[\"width\"]"),
    ] {
        let page = made(2, 1, dense(DType::Float, &key), dense(DType::Float, &value));
        let found = refusal(vec![plain(0, 2, 2), page]);
        assert_eq!((found.0, &found.1[..]), (Some(1), field), "{}", found.2);
    }
}

#[test]
fn payloads_have_four_axes_none_of_them_empty() {
    for axis in 0..4 {
        let mut shape = [2, 3, 2, 5];
        shape[axis] = 0;
        let page = made(
            0,
            1,
            dense(DType::Float, &shape),
            dense(DType::Float, &shape),
        );
        let found = refusal(vec![page]);
        assert_eq!(
            found.1,
            format!("key.axis[\"{}\"]", AXES[axis]),
            "{}",
            found.2
        );
    }
    for shape in [&[2usize, 3, 2][..], &[2, 3, 2, 5, 1]] {
        let page = made(0, 1, dense(DType::Float, shape), dense(DType::Float, shape));
        assert!(refusal(vec![page]).2.contains("four axes"));
    }
}

#[test]
fn payloads_are_floats_or_encoded_floats_with_positive_scales() {
    let shape = [1, 1, 2, 3];
    let with = |key| refusal(vec![made(0, 1, key, dense(DType::Float, &shape))]).2;
    assert!(with(dense(DType::Double, &shape)).contains("got DOUBLE[1, 1, 2, 3]"));
    assert!(with(dense(DType::Int8, &shape)).contains("blocks[0].key: expected FLOAT, FLOAT16"));
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let text = with(coded(DType::Int8, &shape, scale, DType::Float));
        assert!(
            text.starts_with("blocks[0].key.scale[0]: expected a positive"),
            "{text}"
        );
    }
    let half = with(coded(DType::Int8, &shape, 1.0, DType::Float16));
    assert!(
        half.contains("an encoding of FLOAT, got one of FLOAT16"),
        "{half}"
    );
}

/// Rule 7.1.5; S207.
#[test]
fn the_structure_alone_tells_a_cache() {
    let key = || dense(DType::Float, &[1, 1, 2, 3]);
    let of =
        |fields: Vec<(&str, RuntimeValue)>| RuntimeValue::from(StructValue::new(fields).unwrap());
    let pages = |page| cache_of([page]).unwrap();
    let number = |n: i64| RuntimeValue::from(scalar(n));
    let good = of(vec![
        ("length", number(1)),
        ("value", key()),
        ("key", key()),
        ("start", number(5)),
    ]);
    // The fields may come in any order, and what they say may be wrong.
    assert!(has_paged_cache_structure(&pages(good.clone())));
    assert!(check(&pages(good)).is_err());
    let bad = [
        key(),
        of(vec![
            ("start", number(0)),
            ("length", number(1)),
            ("key", key()),
        ]),
        of(vec![
            ("start", number(0)),
            ("length", number(1)),
            ("key", key()),
            ("value", key()),
            ("more", key()),
        ]),
        of(vec![
            ("start", Tensor::scalar(0i32).unwrap().into()),
            ("length", number(1)),
            ("key", key()),
            ("value", key()),
        ]),
        of(vec![
            ("start", Tensor::from_slice(&[1], &[0i64]).unwrap().into()),
            ("length", number(1)),
            ("key", key()),
            ("value", key()),
        ]),
        of(vec![
            ("start", number(0)),
            ("length", number(1)),
            ("key", cache_of([]).unwrap()),
            ("value", key()),
        ]),
    ];
    for page in bad {
        let cache = pages(page);
        assert!(!has_paged_cache_structure(&cache));
        assert_eq!(check(&cache).unwrap_err().block, Some(0));
    }
    let blocks = || RuntimeValue::from(RuntimeSequence::default());
    for other in [
        key(),
        blocks(),
        of(vec![("blocks", blocks()), ("more", blocks())]),
        of(vec![("pages", blocks())]),
        of(vec![("blocks", key())]),
    ] {
        assert!(!has_paged_cache_structure(&other));
        assert_eq!(check(&other).unwrap_err().block, None);
    }
}

#[test]
fn unchanged_pages_are_not_looked_at_again() {
    const PAGES: usize = 1000;
    let mut pages =
        RuntimeSequence::from_values((0..PAGES).map(|index| plain(3 * index as i64, 3, 4)))
            .unwrap();
    let cache = |pages: &RuntimeSequence| {
        RuntimeValue::from(StructValue::new([(BLOCKS, pages.clone().into())]).unwrap())
    };
    let mut memo = CacheMemo::default();
    assert_eq!(memo.check(&cache(&pages)).unwrap().tokens, 3000);
    assert_eq!(memo.looked_at(), 1000);
    for grown in 0..50usize {
        let earlier = pages.clone();
        pages.push(plain(3 * (PAGES + grown) as i64, 3, 4)).unwrap();
        let shape = memo.check(&cache(&pages)).unwrap();
        assert_eq!(shape, check(&cache(&pages)).unwrap());
        // The earlier one is known as well.
        memo.check(&cache(&earlier)).unwrap();
        assert_eq!(memo.looked_at(), 1001 + grown as u64);
    }
    // A replaced page is looked at, and a fault tells its position.
    pages.set(700, plain(2100, 2, 4)).unwrap();
    let fault = memo.check(&cache(&pages)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "blocks[701].start: expected 2102, got 2103"
    );
    assert_eq!(check(&cache(&pages)).unwrap_err(), fault);
    pages.set(700, plain(2100, 3, 9)).unwrap();
    let shape = memo.check(&cache(&pages)).unwrap();
    assert_eq!(shape.dims.unwrap().most_capacity, 9);
    // A part of a cache that does not start at 0 fits together, and is no cache.
    let mut tail = pages.clone();
    tail.remove(0).unwrap();
    assert!(
        memo.check(&cache(&tail))
            .unwrap_err()
            .to_string()
            .starts_with("blocks[0].start")
    );
}

#[test]
fn the_page_of_a_token_is_found() {
    let lengths = [3i64, 1, 4, 1, 5, 2];
    let starts: Vec<i64> = lengths
        .iter()
        .scan(0, |end, length| {
            *end += length;
            Some(*end - length)
        })
        .collect();
    let pages = starts
        .iter()
        .zip(lengths)
        .map(|(&start, length)| plain(start, length, 8));
    let cache = cache_of(pages).unwrap();
    for token in 0..16 {
        let (index, page) = page_of_token(&cache, token).unwrap();
        let expected = starts.iter().rposition(|&start| start <= token).unwrap();
        assert_eq!((index, page.start), (expected, starts[expected]), "{token}");
    }
    assert!(page_of_token(&cache, 16).is_none());
}

/// Pages of one token each; `REFEED_PAGES` sets how many, and with `--nocapture` the times are told.
#[test]
fn a_long_cache_is_checked_once_and_an_append_looks_at_new_pages_alone() {
    let count: usize = std::env::var("REFEED_PAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_000);
    let starts: Vec<i64> = (0..=count as i64).collect();
    let starts = Tensor::from_slice(&[count + 1], &starts).unwrap();
    let (length, payload) = (scalar(1), dense(DType::Float, &[1, 1, 1, 1]));
    let page = |at: usize| {
        let start = starts
            .with_layout(crate::Layout::contiguous(&[]), at as isize)
            .unwrap();
        page_of(start, length.clone(), payload.clone(), payload.clone()).unwrap()
    };
    let made: Vec<RuntimeValue> = (0..count).map(page).collect();
    let started = std::time::Instant::now();
    let mut pages = RuntimeSequence::from_values(made).unwrap();
    let joined = started.elapsed();
    let cache = |pages: &RuntimeSequence| -> RuntimeValue {
        let blocks = RuntimeValue::from(pages.clone());
        StructValue::new([(BLOCKS, blocks)]).unwrap().into()
    };
    let mut memo = CacheMemo::default();
    let started = std::time::Instant::now();
    assert_eq!(memo.check(&cache(&pages)).unwrap().tokens, count as i64);
    let first = started.elapsed();
    assert_eq!(memo.looked_at(), count as u64);
    let known = memo.known.len();
    let earlier = cache(&pages);
    let started = std::time::Instant::now();
    pages.push(page(count)).unwrap();
    assert_eq!(memo.check(&cache(&pages)).unwrap().tokens, count as i64 + 1);
    eprintln!(
        "{count} pages: {joined:?} as a sequence, {first:?} for a reader, one more: {:?}",
        started.elapsed()
    );
    // One new page, and new nodes along one path.
    assert_eq!(memo.looked_at(), count as u64 + 1);
    let path = 2 * (usize::BITS - count.leading_zeros()) as usize;
    assert!(
        memo.known.len() - known <= path,
        "{} {known}",
        memo.known.len()
    );
    // The earlier snapshot is known still.
    assert_eq!(memo.check(&earlier).unwrap().tokens, count as i64);
    assert_eq!(memo.looked_at(), count as u64 + 1);
}

/// What sequences know of their pages is what a look at each page finds, after any edits.
#[test]
fn sequences_know_of_their_pages() {
    let looked = |cache: &RuntimeValue| {
        let blocks = blocks(cache).unwrap();
        let built = blocks.iter().all(|held| page(held).is_ok());
        (built, check_in_order(blocks).is_ok())
    };
    let known = |cache: &RuntimeValue| (has_paged_cache_structure(cache), is_whole_cache(cache));
    let good = |at: usize| plain(2 * at as i64, 2, 2);
    let cache = |pages: &RuntimeSequence| -> RuntimeValue {
        StructValue::new([(BLOCKS, RuntimeValue::from(pages.clone()))])
            .unwrap()
            .into()
    };
    let mut pages = RuntimeSequence::from_values((0..33).map(good)).unwrap();
    assert_eq!(known(&cache(&pages)), (true, true));
    for (at, other) in [
        (7, plain(15, 2, 2)),                                  // a gap
        (0, plain(2, 2, 2)),                                   // no page at 0
        (32, plain(64, 3, 2)),                                 // longer than its room
        (20, RuntimeValue::from(scalar(1))),                   // no page at all
        (12, made(24, 2, scalar(1).into(), scalar(1).into())), // no payloads
    ] {
        pages.set(at, other).unwrap();
        let whole = cache(&pages);
        assert_eq!(known(&whole), looked(&whole), "{at}");
        assert!(!is_whole_cache(&whole));
        pages.set(at, good(at)).unwrap();
        assert!(is_whole_cache(&cache(&pages)));
    }
    pages.remove(32).unwrap();
    assert!(is_whole_cache(&cache(&pages)));
    pages.remove(3).unwrap();
    assert_eq!(known(&cache(&pages)), (true, false));
    assert!(is_whole_cache(&cache_of([]).unwrap()));
    assert_eq!(known(&scalar(1).into()), (false, false));
}

/// What sequences know of payloads is the same wherever the pages stand.
#[test]
fn sequences_know_which_payloads_attention_can_read() {
    let misaligned = {
        let bytes = Extent::new(DType::Float, &[2, 3, 2, 5]).unwrap().bytes() + 1;
        let memory = Tensor::from_slice(&[bytes], &vec![0u8; bytes]).unwrap();
        let layout = crate::Layout::contiguous(&[2, 3, 2, 5]);
        let tensor = Tensor::from_parts(DType::Float, layout, 1, memory.into_buffer()).unwrap();
        assert!(!tensor.is_aligned());
        RuntimeValue::from(tensor)
    };
    let halves = {
        let bytes = Extent::new(DType::Int4, &[2, 3, 2, 4]).unwrap().bytes();
        let payload = Tensor::from_slice(&[bytes], &vec![0u8; bytes]).unwrap();
        let scale = Tensor::scalar(half::f16::ONE).unwrap();
        let affine = Affine::per_tensor(DType::Int4, scale);
        EncodedValue::affine(affine, (DType::Float, &[2, 3, 2, 4]), payload).unwrap()
    };
    let (key, value) = (
        || dense(DType::Float, &[2, 3, 2, 5]),
        || coded(DType::Uint2, &[2, 3, 2, 4], 0.5, DType::Float),
    );
    for at in [0, 20, 39] {
        for (other, decodable) in [
            ([key(), value()], true),
            ([misaligned.clone(), value()], false),
            ([key(), halves.clone().into()], false),
        ] {
            let mut pages: Vec<_> = (0..40).map(|page| plain(2 * page, 2, 2)).collect();
            let [key, value] = other;
            pages[at] = made(2 * at as i64, 2, key, value);
            let cache = cache_of(pages).unwrap();
            assert!(is_whole_cache(&cache) && check(&cache).is_ok());
            assert_eq!(is_decodable_cache(&cache), decodable, "{at}");
        }
    }
}
