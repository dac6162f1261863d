//! Values, weighted: a lane is a column.

use super::{DIGITS, Form, KEYS, ROWS, SHORT_WEIGHT, Tile, Tiles, find, fits, number};
use crate::Isa;
use crate::arch::x86_64::{ByteOp, Vnni};
use crate::attention::cells::{Codes2, Codes4, Codes8, in_order};
use crate::attention::few::Run;
use crate::attention::paged::QueryPrecision;
use crate::attention::rows::By;
use crate::attention::visibility::{SPAN, TILE};
use crate::scratch::Scratch;
use crate::simd::Simd;
use refeed_values::DType;

/// Tiles whose values are added together.
const TOGETHER: usize = TILE / KEYS;
/// What the largest weight becomes: digits without a sign.
pub(super) const fn heaviest_of(digits: usize) -> f32 {
    match digits {
        SHORT_WEIGHT => 65_535.0,
        _ => 16_777_000.0,
    }
}
/// Weights below this are raised before they are written in digits.
const FAINT: f32 = 1e-18;
/// By how much; a power of two, so that nothing is rounded.
const RAISE: f32 = 18_446_744_073_709_551_616.0;

/// Codes of one storage type whose rows are multiplied as bytes.
#[derive(Clone, Copy)]
pub(in crate::attention) struct ByteRows {
    vnni: Vnni,
    storage: DType,
    /// Digits of a weight.
    digits: usize,
}

impl ByteRows {
    /// `None`: there are no products of bytes.
    pub(in crate::attention) fn of(
        isa: Isa,
        storage: DType,
        precision: QueryPrecision,
    ) -> Option<ByteRows> {
        isa.bytes().map(|vnni| ByteRows {
            vnni,
            storage,
            digits: match precision {
                QueryPrecision::Full => DIGITS,
                QueryPrecision::Int8 => SHORT_WEIGHT,
            },
        })
    }

    /// Adds the values of a head, as far as they are whole tiles, weighted, to the sums of `line` query rows, `stride` apart. Query
    /// row `i` weighs row `j` by `weights[i * SPAN + j]`; what is added is first multiplied by `by`. False: such rows are not
    /// multiplied here, and nothing was done.
    pub(in crate::attention) fn add(
        self,
        (runs, head): (&[Run<'_, u8>], usize),
        weights: (&[f32], usize),
        by: By<'_>,
        sums: (&mut [f32], usize),
    ) -> bool {
        if !runs.first().is_some_and(|run| fits(run.width)) {
            return false;
        }
        let mut tiles = Tiles::new();
        find(&mut tiles, (runs, head), std::iter::empty());
        let tiles = &tiles;
        match (self.storage.bits(), self.digits) {
            (8, SHORT_WEIGHT) => self.add_parts::<1, SHORT_WEIGHT>(tiles, weights, by, sums),
            (4, SHORT_WEIGHT) => self.add_parts::<2, SHORT_WEIGHT>(tiles, weights, by, sums),
            (_, SHORT_WEIGHT) => self.add_parts::<4, SHORT_WEIGHT>(tiles, weights, by, sums),
            (8, _) => self.add_parts::<1, DIGITS>(tiles, weights, by, sums),
            (4, _) => self.add_parts::<2, DIGITS>(tiles, weights, by, sums),
            (_, _) => self.add_parts::<4, DIGITS>(tiles, weights, by, sums),
        }
        true
    }

    fn add_parts<const PARTS: usize, const D: usize>(
        self,
        tiles: &[Tile<'_>],
        (weights, line): (&[f32], usize),
        by: By<'_>,
        (sums, stride): (&mut [f32], usize),
    ) {
        let width = tiles.first().map_or(0, |tile| tile.rows.len() / KEYS);
        let numbers = width * PARTS;
        let mut codes = u8::scratch(TILE * numbers);
        let mut products = f32::scratch(ROWS * numbers);
        let (form, missing) = Form::signed(self.storage);
        for tiles in tiles.chunks(TOGETHER) {
            self.vnni.apart(SideBySide::<PARTS> {
                tiles,
                form,
                codes: &mut codes,
            });
            for first in (0..line).step_by(ROWS) {
                let values = Values {
                    codes: &codes,
                    tiles,
                    numbers,
                    weights: &weights[first * SPAN..],
                    missing,
                    by,
                    products: &mut products,
                    sums: &mut sums[first * stride..],
                    stride,
                };
                values.dispatch::<PARTS, D>(self.vnni, line - first);
            }
        }
    }
}

/// Writes the codes of some tiles as bytes with a sign, those of four rows side by side: register `n` of rows `4 * g..` goes to
/// place `g * registers + n`, of which there are as many as a row's numbers fill.
struct SideBySide<'a, const PARTS: usize> {
    tiles: &'a [Tile<'a>],
    form: Form,
    codes: &'a mut [u8],
}

impl<const PARTS: usize> ByteOp for SideBySide<'_, PARTS> {
    #[inline(always)]
    fn run(self, v: Vnni) {
        let (flip, above) = (v.splat_byte(self.form.flip), v.splat_byte(self.form.above));
        let mut slots = self.codes.chunks_exact_mut(64 * PARTS);
        for (n, tile) in self.tiles.iter().enumerate() {
            let next = self.tiles.get(n + 1).map_or(&[][..], |next| next.rows);
            let width = tile.rows.len() / KEYS;
            let four = 4 * width;
            for (at, rows) in (0..KEYS * width)
                .step_by(four)
                .zip(tile.rows.chunks_exact(four))
            {
                let later = tile.ahead.get(at..at + four).unwrap_or_default();
                v.numbers().prefetch(later);
                v.fetch(next.get(at..at + four).unwrap_or_default());
                for at in (0..width).step_by(64) {
                    let four = v.four_rows(rows, width, at);
                    for bytes in four.into_iter().take((width - at) / 16) {
                        let bytes = v.xor(bytes, flip);
                        let Some(slot) = slots.next() else {
                            return; // there is one for each
                        };
                        for part in 0..PARTS {
                            let mut codes = v.part::<PARTS>(bytes, part);
                            if PARTS > 1 {
                                codes = v.minus(codes, above);
                            }
                            v.store(codes, &mut slot[part * 64..]);
                        }
                    }
                }
            }
        }
    }
}

