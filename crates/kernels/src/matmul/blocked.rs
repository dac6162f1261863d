//! Products with many rows: tiles of both operands are packed and multiplied in registers.
//!
//! A task owns a tile of the result. For each stretch of the depth it packs its columns of the right operand (which then
//! stay in the second cache), then strip by strip its rows of the left one, and multiplies panel by panel. Sums are kept
//! in the accumulator's type until the whole depth is done.

use super::Operands;
use super::micro::{DEPTH, Lines, Pieces, narrow, pack_columns, pack_transposed, tile};
use crate::Compute;
use crate::pool::{Grid, Tile};
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use refeed_values::View;

/// Largest tile of the result.
const ROWS: usize = 384;
const COLS: usize = 256;
/// Rows of the left operand that are packed at a time: a multiple of every `TILE_ROWS`.
const STRIP: usize = 96;

pub(super) fn multiply<T: Real>(compute: &Compute<'_>, operands: &Operands<'_, T>, out: &mut [T]) {
    let Operands { batch, m, k, n, .. } = *operands;
    tiles(compute, [batch, m, k, n], out, |tile| {
        let (a, b) = operands.pair(tile.batch);
        if let Some(b) = Matrix::new(b) {
            let (a, b) = (&a, &b);
            T::Acc::dispatch(
                compute.isa,
                Block {
                    a,
                    b,
                    depth: k,
                    tile,
                },
            );
        }
    });
}

/// Products of the rows `[m, k]` with one right operand of `n` columns that is no view.
pub(super) fn multiply_rows<T: Real>(
    compute: &Compute<'_>,
    a: &View<'_, T>,
    b: &(impl Panels<T::Acc> + Sync),
    [m, k, n]: [usize; 3],
    out: &mut [T],
) {
    tiles(compute, [1, m, k, n], out, |tile| {
        let block = Block {
            a,
            b,
            depth: k,
            tile,
        };
        T::Acc::dispatch(compute.isa, block);
    });
}

/// Calls `task` for every tile of a result of `[batch, m, k, n]`.
fn tiles<T: Real>(
    compute: &Compute<'_>,
    [batch, m, k, n]: [usize; 4],
    out: &mut [T],
    task: impl Fn(Tile<'_, T>) + Sync,
) {
    let mut grid = Grid {
        batch,
        rows: m,
        cols: n,
        tile_rows: ROWS.min(m),
        tile_cols: COLS.min(n),
    };
    let parallel = compute.parallel(batch * m * n * k);
    let enough = 2 * compute.pool.threads();
    while parallel
        && batch * m.div_ceil(grid.tile_rows) * n.div_ceil(grid.tile_cols) < enough
        && (grid.tile_rows > STRIP || grid.tile_cols > 64)
    {
        if grid.tile_rows > STRIP {
            grid.tile_rows = (grid.tile_rows / 2).next_multiple_of(12);
        } else {
            grid.tile_cols = (grid.tile_cols / 2).next_multiple_of(32);
        }
    }
    compute.pool.tiles(out, grid, parallel, task);
}

/// The right operand of a product, which fills panels of its columns.
pub(super) trait Panels<E: Accumulator> {
    /// Fills panels of `width` columns each with columns `first..first + count`, depths `start..start + depth`.
    fn pack<S: Simd<E>>(
        &self,
        s: S,
        columns: (usize, usize),
        part: (usize, usize),
        width: usize,
        out: &mut [E],
    );
}

/// A matrix `[depth, columns]`.
struct Matrix<'v, T> {
    /// Its rows, where they are dense.
    lines: Option<Lines<'v, T>>,
    /// Its columns.
    turned: View<'v, T>,
}

impl<'v, T: Real> Matrix<'v, T> {
    /// `None` when the view has not two axes.
    fn new(b: View<'v, T>) -> Option<Matrix<'v, T>> {
        Some(Matrix {
            turned: b.swap(0, 1)?,
            lines: Lines::new(b),
        })
    }
}

impl<T: Real> Panels<T::Acc> for Matrix<'_, T> {
    #[inline(always)]
    fn pack<S: Simd<T::Acc>>(
        &self,
        s: S,
        columns: (usize, usize),
        part: (usize, usize),
        width: usize,
        out: &mut [T::Acc],
    ) {
        match &self.lines {
            Some(lines) => pack_columns(s, lines, columns, part, width, out),
            None => pack_transposed(s, &self.turned, columns, part, width, out),
        }
    }
}

/// What gives its columns piece by piece.
pub(super) struct ByColumn<C>(pub(super) C);

impl<E: Accumulator, C: Pieces<E>> Panels<E> for ByColumn<C> {
    #[inline(always)]
    fn pack<S: Simd<E>>(
        &self,
        s: S,
        columns: (usize, usize),
        part: (usize, usize),
        width: usize,
        out: &mut [E],
    ) {
        pack_transposed(s, &self.0, columns, part, width, out);
    }
}

struct Block<'t, 'v, T, B> {
    a: &'t View<'v, T>,
    b: &'t B,
    depth: usize,
    tile: Tile<'t, T>,
}

impl<T: Real, B: Panels<T::Acc>> Op<T::Acc> for Block<'_, '_, T, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(mut self, s: S) {
        let (rows, cols) = (self.tile.rows, self.tile.cols);
        let (high, wide) = (S::TILE_ROWS, 2 * S::LANES);
        let (all_rows, all_cols) = (rows.next_multiple_of(high), cols.next_multiple_of(wide));
        let depth = self.depth;
        let most = depth.min(DEPTH);
        let strip = STRIP.min(all_rows);
        let len = all_rows * all_cols + strip * most + all_cols * most;
        let mut scratch = T::Acc::scratch(len);
        let (sums, scratch) = scratch.split_at_mut(all_rows * all_cols);
        let (left, right) = scratch.split_at_mut(strip * most);
        sums.fill(T::Acc::ZERO);
        for start in (0..depth).step_by(DEPTH) {
            let part = (start, DEPTH.min(depth - start));
            let right = &mut right[..all_cols * part.1];
            let range = (self.tile.col, cols);
            self.b.pack(s, range, part, wide, right);
            for row in (0..all_rows).step_by(strip) {
                let taken = strip.min(all_rows - row);
                let left = &mut left[..taken * part.1];
                let range = (self.tile.row + row, taken.min(rows.saturating_sub(row)));
                pack_transposed(s, self.a, range, part, high, left);
                for (i, a) in left.chunks_exact(high * part.1).enumerate() {
                    let sums = &mut sums[(row + i * high) * all_cols..];
                    for (j, b) in right.chunks_exact(wide * part.1).enumerate() {
                        tile(s, a, b, &mut sums[j * wide..], all_cols);
                    }
                }
            }
        }
        for (i, sums) in sums.chunks_exact(all_cols).take(rows).enumerate() {
            narrow(&sums[..cols], self.tile.row(i));
        }
    }
}
