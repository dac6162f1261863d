//! Products with few rows on the left: every byte of the weights is read once and multiplied in registers.
//!
//! A register of bytes gives the even and the odd elements of 4-bit codes apart (for 2-bit codes, four sets), so the
//! rows on the left are laid out in that order once for the whole product, and with them the sums of their blocks.

use super::codes::{decode, with_codes};
use super::{Layout, Weights, Zeros};
use crate::Compute;
use crate::attention::cells::{Cells, Codes2, Codes4, Codes8, arrange, load_part};
use crate::matmul::micro::dots;
use crate::pool::{Grid, Tile};
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};

/// Up to this many rows are few.
pub(super) const FEW: usize = 8;

/// Columns of a tile.
const WIDE: usize = 256;

/// Columns whose scales are made ready together.
const TOGETHER: usize = 4;

/// Elements of a register of bytes are a divisor of this for every number of bits and every instruction set.
const WHOLE: usize = 64;

/// The rows on the left, made ready. Rows are `width` apart, sums of blocks `blocks`.
struct Rows<'a> {
    values: &'a [f32],
    sums: &'a [f32],
    width: usize,
    blocks: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn values(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.width..][..self.width]
    }
    #[inline(always)]
    fn sums(&self, row: usize) -> &'a [f32] {
        &self.sums[row * self.blocks..][..self.blocks]
    }
}

pub(super) fn multiply(compute: &Compute<'_>, a: &[f32], weights: &Weights<'_>, out: &mut [f32]) {
    let Layout { k, n, .. } = weights.layout;
    let m = a.len() / k;
    // Block and register are powers of two, so the width is a multiple of both. Blocks that fill the last register of
    // bytes have a sum and a scale of 0.
    let block = weights.layout.block;
    let width = k.next_multiple_of(block).next_multiple_of(WHOLE);
    let blocks = width / block;
    let mut values = f32::scratch(m * width);
    let mut sums = f32::scratch(m * blocks);
    let ready = MakeReady {
        a,
        layout: weights.layout,
        values: &mut values,
        sums: &mut sums,
        width,
        blocks,
    };
    compute.isa.run_f32(ready);
    let rows = Rows {
        values: &values,
        sums: &sums,
        width,
        blocks,
    };
    let share = n
        .div_ceil(2 * compute.pool.threads())
        .next_multiple_of(TOGETHER);
    let grid = Grid {
        batch: 1,
        rows: m,
        cols: n,
        tile_rows: m,
        tile_cols: share.clamp(TOGETHER, WIDE),
    };
    let parallel = compute.parallel(m.saturating_mul(n).saturating_mul(k));
    compute.pool.tiles(out, grid, parallel, |tile| {
        let op = Columns {
            rows: &rows,
            weights,
            tile,
        };
        compute.isa.run_f32(op);
    });
}

/// Lays the rows out in the order in which codes come up, and sums their blocks.
struct MakeReady<'t> {
    a: &'t [f32],
    layout: Layout,
    values: &'t mut [f32],
    sums: &'t mut [f32],
    width: usize,
    blocks: usize,
}

impl Op<f32> for MakeReady<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, _: S) {
        let (k, block) = (self.layout.k, self.layout.block);
        let parts = 8 / self.layout.bits;
        let values = self.values.chunks_exact_mut(self.width);
        let sums = self.sums.chunks_exact_mut(self.blocks);
        for (line, (values, sums)) in self.a.chunks_exact(k).zip(values.zip(sums)) {
            arrange::<S>(line, parts, values);
            sums.fill(0.0);
            for (block, slot) in line.chunks(block).zip(sums) {
                // Sixteen sums in turn, which the compiler makes a register of.
                let mut lanes = [0f32; 16];
                for part in block.chunks(16) {
                    for (sum, x) in lanes.iter_mut().zip(part) {
                        *sum += *x;
                    }
                }
                *slot = lanes.iter().sum();
            }
        }
    }
}

struct Columns<'t, 'w> {
    rows: &'t Rows<'t>,
    weights: &'t Weights<'w>,
    tile: Tile<'t, f32>,
}

impl Op<f32> for Columns<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        with_codes!(self.weights.layout.bits, C => self.columns::<C, S>(s));
    }
}

