use super::*;
use refeed_values::paged_cache::{blocks, page};
use refeed_values::{Allocator, DType};

fn rows(shape: [usize; 4], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..count)
        .map(|i| ((i * 29 + seed * 17) % 97) as f32 / 48.0 - 1.0)
        .collect();
    Tensor::from_slice(&shape, &numbers).unwrap()
}

fn step(kernel: &PagedAttention, past: &RuntimeValue, length: usize, seed: usize) -> PagedResult {
    let one = |seed| rows([1, 2, length, 4], seed);
    kernel
        .call(
            &one(seed),
            &one(seed + 1),
            &one(seed + 2),
            past,
            &Options::default(),
        )
        .unwrap()
}

#[test]
fn a_closure_chooses_formats_by_what_is_retained() {
    let kernel = PagedAttention::with_selector(|_: &Tensor, _: &Tensor, retained: usize| {
        Ok(match retained {
            0 => Formats::default(),
            _ => Formats {
                key: Format::affine(DType::Int4, 0.25, 0),
                value: Format::dense(DType::Float16),
            },
        })
    });
    let first = step(&kernel, &PagedAttention::empty_cache().unwrap(), 3, 0);
    let second = step(&kernel, &first.present, 2, 5);
    let pages: Vec<RuntimeValue> = blocks(&second.present).unwrap().iter().cloned().collect();
    let [old, new] = &pages[..] else {
        panic!("two pages")
    };
    let kept = page(old).unwrap().key.tensor().unwrap();
    let new = page(new).unwrap();
    let codes = new.key.encoded().unwrap();
    assert_eq!(codes.affine_layout().unwrap().storage, DType::Int4);
    assert!(codes.affine_layout().unwrap().inferred);
    assert_eq!(new.value.tensor().unwrap().dtype(), DType::Float16);
    let before = page(blocks(&first.present).unwrap().front().unwrap()).unwrap();
    assert_eq!(kept.as_ptr(), before.key.tensor().unwrap().as_ptr());
    assert_eq!(
        second.statistics.copied_bytes,
        2 * 2 * 4 / 2 + 2 * 2 * 4 * 2
    );
    assert_eq!(
        kernel.total_statistics().copied_bytes,
        3 * 2 * 4 * 4 * 2 + 8 + 32
    );
}

#[test]
fn a_format_that_breaks_a_rule_fails_the_step() {
    let kernel = PagedAttention::with_selector(|_: &Tensor, _: &Tensor, _| {
        Ok(Formats::both(Format::affine(DType::Int2, 1.0, 2)))
    });
    let one = rows([1, 1, 1, 4], 0);
    let past = PagedAttention::empty_cache().unwrap();
    let refused = kernel.call(&one, &one, &one, &past, &Options::default());
    assert!(refused.unwrap_err().to_string().contains("zero_point"));
    assert_eq!(kernel.statistics(), Statistics::default());
}

#[test]
fn options_out_of_range_are_refused() {
    let one = rows([1, 1, 1, 4], 0);
    let past = PagedAttention::empty_cache().unwrap();
    for options in [
        Options {
            block_size: 0,
            ..Options::default()
        },
        Options {
            max_tokens: 0,
            ..Options::default()
        },
    ] {
        assert!(
            PagedAttention::default()
                .call(&one, &one, &one, &past, &options)
                .is_err()
        );
    }
}

/// A memo keeps no page: when the last cache goes, so does its memory.
#[test]
fn checked_pages_are_not_kept() {
    let kernel = PagedAttention::default();
    let memory = Allocator::default();
    let own = |seed| rows([1, 2, 3, 4], seed).to_dense(&memory);
    let held = cache_of([refeed_values::paged_cache::page_of(
        Tensor::scalar(0i64).unwrap(),
        Tensor::scalar(3i64).unwrap(),
        {
            let mut copy = TensorMut::new(&memory, DType::Float, &[1, 2, 3, 4]).unwrap();
            own(1).unwrap().copy_into(&mut copy).unwrap();
            copy.freeze().into()
        },
        {
            let mut copy = TensorMut::new(&memory, DType::Float, &[1, 2, 3, 4]).unwrap();
            own(2).unwrap().copy_into(&mut copy).unwrap();
            copy.freeze().into()
        },
    )
    .unwrap()])
    .unwrap();
    assert_eq!(memory.live_bytes(), 2 * 96);
    let result = step(&kernel, &held, 1, 3);
    drop((held, result));
    assert_eq!(memory.live_bytes(), 0);
}

