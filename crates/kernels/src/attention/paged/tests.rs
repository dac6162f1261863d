use super::*;
use crate::quantize::{Division, Payload, Rows, Storage, encode};
use crate::{Isa, ThreadPool};
use refeed_values::encoded::{Affine, CODES, parameter_shape};
use refeed_values::paged_cache::page_of;
use refeed_values::{Allocator, DType, EncodedValue, Layout, RuntimeValue, Tensor, TensorMut};

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (self.0 >> 33) as usize % n
    }
    fn real(&mut self) -> f32 {
        self.below(4001) as f32 / 1000.0 - 2.0
    }
    fn reals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.real()).collect()
    }
}

/// How the keys or values of a page are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kept {
    Dense(DType),
    Affine(DType, Option<usize>, Option<usize>),
}

/// Parameters for the layout, none like its neighbour.
fn affine(storage: DType, shape: [usize; 4], axis: Option<usize>, block: Option<usize>) -> Affine {
    let parameters = parameter_shape(&shape, axis, block).unwrap();
    let count: usize = parameters.iter().product();
    let (low, high) = refeed_values::encoded::code_range(storage);
    let widest = (high - low) as f32;
    let scales: Vec<f32> = (0..count)
        .map(|i| (4.0 + (i % 3) as f32) / widest)
        .collect();
    let codes: Vec<u8> = (0..count)
        .map(|i| ((low + high + 1) / 2 + i as i32 % 2).to_le_bytes()[0])
        .collect();
    let mut zero = TensorMut::new(&Allocator::default(), storage, &parameters).unwrap();
    let bits = storage.bits();
    for (i, code) in codes.iter().enumerate() {
        let byte = &mut zero.as_mut_bytes()[i * bits / 8];
        if (i * bits).is_multiple_of(8) {
            *byte = 0;
        }
        *byte |= (code & (u8::MAX >> (8 - bits))) << (i * bits % 8);
    }
    Affine {
        storage,
        inferred: false,
        scale: Tensor::from_slice(&parameters, &scales).unwrap(),
        zero_point: Some(zero.freeze()),
        axis,
        block_size: block,
    }
}

/// A payload of rows with room for more, the room being NaN where that can be.
fn payload(
    rows: &[f32],
    [batch, heads, length, width]: [usize; 4],
    capacity: usize,
    kept: Kept,
) -> RuntimeValue {
    let shape = [batch, heads, capacity, width];
    let memory = Allocator::default();
    let storage = match kept {
        Kept::Dense(DType::Float) => {
            let mut all = vec![f32::NAN; shape.iter().product()];
            for (at, row) in rows.chunks(width).enumerate() {
                let place = (at / length * capacity + at % length) * width;
                all[place..][..width].copy_from_slice(row);
            }
            return Tensor::from_slice(&shape, &all).unwrap().into();
        }
        Kept::Dense(dtype) => Storage::Dense(dtype),
        Kept::Affine(storage, axis, block) => Storage::Affine(affine(storage, shape, axis, block)),
    };
    let rows = Rows::new(rows, [batch, heads, length, width]).unwrap();
    encode::<QuantizeError>(
        &rows,
        capacity,
        &storage,
        Division::Double,
        |dtype, shape| Ok(TensorMut::new(&memory, dtype, shape)?),
    )
    .unwrap()
}

fn page(start: usize, length: usize, key: &RuntimeValue, value: &RuntimeValue) -> RuntimeValue {
    let number = |n: usize| Tensor::scalar(n as i64).unwrap();
    page_of(number(start), number(length), key.clone(), value.clone()).unwrap()
}

struct Extents {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    new: usize,
    size: usize,
    width: usize,
}

/// Tokens of each page, and its room.
type Lengths<'a> = &'a [(usize, usize)];

/// A cache with its rows as they decode.
struct Built {
    values: Vec<(RuntimeValue, RuntimeValue)>,
    lengths: Vec<usize>,
    /// `[slice][token][column]`
    key: Vec<Vec<Vec<f32>>>,
    value: Vec<Vec<Vec<f32>>>,
}

