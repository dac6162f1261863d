//! Products of few query rows with rows of keys, and of weights with rows of values, of one element type: each row is
//! turned into numbers once for up to four query rows.
//!
//! Rows follow one another in memory and are read from end to end, one after the other. That is what the processor foresees:
//! it fetches one long stream at the speed of the memory, but four streams side by side, rows behind a list of pointers, or
//! the cache lines of a row out of their order, at half of it.

use super::cache::Weights;
use super::visibility::SPAN;
use crate::matmul::micro::axpys;
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies::load_part;

/// Rows that are worked on at a time: they stay in the first cache for all query rows.
const STEP: usize = 16;

/// What is asked for while rows are read: that of row `j` is `bytes[j * each..][..each]`, as far as there is any.
#[derive(Clone, Copy, Default)]
pub(super) struct Soon<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) each: usize,
}

impl<'a> Soon<'a> {
    /// From row `row` on.
    #[inline(always)]
    pub(super) fn from(self, row: usize) -> Soon<'a> {
        Soon {
            bytes: self.bytes.get(row * self.each..).unwrap_or(&[]),
            each: self.each,
        }
    }

    #[inline(always)]
    pub(super) fn ask<E: Accumulator, S: Simd<E>>(self, s: S, row: usize) {
        if let Some(bytes) = self.bytes.get(row * self.each..(row + 1) * self.each) {
            s.prefetch(bytes);
        }
    }
}

/// Whether the register file holds four query rows times four vectors besides the operands.
#[inline(always)]
const fn wide_file<E: Accumulator, S: Simd<E>>() -> bool {
    S::TILE_ROWS == 12
}

/// Products of every query row with `tokens` keys; that of query row `i` and key `j` goes to `scores[i * SPAN + j]`. `soon` is
/// for keys whose followers lie elsewhere.
#[inline(always)]
pub(super) fn score_run<T: Real, S: Simd<T::Acc>>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    (keys, tokens): (&[T], usize),
    soon: Soon<'_>,
    scores: &mut [T::Acc],
) {
    let count = scores.len().div_ceil(SPAN);
    let wide = const { wide_file::<T::Acc, S>() };
    let most = if wide { 4 } else { 2 };
    // With several query rows, a key of few registers is worked off before the next one's sums could hide behind it.
    let close = count > 1 && size < 8 * S::LANES;
    let step = if soon.bytes.is_empty() { STEP } else { 4 };
    let mut first = 0;
    while first < tokens {
        let some = step.min(tokens - first);
        for j in first..first + some {
            soon.ask(s, j);
        }
        let keys = (&keys[first * size..][..some * size], some);
        let mut i = 0;
        while i < count {
            let (queries, scores) = (&queries[i * size..], &mut scores[i * SPAN + first..]);
            i += match most.min(count - i) {
                4 if wide => score_rows::<T, S, 4>(s, queries, size, keys, close, scores),
                3 if wide => score_rows::<T, S, 3>(s, queries, size, keys, close, scores),
                2 => score_rows::<T, S, 2>(s, queries, size, keys, close, scores),
                _ => score_rows::<T, S, 1>(s, queries, size, keys, close, scores),
            };
        }
        first += some;
    }
}

