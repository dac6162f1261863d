//! Few query rows a head over one range of pages: a page is read for all heads before the next one.
//!
//! The heads of a page lie side by side, so that this is the order of the memory. One head after the other would be many short
//! streams, and what a processor needs to find out at the beginning of each costs more than the rows of a page.

use super::super::Core;
use super::super::cache::Head;
use super::super::split::{FEW, Found, Work};
use super::super::visibility::{SPAN, TILE, TILES};
use super::head::PagedCache;
use super::ops::{Queries, RunWeights, add_to, checked, scores_of};
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::storage::Real;

/// Adds the keys of `work` to what was found. Its rows are those of one head or of some.
#[inline(always)]
pub(super) fn pass<T: Real<Acc = f32>, S: Simd<f32>>(
    s: S,
    core: &Core<'_, '_, T>,
    cache: &PagedCache<'_>,
    work: Work,
    found: Found<'_, f32>,
) {
    let width = core.value_size;
    let Found { rows, sums, stride } = found;
    let group = core.group() * core.length;
    let line = group.min(work.count).max(1);
    // Every head sees the same.
    let one = Work {
        count: line,
        ..work
    };
    let Some((ranges, low, end)) = one.ranges::<T, FEW>(core) else {
        return;
    };
    let mut memory = f32::scratch(work.count * SPAN + TILE);
    let (scores, bias) = memory.split_at_mut(work.count * SPAN);
    let first = work.kv_head + work.first / group.max(1);
    let own;
    let (queries, before) = match &cache.queries {
        Some(queries) => (queries, work.batch * core.kv_heads + first),
        None => {
            let Some(queries) = arranged(core, cache, work, line) else {
                return; // rows are in range
            };
            own = queries;
            (&own, 0)
        }
    };
    let heads = cache.heads(work.batch, first, work.count / line);

    let mut seen = [[0u64; TILES]; FEW];
    let mut start = low / SPAN * SPAN;
    while start < end {
        let tiles = (end - start).div_ceil(TILE).min(TILES);
        let mut any = [0u64; TILES];
        for (i, own) in seen.iter_mut().enumerate().take(line) {
            let (query_head, position) = work.place(core, i);
            let at = [work.batch, query_head, position];
            for (t, bits) in own.iter_mut().enumerate().take(tiles) {
                *bits = core.visible.tile(at, ranges[i], start + t * TILE, bias);
                any[t] |= *bits;
            }
        }
        if any != [0; TILES] {
            for (segment, part) in heads.parts((low, end), start, any) {
                for (place, count) in part.runs(SPAN) {
                    let row = part.row(place);
                    segment
                        .keys
                        .each_run(s, row, count, |[head, offset], run, scales| {
                            let out = &mut scores[head * line * SPAN + place + offset..];
                            let queries = queries.of(before + head, run.heads());
                            scores_of(cache.isa, queries, run, scales, out);
                        });
                }
            }
            for (i, row) in rows.iter_mut().enumerate() {
                let scores = &mut scores[i * SPAN..][..tiles * TILE];
                scores.iter_mut().for_each(|x| *x = checked(*x));
                let weighted = &mut sums[i * stride..][..width];
                row.take(s, scores, seen[i % line].into_iter(), weighted);
            }
            for (segment, part) in heads.parts((low, end), start, any) {
                for (place, count) in part.runs(SPAN) {
                    let row = part.row(place);
                    segment
                        .values
                        .each_run(s, row, count, |[head, offset], run, scales| {
                            let weights = RunWeights {
                                values: &scores[head * line * SPAN + place + offset..],
                                line,
                                precision: cache.precision,
                            };
                            let out = (&mut sums[head * line * stride..], stride);
                            add_to(cache.isa, weights, run, scales, out);
                        });
                }
            }
        }
        start += SPAN;
    }
}

/// The query rows of `work`, laid out for the pages. `None`: there is no such row.
fn arranged<T: Real<Acc = f32>>(
    core: &Core<'_, '_, T>,
    cache: &PagedCache<'_>,
    work: Work,
    line: usize,
) -> Option<Queries> {
    let mut queries = f32::scratch(work.count * core.size);
    let found = work.queries(core, &mut queries);
    found.then(|| cache.arranged(&queries, line))
}

/// The query rows of all heads, where there are few a head: one layout serves all ranges of keys.
pub(super) fn all_arranged<T: Real<Acc = f32>>(
    core: &Core<'_, '_, T>,
    cache: &PagedCache<'_>,
) -> Option<Queries> {
    let line = core.group() * core.length;
    let (count, each) = (
        core.heads * core.length,
        core.heads * core.length * core.size,
    );
    if !(1..=FEW).contains(&line) || each == 0 {
        return None;
    }
    let mut queries = f32::scratch(core.batch * each);
    for (batch, rows) in queries.chunks_exact_mut(each).enumerate() {
        let work = Work {
            batch,
            kv_head: 0,
            first: 0,
            count,
            low: 0,
            high: core.total,
        };
        if !work.queries(core, rows) {
            return None; // rows are in range
        }
    }
    Some(cache.arranged(&queries, line))
}