fn build(
    dice: &mut Dice,
    e: &Extents,
    lengths: Lengths<'_>,
    kept: impl Fn(usize) -> (Kept, Kept),
) -> Built {
    let slices = e.batch * e.kv_heads;
    let mut built = Built {
        values: Vec::new(),
        lengths: lengths.iter().map(|(length, _)| *length).collect(),
        key: vec![Vec::new(); slices],
        value: vec![Vec::new(); slices],
    };
    for (number, &(length, capacity)) in lengths.iter().enumerate() {
        let (key, value) = kept(number);
        let mut made = Vec::new();
        for (kept, width, decoded) in [
            (key, e.size, &mut built.key),
            (value, e.width, &mut built.value),
        ] {
            let rows = dice.reals(slices * length * width);
            let one = payload(&rows, [e.batch, e.kv_heads, length, width], capacity, kept);
            let read = Payload::of(&one).unwrap();
            for (slice, tokens) in decoded.iter_mut().enumerate() {
                for row in 0..length {
                    let mut out = vec![0.0; width];
                    read.row(slice, row, &mut out).unwrap();
                    tokens.push(out);
                }
            }
            made.push(one);
        }
        let value = made.pop().unwrap();
        built.values.push((made.pop().unwrap(), value));
    }
    built
}

/// Attention from its formula, in f64, over all rows there are.
fn oracle(
    e: &Extents,
    query: &[f32],
    key: &[Vec<Vec<f32>>],
    value: &[Vec<Vec<f32>>],
    causal: bool,
    window: Option<u64>,
) -> Vec<f64> {
    let past = key[0].len() - e.new;
    let mut out = Vec::new();
    for (at, q) in query.chunks(e.size).enumerate() {
        let (b, h, i) = (at / e.new / e.heads, at / e.new % e.heads, at % e.new);
        let slice = b * e.kv_heads + h / (e.heads / e.kv_heads);
        let position = past + i;
        let seen: Vec<usize> = (0..key[slice].len())
            .filter(|&t| !causal || t <= position)
            .filter(|&t| window.is_none_or(|w| t as u64 + w >= position as u64))
            .collect();
        let scores: Vec<f64> = seen
            .iter()
            .map(|&t| {
                let dot: f64 = q
                    .iter()
                    .zip(&key[slice][t])
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum();
                dot / (e.size as f64).sqrt()
            })
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let column = |d: usize| -> f64 {
            let rows = weights.iter().zip(&seen);
            rows.map(|(w, &t)| w * f64::from(value[slice][t][d])).sum()
        };
        out.extend((0..e.width).map(|d| match seen.is_empty() {
            true => 0.0,
            false => column(d) / sum,
        }));
    }
    out
}

/// Computes and compares on every instruction set; all of them with one thread and with three.
fn check(
    what: &str,
    e: &Extents,
    lengths: Lengths<'_>,
    kept: impl Fn(usize) -> (Kept, Kept),
    causal: bool,
    window: Option<u64>,
) {
    let mut dice = Dice(7);
    let mut built = build(&mut dice, e, lengths, kept);
    let slices = e.batch * e.kv_heads;
    let query = dice.reals(e.batch * e.heads * e.new * e.size);
    let new_key = dice.reals(slices * e.new * e.size);
    let new_value = dice.reals(slices * e.new * e.width);
    for slice in 0..slices {
        for t in 0..e.new {
            let at = slice * e.new + t;
            built.key[slice].push(new_key[at * e.size..][..e.size].to_vec());
            built.value[slice].push(new_value[at * e.width..][..e.width].to_vec());
        }
    }
    let mut start = 0;
    let pages: Vec<RuntimeValue> = built
        .values
        .iter()
        .zip(&built.lengths)
        .map(|((key, value), &length)| {
            start += length;
            page(start - length, length, key, value)
        })
        .collect();
    // Groups of several sizes, as trees have them.
    let sizes = [5, 1, 16, 9];
    let (mut pages, mut rest) = (Vec::new(), &pages[..]);
    while !rest.is_empty() {
        let (some, others) = rest.split_at(sizes[pages.len() % sizes.len()].min(rest.len()));
        pages.push(Arc::new(PageGroup::of(some).unwrap()));
        rest = others;
    }
    let problem = PagedProblem {
        query: View::from_slice(&query, &[e.batch, e.heads, e.new, e.size]).unwrap(),
        key: View::from_slice(&new_key, &[e.batch, e.kv_heads, e.new, e.size]).unwrap(),
        value: View::from_slice(&new_value, &[e.batch, e.kv_heads, e.new, e.width]).unwrap(),
        pages: &pages,
        past: start,
        causal,
        left_window: window,
        query_precision: QueryPrecision::Full,
    };
    let expected = oracle(e, &query, &built.key, &built.value, causal, window);
    let (one, three) = (ThreadPool::new(1), ThreadPool::new(3));
    for isa in Isa::available() {
        let mut first = vec![f32::NAN; expected.len()];
        paged_attention(&Compute::new(isa, &one), &problem, &mut first).unwrap();
        for (got, expected) in first.iter().zip(&expected) {
            let near = (f64::from(*got) - expected).abs() <= 1e-5;
            assert!(near, "{what} on {isa}: {got} is not {expected}");
        }
        let mut again = vec![f32::NAN; expected.len()];
        paged_attention(&Compute::new(isa, &three), &problem, &mut again).unwrap();
        assert_eq!(first, again, "{what} on {isa}: threads");
    }
}

