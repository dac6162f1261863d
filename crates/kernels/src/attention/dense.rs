//! Attention of one block of query rows over a dense cache (strided, but with one element type).

use super::online_softmax::{Row, adjust};
use super::visibility::TILE;
use super::{BLOCK, Prepared};
use crate::matmul::micro::{Lines, axpys, dots, narrow, tile, widen};
use crate::pool::Rows;
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use refeed_values::View;

/// Up to this many rows read keys and values in place.
const FEW: usize = 8;

/// Query rows that share a key/value head.
pub(super) struct Block<'t, 'p, 'a, T: Real> {
    pub(super) problem: &'t Prepared<'p, 'a, T>,
    pub(super) rows: Rows<'t, T>,
}

/// Keys or values of one head: dense rows where they lie, or a view that is copied tile by tile.
enum Source<'a, T> {
    Lines(Lines<'a, T>),
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
}

/// Evaluates an expression with the rows of a tile, as `$lines`, and the number of the tile's first one, as `$first`;
/// rows that are not dense are first copied, the ones of `$keys` only. A macro, because a closure that stays a call
/// would be compiled for the baseline CPU.
macro_rules! with_rows {
    ($source:expr, $start:expr, $keys:expr, $width:expr, $copy:expr, |$lines:ident, $first:ident| $body:expr) => {
        match &$source {
            Source::Lines($lines) => {
                let $first = $start;
                $body
            }
            Source::Strided(view) => {
                gather(view, $start, $keys, $width, &mut $copy);
                let (all, $first) = (Lines::of(&$copy, $width), 0);
                let $lines = &all;
                $body
            }
        }
    };
}

/// Copies the rows of `keys` (bits) from `start` on into a tile of dense rows.
fn gather<T: Real>(view: &View<'_, T>, start: usize, keys: u64, width: usize, out: &mut [T::Acc]) {
    for j in (0..TILE).filter(|j| keys >> j & 1 == 1) {
        let lane = view.lane(&[start + j]);
        let values = lane.iter().flat_map(|lane| lane.iter());
        for (x, slot) in values.zip(&mut out[j * width..][..width]) {
            *slot = x.to_acc();
        }
    }
}

