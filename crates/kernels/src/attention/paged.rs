//! Attention to a cache in pages, and to new keys and values behind it.
//!
//! Pages say themselves how their keys and values are stored, and are prepared once, in groups ([`PageGroup`]). The walk over keys is that of every cache
//! (`cache`): a page is a segment, and neighbouring short pages that are stored alike are one, copied to one place. Few query
//! rows meet a page with all heads at once (`decode`), as its rows lie in memory. Codes are multiplied as they are, `q·k = scale · (Σ q·code - zero · Σ q)` (`rows`, `digits`), and no decoded
//! copy of them is written; only layouts whose scales change within a row, and rows that begin within a byte, are decoded
//! first, sixteen rows at a time (`apart`).
//!
//! What is not finite in a visible row shows in the result. Then the computation is done once more in f64 (`exact`),
//! element by element: it finds the place, or the result after all.

mod decode;
mod exact;
mod group;
mod head;
pub(super) mod ops;
mod payload;
#[cfg(test)]
mod tests;

pub use group::{GroupError, PageGroup};

use super::{Core, Visibility, default_scale, split};
use crate::pool::RowLayout;
use crate::quantize::QuantizeError;
use crate::{Compute, KernelError};
use head::PagedCache;
use refeed_values::View;
use std::sync::Arc;
use thiserror::Error;

/// Attention to pages and to what is new. Extents: `query_heads` is a multiple of `kv_heads`.
#[derive(Debug, Clone)]
pub struct PagedProblem<'a> {
    /// `[batch, query_heads, length, head_size]`
    pub query: View<'a, f32>,
    /// `[batch, kv_heads, length, head_size]`, dense; its rows follow the last page.
    pub key: View<'a, f32>,
    /// `[batch, kv_heads, length, value_size]`, dense.
    pub value: View<'a, f32>,
    /// The pages in order, without gaps. Those before the first visible token may be left out.
    pub pages: &'a [Arc<PageGroup>],
    /// Position of the first new token.
    pub past: usize,
    /// Whether a query sees no later token.
    pub causal: bool,
    /// How many tokens before its own a query sees; `None`: all.
    pub left_window: Option<u64>,
    /// How exactly codes are multiplied.
    pub query_precision: QueryPrecision,
}

/// How exactly queries and weights are multiplied with the codes of a cache, where the processor multiplies bytes (AVX-512 VNNI);
/// elsewhere, and for rows of FLOAT, FLOAT16 and BFLOAT16, all is as exact as FLOAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryPrecision {
    /// As exactly as FLOAT.
    #[default]
    Full,
    /// Queries are rounded to eight bits, weights to sixteen: each number of a query by at most 1/254 of the largest one of its
    /// row, so that a score is wrong by at most `max|q| / 254 * sum|k| / sqrt(head_size)`, each weight by at most `2^-17` of the
    /// largest among the 64 keys that are read with it. Query rows whose largest magnitude is more than 8 times the mean magnitude, and
    /// more than 16 rows that share a head of keys, are not rounded.
    Int8,
}

/// What a computation did beside its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PagedWork {
    /// FLOAT bytes of the codes that were computed with, turned into numbers or as they are, each time that they were.
    pub decoded_bytes: u64,
    /// Bytes of the memory that one task works in.
    pub tile_bytes: u64,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PagedError {
    /// Extents do not fit each other.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A visible row of a page holds what cannot be computed with.
    #[error("{field} of the page that starts at {start}: {source}")]
    Page {
        /// Position of the page's first token.
        start: usize,
        /// `key` or `value`.
        field: &'static str,
        /// What is wrong.
        source: QuantizeError,
    },
}

/// Computes `softmax(q·k / sqrt(head_size)) · v` over all visible tokens; `out` is dense
/// `[batch, query_heads, length, value_size]`. Queries, new keys and new values are finite.
///
/// ```
/// use refeed_kernels::attention::paged::{PageGroup, PagedProblem, QueryPrecision, paged_attention};
/// use refeed_kernels::Compute;
/// use refeed_values::paged_cache::page_of;
/// use refeed_values::{Tensor, View};
/// use std::sync::Arc;
/// let rows = |rows: &[f32]| Tensor::from_slice(&[1, 1, rows.len(), 1], rows);
/// let (start, length) = (Tensor::scalar(0i64)?, Tensor::scalar(2i64)?);
/// let page = page_of(start, length, rows(&[0.0, 0.0])?.into(), rows(&[1.0, 2.0])?.into())?;
/// let pages = [Arc::new(PageGroup::of([&page])?)];
/// let one = |x: &'static [f32]| View::from_slice(x, &[1, 1, 1, 1]).unwrap();
/// let problem = PagedProblem {
///     query: one(&[1.0]), key: one(&[0.0]), value: one(&[6.0]), pages: &pages, past: 2, causal: true, left_window: None,
///     query_precision: QueryPrecision::Full,
/// };
/// let mut out = [0.0];
/// paged_attention(&Compute::default(), &problem, &mut out)?;
/// assert_eq!(out, [3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When extents do not fit, or a visible row of a page is not finite.
pub fn paged_attention(
    compute: &Compute<'_>,
    problem: &PagedProblem<'_>,
    out: &mut [f32],
) -> Result<PagedWork, PagedError> {
    let (&[batch, heads, length, size], &[_, kv_heads, _, width]) =
        (problem.query.shape(), problem.value.shape())
    else {
        return Err(PagedError::Kernel(KernelError::Rank {
            operand: "query and value",
            expected: "4 axes",
            got: problem.query.rank().min(problem.value.rank()),
        }));
    };
    let start = [i64::try_from(problem.past).unwrap_or(i64::MAX)];
    let visibility = Visibility {
        causal: problem.causal,
        left_window: problem.left_window,
        query_start: &start,
        ..Visibility::default()
    };
    let total = problem.past.saturating_add(length);
    let extents = [kv_heads, total, size, width];
    let factors = (default_scale(size), 0.0);
    let core = Core::over(&problem.query, factors, &visibility, extents)?;
    let mut cache = PagedCache::new(compute.isa, problem, [batch, kv_heads, length, size, width])?;
    cache.queries = decode::all_arranged(&core, &cache);
    let rows = [batch, heads, length];
    let layout = RowLayout::contiguous(rows, width).ok_or(KernelError::Length {
        operand: "attention output",
        expected: usize::MAX,
        got: out.len(),
    })?;
    KernelError::check_len("attention output", layout.rows() * width, out.len())?;
    split::run(compute, &core, &cache, out, &layout)?;
    if !compute.pool.ended() && !out.iter().all(|x| x.is_finite()) {
        exact::attention(problem, [heads, kv_heads], out)?;
    }
    let own = heads / kv_heads.max(1) * length;
    let line = match own <= split::FEW {
        true => heads * length, // those of all heads are one task's
        false => own,
    };
    Ok(PagedWork {
        decoded_bytes: cache.decoded_bytes(),
        tile_bytes: tile_bytes(line, size, width),
    })
}

/// Bytes of queries in their three orders, scores, weights and sums of one block of rows.
fn tile_bytes(line: usize, size: usize, width: usize) -> u64 {
    let rows = line.min(split::BLOCK) as u64;
    let row = [size, 3 * size, width, super::visibility::SPAN];
    let row = row
        .iter()
        .fold(0u64, |sum, x| sum.saturating_add(*x as u64));
    rows.saturating_mul(row).saturating_mul(4)
}
