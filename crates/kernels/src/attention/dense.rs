//! A cache that is a strided tensor: its keys and values, and the products of few query rows with rows where they lie.

use super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen};
use super::visibility::TILE;
use crate::matmul::micro::{Lines, axpys, widen};
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies::load_part;
use refeed_values::View;

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

impl<'a, T: Real> Cache<T::Acc> for DenseCache<'_, 'a, T> {
    type Head<'s>
        = DenseHead<'a, T>
    where
        Self: 's;

    #[inline(always)]
    fn head(&self, batch: usize, head: usize) -> Option<DenseHead<'a, T>> {
        Some(DenseHead {
            keys: Source::new(self.keys, batch, head)?,
            values: Source::new(self.values, batch, head)?,
            end: self.keys.shape()[2],
        })
    }
}

/// One head: a single segment.
pub(super) struct DenseHead<'a, T> {
    keys: Source<'a, T>,
    values: Source<'a, T>,
    end: usize,
}

impl<'a, T: Real> Head<T::Acc> for DenseHead<'a, T> {
    type Keys<'s>
        = &'s Source<'a, T>
    where
        Self: 's;
    type Values<'s>
        = &'s Source<'a, T>
    where
        Self: 's;

    #[inline(always)]
    fn segment(&self, key: usize) -> Option<Segment<&Source<'a, T>, &Source<'a, T>>> {
        (key < self.end).then_some(Segment {
            keys: &self.keys,
            values: &self.values,
            start: 0,
            end: self.end,
        })
    }
}

/// Rows of one head: dense ones where they lie, or a view that is copied row by row.
pub(super) enum Source<'a, T> {
    /// Each row is a slice.
    Lines(Lines<'a, T>),
    /// Elements of a row are apart.
    Strided(View<'a, T>),
}

impl<'a, T: Real> Source<'a, T> {
    fn new(view: &View<'a, T>, batch: usize, head: usize) -> Option<Self> {
        let head = view.index(0, batch)?.index(0, head)?;
        Some(match Lines::new(head.clone()) {
            Some(lines) => Source::Lines(lines),
            None => Source::Strided(head),
        })
    }

    fn width(&self) -> usize {
        match self {
            Source::Lines(lines) => lines.width(),
            Source::Strided(view) => view.shape()[1],
        }
    }

    /// Elements that a tile of rows is copied into; none when they are slices already.
    fn copied(&self) -> usize {
        match self {
            Source::Lines(_) => 0,
            Source::Strided(view) => TILE * view.shape()[1],
        }
    }

    /// The rows of a part as slices: where they lie, or copied to their places in a tile.
    #[inline(always)]
    fn lines<'r>(&'r self, part: Part, copy: &'r mut [T]) -> (Lines<'r, T>, Part) {
        match self {
            Source::Lines(lines) => (lines.clone(), part),
            Source::Strided(view) => {
                let width = self.width();
                for place in (0..TILE).filter(|place| part.seen >> place & 1 == 1) {
                    let lane = view.lane(&[part.row(place)]);
                    let values = lane.iter().flat_map(|lane| lane.iter());
                    for (x, slot) in values.zip(&mut copy[place * width..][..width]) {
                        *slot = x;
                    }
                }
                let part = Part {
                    first: 0,
                    at: 0,
                    seen: part.seen,
                };
                (Lines::of(copy, width), part)
            }
        }
    }
}

impl<'s, 'a, T: Real> Widen<'s, T::Acc> for &'s Source<'a, T> {
    #[inline(always)]
    fn lend(&self, part: Part, rows: &mut [&'s [T::Acc]; TILE]) -> bool {
        let Source::Lines(lines) = self else {
            return false;
        };
        for (place, slot) in rows.iter_mut().enumerate() {
            if part.seen >> place & 1 == 1 {
                match T::as_acc(lines.line(part.row(place))) {
                    Some(line) => *slot = line,
                    None => return false,
                }
            }
        }
        true
    }

    #[inline(always)]
    fn widen<S: Simd<T::Acc>>(&self, s: S, part: Part, out: &mut [T::Acc], stride: usize) {
        let width = self.width();
        for place in (0..TILE).filter(|place| part.seen >> place & 1 == 1) {
            let slot = &mut out[place * stride..][..width];
            match self {
                Source::Lines(lines) => widen(s, lines.line(part.row(place)), slot),
                Source::Strided(view) => {
                    let lane = view.lane(&[part.row(place)]);
                    let values = lane.iter().flat_map(|lane| lane.iter());
                    for (x, slot) in values.zip(slot) {
                        *slot = x.to_acc();
                    }
                }
            }
        }
    }
}

