//! Products of few query rows with rows of keys, and of weights with rows of values, of one element type: each row is
//! turned into numbers once for up to four query rows.
//!
//! Rows follow one another in memory and are read from end to end, one after the other. That is what the processor foresees:
//! it fetches one long stream at the speed of the memory, but four streams side by side, rows behind a list of pointers, or
//! the cache lines of a row out of their order, at half of it.
//!
//! The loops are computations of their own ([`Simd::apart`]), so that the compiler keeps all that they need in registers: a
//! processor that waits for rows must not wait for addresses too. Nor must it begin often: each takes as many rows as it can.

mod any;
mod whole;

use super::cache::Weights;
use super::visibility::{SPAN, TILE};
use crate::matmul::micro::axpys;
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use refeed_values::{Element, Slabs};

/// Rows that are worked on at a time where several passes read them: they stay in the first cache.
const STEP: usize = 16;

/// Whether the register file holds four query rows times four vectors besides the operands.
#[inline(always)]
const fn wide_file<E: Accumulator, S: Simd<E>>() -> bool {
    S::TILE_ROWS == 12
}

/// Rows of some heads; those of one head follow one another.
#[derive(Clone, Copy)]
pub(super) struct Run<'r, U> {
    lie: Lie<'r, U>,
    first: usize,
    /// Rows of a head; at most those of a span.
    pub(super) tokens: usize,
    /// Units of a row.
    pub(super) width: usize,
    /// Heads.
    pub(super) heads: usize,
    /// What is read next and lies elsewhere.
    next: &'r [U],
    /// Slabs that are read later, as these.
    later: Option<&'r Slabs<U>>,
}

/// Where rows lie.
#[derive(Clone, Copy)]
enum Lie<'r, U> {
    /// Those of each head behind those of the one before.
    Here(&'r [U]),
    /// Those of each head in a slab, from this one on.
    Slabs(&'r Slabs<U>, usize),
}

impl<'r, U: Element> Run<'r, U> {
    /// All rows of `heads` heads, of `width` units each.
    #[inline(always)]
    pub(super) fn new(units: &'r [U], [heads, tokens, width]: [usize; 3]) -> Run<'r, U> {
        Run {
            lie: Lie::Here(units),
            first: 0,
            tokens,
            width,
            heads,
            next: &[],
            later: None,
        }
    }

    /// Rows `first..first + tokens` of `heads` slabs from slab `slab` on.
    #[inline(always)]
    pub(super) fn slabs(
        (slabs, slab): (&'r Slabs<U>, usize),
        first: usize,
        [heads, tokens, width]: [usize; 3],
    ) -> Run<'r, U> {
        Run {
            lie: Lie::Slabs(slabs, slab),
            first,
            tokens,
            width,
            heads,
            next: &[],
            later: None,
        }
    }

    /// The same before rows that lie elsewhere.
    #[inline(always)]
    pub(super) fn before(self, next: &'r [U]) -> Run<'r, U> {
        let last = match self.heads {
            0 => &[],
            heads => self.head(heads - 1),
        };
        match last.as_ptr_range().end == next.as_ptr() {
            true => self, // what follows in memory is foreseen
            false => Run { next, ..self },
        }
    }

    /// The same before slabs that are read later, each head's after the same head's rows of some other slabs.
    #[inline(always)]
    pub(super) fn long_before(self, later: Option<&'r Slabs<U>>) -> Run<'r, U> {
        Run { later, ..self }
    }

    /// What is read later of a head, in slabs of its own.
    #[inline(always)]
    pub(super) fn later(self, head: usize) -> &'r [U] {
        match (self.lie, self.later) {
            (Lie::Slabs(_, slab), Some(later)) => later.get(slab + head).unwrap_or_default(),
            _ => &[],
        }
    }

    /// What to ask for while the rows of a head are read: those behind them, unless all that follows is foreseen.
    #[inline(always)]
    pub(super) fn next(self, head: usize) -> &'r [U] {
        match self.next.is_empty() {
            true => &[],
            false => self.behind(head),
        }
    }

    /// The rows that are read after those of a head.
    #[inline(always)]
    fn behind(self, head: usize) -> &'r [U] {
        match head + 1 < self.heads {
            true => self.head(head + 1),
            false => self.next,
        }
    }

    /// Rows `first..first + tokens` of these, of head `head` alone.
    #[inline(always)]
    pub(super) fn part(self, head: usize, first: usize, tokens: usize) -> Run<'r, U> {
        let units = &self.head(head)[first * self.width..][..tokens * self.width];
        let next = self.next(head).get(first * self.width..);
        Run {
            next: next.unwrap_or_default(),
            ..Run::new(units, [1, tokens, self.width])
        }
    }

    /// The rows of a head alone, before those of the next one.
    #[inline(always)]
    pub(super) fn one(self, head: usize) -> Run<'r, U> {
        Run {
            next: self.behind(head),
            ..Run::new(self.head(head), [1, self.tokens, self.width])
        }
    }

    /// The rows of a head.
    #[inline(always)]
    pub(super) fn head(self, head: usize) -> &'r [U] {
        let each = self.tokens * self.width;
        match self.lie {
            Lie::Here(units) => &units[head * each..][..each],
            Lie::Slabs(slabs, slab) => {
                let rows = slabs.get(slab + head).unwrap_or_default();
                &rows[self.first * self.width..][..each]
            }
        }
    }
}

/// Asks for row `j` of what is read next, if there is one.
#[inline(always)]
pub(super) fn ask<U, E: Accumulator, S: Simd<E>>(s: S, next: &[U], j: usize, width: usize) {
    if let Some(row) = next.get(j * width..(j + 1) * width) {
        s.prefetch(row);
    }
}