impl<T: Real> Op<T::Acc> for Block<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let Block { problem, mut rows } = self;
        let (size, width) = (problem.size, problem.value_size);
        let (batch, group) = (rows.line / problem.kv_heads, rows.line % problem.kv_heads);
        let count = rows.count;
        // Row `i` of the block: its query head and its place in the sequence.
        let place = |i: usize| {
            let row = rows.first + i;
            let head = group * problem.group() + row / problem.length;
            (head, row % problem.length)
        };
        let (Some(keys), Some(values)) = (
            Source::new(problem.key, batch, group),
            Source::new(problem.value, batch, group),
        ) else {
            return; // batch row and head are in range
        };

        let few = count <= FEW;
        let (high, wide) = (S::TILE_ROWS, 2 * S::LANES);
        // In the packed form rows and columns are filled up to whole panels.
        let all = if few {
            count
        } else {
            count.next_multiple_of(high)
        };
        let stride = if few {
            width
        } else {
            width.next_multiple_of(wide)
        };
        let panels = if few { 0 } else { 1 };

        let mut memory = T::Acc::scratch(
            all * (size + stride + TILE)
                + TILE
                + panels * (all * TILE + TILE * (size + stride) + size.max(width)),
        );
        let (queries, rest) = memory.split_at_mut(all * size);
        let (sums, rest) = rest.split_at_mut(all * stride);
        let (scores, rest) = rest.split_at_mut(all * TILE);
        let (bias, rest) = rest.split_at_mut(TILE);
        let (left, rest) = rest.split_at_mut(panels * all * TILE);
        let (key_panels, rest) = rest.split_at_mut(panels * TILE * size);
        let (value_panels, line) = rest.split_at_mut(panels * TILE * stride);
        sums.fill(T::Acc::ZERO);

        let strided = |source: &Source<'_, T>| matches!(source, Source::Strided(_));
        let copied = if strided(&keys) || strided(&values) {
            TILE * size.max(width)
        } else {
            0
        };
        let mut copy = T::Acc::scratch(copied);

        let mut ranges = [(0usize, 0usize); BLOCK];
        let mut state = [Row::<T::Acc>::new(); BLOCK];
        let mut bits = [0u64; BLOCK];
        let (mut low, mut end) = (usize::MAX, 0);
        for (i, range) in ranges.iter_mut().enumerate().take(count) {
            let (head, position) = place(i);
            *range = problem.visible.range(batch, position);
            if range.0 < range.1 {
                (low, end) = (low.min(range.0), end.max(range.1));
            }
            let Some(lane) = problem.query.lane(&[batch, head, position]) else {
                return; // the row is in range
            };
            let at = if few {
                (i * size, 1)
            } else {
                (i / high * high * size + i % high, high)
            };
            for (x, slot) in lane.iter().zip(queries[at.0..].iter_mut().step_by(at.1)) {
                *slot = x.to_acc();
            }
        }
        if !few {
            for i in count..all {
                let at = i / high * high * size + i % high;
                for slot in queries[at..].iter_mut().step_by(high).take(size) {
                    *slot = T::Acc::ZERO;
                }
            }
        }

        let mut start = low.min(end);
        while start < end {
            let (mut any, mut every) = (0u64, u64::MAX);
            for i in 0..count {
                let (head, position) = place(i);
                bits[i] = problem
                    .visible
                    .tile([batch, head, position], ranges[i], start, bias);
                any |= bits[i];
                every &= bits[i];
            }
            if any == 0 {
                start += TILE;
                continue;
            }

            if few {
                with_rows!(keys, start, any, size, copy, |lines, first| {
                    few_scores(s, queries, size, lines, first, any, scores);
                });
            } else {
                scores.fill(T::Acc::ZERO);
                with_rows!(keys, start, any, size, copy, |lines, first| {
                    pack_keys(s, lines, first, any, size, line, key_panels);
                });
                if size > 0 {
                    for (i, a) in queries.chunks_exact(high * size).enumerate() {
                        for (j, b) in key_panels.chunks_exact(wide * size).enumerate() {
                            tile(s, a, b, &mut scores[i * high * TILE + j * wide..], TILE);
                        }
                    }
                }
            }

            for i in 0..count {
                let scores = &mut scores[i * TILE..][..TILE];
                let summands = if problem.visible.has_bias() {
                    let (head, position) = place(i);
                    problem
                        .visible
                        .tile([batch, head, position], ranges[i], start, bias);
                    Some(&*bias)
                } else {
                    None
                };
                adjust(s, scores, problem.scale, problem.softcap, summands);
                state[i].take(s, scores, bits[i], &mut sums[i * stride..][..width]);
            }

            let seen = (&bits[..count], every);
            if few {
                with_rows!(values, start, any, width, copy, |lines, first| {
                    few_values(s, scores, seen, lines, first, sums, stride);
                });
            } else {
                for (i, weights) in scores.chunks_exact(TILE).enumerate() {
                    let at = i / high * high * TILE + i % high;
                    for (x, slot) in weights.iter().zip(left[at..].iter_mut().step_by(high)) {
                        *slot = if i < count { *x } else { T::Acc::ZERO };
                    }
                }
                with_rows!(values, start, any, width, copy, |lines, first| {
                    let apart = pack_values(s, lines, first, (any, every), line, value_panels);
                    if apart != 0 {
                        let own = bits.map(|b| b & apart);
                        few_values(s, scores, (&own[..count], 0), lines, first, sums, stride);
                    }
                });
                for (i, a) in left.chunks_exact(high * TILE).enumerate() {
                    for (j, b) in value_panels.chunks_exact(wide * TILE).enumerate() {
                        tile(s, a, b, &mut sums[i * high * stride + j * wide..], stride);
                    }
                }
            }
            start += TILE;
        }

        for i in 0..count {
            let sums = &mut sums[i * stride..][..width];
            state[i].finish(s, sums);
            narrow(sums, rows.row(i));
        }
    }
}

