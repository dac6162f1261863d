//! Products of few query rows with rows of keys, and of weights with rows of values, of one element type: each row is
//! read once for up to four query rows, and sums of four keys are made together.

use super::cache::Weights;
use super::visibility::TILE;
use crate::matmul::micro::axpys;
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies::load_part;

/// Places of a tile with their rows, close together.
pub(super) struct Listed<'a, T> {
    pub(super) rows: [&'a [T]; TILE],
    pub(super) places: [u8; TILE],
    pub(super) count: usize,
}

impl<T> Listed<'_, T> {
    #[inline(always)]
    pub(super) fn place(&self, n: usize) -> usize {
        usize::from(self.places[n % TILE]) % TILE
    }
}

/// Whether the register file holds four query rows times four vectors besides the operands.
#[inline(always)]
const fn wide_file<E: Accumulator, S: Simd<E>>() -> bool {
    S::TILE_ROWS == 12
}

/// Products of every query row with the listed keys, four keys and up to four rows at a time.
#[inline(always)]
pub(super) fn score_listed<T: Real, S: Simd<T::Acc>>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    keys: &Listed<'_, T>,
    scores: &mut [T::Acc],
) {
    let count = scores.len() / TILE;
    let mut n = 0;
    while n < keys.count {
        // The last group of fewer than four repeats its last key.
        let at = |j: usize| (n + j).min(keys.count - 1);
        let rows = [at(0), at(1), at(2), at(3)].map(|n| keys.rows[n % TILE]);
        let places = [at(0), at(1), at(2), at(3)].map(|n| keys.place(n % TILE));
        let mut i = 0;
        while i < count {
            let left = count - i;
            let taken = if wide_file::<T::Acc, S>() && left >= 4 {
                score_rows::<T, S, 4>(s, queries, size, i, rows, places, scores)
            } else if wide_file::<T::Acc, S>() && left == 3 {
                score_rows::<T, S, 3>(s, queries, size, i, rows, places, scores)
            } else if left >= 2 {
                score_rows::<T, S, 2>(s, queries, size, i, rows, places, scores)
            } else {
                score_rows::<T, S, 1>(s, queries, size, i, rows, places, scores)
            };
            i += taken;
        }
        n += 4;
    }
}

/// Products of query rows `i..i + R` with four keys; returns `R`.
#[inline(always)]
fn score_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    i: usize,
    keys: [&[T]; 4],
    places: [usize; 4],
    scores: &mut [T::Acc],
) -> usize {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[(i + r) * size..][..size];
    }
    let mut key = keys;
    for row in &mut key {
        *row = &row[..size];
    }
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
    for r in 0..R {
        let sums = s.sum_four(acc[r]);
        let scores = &mut scores[(i + r) * TILE..][..TILE];
        let first = places[0];
        if places[3] == first + 3 && first + 4 <= TILE {
            scores[first..first + 4].copy_from_slice(&sums);
        } else {
            for j in 0..4 {
                scores[places[j] % TILE] = sums[j];
            }
        }
    }
    R
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

/// Values that are added at a time: their rows stay in the first cache for all query rows.
const STEP: usize = 16;

/// Adds the listed values, which every query row sees, to the sums of all rows.
#[inline(always)]
pub(super) fn add_listed<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: &[T::Acc],
    values: &Listed<'_, T>,
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) {
    if width == 0 {
        return;
    }
    let count = weights.len() / TILE;
    let mut n = 0;
    while n < values.count {
        let rows = &values.rows[n..values.count.min(n + STEP)];
        let places = &values.places[n..values.count.min(n + STEP)];
        let mut i = 0;
        while i < count {
            let left = count - i;
            let taken = if wide_file::<T::Acc, S>() && left >= 4 {
                add_rows::<T, S, 4>(s, weights, i, (rows, places), width, sums, stride)
            } else if wide_file::<T::Acc, S>() && left == 3 {
                add_rows::<T, S, 3>(s, weights, i, (rows, places), width, sums, stride)
            } else if left >= 2 {
                add_rows::<T, S, 2>(s, weights, i, (rows, places), width, sums, stride)
            } else {
                add_rows::<T, S, 1>(s, weights, i, (rows, places), width, sums, stride)
            };
            i += taken;
        }
        n += STEP;
    }
}

/// Adds values to the sums of query rows `i..i + R`; returns `R`.
#[inline(always)]
fn add_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    weights: &[T::Acc],
    i: usize,
    values: (&[&[T]], &[u8]),
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) -> usize {
    let l = S::LANES;
    let mut col = 0;
    while col + 4 * l <= width {
        add_block::<T, S, R, 4>(s, weights, i, values, (col, 4 * l), sums, stride);
        col += 4 * l;
    }
    while col < width {
        let part = l.min(width - col);
        add_block::<T, S, R, 1>(s, weights, i, values, (col, part), sums, stride);
        col += l;
    }
    R
}

/// Adds `C` registers of columns, of which `len` elements count.
#[inline(always)]
fn add_block<T: Real, S: Simd<T::Acc>, const R: usize, const C: usize>(
    s: S,
    weights: &[T::Acc],
    i: usize,
    (rows, places): (&[&[T]], &[u8]),
    (col, len): (usize, usize),
    sums: &mut [T::Acc],
    stride: usize,
) {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut weight: [&[T::Acc]; R] = [&[]; R];
    let mut acc = [[zero; C]; R];
    for r in 0..R {
        weight[r] = &weights[(i + r) * TILE..][..TILE];
        let sums = &sums[(i + r) * stride + col..][..C * l];
        for c in 0..C {
            acc[r][c] = s.load(&sums[c * l..]);
        }
    }
    for (row, place) in rows.iter().zip(places) {
        let place = usize::from(*place) % TILE;
        let row = &row[col..][..len];
        let mut v = [zero; C];
        if len == C * l {
            for c in 0..C {
                v[c] = T::load(s, &row[c * l..]);
            }
        } else {
            v[0] = load_part(s, row, T::default());
        }
        for r in 0..R {
            let w = s.splat(weight[r][place]);
            for c in 0..C {
                acc[r][c] = s.fma(w, v[c], acc[r][c]);
            }
        }
    }
    for r in 0..R {
        let sums = &mut sums[(i + r) * stride + col..][..C * l];
        for c in 0..C {
            s.store(acc[r][c], &mut sums[c * l..]);
        }
    }
}

/// Adds values to the sums of those rows only that see them.
#[inline(always)]
pub(super) fn add_apart<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: Weights<'_, T::Acc>,
    values: &Listed<'_, T>,
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) {
    for n in 0..values.count {
        let place = values.place(n);
        for (i, own) in weights.own.iter().enumerate() {
            if own >> place & 1 == 1 {
                let w = [weights.values[i * TILE + place]];
                let sums = &mut sums[i * stride..][..width];
                axpys(s, w, [values.rows[n]], sums);
            }
        }
    }
}