const SMALL: Extents = Extents {
    batch: 2,
    heads: 6,
    kv_heads: 2,
    new: 3,
    size: 24,
    width: 36,
};

fn all_kept() -> Vec<Kept> {
    let mut all: Vec<Kept> = refeed_values::paged_cache::DENSE.map(Kept::Dense).to_vec();
    for storage in CODES {
        all.push(Kept::Affine(storage, None, None));
        for axis in 0..4 {
            all.push(Kept::Affine(storage, Some(axis), None));
            all.push(Kept::Affine(storage, Some(axis), Some(2)));
        }
    }
    all
}

#[test]
fn every_format_and_layout_of_keys_and_values() {
    let all = all_kept();
    for (number, &kept) in all.iter().enumerate() {
        let other = all[(number * 7 + 3) % all.len()];
        let lengths = [(5, 7), (16, 16), (9, 12), (3, 3)];
        check(
            &format!("{kept:?} and {other:?}"),
            &SMALL,
            &lengths,
            |_| (kept, other),
            true,
            None,
        );
    }
}

#[test]
fn rows_that_begin_within_a_byte() {
    let odd = Extents {
        size: 3,
        width: 5,
        ..SMALL
    };
    for storage in CODES {
        let kept = Kept::Affine(storage, None, None);
        check(
            &format!("odd {storage}"),
            &odd,
            &[(4, 5), (7, 7)],
            |_| (kept, kept),
            true,
            Some(6),
        );
    }
}

#[test]
fn every_capacity_from_1_to_64_with_another_format_each_page() {
    let all = all_kept();
    for capacity in 1..=64 {
        let lengths: Vec<(usize, usize)> = (0..150 / capacity + 2)
            .map(|i| (capacity - i % 2 * (capacity > 2) as usize, capacity))
            .collect();
        let kept = |page: usize| (all[page * 5 % all.len()], all[(page * 11 + 1) % all.len()]);
        check(
            &format!("capacity {capacity}"),
            &SMALL,
            &lengths,
            kept,
            true,
            None,
        );
    }
}

#[test]
fn pages_of_one_token_are_joined() {
    for kept in [
        Kept::Dense(DType::Float),
        Kept::Dense(DType::Float16),
        Kept::Dense(DType::Bfloat16),
        Kept::Affine(DType::Int8, None, None),
        Kept::Affine(DType::Uint4, Some(1), None),
        Kept::Affine(DType::Int2, None, None),
    ] {
        let lengths: Vec<(usize, usize)> = (0..200).map(|i| (1 + i % 3, 1 + i % 4 + 2)).collect();
        check(
            &format!("joined {kept:?}"),
            &SMALL,
            &lengths,
            |_| (kept, kept),
            true,
            None,
        );
        // Every third page interrupts the run.
        let mixed = |page: usize| match page % 3 {
            0 => (Kept::Affine(DType::Uint8, Some(3), None), kept),
            _ => (kept, kept),
        };
        check(
            &format!("interrupted {kept:?}"),
            &SMALL,
            &lengths,
            mixed,
            true,
            Some(77),
        );
    }
}

