//! What attention asks of a cache: rows of keys and values of one head, in segments that follow one another.
//!
//! A dense cache is one segment, a paged one has a segment a page. The walk over keys goes in tiles of 64 whose first
//! keys are multiples of 64, so that results do not depend on where segments end; a tile may have several segments and
//! a segment several tiles. How rows are stored is theirs to know: few query rows are multiplied with rows where they
//! lie (`scores`, `add`), many query rows with rows that were lent or widened first (`Widen`).
//!
//! All methods that take a vector token are `#[inline(always)]`, for the reason given at the crate head.

use super::visibility::TILE;
use crate::simd::Simd;
use crate::storage::Accumulator;
use std::marker::PhantomData;

/// Keys and values of every batch row and head.
pub(super) trait Cache<E: Accumulator>: Sync {
    /// One head of it.
    type Head<'s>: Head<E>
    where
        Self: 's;
    /// Head `head` of batch row `batch`; `None` when there is none.
    fn head(&self, batch: usize, head: usize) -> Option<Self::Head<'_>>;
}

/// Keys and values of one head.
pub(super) trait Head<E: Accumulator> {
    /// How a segment's keys are read.
    type Keys<'s>: KeyRows<'s, E>
    where
        Self: 's;
    /// How a segment's values are read.
    type Values<'s>: ValueRows<'s, E>
    where
        Self: 's;

    /// Called once before the walk with the query rows, one after another and already scaled: for what depends on them
    /// alone.
    #[inline(always)]
    fn begin<S: Simd<E>>(&mut self, s: S, queries: &[E], size: usize) {
        let _ = (s, queries, size);
    }

    /// The segment that holds `key`; `None` ends the walk.
    fn segment(&self, key: usize) -> Option<Segment<Self::Keys<'_>, Self::Values<'_>>>;

    /// The segments that hold keys `low..end` of the tile from `tile` on, with their parts of it.
    #[inline(always)]
    fn parts(&self, (low, end): (usize, usize), tile: usize, seen: u64) -> Parts<'_, E, Self>
    where
        Self: Sized,
    {
        Parts {
            head: self,
            key: tile.max(low),
            stop: end.min(tile + TILE),
            tile,
            seen,
            element: PhantomData,
        }
    }
}

/// The segments of a tile; see [`Head::parts`].
pub(super) struct Parts<'s, E, H> {
    head: &'s H,
    key: usize,
    stop: usize,
    tile: usize,
    seen: u64,
    element: PhantomData<E>,
}

impl<'s, E: Accumulator, H: Head<E>> Iterator for Parts<'s, E, H> {
    type Item = (Segment<H::Keys<'s>, H::Values<'s>>, Part);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.key >= self.stop {
            return None;
        }
        let segment = self.head.segment(self.key)?;
        self.key = segment.end.max(self.key + 1);
        let part = Part::new(&segment, self.tile, self.seen);
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

/// The rows of a segment that a tile has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The segment's row that is place `at` of the tile; row `first + n` is place `at + n`.
    pub(super) first: usize,
    /// Place of that row in the tile.
    pub(super) at: usize,
    /// Bits of the tile's places that may be read, of this segment only.
    pub(super) seen: u64,
}

impl Part {
    /// The part that a segment has in the tile of 64 keys from `tile` on, of which `seen` may be read.
    #[inline(always)]
    pub(super) fn new<K, V>(segment: &Segment<K, V>, tile: usize, seen: u64) -> Part {
        let from = segment.start.max(tile);
        let to = segment.end.min(tile + TILE);
        if from >= to {
            return Part {
                first: 0,
                at: 0,
                seen: 0,
            };
        }
        let at = from - tile;
        let own = u64::MAX >> (TILE - (to - from)) << at;
        Part {
            first: from - segment.start,
            at,
            seen: seen & own,
        }
    }

    /// The segment's row at a place of the tile.
    #[inline(always)]
    pub(super) fn row(&self, place: usize) -> usize {
        self.first + place - self.at
    }
}

/// Runs of neighbouring places that are seen: the first place and their number.
#[inline(always)]
pub(super) fn runs(part: Part) -> impl Iterator<Item = (usize, usize)> {
    let mut seen = part.seen;
    std::iter::from_fn(move || {
        if seen == 0 {
            return None;
        }
        let place = seen.trailing_zeros();
        let count = (seen >> place).trailing_ones();
        seen &= u64::MAX.checked_shl(place + count).unwrap_or(0);
        Some((place as usize, count as usize))
    })
}

/// Rows that can be lent or widened.
pub(super) trait Widen<'a, E: Accumulator> {
    /// Puts the rows of a part at their places, when they are dense and of the accumulator's type; else `false`.
    #[inline(always)]
    fn lend(&self, part: Part, rows: &mut [&'a [E]; TILE]) -> bool {
        let _ = (part, rows);
        false
    }

    /// Writes the rows of a part, widened, to their places in a tile whose rows are `stride` apart.
    fn widen<S: Simd<E>>(&self, s: S, part: Part, out: &mut [E], stride: usize);
}

/// Rows of keys.
pub(super) trait KeyRows<'a, E: Accumulator>: Widen<'a, E> {
    /// Products of the rows of a part with every query row: that of query row `i` and place `p` goes to
    /// `scores[i * SPAN + p]`. Rows that are not in `part.seen` are not read and their scores left alone.
    fn scores<S: Simd<E>>(&self, s: S, queries: &[E], size: usize, part: Part, scores: &mut [E]);
}

/// Weights of the values of a tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights<'w, E> {
    /// Query row `i` weighs place `p` by `values[i * SPAN + p]`.
    pub(super) values: &'w [E],
    /// Which places each query row sees; the weight of others is 0, and what is not finite there must not count.
    pub(super) own: &'w [u64],
    /// Places that every query row sees.
    pub(super) every: u64,
}

/// Rows of values.
pub(super) trait ValueRows<'a, E: Accumulator>: Widen<'a, E> {
    /// Adds the rows of a part, weighted, to the sums of every query row, which are `stride` apart (a multiple of 16).
    fn add<S: Simd<E>>(
        &self,
        s: S,
        weights: Weights<'_, E>,
        part: Part,
        sums: &mut [E],
        stride: usize,
    );
}
