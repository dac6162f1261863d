//! Scaled dot product attention: one core for decoding and prefill, over caches of any strides.
//!
//! For each query row, `softmax(softcap(scale · q·k) + bias) · v` over the keys that it may see. What it may see is
//! decided in one place, [`Visibility`]; a key that no row of a block sees is never loaded, so whatever lies in padding
//! cannot leak, and a row that sees nothing is zero.
//!
//! The query heads that share a key/value head are worked on together: the rows of all of them, `heads of the group x
//! length`, are cut into blocks and, where there are few blocks, their keys into chunks (`split`). A task walks once over
//! the keys of its chunk in tiles of 64 and keeps for each row the largest score, the sum of exponentials and the
//! weighted sum of values so far (`online_softmax`). With few rows keys are read in place (`decode`: bound by memory);
//! with many, tiles are multiplied in registers (`prefill`). Both are generic over how a cache is stored (`cache`); a
//! strided tensor is one way (`dense`).
//!
//! Sources: A. Vaswani et al., Attention Is All You Need (2017); M. Milakov, N. Gimelshein, Online normalizer
//! calculation for softmax (2018); T. Dao et al., FlashAttention (2022);
//! <https://onnx.ai/onnx/operators/onnx__Attention.html>.

mod cache;
pub(crate) mod cells;
mod coded;
mod decode;
mod dense;
#[cfg(target_arch = "x86_64")]
mod digits;
#[cfg(not(target_arch = "x86_64"))]
#[path = "attention/digits/absent.rs"]
mod digits;
mod few;
mod online_softmax;
pub mod paged;
mod prefill;
mod rows;
mod scores;
mod split;
mod visibility;

pub use coded::{CodedProblem, CodedRows, coded_attention};
pub use scores::{ScoreStage, attention_scores};
pub use visibility::{Mask, Visibility};

use crate::pool::RowLayout;
use crate::storage::{Accumulator, Real};
use crate::{Compute, KernelError};
use dense::DenseCache;
use refeed_values::View;
use visibility::Visible;

/// Attention and its operands. Extents: `query_heads` is a multiple of `kv_heads`; query head `h` uses key/value head
/// `h / (query_heads / kv_heads)`.
#[derive(Debug, Clone)]
pub struct AttentionProblem<'a, T: Real> {
    /// `[batch, query_heads, length, head_size]`
    pub query: View<'a, T>,
    /// `[batch, kv_heads, total_length, head_size]`
    pub key: View<'a, T>,
    /// `[batch, kv_heads, total_length, value_size]`
    pub value: View<'a, T>,
    /// Factor of the scores; `1 / sqrt(head_size)` by custom ([`default_scale`]).
    pub scale: f64,
    /// Scores become `softcap · tanh(score / softcap)`; 0 leaves them.
    pub softcap: f64,
    /// Which keys a query may see, and what is added to the scores.
    pub visibility: Visibility<'a, T>,
}

/// `1 / sqrt(head_size)`
pub fn default_scale(head_size: usize) -> f64 {
    1.0 / (head_size as f64).sqrt()
}

/// What the passes need, however the cache is stored: checked extents, queries and rules.
struct Core<'p, 'a, T: Real> {
    query: &'p View<'a, T>,
    scale: T::Acc,
    softcap: T::Acc,
    visible: Visible<'a, T>,
    batch: usize,
    heads: usize,
    kv_heads: usize,
    length: usize,
    total: usize,
    size: usize,
    value_size: usize,
}

impl<'p, 'a, T: Real> Core<'p, 'a, T> {
    fn new(problem: &'p AttentionProblem<'a, T>) -> Result<Self, KernelError> {
        let four = |operand, view: &View<'_, T>| match view.shape() {
            &[a, b, c, d] => Ok([a, b, c, d]),
            _ => Err(KernelError::Rank {
                operand,
                expected: "4 axes",
                got: view.rank(),
            }),
        };
        let [batch, _, _, size] = four("query", &problem.query)?;
        let [_, kv_heads, total, _] = four("key", &problem.key)?;
        let [_, _, _, value_size] = four("value", &problem.value)?;
        let key_shape = [batch, kv_heads, total, size];
        if problem.key.shape() != key_shape {
            return Err(KernelError::shape("key", &key_shape, problem.key.shape()));
        }
        let value_shape = [batch, kv_heads, total, value_size];
        if problem.value.shape() != value_shape {
            return Err(KernelError::shape(
                "value",
                &value_shape,
                problem.value.shape(),
            ));
        }
        let cache = [kv_heads, total, size, value_size];
        let factors = (problem.scale, problem.softcap);
        Core::over(&problem.query, factors, &problem.visibility, cache)
    }

    /// Queries `[batch, heads, length, size]` over a cache of `[kv_heads, total, size, value_size]`; `factors` are scale
    /// and softcap.
    fn over(
        query: &'p View<'a, T>,
        (scale, softcap): (f64, f64),
        visibility: &Visibility<'a, T>,
        [kv_heads, total, size, value_size]: [usize; 4],
    ) -> Result<Self, KernelError> {
        let &[batch, heads, length, got] = query.shape() else {
            return Err(KernelError::Rank {
                operand: "query",
                expected: "4 axes",
                got: query.rank(),
            });
        };
        if got != size {
            let expected = [batch, heads, length, size];
            return Err(KernelError::shape("query", &expected, query.shape()));
        }
        if heads > 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
            return Err(KernelError::Heads {
                query_heads: heads,
                kv_heads,
            });
        }
        Ok(Core {
            query,
            scale: T::Acc::from_f64(scale),
            softcap: T::Acc::from_f64(softcap),
            visible: Visible::new(visibility, [batch, heads, length, total])?,
            batch,
            heads,
            kv_heads,
            length,
            total,
            size,
            value_size,
        })
    }

    /// Query heads of a key/value head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    fn work(&self) -> usize {
        [
            self.heads,
            self.length,
            self.total,
            self.size + self.value_size,
        ]
        .into_iter()
        .fold(self.batch, usize::saturating_mul)
    }
}

/// Computes attention. `out` holds a row of `value_size` elements for each `[batch, query_head, position]`, placed by
/// `layout`, so that both `[batch, heads, length, size]` and `[batch, length, heads · size]` results are written
/// directly; other elements of `out` are left alone.
///
/// # Errors
/// When shapes do not fit, a valid length is outside the keys, or rows of `out` overlap or leave it.
pub fn attention<T: Real>(
    compute: &Compute<'_>,
    problem: &AttentionProblem<'_, T>,
    out: &mut [T],
    layout: &RowLayout,
) -> Result<(), KernelError> {
    T::attention(compute, problem, out, layout)
}

/// [`attention`], where it is compiled.
pub(crate) fn dense_attention<T: Real>(
    compute: &Compute<'_>,
    problem: &AttentionProblem<'_, T>,
    out: &mut [T],
    layout: &RowLayout,
) -> Result<(), KernelError> {
    let core = Core::new(problem)?;
    let rows = [core.batch, core.heads, core.length];
    if layout.shape != rows || layout.len != core.value_size {
        let got = [&layout.shape[..], &[layout.len]].concat();
        let expected = [&rows[..], &[core.value_size]].concat();
        return Err(KernelError::shape("attention output", &expected, &got));
    }
    let cache = DenseCache::new(&problem.key, &problem.value);
    split::run(compute, &core, &cache, out, layout)
}

#[cfg(test)]
mod tests;
