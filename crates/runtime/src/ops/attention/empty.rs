//! Attention whose result has no element, however large its extents are.
//!
//! An extent of 2^40 beside one of 0 takes no memory and a few bytes of a model. Nothing that loops over it may be reached.

use refeed_kernels::attention::{
    AttentionProblem, ScoreStage, attention as computed, attention_scores,
};
use refeed_kernels::pool::RowLayout;
use refeed_kernels::{Compute, KernelError, Real};

/// The attention kernel; for a result without elements, its checks alone.
pub(super) fn attention<T: Real>(
    compute: &Compute<'_>,
    problem: &AttentionProblem<'_, T>,
    out: &mut [T],
    layout: &RowLayout,
) -> Result<(), KernelError> {
    if !out.is_empty() {
        return computed(compute, problem, out, layout);
    }
    // The kernel of the scores checks the same; then it looks at the number of scores, and here it gets none.
    match attention_scores(compute, problem, ScoreStage::Product, &mut []) {
        Err(KernelError::Length { operand, .. }) if operand == SCORES => Ok(()),
        other => other,
    }
}

/// What the kernel of the scores calls its result.
const SCORES: &str = "attention scores";
