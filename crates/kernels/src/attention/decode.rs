//! Few query rows over one range of keys: rows of keys and values are read where they lie, each once for all query rows.

use super::Core;
use super::cache::{FewHead, SpanKeys, Weights};
use super::online_softmax::adjust;
use super::split::{FEW, Found, Work};
use super::visibility::{SPAN, TILE, TILES};
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};

/// Adds the keys of `work` to what was found.
#[inline(always)]
pub(super) fn pass<T: Real, H: FewHead<T::Acc>, S: Simd<T::Acc>>(
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
    let mut seen = [[0u64; TILES]; FEW];
    let seen = &mut seen[..count];
    let mut start = low / SPAN * SPAN;
    while start < end {
        let tiles = (end - start).div_ceil(TILE).min(TILES);
        let (mut any, mut every) = ([0u64; TILES], [u64::MAX; TILES]);
        for i in 0..count {
            let mut own = [0; TILES];
            if same(i) {
                own = seen[i - 1];
            } else {
                let (query_head, position) = work.place(core, i);
                let at = [work.batch, query_head, position];
                for (t, bits) in own.iter_mut().enumerate().take(tiles) {
                    *bits = core.visible.tile(at, ranges[i], start + t * TILE, bias);
                }
            }
            for (t, bits) in own.into_iter().enumerate() {
                any[t] |= bits;
                every[t] &= bits;
            }
            seen[i] = own;
        }
        if any != [0; TILES] {
            let span = SpanKeys {
                range: (low, end),
                start,
                seen: any,
            };
            head.scores(s, (queries, count), span, scores);
            if core.softcap != T::Acc::ZERO || core.visible.has_bias() {
                for t in (0..tiles).filter(|t| any[*t] != 0) {
                    for i in 0..count {
                        let summands = core.visible.has_bias().then(|| {
                            if !same(i) {
                                let (query_head, position) = work.place(core, i);
                                let at = [work.batch, query_head, position];
                                core.visible.tile(at, ranges[i], start + t * TILE, bias);
                            }
                            &*bias
                        });
                        let scores = &mut scores[i * SPAN + t * TILE..][..TILE];
                        adjust(s, scores, core.softcap, summands);
                    }
                }
            }
            for (i, row) in rows.iter_mut().enumerate() {
                let scores = &mut scores[i * SPAN..][..tiles * TILE];
                let weighted = &mut sums[i * stride..][..width];
                row.take(s, scores, seen[i].into_iter(), weighted);
            }
            let weights = Weights {
                values: scores,
                own: seen,
                every,
            };
            head.add(s, weights, span, (&mut *sums, stride));
        }
        start += SPAN;
    }
}
