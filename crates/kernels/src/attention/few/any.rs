//! The loops over rows of any length.

use super::{Keys, Run, STEP, Values, ask, wide_file};
use crate::attention::visibility::SPAN;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies::load_part;

/// Products of `R` query rows, key by key.
pub(super) struct Score<'a, T: Real, const R: usize>(pub(super) Keys<'a, T>);

impl<T: Real, const R: usize> Op<T::Acc> for Score<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(mut self, s: S) {
        for head in 0..self.0.keys.heads {
            let (queries, keys, scores) = self.0.of(head);
            by_one::<T, S, R>(s, queries, keys, scores);
        }
    }
}

/// Those of one head.
#[inline(always)]
fn by_one<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    keys: Run<'_, T>,
    scores: &mut [T::Acc],
) {
    let (size, tokens) = (keys.width, keys.tokens);
    let (keys, next) = (keys.head(0), keys.next(0));
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[r * size..][..size];
    }
    for j in 0..tokens {
        ask(s, next, j, size);
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
}

/// Products of `R` query rows with keys of few registers: four are read side by side, which loads a query row once for all.
pub(super) struct ScoreClose<'a, T: Real, const R: usize>(pub(super) Keys<'a, T>);

impl<T: Real, const R: usize> Op<T::Acc> for ScoreClose<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(mut self, s: S) {
        for head in 0..self.0.keys.heads {
            let (queries, keys, scores) = self.0.of(head);
            by_four::<T, S, R>(s, queries, keys, scores);
        }
    }
}

/// Those of one head.
#[inline(always)]
fn by_four<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    keys: Run<'_, T>,
    scores: &mut [T::Acc],
) {
    let (size, tokens) = (keys.width, keys.tokens);
    let (keys, next) = (keys.head(0), keys.next(0));
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[r * size..][..size];
    }
    for from in (0..tokens).step_by(4) {
        // The last group of fewer than four repeats its last key.
        let mut key: [&[T]; 4] = [&[]; 4];
        for (j, row) in key.iter_mut().enumerate() {
            ask(s, next, from + j, size);
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
pub(super) fn sum_up<T: Real, S: Simd<T::Acc>, const R: usize>(
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

/// Adds values to the sums of at most `R` query rows at a time, in blocks of columns.
pub(super) struct Add<'a, T: Real, const R: usize>(pub(super) Values<'a, T>);

impl<T: Real, const R: usize> Op<T::Acc> for Add<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let Values {
            weights,
            line,
            values,
            sums,
            stride,
        } = self.0;
        for head in 0..values.heads {
            for first in (0..values.tokens).step_by(STEP) {
                let run = values.part(head, first, STEP.min(values.tokens - first));
                for j in 0..run.tokens {
                    ask(s, run.next(0), j, run.width);
                }
                let rows = (run.head(0), run.width);
                let mut i = 0;
                while i < line {
                    let row = head * line + i;
                    let weights = &weights[row * SPAN + first..];
                    let sums = (&mut sums[row * stride..], stride);
                    i += match R.min(line - i) {
                        4 => add_rows::<T, S, 4>(s, weights, rows, sums),
                        3 => add_rows::<T, S, 3>(s, weights, rows, sums),
                        2 => add_rows::<T, S, 2>(s, weights, rows, sums),
                        _ => add_rows::<T, S, 1>(s, weights, rows, sums),
                    };
                }
            }
        }
    }
}

/// Adds some values to the sums of `R` query rows; returns `R`.
#[inline(always)]
fn add_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    weights: &[T::Acc],
    (values, width): (&[T], usize),
    (sums, stride): (&mut [T::Acc], usize),
) -> usize {
    let l = S::LANES;
    let rows = (values, width);
    let mut col = 0;
    while wide_file::<T::Acc, S>() && R <= 2 && col + 8 * l <= width {
        add_block::<T, S, R, 8>(s, weights, rows, [col, 8 * l], (&mut *sums, stride));
        col += 8 * l;
    }
    while col + 4 * l <= width {
        add_block::<T, S, R, 4>(s, weights, rows, [col, 4 * l], (&mut *sums, stride));
        col += 4 * l;
    }
    while col < width {
        let part = l.min(width - col);
        add_block::<T, S, R, 1>(s, weights, rows, [col, part], (&mut *sums, stride));
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
