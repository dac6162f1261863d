//! Products of a few queries with rows of keys, and of weights with rows of values, read where they lie.
//!
//! Each row is turned into numbers once for up to eight queries, in registers: no decoded copy is written.

use super::cells::{Cells, in_order, load_part};
use super::visibility::TILE;
use crate::simd::Simd;

/// Rows of units at a fixed distance.
#[derive(Clone, Copy)]
pub(super) struct Strip<'a, U> {
    pub(super) units: &'a [U],
    /// Units from one row to the next.
    pub(super) stride: usize,
    /// Units of a row.
    pub(super) width: usize,
}

impl<'a, U> Strip<'a, U> {
    #[inline(always)]
    pub(super) fn row(&self, index: usize) -> &'a [U] {
        &self.units[index * self.stride..][..self.width]
    }
}

/// Rows that memory for `count` queries has: numbers of queries that are worked on together, the others being zeros.
pub(super) fn filled_up(count: usize) -> usize {
    match count {
        0..=2 => count,
        3..=4 => 4,
        _ => count.next_multiple_of(8),
    }
}

/// Dot products of `count` queries, in the order of parts and `stride` apart, with the first `tokens` rows. That of
/// query `i` and row `t` goes to `out[i * TILE + t]`. There is memory for as many queries as [`filled_up`] says.
#[inline(always)]
pub(super) fn scores<C: Cells, S: Simd<f32>>(
    s: S,
    (queries, stride, count): (&[f32], usize, usize),
    rows: &Strip<'_, C::Unit>,
    tokens: usize,
    out: &mut [f32],
) {
    let mut i = 0;
    while i < count {
        let (queries, out) = (&queries[i * stride..], &mut out[i * TILE..]);
        let left = count - i;
        let q = (queries, stride, left);
        // As many sums as half of the register file has room for.
        i += match (S::LANES, left) {
            (16, 5..) => few_scores::<C, S, 8, 2>(s, q, rows, tokens, out),
            (16, 3..) => few_scores::<C, S, 4, 4>(s, q, rows, tokens, out),
            (16, 2) => few_scores::<C, S, 2, 8>(s, q, rows, tokens, out),
            (16, _) => few_scores::<C, S, 1, 16>(s, q, rows, tokens, out),
            (_, 3..) => few_scores::<C, S, 4, 2>(s, q, rows, tokens, out),
            (_, 2) => few_scores::<C, S, 2, 4>(s, q, rows, tokens, out),
            (_, _) => few_scores::<C, S, 1, 8>(s, q, rows, tokens, out),
        };
    }
}

/// [`scores`] of `M` queries, `N` rows at a time.
#[inline(always)]
fn few_scores<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    (queries, stride, left): (&[f32], usize, usize),
    rows: &Strip<'_, C::Unit>,
    tokens: usize,
    out: &mut [f32],
) -> usize {
    let mut query = [queries; M];
    for (i, query) in query.iter_mut().enumerate() {
        *query = &queries[i * stride..][..stride];
    }
    let mut at = 0;
    while at < tokens {
        let count = N.min(tokens - at);
        let mut row = [rows.row(at); N];
        for (j, row) in row.iter_mut().enumerate().take(count) {
            *row = rows.row(at + j);
        }
        let acc = products::<C, S, M, N>(s, query, row, rows.width);
        let mut flat = [s.splat(0.0); 16];
        for i in 0..M {
            for j in 0..N {
                flat[i * N + j] = acc[i][j];
            }
        }
        let mut sums = [0.0; 16];
        s.sums(&flat[..M * N], &mut sums[..M * N]);
        for i in 0..M.min(left) {
            let (sums, out) = (&sums[i * N..][..N], &mut out[i * TILE + at..]);
            if count == N {
                out[..N].copy_from_slice(sums);
            } else {
                out[..count].copy_from_slice(&sums[..count]);
            }
        }
        at += N;
    }
    M
}

/// Products of `M` queries with `N` rows of `width` units, lane by lane.
#[inline(always)]
fn products<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    query: [&[f32]; M],
    row: [&[C::Unit]; N],
    width: usize,
) -> [[S::V; N]; M] {
    let l = S::LANES;
    let mut acc = [[s.splat(0.0); N]; M];
    let mut row = row;
    for row in &mut row {
        *row = &row[..width];
    }
    for chunk in 0..width / l {
        let mut held = [C::load(s, &row[0][chunk * l..]); N];
        for j in 1..N {
            held[j] = C::load(s, &row[j][chunk * l..]);
        }
        add_products::<C, S, M, N>(s, query, held, chunk, &mut acc);
    }
    let rest = width / l * l;
    if rest < width {
        let mut held = [load_part::<C, S>(s, &row[0][rest..]); N];
        for j in 1..N {
            held[j] = load_part::<C, S>(s, &row[j][rest..]);
        }
        add_products::<C, S, M, N>(s, query, held, width / l, &mut acc);
    }
    acc
}

/// What sums of rows are multiplied by before they are added to the sums of a query.
#[derive(Clone, Copy)]
pub(super) enum By<'a> {
    /// 1.
    One,
    /// A number.
    All(f32),
    /// A number for each column; whole registers.
    Columns(&'a [f32]),
}

/// Adds the products with one register's worth of units of each row. No closure: one that stays a call would be compiled
/// for the baseline CPU.
#[inline(always)]
fn add_products<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    query: [&[f32]; M],
    held: [C::Held<S>; N],
    chunk: usize,
    acc: &mut [[S::V; N]; M],
) {
    for part in 0..C::PARTS {
        let mut v = [s.splat(0.0); N];
        for j in 0..N {
            v[j] = C::part(s, held[j], part);
        }
        for i in 0..M {
            let q = s.load(&query[i][(chunk * C::PARTS + part) * S::LANES..]);
            for j in 0..N {
                acc[i][j] = s.fma(q, v[j], acc[i][j]);
            }
        }
    }
}

