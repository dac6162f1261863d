//! A cache that is a strided tensor: one segment a head.

use super::cache::{Cache, FewHead, Head, Part, Segment, SpanKeys, Weights, Widen};
use super::few::{Run, add_apart, add_run, score_run};
use super::split::{Found, Work};
use super::visibility::{SPAN, TILE};
use super::{Core, decode};
use crate::matmul::micro::widen;
use crate::simd::Simd;
use crate::storage::Real;
use refeed_values::{Lane, View};

/// Keys `[batch, kv_heads, total, size]` and values of one element type.
pub(super) struct DenseCache<'c, 'a, T> {
    keys: &'c View<'a, T>,
    values: &'c View<'a, T>,
}

impl<'c, 'a, T: Real> DenseCache<'c, 'a, T> {
    pub(super) fn new(keys: &'c View<'a, T>, values: &'c View<'a, T>) -> Self {
        DenseCache { keys, values }
    }
}

impl<'c, 'a, T: Real> Cache<T::Acc> for DenseCache<'c, 'a, T> {
    type Head<'s>
        = DenseHead<'c, 'a, T>
    where
        Self: 's;

    #[inline(always)]
    fn head(&self, batch: usize, head: usize) -> Option<DenseHead<'c, 'a, T>> {
        let &[all_batches, heads, end, _] = self.keys.shape() else {
            return None; // extents were checked
        };
        (batch < all_batches && head < heads).then(|| DenseHead {
            keys: Source::new(self.keys, batch, head),
            values: Source::new(self.values, batch, head),
            end,
        })
    }

    #[inline(always)]
    fn few<U: Real<Acc = T::Acc>, S: Simd<T::Acc>>(
        &self,
        s: S,
        core: &Core<'_, '_, U>,
        work: Work,
        found: Found<'_, T::Acc>,
    ) {
        if let Some(head) = self.head(work.batch, work.kv_head) {
            decode::pass(s, core, head, work, found);
        }
    }
}

/// One head: a single segment.
pub(super) struct DenseHead<'c, 'a, T> {
    keys: Source<'c, 'a, T>,
    values: Source<'c, 'a, T>,
    end: usize,
}

impl<'c, 'a, T: Real> Head<T::Acc> for DenseHead<'c, 'a, T> {
    type Keys<'s>
        = &'s Source<'c, 'a, T>
    where
        Self: 's;
    type Values<'s>
        = &'s Source<'c, 'a, T>
    where
        Self: 's;

    #[inline(always)]
    fn segment(&self, key: usize) -> Option<Segment<&Source<'c, 'a, T>, &Source<'c, 'a, T>>> {
        (key < self.end).then_some(Segment {
            keys: &self.keys,
            values: &self.values,
            start: 0,
            end: self.end,
        })
    }
}

/// Rows of one head.
pub(super) struct Source<'c, 'a, T> {
    view: &'c View<'a, T>,
    at: [usize; 2],
    width: usize,
    /// All rows, where they follow one another.
    whole: Option<&'a [T]>,
    /// Whether each row is a slice.
    dense: bool,
}

impl<'c, 'a, T: Real> Source<'c, 'a, T> {
    fn new(view: &'c View<'a, T>, batch: usize, head: usize) -> Self {
        let width = view.shape()[3];
        Source {
            view,
            at: [batch, head],
            width,
            whole: view.block(&[batch, head]),
            dense: width <= 1 || view.strides()[3] == 1,
        }
    }

