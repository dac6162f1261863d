use super::queries::largest_of;
use super::values::heaviest_of;
use super::*;
use crate::Isa;
use crate::attention::cells::{Cells, Codes2, Codes4, Codes8, arrange};
use crate::attention::paged::QueryPrecision;
use crate::attention::rows::By;
use crate::attention::visibility::TILE;

const STORAGE: [DType; 6] = [
    DType::Int8,
    DType::Uint8,
    DType::Int4,
    DType::Uint4,
    DType::Int2,
    DType::Uint2,
];

const FULL: QueryPrecision = QueryPrecision::Full;

struct Dice(u64);

impl Dice {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (self.0 >> 40) as u8
    }
    fn real(&mut self) -> f32 {
        (f32::from(self.byte()) + f32::from(self.byte()) / 256.0) / 64.0 - 2.0
    }
}

/// The instruction set with products of bytes, where this machine has it.
fn isa() -> Option<Isa> {
    Isa::available().find(|isa| isa.bytes().is_some())
}

/// Code `column` of a row, from the definition of the types.
fn code(row: &[u8], column: usize, storage: DType) -> f64 {
    let bits = storage.bits();
    let parts = 8 / bits;
    let code = i32::from(row[column / parts]) >> (bits * (column % parts)) & ((1 << bits) - 1);
    let signed = matches!(storage, DType::Int8 | DType::Int4 | DType::Int2);
    f64::from(code - i32::from(signed && code >> (bits - 1) == 1) * (1 << bits))
}

fn digits_of(
    isa: Isa,
    queries: &[Vec<f32>],
    storage: DType,
    precision: QueryPrecision,
) -> Option<DigitQueries> {
    let (size, parts) = (queries[0].len(), 8 / storage.bits());
    let mut rows = vec![0.0; queries.len() * size];
    for (row, slot) in queries.iter().zip(rows.chunks_exact_mut(size)) {
        // In the order of sixteen lanes, whatever the instruction set.
        let s = isa.bytes()?.numbers();
        match parts {
            1 => arranged::<Codes8<false>, _>(s, row, slot),
            2 => arranged::<Codes4<false>, _>(s, row, slot),
            _ => arranged::<Codes2<false>, _>(s, row, slot),
        }
    }
    let shape = [1, queries.len(), size];
    DigitQueries::of(isa, &rows, rows.len(), shape, parts, precision)
}

fn arranged<C: Cells, S: Simd<f32>>(_: S, row: &[f32], out: &mut [f32]) {
    arrange::<S>(row, C::PARTS, out);
}

/// Both products stay within what three digits leave out, beside sums in f64.
#[test]
fn digits_leave_out_no_more_than_they_say() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let mut dice = Dice(7);
    let cases = [
        (16, 1, 16),
        (16, 5, 31),
        (32, 4, 64),
        (48, 3, 130),
        (64, 7, 80),
        (80, 2, 512),
        (112, 6, 200),
        (128, 8, 16),
        (128, 9, 96),
        (192, 16, 49),
        (256, 12, 64),
    ];
    let precisions = [(FULL, 3, 3), (QueryPrecision::Int8, 1, 2)];
    for (storage, (precision, of_query, of_weight)) in STORAGE
        .into_iter()
        .flat_map(|storage| precisions.map(|precision| (storage, precision)))
    {
        for (width, line, tokens) in cases {
            let size = width * 8 / storage.bits();
            let queries: Vec<Vec<f32>> = (0..line)
                .map(|_| (0..size).map(|_| dice.real()).collect())
                .collect();
            let rows: Vec<u8> = (0..tokens * width).map(|_| dice.byte()).collect();
            // Two runs of several heads, of which the second one is looked at.
            let first = tokens / 2 / KEYS * KEYS;
            let other = vec![0xA5; first.max(tokens - first) * width];
            let part = |from: usize, to: usize| -> Vec<u8> {
                let own = &rows[from * width..to * width];
                [&other[..own.len()], own].concat()
            };
            let (low, high) = (part(0, first), part(first, tokens));
            let runs = [
                Run::new(&low, [2, first, width]),
                Run::new(&high, [2, tokens - first, width]),
            ];
            let whole = first + (tokens - first) / KEYS * KEYS; // values that fill tiles
            let what = format!("{storage:?} {precision:?} {width} {line} {tokens}");

            let digits = digits_of(isa, &queries, storage, precision).unwrap();
            let mut out = vec![f32::NAN; line * SPAN];
            assert!(
                digits.scores(0, storage, (&runs, 1), &mut out),
                "{what}: scores"
            );
            for (i, query) in queries.iter().enumerate() {
                let largest = query.iter().fold(0f32, |m, x| m.max(x.abs()));
                let step = f64::from(largest) / f64::from(largest_of(of_query));
                for t in 0..tokens {
                    let row = &rows[t * width..][..width];
                    let code = |d| code(row, d, storage);
                    let right: f64 = (0..size).map(|d| f64::from(query[d]) * code(d)).sum();
                    let all: f64 = (0..size).map(|d| code(d).abs()).sum();
                    let bound = 0.51 * step * all + right.abs() * 3e-7 + 1e-9;
                    let got = f64::from(out[i * SPAN + t]);
                    assert!(
                        (got - right).abs() <= bound,
                        "{what}: {got} {right} {bound}"
                    );
                }
                let rest = &out[i * SPAN..][tokens..SPAN];
                assert!(rest.iter().all(|x| x.is_nan()), "{what}: behind the rows");
            }

            let weights: Vec<f32> = (0..line * SPAN)
                .map(|_| f32::from(dice.byte()) * f32::from(dice.byte()) / 65_536.0)
                .collect();
            let columns: Vec<f32> = (0..size).map(|_| dice.real()).collect();
            for by in [By::One, By::All(-0.25), By::Columns(&columns)] {
                let rows_of = ByteRows::of(isa, storage, precision).unwrap();
                let stride = size.next_multiple_of(16) + 16;
                let mut sums = vec![0.5; line * stride];
                assert!(rows_of.add((&runs, 1), (&weights, line), by, (&mut sums, stride)));
                for (i, weights) in weights.chunks_exact(SPAN).enumerate() {
                    for d in 0..size {
                        let factor = match by {
                            By::One => 1.0,
                            By::All(by) => f64::from(by),
                            By::Columns(by) => f64::from(by[d]),
                        };
                        let (mut right, mut bound) = (0.0, 1e-6);
                        for block in (0..whole).collect::<Vec<_>>().chunks(TILE) {
                            let heaviest = block.iter().map(|t| weights[*t]).fold(0f32, f32::max);
                            for t in block {
                                let weight = f64::from(weights[*t]);
                                let code = code(&rows[t * width..], d, storage);
                                right += weight * code;
                                bound += 0.51
                                    * f64::from(heaviest / heaviest_of(of_weight))
                                    * code.abs();
                                bound += weight * code.abs() * 3e-7;
                            }
                        }
                        let got = f64::from(sums[i * stride + d]);
                        let right = 0.5 + right * factor;
                        let bound = bound * factor.abs() + right.abs() * 3e-7;
                        assert!(
                            (got - right).abs() <= bound,
                            "{what}: {got} {right} {bound}"
                        );
                    }
                    let behind = &sums[i * stride + size..(i + 1) * stride];
                    assert!(behind.iter().all(|x| *x == 0.5), "{what}: behind a row");
                }
            }
        }
    }
}

