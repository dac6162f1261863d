//! Products of a few queries with rows of keys, and of weights with rows of values, read where they lie.
//!
//! Each row is turned into numbers once for up to eight queries, in registers: no decoded copy is written.

use super::cells::{Cells, in_order, load_part};
use super::few::Soon;
use super::visibility::SPAN;
use crate::simd::Simd;

/// Rows that follow one another, their number, and what is asked for while they are read.
pub(super) type Run<'r, U> = (&'r [U], usize, Soon<'r>);

/// Runs of rows, wherever each lies: at most the rows of a tile.
#[derive(Clone, Copy)]
pub(super) struct RowRuns<'r, U> {
    pub(super) runs: &'r [Run<'r, U>],
    /// Units of a row.
    pub(super) width: usize,
}

impl<'r, U> RowRuns<'r, U> {
    /// Rows of all runs.
    #[inline(always)]
    pub(super) fn tokens(&self) -> usize {
        self.runs.iter().map(|(_, count, _)| count).sum()
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

/// Dot products of `count` queries, in the order of parts and `stride` apart, with all rows. That of query `i` and row `t` goes to `out[i * SPAN + t]`. There is memory for as many queries as [`filled_up`] says.
#[inline(always)]
pub(super) fn scores<C: Cells, S: Simd<f32>>(
    s: S,
    (queries, stride, count): (&[f32], usize, usize),
    rows: &RowRuns<'_, C::Unit>,
    out: &mut [f32],
) {
    let mut first = 0;
    for &(units, tokens, soon) in rows.runs {
        let run = (units, tokens, rows.width);
        let mut i = 0;
        while i < count {
            let (queries, out) = (&queries[i * stride..], &mut out[i * SPAN + first..]);
            let q = (queries, stride, count - i);
            let soon = match i {
                0 => soon,
                _ => Soon::default(), // was asked for
            };
            // As many sums as half of the register file has room for.
            i += match (S::LANES, count - i) {
                (16, 5..) => few_scores::<C, S, 8, 2>(s, q, run, soon, out),
                (16, 3..) => few_scores::<C, S, 4, 4>(s, q, run, soon, out),
                (16, 2) => few_scores::<C, S, 2, 8>(s, q, run, soon, out),
                (16, _) => few_scores::<C, S, 1, 16>(s, q, run, soon, out),
                (_, 3..) => few_scores::<C, S, 4, 2>(s, q, run, soon, out),
                (_, 2) => few_scores::<C, S, 2, 4>(s, q, run, soon, out),
                (_, _) => few_scores::<C, S, 1, 8>(s, q, run, soon, out),
            };
        }
        first += tokens;
    }
}

/// [`scores`] of `M` queries, `N` rows at a time.
#[inline(always)]
fn few_scores<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    (queries, stride, left): (&[f32], usize, usize),
    (units, tokens, width): (&[C::Unit], usize, usize),
    soon: Soon<'_>,
    out: &mut [f32],
) -> usize {
    let mut query = [queries; M];
    for (i, query) in query.iter_mut().enumerate() {
        *query = &queries[i * stride..][..stride];
    }
    let mut at = 0;
    while at < tokens {
        let count = N.min(tokens - at);
        // The last group of fewer than `N` repeats its last row.
        let mut row = [units; N];
        for (j, row) in row.iter_mut().enumerate() {
            *row = &units[(at + j.min(count - 1)) * width..][..width];
        }
        for j in at..at + count {
            soon.ask(s, j);
        }
        let acc = products::<C, S, M, N>(s, query, row, width);
        let mut flat = [s.splat(0.0); 16];
        for i in 0..M {
            for j in 0..N {
                flat[i * N + j] = acc[i][j];
            }
        }
        let mut sums = [0.0; 16];
        s.sums(&flat[..M * N], &mut sums[..M * N]);
        for i in 0..M.min(left) {
            let (sums, out) = (&sums[i * N..][..N], &mut out[i * SPAN + at..]);
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

/// Adds all rows, times the weights of `count` queries (of query `i` and row `t`: `weights[i * SPAN + t]`),
/// to the queries' sums, which are `stride` apart, a multiple of a register. What is added is first multiplied
/// by `by`.
#[inline(always)]
pub(super) fn values<C: Cells, S: Simd<f32>>(
    s: S,
    (weights, count): (&[f32], usize),
    rows: &RowRuns<'_, C::Unit>,
    by: By<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    let width = rows.width;
    let mut first = 0;
    for &(units, tokens, soon) in rows.runs {
        for start in (0..tokens).step_by(NEAR) {
            let near = NEAR.min(tokens - start);
            let run = (&units[start * width..][..near * width], width);
            let mut i = 0;
            while i < count {
                let left = count - i;
                let w = (&weights[i * SPAN + first + start..], left);
                let sums = (&mut sums[i * stride..], stride);
                let soon = match i {
                    0 => soon.from(start),
                    _ => Soon::default(), // was asked for
                };
                i += match (S::LANES, C::PARTS, left) {
                    (16, 1 | 2, 5..) => few_values::<C, S, 8, 2>(s, w, run, soon, by, sums),
                    (16, _, 3..) => few_values::<C, S, 4, 4>(s, w, run, soon, by, sums),
                    (16, _, 2) => few_values::<C, S, 2, 4>(s, w, run, soon, by, sums),
                    (16, _, _) => few_values::<C, S, 1, 4>(s, w, run, soon, by, sums),
                    (_, 1 | 2, 3..) => few_values::<C, S, 4, 2>(s, w, run, soon, by, sums),
                    (_, _, 2..) => few_values::<C, S, 2, 4>(s, w, run, soon, by, sums),
                    (_, _, _) => few_values::<C, S, 1, 4>(s, w, run, soon, by, sums),
                };
            }
        }
        first += tokens;
    }
}

/// [`values`] of `M` queries and some rows, `R` registers of columns at a time.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // parts and queries index several arrays
fn few_values<C: Cells, S: Simd<f32>, const M: usize, const R: usize>(
    s: S,
    (weights, left): (&[f32], usize),
    (units, width): (&[C::Unit], usize),
    soon: Soon<'_>,
    by: By<'_>,
    (sums, stride): (&mut [f32], usize),
) -> usize {
    let l = S::LANES;
    let tokens = units.len() / width.max(1);
    // Queries that are not there get the weights of the first one; their sums are not kept.
    let mut weight = [&weights[..tokens]; M];
    for (i, weight) in weight.iter_mut().enumerate().take(left) {
        *weight = &weights[i * SPAN..][..tokens];
    }
    // Loads that `R` registers come from.
    let loads = R / C::PARTS;
    let wide = loads * l;
    let mut unit = 0;
    while unit < width {
        let mut acc = [[s.splat(0.0); R]; M];
        let rows = units.chunks_exact(width).enumerate();
        if unit + wide <= width {
            for (t, row) in rows {
                if unit == 0 {
                    soon.ask(s, t);
                }
                let row = &row[unit..][..wide];
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
            let end = (unit + l).min(width);
            for (t, row) in rows {
                let row = &row[unit..end];
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