/// Values to be added to the sums of at most [`ROWS`] query rows.
struct Values<'a> {
    /// See [`SideBySide`].
    codes: &'a [u8],
    tiles: &'a [Tile<'a>],
    /// Numbers of a row.
    numbers: usize,
    weights: &'a [f32],
    /// What is to be added to each code.
    missing: i32,
    by: By<'a>,
    products: &'a mut [f32],
    sums: &'a mut [f32],
    stride: usize,
}

impl Values<'_> {
    /// Half of the register file holds sums.
    fn dispatch<const PARTS: usize, const D: usize>(self, v: Vnni, rows: usize) {
        match rows {
            1 => v.apart(SomeValues::<PARTS, 1, 4, D>(self)),
            2 => v.apart(SomeValues::<PARTS, 2, 4, D>(self)),
            3 => v.apart(SomeValues::<PARTS, 3, 2, D>(self)),
            4 => v.apart(SomeValues::<PARTS, 4, 2, D>(self)),
            5 => v.apart(SomeValues::<PARTS, 5, 1, D>(self)),
            6 => v.apart(SomeValues::<PARTS, 6, 1, D>(self)),
            7 => v.apart(SomeValues::<PARTS, 7, 1, D>(self)),
            _ => v.apart(SomeValues::<PARTS, 8, 1, D>(self)),
        }
    }
}

/// [`Values`] for `R` query rows, `W` registers of columns at a time.
struct SomeValues<'a, const PARTS: usize, const R: usize, const W: usize, const D: usize>(
    Values<'a>,
);

