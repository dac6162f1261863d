use super::super::cells::{Codes2, Codes4, Codes8, Numbers, arrange, arranged_len};
use super::*;
use crate::Isa;
use crate::simd::Op;
use half::{bf16, f16};

/// Numbers from a fixed start.
struct Dice(u64);

impl Dice {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (self.0 >> 40) as u8
    }
    fn real(&mut self) -> f32 {
        f32::from(self.byte()) / 64.0 - 2.0
    }
}

/// What the codes of a byte stand for, from the definition of the types.
fn codes(byte: u8, parts: usize, signed: bool) -> Vec<f32> {
    let bits = 8 / parts;
    (0..parts)
        .map(|part| {
            let code = i32::from(byte) >> (bits * part) & ((1 << bits) - 1);
            let negative = signed && code >> (bits - 1) == 1;
            (code - if negative { 1 << bits } else { 0 }) as f32
        })
        .collect()
}

/// Scores and values of a strip at once, on whatever instruction set.
struct Both<'a, C: Cells> {
    queries: &'a [Vec<f32>],
    rows: Run<'a, C::Unit>,
    by: By<'a>,
}

impl<C: Cells> Op<f32> for Both<'_, C> {
    type Output = (Vec<Vec<f32>>, Vec<Vec<f32>>);

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) -> Self::Output {
        let width = self.rows.width * C::PARTS;
        let count = filled_up(self.queries.len());
        let stride = arranged_len::<S>(width, C::PARTS);
        let mut arranged = vec![0.0; count * stride];
        for (query, out) in self.queries.iter().zip(arranged.chunks_mut(stride.max(1))) {
            arrange::<S>(query, C::PARTS, out);
        }
        let count = self.queries.len();
        let mut out = vec![f32::NAN; count * SPAN];
        scores::<C, S>(s, (&arranged, stride, count), self.rows, &mut out);
        let mut sums = vec![0.5; count * stride];
        values::<C, S>(s, (&out, count), self.rows, self.by, (&mut sums, stride));
        let part = |all: &[f32], stride: usize, len: usize| -> Vec<Vec<f32>> {
            (0..self.queries.len())
                .map(|i| all[i * stride..][..len].to_vec())
                .collect()
        };
        let tokens = self.rows.tokens;
        (part(&out, SPAN, tokens), part(&sums, stride, width))
    }
}

fn factor(by: By<'_>, column: usize) -> f64 {
    match by {
        By::One => 1.0,
        By::All(by) => f64::from(by),
        By::Columns(by) => f64::from(by[column]),
    }
}

fn close(got: &[Vec<f32>], expected: &[Vec<f64>], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got.len(), expected.len(), "{what}");
        for (got, expected) in got.iter().zip(expected) {
            let near = (f64::from(*got) - expected).abs() <= 2e-5 * expected.abs().max(1.0);
            assert!(near, "{what}: {got} is not {expected}");
        }
    }
}

/// Every instruction set, query count and length against the sums written out.
fn check<C: Cells>(
    name: &str,
    mut unit: impl FnMut(&mut Dice) -> C::Unit,
    number: impl Fn(C::Unit) -> Vec<f32>,
) {
    let mut dice = Dice(11);
    for (queries, tokens, units, gap) in [
        (1, 1, 1, 0),
        (1, 17, 16, 3),
        (2, 9, 33, 0),
        (3, 64, 5, 1),
        (4, 16, 32, 0),
        (5, 3, 40, 2),
        (7, 21, 64, 0),
        (8, 64, 24, 0),
        (13, 30, 48, 0),
    ] {
        let drawn: Vec<C::Unit> = (0..tokens * (units + gap))
            .map(|_| unit(&mut dice))
            .collect();
        let rows = drawn.chunks(units + gap);
        let memory: Vec<C::Unit> = rows.flat_map(|row| &row[..units]).copied().collect();
        let run = Run::new(&memory, [1, tokens, units]);
        let rows: Vec<Vec<f64>> = (0..tokens)
            .map(|t| {
                let row = &memory[t * units..][..units];
                row.iter()
                    .flat_map(|unit| number(*unit))
                    .map(f64::from)
                    .collect()
            })
            .collect();
        let width = units * C::PARTS;
        let asked: Vec<Vec<f32>> = (0..queries)
            .map(|_| (0..width).map(|_| dice.real() / 8.0).collect())
            .collect();
        let mut by: Vec<f32> = (0..width).map(|_| dice.real()).collect();
        by.resize(width.next_multiple_of(64), 0.0);
        let products: Vec<Vec<f64>> = asked
            .iter()
            .map(|query| {
                let dot =
                    |row: &Vec<f64>| query.iter().zip(row).map(|(a, b)| f64::from(*a) * b).sum();
                rows.iter().map(dot).collect()
            })
            .collect();
        for by in [By::One, By::All(-1.5), By::Columns(&by)] {
            let sums: Vec<Vec<f64>> = products
                .iter()
                .map(|weights| {
                    (0..width)
                        .map(|d| {
                            let sum: f64 =
                                weights.iter().zip(&rows).map(|(w, row)| w * row[d]).sum();
                            0.5 + sum * factor(by, d)
                        })
                        .collect()
                })
                .collect();
            for isa in Isa::available() {
                let both = Both::<C> {
                    queries: &asked,
                    rows: run,
                    by,
                };
                let (got, summed) = isa.run_f32(both);
                let what = format!("{name} on {isa}, {queries} queries, {tokens} rows of {units}");
                close(&got, &products, &what);
                close(&summed, &sums, &what);
            }
        }
    }
}

#[test]
fn numbers_of_every_type() {
    check::<Numbers<f32>>("FLOAT", Dice::real, |x| vec![x]);
    check::<Numbers<f16>>(
        "FLOAT16",
        |dice| f16::from_f32(dice.real()),
        |x| vec![x.to_f32()],
    );
    check::<Numbers<bf16>>(
        "BFLOAT16",
        |dice| bf16::from_f32(dice.real()),
        |x| vec![x.to_f32()],
    );
}

#[test]
fn codes_of_every_width_with_and_without_sign() {
    check::<Codes8<true>>("INT8", Dice::byte, |x| codes(x, 1, true));
    check::<Codes8<false>>("UINT8", Dice::byte, |x| codes(x, 1, false));
    check::<Codes4<true>>("INT4", Dice::byte, |x| codes(x, 2, true));
    check::<Codes4<false>>("UINT4", Dice::byte, |x| codes(x, 2, false));
    check::<Codes2<true>>("INT2", Dice::byte, |x| codes(x, 4, true));
    check::<Codes2<false>>("UINT2", Dice::byte, |x| codes(x, 4, false));
}
