//! Few query rows over one range of keys: rows of keys and values are read where they lie, each once for all query rows.

use super::Core;
use super::cache::{Head, KeyRows, ValueRows, Weights};
use super::online_softmax::adjust;
use super::split::{FEW, Found, Work};
use super::visibility::TILE;
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
    let mut memory = T::Acc::scratch(count * (size + TILE) + TILE);
    let (queries, rest) = memory.split_at_mut(count * size);
    let (scores, bias) = rest.split_at_mut(count * TILE);
    if !work.queries(core, queries) {
        return; // rows are in range
    }
    head.begin(s, queries, size);

    let shared = core.visible.same_for_heads();
    let same = |i: usize| shared && i > 0 && work.place(core, i).1 == work.place(core, i - 1).1;
    let mut bits = [0u64; FEW];
    let mut start = low / TILE * TILE;
    while start < end {
        let (mut any, mut every) = (0u64, u64::MAX);
        for i in 0..count {
            bits[i] = if same(i) {
                bits[i - 1]
            } else {
                let (query_head, position) = work.place(core, i);
                let at = [work.batch, query_head, position];
                core.visible.tile(at, ranges[i], start, bias)
            };
            any |= bits[i];
            every &= bits[i];
        }
        if any == 0 {
            start += TILE;
            continue;
        }
        for (segment, part) in head.parts((low, end), start, any) {
            if part.seen != 0 {
                segment.keys.scores(s, queries, size, part, scores);
            }
        }
        for i in 0..count {
            let scores = &mut scores[i * TILE..][..TILE];
            let summands = core.visible.has_bias().then(|| {
                if !same(i) {
                    let (query_head, position) = work.place(core, i);
                    let at = [work.batch, query_head, position];
                    core.visible.tile(at, ranges[i], start, bias);
                }
                &*bias
            });
            adjust(s, scores, core.softcap, summands);
            rows[i].take(s, scores, bits[i], &mut sums[i * stride..][..width]);
        }
        let weights = Weights {
            values: &*scores,
            own: &bits[..count],
            every,
        };
        for (segment, part) in head.parts((low, end), start, any) {
            if part.seen != 0 {
                segment.values.add(s, weights, part, sums, stride);
            }
        }
        start += TILE;
    }
}