impl<const PARTS: usize, const R: usize, const W: usize, const D: usize> ByteOp
    for SomeValues<'_, PARTS, R, W, D>
{
    #[inline(always)]
    fn run(self, v: Vnni) {
        let Values {
            codes,
            tiles,
            numbers,
            weights,
            missing,
            by,
            products,
            sums,
            stride,
        } = self.0;
        let s = v.numbers();
        // Digits of the weights, row by row and digit by digit.
        let mut digits = [[[0u8; TILE]; D]; R];
        // What is missing in the codes, times the digits.
        let mut first = [[0i32; D]; R];
        let mut factors = [[0f32; 2]; R];
        for i in 0..R {
            let weights = &weights[i * SPAN..];
            let mut heaviest = s.splat(0.0);
            for tile in tiles {
                heaviest = s.max(s.load(&weights[tile.place..]), heaviest);
            }
            // Weights may be as small as a FLOAT can be; neither the share nor its inverse may leave what a FLOAT can be.
            let heaviest = s.largest(heaviest);
            let raised = if heaviest < FAINT { RAISE } else { 1.0 };
            let share = match heaviest > 0.0 {
                true => heaviest_of(D) / (heaviest * raised),
                false => 0.0,
            };
            factors[i] = [heaviest * raised / heaviest_of(D), 1.0 / raised];
            for (n, tile) in tiles.iter().enumerate().take(TOGETHER) {
                let x = s.mul(s.load(&weights[tile.place..]), s.splat(raised));
                let mut x = v.nearest(s.mul(x, s.splat(share)));
                for digits in &mut digits[i] {
                    digits[n * KEYS..][..KEYS].copy_from_slice(&v.low_bytes(x));
                    x = v.drop_byte(x);
                }
            }
            if missing != 0 {
                for (digits, first) in digits[i].iter().zip(&mut first[i]) {
                    *first = missing * digits.iter().map(|x| i32::from(*x)).sum::<i32>();
                }
            }
        }

        let registers = numbers / 16;
        let groups = tiles.len().min(TOGETHER) * KEYS / 4;
        let mut at = 0;
        while at + W <= registers {
            products_of::<R, W, D>(
                v,
                (codes, registers, groups),
                at,
                (&digits, &first),
                (&mut *products, numbers),
            );
            at += W;
        }
        while at < registers {
            products_of::<R, 1, D>(
                v,
                (codes, registers, groups),
                at,
                (&digits, &first),
                (&mut *products, numbers),
            );
            at += 1;
        }

        for i in 0..R {
            let products = &products[i * numbers..][..numbers];
            let sums = &mut sums[i * stride..][..numbers];
            let [factor, lower] = factors[i];
            let places = products
                .chunks_exact(16 * PARTS)
                .zip(sums.chunks_exact_mut(16 * PARTS));
            for (piece, (products, sums)) in places.enumerate() {
                let mut x = [s.splat(0.0); 4];
                for (part, x) in x.iter_mut().enumerate().take(PARTS) {
                    *x = s.load(&products[part * 16..]);
                }
                let x = match PARTS {
                    1 => in_order::<Codes8<false>, _>(s, x),
                    2 => in_order::<Codes4<false>, _>(s, x),
                    _ => in_order::<Codes2<false>, _>(s, x),
                };
                for (part, x) in x.into_iter().enumerate().take(PARTS) {
                    let mut x = s.mul(x, s.splat(factor));
                    if lower < 1.0 {
                        x = s.mul(x, s.splat(lower));
                    }
                    let sums = &mut sums[part * 16..];
                    let sum = s.load(sums);
                    let sum = match by {
                        By::One => s.add(x, sum),
                        By::All(by) => s.fma(x, s.splat(by), sum),
                        By::Columns(by) => {
                            let by = s.load(&by[(piece * PARTS + part) * 16..]);
                            s.fma(x, by, sum)
                        }
                    };
                    s.store(sum, sums);
                }
            }
        }
    }
}

/// `first` and the products of the digits of `R` rows of weights with `W` registers of columns from register `at` on.
#[inline(always)]
fn products_of<const R: usize, const W: usize, const D: usize>(
    v: Vnni,
    (codes, registers, groups): (&[u8], usize, usize),
    at: usize,
    (digits, first): (&[[[u8; TILE]; D]; R], &[[i32; D]; R]),
    (out, numbers): (&mut [f32], usize),
) {
    let s = v.numbers();
    let mut acc = [[[v.splat(0); D]; W]; R];
    for (acc, first) in acc.iter_mut().zip(first) {
        for acc in acc {
            for (acc, first) in acc.iter_mut().zip(first) {
                *acc = v.splat(*first);
            }
        }
    }
    let codes = &codes[..groups * registers * 64];
    for (g, codes) in codes
        .chunks_exact(registers * 64)
        .enumerate()
        .take(TILE / 4)
    {
        let codes = &codes[at * 64..][..W * 64];
        let mut held = [v.splat(0); W];
        for (w, held) in held.iter_mut().enumerate() {
            *held = v.load(&codes[w * 64..]);
        }
        for i in 0..R {
            for j in 0..D {
                let digit = v.splat_four(&digits[i][j][g * 4..]);
                for w in 0..W {
                    acc[i][w][j] = v.dot(acc[i][w][j], digit, held[w]);
                }
            }
        }
    }
    for i in 0..R {
        for w in 0..W {
            s.store(
                number(v, acc[i][w]),
                &mut out[i * numbers + (at + w) * 16..],
            );
        }
    }
}
