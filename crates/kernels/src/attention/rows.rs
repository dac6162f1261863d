//! Products of a few queries with rows of keys, and of weights with rows of values, read where they lie.
//!
//! Each row is turned into numbers once for up to eight queries, in registers: no decoded copy is written.

use super::cells::{Cells, in_order, load_part};
use super::few::{Run, ask};
use super::visibility::SPAN;
use crate::simd::{Op, Simd};

/// Rows that memory for `count` queries has: numbers of queries that are worked on together, the others being zeros.
pub(super) fn filled_up(count: usize) -> usize {
    match count {
        0..=2 => count,
        3..=4 => 4,
        _ => count.next_multiple_of(8),
    }
}

/// Dot products of `count` queries, in the order of parts and `stride` apart, with all rows. That of query `i` and row `t` goes
/// to `out[i * SPAN + t]`. There is memory for as many queries as [`filled_up`] says.
#[inline(always)]
pub(super) fn scores<C: Cells, S: Simd<f32>>(
    s: S,
    (queries, stride, count): (&[f32], usize, usize),
    rows: Run<'_, C::Unit>,
    out: &mut [f32],
) {
    let mut i = 0;
    while i < count {
        let some = Products {
            queries: &queries[i * stride..],
            stride,
            left: count - i,
            units: rows.head(0),
            tokens: rows.tokens,
            width: rows.width,
            out: &mut out[i * SPAN..],
        };
        // As many sums as half of the register file has room for.
        i += match (S::LANES, count - i) {
            (16, 5..) => products::<C, S, 8, 2>(s, some),
            (16, 3..) => products::<C, S, 4, 4>(s, some),
            (16, 2) => products::<C, S, 2, 8>(s, some),
            (16, _) => products::<C, S, 1, 16>(s, some),
            (_, 3..) => products::<C, S, 4, 2>(s, some),
            (_, 2) => products::<C, S, 2, 4>(s, some),
            (_, _) => products::<C, S, 1, 8>(s, some),
        };
    }
}

/// Products of some queries with rows.
struct Products<'a, U> {
    queries: &'a [f32],
    stride: usize,
    /// Queries; sums of others are not kept.
    left: usize,
    units: &'a [U],
    tokens: usize,
    width: usize,
    out: &'a mut [f32],
}

/// [`scores`] of `M` queries, `N` rows at a time, by the loop that suits the length of a row; returns `M`.
#[inline(always)]
fn products<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    some: Products<'_, C::Unit>,
) -> usize {
    let numbers = some.width * C::PARTS;
    if M >= 4 && numbers == 128 {
        s.apart(FewProducts::<C, M, N, 128>(some));
    } else if M >= 4 && numbers == 64 {
        s.apart(FewProducts::<C, M, N, 64>(some));
    } else {
        s.apart(FewProducts::<C, M, N, 0>(some));
    }
    M
}

/// [`Products`] of `M` queries, `N` rows at a time; rows are of `D` numbers, or of any length if that is 0.
struct FewProducts<'a, C: Cells, const M: usize, const N: usize, const D: usize>(
    Products<'a, C::Unit>,
);

impl<C: Cells, const M: usize, const N: usize, const D: usize> Op<f32>
    for FewProducts<'_, C, M, N, D>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let some = self.0;
        let (width, stride) = match D {
            0 => (some.width, some.stride),
            _ => (D / C::PARTS, D),
        };
        let queries = &some.queries[..M * stride];
        let left = M.min(some.left);
        let whole = some.tokens / N * N;
        for at in (0..whole).step_by(N) {
            let rows = &some.units[at * width..][..N * width];
            let acc = sums_of::<C, S, M, N>(s, (queries, stride), (rows, width));
            keep(s, acc, &mut some.out[at..], [left, N]);
        }
        for at in whole..some.tokens {
            let row = &some.units[at * width..][..width];
            let acc = sums_of::<C, S, M, 1>(s, (queries, stride), (row, width));
            // Added up as rows of a whole group are, so that a sum does not depend on its neighbours.
            let mut group = [[s.splat(0.0); N]; M];
            for (slot, [sum]) in group.iter_mut().zip(acc) {
                slot[0] = sum;
            }
            keep(s, group, &mut some.out[at..], [left, 1]);
        }
    }
}

/// Adds up the lanes of `M` times `N` sums, and keeps those of the first queries and rows.
#[inline(always)]
fn keep<S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    acc: [[S::V; N]; M],
    out: &mut [f32],
    [queries, rows]: [usize; 2],
) {
    let mut flat = [s.splat(0.0); 16];
    for i in 0..M {
        for j in 0..N {
            flat[i * N + j] = acc[i][j];
        }
    }
    let mut sums = [0.0; 16];
    s.sums(&flat[..M * N], &mut sums[..M * N]);
    for i in 0..queries {
        out[i * SPAN..][..rows].copy_from_slice(&sums[i * N..][..rows]);
    }
}