/// With a window only the pages from the first visible token on are looked for. Rule 6.3.11; S241.
#[test]
fn old_pages_are_skipped() {
    let kernel = PagedAttention::default();
    let mut past = PagedAttention::empty_cache().unwrap();
    for seed in 0..40 {
        past = step(&kernel, &past, 1, seed).present;
    }
    for low in [0, 1, 17, 39] {
        let groups = cache::pages_from(&past, low).unwrap();
        let first = groups[0].tokens();
        assert!(first.contains(&low), "{first:?} {low}");
        assert!(first.len() <= refeed_values::sequence::GROUP);
        assert_eq!(groups[groups.len() - 1].tokens().end, 40);
    }
    assert!(cache::pages_from(&past, 40).unwrap().is_empty());
}

/// A payload that cannot be read is refused wherever its page stands, behind the window too, and named.
#[test]
fn payloads_that_cannot_be_read_are_named() {
    let kernel = PagedAttention::default();
    let mut past = PagedAttention::empty_cache().unwrap();
    for seed in 0..40 {
        past = step(&kernel, &past, 1, seed).present;
    }
    let misaligned = {
        let memory = Tensor::from_slice(&[33], &[0u8; 33]).unwrap();
        let layout = refeed_values::Layout::contiguous(&[1, 2, 1, 4]);
        Tensor::from_parts(DType::Float, layout, 1, memory.into_buffer()).unwrap()
    };
    let halves = {
        let scale = Tensor::scalar(half::f16::ONE).unwrap();
        let affine = refeed_values::encoded::Affine::per_tensor(DType::Int8, scale);
        let codes = Tensor::from_slice(&[8], &[0u8; 8]).unwrap();
        let shape = (DType::Float, &[1, 2, 1, 4][..]);
        refeed_values::EncodedValue::affine(affine, shape, codes).unwrap()
    };
    for (payload, field, expected) in [
        (RuntimeValue::from(misaligned), "", "FLOAT"),
        (
            halves.into(),
            "blocks[21].key.scale",
            "elements of FLOAT, got FLOAT16",
        ),
    ] {
        let blocks = blocks(&past).unwrap();
        let old = page(blocks.at(21).unwrap()).unwrap();
        let number = |n| Tensor::scalar::<i64>(n).unwrap();
        let new = refeed_values::paged_cache::page_of(
            number(old.start),
            number(old.length),
            payload,
            old.value.clone(),
        );
        let mut changed = blocks.clone();
        changed.set(21, new.unwrap()).unwrap();
        let changed = cache_of(changed.iter().cloned()).unwrap();
        let new = rows([1, 2, 1, 4], 0);
        for window in [None, Some(3)] {
            let options = Options {
                left_window_size: window,
                ..Options::default()
            };
            let refused = kernel.call(&new, &new, &new, &changed, &options);
            let told = refused.unwrap_err().to_string();
            assert!(told.contains(field) && told.contains(expected), "{told}");
        }
        assert!(
            kernel
                .call(&new, &new, &new, &past, &Options::default())
                .is_ok()
        );
    }
}

/// Rule 6.3.11; S241: wherever memory is asked for, before the numbers, between keys and values, and behind them, the
/// memo is free. What computes the numbers is handed pages that are ready, and no memo.
#[test]
fn the_memo_is_free_while_numbers_are_computed() {
    let half = |length, seed| {
        let wide = rows([1, 2, length, 4], seed);
        let numbers: Vec<half::f16> = wide
            .view::<f32>()
            .unwrap()
            .iter()
            .map(half::f16::from_f32)
            .collect();
        Tensor::from_slice(&[1, 2, length, 4], &numbers).unwrap()
    };
    let kernel = PagedAttention::default();
    let mut past = PagedAttention::empty_cache().unwrap();
    for seed in 0..5 {
        past = step(&kernel, &past, 3, seed).present;
    }
    let memo = Mutex::new(Memo::default());
    let (memory, compute) = (Allocator::default(), Compute::default());
    for window in [None, Some(4)] {
        let (query, key, value) = (half(20, 1), half(20, 2), half(20, 3));
        let operands = Operands {
            query: &query,
            key: &key,
            value: &value,
            past: &past,
        };
        let options = Options {
            left_window_size: window,
            ..Options::default()
        };
        let mut asked = 0;
        let mut allocate = |dtype, shape: &[usize]| {
            asked += 1;
            assert!(memo.try_lock().is_ok());
            Ok(TensorMut::new(&memory, dtype, shape)?)
        };
        kernel
            .execute(
                &operands,
                &options,
                &memo,
                &compute,
                (&memory, &mut allocate),
            )
            .unwrap();
        // Y, three inputs as FLOAT, the sums as FLOAT, and two payloads of the first page; what is for those behind it lies
        // together and is not asked for here.
        assert!(asked >= 1 + 3 + 1 + 2, "{asked}");
    }
}

