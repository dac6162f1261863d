//! The computations over rows of pages, each compiled once for an instruction set and a kind of rows: the walk calls
//! them through [`crate::Isa`], so that it is not compiled for every kind.

use super::super::cells::{
    Cells, Codes2, Codes4, Codes8, Numbers, arrange, arranged_len, in_order, load_part,
};
use super::super::few::{add_run, score_run};
use super::super::rows::{By, RowRuns, Run, filled_up, scores, values};
use super::super::visibility::SPAN;
use crate::Isa;
use crate::scratch::{Lent, Scratch};
use crate::simd::{Op, Simd};
use crate::storage::Real;
use crate::vecmath::bodies;
use half::{bf16, f16};
use refeed_values::DType;

/// Rows of one kind.
#[derive(Clone, Copy)]
pub(in crate::attention) enum Lists<'r> {
    Float(RowRuns<'r, f32>),
    Float16(RowRuns<'r, f16>),
    Bfloat16(RowRuns<'r, bf16>),
    Codes(DType, RowRuns<'r, u8>),
}

/// Evaluates an expression with the type of the cells that hold codes of a storage type, as `$cells`.
macro_rules! with_codes {
    ($storage:expr, |$cells:ident| $body:expr) => {
        match $storage {
            DType::Int8 => {
                type $cells = Codes8<true>;
                $body
            }
            DType::Uint8 => {
                type $cells = Codes8<false>;
                $body
            }
            DType::Int4 => {
                type $cells = Codes4<true>;
                $body
            }
            DType::Uint4 => {
                type $cells = Codes4<false>;
                $body
            }
            DType::Int2 => {
                type $cells = Codes2<true>;
                $body
            }
            _ => {
                type $cells = Codes2<false>;
                $body
            }
        }
    };
}

/// Scales and zero points of a run of rows.
#[derive(Clone, Copy)]
pub(in crate::attention) enum Scales<'a> {
    /// Numbers as they are.
    Plain,
    /// One of each.
    One(f32, f32),
    /// One of each for every row.
    Rows(&'a [f32], &'a [f32]),
    /// One of each for every column, filled up to whole registers with zeros.
    Columns(&'a [f32], &'a [f32]),
}

/// Query rows in the orders that codes come up in.
pub(in crate::attention) struct Queries {
    count: usize,
    stride: [usize; 3],
    /// For one, two and four codes a byte; empty where no page has them.
    rows: [Option<Lent<f32>>; 3],
    /// As they are, one after another.
    plain: Lent<f32>,
    /// Sum of each row.
    sums: Lent<f32>,
}

/// Which of the three orders.
fn order(parts: usize) -> usize {
    parts.trailing_zeros().min(2) as usize
}

/// Lays query rows out.
pub(in crate::attention) struct Arrange<'a> {
    pub(in crate::attention) queries: &'a [f32],
    pub(in crate::attention) size: usize,
    /// Which orders are needed, by the logarithm of the codes in a byte.
    pub(in crate::attention) needed: [bool; 3],
}

impl Op<f32> for Arrange<'_> {
    type Output = Queries;

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) -> Queries {
        let size = self.size.max(1);
        let count = self.queries.len() / size;
        let memory = filled_up(count);
        let mut sums = f32::scratch(count);
        let ones = s.splat(1.0);
        for (row, slot) in self.queries.chunks_exact(size).zip(sums.iter_mut()) {
            let mut acc = s.splat(0.0);
            let mut chunks = row.chunks_exact(S::LANES);
            for chunk in &mut chunks {
                acc = s.fma(s.load(chunk), ones, acc);
            }
            *slot = s.sum(acc) + chunks.remainder().iter().sum::<f32>();
        }
        let mut stride = [0; 3];
        let mut rows = [None, None, None];
        for (order, needed) in self.needed.into_iter().enumerate() {
            if !needed {
                continue;
            }
            let parts = 1 << order;
            stride[order] = arranged_len::<S>(size, parts);
            let mut all = f32::scratch(memory * stride[order]);
            let (own, rest) = all.split_at_mut(count * stride[order]);
            let slots = own.chunks_exact_mut(stride[order]);
            for (row, slot) in self.queries.chunks_exact(size).zip(slots) {
                arrange::<S>(row, parts, slot);
            }
            rest.fill(0.0);
            rows[order] = Some(all);
        }
        let mut plain = f32::scratch(self.queries.len());
        plain.copy_from_slice(self.queries);
        Queries {
            plain,
            count,
            stride,
            rows,
            sums,
        }
    }
}

/// Scores of all query rows with all rows.
pub(in crate::attention) fn scores_of(
    isa: Isa,
    queries: &Queries,
    lists: Lists<'_>,
    scales: Scales<'_>,
    out: &mut [f32],
) {
    match lists {
        Lists::Float(rows) => isa.run_f32(NumberScores { queries, rows, out }),
        Lists::Float16(rows) => isa.run_f32(NumberScores { queries, rows, out }),
        Lists::Bfloat16(rows) => isa.run_f32(NumberScores { queries, rows, out }),
        Lists::Codes(storage, rows) => with_codes!(storage, |C| isa.run_f32(Scores::<'_, C> {
            queries,
            rows,
            scales,
            out,
        })),
    }
}