/// Scores of the keys of a tile (bits `any`), read where they lie.
#[inline(always)]
fn few_scores<T: Real, S: Simd<T::Acc>>(
    s: S,
    queries: &[T::Acc],
    size: usize,
    keys: &Lines<'_, T>,
    first: usize,
    any: u64,
    scores: &mut [T::Acc],
) {
    let count = scores.len() / TILE;
    let query = |i: usize| &queries[i * size..][..size];
    let mut j = 0;
    while j < TILE && any >> j != 0 {
        if any >> j & 1 == 0 {
            j += 1;
            continue;
        }
        if any >> j & 15 == 15 {
            let at = first + j;
            let k = [
                keys.line(at),
                keys.line(at + 1),
                keys.line(at + 2),
                keys.line(at + 3),
            ];
            let mut i = 0;
            while i + 2 <= count {
                let [a, b] = dots(s, [query(i), query(i + 1)], k);
                scores[i * TILE + j..][..4].copy_from_slice(&a);
                scores[(i + 1) * TILE + j..][..4].copy_from_slice(&b);
                i += 2;
            }
            if i < count {
                let [a] = dots(s, [query(i)], k);
                scores[i * TILE + j..][..4].copy_from_slice(&a);
            }
            j += 4;
        } else {
            let k = [keys.line(first + j)];
            for i in 0..count {
                scores[i * TILE + j] = dots(s, [query(i)], k)[0][0];
            }
            j += 1;
        }
    }
}

/// Adds to each row's sum the values of the keys it sees (`bits`, of which all rows see those in `every`), read where
/// they lie.
#[inline(always)]
fn few_values<T: Real, S: Simd<T::Acc>>(
    s: S,
    weights: &[T::Acc],
    (bits, every): (&[u64], u64),
    values: &Lines<'_, T>,
    first: usize,
    sums: &mut [T::Acc],
    stride: usize,
) {
    let width = values.width();
    let any = bits.iter().fold(0, |all, b| all | b);
    let mut j = 0;
    while j < TILE && any >> j != 0 {
        if every >> j & 15 == 15 {
            let at = first + j;
            let v = [
                values.line(at),
                values.line(at + 1),
                values.line(at + 2),
                values.line(at + 3),
            ];
            for i in 0..bits.len() {
                let w = &weights[i * TILE + j..][..4];
                let w = [w[0], w[1], w[2], w[3]];
                axpys(s, w, v, &mut sums[i * stride..][..width]);
            }
            j += 4;
            continue;
        }
        if any >> j & 1 == 1 {
            let v = [values.line(first + j)];
            for (i, own) in bits.iter().enumerate() {
                if own >> j & 1 == 1 {
                    let w = [weights[i * TILE + j]];
                    axpys(s, w, v, &mut sums[i * stride..][..width]);
                }
            }
        }
        j += 1;
    }
}

/// Packs the keys of a tile into panels of two registers of keys each; invisible ones are zeros.
#[inline(always)]
fn pack_keys<T: Real, S: Simd<T::Acc>>(
    s: S,
    keys: &Lines<'_, T>,
    first: usize,
    any: u64,
    size: usize,
    line: &mut [T::Acc],
    panels: &mut [T::Acc],
) {
    let wide = 2 * S::LANES;
    let line = &mut line[..size];
    for j in 0..TILE {
        if any >> j & 1 == 1 {
            widen(s, keys.line(first + j), line);
        } else {
            line.fill(T::Acc::ZERO);
        }
        let at = j / wide * wide * size + j % wide;
        if size > 0 {
            for (x, slot) in line.iter().zip(panels[at..].iter_mut().step_by(wide)) {
                *slot = *x;
            }
        }
    }
}

/// Packs the values of a tile (bits `any`) into panels of two registers of columns each. A key that only some rows see
/// (not in `every`) and whose value is not finite would spoil the other rows, 0 times infinity being NaN: such keys are
/// left out and returned.
#[inline(always)]
fn pack_values<T: Real, S: Simd<T::Acc>>(
    s: S,
    values: &Lines<'_, T>,
    first: usize,
    (any, every): (u64, u64),
    line: &mut [T::Acc],
    panels: &mut [T::Acc],
) -> u64 {
    let wide = 2 * S::LANES;
    let line = &mut line[..values.width()];
    let mut apart = 0;
    for j in 0..TILE {
        let mut taken = any >> j & 1 == 1;
        if taken {
            widen(s, values.line(first + j), line);
            if every >> j & 1 == 0 && !line.iter().all(|x| x.is_finite()) {
                apart |= 1 << j;
                taken = false;
            }
        }
        for (panel, part) in line.chunks(wide).enumerate() {
            let slot = &mut panels[(panel * TILE + j) * wide..][..wide];
            slot.fill(T::Acc::ZERO);
            if taken {
                slot[..part.len()].copy_from_slice(part);
            }
        }
    }
    apart
}
