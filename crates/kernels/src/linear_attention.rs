//! Attention with a state of fixed size: a matrix for each head that every token updates and every query reads.
//!
//! `S = exp(g) * S`, then `S += k ⊗ v` or, by the delta rule, `S += beta * k ⊗ (v - k · S)`; the output is
//! `scale * q · S`. Tokens follow one another, so one call of many tokens and many calls of one give the same bits, as
//! long as the state is of the type that is computed in. Heads and batch rows are apart: each is a task.
//!
//! Source: <https://onnx.ai/onnx/operators/onnx__LinearAttention.html>; S. Yang et al., *Gated Delta Networks*, 2024.

mod gate;

pub use gate::{decay_gate, rate_gate};

use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use crate::{Compute, KernelError};
use refeed_values::View;

/// How a token changes the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateRule {
    /// `S += k ⊗ v`
    Linear,
    /// The same, after the state decayed.
    Gated,
    /// `S += beta * k ⊗ (v - k · S)`
    Delta,
    /// The same, after the state decayed.
    GatedDelta,
}

impl UpdateRule {
    /// Whether the state decays.
    pub fn decays(self) -> bool {
        matches!(self, UpdateRule::Gated | UpdateRule::GatedDelta)
    }

    /// Whether what the state already holds of a key is taken off its value.
    pub fn is_delta(self) -> bool {
        matches!(self, UpdateRule::Delta | UpdateRule::GatedDelta)
    }
}

/// Operands. Heads lie side by side in the last axis: `[batch, length, heads * width]`.
#[derive(Debug, Clone)]
pub struct LinearAttentionProblem<'a, T, P> {
    /// How a token changes the state.
    pub rule: UpdateRule,
    /// Heads of the query, of the key, and of value and state. Of each two of them one is a multiple of the other; a head
    /// of the smaller serves neighbouring ones of the larger.
    pub heads: [usize; 3],
    /// Factor of the output.
    pub scale: f32,
    /// Queries.
    pub query: View<'a, T>,
    /// Keys, as wide as queries.
    pub key: View<'a, T>,
    /// Values.
    pub value: View<'a, T>,
    /// The state before, `[batch, heads, key width, value width]`; zeros where it is absent.
    pub past: Option<View<'a, P>>,
    /// Logarithm of the decay: a number for each head of the state, or for each of its rows.
    pub decay: Option<View<'a, T>>,
    /// Rate of the update: a number for each head of the state, or one for all.
    pub beta: Option<View<'a, T>>,
}

/// Checked extents.
#[derive(Debug, Clone, Copy)]
struct Extents {
    batch: usize,
    length: usize,
    /// Of the query, the key, the state.
    heads: [usize; 3],
    key: usize,
    value: usize,
    /// Heads of the output, and those of one head of the state.
    out_heads: usize,
    shared: usize,
    /// Decays of a head of the state; 0 without.
    decays: usize,
    /// Rates of a token; 0 without.
    rates: usize,
}