/// Products of `R` query rows with some keys; returns `R`. A loop over the keys that stays a loop: each of its
/// loads then goes on by one distance.
#[inline(always)]
fn score_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    (keys, tokens): (&[T], usize),
    close: bool,
    scores: &mut [T::Acc],
) -> usize {
    if close {
        return score_close::<T, S, R>(s, queries, size, (keys, tokens), scores);
    }
    if size == 8 * S::LANES {
        return score_whole::<T, S, R, 8>(s, queries, keys, scores);
    }
    if R == 1 && size == 4 * S::LANES {
        return score_whole::<T, S, R, 4>(s, queries, keys, scores);
    }
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[r * size..][..size];
    }
    for j in 0..tokens {
        let key = &keys[j * size..][..size];
        // Two chains of sums a row, so that one key's latency hides behind the other's.
        let mut acc = [[zero; 2]; R];
        let mut d = 0;
        while d + 2 * l <= size {
            let k = &key[d..][..2 * l];
            let k = [T::load(s, k), T::load(s, &k[l..])];
            for r in 0..R {
                let q = &query[r][d..][..2 * l];
                acc[r][0] = s.fma(s.load(q), k[0], acc[r][0]);
                acc[r][1] = s.fma(s.load(&q[l..]), k[1], acc[r][1]);
            }
            d += 2 * l;
        }
        if d + l <= size {
            let k = T::load(s, &key[d..]);
            for r in 0..R {
                acc[r][0] = s.fma(s.load(&query[r][d..]), k, acc[r][0]);
            }
            d += l;
        }
        if d < size {
            let k = load_part(s, &key[d..], T::default());
            for r in 0..R {
                let q = load_part(s, &query[r][d..], T::Acc::ZERO);
                acc[r][1] = s.fma(q, k, acc[r][1]);
            }
        }
        let mut sums = [zero; R];
        for r in 0..R {
            sums[r] = s.add(acc[r][0], acc[r][1]);
        }
        sum_up::<T, S, R>(s, sums, &mut scores[j..]);
    }
    R
}

/// As [`score_rows`], for keys of `W` registers. The fewer instructions a key takes, the more keys are under way at once.
#[inline(always)]
fn score_whole<T: Real, S: Simd<T::Acc>, const R: usize, const W: usize>(
    s: S,
    queries: &[T::Acc],
    keys: &[T],
    scores: &mut [T::Acc],
) -> usize {
    let l = S::LANES;
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[r * W * l..][..W * l];
    }
    let zero = s.splat(T::Acc::ZERO);
    if R > 1 {
        // Two keys are held in registers, so that what is loaded of the query rows serves both.
        let mut pairs = keys.chunks_exact(2 * W * l);
        for (j, pair) in (&mut pairs).enumerate() {
            let mut k = [[zero; W]; 2];
            for (n, k) in k.iter_mut().enumerate() {
                for (d, k) in k.iter_mut().enumerate() {
                    *k = s.in_turn(T::load(s, &pair[(n * W + d) * l..]));
                }
            }
            let mut acc = [[zero; R]; 2];
            for d in 0..W {
                for r in 0..R {
                    let q = s.load(&query[r][d * l..]);
                    acc[0][r] = s.fma(q, k[0][d], acc[0][r]);
                    acc[1][r] = s.fma(q, k[1][d], acc[1][r]);
                }
            }
            sum_up::<T, S, R>(s, acc[0], &mut scores[2 * j..]);
            sum_up::<T, S, R>(s, acc[1], &mut scores[2 * j + 1..]);
        }
        let key = pairs.remainder();
        if !key.is_empty() {
            let mut acc = [zero; R];
            for d in 0..W {
                let k = T::load(s, &key[d * l..]);
                for r in 0..R {
                    acc[r] = s.fma(s.load(&query[r][d * l..]), k, acc[r]);
                }
            }
            let last = keys.len() / (W * l) - 1;
            sum_up::<T, S, R>(s, acc, &mut scores[last..]);
        }
        return R;
    }
    // A single query row stays in registers.
    let mut only = [zero; W];
    for (d, slot) in only.iter_mut().enumerate() {
        *slot = s.load(&query[0][d * l..]);
    }
    for (j, key) in keys.chunks_exact(W * l).enumerate() {
        // Two chains of sums, so that one's latency hides behind the other's.
        let mut acc = [zero; 2];
        for d in 0..W {
            let k = s.in_turn(T::load(s, &key[d * l..]));
            acc[d % 2] = s.fma(only[d], k, acc[d % 2]);
        }
        scores[j] = s.sum(s.add(acc[0], acc[1]));
    }
    R
}

