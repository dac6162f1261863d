//! The matrix of scores itself, which the `Attention` operator gives when asked (`qk_matmul_output`). Not a fast path.

use super::online_softmax::adjust;
use super::visibility::TILE;
use super::{AttentionProblem, Core};
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies;
use crate::{Compute, KernelError};
use refeed_values::View;

/// At which point of the pipeline scores are taken; the numbers are those of `qk_matmul_output_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreStage {
    /// 0: `scale · q·k`, of every key.
    Product = 0,
    /// 1: after the softcap, of every key.
    Capped = 1,
    /// 2: with the mask added; negative infinity for invisible keys.
    Biased = 2,
    /// 3: after softmax, beside the sink if there is one; 0 for invisible keys and for rows that see none.
    Weights = 3,
}

/// Writes scores, row-major `[batch, query_heads, length, total_length]`.
///
/// # Errors
/// As [`super::attention`]; when `out` has another length.
pub fn attention_scores<T: Real>(
    compute: &Compute<'_>,
    problem: &AttentionProblem<'_, T>,
    stage: ScoreStage,
    out: &mut [T],
) -> Result<(), KernelError> {
    let prepared = Core::new(problem)?;
    let Core {
        batch,
        heads,
        length,
        total,
        ..
    } = prepared;
    let elements = [batch, heads, length]
        .into_iter()
        .fold(total, usize::saturating_mul);
    KernelError::check_len("attention scores", elements, out.len())?;
    if elements == 0 {
        return Ok(());
    }
    let parallel = compute.parallel(prepared.work());
    compute.pool.chunks(out, total, parallel, |index, out| {
        let row = ScoreRow {
            problem: &prepared,
            key: &problem.key,
            stage,
            at: [
                index / (heads * length),
                index / length % heads,
                index % length,
            ],
            out,
        };
        T::Acc::dispatch(compute.isa, row);
    });
    Ok(())
}

struct ScoreRow<'t, 'p, 'a, T: Real> {
    problem: &'t Core<'p, 'a, T>,
    key: &'t View<'a, T>,
    stage: ScoreStage,
    at: [usize; 3],
    out: &'t mut [T],
}

impl<T: Real> Op<T::Acc> for ScoreRow<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let problem = self.problem;
        let [batch, head, position] = self.at;
        let (size, total) = (problem.size, problem.total);
        let group = head / problem.group().max(1);
        let all = total.next_multiple_of(TILE);
        let mut memory = T::Acc::scratch(2 * size + all + 1 + TILE);
        let (query, rest) = memory.split_at_mut(size);
        let (key, rest) = rest.split_at_mut(size);
        let (scores, bias) = rest.split_at_mut(all + 1);
        let Some(lane) = problem.query.lane(&[batch, head, position]) else {
            return; // the row is in range
        };
        for (x, slot) in lane.iter().zip(&mut *query) {
            *slot = x.to_acc() * problem.scale;
        }
        let masked = matches!(self.stage, ScoreStage::Biased | ScoreStage::Weights);
        let softcap = if self.stage == ScoreStage::Product {
            T::Acc::ZERO
        } else {
            problem.softcap
        };
        let range = problem.visible.range(batch, position);
        let mut seen = false;
        for start in (0..total).step_by(TILE) {
            let visible = if masked {
                problem.visible.tile(self.at, range, start, bias)
            } else {
                u64::MAX
            };
            seen |= visible != 0;
            let tile = &mut scores[start..start + TILE];
            for (j, slot) in tile.iter_mut().enumerate() {
                *slot = T::Acc::ZERO;
                if visible >> j & 1 == 0 {
                    continue;
                }
                let Some(lane) = self.key.lane(&[batch, group, start + j]) else {
                    continue; // beyond the last key
                };
                for (x, slot) in lane.iter().zip(&mut *key) {
                    *slot = x.to_acc();
                }
                *slot = bodies::dot(s, query, key);
            }
            let summands = (masked && problem.visible.has_bias()).then_some(&*bias);
            adjust(s, tile, softcap, summands);
            for (j, slot) in tile.iter_mut().enumerate() {
                if visible >> j & 1 == 0 {
                    *slot = T::Acc::NEG_INFINITY;
                }
            }
        }
        if self.stage == ScoreStage::Weights {
            match problem.visible.sink(head) {
                _ if !seen => scores.fill(T::Acc::ZERO),
                None => bodies::softmax(s, &mut scores[..total]),
                Some(sink) => {
                    scores[total] = sink;
                    bodies::softmax(s, &mut scores[..=total]);
                }
            }
        }
        for (x, slot) in scores.iter().zip(self.out) {
            *slot = T::from_acc(*x);
        }
    }
}