/// A step looks at the page that is new and makes the views of its group; all other groups are those of the step before.
#[test]
fn pages_are_prepared_once() {
    let kernel = PagedAttention::default();
    let mut past = PagedAttention::empty_cache().unwrap();
    let mut before: Vec<Arc<_>> = Vec::new();
    for seed in 0..200 {
        let result = step(&kernel, &past, 1, seed);
        assert_eq!(result.statistics.validated_pages, 1);
        past = result.present;
        let groups = cache::pages_from(&past, 0).unwrap();
        let new = groups
            .iter()
            .filter(|group| !before.iter().any(|old| Arc::ptr_eq(old, group)));
        // One grew; now and then the tree turns, and parts of one or two more groups are put together anew.
        assert!(new.count() <= 3);
        before = groups;
    }
    // They go with the cache.
    let weak: Vec<_> = before.iter().map(Arc::downgrade).collect();
    drop((before, past));
    assert!(weak.iter().all(|group| group.upgrade().is_none()));
}

/// Of two steps from one cache with the policy "fill", each sees its own rows.
#[test]
fn filled_pages_go_apart() {
    let kernel = PagedAttention::default().partial_blocks(PartialBlocks::Fill);
    let first = step(&kernel, &PagedAttention::empty_cache().unwrap(), 2, 0);
    let second = step(&kernel, &first.present, 1, 1);
    let (a, b) = (
        step(&kernel, &second.present, 1, 2),
        step(&kernel, &second.present, 1, 9),
    );
    let key = |cache: &RuntimeValue| {
        let last = blocks(cache).unwrap().back().unwrap().clone();
        let key = page(&last).unwrap().key.tensor().unwrap().clone();
        assert_eq!(key.shape()[2], page(&last).unwrap().length as usize);
        key.view::<f32>().unwrap().to_vec()
    };
    let (old, a_key, b_key) = (key(&second.present), key(&a.present), key(&b.present));
    assert_eq!((old.len(), a_key.len(), b_key.len()), (24, 32, 32));
    for head in 0..2 {
        assert_eq!(a_key[head * 16..][..12], old[head * 12..][..12]);
        assert_eq!(b_key[head * 16..][..12], old[head * 12..][..12]);
    }
    assert_ne!(a_key, b_key);
    assert_eq!(key(&second.present), old);
}

/// A step of few queries over 100 tokens in pages, once for each precision.
fn of_each_precision(format: Format) -> [Vec<f32>; 2] {
    let kernel =
        PagedAttention::with_selector(move |_: &Tensor, _: &Tensor, _| Ok(Formats::both(format)));
    let call = |kernel: &PagedAttention, past: &RuntimeValue, length| {
        let (query, key, value) = (
            rows([1, 4, length, 64], length),
            rows([1, 2, length, 64], length + 1),
            rows([1, 2, length, 64], length + 2),
        );
        let result = kernel.call(&query, &key, &value, past, &Options::default());
        result.unwrap()
    };
    let past = call(&kernel, &PagedAttention::empty_cache().unwrap(), 100).present;
    [QueryPrecision::Full, QueryPrecision::Int8].map(|precision| {
        let kernel = kernel.clone().query_precision(precision);
        call(&kernel, &past, 2).y.view::<f32>().unwrap().to_vec()
    })
}

/// Numbers are within -1 and 1, so a score is wrong by at most `64 / 254 / sqrt(64)`; a weight and the sum of weights change
/// by that power of e each. Weights are rounded by `2^-17` of the largest of 64, and so is their sum, by as much in all.
#[test]
fn queries_of_eight_bits_differ_by_no_more_than_is_said() {
    let score = 64.0 / 254.0 / 8.0f32;
    let bound = (2.0 * score).exp_m1() + 2.0 * 64.0 * 2f32.powi(-17) + 1e-5;
    for format in [
        Format::affine(DType::Int8, 1.0 / 64.0, 0),
        Format::affine(DType::Uint8, 1.0 / 64.0, 128),
        Format::affine(DType::Int4, 1.0 / 7.0, 0),
    ] {
        let [full, rounded] = of_each_precision(format);
        let acts = refeed_kernels::Isa::from_env().is_ok_and(|isa| isa.name() == "avx512vnni");
        assert_eq!(full != rounded, acts, "{format:?}");
        for (full, rounded) in full.iter().zip(&rounded) {
            assert!(
                (full - rounded).abs() <= bound,
                "{format:?}: {full} {rounded}"
            );
        }
    }
}

#[test]
fn pages_of_numbers_have_no_other_precision() {
    for dtype in [DType::Float, DType::Float16, DType::Bfloat16] {
        let [full, rounded] = of_each_precision(Format::dense(dtype));
        let bits = |numbers: &[f32]| -> Vec<u32> { numbers.iter().map(|x| x.to_bits()).collect() };
        assert_eq!(bits(&full), bits(&rounded), "{dtype:?}");
    }
}