/// Places of a tile with their rows, close together.
struct Listed<'a, T> {
    rows: [&'a [T]; TILE],
    places: [u8; TILE],
    count: usize,
}

impl<'a, T: Real> Listed<'a, T> {
    #[inline(always)]
    fn new(lines: &Lines<'a, T>, part: Part, seen: u64) -> Self {
        let mut listed = Listed {
            rows: [&[]; TILE],
            places: [0; TILE],
            count: 0,
        };
        let mut left = seen;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            listed.rows[listed.count] = lines.line(part.row(place));
            listed.places[listed.count] = place as u8;
            listed.count += 1;
        }
        listed
    }

    #[inline(always)]
    fn place(&self, n: usize) -> usize {
        usize::from(self.places[n]) % TILE
    }
}

impl<'s, 'a, T: Real> KeyRows<'s, T::Acc> for &'s Source<'a, T> {
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
        let (lines, part) = self.lines(part, &mut copy);
        let listed = Listed::new(&lines, part, part.seen);
        score_listed(s, queries, size, &listed, scores);
    }
}

impl<'s, 'a, T: Real> ValueRows<'s, T::Acc> for &'s Source<'a, T> {
    #[inline(always)]
    fn add<S: Simd<T::Acc>>(
        &self,
        s: S,
        weights: Weights<'_, T::Acc>,
        part: Part,
        sums: &mut [T::Acc],
        stride: usize,
    ) {
        let width = self.width();
        let mut copy = T::scratch(self.copied());
        let (lines, part) = self.lines(part, &mut copy);
        let listed = Listed::new(&lines, part, part.seen & weights.every);
        add_listed(s, weights.values, &listed, width, sums, stride);
        let apart = part.seen & !weights.every;
        if apart != 0 {
            let listed = Listed::new(&lines, part, apart);
            add_apart(s, weights, &listed, width, sums, stride);
        }
    }
}

/// Whether the register file holds four query rows times four vectors besides the operands.
#[inline(always)]
const fn wide_file<E: Accumulator, S: Simd<E>>() -> bool {
    S::TILE_ROWS == 12
}

/// Products of every query row with the listed keys, four keys and up to four rows at a time.
#[inline(always)]
fn score_listed<T: Real, S: Simd<T::Acc>>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    keys: &Listed<'_, T>,
    scores: &mut [T::Acc],
) {
    let count = scores.len() / TILE;
    let mut n = 0;
    while n < keys.count {
        // The last group of fewer than four repeats its last key.
        let at = |j: usize| (n + j).min(keys.count - 1);
        let rows = [at(0), at(1), at(2), at(3)].map(|n| keys.rows[n % TILE]);
        let places = [at(0), at(1), at(2), at(3)].map(|n| keys.place(n % TILE));
        let mut i = 0;
        while i < count {
            let left = count - i;
            let taken = if wide_file::<T::Acc, S>() && left >= 4 {
                score_rows::<T, S, 4>(s, queries, size, i, rows, places, scores)
            } else if wide_file::<T::Acc, S>() && left == 3 {
                score_rows::<T, S, 3>(s, queries, size, i, rows, places, scores)
            } else if left >= 2 {
                score_rows::<T, S, 2>(s, queries, size, i, rows, places, scores)
            } else {
                score_rows::<T, S, 1>(s, queries, size, i, rows, places, scores)
            };
            i += taken;
        }
        n += 4;
    }
}

/// Products of query rows `i..i + R` with four keys; returns `R`.
#[inline(always)]
fn score_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    i: usize,
    keys: [&[T]; 4],
    places: [usize; 4],
    scores: &mut [T::Acc],
) -> usize {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut query: [&[T::Acc]; R] = [&[]; R];
    for (r, row) in query.iter_mut().enumerate() {
        *row = &queries[(i + r) * size..][..size];
    }
    let mut key = keys;
    for row in &mut key {
        *row = &row[..size];
    }
    let mut acc = [[zero; 4]; R];
    let mut d = 0;
    while d + l <= size {
        let mut k = [zero; 4];
        for j in 0..4 {
            k[j] = T::load(s, &key[j][d..]);
        }
        for r in 0..R {
            let q = s.load(&query[r][d..]);
            for j in 0..4 {
                acc[r][j] = s.fma(q, k[j], acc[r][j]);
            }
        }
        d += l;
    }
    if d < size {
        let mut k = [zero; 4];
        for j in 0..4 {
            k[j] = load_part(s, &key[j][d..], T::default());
        }
        for r in 0..R {
            let q = load_part(s, &query[r][d..], T::Acc::ZERO);
            for j in 0..4 {
                acc[r][j] = s.fma(q, k[j], acc[r][j]);
            }
        }
    }
    for r in 0..R {
        let sums = s.sum_four(acc[r]);
        let scores = &mut scores[(i + r) * TILE..][..TILE];
        for j in 0..4 {
            scores[places[j] % TILE] = sums[j];
        }
    }
    R
}