#[test]
fn windows_masks_lengths_and_groups() {
    let kept = |page: usize| match page % 3 {
        0 => (
            Kept::Affine(DType::Int4, None, None),
            Kept::Affine(DType::Uint8, None, None),
        ),
        1 => (
            Kept::Dense(DType::Float),
            Kept::Affine(DType::Int2, Some(2), None),
        ),
        _ => (
            Kept::Affine(DType::Uint2, Some(3), None),
            Kept::Dense(DType::Bfloat16),
        ),
    };
    let lengths = [(40, 40), (7, 16), (64, 64), (1, 16), (33, 48)];
    for (heads, kv_heads) in [(1, 1), (4, 1), (7, 1), (8, 1), (6, 3)] {
        for new in [1, 2, 5, 40] {
            for (causal, window) in [
                (true, None),
                (false, None),
                (true, Some(0)),
                (true, Some(2)),
                (false, Some(2)),
                (true, Some(90)),
            ] {
                let e = Extents {
                    batch: 1,
                    heads,
                    kv_heads,
                    new,
                    size: 16,
                    width: 8,
                };
                let what = format!(
                    "{heads}/{kv_heads} heads, {new} new, causal {causal}, window {window:?}"
                );
                check(&what, &e, &lengths, kept, causal, window);
            }
        }
    }
}

#[test]
fn rows_of_whole_registers() {
    let lengths = [(16, 16), (3, 3), (1, 2), (33, 40), (64, 64), (5, 16)];
    for kept in [
        Kept::Dense(DType::Float),
        Kept::Dense(DType::Float16),
        Kept::Dense(DType::Bfloat16),
        Kept::Affine(DType::Int8, None, None),
        Kept::Affine(DType::Uint8, Some(1), None),
        Kept::Affine(DType::Int4, Some(3), None),
        Kept::Affine(DType::Uint4, None, None),
        Kept::Affine(DType::Int2, Some(2), None),
        Kept::Affine(DType::Uint2, None, None),
    ] {
        for (heads, kv_heads) in [(1, 1), (4, 2), (3, 1), (4, 1), (7, 1), (10, 2)] {
            for (size, width) in [(128, 64), (64, 128)] {
                let e = Extents {
                    batch: 1,
                    heads,
                    kv_heads,
                    new: 1,
                    size,
                    width,
                };
                let what = format!("{kept:?}, {heads}/{kv_heads} heads of {size} and {width}");
                check(&what, &e, &lengths, |_| (kept, kept), true, None);
            }
        }
    }
}

/// More heads than a task takes, short pages among long ones, and several spans.
#[test]
fn many_heads_of_several_batch_rows() {
    let lengths: Vec<(usize, usize)> = (0..60).map(|i| (1 + i * 7 % 31, 32)).collect();
    let kept = |page: usize| match page % 8 {
        0..=3 => (Kept::Dense(DType::Float), Kept::Dense(DType::Float16)),
        4 | 5 => (
            Kept::Affine(DType::Int8, Some(1), None),
            Kept::Affine(DType::Int4, None, None),
        ),
        _ => (
            Kept::Affine(DType::Uint2, None, None),
            Kept::Dense(DType::Float),
        ),
    };
    for (kv_heads, new) in [(50, 1), (7, 5)] {
        let e = Extents {
            batch: 2,
            heads: 3 * kv_heads,
            kv_heads,
            new,
            size: 16,
            width: 8,
        };
        let what = format!("{kv_heads} heads, {new} new");
        check(&what, &e, &lengths, kept, true, None);
        check(&what, &e, &lengths, kept, true, Some(100));
    }
}

#[test]
fn an_empty_cache_and_long_ones() {
    let kept = |_| (Kept::Dense(DType::Float), Kept::Dense(DType::Float));
    check("empty", &SMALL, &[], kept, true, None);
    let long: Vec<(usize, usize)> = vec![(64, 64); 30];
    let codes = |_| {
        (
            Kept::Affine(DType::Int8, None, None),
            Kept::Affine(DType::Int4, None, None),
        )
    };
    check("long", &SMALL, &long, codes, true, None);
}

