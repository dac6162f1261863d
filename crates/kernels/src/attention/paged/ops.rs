//! The computations over rows of pages, each compiled once for an instruction set and a kind of rows: the walk calls
//! them through [`crate::Isa`], so that it is not compiled for every kind.

use super::super::cells::{
    Cells, Codes2, Codes4, Codes8, Numbers, arrange, arranged_len, in_order, load_part,
};
use super::super::digits::{ByteRows, DigitQueries, KEYS};
use super::super::few::{Run, add_run, score_run};
use super::super::rows::{By, filled_up, scores, values};
use super::super::visibility::SPAN;
use super::QueryPrecision;
use crate::Isa;
use crate::scratch::{Lent, Scratch};
use crate::simd::{Op, Simd};
use crate::storage::Real;
use crate::vecmath::bodies;
use half::{bf16, f16};
use refeed_values::DType;
use std::marker::PhantomData;

/// Rows of one kind.
#[derive(Clone, Copy)]
pub(in crate::attention) enum AnyRun<'r> {
    Float(Run<'r, f32>),
    Float16(Run<'r, f16>),
    Bfloat16(Run<'r, bf16>),
    /// Some runs of as many heads, one behind the other.
    Codes(DType, &'r [Run<'r, u8>]),
}

impl AnyRun<'_> {
    /// Heads that the rows are of.
    pub(in crate::attention) fn heads(&self) -> usize {
        match self {
            AnyRun::Float(run) => run.heads,
            AnyRun::Float16(run) => run.heads,
            AnyRun::Bfloat16(run) => run.heads,
            AnyRun::Codes(_, runs) => runs.first().map_or(0, |run| run.heads),
        }
    }
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

impl<'a> Scales<'a> {
    /// Those of the rows from one on.
    fn from(self, row: usize) -> Scales<'a> {
        match self {
            Scales::Rows(scales, zeros) => Scales::Rows(&scales[row..], &zeros[row..]),
            other => other,
        }
    }
}

/// Query rows of some heads, in the orders that codes come up in.
pub(in crate::attention) struct Queries {
    /// Rows of a head.
    line: usize,
    size: usize,
    stride: [usize; 3],
    /// For one, two and four codes a byte; empty where no page has them. Each head has as many rows as [`filled_up`] says.
    rows: [Option<Lent<f32>>; 3],
    /// As they are, one after another.
    plain: Lent<f32>,
    /// Sum of each row.
    sums: Lent<f32>,
    /// In digits, for the same orders as `rows`; empty where codes are not multiplied as bytes.
    digits: [Option<DigitQueries>; 3],
}

/// The query rows of some heads.
#[derive(Clone, Copy)]
pub(in crate::attention) struct HeadQueries<'a> {
    all: &'a Queries,
    first: usize,
    heads: usize,
}

impl Queries {
    /// Those of `heads` heads from head `first` on.
    pub(in crate::attention) fn of(&self, first: usize, heads: usize) -> HeadQueries<'_> {
        HeadQueries {
            all: self,
            first,
            heads,
        }
    }
}

impl<'a> HeadQueries<'a> {
    /// Rows of a head.
    fn line(self) -> usize {
        self.all.line
    }

    /// As they are.
    fn plain(self) -> &'a [f32] {
        let each = self.all.line * self.all.size;
        &self.all.plain[self.first * each..][..self.heads * each]
    }

    /// Those of a head in the order for so many codes a byte, and from one row to the next; `None` when it was not laid out.
    fn arranged(self, head: usize, parts: usize) -> Option<(&'a [f32], usize)> {
        let order = order(parts);
        let stride = self.all.stride[order];
        let each = filled_up(self.all.line) * stride;
        let all = self.all.rows[order].as_ref()?;
        Some((&all[(self.first + head) * each..][..each], stride))
    }

    /// Those of all heads in digits, for so many codes a byte.
    fn digits(self, parts: usize) -> Option<&'a DigitQueries> {
        self.all.digits[order(parts)].as_ref()
    }

    /// Sum of each row of a head.
    fn sums(self, head: usize) -> &'a [f32] {
        &self.all.sums[(self.first + head) * self.all.line..][..self.all.line]
    }
}