/// Products of some query rows of each head with its keys; that of query row `i` of head `h` and key `j` goes to
/// `scores[(h * line + i) * SPAN + j]`.
struct Keys<'a, T: Real> {
    /// `line` rows a head.
    queries: &'a [T::Acc],
    line: usize,
    keys: Run<'a, T>,
    scores: &'a mut [T::Acc],
}

impl<T: Real> Keys<'_, T> {
    /// Queries, keys and scores of a head.
    #[inline(always)]
    fn of(&mut self, head: usize) -> (&[T::Acc], Run<'_, T>, &mut [T::Acc]) {
        let row = head * self.line;
        let keys = self.keys.part(head, 0, self.keys.tokens);
        let queries = &self.queries[row * self.keys.width..];
        (queries, keys, &mut self.scores[row * SPAN..])
    }
}

/// Values, to be added to the sums of `line` query rows a head, `stride` apart. Query row `i` of head `h` weighs value `j` by
/// `weights[(h * line + i) * SPAN + j]`.
struct Values<'a, T: Real> {
    weights: &'a [T::Acc],
    line: usize,
    values: Run<'a, T>,
    sums: &'a mut [T::Acc],
    stride: usize,
}

/// Products of `line` query rows of each head with all its keys; that of query row `i` of head `h` and key `j` goes to
/// `scores[(h * line + i) * SPAN + j]`.
#[inline(always)]
pub(super) fn score_run<T: Real, S: Simd<T::Acc>>(
    s: S,
    (queries, line): (&[T::Acc], usize),
    keys: Run<'_, T>,
    scores: &mut [T::Acc],
) {
    let size = keys.width;
    let most = if const { wide_file::<T::Acc, S>() } {
        4
    } else {
        2
    };
    if line <= most {
        let keys = Keys {
            queries,
            line,
            keys,
            scores,
        };
        score_rows(s, keys, [line, line]);
        return;
    }
    for head in 0..keys.heads {
        for first in (0..keys.tokens).step_by(STEP) {
            let mut some = keys.part(head, first, STEP.min(keys.tokens - first));
            let mut i = 0;
            while i < line {
                let row = head * line + i;
                let keys = Keys {
                    queries: &queries[row * size..],
                    line: most.min(line - i),
                    keys: some,
                    scores: &mut scores[row * SPAN + first..],
                };
                i += score_rows(s, keys, [most.min(line - i), line]);
                some.next = &[]; // was asked for
            }
        }
    }
}

/// [`score`] for `rows` query rows of `line`.
#[inline(always)]
fn score_rows<T: Real, S: Simd<T::Acc>>(
    s: S,
    keys: Keys<'_, T>,
    [rows, line]: [usize; 2],
) -> usize {
    match rows {
        4 if const { wide_file::<T::Acc, S>() } => score::<T, S, 4>(s, keys, line),
        3 if const { wide_file::<T::Acc, S>() } => score::<T, S, 3>(s, keys, line),
        2 => score::<T, S, 2>(s, keys, line),
        _ => score::<T, S, 1>(s, keys, line),
    }
}

/// The loop that suits the length of a row, for `R` query rows a head of `line`; returns `R`.
#[inline(always)]
fn score<T: Real, S: Simd<T::Acc>, const R: usize>(s: S, keys: Keys<'_, T>, line: usize) -> usize {
    let size = keys.keys.width;
    if size == 8 * S::LANES {
        s.apart(whole::Score::<T, R, 8>(keys));
    } else if R == 1 && size == 4 * S::LANES {
        s.apart(whole::Score::<T, R, 4>(keys));
    } else if line > 1 && size < 8 * S::LANES {
        s.apart(any::ScoreClose::<T, R>(keys));
    } else {
        s.apart(any::Score::<T, R>(keys));
    }
    R
}

/// Adds values that every query row sees to the sums of `line` rows a head, `stride` apart. Query row `i` of head `h` weighs value
/// `j` by `weights[(h * line + i) * SPAN + j]`.
#[inline(always)]
pub(super) fn add_run<T: Real, S: Simd<T::Acc>>(
    s: S,
    (weights, line): (&[T::Acc], usize),
    values: Run<'_, T>,
    (sums, stride): (&mut [T::Acc], usize),
) {
    let width = values.width;
    if width == 0 {
        return;
    }
    let values = Values {
        weights,
        line,
        values,
        sums,
        stride,
    };
    // Half of a wide register file holds the sums of a block: long rows are read from end to end for two query rows rather
    // than in halves for four.
    let wide = const { wide_file::<T::Acc, S>() };
    if wide && width == 8 * S::LANES {
        s.apart(whole::Add::<T, 2, 8>(values));
    } else if wide && width == 4 * S::LANES {
        s.apart(whole::Add::<T, 4, 4>(values));
    } else if wide && width < 4 * S::LANES {
        s.apart(any::Add::<T, 4>(values));
    } else {
        s.apart(any::Add::<T, 2>(values));
    }
}

/// Adds a value to the sums of those rows only that see it; `place` is the value's place in the span.
#[inline(always)]
pub(super) fn add_apart<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: Weights<'_, T::Acc>,
    (value, place): (&[T], usize),
    sums: &mut [T::Acc],
    stride: usize,
) {
    for (i, own) in weights.own.iter().enumerate() {
        if own[place / TILE] >> (place % TILE) & 1 == 1 {
            let w = [weights.values[i * SPAN + place]];
            let sums = &mut sums[i * stride..][..value.len()];
            axpys(s, w, [value], sums);
        }
    }
}
