//! A cache that is a strided tensor: one segment a head.

use super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen};
use super::few::{Listed, add_apart, add_listed, score_listed};
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

    /// Puts the rows from `first` on into `rows`, for dense rows.
    #[inline(always)]
    fn fill(&self, first: usize, rows: &mut [&'a [T]]) {
        match self.whole {
            Some(all) if self.width > 0 => {
                let all = &all[first * self.width..][..rows.len() * self.width];
                for (row, slot) in all.chunks_exact(self.width).zip(rows) {
                    *slot = row;
                }
            }
            _ => {
                for (n, slot) in rows.iter_mut().enumerate() {
                    let lane = self.lane(first + n);
                    *slot = lane.and_then(|lane| lane.as_slice()).unwrap_or(&[]);
                }
            }
        }
    }

    /// The first row of those in `seen` and all that follow it, where rows follow one another.
    #[inline(always)]
    fn follow(&self, part: Part, seen: u64) -> &'a [T] {
        let first = part.row(seen.trailing_zeros() as usize % TILE);
        let all = self.whole.unwrap_or(&[]);
        all.get(first * self.width..).unwrap_or(&[])
    }

    /// Elements that a tile of rows is copied into; none when they are slices already.
    fn copied(&self) -> usize {
        if self.dense { 0 } else { TILE * self.width }
    }

    /// The rows of the places in `seen`, those of a part: where they lie, or else in `copy`.
    #[inline(always)]
    fn list<'r>(&self, part: Part, seen: u64, copy: &'r [T]) -> Listed<'r, T>
    where
        'a: 'r,
    {
        let mut listed = Listed {
            rows: [&[]; TILE],
            places: [0; TILE],
            count: 0,
            follow: self.follow(part, seen),
        };
        let mut left = seen;
        while left != 0 {
            // A run of places that follow one another: all of them, almost always.
            let from = left.trailing_zeros() as usize;
            let count = (left >> from).trailing_ones() as usize;
            let rows = &mut listed.rows[listed.count..listed.count + count];
            if self.dense {
                self.fill(part.row(from), rows);
            } else {
                for (n, slot) in rows.iter_mut().enumerate() {
                    *slot = &copy[(from + n) * self.width..][..self.width];
                }
            }
            for (n, slot) in listed.places[listed.count..][..count]
                .iter_mut()
                .enumerate()
            {
                *slot = (from + n) as u8;
            }
            listed.count += count;
            left &= u64::MAX.checked_shl((from + count) as u32).unwrap_or(0);
        }
        listed
    }

    /// Copies the rows of a part to their places in a tile of dense rows, unless rows are slices already.
    fn gather(&self, part: Part, copy: &mut [T]) {
        if self.dense {
            return;
        }
        for place in (0..TILE).filter(|place| part.seen >> place & 1 == 1) {
            let lane = self.lane(part.row(place));
            let values = lane.iter().flat_map(|lane| lane.iter());
            for (x, slot) in values.zip(&mut copy[place * self.width..][..self.width]) {
                *slot = x;
            }
        }
    }
}

impl<'s, 'a, T: Real> Widen<'s, T::Acc> for &'s Source<'_, 'a, T> {
    #[inline(always)]
    fn lend(&self, part: Part, rows: &mut [&'s [T::Acc]; TILE]) -> bool {
        if !self.dense {
            return false;
        }
        let listed = self.list(part, part.seen, &[]);
        for n in 0..listed.count {
            match T::as_acc(listed.rows[n]) {
                Some(row) => rows[listed.place(n)] = row,
                None => return false,
            }
        }
        true
    }

    #[inline(always)]
    fn widen<S: Simd<T::Acc>>(&self, s: S, part: Part, out: &mut [T::Acc], stride: usize) {
        if self.dense {
            let listed = self.list(part, part.seen, &[]);
            for n in 0..listed.count {
                let slot = &mut out[listed.place(n) * stride..][..self.width];
                widen(s, listed.rows[n], slot);
            }
            return;
        }
        for place in (0..TILE).filter(|place| part.seen >> place & 1 == 1) {
            let lane = self.lane(part.row(place));
            let values = lane.iter().flat_map(|lane| lane.iter());
            for (x, slot) in values.zip(&mut out[place * stride..][..self.width]) {
                *slot = x.to_acc();
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
        let listed = self.list(part, part.seen, &copy);
        score_listed(s, queries, size, &listed, scores);
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
        let listed = self.list(part, part.seen & weights.every, &copy);
        add_listed(s, weights.values, &listed, self.width, sums, stride);
        let apart = part.seen & !weights.every;
        if apart != 0 {
            let listed = self.list(part, apart, &copy);
            add_apart(s, weights, &listed, self.width, sums, stride);
        }
    }
}
