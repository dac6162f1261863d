//! Products with many rows: tiles of both operands are packed and multiplied in registers.
//!
//! A task owns a tile of the result. For each stretch of the depth it packs its columns of the right operand (which then
//! stay in the second cache), then strip by strip its rows of the left one, and multiplies panel by panel. Sums are kept
//! in the accumulator's type until the whole depth is done.

use super::Operands;
use super::micro::{DEPTH, Lines, narrow, pack_columns, pack_transposed, tile};
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
    compute.pool.tiles(out, grid, parallel, |tile| {
        let (a, b) = operands.pair(tile.batch);
        T::Acc::dispatch(compute.isa, Block { a: &a, b: &b, tile });
    });
}

struct Block<'t, 'v, T> {
    a: &'t View<'v, T>,
    b: &'t View<'v, T>,
    tile: Tile<'t, T>,
}

impl<T: Real> Op<T::Acc> for Block<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(mut self, s: S) {
        let (rows, cols) = (self.tile.rows, self.tile.cols);
        let (high, wide) = (S::TILE_ROWS, 2 * S::LANES);
        let (all_rows, all_cols) = (rows.next_multiple_of(high), cols.next_multiple_of(wide));
        let depth = self.b.shape()[0];
        let most = depth.min(DEPTH);
        let strip = STRIP.min(all_rows);
        let columns = Lines::new(self.b.clone());
        let Some(turned) = self.b.swap(0, 1) else {
            return; // a matrix has two axes
        };
        let len = all_rows * all_cols + strip * most + all_cols * most;
        let mut scratch = T::Acc::scratch(len);
        let (sums, scratch) = scratch.split_at_mut(all_rows * all_cols);
        let (left, right) = scratch.split_at_mut(strip * most);
        sums.fill(T::Acc::ZERO);
        for start in (0..depth).step_by(DEPTH) {
            let part = (start, DEPTH.min(depth - start));
            let right = &mut right[..all_cols * part.1];
            let range = (self.tile.col, cols);
            match &columns {
                Some(lines) => pack_columns(s, lines, range, part, wide, right),
                None => pack_transposed(s, &turned, range, part, wide, right),
            }
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
