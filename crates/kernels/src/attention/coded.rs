//! Attention to a cache of 8-bit codes that is one strided tensor: `com.microsoft.GroupQueryAttention` with INT8 keys
//! and values.
//!
//! The codes are multiplied as they are, in registers; no decoded copy of the cache is written. The walk, the masks and
//! the order of sums are those of every cache (`cache`), the arithmetic on codes that of pages (`paged::ops`).

use super::cache::{Cache, FewHead, Head, Part, Segment, SpanKeys, Weights, Widen};
use super::few::Run;
use super::paged::QueryPrecision;
use super::paged::ops::{
    AnyRun, Arrange, Queries, RunWeights, Scales, add_to, scores_of, widen_to,
};
use super::split::{self, Found, Work};
use super::visibility::{SPAN, TILE};
use super::{Core, Visibility, decode};
use crate::pool::RowLayout;
use crate::scratch::{Lent, Scratch};
use crate::simd::Simd;
use crate::storage::Real;
use crate::{Compute, Isa, KernelError};
use refeed_values::{DType, View};

/// Keys or values as codes: `number = code * scale`.
#[derive(Debug, Clone)]
pub struct CodedRows<'a> {
    /// INT8 codes `[batch, heads, length, width]`, as bytes; the rows of a head follow one another.
    pub codes: View<'a, u8>,
    /// One number, or one for each `[heads, width]`.
    pub scale: &'a [f32],
}

/// Attention to codes. Extents as in [`super::AttentionProblem`].
#[derive(Debug, Clone)]
pub struct CodedProblem<'a> {
    /// `[batch, query_heads, length, head_size]`
    pub query: View<'a, f32>,
    /// `[batch, kv_heads, total_length, head_size]`
    pub key: CodedRows<'a>,
    /// `[batch, kv_heads, total_length, value_size]`
    pub value: CodedRows<'a>,
    /// Factor of the scores.
    pub scale: f64,
    /// Scores become `softcap · tanh(score / softcap)`; 0 leaves them.
    pub softcap: f64,
    /// Which keys a query may see, and what is added to the scores.
    pub visibility: Visibility<'a, f32>,
}

/// Computes attention as [`super::attention`] does.
///
/// # Errors
/// When shapes do not fit, the rows of a head do not follow one another, or rows of `out` overlap or leave it.
pub fn coded_attention(
    compute: &Compute<'_>,
    problem: &CodedProblem<'_>,
    out: &mut [f32],
    layout: &RowLayout,
) -> Result<(), KernelError> {
    let rank = |got| KernelError::Rank {
        operand: "query, key and value",
        expected: "4 axes",
        got,
    };
    let (&[batch, heads, length, size], &[_, kv_heads, total, _], &[_, _, _, width]) = (
        problem.query.shape(),
        problem.key.codes.shape(),
        problem.value.codes.shape(),
    ) else {
        return Err(rank(problem.query.rank().min(problem.key.codes.rank())));
    };
    let key = Side::new("key", &problem.key, [batch, kv_heads, total, size])?;
    let value = Side::new("value", &problem.value, [batch, kv_heads, total, width])?;
    let extents = [kv_heads, total, size, width];
    let factors = (problem.scale, problem.softcap);
    let core = Core::over(&problem.query, factors, &problem.visibility, extents)?;
    if layout.shape != [batch, heads, length] || layout.len != width {
        let got = [&layout.shape[..], &[layout.len]].concat();
        let expected = [batch, heads, length, width];
        return Err(KernelError::shape("attention output", &expected, &got));
    }
    let cache = CodedCache {
        isa: compute.isa,
        total,
        key,
        value,
    };
    split::run(compute, &core, &cache, out, layout)
}

/// Keys or values, checked.
struct Side<'a> {
    codes: View<'a, u8>,
    width: usize,
    by: By,
}

/// Which scale an element goes by.
enum By {
    One(f32),
    /// Those of each head, filled up to whole registers with zeros, and as many zeros; how many they are.
    Columns(Lent<f32>, usize),
}

impl<'a> Side<'a> {
    fn new(
        operand: &'static str,
        rows: &CodedRows<'a>,
        shape: [usize; 4],
    ) -> Result<Side<'a>, KernelError> {
        let [_, heads, _, width] = shape;
        if rows.codes.shape() != shape {
            return Err(KernelError::shape(operand, &shape, rows.codes.shape()));
        }
        // Nothing is read of a cache without elements.
        if !rows.codes.is_empty() && rows.codes.block(&[0, 0]).is_none() {
            return Err(KernelError::Rank {
                operand,
                expected: "rows of a head that follow one another",
                got: 4,
            });
        }
        let by = match rows.scale {
            [scale] => By::One(*scale),
            scales => {
                KernelError::check_len("scale", heads.saturating_mul(width), scales.len())?;
                let whole = width.next_multiple_of(16);
                // A last stretch of zeros serves all heads as zero points.
                let mut memory = f32::scratch((heads + 1) * whole);
                memory.fill(0.0);
                if width > 0 {
                    for (slot, own) in memory
                        .chunks_exact_mut(whole)
                        .zip(scales.chunks_exact(width))
                    {
                        slot[..width].copy_from_slice(own);
                    }
                }
                By::Columns(memory, whole)
            }
        };
        Ok(Side {
            codes: rows.codes.clone(),
            width,
            by,
        })
    }

    /// The scales of a head.
    fn scales(&self, head: usize) -> Scales<'_> {
        match &self.by {
            By::One(scale) => Scales::One(*scale, 0.0),
            By::Columns(memory, whole) => Scales::Columns(
                &memory[head * whole..][..*whole],
                &memory[memory.len() - whole..],
            ),
        }
    }
}