/// What is not finite in a visible row is refused with its place; what no query sees is not read.
#[test]
fn numbers_that_are_not_finite_are_found() {
    let e = Extents {
        batch: 1,
        heads: 2,
        kv_heads: 1,
        new: 1,
        size: 4,
        width: 4,
    };
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for side in [0, 1] {
            let mut rows = [vec![0.5f32; 8 * 4], vec![0.25f32; 8 * 4]];
            rows[side][2 * 4 + 1] = bad;
            let values = rows
                .map(|rows| RuntimeValue::from(Tensor::from_slice(&[1, 1, 8, 4], &rows).unwrap()));
            let pages = [Arc::new(
                PageGroup::of([&page(0, 6, &values[0], &values[1])]).unwrap(),
            )];
            let (query, new) = (vec![1f32; 8], vec![1f32; 4]);
            for (window, refused) in [(None, true), (Some(4), true), (Some(3), false)] {
                let problem = PagedProblem {
                    query: View::from_slice(&query, &[1, 2, 1, 4]).unwrap(),
                    key: View::from_slice(&new, &[1, 1, 1, 4]).unwrap(),
                    value: View::from_slice(&new, &[1, 1, 1, 4]).unwrap(),
                    pages: &pages,
                    past: 6,
                    causal: true,
                    left_window: window,
                    query_precision: QueryPrecision::Full,
                };
                let mut out = vec![0.0; e.heads * e.width];
                let got = paged_attention(&Compute::default(), &problem, &mut out);
                match got {
                    Err(PagedError::Page {
                        start: 0, field, ..
                    }) => {
                        assert!(refused, "{bad} {window:?}");
                        assert_eq!(field, ["key", "value"][side]);
                    }
                    other => assert!(other.is_ok() && !refused, "{bad} {window:?}: {other:?}"),
                }
            }
        }
    }
}

#[derive(Debug)]
struct Ended;

impl crate::pool::Watch for Ended {
    fn ended(&self) -> bool {
        true
    }
}

/// What is left of work that was ended early is not computed once more in f64, however little of it is finite.
#[test]
fn work_that_was_ended_is_not_done_again() {
    let rows = RuntimeValue::from(Tensor::from_slice(&[1, 1, 2, 4], &[f32::NAN; 8]).unwrap());
    let pages = [Arc::new(
        PageGroup::of([&page(0, 2, &rows, &rows)]).unwrap(),
    )];
    let problem = PagedProblem {
        query: View::from_slice(&[1f32; 4], &[1, 1, 1, 4]).unwrap(),
        key: View::from_slice(&[1f32; 4], &[1, 1, 1, 4]).unwrap(),
        value: View::from_slice(&[1f32; 4], &[1, 1, 1, 4]).unwrap(),
        pages: &pages,
        past: 2,
        causal: true,
        left_window: None,
        query_precision: QueryPrecision::Full,
    };
    let (compute, mut out) = (Compute::default(), [f32::NAN; 4]);
    assert!(paged_attention(&compute.watched(&Ended), &problem, &mut out).is_ok());
    assert!(out.iter().all(|x| x.is_nan()));
    assert!(paged_attention(&compute, &problem, &mut out).is_err());
}

