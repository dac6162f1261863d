//! Products of integer matrices; sums wrap around, as two's complement hardware does.

use super::{MatMulElement, Operands};
use crate::Compute;
use crate::pool::Grid;

/// Integers that wrap around.
pub(super) trait Wrapping: MatMulElement {
    /// `self + a * b`
    fn add_product(self, a: Self, b: Self) -> Self;
}

macro_rules! wrapping {
    ($($t:ty),*) => {
        $(impl Wrapping for $t {
            #[inline(always)]
            fn add_product(self, a: $t, b: $t) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
        })*
    };
}
wrapping!(i32, i64, u32, u64);

pub(super) fn multiply<T: Wrapping>(
    compute: &Compute<'_>,
    operands: &Operands<'_, T>,
    out: &mut [T],
) {
    let Operands { batch, m, k, n, .. } = *operands;
    let grid = Grid {
        batch,
        rows: m,
        cols: n,
        tile_rows: 16,
        tile_cols: 512,
    };
    let parallel = compute.parallel(batch * m * n * k);
    compute.pool.tiles(out, grid, parallel, |mut tile| {
        let (a, b) = operands.pair(tile.batch);
        for i in 0..tile.rows {
            let (first, row) = (tile.col, tile.row + i);
            let out = tile.row(i);
            out.fill(T::default());
            for d in 0..k {
                let (Some(x), Some(line)) = (a.get(&[row, d]), b.lane(&[d])) else {
                    continue; // both indices are in range
                };
                match line.as_slice() {
                    Some(dense) => {
                        for (slot, y) in out.iter_mut().zip(&dense[first..]) {
                            *slot = slot.add_product(x, *y);
                        }
                    }
                    None => {
                        for (slot, y) in out.iter_mut().zip(line.iter().skip(first)) {
                            *slot = slot.add_product(x, y);
                        }
                    }
                }
            }
        }
    });
}
