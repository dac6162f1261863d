//! A cache that is a strided tensor: one segment a head.

use super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen, runs};
use super::few::{Soon, add_apart, add_run, score_run};
use super::visibility::TILE;
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

    /// Elements that a tile of rows is copied into; none where rows follow one another.
    fn copied(&self) -> usize {
        match self.whole {
            Some(_) => 0,
            None => TILE * self.width,
        }
    }

    /// Copies the rows of a part to their places in a tile where rows follow one another, unless they do so already.
    fn gather(&self, part: Part, copy: &mut [T]) {
        if self.whole.is_some() {
            return;
        }
        for place in (0..TILE).filter(|place| part.seen >> place & 1 == 1) {
            let slots = &mut copy[place * self.width..][..self.width];
            match self.row(part.row(place)) {
                Some(row) => slots.copy_from_slice(row),
                None => {
                    let lane = self.lane(part.row(place));
                    let values = lane.iter().flat_map(|lane| lane.iter());
                    for (x, slot) in values.zip(slots) {
                        *slot = x;
                    }
                }
            }
        }
    }

    /// The rows of `count` places from `place` on, which are seen: where they lie, or else in `copy`.
    #[inline(always)]
    fn run<'r>(&self, part: Part, (place, count): (usize, usize), copy: &'r [T]) -> &'r [T]
    where
        'a: 'r,
    {
        let (all, first) = match self.whole {
            Some(all) => (all, part.row(place)),
            None => (copy, place),
        };
        &all[first * self.width..][..count * self.width]
    }
}

impl<'s, 'a, T: Real> Widen<'s, T::Acc> for &'s Source<'_, 'a, T> {
    #[inline(always)]
    fn lend(&self, part: Part, rows: &mut [&'s [T::Acc]; TILE]) -> bool {
        if !self.dense {
            return false;
        }
        for (place, count) in runs(part) {
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
    fn widen<S: Simd<T::Acc>>(&self, s: S, part: Part, out: &mut [T::Acc], stride: usize) {
        for (place, count) in runs(part) {
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

impl<'s, T: Real> KeyRows<'s, T::Acc> for &'s Source<'_, '_, T> {
    #[inline(always)]
    fn scores<S: Simd<T::Acc>>(
        &self,
        s: S,
        queries: &[T::Acc],
        size: usize,
        part: Part,
        scores: &mut [T::Acc],
    ) {
        let mut copy = T::scratch(self.copied());
        self.gather(part, &mut copy);
        for (place, count) in runs(part) {
            let keys = (self.run(part, (place, count), &copy), count);
            score_run(
                s,
                queries,
                size,
                keys,
                Soon::default(),
                &mut scores[place..],
            );
        }
    }
}

impl<'s, T: Real> ValueRows<'s, T::Acc> for &'s Source<'_, '_, T> {
    #[inline(always)]
    fn add<S: Simd<T::Acc>>(
        &self,
        s: S,
        weights: Weights<'_, T::Acc>,
        part: Part,
        sums: &mut [T::Acc],
        stride: usize,
    ) {
        let mut copy = T::scratch(self.copied());
        self.gather(part, &mut copy);
        let every = Part {
            seen: part.seen & weights.every,
            ..part
        };
        for (place, count) in runs(every) {
            let values = (self.run(part, (place, count), &copy), count);
            let weights = &weights.values[place..];
            let sums = (&mut *sums, stride);
            add_run(s, weights, values, self.width, Soon::default(), sums);
        }
        let apart = Part {
            seen: part.seen & !weights.every,
            ..part
        };
        for (place, count) in runs(apart) {
            for place in place..place + count {
                let value = self.run(part, (place, 1), &copy);
                add_apart(s, weights, (value, place), sums, stride);
            }
        }
    }
}