/// Scores of all query rows with rows of numbers.
struct NumberScores<'a, T> {
    queries: &'a Queries,
    rows: RowRuns<'a, T>,
    out: &'a mut [f32],
}

impl<T: Real<Acc = f32>> Op<f32> for NumberScores<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let NumberScores { queries, rows, out } = self;
        let size = rows.width;
        let mut first = 0;
        for &(keys, count, soon) in rows.runs {
            score_run(
                s,
                &queries.plain,
                size,
                (keys, count),
                soon,
                &mut out[first..],
            );
            first += count;
        }
        for out in out.chunks_mut(SPAN) {
            out[..first].iter_mut().for_each(|x| *x = checked(*x));
        }
    }
}

struct Scores<'a, C: Cells> {
    queries: &'a Queries,
    rows: RowRuns<'a, C::Unit>,
    scales: Scales<'a>,
    out: &'a mut [f32],
}

impl<C: Cells> Op<f32> for Scores<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let Scores {
            queries,
            rows,
            scales,
            out,
        } = self;
        let order = order(C::PARTS);
        let (count, stride) = (queries.count, queries.stride[order]);
        let tokens = rows.tokens();
        let Some(arranged) = &queries.rows[order] else {
            return; // the orders of all pages were laid out
        };
        if let Scales::Columns(by, zeros) = scales {
            // The scales of columns are factors of the queries.
            let mut own = f32::scratch(arranged.len() + stride + count);
            let (scaled, rest) = own.split_at_mut(arranged.len());
            let (factors, shifts) = rest.split_at_mut(stride);
            let width = rows.width * C::PARTS;
            arrange::<S>(&by[..width], C::PARTS, factors);
            for (from, to) in arranged
                .chunks_exact(stride)
                .zip(scaled.chunks_exact_mut(stride))
            {
                for ((x, by), slot) in from.iter().zip(&*factors).zip(to) {
                    *slot = x * by;
                }
            }
            arrange::<S>(&zeros[..width], C::PARTS, factors);
            for (row, slot) in scaled.chunks_exact(stride).zip(&mut *shifts) {
                *slot = bodies::dot(s, row, factors);
            }
            scores::<C, S>(s, (scaled, stride, count), &rows, out);
            for (i, shift) in shifts.iter().enumerate() {
                for x in &mut out[i * SPAN..][..tokens] {
                    *x = checked(*x - shift);
                }
            }
            return;
        }
        scores::<C, S>(s, (arranged, stride, count), &rows, out);
        for i in 0..count {
            let sum = queries.sums[i];
            let out = &mut out[i * SPAN..][..tokens];
            match scales {
                Scales::One(scale, zero) => {
                    let shift = zero * sum;
                    for x in out {
                        *x = checked((*x - shift) * scale);
                    }
                }
                Scales::Rows(scales, zeros) => {
                    for ((x, scale), zero) in out.iter_mut().zip(scales).zip(zeros) {
                        *x = checked((*x - zero * sum) * scale);
                    }
                }
                Scales::Plain | Scales::Columns(..) => {
                    for x in out {
                        *x = checked(*x);
                    }
                }
            }
        }
    }
}

/// NaN for what is not finite: negative infinity would count as a key without weight.
#[inline(always)]
fn checked(x: f32) -> f32 {
    x + 0.0 * x
}

/// Weights of a run of rows: of query `i` and row `t`, `values[i * SPAN + t]`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct RunWeights<'a> {
    pub(in crate::attention) values: &'a [f32],
    pub(in crate::attention) count: usize,
}

/// Adds all rows, weighted, to the sums.
pub(in crate::attention) fn add_to(
    isa: Isa,
    weights: RunWeights<'_>,
    lists: Lists<'_>,
    scales: Scales<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    let out = (sums, stride);
    match lists {
        Lists::Float(rows) => isa.run_f32(NumberAdd { weights, rows, out }),
        Lists::Float16(rows) => isa.run_f32(NumberAdd { weights, rows, out }),
        Lists::Bfloat16(rows) => isa.run_f32(NumberAdd { weights, rows, out }),
        Lists::Codes(storage, rows) => with_codes!(storage, |C| isa.run_f32(Add::<'_, C> {
            weights,
            rows,
            scales,
            sums: out.0,
            stride,
        })),
    }
}

/// Adds rows of numbers, weighted, to the sums.
struct NumberAdd<'a, T> {
    weights: RunWeights<'a>,
    rows: RowRuns<'a, T>,
    out: (&'a mut [f32], usize),
}

impl<T: Real<Acc = f32>> Op<f32> for NumberAdd<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let (sums, stride) = self.out;
        let mut first = 0;
        for &(values, count, soon) in self.rows.runs {
            let weights = &self.weights.values[first..];
            let sums = (&mut *sums, stride);
            add_run(s, weights, (values, count), self.rows.width, soon, sums);
            first += count;
        }
    }
}

struct Add<'a, C: Cells> {
    weights: RunWeights<'a>,
    rows: RowRuns<'a, C::Unit>,
    scales: Scales<'a>,
    sums: &'a mut [f32],
    stride: usize,
}