/// Exact numbers: small whole ones need no rounding at all.
#[test]
fn whole_numbers_are_exact() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let queries = [vec![1.0; 64], vec![-1.0; 64]];
    let digits = digits_of(isa, &queries, DType::Int8, FULL).unwrap();
    let rows: Vec<u8> = (0..KEYS).flat_map(|t| [0x80 + t as u8; 64]).collect();
    let runs = [Run::new(&rows, [1, KEYS, 64])];
    let mut out = vec![0.0; 2 * SPAN];
    assert!(digits.scores(0, DType::Int8, (&runs, 0), &mut out));
    for t in 0..KEYS {
        let right = 64.0 * (t as f32 - 128.0);
        assert!((out[t] - right).abs() <= 1e-3, "{} {right}", out[t]);
        assert_eq!(out[SPAN + t], -out[t]);
    }
    let mut sums = vec![0.0; 64];
    let mut weights = vec![0.0; SPAN];
    weights[3] = 1.0;
    let rows = ByteRows::of(isa, DType::Int8, FULL).unwrap();
    assert!(rows.add((&runs, 0), (&weights, 1), By::One, (&mut sums, 64)));
    assert!(sums.iter().all(|x| (x + 125.0).abs() < 1e-4), "{sums:?}");
}

/// A row whose largest number hides the others, or that is not finite, is left to the loops over numbers.
#[test]
fn rows_that_digits_do_not_suit_are_declined() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let rows = vec![1; KEYS * 128];
    let runs = [Run::new(&rows, [1, KEYS, 128])];
    let mut wide = vec![1.0; 128];
    wide[5] = 1e4;
    let tiny = vec![1e-40; 128];
    let endless = vec![f32::INFINITY; 128];
    let unknown = vec![f32::NAN; 128];
    for row in [wide, tiny, endless, unknown] {
        let queries = [vec![1.0; 128], row];
        let digits = digits_of(isa, &queries, DType::Uint8, FULL).unwrap();
        let mut out = vec![7.0; 2 * SPAN];
        assert!(!digits.scores(0, DType::Uint8, (&runs, 0), &mut out));
        assert!(out.iter().all(|x| *x == 7.0));
    }
    // One number among 127 ones is eight times the mean of all at 8.47.
    for (largest, suits) in [(8.4, true), (8.6, false)] {
        let mut row = vec![1.0; 128];
        row[77] = largest;
        let digits = digits_of(isa, &[row], DType::Uint8, FULL).unwrap();
        let done = digits.scores(0, DType::Uint8, (&runs, 0), &mut [0.0; SPAN]);
        assert_eq!(done, suits, "{largest}");
    }
    let queries = [vec![0.0; 128]];
    let digits = digits_of(isa, &queries, DType::Uint8, FULL).unwrap();
    let mut out = vec![7.0; SPAN];
    assert!(digits.scores(0, DType::Uint8, (&runs, 0), &mut out));
    assert!(out[..KEYS].iter().all(|x| *x == 0.0));
    // Rows that do not fill registers have no digits.
    assert!(digits_of(isa, &[vec![1.0; 24]], DType::Uint8, FULL).is_none());
    let narrow = vec![1; KEYS * 24];
    let runs = [Run::new(&narrow, [1, KEYS, 24])];
    let rows = ByteRows::of(isa, DType::Uint8, FULL).unwrap();
    let mut sums = vec![0.5; 32];
    assert!(!rows.add((&runs, 0), (&[1.0; SPAN], 1), By::One, (&mut sums, 32)));
    assert!(sums.iter().all(|x| *x == 0.5));
}