impl<T: Real, P: Real<Acc = T::Acc>> LinearAttentionProblem<'_, T, P> {
    /// Shape of the output, `[batch, length, heads * value width]`, and of the state.
    ///
    /// # Errors
    /// When the operands do not fit each other.
    pub fn shapes(&self) -> Result<([usize; 3], [usize; 4]), KernelError> {
        let e = self.extents()?;
        let columns = e.out_heads.saturating_mul(e.value);
        Ok((
            [e.batch, e.length, columns],
            [e.batch, e.heads[2], e.key, e.value],
        ))
    }

    fn extents(&self) -> Result<Extents, KernelError> {
        let rank = |operand, got| KernelError::Rank {
            operand,
            expected: "three axes: batch, length, heads x width",
            got,
        };
        let three = |operand, view: &View<'_, T>| -> Result<[usize; 3], KernelError> {
            let shape = view.shape();
            shape.try_into().map_err(|_| rank(operand, shape.len()))
        };
        let [batch, length, queries] = three("query", &self.query)?;
        let [_, _, values] = three("value", &self.value)?;
        let [q, k, s] = self.heads;
        let fits = |a: usize, b: usize| a.is_multiple_of(b) || b.is_multiple_of(a);
        if q == 0 || k == 0 || s == 0 || !fits(q, s) || !s.is_multiple_of(k) {
            return Err(KernelError::Heads {
                query_heads: q,
                kv_heads: s,
            });
        }
        let (key, value) = (queries / q, values / s);
        for (operand, view, columns) in [
            ("query", &self.query, q * key),
            ("key", &self.key, k * key),
            ("value", &self.value, s * value),
        ] {
            let expected = [batch, length, columns];
            if view.shape() != expected {
                return Err(KernelError::shape(operand, &expected, view.shape()));
            }
        }
        let gate = |operand, view: &Option<View<'_, T>>, needed: bool, counts: [usize; 2]| {
            let Some(view) = view.as_ref().filter(|_| needed) else {
                return match needed {
                    true => Err(KernelError::shape(
                        operand,
                        &[batch, length, counts[0]],
                        &[],
                    )),
                    false => Ok(0),
                };
            };
            let given = counts
                .into_iter()
                .find(|n| view.shape() == [batch, length, *n]);
            given.ok_or_else(|| {
                KernelError::shape(operand, &[batch, length, counts[0]], view.shape())
            })
        };
        let decays = gate("decay", &self.decay, self.rule.decays(), [s, s * key])?;
        let rates = gate("beta", &self.beta, self.rule.is_delta(), [s, 1])?;
        if let Some(past) = &self.past {
            let expected = [batch, s, key, value];
            if past.shape() != expected {
                return Err(KernelError::shape("past_state", &expected, past.shape()));
            }
        }
        Ok(Extents {
            batch,
            length,
            heads: self.heads,
            key,
            value,
            out_heads: q.max(s),
            shared: (q / s).max(1),
            decays: decays / s,
            rates,
        })
    }
}

/// Tokens that are computed before their outputs are put in place.
const TOKENS: usize = 32;

/// Writes the output and the new state, both row-major with the shapes of [`LinearAttentionProblem::shapes`].
///
/// # Errors
/// When operands or outputs do not fit each other.
pub fn linear_attention<T: Real, P: Real<Acc = T::Acc>>(
    compute: &Compute<'_>,
    problem: &LinearAttentionProblem<'_, T, P>,
    out: &mut [T],
    present: &mut [P],
) -> Result<(), KernelError> {
    let e = problem.extents()?;
    let (shape, state) = problem.shapes()?;
    let elements = |shape: &[usize]| {
        let product = |n: usize, &d: &usize| n.checked_mul(d);
        shape.iter().try_fold(1, product).unwrap_or(usize::MAX)
    };
    KernelError::check_len("output", elements(&shape), out.len())?;
    KernelError::check_len("present_state", elements(&state), present.len())?;
    if out.is_empty() && present.is_empty() {
        return Ok(());
    }
    let [_, _, heads] = e.heads;
    let cells = e.key * e.value;
    // Of each head: the state, then the outputs of some tokens.
    let own = cells + TOKENS.min(e.length) * e.shared * e.value;
    let mut work = T::Acc::scratch(e.batch * heads * own);
    if own > 0 {
        for (index, work) in work.chunks_exact_mut(own).enumerate() {
            let state = &mut work[..cells];
            match &problem.past {
                None => state.fill(T::Acc::ZERO),
                Some(past) => {
                    for row in 0..e.key {
                        let lane = past.lane(&[index / heads, index % heads, row]);
                        let values = lane.iter().flat_map(|lane| lane.iter());
                        for (slot, x) in state[row * e.value..].iter_mut().zip(values) {
                            *slot = x.to_acc();
                        }
                    }
                }
            }
        }
    }
    for first in (0..e.length).step_by(TOKENS) {
        let taken = TOKENS.min(e.length - first);
        let parallel = compute.parallel(e.batch * heads * taken * cells * 2);
        compute
            .pool
            .chunks(&mut work, own, parallel, |index, work| {
                let op = Tokens {
                    problem,
                    e,
                    place: [index / heads, index % heads],
                    tokens: [first, taken],
                    work,
                };
                T::Acc::dispatch(compute.isa, op);
            });
        let width = e.shared * e.value;
        for (index, work) in work.chunks_exact(own.max(1)).enumerate() {
            let (batch, head) = (index / heads, index % heads);
            for token in 0..taken {
                let from = &work[cells + token * width..][..width];
                let at = (batch * e.length + first + token) * e.out_heads * e.value + head * width;
                for (slot, x) in out[at..][..width].iter_mut().zip(from) {
                    *slot = T::from_acc(*x);
                }
            }
        }
    }
    if cells > 0 {
        for (slots, work) in present.chunks_exact_mut(cells).zip(work.chunks_exact(own)) {
            for (slot, x) in slots.iter_mut().zip(work) {
                *slot = P::from_acc(*x);
            }
        }
    }
    Ok(())
}