impl Columns<'_, '_> {
    #[inline(always)]
    fn columns<C: Cells<Unit = u8>, S: Simd<f32>>(mut self, s: S) {
        let blocks = self.rows.blocks;
        let mut scales = f32::scratch(TOGETHER * blocks);
        let mut zeros = f32::scratch(TOGETHER * blocks);
        for at in (0..self.tile.cols).step_by(TOGETHER) {
            let taken = TOGETHER.min(self.tile.cols - at);
            for i in 0..taken {
                let column = self.tile.col + at + i;
                let scales = &mut scales[i * blocks..][..blocks];
                let zeros = &mut zeros[i * blocks..][..blocks];
                self.scales::<C, S>(s, column, scales, zeros);
            }
            let prepared = Prepared {
                column: self.tile.col + at,
                scales: &scales,
                zeros: &zeros,
            };
            let mut row = 0;
            while row < self.tile.rows {
                let left = self.tile.rows - row;
                // As many sums as registers allow: rows by columns.
                let step = match left {
                    4.. => 4,
                    2..4 => 2,
                    _ => 1,
                };
                let mut i = 0;
                while i < taken {
                    let wide = taken - i;
                    let col = at + i;
                    i += match (step, wide) {
                        (4, _) => self.some::<C, S, 4, 1>(s, &prepared, row, i, col),
                        (2, 2..) => self.some::<C, S, 2, 2>(s, &prepared, row, i, col),
                        (2, _) => self.some::<C, S, 2, 1>(s, &prepared, row, i, col),
                        (_, 4..) => self.some::<C, S, 1, 4>(s, &prepared, row, i, col),
                        _ => self.some::<C, S, 1, 1>(s, &prepared, row, i, col),
                    };
                }
                row += step;
            }
        }
    }

    /// The scales of a column, and with them multiplied the zero points; 0 past the last block.
    #[inline(always)]
    fn scales<C: Cells<Unit = u8>, S: Simd<f32>>(
        &self,
        s: S,
        column: usize,
        scales: &mut [f32],
        zeros: &mut [f32],
    ) {
        let layout = self.weights.layout;
        let held = layout.blocks;
        self.weights.scales.read(column * held, &mut scales[..held]);
        let codes = &mut zeros[..held];
        match self.weights.zeros {
            Zeros::Middle => codes.fill(layout.middle()),
            Zeros::Codes(bytes) => {
                let bytes = &bytes[column * layout.zero_bytes()..][..layout.zero_bytes()];
                decode::<C, S>(s, bytes, codes);
            }
            Zeros::Numbers(numbers) => numbers.read(column * held, codes),
        }
        scales[held..].fill(0.0);
        zeros[held..].fill(0.0);
        for (zero, scale) in zeros.iter_mut().zip(scales) {
            *zero *= *scale;
        }
    }

    /// `M` rows by `N` columns; gives `N`.
    #[inline(always)]
    fn some<C: Cells<Unit = u8>, S: Simd<f32>, const M: usize, const N: usize>(
        &mut self,
        s: S,
        prepared: &Prepared<'_>,
        row: usize,
        i: usize,
        col: usize,
    ) -> usize {
        let (rows, blocks) = (self.rows, self.rows.blocks);
        let mut values = [&[][..]; M];
        let mut sums = [&[][..]; M];
        for r in 0..M {
            values[r] = rows.values(row + r);
            sums[r] = rows.sums(row + r);
        }
        let mut codes = [&[][..]; N];
        let mut scales = [&[][..]; N];
        let mut zeros = [&[][..]; N];
        for c in 0..N {
            codes[c] = self.weights.column(prepared.column + i + c);
            scales[c] = &prepared.scales[(i + c) * blocks..][..blocks];
            zeros[c] = &prepared.zeros[(i + c) * blocks..][..blocks];
        }
        let products = products::<C, S, M, N>(s, values, codes, scales, self.weights.layout.block);
        let taken = dots::<f32, S, M, N>(s, sums, zeros);
        for r in 0..M {
            let out = self.tile.row(row + r);
            for c in 0..N {
                out[col + c] = products[r][c] - taken[r][c];
            }
        }
        N
    }
}

/// Scales of a few columns from `column` on, and what they make of the zero points.
struct Prepared<'a> {
    column: usize,
    scales: &'a [f32],
    zeros: &'a [f32],
}