/// As [`score_rows`], for keys of few registers: four are read side by side, which loads a query row once for all.
#[inline(always)]
fn score_close<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    (keys, tokens): (&[T], usize),
    scores: &mut [T::Acc],
) -> usize {
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[r * size..][..size];
    }
    for from in (0..tokens).step_by(4) {
        // The last group of fewer than four repeats its last key.
        let mut key: [&[T]; 4] = [&[]; 4];
        for (j, row) in key.iter_mut().enumerate() {
            *row = &keys[(from + j).min(tokens - 1) * size..][..size];
        }
        let some = 4.min(tokens - from);
        let products = four_products::<T, S, R>(s, query, key);
        for (r, products) in products.into_iter().enumerate() {
            let sums = s.sum_four(products);
            let scores = &mut scores[r * SPAN + from..][..some];
            match some {
                4 => scores.copy_from_slice(&sums),
                _ => scores.copy_from_slice(&sums[..some]),
            }
        }
    }
    R
}

/// Products of query rows with four keys, lane by lane.
#[inline(always)]
fn four_products<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    query: [&[T::Acc]; R],
    key: [&[T]; 4],
) -> [[S::V; 4]; R] {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let size = key[0].len();
    let mut acc = [[zero; 4]; R];
    let mut d = 0;
    while d + 2 * l <= size {
        // Two registers of each under one check of their bounds.
        let (mut q, mut k) = (query, key);
        for row in &mut q {
            *row = &row[d..][..2 * l];
        }
        for row in &mut k {
            *row = &row[d..][..2 * l];
        }
        step(s, 0, &q, &k, &mut acc);
        step(s, l, &q, &k, &mut acc);
        d += 2 * l;
    }
    if d + l <= size {
        step(s, d, &query, &key, &mut acc);
        d += l;
    }
    if d < size {
        let mut k = [zero; 4];
        for j in 0..4 {
            k[j] = load_part(s, &key[j][d..], T::default());
        }
        for r in 0..R {
            let q = load_part(s, &query[r][d..], T::Acc::ZERO);
            for j in 0..4 {
                acc[r][j] = s.fma(q, k[j], acc[r][j]);
            }
        }
    }
    acc
}

/// Multiplies the register at `d` of each query row with that of each key.
#[inline(always)]
fn step<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    d: usize,
    queries: &[&[T::Acc]; R],
    keys: &[&[T]; 4],
    acc: &mut [[S::V; 4]; R],
) {
    let mut k = [s.splat(T::Acc::ZERO); 4];
    for j in 0..4 {
        k[j] = T::load(s, &keys[j][d..]);
    }
    for r in 0..R {
        let q = s.load(&queries[r][d..]);
        for j in 0..4 {
            acc[r][j] = s.fma(q, k[j], acc[r][j]);
        }
    }
}

/// The sums of one key's products with each query row.
#[inline(always)]
fn sum_up<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    products: [S::V; R],
    scores: &mut [T::Acc],
) {
    if R > 2 {
        let mut four = [s.splat(T::Acc::ZERO); 4];
        four[..R].copy_from_slice(&products);
        let sums = s.sum_four(four);
        for r in 0..R {
            scores[r * SPAN] = sums[r];
        }
    } else {
        for r in 0..R {
            scores[r * SPAN] = s.sum(products[r]);
        }
    }
}

/// Adds `tokens` values, which every query row sees, to the sums of all rows, `stride` apart. Query row `i` weighs value `j` by
/// `weights[i * SPAN + j]`.
#[inline(always)]
pub(super) fn add_run<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: &[T::Acc],
    (values, tokens): (&[T], usize),
    width: usize,
    soon: Soon<'_>,
    (sums, stride): (&mut [T::Acc], usize),
) {
    if width == 0 {
        return;
    }
    let wide = const { wide_file::<T::Acc, S>() };
    // Half of a wide register file holds the sums of a block: long rows are read from end to end for two query rows rather
    // than in halves for four.
    let most = match wide {
        true if width <= 4 * S::LANES => 4,
        _ => 2,
    };
    let count = weights.len().div_ceil(SPAN);
    let mut first = 0;
    while first < tokens {
        let some = STEP.min(tokens - first);
        let values = &values[first * width..][..some * width];
        let mut i = 0;
        while i < count {
            let weights = &weights[i * SPAN + first..];
            let sums = (&mut sums[i * stride..], stride);
            let soon = match i {
                0 => soon.from(first),
                _ => Soon::default(), // was asked for
            };
            i += match most.min(count - i) {
                4 if wide => add_rows::<T, S, 4>(s, weights, (values, width), soon, sums),
                3 if wide => add_rows::<T, S, 3>(s, weights, (values, width), soon, sums),
                2 => add_rows::<T, S, 2>(s, weights, (values, width), soon, sums),
                _ => add_rows::<T, S, 1>(s, weights, (values, width), soon, sums),
            };
        }
        first += some;
    }
}