/// Tokens that are walked over at a time: their rows stay in the first cache.
const NEAR: usize = 16;

/// Adds the first `tokens` rows, times the weights of `count` queries (of query `i` and row `t`: `weights[i * TILE + t]`),
/// to the queries' sums, which are `stride` apart, a multiple of a register. What is added is first multiplied
/// by `by`.
#[inline(always)]
pub(super) fn values<C: Cells, S: Simd<f32>>(
    s: S,
    (weights, count): (&[f32], usize),
    rows: &Strip<'_, C::Unit>,
    tokens: usize,
    by: By<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    let mut start = 0;
    while start < tokens {
        let near = NEAR.min(tokens - start);
        let mut i = 0;
        while i < count {
            let left = count - i;
            let w = (&weights[i * TILE + start..], left);
            let sums = (&mut sums[i * stride..], stride);
            let rows = (rows, start, near);
            i += match (S::LANES, C::PARTS, left) {
                (16, 1 | 2, 5..) => few_values::<C, S, 8, 2>(s, w, rows, by, sums),
                (16, _, 3..) => few_values::<C, S, 4, 4>(s, w, rows, by, sums),
                (16, _, 2) => few_values::<C, S, 2, 4>(s, w, rows, by, sums),
                (16, _, _) => few_values::<C, S, 1, 4>(s, w, rows, by, sums),
                (_, 1 | 2, 3..) => few_values::<C, S, 4, 2>(s, w, rows, by, sums),
                (_, _, 2..) => few_values::<C, S, 2, 4>(s, w, rows, by, sums),
                (_, _, _) => few_values::<C, S, 1, 4>(s, w, rows, by, sums),
            };
        }
        start += near;
    }
}

/// [`values`] of `M` queries and `near` rows from `start` on, `R` registers of columns at a time.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // tokens and parts index several arrays
fn few_values<C: Cells, S: Simd<f32>, const M: usize, const R: usize>(
    s: S,
    (weights, left): (&[f32], usize),
    (rows, start, near): (&Strip<'_, C::Unit>, usize, usize),
    by: By<'_>,
    (sums, stride): (&mut [f32], usize),
) -> usize {
    let l = S::LANES;
    // Queries that are not there get the weights of the first one; their sums are not kept.
    let mut weight = [&weights[..near]; M];
    for (i, weight) in weight.iter_mut().enumerate().take(left) {
        *weight = &weights[i * TILE..][..near];
    }
    // Loads that `R` registers come from.
    let loads = R / C::PARTS;
    let wide = loads * l;
    let mut unit = 0;
    while unit < rows.width {
        let mut acc = [[s.splat(0.0); R]; M];
        if unit + wide <= rows.width {
            for t in 0..near {
                let row = &rows.row(start + t)[unit..][..wide];
                let mut v = [s.splat(0.0); R];
                for g in 0..loads {
                    let held = C::load(s, &row[g * l..]);
                    for part in 0..C::PARTS {
                        v[g * C::PARTS + part] = C::part(s, held, part);
                    }
                }
                for i in 0..M {
                    let w = s.splat(weight[i][t]);
                    for r in 0..R {
                        acc[i][r] = s.fma(w, v[r], acc[i][r]);
                    }
                }
            }
            for g in 0..loads {
                add_in_order::<C, S, M, R>(
                    s,
                    (&acc, left),
                    g,
                    unit + g * l,
                    by,
                    (&mut *sums, stride),
                );
            }
            unit += wide;
        } else {
            let end = (unit + l).min(rows.width);
            for t in 0..near {
                let row = &rows.row(start + t)[unit..end];
                let held = match row.len() == l {
                    true => C::load(s, row),
                    false => load_part::<C, S>(s, row),
                };
                for part in 0..C::PARTS {
                    let v = C::part(s, held, part);
                    for i in 0..M {
                        acc[i][part] = s.fma(s.splat(weight[i][t]), v, acc[i][part]);
                    }
                }
            }
            add_in_order::<C, S, M, R>(s, (&acc, left), 0, unit, by, (&mut *sums, stride));
            unit = end;
        }
    }
    M
}

/// Adds the registers of load `g` to the sums of the columns that begin with those of `unit`.
#[inline(always)]
fn add_in_order<C: Cells, S: Simd<f32>, const M: usize, const R: usize>(
    s: S,
    (acc, left): (&[[S::V; R]; M], usize),
    g: usize,
    unit: usize,
    by: By<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    let first = unit * C::PARTS;
    for i in 0..M.min(left) {
        let mut v = [s.splat(0.0); 4];
        for (part, v) in v.iter_mut().enumerate().take(C::PARTS) {
            *v = acc[i][g * C::PARTS + part];
        }
        let v = in_order::<C, S>(s, v);
        for (part, v) in v.into_iter().enumerate().take(C::PARTS) {
            let at = first + part * S::LANES;
            if at >= stride {
                break; // codes past the last column
            }
            let sums = &mut sums[i * stride + at..][..S::LANES];
            let sum = match by {
                By::One => s.add(v, s.load(sums)),
                By::All(by) => s.fma(v, s.splat(by), s.load(sums)),
                By::Columns(by) => s.fma(v, s.load(&by[at..]), s.load(sums)),
            };
            s.store(sum, sums);
        }
    }
}

#[cfg(test)]
mod tests;
