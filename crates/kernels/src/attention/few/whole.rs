//! The loops over rows of whole registers.

use super::any::sum_up;
use super::{Keys, Values, ask};
use crate::attention::visibility::SPAN;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};

/// Values that are read at a time where several passes do: few, so that the memory is never left alone for long.
const NEAR: usize = 8;

/// Products of `R` query rows with keys of `W` registers.
pub(super) struct Score<'a, T: Real, const R: usize, const W: usize>(pub(super) Keys<'a, T>);

impl<T: Real, const R: usize, const W: usize> Op<T::Acc> for Score<'_, T, R, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(mut self, s: S) {
        for head in 0..self.0.keys.heads {
            let (queries, keys, scores) = self.0.of(head);
            let queries = &queries[..R * W * S::LANES];
            match R {
                1 => one::<T, S, W>(s, queries, (keys.head(0), keys.next(0)), scores),
                _ => several::<T, S, R, W>(s, queries, (keys.head(0), keys.next(0)), scores),
            }
        }
    }
}

/// Products of a single query row, which stays in registers. A key is the operand of one chain of sums, in the order of its
/// cache lines; the chains of neighbours run side by side.
#[inline(always)]
fn one<T: Real, S: Simd<T::Acc>, const W: usize>(
    s: S,
    query: &[T::Acc],
    (keys, next): (&[T], &[T]),
    scores: &mut [T::Acc],
) {
    let l = S::LANES;
    let mut held = [s.splat(T::Acc::ZERO); W];
    for (d, slot) in held.iter_mut().enumerate() {
        *slot = s.load(&query[d * l..]);
    }
    for (j, (key, score)) in keys.chunks_exact(W * l).zip(scores).enumerate() {
        ask(s, next, j, W * l);
        let mut acc = s.mul(held[0], T::load(s, key));
        for d in 1..W {
            acc = s.fma(held[d], T::load(s, &key[d * l..]), acc);
        }
        *score = s.sum(acc);
    }
}

/// Products of `R` query rows. Two keys are held in registers, so that what is loaded of the query rows serves both.
#[inline(always)]
fn several<T: Real, S: Simd<T::Acc>, const R: usize, const W: usize>(
    s: S,
    queries: &[T::Acc],
    (keys, next): (&[T], &[T]),
    scores: &mut [T::Acc],
) {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut j = 0;
    for pair in keys.chunks_exact(2 * W * l) {
        ask(s, next, j, W * l);
        ask(s, next, j + 1, W * l);
        let mut k = [[zero; W]; 2];
        for (n, k) in k.iter_mut().enumerate() {
            for (d, k) in k.iter_mut().enumerate() {
                *k = s.in_turn(T::load(s, &pair[(n * W + d) * l..]));
            }
        }
        let mut acc = [[zero; R]; 2];
        for d in 0..W {
            for r in 0..R {
                let q = s.load(&queries[(r * W + d) * l..]);
                acc[0][r] = s.fma(q, k[0][d], acc[0][r]);
                acc[1][r] = s.fma(q, k[1][d], acc[1][r]);
            }
        }
        let scores = &mut scores[j..][..(R - 1) * SPAN + 2];
        sum_up::<T, S, R>(s, acc[0], scores);
        sum_up::<T, S, R>(s, acc[1], &mut scores[1..]);
        j += 2;
    }
    for key in keys[j * W * l..].chunks_exact(W * l) {
        let mut acc = [zero; R];
        for d in 0..W {
            let k = s.in_turn(T::load(s, &key[d * l..]));
            for r in 0..R {
                acc[r] = s.fma(s.load(&queries[(r * W + d) * l..]), k, acc[r]);
            }
        }
        sum_up::<T, S, R>(s, acc, &mut scores[j..][..(R - 1) * SPAN + 1]);
        j += 1;
    }
}

/// Adds values of `W` registers to the sums of at most `M` query rows at a time.
pub(super) struct Add<'a, T: Real, const M: usize, const W: usize>(pub(super) Values<'a, T>);

impl<T: Real, const M: usize, const W: usize> Op<T::Acc> for Add<'_, T, M, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let Values {
            weights,
            line,
            values,
            sums,
            stride,
        } = self.0;
        let width = W * S::LANES;
        let step = if line > M { NEAR } else { SPAN };
        for head in 0..values.heads {
            let next = values.next(head);
            for (n, some) in values.head(head).chunks(step * width).enumerate() {
                let mut next = next.get(n * step * width..).unwrap_or(&[]);
                let mut i = 0;
                while i < line {
                    let row = head * line + i;
                    let weights = &weights[row * SPAN + n * step..];
                    let sums = (&mut sums[row * stride..], stride);
                    i += match M.min(line - i) {
                        4 => add::<T, S, 4, W>(s, weights, (some, next), sums),
                        3 => add::<T, S, 3, W>(s, weights, (some, next), sums),
                        2 => add::<T, S, 2, W>(s, weights, (some, next), sums),
                        _ => add::<T, S, 1, W>(s, weights, (some, next), sums),
                    };
                    next = &[]; // was asked for
                }
            }
        }
    }
}

/// Adds values to the sums of `R` query rows; returns `R`.
#[inline(always)]
fn add<T: Real, S: Simd<T::Acc>, const R: usize, const W: usize>(
    s: S,
    weights: &[T::Acc],
    (values, next): (&[T], &[T]),
    (sums, stride): (&mut [T::Acc], usize),
) -> usize {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut acc = [[zero; W]; R];
    for r in 0..R {
        let sums = &sums[r * stride..][..W * l];
        for c in 0..W {
            acc[r][c] = s.load(&sums[c * l..]);
        }
    }
    for (j, row) in values.chunks_exact(W * l).enumerate() {
        ask(s, next, j, W * l);
        let weights = &weights[j..][..(R - 1) * SPAN + 1];
        if R == 1 {
            // Operands of the sums, in the order of the cache lines.
            let w = s.splat(weights[0]);
            for c in 0..W {
                acc[0][c] = s.fma(w, T::load(s, &row[c * l..]), acc[0][c]);
            }
            continue;
        }
        let mut v = [zero; W];
        for (c, v) in v.iter_mut().enumerate() {
            *v = s.in_turn(T::load(s, &row[c * l..]));
        }
        for r in 0..R {
            let w = s.splat(weights[r * SPAN]);
            for c in 0..W {
                acc[r][c] = s.fma(w, v[c], acc[r][c]);
            }
        }
    }
    for r in 0..R {
        let sums = &mut sums[r * stride..][..W * l];
        for c in 0..W {
            s.store(acc[r][c], &mut sums[c * l..]);
        }
    }
    R
}