/// Which of the three orders.
fn order(parts: usize) -> usize {
    parts.trailing_zeros().min(2) as usize
}

/// Lays query rows out.
pub(in crate::attention) struct Arrange<'a> {
    pub(in crate::attention) queries: &'a [f32],
    pub(in crate::attention) size: usize,
    /// Rows of a head.
    pub(in crate::attention) line: usize,
    /// Which orders are needed, by the logarithm of the codes in a byte.
    pub(in crate::attention) needed: [bool; 3],
    pub(in crate::attention) isa: Isa,
    pub(in crate::attention) precision: QueryPrecision,
}

impl Op<f32> for Arrange<'_> {
    type Output = Queries;

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) -> Queries {
        let size = self.size.max(1);
        let line = self.line.max(1);
        let count = self.queries.len() / size;
        let heads = count / line;
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
        let mut digits = [None, None, None];
        for (order, needed) in self.needed.into_iter().enumerate() {
            if !needed {
                continue;
            }
            let parts = 1 << order;
            stride[order] = arranged_len::<S>(size, parts);
            let each = filled_up(line) * stride[order];
            let mut all = f32::scratch(heads * each);
            let lines = self.queries.chunks_exact(line * size);
            for (rows, slots) in lines.zip(all.chunks_exact_mut(each)) {
                let (own, rest) = slots.split_at_mut(line * stride[order]);
                let slots = own.chunks_exact_mut(stride[order]);
                for (row, slot) in rows.chunks_exact(size).zip(slots) {
                    arrange::<S>(row, parts, slot);
                }
                rest.fill(0.0);
            }
            let shape = [heads, line, size];
            digits[order] = DigitQueries::of(self.isa, &all, each, shape, parts, self.precision);
            rows[order] = Some(all);
        }
        let mut plain = f32::scratch(self.queries.len());
        plain.copy_from_slice(self.queries);
        Queries {
            line,
            size,
            stride,
            rows,
            plain,
            sums,
            digits,
        }
    }
}

/// Scores of all query rows with all rows.
pub(in crate::attention) fn scores_of(
    isa: Isa,
    queries: HeadQueries<'_>,
    rows: AnyRun<'_>,
    scales: Scales<'_>,
    out: &mut [f32],
) {
    match rows {
        AnyRun::Float(rows) => isa.run_f32(NumberScores { queries, rows, out }),
        AnyRun::Float16(rows) => isa.run_f32(NumberScores { queries, rows, out }),
        AnyRun::Bfloat16(rows) => isa.run_f32(NumberScores { queries, rows, out }),
        AnyRun::Codes(storage, runs) => with_codes!(storage, |C| isa.run_f32(Scores::<'_, C> {
            queries,
            storage,
            runs,
            scales,
            out,
            cells: PhantomData,
        })),
    }
}

/// Scores of all query rows with rows of numbers.
struct NumberScores<'a, T> {
    queries: HeadQueries<'a>,
    rows: Run<'a, T>,
    out: &'a mut [f32],
}

impl<T: Real<Acc = f32>> Op<f32> for NumberScores<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let NumberScores { queries, rows, out } = self;
        score_run(s, (queries.plain(), queries.line()), rows, out);
    }
}

struct Scores<'a, C: Cells> {
    queries: HeadQueries<'a>,
    storage: DType,
    runs: &'a [Run<'a, u8>],
    scales: Scales<'a>,
    out: &'a mut [f32],
    cells: PhantomData<C>,
}

impl<C: Cells<Unit = u8>> Op<f32> for Scores<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(mut self, s: S) {
        for head in 0..self.runs.first().map_or(0, |run| run.heads) {
            self.head(s, head);
        }
    }
}

