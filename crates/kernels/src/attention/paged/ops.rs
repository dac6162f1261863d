//! The computations over rows of pages, each compiled once for an instruction set and a kind of rows: the walk calls
//! them through [`crate::Isa`], so that it is not compiled for every kind.

use super::super::cells::{
    Cells, Codes2, Codes4, Codes8, Numbers, arrange, arranged_len, in_order, load_part,
};
use super::super::rows::{By, Strip, filled_up, scores, values};
use super::super::visibility::TILE;
use crate::Isa;
use crate::scratch::{Lent, Scratch};
use crate::simd::{Op, Simd};
use crate::vecmath::bodies;
use half::{bf16, f16};
use refeed_values::DType;

/// Runs of units, of one kind.
#[derive(Clone, Copy)]
pub(in crate::attention) enum Strips<'a> {
    Float(Strip<'a, f32>),
    Float16(Strip<'a, f16>),
    Bfloat16(Strip<'a, bf16>),
    Codes(DType, Strip<'a, u8>),
}

/// Evaluates an expression with the type of the cells of strips, as `$cells`, and the strip, as `$strip`.
macro_rules! with_cells {
    ($strips:expr, |$cells:ident, $strip:ident| $body:expr) => {
        match $strips {
            Strips::Float($strip) => {
                type $cells = Numbers<f32>;
                $body
            }
            Strips::Float16($strip) => {
                type $cells = Numbers<f16>;
                $body
            }
            Strips::Bfloat16($strip) => {
                type $cells = Numbers<bf16>;
                $body
            }
            Strips::Codes(DType::Int8, $strip) => {
                type $cells = Codes8<true>;
                $body
            }
            Strips::Codes(DType::Uint8, $strip) => {
                type $cells = Codes8<false>;
                $body
            }
            Strips::Codes(DType::Int4, $strip) => {
                type $cells = Codes4<true>;
                $body
            }
            Strips::Codes(DType::Uint4, $strip) => {
                type $cells = Codes4<false>;
                $body
            }
            Strips::Codes(DType::Int2, $strip) => {
                type $cells = Codes2<true>;
                $body
            }
            Strips::Codes(_, $strip) => {
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
        Queries {
            count,
            stride,
            rows,
            sums,
        }
    }
}

/// Scores of all query rows with the first `tokens` rows.
pub(in crate::attention) fn scores_of(
    isa: Isa,
    queries: &Queries,
    strips: Strips<'_>,
    tokens: usize,
    scales: Scales<'_>,
    out: &mut [f32],
) {
    with_cells!(strips, |C, strip| isa.run_f32(Scores::<'_, C> {
        queries,
        strip,
        tokens,
        scales,
        out,
    }))
}

struct Scores<'a, C: Cells> {
    queries: &'a Queries,
    strip: Strip<'a, C::Unit>,
    tokens: usize,
    scales: Scales<'a>,
    out: &'a mut [f32],
}

impl<C: Cells> Op<f32> for Scores<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let Scores {
            queries,
            strip,
            tokens,
            scales,
            out,
        } = self;
        let order = order(C::PARTS);
        let (count, stride) = (queries.count, queries.stride[order]);
        let Some(rows) = &queries.rows[order] else {
            return; // the orders of all pages were laid out
        };
        if let Scales::Columns(by, zeros) = scales {
            // The scales of columns are factors of the queries.
            let mut own = f32::scratch(rows.len() + stride + count);
            let (scaled, rest) = own.split_at_mut(rows.len());
            let (factors, shifts) = rest.split_at_mut(stride);
            let width = strip.width * C::PARTS;
            arrange::<S>(&by[..width], C::PARTS, factors);
            for (from, to) in rows
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
            scores::<C, S>(s, (scaled, stride, count), &strip, tokens, out);
            for (i, shift) in shifts.iter().enumerate() {
                for x in &mut out[i * TILE..][..tokens] {
                    *x = checked(*x - shift);
                }
            }
            return;
        }
        scores::<C, S>(s, (rows, stride, count), &strip, tokens, out);
        for i in 0..count {
            let sum = queries.sums[i];
            let out = &mut out[i * TILE..][..tokens];
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

/// Weights of a run of rows: of query `i` and row `t`, `values[i * TILE + t]`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct RunWeights<'a> {
    pub(in crate::attention) values: &'a [f32],
    pub(in crate::attention) count: usize,
}

/// Adds the first `tokens` rows, weighted, to the sums.
pub(in crate::attention) fn add_to(
    isa: Isa,
    weights: RunWeights<'_>,
    strips: Strips<'_>,
    tokens: usize,
    scales: Scales<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    with_cells!(strips, |C, strip| isa.run_f32(Add::<'_, C> {
        weights,
        strip,
        tokens,
        scales,
        sums,
        stride,
    }))
}

struct Add<'a, C: Cells> {
    weights: RunWeights<'a>,
    strip: Strip<'a, C::Unit>,
    tokens: usize,
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
            strip,
            tokens,
            scales,
            sums,
            stride,
        } = self;
        let row = |i: usize| &w[i * TILE..][..tokens];
        match scales {
            Scales::Plain => {
                values::<C, S>(s, (w, count), &strip, tokens, By::One, (sums, stride));
            }
            Scales::One(scale, zero) => {
                values::<C, S>(
                    s,
                    (w, count),
                    &strip,
                    tokens,
                    By::All(scale),
                    (&mut *sums, stride),
                );
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
                let mut own = f32::scratch(count * TILE);
                for (i, own) in own.chunks_exact_mut(TILE).enumerate() {
                    for ((w, scale), slot) in row(i).iter().zip(scales).zip(own) {
                        *slot = w * scale;
                    }
                }
                values::<C, S>(
                    s,
                    (&own, count),
                    &strip,
                    tokens,
                    By::One,
                    (&mut *sums, stride),
                );
                if zeros.iter().any(|zero| *zero != 0.0) {
                    for (i, own) in own.chunks_exact(TILE).enumerate() {
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
                values::<C, S>(s, (w, count), &strip, tokens, columns, (&mut *sums, stride));
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

/// Writes the first `tokens` rows as numbers, `stride` apart.
pub(in crate::attention) fn widen_to(
    isa: Isa,
    strips: Strips<'_>,
    tokens: usize,
    scales: Scales<'_>,
    (out, stride): (&mut [f32], usize),
) {
    with_cells!(strips, |C, strip| isa.run_f32(WidenRows::<'_, C> {
        strip,
        tokens,
        scales,
        out,
        stride,
    }))
}

struct WidenRows<'a, C: Cells> {
    strip: Strip<'a, C::Unit>,
    tokens: usize,
    scales: Scales<'a>,
    out: &'a mut [f32],
    stride: usize,
}

impl<C: Cells> Op<f32> for WidenRows<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let l = S::LANES;
        let width = self.strip.width * C::PARTS;
        for t in 0..self.tokens {
            let row = self.strip.row(t);
            let out = &mut self.out[t * self.stride..][..width];
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
