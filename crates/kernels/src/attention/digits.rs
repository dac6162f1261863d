//! Rows of codes multiplied as the bytes that they are (AVX-512 VNNI), sixteen at a time.
//!
//! A dot product of bytes takes a quarter of the instructions that one of FLOAT does, and codes need not be turned into
//! numbers for it. The other factor, a query or the weights of values, is written with three digits of eight bits: 24
//! bits beside the largest number of the row, as many as a FLOAT has. Products and sums of digits are exact; what the
//! digits leave out of a number is at most `2^-23` of the largest one of its row (queries), `2^-24` of the largest of 64
//! weights: what sums of FLOAT round off. Query rows whose largest number is far from the others are left to the loops over
//! numbers.
//!
//! With [`QueryPrecision::Int8`](super::paged::QueryPrecision::Int8) a query has one digit and a weight two.

mod queries;
mod scores;
#[cfg(test)]
mod tests;
mod values;

pub(super) use queries::DigitQueries;
pub(super) use values::ByteRows;

use super::few::Run;
use super::visibility::SPAN;
use crate::arch::x86_64::{Avx512, Bytes, Vnni};
use crate::simd::Simd;
use refeed_values::DType;
use smallvec::SmallVec;

/// Rows of a tile.
pub(super) const KEYS: usize = 16;
/// Query rows that are worked on together.
const ROWS: usize = 8;
/// Digits of a number that is written as exactly as FLOAT, query or weight.
const DIGITS: usize = 3;
/// Digits of a query of eight bits, and of the weights beside it.
const SHORT_QUERY: usize = 1;
const SHORT_WEIGHT: usize = 2;

/// Sixteen rows of codes.
#[derive(Clone, Copy)]
struct Tile<'r> {
    rows: &'r [u8],
    /// How many of them are meant.
    count: usize,
    /// Place of the first one among all rows.
    place: usize,
    /// What is read later and lies elsewhere.
    ahead: &'r [u8],
}

/// The tiles of all rows of a head.
type Tiles<'r> = SmallVec<[Tile<'r>; SPAN / KEYS]>;

/// Whether rows of `width` bytes can be multiplied here.
fn fits(width: usize) -> bool {
    width.is_multiple_of(16) && (16..=2048).contains(&width)
}

/// Finds the tiles of the rows of a head. What is left of a run is less than a tile, and lies in the next one of `rest`, if
/// there is one.
fn find<'r>(
    tiles: &mut Tiles<'r>,
    (runs, head): (&[Run<'r, u8>], usize),
    mut rest: impl Iterator<Item = &'r [u8]>,
) {
    let mut first = 0;
    for run in runs {
        let each = KEYS * run.width;
        let ahead = match run.later(head) {
            [] => run.next(head),
            later => later,
        };
        for (n, rows) in run.head(head).chunks_exact(each).enumerate() {
            tiles.push(Tile {
                rows,
                count: KEYS,
                place: first + n * KEYS,
                ahead: ahead.get(n * each..(n + 1) * each).unwrap_or_default(),
            });
        }
        let left = run.tokens % KEYS;
        if left > 0
            && let Some(rows) = rest.next()
        {
            tiles.push(Tile {
                rows,
                count: left,
                place: first + run.tokens - left,
                ahead: &[],
            });
        }
        first += run.tokens;
    }
}

/// How codes lie in bytes: `code = ((byte ^ flip) >> bits * part & mask) - above`.
#[derive(Clone, Copy)]
struct Form {
    flip: u8,
    above: u8,
}

impl Form {
    fn of(storage: DType) -> Form {
        let (flip, above) = match storage {
            DType::Int8 => (0x80, 0x80),
            DType::Int4 => (0x88, 8),
            DType::Int2 => (0xAA, 2),
            _ => (0, 0),
        };
        Form { flip, above }
    }

    /// The same for bytes with a sign, and what is missing in them then.
    fn signed(storage: DType) -> (Form, i32) {
        let form = |flip, above| Form { flip, above };
        match storage {
            DType::Int8 => (form(0, 0), 0),
            DType::Uint8 => (form(0x80, 0), 128),
            _ => (Form::of(storage), 0),
        }
    }
}

/// The sums of `D` digits as a number.
#[inline(always)]
fn number<const D: usize>(v: Vnni, digits: [Bytes; D]) -> <Avx512 as Simd<f32>>::V {
    let s = v.numbers();
    let mut x = v.to_numbers(digits[D - 1]);
    for digit in digits.into_iter().rev().skip(1) {
        x = s.fma(x, s.splat(256.0), v.to_numbers(digit));
    }
    x
}
