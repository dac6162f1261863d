//! What attention asks of a cache: rows of keys and values of one head, in segments that follow one another.
//!
//! A dense cache is one segment, a paged one has a segment a page. The walk over keys goes in tiles of 64 (with few query
//! rows in spans of several) whose first keys are multiples of their length, so that results do not depend on where segments
//! end; a tile may have several segments and a segment several tiles. How rows are stored is theirs to know: few query rows
//! are multiplied with rows where they lie (`FewHead`), many query rows with rows that were lent or widened first (`Widen`).
//!
//! All methods that take a vector token are `#[inline(always)]`, for the reason given at the crate head.

use super::Core;
use super::split::{Found, Work};
use super::visibility::{TILE, TILES};
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use std::marker::PhantomData;

/// Keys and values of every batch row and head.
pub(super) trait Cache<E: Accumulator>: Sync {
    /// One head of it.
    type Head<'s>: Head<E>
    where
        Self: 's;
    /// Whether rows of all heads lie together, so that one task had better read those of several.
    const TOGETHER: bool = false;

    /// Head `head` of batch row `batch`; `None` when there is none.
    fn head(&self, batch: usize, head: usize) -> Option<Self::Head<'_>>;

    /// Adds the keys of `work`, which has few rows a head, to what was found.
    fn few<T: Real<Acc = E>, S: Simd<E>>(
        &self,
        s: S,
        core: &Core<'_, '_, T>,
        work: Work,
        found: Found<'_, E>,
    );
}

/// Keys and values of one head.
pub(super) trait Head<E: Accumulator> {
    /// Whether a score that is not finite must show as NaN in the result: negative infinity would count as a key without
    /// weight.
    const FINITE: bool = false;
    /// How a segment's keys are read.
    type Keys<'s>: Widen<'s, E>
    where
        Self: 's;
    /// How a segment's values are read.
    type Values<'s>: Widen<'s, E>
    where
        Self: 's;

    /// The segment that holds `key`; `None` ends the walk.
    fn segment(&self, key: usize) -> Option<Segment<Self::Keys<'_>, Self::Values<'_>>>;

    /// The segments that hold keys `low..end` of the `N` tiles from key `start` on, with their parts of them.
    #[inline(always)]
    fn parts<const N: usize>(
        &self,
        (low, end): (usize, usize),
        start: usize,
        seen: [u64; N],
    ) -> Parts<'_, E, Self, N>
    where
        Self: Sized,
    {
        Parts {
            head: self,
            key: start.max(low),
            stop: end.min(start + N * TILE),
            start,
            seen,
            element: PhantomData,
        }
    }
}

/// The segments of some tiles; see [`Head::parts`].
pub(super) struct Parts<'s, E, H, const N: usize> {
    head: &'s H,
    key: usize,
    stop: usize,
    start: usize,
    seen: [u64; N],
    element: PhantomData<E>,
}

impl<'s, E: Accumulator, H: Head<E>, const N: usize> Iterator for Parts<'s, E, H, N> {
    type Item = (Segment<H::Keys<'s>, H::Values<'s>>, Part<N>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.key >= self.stop {
            return None;
        }
        let segment = self.head.segment(self.key)?;
        self.key = segment.end.max(self.key + 1);
        let part = Part::new(&segment, self.start, self.seen);
        Some((segment, part))
    }
}

/// A run of keys that are stored alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<K, V> {
    /// Keys.
    pub(super) keys: K,
    /// Values.
    pub(super) values: V,
    /// The key that row 0 holds.
    pub(super) start: usize,
    /// The key after the last row.
    pub(super) end: usize,
}

/// The rows of a segment that `N` tiles have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<const N: usize> {
    /// The segment's row that is place `at` of the tiles; row `first + n` is place `at + n`.
    pub(super) first: usize,
    /// Place of that row.
    pub(super) at: usize,
    /// Bits of the places that may be read, of this segment only.
    pub(super) seen: [u64; N],
}

