//! Softmax over keys that come tile by tile.
//!
//! For each row there is the largest score so far `top`, the sum of `e^(score - top)`, and the sum of values weighted by
//! the same. When a tile brings a larger score, both sums are multiplied by `e^(old top - new top)`; in the end the
//! weighted sum is divided by the plain one. All exponents are at most 0, so finite scores never overflow. A sink, which
//! is a score without a value, joins the plain sum at that point.

use super::visibility::TILE;
use crate::simd::Simd;
use crate::storage::Accumulator;
use crate::vecmath::bodies;

/// Sums of one row. Where every visible score is negative infinity, as scores that overflow are, the largest is too and
/// `total` is not 0, which tells such a row from one that sees no key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<E> {
    /// Largest score; negative infinity before there is one.
    pub(super) top: E,
    /// Sum of `e^(score - top)`.
    pub(super) total: E,
}

impl<E: Accumulator> Row<E> {
    /// Nothing seen.
    pub(super) fn new() -> Self {
        Row {
            top: E::NEG_INFINITY,
            total: E::ZERO,
        }
    }

    /// Takes over a larger score.
    #[inline(always)]
    pub(super) fn raise(&mut self, top: E) {
        if top > self.top {
            self.top = top;
        }
    }

    /// What sums that refer to this row's largest score are multiplied by to refer to `top`, which is not less.
    #[inline(always)]
    pub(super) fn factor(&self, top: E) -> E {
        if top > self.top {
            (self.top - top).exp()
        } else {
            E::ONE
        }
    }

    /// Turns the scores of some tiles into weights, those of invisible keys into 0, and rescales the row's `weighted` sum
    /// to the new largest score. `visible` has the visible keys of each tile.
    #[inline(always)]
    pub(super) fn take<S: Simd<E>>(
        &mut self,
        s: S,
        scores: &mut [E],
        visible: impl Iterator<Item = u64>,
        weighted: &mut [E],
    ) {
        let mut any = false;
        for (scores, visible) in scores.chunks_exact_mut(TILE).zip(visible) {
            any |= visible != 0;
            match visible {
                u64::MAX => {}
                0 => scores.fill(E::NEG_INFINITY),
                _ => {
                    for (j, score) in scores.iter_mut().enumerate() {
                        if visible >> j & 1 == 0 {
                            *score = E::NEG_INFINITY;
                        }
                    }
                }
            }
        }
        let largest = bodies::max(s, scores);
        let top = if largest > self.top {
            largest
        } else {
            self.top
        };
        if top == E::NEG_INFINITY && !(any && scores.iter().any(|x| x.is_nan())) {
            scores.fill(E::ZERO); // no key so far, or none with a weight
            self.meet(any);
            return;
        }
        if top > self.top {
            let factor = (self.top - top).exp();
            self.total *= factor;
            bodies::scale(s, weighted, factor);
            self.top = top;
        }
        self.total += bodies::exp_sum(s, scores, top);
    }

    /// Notes whether a key was seen while there is no score above negative infinity.
    #[inline(always)]
    pub(super) fn meet(&mut self, seen: bool) {
        if seen && self.top == E::NEG_INFINITY && self.total == E::ZERO {
            self.total = E::ONE; // multiplied by 0 once there is a larger score
        }
    }

    /// Divides the weighted sum; zeros when no key was seen, NaN when no score of a key is above negative infinity, as the
    /// formula has it.
    #[inline(always)]
    pub(super) fn finish<S: Simd<E>>(&self, s: S, weighted: &mut [E], sink: Option<E>) {
        if self.total == E::ZERO {
            weighted.fill(E::ZERO);
            return;
        }
        let (mut top, mut factor, mut total) = (self.top, E::ONE, self.total);
        if let Some(sink) = sink {
            if sink > top {
                top = sink;
            }
            factor = self.factor(top);
            total = total * factor + (sink - top).exp();
        }
        if top == E::NEG_INFINITY {
            weighted.fill(E::from_f64(f64::NAN));
        } else {
            bodies::scale(s, weighted, factor / total);
        }
    }
}

/// `score = softcap(score) + bias` for scores that are scaled already.
#[inline(always)]
pub(super) fn adjust<E: Accumulator, S: Simd<E>>(
    s: S,
    scores: &mut [E],
    softcap: E,
    bias: Option<&[E]>,
) {
    if softcap != E::ZERO {
        let cap = s.splat(softcap);
        for part in scores.chunks_exact_mut(S::LANES) {
            // A product with the inverse would be NaN at 0 for caps whose inverse is infinite.
            let v = s.div(s.load(part), cap);
            s.store(s.mul(bodies::tanh_vector(s, v), cap), part);
        }
    }
    if let Some(bias) = bias {
        for (part, bias) in scores
            .chunks_exact_mut(S::LANES)
            .zip(bias.chunks_exact(S::LANES))
        {
            s.store(s.add(s.load(part), s.load(bias)), part);
        }
    }
}