impl<C: Cells<Unit = u8>> Scores<'_, C> {
    #[inline(always)]
    fn head<S: Simd<f32>>(&mut self, s: S, head: usize) {
        let Scores {
            queries,
            runs,
            scales,
            ..
        } = *self;
        let line = queries.line();
        let out = &mut self.out[head * line * SPAN..];
        let tokens = tokens_of(runs);
        let Some((arranged, stride)) = queries.arranged(head, C::PARTS) else {
            return; // the orders of all pages were laid out
        };
        if let Scales::Columns(by, zeros) = scales {
            // The scales of columns are factors of the queries.
            let mut own = f32::scratch(arranged.len() + stride + line);
            let (scaled, rest) = own.split_at_mut(arranged.len());
            let (factors, shifts) = rest.split_at_mut(stride);
            let width = runs.first().map_or(0, |run| run.width) * C::PARTS;
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
            for (place, run) in placed(runs) {
                let run = run.part(head, 0, run.tokens);
                scores::<C, S>(s, (scaled, stride, line), run, &mut out[place..]);
            }
            for (i, shift) in shifts.iter().enumerate() {
                for x in &mut out[i * SPAN..][..tokens] {
                    *x -= shift;
                }
            }
            return;
        }
        let own = queries.first + head;
        let digits = queries.digits(C::PARTS);
        let done = digits.filter(|digits| digits.scores(own, self.storage, (runs, head), out));
        for (place, run) in placed(runs) {
            if done.is_none() {
                let run = run.part(head, 0, run.tokens);
                scores::<C, S>(s, (arranged, stride, line), run, &mut out[place..]);
            }
        }
        let sums = match done {
            Some(digits) => digits.sums(own),
            None => queries.sums(head),
        };
        for (i, sum) in sums.iter().enumerate() {
            let out = &mut out[i * SPAN..][..tokens];
            match scales {
                Scales::One(scale, zero) => {
                    let shift = zero * sum;
                    for x in out {
                        *x = (*x - shift) * scale;
                    }
                }
                Scales::Rows(scales, zeros) => {
                    for ((x, scale), zero) in out.iter_mut().zip(scales).zip(zeros) {
                        *x = (*x - zero * sum) * scale;
                    }
                }
                Scales::Plain | Scales::Columns(..) => {}
            }
        }
    }
}

/// Rows of a head in all runs.
fn tokens_of(runs: &[Run<'_, u8>]) -> usize {
    runs.iter().map(|run| run.tokens).sum()
}

/// Runs, and where the first row of each stands.
fn placed<'a>(runs: &'a [Run<'a, u8>]) -> impl Iterator<Item = (usize, Run<'a, u8>)> {
    runs.iter().scan(0, |place, run| {
        let first = *place;
        *place += run.tokens;
        Some((first, *run))
    })
}

/// NaN for what is not finite: negative infinity would count as a key without weight.
#[inline(always)]
pub(super) fn checked(x: f32) -> f32 {
    x + 0.0 * x
}

/// Weights of a run of rows: of query `i` of head `h` and row `t`, `values[(h * line + i) * SPAN + t]`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct RunWeights<'a> {
    pub(in crate::attention) values: &'a [f32],
    /// Queries of a head.
    pub(in crate::attention) line: usize,
    /// How exactly they are multiplied with codes.
    pub(in crate::attention) precision: QueryPrecision,
}

/// Adds all rows, weighted, to the sums.
pub(in crate::attention) fn add_to(
    isa: Isa,
    weights: RunWeights<'_>,
    rows: AnyRun<'_>,
    scales: Scales<'_>,
    (sums, stride): (&mut [f32], usize),
) {
    let out = (sums, stride);
    match rows {
        AnyRun::Float(rows) => isa.run_f32(NumberAdd { weights, rows, out }),
        AnyRun::Float16(rows) => isa.run_f32(NumberAdd { weights, rows, out }),
        AnyRun::Bfloat16(rows) => isa.run_f32(NumberAdd { weights, rows, out }),
        AnyRun::Codes(storage, runs) => with_codes!(storage, |C| isa.run_f32(Add::<'_, C> {
            bytes: ByteRows::of(isa, storage, weights.precision),
            weights,
            runs,
            scales,
            sums: out.0,
            stride,
            cells: PhantomData,
        })),
    }
}

/// Adds rows of numbers, weighted, to the sums.
struct NumberAdd<'a, T> {
    weights: RunWeights<'a>,
    rows: Run<'a, T>,
    out: (&'a mut [f32], usize),
}