struct CodedCache<'a> {
    isa: Isa,
    total: usize,
    key: Side<'a>,
    value: Side<'a>,
}

impl<'a> Cache<f32> for CodedCache<'a> {
    type Head<'s>
        = CodedHead<'s>
    where
        Self: 's;

    #[inline(always)]
    fn head(&self, batch: usize, head: usize) -> Option<CodedHead<'_>> {
        let rows = |side: &'_ Side<'a>| side.codes.block(&[batch, head]);
        Some(CodedHead {
            isa: self.isa,
            total: self.total,
            key: Rows {
                units: rows(&self.key)?,
                width: self.key.width,
                scales: self.key.scales(head),
            },
            value: Rows {
                units: rows(&self.value)?,
                width: self.value.width,
                scales: self.value.scales(head),
            },
            queries: None,
        })
    }

    #[inline(always)]
    fn few<T: Real<Acc = f32>, S: Simd<f32>>(
        &self,
        s: S,
        core: &Core<'_, '_, T>,
        work: Work,
        found: Found<'_, f32>,
    ) {
        if let Some(head) = self.head(work.batch, work.kv_head) {
            decode::pass(s, core, head, work, found);
        }
    }
}

/// The rows of one head.
#[derive(Clone, Copy)]
struct Rows<'s> {
    units: &'s [u8],
    width: usize,
    scales: Scales<'s>,
}

impl Rows<'_> {
    /// `count` rows from row `row` on.
    fn run(&self, row: usize, count: usize) -> [Run<'_, u8>; 1] {
        let units = &self.units[row * self.width..][..count * self.width];
        [Run::new(units, [1, count, self.width])]
    }
}

struct CodedHead<'s> {
    isa: Isa,
    total: usize,
    key: Rows<'s>,
    value: Rows<'s>,
    queries: Option<Queries>,
}

impl<'s> Head<f32> for CodedHead<'s> {
    type Keys<'h>
        = CodedSide<'h, 's>
    where
        Self: 'h;
    type Values<'h>
        = CodedSide<'h, 's>
    where
        Self: 'h;

    fn segment(&self, key: usize) -> Option<Segment<CodedSide<'_, 's>, CodedSide<'_, 's>>> {
        let side = |rows| CodedSide { head: self, rows };
        (key < self.total).then(|| Segment {
            keys: side(self.key),
            values: side(self.value),
            start: 0,
            end: self.total,
        })
    }
}

/// Keys or values of one head.
struct CodedSide<'h, 's> {
    head: &'h CodedHead<'s>,
    rows: Rows<'s>,
}

impl<'h> Widen<'h, f32> for CodedSide<'h, '_> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, _: S, part: Part<1>, out: &mut [f32], stride: usize) {
        let rows = &self.rows;
        for (place, count) in part.runs(TILE) {
            let out = (&mut out[place * stride..], stride);
            let run = rows.run(part.row(place), count);
            let run = AnyRun::Codes(DType::Int8, &run);
            widen_to(self.head.isa, run, rows.scales, out);
        }
    }
}

impl FewHead<f32> for CodedHead<'_> {
    #[inline(always)]
    fn begin<S: Simd<f32>>(&mut self, _: S, queries: &[f32], size: usize) {
        self.queries = Some(self.isa.run_f32(Arrange {
            queries,
            size,
            line: queries.len() / size.max(1),
            needed: [true, false, false],
            isa: self.isa,
            precision: QueryPrecision::Full,
        }));
    }

    #[inline(always)]
    fn scores<S: Simd<f32>>(&self, _: S, _: (&[f32], usize), span: SpanKeys, scores: &mut [f32]) {
        let Some(queries) = &self.queries else {
            return; // the walk begins with the queries
        };
        for (_, part) in self.parts(span.range, span.start, span.seen) {
            for (place, count) in part.runs(SPAN) {
                let run = self.key.run(part.row(place), count);
                let run = AnyRun::Codes(DType::Int8, &run);
                let out = &mut scores[place..];
                scores_of(self.isa, queries.of(0, 1), run, self.key.scales, out);
            }
        }
    }

    #[inline(always)]
    fn add<S: Simd<f32>>(
        &self,
        _: S,
        weights: Weights<'_, f32>,
        span: SpanKeys,
        (sums, stride): (&mut [f32], usize),
    ) {
        for (_, part) in self.parts(span.range, span.start, span.seen) {
            for (place, count) in part.runs(SPAN) {
                let weights = RunWeights {
                    values: &weights.values[place..],
                    line: weights.own.len(),
                    precision: QueryPrecision::Full,
                };
                let run = self.value.run(part.row(place), count);
                let run = AnyRun::Codes(DType::Int8, &run);
                let out = (&mut *sums, stride);
                add_to(self.isa, weights, run, self.value.scales, out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