/// Values that are added at a time: their rows stay in the first cache for all query rows.
const STEP: usize = 16;

/// Adds the listed values, which every query row sees, to the sums of all rows.
#[inline(always)]
fn add_listed<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: &[T::Acc],
    values: &Listed<'_, T>,
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) {
    if width == 0 {
        return;
    }
    let count = weights.len() / TILE;
    let mut n = 0;
    while n < values.count {
        let rows = &values.rows[n..values.count.min(n + STEP)];
        let places = &values.places[n..values.count.min(n + STEP)];
        let mut i = 0;
        while i < count {
            let left = count - i;
            let taken = if wide_file::<T::Acc, S>() && left >= 4 {
                add_rows::<T, S, 4>(s, weights, i, (rows, places), width, sums, stride)
            } else if wide_file::<T::Acc, S>() && left == 3 {
                add_rows::<T, S, 3>(s, weights, i, (rows, places), width, sums, stride)
            } else if left >= 2 {
                add_rows::<T, S, 2>(s, weights, i, (rows, places), width, sums, stride)
            } else {
                add_rows::<T, S, 1>(s, weights, i, (rows, places), width, sums, stride)
            };
            i += taken;
        }
        n += STEP;
    }
}

/// Adds values to the sums of query rows `i..i + R`; returns `R`.
#[inline(always)]
fn add_rows<T: Real, S: Simd<T::Acc>, const R: usize>(
    s: S,
    weights: &[T::Acc],
    i: usize,
    values: (&[&[T]], &[u8]),
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) -> usize {
    let l = S::LANES;
    let mut col = 0;
    while col + 4 * l <= width {
        add_block::<T, S, R, 4>(s, weights, i, values, (col, 4 * l), sums, stride);
        col += 4 * l;
    }
    while col < width {
        let part = l.min(width - col);
        add_block::<T, S, R, 1>(s, weights, i, values, (col, part), sums, stride);
        col += l;
    }
    R
}

/// Adds `C` registers of columns, of which `len` elements count.
#[inline(always)]
fn add_block<T: Real, S: Simd<T::Acc>, const R: usize, const C: usize>(
    s: S,
    weights: &[T::Acc],
    i: usize,
    (rows, places): (&[&[T]], &[u8]),
    (col, len): (usize, usize),
    sums: &mut [T::Acc],
    stride: usize,
) {
    let l = S::LANES;
    let zero = s.splat(T::Acc::ZERO);
    let mut weight: [&[T::Acc]; R] = [&[]; R];
    let mut acc = [[zero; C]; R];
    for r in 0..R {
        weight[r] = &weights[(i + r) * TILE..][..TILE];
        let sums = &sums[(i + r) * stride + col..][..C * l];
        for c in 0..C {
            acc[r][c] = s.load(&sums[c * l..]);
        }
    }
    for (row, place) in rows.iter().zip(places) {
        let place = usize::from(*place) % TILE;
        let row = &row[col..][..len];
        let mut v = [zero; C];
        if len == C * l {
            for c in 0..C {
                v[c] = T::load(s, &row[c * l..]);
            }
        } else {
            v[0] = load_part(s, row, T::default());
        }
        for r in 0..R {
            let w = s.splat(weight[r][place]);
            for c in 0..C {
                acc[r][c] = s.fma(w, v[c], acc[r][c]);
            }
        }
    }
    for r in 0..R {
        let sums = &mut sums[(i + r) * stride + col..][..C * l];
        for c in 0..C {
            s.store(acc[r][c], &mut sums[c * l..]);
        }
    }
}

/// Adds values to the sums of those rows only that see them.
#[inline(always)]
fn add_apart<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: Weights<'_, T::Acc>,
    values: &Listed<'_, T>,
    width: usize,
    sums: &mut [T::Acc],
    stride: usize,
) {
    for n in 0..values.count {
        let place = values.place(n);
        for (i, own) in weights.own.iter().enumerate() {
            if own >> place & 1 == 1 {
                let w = [weights.values[i * TILE + place]];
                let sums = &mut sums[i * stride..][..width];
                axpys(s, w, [values.rows[n]], sums);
            }
        }
    }
}
