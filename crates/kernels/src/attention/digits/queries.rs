//! Query rows in digits.

use super::scores::Scores;
use super::{DIGITS, Form, KEYS, ROWS, SHORT_QUERY, Tiles, find, fits};
use crate::Isa;
use crate::arch::x86_64::{ByteOp, Vnni};
use crate::attention::few::Run;
use crate::attention::paged::QueryPrecision;
use crate::attention::visibility::SPAN;
use crate::scratch::{Lent, Scratch};
use crate::simd::Simd;
use refeed_values::DType;

/// What the largest number of a query row becomes: digits with a sign, the first of them at most 127.
pub(super) const fn largest_of(digits: usize) -> f32 {
    match digits {
        SHORT_QUERY => 127.0,
        _ => 8_300_000.0,
    }
}
/// How much larger than the mean of its row a query's number may be.
const WIDEST: f32 = 8.0;

/// Query rows of some heads in digits.
pub(in crate::attention) struct DigitQueries {
    vnni: Vnni,
    /// Digits of a number.
    digits: usize,
    /// For blocks of at most [`ROWS`] rows of a head: for each four bytes and part of them, for each row, the digits of four
    /// numbers; then the sums of the digits.
    bytes: Lent<u8>,
    /// What the product of each row is multiplied by; NaN where the rows of a head are not in digits.
    factors: Lent<f32>,
    /// Sum of the numbers of each row, as its digits have them.
    sums: Lent<f32>,
    /// Rows of a head.
    line: usize,
    /// Numbers of a row.
    size: usize,
}

impl DigitQueries {
    /// Rows in the order of parts, `size` numbers each, `line` rows for each of `heads` heads; those of a head begin `each`
    /// numbers after those of the one before. `None`: codes of such rows are not multiplied as bytes here.
    pub(in crate::attention) fn of(
        isa: Isa,
        rows: &[f32],
        each: usize,
        [heads, line, size]: [usize; 3],
        parts: usize,
        precision: QueryPrecision,
    ) -> Option<DigitQueries> {
        let vnni = isa.bytes()?;
        if !size.is_multiple_of(parts) || !fits(size / parts) {
            return None;
        }
        let mut factors = f32::scratch(heads * line);
        let mut sums = f32::scratch(heads * line);
        let digits = match precision {
            QueryPrecision::Full => DIGITS,
            QueryPrecision::Int8 => SHORT_QUERY,
        };
        let mut bytes = u8::scratch(heads * line * digits * (size + 4));
        let split = Split {
            rows,
            each,
            shape: [heads, line, size],
            parts,
            bytes: &mut bytes,
            factors: &mut factors,
            sums: &mut sums,
        };
        match digits {
            SHORT_QUERY => vnni.apart(SplitInto::<SHORT_QUERY>(split)),
            _ => vnni.apart(SplitInto::<DIGITS>(split)),
        }
        Some(DigitQueries {
            vnni,
            digits,
            bytes,
            factors,
            sums,
            line,
            size,
        })
    }

    /// Sums of the rows of a head. What a zero point takes off a product must be of these: the numbers themselves have another sum.
    pub(in crate::attention) fn sums(&self, head: usize) -> &[f32] {
        &self.sums[head * self.line..][..self.line]
    }