/// A code that stands for a number beyond FLOAT is refused where it is seen, though a query of zeros would hide it.
#[test]
fn codes_beyond_float_are_found() {
    for (scale, code, beyond) in [
        (1e37f32, 127, true),
        (1e37, -128, true),
        (1e37, 2, false),
        (1e36, 127, false),
    ] {
        let rows = |scale: f32, code: i8| -> RuntimeValue {
            let affine = Affine::per_tensor(DType::Int8, Tensor::scalar(scale).unwrap());
            let mut codes = [1u8; 8 * 4];
            codes[2 * 4 + 1] = code.to_le_bytes()[0];
            let codes = Tensor::from_slice(&[32], &codes).unwrap();
            EncodedValue::affine(affine, (DType::Float, &[1, 1, 8, 4]), codes)
                .unwrap()
                .into()
        };
        for side in [0, 1] {
            let mut values = [rows(0.5, 1), rows(0.25, 1)];
            values[side] = rows(scale, code);
            let pages = [Arc::new(
                PageGroup::of([&page(0, 6, &values[0], &values[1])]).unwrap(),
            )];
            let (query, new) = (vec![0f32; 8], vec![0f32; 4]);
            for (window, seen) in [(None, true), (Some(4), true), (Some(3), false)] {
                let problem = PagedProblem {
                    query: View::from_slice(&query, &[1, 2, 1, 4]).unwrap(),
                    key: View::from_slice(&new, &[1, 1, 1, 4]).unwrap(),
                    value: View::from_slice(&new, &[1, 1, 1, 4]).unwrap(),
                    pages: &pages,
                    past: 6,
                    causal: true,
                    left_window: window,
                    query_precision: QueryPrecision::Full,
                };
                let mut out = [77.0; 8];
                let case = format!("{scale} {code} {side} {window:?}");
                match paged_attention(&Compute::default(), &problem, &mut out) {
                    Err(PagedError::Page { field, .. }) => {
                        assert!(beyond && seen, "{case}");
                        assert_eq!(field, ["key", "value"][side]);
                    }
                    other => {
                        assert!(other.is_ok() && !(beyond && seen), "{case}: {other:?}");
                        // Every visible token weighs the same, the new one with a value of 0.
                        let tokens = window.map_or(7.0, |before| before as f32 + 1.0);
                        let step = if side == 1 { scale } else { 0.25 };
                        let odd = if side == 1 && seen { code } else { 1 };
                        let want = (tokens - 2.0 + f32::from(odd)) / tokens * step;
                        assert!(
                            (out[1] / want - 1.0).abs() < 1e-5,
                            "{case}: {} {want}",
                            out[1]
                        );
                    }
                }
            }
        }
    }
}

/// Products that f32 cannot hold are computed in f64.
#[test]
fn large_numbers_have_a_result() {
    let huge = [3e38f32, -3e38, 3e38, -3e38];
    let value = |rows: &[f32]| RuntimeValue::from(Tensor::from_slice(&[1, 1, 2, 4], rows).unwrap());
    let (keys, values) = (value(&[huge, huge].concat()), value(&[huge, huge].concat()));
    let pages = [Arc::new(
        PageGroup::of([&page(0, 2, &keys, &values)]).unwrap(),
    )];
    let query = [3e38f32, 3e38, 3e38, 3e38];
    let new = [0f32; 4];
    let problem = PagedProblem {
        query: View::from_slice(&query, &[1, 1, 1, 4]).unwrap(),
        key: View::from_slice(&new, &[1, 1, 1, 4]).unwrap(),
        value: View::from_slice(&new, &[1, 1, 1, 4]).unwrap(),
        pages: &pages,
        past: 2,
        causal: true,
        left_window: None,
        query_precision: QueryPrecision::Full,
    };
    let mut out = [0.0; 4];
    paged_attention(&Compute::default(), &problem, &mut out).unwrap();
    for (got, huge) in out.iter().zip(huge) {
        assert!((got / huge - 2.0 / 3.0).abs() < 1e-5, "{out:?}");
    }
}

/// The first product of a score is beyond f32 and the score is not, with few query rows a head and with many.
#[test]
fn scores_that_overflow_on_the_way_have_a_result() {
    let value = |rows: &[f32]| RuntimeValue::from(Tensor::from_slice(&[1, 1, 1, 2], rows).unwrap());
    let pages = [Arc::new(
        PageGroup::of([&page(0, 1, &value(&[-1e30, 2e30]), &value(&[5.0, -5.0]))]).unwrap(),
    )];
    for (heads, new) in [(1, 1), (16, 1), (17, 1), (1, 16), (1, 17), (4, 5), (1, 200)] {
        let query = vec![1e20f32; heads * new * 2];
        let (key, zeros) = (vec![1f32; new * 2], vec![0f32; new * 2]);
        let problem = PagedProblem {
            query: View::from_slice(&query, &[1, heads, new, 2]).unwrap(),
            key: View::from_slice(&key, &[1, 1, new, 2]).unwrap(),
            value: View::from_slice(&zeros, &[1, 1, new, 2]).unwrap(),
            pages: &pages,
            past: 1,
            causal: true,
            left_window: None,
            query_precision: QueryPrecision::Full,
        };
        for isa in Isa::available() {
            let pool = ThreadPool::new(1);
            let mut out = vec![0.0; heads * new * 2];
            paged_attention(&Compute::new(isa, &pool), &problem, &mut out).unwrap();
            let right = out.chunks(2).all(|row| row == [5.0, -5.0]);
            assert!(right, "{heads} heads, {new} new on {}: {out:?}", isa.name());
        }
    }
}