/// Adds some values to the sums of `R` query rows; returns `R`.
#[inline(always)]
fn add_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    weights: &[T::Acc],
    (values, width): (&[T], usize),
    soon: Soon<'_>,
    (sums, stride): (&mut [T::Acc], usize),
) -> usize {
    let l = S::LANES;
    let mut col = 0;
    while wide_file::<T::Acc, S>() && R <= 2 && col + 8 * l <= width {
        add_block::<T, S, R, 8>(
            s,
            weights,
            (values, width),
            soon,
            [col, 8 * l],
            (&mut *sums, stride),
        );
        col += 8 * l;
    }
    while col + 4 * l <= width {
        add_block::<T, S, R, 4>(
            s,
            weights,
            (values, width),
            soon,
            [col, 4 * l],
            (&mut *sums, stride),
        );
        col += 4 * l;
    }
    while col < width {
        let part = l.min(width - col);
        add_block::<T, S, R, 1>(
            s,
            weights,
            (values, width),
            soon,
            [col, part],
            (&mut *sums, stride),
        );
        col += l;
    }
    R
}

/// Adds `C` registers of columns of values, of which the `len` elements from `col` on are there.
#[inline(always)]
fn add_block<T: Real, S: Simd<T::Acc>, const R: usize, const C: usize>(
    s: S,
    weights: &[T::Acc],
    (values, width): (&[T], usize),
    soon: Soon<'_>,
    [col, len]: [usize; 2],
    (sums, stride): (&mut [T::Acc], usize),
) {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let tokens = values.len() / width;
    let mut weight: [&[T::Acc]; R] = [&[]; R];
    let mut acc = [[zero; C]; R];
    for r in 0..R {
        weight[r] = &weights[r * SPAN..][..tokens];
        let sums = &sums[r * stride + col..][..C * l];
        for c in 0..C {
            acc[r][c] = s.load(&sums[c * l..]);
        }
    }
    for (j, row) in values.chunks_exact(width).enumerate() {
        if col == 0 {
            soon.ask(s, j);
        }
        let row = &row[col..][..len];
        let mut v = [zero; C];
        if len == C * l {
            for c in 0..C {
                v[c] = T::load(s, &row[c * l..]);
                if C > 4 {
                    v[c] = s.in_turn(v[c]); // fewer stay in their order, and are operands of the sums
                }
            }
        } else {
            v[0] = load_part(s, row, T::default());
        }
        for r in 0..R {
            let w = s.splat(weight[r][j]);
            for c in 0..C {
                acc[r][c] = s.fma(w, v[c], acc[r][c]);
            }
        }
    }
    for r in 0..R {
        let sums = &mut sums[r * stride + col..][..C * l];
        for c in 0..C {
            s.store(acc[r][c], &mut sums[c * l..]);
        }
    }
}

/// Adds a value to the sums of those rows only that see it; `place` is the value's place in the tile.
#[inline(always)]
pub(super) fn add_apart<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: Weights<'_, T::Acc>,
    (value, place): (&[T], usize),
    sums: &mut [T::Acc],
    stride: usize,
) {
    for (i, own) in weights.own.iter().enumerate() {
        if own >> place & 1 == 1 {
            let w = [weights.values[i * SPAN + place]];
            let sums = &mut sums[i * stride..][..value.len()];
            axpys(s, w, [value], sums);
        }
    }
}