/// Codes of zeros give zeros, small codes small errors: nothing cancels that was added before.
#[test]
fn unsigned_values_near_zero_are_as_exact_as_others() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let rows_of = ByteRows::of(isa, DType::Uint8, FULL).unwrap();
    let weights: Vec<f32> = (0..SPAN).map(|t| 1.0 / (1.0 + t as f32)).collect();
    for most in [0, 1, 3] {
        let rows: Vec<u8> = (0..64 * 16).map(|i| (i * 7 % 5).min(most) as u8).collect();
        let runs = [Run::new(&rows, [1, 64, 16])];
        let mut sums = vec![0.0; 16];
        assert!(rows_of.add((&runs, 0), (&weights, 1), By::One, (&mut sums, 16)));
        for (d, sum) in sums.iter().enumerate() {
            let value = |t: usize| f64::from(rows[t * 16 + d]) * f64::from(weights[t]);
            let right: f64 = (0..64).map(value).sum();
            assert!(
                (f64::from(*sum) - right).abs() <= 3e-7 * right,
                "{sum} {right}"
            );
        }
    }
}

/// Weights and scales as small as FLOATs are lose nothing that products of FLOAT would keep.
#[test]
fn faint_weights_and_scales_are_kept() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let rows_of = ByteRows::of(isa, DType::Int8, FULL).unwrap();
    let rows = vec![100; 32 * 16];
    let runs = [Run::new(&rows, [1, 32, 16])];
    for (weight, by) in [
        (1e-37f32, 1e37f32),
        (1e-30, 1e30),
        (1e-18, 1e18),
        (0.9e-18, 1e18),
        (1.0, 1e-38),
        (1.0, 1e-36),
        (1e30, 1e-30),
    ] {
        let weights = vec![weight; SPAN];
        let mut sums = vec![0.0; 16];
        assert!(rows_of.add((&runs, 0), (&weights, 1), By::All(by), (&mut sums, 16)));
        let right = 3200.0 * f64::from(weight) * f64::from(by);
        for sum in &sums {
            let error = (f64::from(*sum) - right).abs() / right;
            assert!(error <= 1e-6, "{weight} {by}: {sum} {right}");
        }
    }
}

/// Equal keys have equal scores, also those behind the last whole tile.
#[test]
fn equal_keys_have_equal_scores() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let mut dice = Dice(3);
    let queries: Vec<Vec<f32>> = (0..3)
        .map(|_| (0..64).map(|_| dice.real()).collect())
        .collect();
    let key: Vec<u8> = (0..64).map(|_| dice.byte()).collect();
    let rows = key.repeat(41);
    let runs = [
        Run::new(&rows[..17 * 64], [1, 17, 64]),
        Run::new(&rows[17 * 64..], [1, 24, 64]),
    ];
    let digits = digits_of(isa, &queries, DType::Int8, FULL).unwrap();
    let mut out = vec![f32::NAN; 3 * SPAN];
    assert!(digits.scores(0, DType::Int8, (&runs, 0), &mut out));
    for scores in out.chunks_exact(SPAN) {
        assert!(scores[0].is_finite() && scores[..41].iter().all(|x| *x == scores[0]));
    }
}

/// Codes that are their zero point stand for 0, and so does their product with numbers that digits change: what is taken off is
/// made of the same digits.
#[test]
fn zero_points_meet_the_same_digits() {
    let Some(isa) = isa() else {
        return; // the machine has no products of bytes
    };
    let mut query = vec![0.7f32; 64];
    query[5] = 1.0;
    let rows = vec![100; KEYS * 64];
    let runs = [Run::new(&rows, [1, KEYS, 64])];
    for precision in [FULL, QueryPrecision::Int8] {
        let digits = digits_of(isa, &[query.clone()], DType::Uint8, precision).unwrap();
        let mut out = vec![0.0; SPAN];
        assert!(digits.scores(0, DType::Uint8, (&runs, 0), &mut out));
        let left = out[0] - 100.0 * digits.sums(0)[0];
        assert!(left.abs() <= 2e-3, "{precision:?}: {left}");
    }
}