impl<C: Cells> Op<f32> for Add<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let Add {
            weights: RunWeights { values: w, count },
            rows,
            scales,
            sums,
            stride,
        } = self;
        let tokens = rows.tokens();
        let row = |i: usize| &w[i * SPAN..][..tokens];
        match scales {
            Scales::Plain => {
                values::<C, S>(s, (w, count), &rows, By::One, (sums, stride));
            }
            Scales::One(scale, zero) => {
                values::<C, S>(s, (w, count), &rows, By::All(scale), (&mut *sums, stride));
                if zero != 0.0 {
                    for i in 0..count {
                        let shift = row(i).iter().sum::<f32>() * scale * zero;
                        sums[i * stride..][..stride]
                            .iter_mut()
                            .for_each(|x| *x -= shift);
                    }
                }
            }
            Scales::Rows(scales, zeros) => {
                let mut own = f32::scratch(count * SPAN);
                for (i, own) in own.chunks_exact_mut(SPAN).enumerate() {
                    for ((w, scale), slot) in row(i).iter().zip(scales).zip(own) {
                        *slot = w * scale;
                    }
                }
                values::<C, S>(s, (&own, count), &rows, By::One, (&mut *sums, stride));
                if zeros.iter().any(|zero| *zero != 0.0) {
                    for (i, own) in own.chunks_exact(SPAN).enumerate() {
                        let shift = own.iter().zip(zeros).map(|(w, zero)| w * zero).sum::<f32>();
                        sums[i * stride..][..stride]
                            .iter_mut()
                            .for_each(|x| *x -= shift);
                    }
                }
            }
            Scales::Columns(by, zeros) => {
                let (by, zeros) = (&by[..stride], &zeros[..stride]);
                let columns = By::Columns(by);
                values::<C, S>(s, (w, count), &rows, columns, (&mut *sums, stride));
                for i in 0..count {
                    let sum = row(i).iter().sum::<f32>();
                    let slots = sums[i * stride..][..stride].iter_mut();
                    for ((x, by), zero) in slots.zip(by).zip(zeros) {
                        *x -= sum * by * zero;
                    }
                }
            }
        }
    }
}

/// Writes all rows as numbers, `stride` apart.
pub(in crate::attention) fn widen_to(
    isa: Isa,
    lists: Lists<'_>,
    scales: Scales<'_>,
    (out, stride): (&mut [f32], usize),
) {
    let out = (out, stride);
    match lists {
        Lists::Float(rows) => isa.run_f32(WidenRows::<'_, Numbers<f32>> { rows, scales, out }),
        Lists::Float16(rows) => isa.run_f32(WidenRows::<'_, Numbers<f16>> { rows, scales, out }),
        Lists::Bfloat16(rows) => isa.run_f32(WidenRows::<'_, Numbers<bf16>> { rows, scales, out }),
        Lists::Codes(storage, rows) => {
            with_codes!(storage, |C| isa.run_f32(WidenRows::<'_, C> {
                rows,
                scales,
                out
            }))
        }
    }
}

struct WidenRows<'a, C: Cells> {
    rows: RowRuns<'a, C::Unit>,
    scales: Scales<'a>,
    out: (&'a mut [f32], usize),
}

impl<'a, C: Cells> Op<f32> for WidenRows<'a, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let l = S::LANES;
        let (all, stride) = self.out;
        let width = self.rows.width * C::PARTS;
        let units = self.rows.width;
        let run =
            |(all, count, _): Run<'a, C::Unit>| (0..count).map(move |t| &all[t * units..][..units]);
        let rows = self.rows.runs.iter().copied().flat_map(run);
        for (t, row) in rows.enumerate() {
            let out = &mut all[t * stride..][..width];
            for (units, out) in row.chunks(l).zip(out.chunks_mut(l * C::PARTS)) {
                let held = match units.len() == l {
                    true => C::load(s, units),
                    false => load_part::<C, S>(s, units),
                };
                let mut v = [s.splat(0.0); 4];
                for (part, v) in v.iter_mut().enumerate().take(C::PARTS) {
                    *v = C::part(s, held, part);
                }
                let v = in_order::<C, S>(s, v);
                for (v, out) in v.into_iter().zip(out.chunks_mut(l)) {
                    match out.len() == l {
                        true => s.store(v, out),
                        false => bodies::store_part(s, v, out),
                    }
                }
            }
            match self.scales {
                Scales::Plain => out.iter_mut().for_each(|x| *x = checked(*x)),
                Scales::One(scale, zero) => {
                    out.iter_mut()
                        .for_each(|x| *x = checked((*x - zero) * scale));
                }
                Scales::Rows(scales, zeros) => {
                    let (scale, zero) = (scales[t], zeros[t]);
                    out.iter_mut()
                        .for_each(|x| *x = checked((*x - zero) * scale));
                }
                Scales::Columns(by, zeros) => {
                    for ((x, by), zero) in out.iter_mut().zip(by).zip(zeros) {
                        *x = checked((*x - zero) * by);
                    }
                }
            }
        }
    }
}
