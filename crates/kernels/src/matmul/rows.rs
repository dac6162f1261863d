//! Products with few rows on the left: the right operand is read once, in place.

use super::Operands;
use super::micro::{Lines, axpys, dots, narrow};
use crate::Compute;
use crate::pool::{Grid, Tile};
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use refeed_values::View;

/// Up to this many rows are few.
pub(super) const FEW: usize = 8;

/// Columns of a tile: its sums stay in the first cache.
const WIDE: usize = 1024;

/// Largest left operand: it is widened as a whole, which the blocked way does in parts.
const MOST: usize = 1 << 24;

/// Computes the product, or returns `false` when no axis of the right operand is dense or the left one is too large.
pub(super) fn multiply<T: Real>(
    compute: &Compute<'_>,
    operands: &Operands<'_, T>,
    out: &mut [T],
) -> bool {
    let &Operands {
        ref b,
        batch,
        m,
        k,
        n,
        ..
    } = operands;
    let strides = b.strides();
    let (along_k, along_n) = (strides[b.rank() - 2], strides[b.rank() - 1]);
    let by_dots = k > 1 && along_k == 1;
    let by_rows = n == 1 || along_n == 1;
    if !(by_dots || by_rows) || m.saturating_mul(k) > MOST {
        return false;
    }
    let threads = compute.pool.threads();
    let share = (batch * n).div_ceil(2 * threads).next_multiple_of(64);
    let grid = Grid {
        batch,
        rows: m,
        cols: n,
        tile_rows: m,
        tile_cols: share.clamp(64, WIDE),
    };
    let parallel = compute.parallel(batch * m * n * k);
    compute.pool.tiles(out, grid, parallel, |tile| {
        let (a, b) = operands.pair(tile.batch);
        let op = FewRows {
            a: &a,
            b: &b,
            by_dots,
            tile,
        };
        T::Acc::dispatch(compute.isa, op);
    });
    true
}

struct FewRows<'t, 'v, T> {
    a: &'t View<'v, T>,
    b: &'t View<'v, T>,
    by_dots: bool,
    tile: Tile<'t, T>,
}

impl<T: Real> Op<T::Acc> for FewRows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let (m, k) = (self.tile.rows, self.b.shape()[0]);
        // A dense row of the accumulator's type is used where it lies.
        if m == 1
            && let Some(row) = self.a.lane(&[0]).and_then(|lane| lane.as_slice())
            && let Some(row) = T::as_acc(row)
        {
            return self.columns(s, row);
        }
        let mut rows = T::Acc::scratch(m * k);
        for (i, row) in rows.chunks_exact_mut(k).enumerate() {
            let values = self.a.lane(&[i]).into_iter().flat_map(|lane| lane.iter());
            for (x, slot) in values.zip(row) {
                *slot = x.to_acc();
            }
        }
        self.columns(s, &rows);
    }
}

impl<T: Real> FewRows<'_, '_, T> {
    /// The tile's columns, given the rows of the left operand.
    #[inline(always)]
    fn columns<S: Simd<T::Acc>>(self, s: S, rows: &[T::Acc]) {
        let FewRows {
            b,
            by_dots,
            mut tile,
            ..
        } = self;
        let (k, m, cols) = (b.shape()[0], tile.rows, tile.cols);
        let part = if by_dots {
            b.swap(0, 1)
        } else {
            Some(b.clone())
        };
        let Some(lines) = part.and_then(Lines::new) else {
            return; // `multiply` looked at the strides
        };
        let mut sums = T::Acc::scratch(m * cols);
        if by_dots {
            by_columns(s, rows, k, &lines, tile.col, cols, &mut sums);
        } else {
            sums.fill(T::Acc::ZERO);
            by_rows(s, rows, k, &lines, tile.col, cols, &mut sums);
        }
        for (i, sums) in sums.chunks_exact(cols).enumerate() {
            narrow(sums, tile.row(i));
        }
    }
}

/// The right operand's rows are dense: each adds to all sums.
#[inline(always)]
fn by_rows<T: Real, S: Simd<T::Acc>>(
    s: S,
    rows: &[T::Acc],
    k: usize,
    lines: &Lines<'_, T>,
    col: usize,
    cols: usize,
    sums: &mut [T::Acc],
) {
    let line = |d: usize| &lines.line(d)[col..col + cols];
    let mut d = 0;
    while d + 4 <= k {
        let b = [line(d), line(d + 1), line(d + 2), line(d + 3)];
        for (row, sums) in rows.chunks_exact(k).zip(sums.chunks_exact_mut(cols)) {
            let f = &row[d..d + 4];
            axpys(s, [f[0], f[1], f[2], f[3]], b, sums);
        }
        d += 4;
    }
    while d < k {
        for (row, sums) in rows.chunks_exact(k).zip(sums.chunks_exact_mut(cols)) {
            axpys(s, [row[d]], [line(d)], sums);
        }
        d += 1;
    }
}

/// The right operand's columns are dense: each gives one dot product a row.
#[inline(always)]
fn by_columns<T: Real, S: Simd<T::Acc>>(
    s: S,
    rows: &[T::Acc],
    k: usize,
    lines: &Lines<'_, T>,
    col: usize,
    cols: usize,
    sums: &mut [T::Acc],
) {
    let m = rows.len() / k;
    let mut j = 0;
    while j < cols {
        let count = if j + 4 <= cols { 4 } else { 1 };
        let mut i = 0;
        while i < m {
            let row = |i: usize| &rows[i * k..][..k];
            if count == 4 {
                let at = col + j;
                let b = [
                    lines.line(at),
                    lines.line(at + 1),
                    lines.line(at + 2),
                    lines.line(at + 3),
                ];
                if i + 2 <= m {
                    let d = dots(s, [row(i), row(i + 1)], b);
                    sums[i * cols + j..][..4].copy_from_slice(&d[0]);
                    sums[(i + 1) * cols + j..][..4].copy_from_slice(&d[1]);
                    i += 2;
                } else {
                    let d = dots(s, [row(i)], b);
                    sums[i * cols + j..][..4].copy_from_slice(&d[0]);
                    i += 1;
                }
            } else {
                sums[i * cols + j] = dots(s, [row(i)], [lines.line(col + j)])[0][0];
                i += 1;
            }
        }
        j += count;
    }
}