    /// Products of the query rows of head `own` with the codes of head `head` of some runs: that of
    /// query row `i` and row `j` goes to `out[i * SPAN + j]`. False: the rows are not in digits, and nothing was done.
    pub(in crate::attention) fn scores(
        &self,
        own: usize,
        storage: DType,
        rows: (&[Run<'_, u8>], usize),
        out: &mut [f32],
    ) -> bool {
        let factors = &self.factors[own * self.line..][..self.line];
        if factors.iter().any(|factor| factor.is_nan()) {
            return false;
        }
        let each = self.line * self.digits * (self.size + 4);
        let mut bytes = &self.bytes[own * each..][..each];
        // Rows that fill no tile are filled up with zeros: equal keys have equal scores, wherever they lie.
        let (runs, head) = rows;
        let whole = KEYS * self.size * storage.bits() / 8;
        let open = || runs.iter().filter(|run| run.tokens % KEYS != 0);
        let mut rest = u8::scratch(open().count() * whole);
        for (run, rest) in open().zip(rest.chunks_exact_mut(whole)) {
            let rows = run.head(head);
            let rows = &rows[rows.len() / whole * whole..];
            let (own, zeros) = rest.split_at_mut(rows.len());
            own.copy_from_slice(rows);
            zeros.fill(0);
        }
        let mut tiles = Tiles::new();
        find(&mut tiles, rows, rest.chunks_exact(whole));
        for (block, factors) in factors.chunks(ROWS).enumerate() {
            let (own, rest) = bytes.split_at(factors.len() * self.digits * (self.size + 4));
            bytes = rest;
            let scores = Scores {
                queries: own,
                factors,
                tiles: &tiles,
                form: Form::of(storage),
                out: &mut out[block * ROWS * SPAN..],
            };
            match (storage.bits(), self.digits) {
                (8, SHORT_QUERY) => scores.dispatch::<1, SHORT_QUERY>(self.vnni),
                (4, SHORT_QUERY) => scores.dispatch::<2, SHORT_QUERY>(self.vnni),
                (_, SHORT_QUERY) => scores.dispatch::<4, SHORT_QUERY>(self.vnni),
                (8, _) => scores.dispatch::<1, DIGITS>(self.vnni),
                (4, _) => scores.dispatch::<2, DIGITS>(self.vnni),
                (_, _) => scores.dispatch::<4, DIGITS>(self.vnni),
            }
        }
        true
    }
}

/// Writes query rows in digits; see [`DigitQueries`].
struct Split<'a> {
    rows: &'a [f32],
    each: usize,
    shape: [usize; 3],
    parts: usize,
    bytes: &'a mut [u8],
    factors: &'a mut [f32],
    sums: &'a mut [f32],
}

/// The same with `D` digits.
struct SplitInto<'a, const D: usize>(Split<'a>);

impl<const D: usize> ByteOp for SplitInto<'_, D> {
    #[inline(always)]
    fn run(self, v: Vnni) {
        let SplitInto(split) = self;
        let s = v.numbers();
        let [heads, line, size] = split.shape;
        let mut bytes = split.bytes;
        for head in 0..heads {
            let rows = &split.rows[head * split.each..][..line * size];
            let factors = split.factors[head * line..][..line].chunks_mut(ROWS);
            let row_sums = split.sums[head * line..][..line].chunks_mut(ROWS);
            let blocks = rows.chunks(ROWS * size).zip(factors).zip(row_sums);
            for ((rows, factors), row_sums) in blocks {
                let count = factors.len();
                let (block, rest) = bytes.split_at_mut(count * D * (size + 4));
                bytes = rest;
                let (digits, sums) = block.split_at_mut(count * D * size);
                for (i, row) in rows.chunks_exact(size).enumerate() {
                    let mut largest = s.splat(0.0);
                    let mut sum = s.splat(0.0);
                    for x in row.chunks_exact(16) {
                        let x = s.load(x);
                        let x = s.max(x, s.sub(s.splat(0.0), x));
                        largest = s.max(largest, x);
                        sum = s.add(sum, x);
                    }
                    let (largest, mean) = (s.largest(largest), s.sum(sum) / size as f32);
                    let by = match largest > 0.0 {
                        true => largest_of(D) / largest,
                        false => 0.0,
                    };
                    let told = largest <= WIDEST * mean && largest.is_finite() && by.is_finite();
                    factors[i] = if told {
                        largest / largest_of(D)
                    } else {
                        f32::NAN
                    };
                    let mut totals = [v.splat(0); D];
                    for (n, x) in row.chunks_exact(16).enumerate() {
                        let (piece, part) = (n / split.parts, n % split.parts);
                        let mut x = v.nearest(s.mul(s.load(x), s.splat(by)));
                        for (j, total) in totals.iter_mut().enumerate() {
                            let digit = v.signed_byte(x);
                            x = v.drop_byte(v.less(x, digit));
                            *total = v.plus(*total, digit);
                            for (e, four) in v.low_bytes(digit).chunks_exact(4).enumerate() {
                                let step = (piece * 4 + e) * split.parts + part;
                                let at = ((step * count + i) * D + j) * 4;
                                digits[at..at + 4].copy_from_slice(four);
                            }
                        }
                    }
                    let mut all = 0.0;
                    for (j, total) in totals.into_iter().enumerate().rev() {
                        let (total, at) = (v.sum(total), (i * D + j) * 4);
                        sums[at..at + 4].copy_from_slice(&total.to_ne_bytes());
                        all = all * 256.0 + f64::from(total);
                    }
                    row_sums[i] = (all * f64::from(factors[i])) as f32;
                }
            }
        }
    }
}
