//! Attention to a cache of 8-bit codes that is one strided tensor: `com.microsoft.GroupQueryAttention` with INT8 keys
//! and values.
//!
//! The codes are multiplied as they are, in registers; no decoded copy of the cache is written. The walk, the masks and
//! the order of sums are those of every cache (`cache`), the arithmetic on codes that of pages (`paged::ops`).

use super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen, runs};
use super::few::Soon;
use super::paged::ops::{Arrange, Lists, Queries, RunWeights, Scales, add_to, scores_of, widen_to};
use super::rows::RowRuns;
use super::split::{self, FEW};
use super::{Core, Visibility};
use crate::pool::RowLayout;
use crate::scratch::{Lent, Scratch};
use crate::simd::Simd;
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
}

/// The rows of one head.
#[derive(Clone, Copy)]
struct Rows<'s> {
    units: &'s [u8],
    width: usize,
    scales: Scales<'s>,
}

impl Rows<'_> {
    /// Calls `then` with `count` rows from row `row` on.
    fn listed(&self, row: usize, count: usize, then: impl FnOnce(Lists<'_>)) {
        let rows = &self.units[row * self.width..][..count * self.width];
        then(Lists::Codes(
            DType::Int8,
            RowRuns {
                runs: &[(rows, count, Soon::default())],
                width: self.width,
            },
        ));
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

    #[inline(always)]
    fn begin<S: Simd<f32>>(&mut self, _: S, queries: &[f32], size: usize) {
        if queries.len() > FEW * size {
            return; // many rows are multiplied with widened tiles
        }
        self.queries = Some(self.isa.run_f32(Arrange {
            queries,
            size,
            needed: [true, false, false],
        }));
    }

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
    fn widen<S: Simd<f32>>(&self, _: S, part: Part, out: &mut [f32], stride: usize) {
        for (place, count) in runs(part) {
            let out = &mut out[place * stride..];
            self.rows.listed(part.row(place), count, |rows| {
                widen_to(self.head.isa, rows, self.rows.scales, (out, stride));
            });
        }
    }
}

impl<'h> KeyRows<'h, f32> for CodedSide<'h, '_> {
    #[inline(always)]
    fn scores<S: Simd<f32>>(&self, _: S, _: &[f32], _: usize, part: Part, scores: &mut [f32]) {
        let Some(queries) = &self.head.queries else {
            return; // the walk begins with the queries
        };
        for (place, count) in runs(part) {
            let out = &mut scores[place..];
            self.rows.listed(part.row(place), count, |rows| {
                scores_of(self.head.isa, queries, rows, self.rows.scales, out);
            });
        }
    }
}

impl<'h> ValueRows<'h, f32> for CodedSide<'h, '_> {
    #[inline(always)]
    fn add<S: Simd<f32>>(
        &self,
        _: S,
        weights: Weights<'_, f32>,
        part: Part,
        sums: &mut [f32],
        stride: usize,
    ) {
        for (place, count) in runs(part) {
            let weights = RunWeights {
                values: &weights.values[place..],
                count: weights.own.len(),
            };
            let (isa, scales) = (self.head.isa, self.rows.scales);
            self.rows.listed(part.row(place), count, |rows| {
                add_to(isa, weights, rows, scales, (&mut *sums, stride));
            });
        }
    }
}

#[cfg(test)]
mod tests;