impl<const N: usize> Part<N> {
    /// The part that a segment has in the tiles from key `start` on, of which `seen` may be read.
    #[inline(always)]
    pub(super) fn new<K, V>(segment: &Segment<K, V>, start: usize, seen: [u64; N]) -> Part<N> {
        let from = segment.start.max(start);
        let to = segment.end.min(start + N * TILE);
        if from >= to {
            return Part {
                first: 0,
                at: 0,
                seen: [0; N],
            };
        }
        let at = from - start;
        let mut own = seen;
        for (t, own) in own.iter_mut().enumerate() {
            let (low, high) = (at.max(t * TILE), (to - start).min((t + 1) * TILE));
            *own &= match low < high {
                true => u64::MAX >> (TILE - (high - low)) << (low - t * TILE),
                false => 0,
            };
        }
        Part {
            first: from - segment.start,
            at,
            seen: own,
        }
    }

    /// The same without those places that are not in `seen`.
    #[inline(always)]
    pub(super) fn among(mut self, seen: impl Fn(usize) -> u64) -> Part<N> {
        for (t, own) in self.seen.iter_mut().enumerate() {
            *own &= seen(t);
        }
        self
    }

    /// The segment's row at a place.
    #[inline(always)]
    pub(super) fn row(&self, place: usize) -> usize {
        self.first + place - self.at
    }

    /// Runs of neighbouring places that are seen, of at most `most` each: the first place and their number.
    #[inline(always)]
    pub(super) fn runs(self, most: usize) -> impl Iterator<Item = (usize, usize)> {
        let seen = self.seen;
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < N * TILE && seen[at / TILE] >> (at % TILE) == 0 {
                at = (at / TILE + 1) * TILE;
            }
            if at >= N * TILE {
                return None;
            }
            let place = at + (seen[at / TILE] >> (at % TILE)).trailing_zeros() as usize;
            at = place;
            while at < N * TILE && at - place < most {
                let ones = (seen[at / TILE] >> (at % TILE)).trailing_ones() as usize;
                at += ones.min(most - (at - place));
                if ones == 0 || at % TILE != 0 {
                    break;
                }
            }
            Some((place, at - place))
        })
    }
}

/// Rows that can be lent or widened.
pub(super) trait Widen<'a, E: Accumulator> {
    /// Puts the rows of a part at their places, when they are dense and of the accumulator's type; else `false`.
    #[inline(always)]
    fn lend(&self, part: Part<1>, rows: &mut [&'a [E]; TILE]) -> bool {
        let _ = (part, rows);
        false
    }

    /// Writes the rows of a part, widened, to their places in a tile whose rows are `stride` apart.
    fn widen<S: Simd<E>>(&self, s: S, part: Part<1>, out: &mut [E], stride: usize);
}

/// Weights of the values of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights<'w, E> {
    /// Query row `i` weighs place `p` by `values[i * SPAN + p]`.
    pub(super) values: &'w [E],
    /// Which places each query row sees; the weight of others is 0, and what is not finite there must not count.
    pub(super) own: &'w [[u64; TILES]],
    /// Places that every query row sees.
    pub(super) every: [u64; TILES],
}

/// A head whose rows are multiplied with few query rows where they lie.
pub(super) trait FewHead<E: Accumulator>: Head<E> {
    /// Called once before the walk with the query rows, one after another and already scaled: for what depends on them alone.
    #[inline(always)]
    fn begin<S: Simd<E>>(&mut self, s: S, queries: &[E], size: usize) {
        let _ = (s, queries, size);
    }

    /// Products of the keys of a span with the query rows, whose number stands beside them: that of query row `i` and place `p`
    /// goes to `scores[i * SPAN + p]`. Keys that are not among `seen` are not read and their scores left alone.
    fn scores<S: Simd<E>>(&self, s: S, queries: (&[E], usize), span: SpanKeys, scores: &mut [E]);

    /// Adds the values of a span, weighted, to the sums of every query row, which are `stride` apart (a multiple of 16).
    fn add<S: Simd<E>>(
        &self,
        s: S,
        weights: Weights<'_, E>,
        span: SpanKeys,
        out: (&mut [E], usize),
    );
}

/// Keys of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpanKeys {
    /// The keys that any row sees, and the one after them.
    pub(super) range: (usize, usize),
    /// First key of the span.
    pub(super) start: usize,
    /// Which of its places may be read.
    pub(super) seen: [u64; TILES],
}
