//! Query rows in digits.

use super::scores::Scores;
use super::{DIGITS, Form, KEYS, ROWS, Tiles, find, fits};
use crate::Isa;
use crate::arch::x86_64::{ByteOp, Vnni};
use crate::attention::few::Run;
use crate::attention::visibility::SPAN;
use crate::scratch::{Lent, Scratch};
use crate::simd::Simd;
use refeed_values::DType;

/// What the largest number of a query row becomes: three digits with a sign, the first of them at most 127.
pub(super) const LARGEST: f32 = 8_300_000.0;
/// How much larger than the mean of its row a query's number may be.
const WIDEST: f32 = 8.0;

/// Query rows of some heads in digits.
pub(in crate::attention) struct DigitQueries {
    vnni: Vnni,
    /// For blocks of at most [`ROWS`] rows of a head: for each four bytes and part of them, for each row, three digits of four
    /// numbers; then the sums of the digits.
    bytes: Lent<u8>,
    /// What the product of each row is multiplied by; NaN where the rows of a head are not in digits.
    factors: Lent<f32>,
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
    ) -> Option<DigitQueries> {
        let vnni = isa.bytes()?;
        if !size.is_multiple_of(parts) || !fits(size / parts) {
            return None;
        }
        let mut factors = f32::scratch(heads * line);
        let mut bytes = u8::scratch(heads * line * DIGITS * (size + 4));
        vnni.apart(Split {
            rows,
            each,
            shape: [heads, line, size],
            parts,
            bytes: &mut bytes,
            factors: &mut factors,
        });
        Some(DigitQueries {
            vnni,
            bytes,
            factors,
            line,
            size,
        })
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
        let each = self.line * DIGITS * (self.size + 4);
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
            let (own, rest) = bytes.split_at(factors.len() * DIGITS * (self.size + 4));
            bytes = rest;
            let scores = Scores {
                queries: own,
                factors,
                tiles: &tiles,
                form: Form::of(storage),
                out: &mut out[block * ROWS * SPAN..],
            };
            match storage.bits() {
                8 => scores.dispatch::<1>(self.vnni),
                4 => scores.dispatch::<2>(self.vnni),
                _ => scores.dispatch::<4>(self.vnni),
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
}

impl ByteOp for Split<'_> {
    #[inline(always)]
    fn run(self, v: Vnni) {
        let s = v.numbers();
        let [heads, line, size] = self.shape;
        let mut bytes = self.bytes;
        for head in 0..heads {
            let rows = &self.rows[head * self.each..][..line * size];
            let factors = &mut self.factors[head * line..][..line];
            for (rows, factors) in rows.chunks(ROWS * size).zip(factors.chunks_mut(ROWS)) {
                let count = factors.len();
                let (block, rest) = bytes.split_at_mut(count * DIGITS * (size + 4));
                bytes = rest;
                let (digits, sums) = block.split_at_mut(count * DIGITS * size);
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
                        true => LARGEST / largest,
                        false => 0.0,
                    };
                    let told = largest <= WIDEST * mean && largest.is_finite() && by.is_finite();
                    factors[i] = if told { largest / LARGEST } else { f32::NAN };
                    let mut totals = [v.splat(0); DIGITS];
                    for (n, x) in row.chunks_exact(16).enumerate() {
                        let (piece, part) = (n / self.parts, n % self.parts);
                        let mut x = v.nearest(s.mul(s.load(x), s.splat(by)));
                        for (j, total) in totals.iter_mut().enumerate() {
                            let digit = v.signed_byte(x);
                            x = v.drop_byte(v.less(x, digit));
                            *total = v.plus(*total, digit);
                            for (e, four) in v.low_bytes(digit).chunks_exact(4).enumerate() {
                                let step = (piece * 4 + e) * self.parts + part;
                                let at = ((step * count + i) * DIGITS + j) * 4;
                                digits[at..at + 4].copy_from_slice(four);
                            }
                        }
                    }
                    for (j, total) in totals.into_iter().enumerate() {
                        let at = (i * DIGITS + j) * 4;
                        sums[at..at + 4].copy_from_slice(&v.sum(total).to_ne_bytes());
                    }
                }
            }
        }
    }
}
