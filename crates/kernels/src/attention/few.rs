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
    /// The first row and what follows it in memory, as far as rows follow one another; else nothing.
    pub(super) follow: &'a [T],
}

impl<'a, T> Listed<'a, T> {
    /// Elements of the row `rows` rows behind row `n`, and what follows them; nothing where there are none.
    #[inline(always)]
    fn ahead(&self, width: usize, n: usize, rows: usize) -> &'a [T] {
        self.follow.get((n + rows) * width..).unwrap_or(&[])
    }

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

/// Rows of keys that are asked for ahead of their use, when a block of columns is all of a value. The processor reads
/// ahead by itself then, but not far enough for keys of several cache lines.
const NEAR: usize = 8;

/// Query rows that are taken together, of those that are left.
#[inline(always)]
fn rows_at_once<T: Real, S: Simd<T::Acc>>(left: usize) -> usize {
    let most = if wide_file::<T::Acc, S>() { 4 } else { 2 };
    left.min(most)
}

/// Columns of a block of values, for this many query rows in all.
#[inline(always)]
fn block_columns<T: Real, S: Simd<T::Acc>>(count: usize) -> usize {
    let registers = if wide_file::<T::Acc, S>() && count <= 2 {
        8
    } else {
        4
    };
    registers * S::LANES
}

/// Products of every query row with the listed keys, four keys and up to four rows at a time. Values are taken to be as
/// wide as keys.
#[inline(always)]
pub(super) fn score_listed<T: Real, S: Simd<T::Acc>>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    keys: &Listed<'_, T>,
    scores: &mut [T::Acc],
) {
    let count = scores.len() / TILE;
    // Values that are read in several blocks of columns keep the processor from reading ahead, of keys as well.
    let ahead = if size > block_columns::<T, S>(count) {
        TILE
    } else if size * size_of::<T>() >= 512 {
        NEAR
    } else {
        0
    };
    // A key of few registers is worked off before the next one's sums could hide behind it.
    let close = size < 8 * S::LANES;
    let wide = const { wide_file::<T::Acc, S>() };
    let mut n = 0;
    while n < keys.count {
        let soon = match ahead {
            0 => &[],
            rows => keys.ahead(size, n, rows),
        };
        // The last group of fewer than four repeats its last key.
        let at = |j: usize| (n + j).min(keys.count - 1);
        let rows = [at(0), at(1), at(2), at(3)].map(|n| keys.rows[n % TILE]);
        let places = [at(0), at(1), at(2), at(3)].map(|n| keys.place(n % TILE));
        let mut i = 0;
        while i < count {
            i += match rows_at_once::<T, S>(count - i) {
                4 if close && wide => {
                    score_close::<T, S, 4>(s, queries, size, i, (rows, places), scores)
                }
                3 if close && wide => {
                    score_close::<T, S, 3>(s, queries, size, i, (rows, places), scores)
                }
                2 if close => score_close::<T, S, 2>(s, queries, size, i, (rows, places), scores),
                _ if close => score_close::<T, S, 1>(s, queries, size, i, (rows, places), scores),
                4 if wide => {
                    score_rows::<T, S, 4>(s, queries, size, i, (rows, places, soon), scores)
                }
                3 if wide => {
                    score_rows::<T, S, 3>(s, queries, size, i, (rows, places, soon), scores)
                }
                2 => score_rows::<T, S, 2>(s, queries, size, i, (rows, places, soon), scores),
                _ => score_rows::<T, S, 1>(s, queries, size, i, (rows, places, soon), scores),
            };
        }
        n += 4;
    }
}

