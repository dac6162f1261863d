//! Products of query rows in digits with rows of codes: a lane is a row.

use super::{Form, KEYS, Tile, number};
use crate::arch::x86_64::{ByteOp, Vnni};
use crate::attention::visibility::SPAN;
use crate::simd::Simd;

/// Products of at most [`ROWS`] query rows with tiles.
pub(super) struct Scores<'a> {
    pub(super) queries: &'a [u8],
    pub(super) factors: &'a [f32],
    pub(super) tiles: &'a [Tile<'a>],
    pub(super) form: Form,
    pub(super) out: &'a mut [f32],
}

impl Scores<'_> {
    pub(super) fn dispatch<const PARTS: usize, const D: usize>(self, v: Vnni) {
        match self.factors.len() {
            1 => v.apart(SomeScores::<PARTS, 1, D>(self)),
            2 => v.apart(SomeScores::<PARTS, 2, D>(self)),
            3 => v.apart(SomeScores::<PARTS, 3, D>(self)),
            4 => v.apart(SomeScores::<PARTS, 4, D>(self)),
            5 => v.apart(SomeScores::<PARTS, 5, D>(self)),
            6 => v.apart(SomeScores::<PARTS, 6, D>(self)),
            7 => v.apart(SomeScores::<PARTS, 7, D>(self)),
            _ => v.apart(SomeScores::<PARTS, 8, D>(self)),
        }
    }
}

/// [`Scores`] of `R` query rows of `D` digits with `PARTS` codes a byte.
struct SomeScores<'a, const PARTS: usize, const R: usize, const D: usize>(Scores<'a>);

impl<const PARTS: usize, const R: usize, const D: usize> ByteOp for SomeScores<'_, PARTS, R, D> {
    #[inline(always)]
    fn run(self, v: Vnni) {
        let Scores {
            queries,
            factors,
            tiles,
            form,
            out,
        } = self.0;
        let s = v.numbers();
        let (digits, sums) = queries.split_at(queries.len() - R * D * 4);
        let flip = v.splat_byte(form.flip);
        // What the codes are too large by, times the digits.
        let mut first = [[0i32; D]; R];
        for (i, first) in first.iter_mut().enumerate() {
            for (j, first) in first.iter_mut().enumerate() {
                let at = (i * D + j) * 4;
                let sum = i32::from_ne_bytes([sums[at], sums[at + 1], sums[at + 2], sums[at + 3]]);
                *first = -i32::from(form.above) * sum;
            }
        }
        for (n, tile) in tiles.iter().enumerate() {
            let width = tile.rows.len() / KEYS;
            let next = tiles.get(n + 1).map_or(&[][..], |next| next.rows);
            let mut acc = [[v.splat(0); D]; R];
            for (acc, first) in acc.iter_mut().zip(&first) {
                for (acc, first) in acc.iter_mut().zip(first) {
                    *acc = v.splat(*first);
                }
            }
            let each = 4 * PARTS * R * D * 4;
            for (at, digits) in (0..width).step_by(16).zip(digits.chunks_exact(each)) {
                // A little at a time: what is asked for at once waits in line.
                s.prefetch(
                    tile.ahead
                        .get(at * KEYS..(at + 16) * KEYS)
                        .unwrap_or_default(),
                );
                v.fetch(next.get(at * KEYS..(at + 16) * KEYS).unwrap_or_default());
                let four = v.sixteen_rows(tile.rows, width, at);
                for (e, four) in four.into_iter().enumerate() {
                    let four = v.xor(four, flip);
                    for part in 0..PARTS {
                        let codes = v.part::<PARTS>(four, part);
                        let digits = &digits[(e * PARTS + part) * R * D * 4..][..R * D * 4];
                        for i in 0..R {
                            for j in 0..D {
                                let digit = v.splat_four(&digits[(i * D + j) * 4..]);
                                acc[i][j] = v.dot(acc[i][j], codes, digit);
                            }
                        }
                    }
                }
            }
            for i in 0..R {
                let x = s.mul(number(v, acc[i]), s.splat(factors[i]));
                let out = &mut out[i * SPAN + tile.place..];
                if tile.count == KEYS {
                    s.store(x, out);
                } else {
                    let mut all = [0.0; KEYS];
                    s.store(x, &mut all);
                    out[..tile.count].copy_from_slice(&all[..tile.count]);
                }
            }
        }
    }
}