    fn lane(&self, row: usize) -> Option<Lane<'a, T>> {
        self.view.lane(&[self.at[0], self.at[1], row])
    }

    /// A row, where rows are slices.
    #[inline(always)]
    fn row(&self, row: usize) -> Option<&'a [T]> {
        match self.whole {
            Some(all) => all.get(row * self.width..)?.get(..self.width),
            None => self.lane(row)?.as_slice(),
        }
    }

    /// How many rows are handed out at a time: those that do not follow one another are copied first.
    #[inline(always)]
    fn most(&self) -> usize {
        match self.whole {
            Some(_) => SPAN,
            None => TILE,
        }
    }

    /// Elements that [`Source::rows`] copies at a time.
    #[inline(always)]
    fn copied(&self) -> usize {
        match self.whole {
            Some(_) => 0,
            None => TILE * self.width,
        }
    }

    /// `count` rows from row `first` on: where they lie, or else in `copy`.
    #[inline(always)]
    fn rows<'r>(&self, first: usize, count: usize, copy: &'r mut [T]) -> &'r [T]
    where
        'a: 'r,
    {
        if let Some(all) = self.whole {
            return &all[first * self.width..][..count * self.width];
        }
        let rows = &mut copy[..count * self.width];
        for (j, slots) in rows.chunks_exact_mut(self.width.max(1)).enumerate() {
            match self.row(first + j) {
                Some(row) => slots.copy_from_slice(row),
                None => {
                    let lane = self.lane(first + j);
                    let values = lane.iter().flat_map(|lane| lane.iter());
                    for (x, slot) in values.zip(slots) {
                        *slot = x;
                    }
                }
            }
        }
        rows
    }
}

impl<'s, 'a, T: Real> Widen<'s, T::Acc> for &'s Source<'_, 'a, T> {
    #[inline(always)]
    fn lend(&self, part: Part<1>, rows: &mut [&'s [T::Acc]; TILE]) -> bool {
        if !self.dense {
            return false;
        }
        for (place, count) in part.runs(TILE) {
            let slots = rows.iter_mut().enumerate();
            for (place, slot) in slots.skip(place).take(count) {
                match self.row(part.row(place)).and_then(T::as_acc) {
                    Some(row) => *slot = row,
                    None => return false,
                }
            }
        }
        true
    }

    #[inline(always)]
    fn widen<S: Simd<T::Acc>>(&self, s: S, part: Part<1>, out: &mut [T::Acc], stride: usize) {
        for (place, count) in part.runs(TILE) {
            for place in place..place + count {
                let slots = &mut out[place * stride..][..self.width];
                match self.row(part.row(place)) {
                    Some(row) => widen(s, row, slots),
                    None => {
                        let lane = self.lane(part.row(place));
                        let values = lane.iter().flat_map(|lane| lane.iter());
                        for (x, slot) in values.zip(slots) {
                            *slot = x.to_acc();
                        }
                    }
                }
            }
        }
    }
}

impl<T: Real> FewHead<T::Acc> for DenseHead<'_, '_, T> {
    #[inline(always)]
    fn scores<S: Simd<T::Acc>>(
        &self,
        s: S,
        queries: (&[T::Acc], usize),
        span: SpanKeys,
        scores: &mut [T::Acc],
    ) {
        let keys = &self.keys;
        let mut copy = T::scratch(keys.copied());
        for (_, part) in self.parts(span.range, span.start, span.seen) {
            for (place, count) in part.runs(keys.most()) {
                let rows = keys.rows(part.row(place), count, &mut copy);
                let run = Run::new(rows, [1, count, keys.width]);
                score_run(s, queries, run, &mut scores[place..]);
            }
        }
    }

    #[inline(always)]
    fn add<S: Simd<T::Acc>>(
        &self,
        s: S,
        weights: Weights<'_, T::Acc>,
        span: SpanKeys,
        (sums, stride): (&mut [T::Acc], usize),
    ) {
        let values = &self.values;
        let width = values.width;
        let mut copy = T::scratch(values.copied());
        for (_, part) in self.parts(span.range, span.start, span.seen) {
            let every = part.among(|t| weights.every[t]);
            for (place, count) in every.runs(values.most()) {
                let rows = values.rows(part.row(place), count, &mut copy);
                let run = Run::new(rows, [1, count, width]);
                let weights = (&weights.values[place..], weights.own.len());
                add_run(s, weights, run, (&mut *sums, stride));
            }
            let apart = part.among(|t| !weights.every[t]);
            for (place, count) in apart.runs(values.most()) {
                let rows = values.rows(part.row(place), count, &mut copy);
                for (j, value) in rows.chunks_exact(width.max(1)).enumerate() {
                    add_apart(s, weights, (value, place + j), sums, stride);
                }
            }
        }
    }
}