#[test]
fn extents_that_do_not_fit_are_refused() {
    let value = |shape: &[usize]| {
        let rows = vec![0f32; shape.iter().product()];
        RuntimeValue::from(Tensor::from_slice(shape, &rows).unwrap())
    };
    let (key, other) = (value(&[1, 1, 4, 4]), value(&[1, 1, 4, 3]));
    let rows = [0f32; 4];
    let try_with = |pages: &[RuntimeValue], past| {
        let group = PageGroup::of(pages).map_err(|error| error.to_string())?;
        let pages = [Arc::new(group)];
        let problem = PagedProblem {
            query: View::from_slice(&rows, &[1, 1, 1, 4]).unwrap(),
            key: View::from_slice(&rows, &[1, 1, 1, 4]).unwrap(),
            value: View::from_slice(&rows, &[1, 1, 1, 4]).unwrap(),
            pages: &pages,
            past,
            causal: true,
            left_window: None,
            query_precision: QueryPrecision::Full,
        };
        let done = paged_attention(&Compute::default(), &problem, &mut [0.0; 4]);
        done.map(drop).map_err(|error| error.to_string())
    };
    let page = |start, value, length| page(start, length, &key, value);
    assert_eq!(try_with(&[page(0, &key, 4)], 4), Ok(()));
    assert!(try_with(&[page(0, &other, 4)], 4).is_err());
    assert!(try_with(&[page(0, &key, 5)], 5).is_err());
    assert!(try_with(&[page(0, &key, 0)], 0).is_err());
    assert!(try_with(&[page(0, &key, 3)], 4).is_err());
    assert!(try_with(&[page(0, &key, 3), page(2, &key, 2)], 4).is_err());
    assert!(try_with(&[page(0, &key, 3), page(3, &key, 1)], 4).is_ok());
    assert!(try_with(&[], 0).is_err());
}

/// Payloads with room between the heads are read where they lie, as dense ones are.
#[test]
fn rows_of_a_page_that_is_filled_up() {
    let e = Extents {
        batch: 1,
        kv_heads: 3,
        heads: 3,
        ..SMALL
    };
    let (length, room) = (5, 8);
    let mut dice = Dice(3);
    let rows = dice.reals(e.kv_heads * room * e.size);
    let whole = Tensor::from_slice(&[1, e.kv_heads, room, e.size], &rows).unwrap();
    let size = e.size as isize;
    let strides = [size, room as isize * size, size, 1];
    let layout = Layout::strided(&[1, e.kv_heads, length, e.size], &strides).unwrap();
    let part: RuntimeValue = whole.with_layout(layout, 0).unwrap().into();
    let dense: RuntimeValue = part
        .tensor()
        .unwrap()
        .to_dense(&Allocator::default())
        .unwrap()
        .into();
    let new = dice.reals(e.kv_heads * e.size);
    let run = |payload: &RuntimeValue| {
        let group = PageGroup::of([&page(0, length, payload, payload)]).unwrap();
        assert!(matches!(group.pages[0].key.held, payload::Held::Float(_)));
        let view = || View::from_slice(&new, &[1, e.kv_heads, 1, e.size]).unwrap();
        let problem = PagedProblem {
            query: view(),
            key: view(),
            value: view(),
            pages: &[Arc::new(group)],
            past: length,
            causal: true,
            left_window: None,
            query_precision: QueryPrecision::Full,
        };
        let mut out = vec![0.0; e.heads * e.size];
        paged_attention(&Compute::default(), &problem, &mut out).unwrap();
        out
    };
    assert_eq!(run(&part), run(&dense));
}
