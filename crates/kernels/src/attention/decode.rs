//! Few query rows over one range of keys: rows of keys and values are read where they lie, each once for all query rows.

use super::Core;
use super::cache::{Head, KeyRows, ValueRows, Weights};
use super::online_softmax::adjust;
use super::split::{FEW, Found, Work};
use super::visibility::{SPAN, TILE, TILES};
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::storage::Real;

/// Adds the keys of `work` to what was found.
#[inline(always)]
pub(super) fn pass<T: Real, H: Head<T::Acc>, S: Simd<T::Acc>>(
    s: S,
    core: &Core<'_, '_, T>,
    mut head: H,
    work: Work,
    found: Found<'_, T::Acc>,
) {
    let (size, width, count) = (core.size, core.value_size, work.count);
    let Found { rows, sums, stride } = found;
    let Some((ranges, low, end)) = work.ranges::<T, FEW>(core) else {
        return;
    };
    let mut memory = T::Acc::scratch(count * (size + SPAN) + TILE);
    let (queries, rest) = memory.split_at_mut(count * size);
    let (scores, bias) = rest.split_at_mut(count * SPAN);
    if !work.queries(core, queries) {
        return; // rows are in range
    }
    head.begin(s, queries, size);

    let shared = core.visible.same_for_heads();
    let same = |i: usize| shared && i > 0 && work.place(core, i).1 == work.place(core, i - 1).1;
    // What each row sees of each tile.
    let mut seen = [[0u64; FEW]; TILES];
    let mut start = low / SPAN * SPAN;
    while start < end {
        let tiles = (end - start).div_ceil(TILE).min(TILES);
        let mut any = [0u64; TILES];
        for t in 0..tiles {
            let (tile, bits) = (start + t * TILE, &mut seen[t]);
            for i in 0..count {
                bits[i] = if same(i) {
                    bits[i - 1]
                } else {
                    let (query_head, position) = work.place(core, i);
                    let at = [work.batch, query_head, position];
                    core.visible.tile(at, ranges[i], tile, bias)
                };
                any[t] |= bits[i];
            }
            if any[t] == 0 {
                continue;
            }
            let scores = &mut scores[t * TILE..];
            for (segment, part) in head.parts((low, end), tile, any[t]) {
                if part.seen != 0 {
                    segment.keys.scores(s, queries, size, part, scores);
                }
            }
            for i in 0..count {
                let summands = core.visible.has_bias().then(|| {
                    if !same(i) {
                        let (query_head, position) = work.place(core, i);
                        let at = [work.batch, query_head, position];
                        core.visible.tile(at, ranges[i], tile, bias);
                    }
                    &*bias
                });
                adjust(s, &mut scores[i * SPAN..][..TILE], core.softcap, summands);
            }
        }
        if any != [0; TILES] {
            for (i, row) in rows.iter_mut().enumerate() {
                let scores = &mut scores[i * SPAN..][..tiles * TILE];
                let visible = seen.iter().map(|bits| bits[i]);
                row.take(s, scores, visible, &mut sums[i * stride..][..width]);
            }
        }
        for t in (0..tiles).filter(|t| any[*t] != 0) {
            let own = &seen[t][..count];
            let weights = Weights {
                values: &scores[t * TILE..],
                own,
                every: own.iter().fold(u64::MAX, |every, bits| every & bits),
            };
            for (segment, part) in head.parts((low, end), start + t * TILE, any[t]) {
                if part.seen != 0 {
                    segment.values.add(s, weights, part, sums, stride);
                }
            }
        }
        start += SPAN;
    }
}