/// Products of query rows `i..i + R` with four keys; returns `R`. The first pass over the keys asks for `soon`. Keys are read one after the other, as they lie: the
/// processor reads ahead of one stream better than of four.
#[inline(always)]
fn score_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    i: usize,
    (keys, places, soon): ([&[T]; 4], [usize; 4], &[T]),
    scores: &mut [T::Acc],
) -> usize {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[(i + r) * size..][..size];
    }
    let mut products = [[zero; 4]; R];
    for j in 0..4 {
        let key = &keys[j][..size];
        // Two chains of sums a row, so that one key's latency hides behind the other's.
        let mut acc = [[zero; 2]; R];
        let mut d = 0;
        while d + 2 * l <= size {
            if i == 0
                && let Some(soon) = soon.get(j * size + d..j * size + d + 2 * l)
            {
                s.prefetch(soon);
            }
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
        for r in 0..R {
            products[r][j] = s.add(acc[r][0], acc[r][1]);
        }
    }
    put::<T, S, R>(s, products, i, places, scores);
    R
}

/// As [`score_rows`], for keys of few registers: the four are read side by side, which loads a query row once for all.
#[inline(always)]
fn score_close<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    i: usize,
    (keys, places): ([&[T]; 4], [usize; 4]),
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
    put::<T, S, R>(s, acc, i, places, scores);
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

/// Sums up products and writes them to the places of the four keys.
#[inline(always)]
fn put<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    products: [[S::V; 4]; R],
    i: usize,
    places: [usize; 4],
    scores: &mut [T::Acc],
) {
    for r in 0..R {
        let sums = s.sum_four(products[r]);
        let scores = &mut scores[(i + r) * TILE..][..TILE];
        let first = places[0];
        if places == [first, first + 1, first + 2, first + 3] && first + 4 <= TILE {
            scores[first..first + 4].copy_from_slice(&sums);
        } else {
            for j in 0..4 {
                scores[places[j] % TILE] = sums[j];
            }
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
    let wide = const { wide_file::<T::Acc, S>() };
    let count = weights.len() / TILE;
    let mut n = 0;
    while n < values.count {
        let mut i = 0;
        while i < count {
            let at = (values, n);
            i += match rows_at_once::<T, S>(count - i) {
                4 if wide => add_rows::<T, S, 4>(s, weights, i, at, width, sums, stride),
                3 if wide => add_rows::<T, S, 3>(s, weights, i, at, width, sums, stride),
                2 => add_rows::<T, S, 2>(s, weights, i, at, width, sums, stride),
                _ => add_rows::<T, S, 1>(s, weights, i, at, width, sums, stride),
            };
        }
        n += STEP;
    }
}

/// Adds values from number `n` on to the sums of query rows `i..i + R`; returns `R`.
#[inline(always)]
fn add_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    weights: &[T::Acc],
    i: usize,
    values: (&Listed<'_, T>, usize),
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) -> usize {
    let l = S::LANES;
    let mut col = 0;
    while wide_file::<T::Acc, S>() && R <= 2 && col + 8 * l <= width {
        add_block::<T, S, R, 8>(s, weights, i, values, [col, 8 * l, width], sums, stride);
        col += 8 * l;
    }
    while col + 4 * l <= width {
        add_block::<T, S, R, 4>(s, weights, i, values, [col, 4 * l, width], sums, stride);
        col += 4 * l;
    }
    while col < width {
        let part = l.min(width - col);
        add_block::<T, S, R, 1>(s, weights, i, values, [col, part, width], sums, stride);
        col += l;
    }
    R
}

/// Adds `C` registers of columns of values of `width` elements, of which `len` from `col` on count.
#[inline(always)]
fn add_block<T: Real, S: Simd<T::Acc>, const R: usize, const C: usize>(
    s: S,
    weights: &[T::Acc],
    i: usize,
    (values, n): (&Listed<'_, T>, usize),
    [col, len, width]: [usize; 3],
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
    // The first pass over the rows asks for those of the next tile, where a row takes several passes.
    let asks = i == 0 && width > block_columns::<T, S>(weights.len() / TILE);
    for n in n..values.count.min(n + STEP) {
        let place = values.place(n);
        let row = &values.rows[n % TILE][col..][..len];
        if asks && let Some(soon) = values.ahead(width, n, TILE).get(col..col + len) {
            s.prefetch(soon);
        }
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