/// Products of `M` queries with `N` rows, lane by lane.
#[inline(always)]
fn sums_of<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    queries: (&[f32], usize),
    (rows, width): (&[C::Unit], usize),
) -> [[S::V; N]; M] {
    let l = S::LANES;
    let mut acc = [[s.splat(0.0); N]; M];
    for chunk in 0..width / l {
        let mut held = [C::load(s, &rows[chunk * l..]); N];
        for j in 1..N {
            held[j] = C::load(s, &rows[j * width + chunk * l..]);
        }
        add_products::<C, S, M, N>(s, queries, held, chunk, &mut acc);
    }
    let rest = width / l * l;
    if rest < width {
        let mut held = [load_part::<C, S>(s, &rows[rest..width]); N];
        for j in 1..N {
            held[j] = load_part::<C, S>(s, &rows[j * width + rest..][..width - rest]);
        }
        add_products::<C, S, M, N>(s, queries, held, width / l, &mut acc);
    }
    acc
}

/// Adds the products with one register's worth of units of each row. No closure: one that stays a call would be compiled
/// for the baseline CPU.
#[inline(always)]
fn add_products<C: Cells, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    (queries, stride): (&[f32], usize),
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
            let q = s.load(&queries[i * stride + (chunk * C::PARTS + part) * S::LANES..]);
            for j in 0..N {
                acc[i][j] = s.fma(q, v[j], acc[i][j]);
            }
        }
    }
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

/// Tokens that are walked over at a time: their rows stay in the first cache.
const NEAR: usize = 16;

/// Adds all rows, times the weights of `count` queries (of query `i` and row `t`: `weights[i * SPAN + t]`),
/// to the queries' sums, which are `stride` apart, a multiple of a register. What is added is first multiplied
/// by `by`.
#[inline(always)]
pub(super) fn values<C: Cells, S: Simd<f32>>(
    s: S,
    (weights, count): (&[f32], usize),
    rows: Run<'_, C::Unit>,
    by: By<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    for first in (0..rows.tokens).step_by(NEAR) {
        let near = rows.part(0, first, NEAR.min(rows.tokens - first));
        if C::PARTS == 1 {
            // Halves of rows of several cache lines are read one after the other, which no processor foresees.
            let ahead = match rows.head(0).get((first + NEAR) * rows.width..) {
                Some(behind) if !behind.is_empty() => behind,
                _ => rows.next(0),
            };
            for j in 0..NEAR {
                ask(s, ahead, j, rows.width);
            }
        }
        let mut i = 0;
        while i < count {
            let some = Weighted {
                weights: &weights[i * SPAN + first..],
                left: count - i,
                units: near.head(0),
                tokens: near.tokens,
                width: near.width,
                by,
                sums: (&mut sums[i * stride..], stride),
            };
            i += match (S::LANES, C::PARTS, count - i) {
                (16, 1 | 2, 5..) => weighted::<C, S, 8, 2>(s, some),
                (16, _, 3..) => weighted::<C, S, 4, 4>(s, some),
                (16, _, 2) => weighted::<C, S, 2, 4>(s, some),
                (16, _, _) => weighted::<C, S, 1, 4>(s, some),
                (_, 1 | 2, 3..) => weighted::<C, S, 4, 2>(s, some),
                (_, _, 2..) => weighted::<C, S, 2, 4>(s, some),
                (_, _, _) => weighted::<C, S, 1, 4>(s, some),
            };
        }
    }
}

/// Rows, weighted, to be added to the sums of some queries.
struct Weighted<'a, U> {
    weights: &'a [f32],
    /// Queries; sums of others are not kept.
    left: usize,
    units: &'a [U],
    tokens: usize,
    width: usize,
    by: By<'a>,
    sums: (&'a mut [f32], usize),
}

/// [`values`] of `M` queries, `R` registers of columns at a time, by the loop that suits the length of a row; returns `M`.
#[inline(always)]
fn weighted<C: Cells, S: Simd<f32>, const M: usize, const R: usize>(
    s: S,
    some: Weighted<'_, C::Unit>,
) -> usize {
    let numbers = some.width * C::PARTS;
    if M >= 4 && numbers == 128 {
        s.apart(FewWeighted::<C, M, R, 128>(some));
    } else if M >= 4 && numbers == 64 {
        s.apart(FewWeighted::<C, M, R, 64>(some));
    } else {
        s.apart(FewWeighted::<C, M, R, 0>(some));
    }
    M
}

/// [`Weighted`] for `M` queries, `R` registers of columns at a time; rows are of `D` numbers, or of any length if that is 0.
struct FewWeighted<'a, C: Cells, const M: usize, const R: usize, const D: usize>(
    Weighted<'a, C::Unit>,
);

impl<C: Cells, const M: usize, const R: usize, const D: usize> Op<f32>
    for FewWeighted<'_, C, M, R, D>
{
    type Output = ();

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // parts and queries index several arrays
    fn run<S: Simd<f32>>(self, s: S) {
        let Weighted {
            weights,
            left,
            units,
            tokens,
            width,
            by,
            sums: (sums, stride),
        } = self.0;
        let l = S::LANES;
        let width = if D == 0 { width } else { D / C::PARTS };
        if width == 0 {
            return;
        }
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
                    let sums = (&mut *sums, stride);
                    add_in_order::<C, S, M, R>(s, (&acc, left), g, unit + g * l, by, sums);
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
    }
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