/// The sums of codes times inputs times scales.
#[inline(always)]
fn products<C: Cells<Unit = u8>, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    rows: [&[f32]; M],
    codes: [&[u8]; N],
    scales: [&[f32]; N],
    block: usize,
) -> [[f32; N]; M] {
    let lanes = S::LANES;
    let chunk = C::PARTS * lanes;
    let bytes = codes[0].len();
    let mut acc = [[s.splat(0.0); N]; M];
    if block >= chunk {
        let registers = block / chunk;
        let mut at = 0;
        let blocks = bytes / (registers * lanes);
        for b in 0..blocks {
            let mut sums = first::<C, S, M, N>(s, rows, codes, at);
            at += 1;
            for _ in 1..registers {
                sums = more::<C, S, M, N>(s, rows, codes, at, sums);
                at += 1;
            }
            for (c, scales) in scales.iter().enumerate() {
                let scale = s.splat(scales[b]);
                for r in 0..M {
                    acc[r][c] = s.fma(sums[r][c], scale, acc[r][c]);
                }
            }
        }
    } else {
        // A register of bytes holds several blocks: a lane stands for elements of one of them.
        let (shared, own) = (chunk / block, block / C::PARTS);
        for at in 0..bytes.div_ceil(lanes) {
            let sums = if (at + 1) * lanes <= bytes {
                first::<C, S, M, N>(s, rows, codes, at)
            } else {
                last::<C, S, M, N>(s, rows, codes, at)
            };
            for c in 0..N {
                let mut spread = [0.0; 16];
                let scales = &scales[c][at * shared..][..shared];
                for (lanes, scale) in spread[..lanes].chunks_exact_mut(own).zip(scales) {
                    lanes.fill(*scale);
                }
                let scale = s.load(&spread);
                for r in 0..M {
                    acc[r][c] = s.fma(sums[r][c], scale, acc[r][c]);
                }
            }
        }
    }
    let mut out = [[0.0; N]; M];
    for r in 0..M {
        for c in 0..N {
            out[r][c] = s.sum(acc[r][c]);
        }
    }
    out
}

/// The products of register `at` of each column, lane by lane.
#[inline(always)]
fn first<C: Cells<Unit = u8>, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    rows: [&[f32]; M],
    codes: [&[u8]; N],
    at: usize,
) -> [[S::V; N]; M] {
    let mut sums = [[s.splat(0.0); N]; M];
    for (c, codes) in codes.iter().enumerate() {
        let held = C::load(s, &codes[at * S::LANES..]);
        product::<C, S, M, N, true>(s, rows, held, at, c, &mut sums);
    }
    sums
}

/// As [`first`], of a register that the column does not fill.
#[inline(always)]
fn last<C: Cells<Unit = u8>, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    rows: [&[f32]; M],
    codes: [&[u8]; N],
    at: usize,
) -> [[S::V; N]; M] {
    let mut sums = [[s.splat(0.0); N]; M];
    for (c, codes) in codes.iter().enumerate() {
        let held = load_part::<C, S>(s, &codes[at * S::LANES..]);
        product::<C, S, M, N, true>(s, rows, held, at, c, &mut sums);
    }
    sums
}

/// The products of register `at` of each column, added to sums.
#[inline(always)]
fn more<C: Cells<Unit = u8>, S: Simd<f32>, const M: usize, const N: usize>(
    s: S,
    rows: [&[f32]; M],
    codes: [&[u8]; N],
    at: usize,
    mut sums: [[S::V; N]; M],
) -> [[S::V; N]; M] {
    for (c, codes) in codes.iter().enumerate() {
        let held = C::load(s, &codes[at * S::LANES..]);
        product::<C, S, M, N, false>(s, rows, held, at, c, &mut sums);
    }
    sums
}

/// The products of a register of column `c`, added to the sums or, when they are the `FIRST`, in their place.
#[inline(always)]
fn product<C: Cells<Unit = u8>, S: Simd<f32>, const M: usize, const N: usize, const FIRST: bool>(
    s: S,
    rows: [&[f32]; M],
    held: C::Held<S>,
    at: usize,
    c: usize,
    sums: &mut [[S::V; N]; M],
) {
    let start = at * C::PARTS * S::LANES;
    for part in 0..C::PARTS {
        let number = C::part(s, held, part);
        for (row, sums) in rows.iter().zip(&mut *sums) {
            let x = s.load(&row[start + part * S::LANES..]);
            sums[c] = match FIRST && part == 0 {
                true => s.mul(x, number),
                false => s.fma(x, number, sums[c]),
            };
        }
    }
}