impl<T: Real<Acc = f32>> Op<f32> for NumberAdd<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let RunWeights { values, line, .. } = self.weights;
        add_run(s, (values, line), self.rows, self.out);
    }
}

struct Add<'a, C: Cells> {
    bytes: Option<ByteRows>,
    weights: RunWeights<'a>,
    runs: &'a [Run<'a, u8>],
    scales: Scales<'a>,
    sums: &'a mut [f32],
    stride: usize,
    cells: PhantomData<C>,
}

impl<C: Cells<Unit = u8>> Op<f32> for Add<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(mut self, s: S) {
        for head in 0..self.runs.first().map_or(0, |run| run.heads) {
            self.head(s, head);
        }
    }
}

impl<C: Cells<Unit = u8>> Add<'_, C> {
    /// Adds all rows of a head, weighted and times `by`.
    #[inline(always)]
    fn values<S: Simd<f32>>(
        &self,
        s: S,
        head: usize,
        (w, count): (&[f32], usize),
        by: By<'_>,
        (sums, stride): (&mut [f32], usize),
    ) {
        let done = self.bytes.is_some_and(|bytes| {
            bytes.add((self.runs, head), (w, count), by, (&mut *sums, stride))
        });
        for (place, run) in placed(self.runs) {
            let first = if done { run.tokens / KEYS * KEYS } else { 0 };
            if first < run.tokens {
                let rows = match first {
                    0 => run.one(head),
                    _ => run.part(head, first, run.tokens - first),
                };
                let w = &w[place + first..];
                values::<C, S>(s, (w, count), rows, by, (&mut *sums, stride));
            }
        }
    }

    #[inline(always)]
    fn head<S: Simd<f32>>(&mut self, s: S, head: usize) {
        let Add {
            weights: RunWeights {
                values: w, line, ..
            },
            runs,
            scales,
            stride,
            ..
        } = *self;
        let count = line;
        let w = &w[head * line * SPAN..];
        let all = std::mem::take(&mut self.sums);
        let sums = &mut all[head * line * stride..];
        let tokens = tokens_of(runs);
        let row = |i: usize| &w[i * SPAN..][..tokens];
        match scales {
            Scales::Plain => {
                self.values(s, head, (w, count), By::One, (sums, stride));
            }
            Scales::One(scale, zero) => {
                self.values(s, head, (w, count), By::All(scale), (&mut *sums, stride));
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
                self.values(s, head, (&own, count), By::One, (&mut *sums, stride));
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
                self.values(s, head, (w, count), columns, (&mut *sums, stride));
                for i in 0..count {
                    let sum = row(i).iter().sum::<f32>();
                    let slots = sums[i * stride..][..stride].iter_mut();
                    for ((x, by), zero) in slots.zip(by).zip(zeros) {
                        *x -= sum * by * zero;
                    }
                }
            }
        }
        self.sums = all;
    }
}

/// Writes all rows as numbers, `stride` apart.
pub(in crate::attention) fn widen_to(
    isa: Isa,
    rows: AnyRun<'_>,
    scales: Scales<'_>,
    (out, stride): (&mut [f32], usize),
) {
    let out = (out, stride);
    match rows {
        AnyRun::Float(rows) => isa.run_f32(WidenRows::<'_, Numbers<f32>> { rows, scales, out }),
        AnyRun::Float16(rows) => isa.run_f32(WidenRows::<'_, Numbers<f16>> { rows, scales, out }),
        AnyRun::Bfloat16(rows) => isa.run_f32(WidenRows::<'_, Numbers<bf16>> { rows, scales, out }),
        AnyRun::Codes(storage, runs) => {
            let (out, stride) = out;
            for (place, rows) in placed(runs) {
                let scales = scales.from(place);
                let out = (&mut out[place * stride..], stride);
                with_codes!(storage, |C| isa.run_f32(WidenRows::<'_, C> {
                    rows,
                    scales,
                    out
                }));
            }
        }
    }
}

struct WidenRows<'a, C: Cells> {
    rows: Run<'a, C::Unit>,
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
        let units = self.rows.head(0);
        for t in 0..self.rows.tokens {
            let row = &units[t * self.rows.width..][..self.rows.width];
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