/// Some tokens of one head of the state.
struct Tokens<'t, 'v, T: Real, P> {
    problem: &'t LinearAttentionProblem<'v, T, P>,
    e: Extents,
    /// Batch row, head.
    place: [usize; 2],
    /// First one, how many.
    tokens: [usize; 2],
    /// The state, then the outputs.
    work: &'t mut [T::Acc],
}

/// `count` numbers of a token, from column `first` on.
#[inline(always)]
fn read<T: Real>(view: &View<'_, T>, [batch, token]: [usize; 2], first: usize, out: &mut [T::Acc]) {
    if let Some(lane) = view.lane(&[batch, token]) {
        match lane.as_slice() {
            Some(dense) => {
                for (slot, x) in out.iter_mut().zip(&dense[first..]) {
                    *slot = x.to_acc();
                }
            }
            None => {
                for (slot, x) in out.iter_mut().zip(lane.iter().skip(first)) {
                    *slot = x.to_acc();
                }
            }
        }
    }
}

impl<T: Real, P: Real<Acc = T::Acc>> Op<T::Acc> for Tokens<'_, '_, T, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, _: S) {
        let (e, problem) = (self.e, self.problem);
        let [batch, head] = self.place;
        let [q_heads, k_heads, heads] = e.heads;
        let (state, outputs) = self.work.split_at_mut(e.key * e.value);
        let mut scratch = T::Acc::scratch(3 * e.key + 2 * e.value + 1);
        let (keys, scratch) = scratch.split_at_mut(e.key);
        let (queries, scratch) = scratch.split_at_mut(e.key);
        let (decays, scratch) = scratch.split_at_mut(e.key);
        let (values, scratch) = scratch.split_at_mut(e.value);
        let (held, rate) = scratch.split_at_mut(e.value);
        let scale = T::Acc::from_f32(problem.scale);
        let key_head = head / (heads / k_heads);
        for token in 0..self.tokens[1] {
            let at = [batch, self.tokens[0] + token];
            read(&problem.key, at, key_head * e.key, keys);
            read(&problem.value, at, head * e.value, values);
            rate.fill(T::Acc::ONE);
            if let Some(beta) = problem.beta.as_ref().filter(|_| e.rates > 0) {
                let column = if e.rates == 1 { 0 } else { head };
                read(beta, at, column, rate);
            }
            if let Some(decay) = problem.decay.as_ref().filter(|_| e.decays > 0) {
                read(decay, at, head * e.decays, &mut decays[..e.decays]);
                for x in &mut decays[..e.decays] {
                    *x = x.exp();
                }
                if e.decays == 1 {
                    let one = decays[0];
                    decays.fill(one);
                }
                for (row, factor) in state.chunks_exact_mut(e.value.max(1)).zip(&*decays) {
                    for x in row {
                        *x *= *factor;
                    }
                }
            }
            if problem.rule.is_delta() {
                held.fill(T::Acc::ZERO);
                for (row, key) in state.chunks_exact(e.value.max(1)).zip(&*keys) {
                    for (sum, x) in held.iter_mut().zip(row) {
                        *sum += *key * *x;
                    }
                }
                for (value, held) in values.iter_mut().zip(&*held) {
                    *value = rate[0] * (*value - *held);
                }
            }
            for (row, key) in state.chunks_exact_mut(e.value.max(1)).zip(&*keys) {
                for (x, value) in row.iter_mut().zip(&*values) {
                    *x += *key * *value;
                }
            }
            for shared in 0..e.shared {
                // As many query heads as state heads or more: its own; fewer: the one that serves this head.
                let query_head = match q_heads >= heads {
                    true => head * e.shared + shared,
                    false => head / (heads / q_heads),
                };
                read(&problem.query, at, query_head * e.key, queries);
                let out = &mut outputs[(token * e.shared + shared) * e.value..][..e.value];
                out.fill(T::Acc::ZERO);
                for (row, query) in state.chunks_exact(e.value.max(1)).zip(&*queries) {
                    for (sum, x) in out.iter_mut().zip(row) {
                        *sum += *query * *x;
                    }
                }
                for x in out {
                    *x *= scale;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
