//! The pages of one head as segments of the walk over keys.

use super::super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen};
use super::super::rows::Strip;
use super::super::split::FEW;
use super::super::visibility::TILE;
use super::ops::{Arrange, Queries, RunWeights, Scales, Strips, add_to, scores_of, widen_to};
use super::payload::{Along, Codes, Held, PageRows};
use super::{Page, PagedProblem};
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::{Isa, KernelError};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of fewer tokens are joined with their neighbours: their rows are copied to one place first.
const SHORT: usize = 8;

/// Rows that are decoded at a time where they cannot be used as they are.
const DECODED: usize = 16;

/// Pages and new rows of all heads.
pub(super) struct PagedCache<'p, 'a> {
    isa: Isa,
    pages: &'p [Page<'a>],
    past: usize,
    length: usize,
    kv_heads: usize,
    size: usize,
    width: usize,
    key: &'a [f32],
    value: &'a [f32],
    /// Which orders of queries the pages need.
    needed: [bool; 3],
    decoded: AtomicU64,
}

impl<'p, 'a> PagedCache<'p, 'a> {
    pub(super) fn new(
        isa: Isa,
        problem: &'p PagedProblem<'a>,
        [batch, kv_heads, length, size, width]: [usize; 5],
    ) -> Result<Self, KernelError> {
        let dense = |operand, view: &refeed_values::View<'a, f32>, width| {
            let shape = [batch, kv_heads, length, width];
            match view.as_slice() {
                Some(rows) if view.shape() == shape => Ok(rows),
                _ => Err(KernelError::shape(operand, &shape, view.shape())),
            }
        };
        let mut needed = [true, false, false];
        let mut end = problem
            .pages
            .first()
            .map_or(problem.past, |page| page.start);
        for page in problem.pages {
            for (operand, rows, width) in [
                ("page key", &page.key, size),
                ("page value", &page.value, width),
            ] {
                let got = rows.extents();
                let expected = [batch, kv_heads, got[2], width];
                if got != expected {
                    return Err(KernelError::shape(operand, &expected, &got));
                }
                if page.start != end || page.length == 0 || page.length > got[2] {
                    return Err(KernelError::shape(
                        "start and length of a page",
                        &[end, got[2]],
                        &[page.start, page.length],
                    ));
                }
            }
            needed[page.key.parts().trailing_zeros() as usize % 3] = true;
            end = page.start.saturating_add(page.length);
        }
        if end != problem.past {
            return Err(KernelError::Length {
                operand: "tokens of the pages",
                expected: problem.past,
                got: end,
            });
        }
        Ok(PagedCache {
            isa,
            pages: problem.pages,
            past: problem.past,
            length,
            kv_heads,
            size,
            width,
            key: dense("key", &problem.key, size)?,
            value: dense("value", &problem.value, width)?,
            needed,
            decoded: AtomicU64::new(0),
        })
    }

    /// FLOAT bytes of codes that were turned into numbers so far.
    pub(super) fn decoded_bytes(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }
}

impl<'p, 'a> Cache<f32> for PagedCache<'p, 'a> {
    type Head<'s>
        = PagedHead<'s, 'p, 'a>
    where
        Self: 's;

    #[inline(always)]
    fn head(&self, batch: usize, head: usize) -> Option<PagedHead<'_, 'p, 'a>> {
        Some(PagedHead {
            cache: self,
            slice: batch * self.kv_heads + head,
            cursor: Cell::new(0),
            queries: None,
            decoded: Cell::new(0),
        })
    }
}

/// Pages and new rows of one head.
pub(super) struct PagedHead<'s, 'p, 'a> {
    cache: &'s PagedCache<'p, 'a>,
    /// Batch row and head, counted together.
    slice: usize,
    /// The page that was found last.
    cursor: Cell<usize>,
    queries: Option<Queries>,
    decoded: Cell<u64>,
}

impl Drop for PagedHead<'_, '_, '_> {
    fn drop(&mut self) {
        self.cache
            .decoded
            .fetch_add(self.decoded.get(), Ordering::Relaxed);
    }
}

impl<'a> PagedHead<'_, '_, 'a> {
    /// The page that holds a token.
    fn page_of(&self, token: usize) -> Option<usize> {
        let pages = self.cache.pages;
        let holds = |index: usize| {
            let page = pages.get(index)?;
            (page.start <= token && token - page.start < page.length).then_some(index)
        };
        let last = self.cursor.get();
        let found = holds(last).or_else(|| holds(last + 1)).or_else(|| {
            let after = pages.partition_point(|page| page.start <= token);
            holds(after.checked_sub(1)?)
        })?;
        self.cursor.set(found);
        Some(found)
    }
}

impl<'s, 'p, 'a> Head<f32> for PagedHead<'s, 'p, 'a> {
    type Keys<'h>
        = Side<'h, 's, 'p, 'a, false>
    where
        Self: 'h;
    type Values<'h>
        = Side<'h, 's, 'p, 'a, true>
    where
        Self: 'h;

    #[inline(always)]
    fn begin<S: Simd<f32>>(&mut self, _: S, queries: &[f32], size: usize) {
        if queries.len() > FEW * size {
            return; // many rows are multiplied with widened tiles
        }
        self.queries = Some(self.cache.isa.run_f32(Arrange {
            queries,
            size,
            needed: self.cache.needed,
        }));
    }

    fn segment(&self, key: usize) -> Option<Segment<Self::Keys<'_>, Self::Values<'_>>> {
        let cache = self.cache;
        let segment = |first, count, start, end| Segment {
            keys: Side {
                head: self,
                first,
                count,
            },
            values: Side {
                head: self,
                first,
                count,
            },
            start,
            end,
        };
        if key >= cache.past {
            let end = cache.past + cache.length;
            return (key < end).then(|| segment(0, 0, cache.past, end));
        }
        let first = self.page_of(key)?;
        let page = cache.pages.get(first)?;
        let mut end = page.start + page.length;
        let mut count = 1;
        if page.length < SHORT {
            let tile = (key / TILE + 1) * TILE;
            while let Some(next) = cache.pages.get(first + count)
                && end < tile
                && next.length < SHORT
                && page.key.joins(&next.key)
                && page.value.joins(&next.value)
            {
                end += next.length;
                count += 1;
            }
        }
        Some(segment(first, count, page.start, end))
    }
}

/// Keys or values of some pages in a row, or of the new rows when there are none.
pub(super) struct Side<'h, 's, 'p, 'a, const VALUES: bool> {
    head: &'h PagedHead<'s, 'p, 'a>,
    first: usize,
    count: usize,
}

/// Runs of neighbouring places that are seen: the first place and their number.
pub(in crate::attention) fn runs(part: Part) -> impl Iterator<Item = (usize, usize)> {
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

/// Scales and zero points of the rows of a tile.
struct RowScales {
    scales: [f32; TILE],
    zeros: [f32; TILE],
}

impl RowScales {
    fn new() -> RowScales {
        RowScales {
            scales: [1.0; TILE],
            zeros: [0.0; TILE],
        }
    }

    fn first(&self, rows: usize) -> Scales<'_> {
        Scales::Rows(&self.scales[..rows], &self.zeros[..rows])
    }
}

impl<'a, const VALUES: bool> Side<'_, '_, '_, 'a, VALUES> {
    fn rows<'r>(&self, page: &'r Page<'a>) -> &'r PageRows<'a> {
        if VALUES { &page.value } else { &page.key }
    }

    /// Calls `then` with runs of rows that together are `tokens` rows from row `row` of the segment on: the first one's
    /// distance from `row`, how many they are, the rows, and their scales.
    fn each_run(
        &self,
        row: usize,
        tokens: usize,
        mut then: impl FnMut(usize, usize, Strips<'_>, Scales<'_>),
    ) {
        let cache = self.head.cache;
        let slice = self.head.slice;
        if self.count == 0 {
            let (all, width) = match VALUES {
                true => (cache.value, cache.width),
                false => (cache.key, cache.size),
            };
            let at = (slice * cache.length + row) * width;
            then(
                0,
                tokens,
                Strips::Float(strip(all, at, width)),
                Scales::Plain,
            );
            return;
        }
        let Some(pages) = cache.pages.get(self.first..self.first + self.count) else {
            return; // segments are made of pages
        };
        match pages {
            [page] => self.one_page(self.rows(page), row, tokens, then),
            _ => self.joined(pages, row, tokens, then),
        }
    }

    /// [`Side::each_run`] of one page.
    fn one_page(
        &self,
        rows: &PageRows<'a>,
        row: usize,
        tokens: usize,
        mut then: impl FnMut(usize, usize, Strips<'_>, Scales<'_>),
    ) {
        let slice = self.head.slice;
        let [_, _, capacity, width] = rows.extents();
        let at = (slice * capacity + row) * width;
        match &rows.held {
            Held::Float(all) => {
                then(
                    0,
                    tokens,
                    Strips::Float(strip(all, at, width)),
                    Scales::Plain,
                );
            }
            Held::Float16(all) => {
                then(
                    0,
                    tokens,
                    Strips::Float16(strip(all, at, width)),
                    Scales::Plain,
                );
            }
            Held::Bfloat16(all) => {
                then(
                    0,
                    tokens,
                    Strips::Bfloat16(strip(all, at, width)),
                    Scales::Plain,
                );
            }
            Held::Codes(codes) => {
                self.decodes(tokens * width);
                let parts = codes.parts();
                let strip = strip(codes.bytes, at / parts, width / parts);
                let strips = Strips::Codes(codes.storage, strip);
                self.with_scales(codes, [row, tokens, width], |scales| {
                    then(0, tokens, strips, scales);
                });
            }
            Held::Apart(payload) => {
                let mut memory = f32::scratch(DECODED * width);
                let mut done = 0;
                while done < tokens {
                    let count = DECODED.min(tokens - done);
                    for (j, slot) in memory.chunks_exact_mut(width).take(count).enumerate() {
                        if payload.row(slice, row + done + j, slot).is_err() {
                            slot.fill(f32::NAN); // found again, with its place
                        }
                    }
                    if payload.is_affine() {
                        self.decodes(count * width);
                    }
                    let strips = Strips::Float(strip(&memory, 0, width));
                    then(done, count, strips, Scales::Plain);
                    done += count;
                }
            }
        }
    }

    /// Calls `then` with the scales of `tokens` rows of codes from row `row` on.
    fn with_scales(
        &self,
        codes: &Codes<'_>,
        [row, tokens, width]: [usize; 3],
        then: impl FnOnce(Scales<'_>),
    ) {
        let base = codes.parameters.row(self.head.slice, row);
        match codes.along {
            Along::Slices => {
                let (scale, zero) = codes.parameter(base);
                then(Scales::One(scale, zero));
            }
            Along::Rows => {
                let mut own = RowScales::new();
                for j in 0..tokens.min(TILE) {
                    let index = codes.parameters.row(self.head.slice, row + j);
                    (own.scales[j], own.zeros[j]) = codes.parameter(index);
                }
                then(own.first(tokens));
            }
            Along::Columns => {
                let whole = width.next_multiple_of(16);
                let mut memory = f32::scratch(2 * whole);
                memory.fill(0.0);
                let (scales, zeros) = memory.split_at_mut(whole);
                for (column, (scale, zero)) in scales.iter_mut().zip(&mut *zeros).enumerate() {
                    if column < width {
                        (*scale, *zero) = codes.parameter(base + codes.parameters.column(column));
                    }
                }
                then(Scales::Columns(scales, zeros));
            }
        }
    }

    /// [`Side::each_run`] of several short pages of one kind, whose rows are copied to one place.
    fn joined(
        &self,
        pages: &[Page<'a>],
        row: usize,
        tokens: usize,
        mut then: impl FnMut(usize, usize, Strips<'_>, Scales<'_>),
    ) {
        let [_, _, _, width] = self.rows(&pages[0]).extents();
        match &self.rows(&pages[0]).held {
            Held::Float(_) => {
                let of = |rows: &PageRows<'a>| match rows.held {
                    Held::Float(all) => all,
                    _ => &[],
                };
                let all = self.gathered(pages, row, tokens, width, of);
                then(
                    0,
                    tokens,
                    Strips::Float(strip(&all, 0, width)),
                    Scales::Plain,
                );
            }
            Held::Float16(_) => {
                let of = |rows: &PageRows<'a>| match rows.held {
                    Held::Float16(all) => all,
                    _ => &[],
                };
                let all = self.gathered(pages, row, tokens, width, of);
                then(
                    0,
                    tokens,
                    Strips::Float16(strip(&all, 0, width)),
                    Scales::Plain,
                );
            }
            Held::Bfloat16(_) => {
                let of = |rows: &PageRows<'a>| match rows.held {
                    Held::Bfloat16(all) => all,
                    _ => &[],
                };
                let all = self.gathered(pages, row, tokens, width, of);
                then(
                    0,
                    tokens,
                    Strips::Bfloat16(strip(&all, 0, width)),
                    Scales::Plain,
                );
            }
            Held::Codes(codes) => {
                self.decodes(tokens * width);
                let units = width / codes.parts();
                let of = |rows: &PageRows<'a>| match &rows.held {
                    Held::Codes(codes) => codes.bytes,
                    _ => &[],
                };
                let all = self.gathered(pages, row, tokens, units, of);
                let mut own = RowScales::new();
                each_row(pages, row, tokens, |j, page, _| {
                    if let Held::Codes(codes) = &self.rows(page).held {
                        let index = codes.parameters.row(self.head.slice, 0);
                        (own.scales[j], own.zeros[j]) = codes.parameter(index);
                    }
                });
                let strips = Strips::Codes(codes.storage, strip(&all, 0, units));
                then(0, tokens, strips, own.first(tokens));
            }
            Held::Apart(_) => {} // never joined
        }
    }

    /// Rows of short pages, copied to one place.
    fn gathered<'u, U: Scratch + Copy>(
        &self,
        pages: &'u [Page<'a>],
        row: usize,
        tokens: usize,
        units: usize,
        of: impl Fn(&'u PageRows<'a>) -> &'u [U],
    ) -> crate::scratch::Lent<U> {
        let mut memory = U::scratch(tokens * units);
        each_row(pages, row, tokens, |j, page, inside| {
            let rows = if VALUES { &page.value } else { &page.key };
            let at = (self.head.slice * rows.extents()[2] + inside) * units;
            memory[j * units..][..units].copy_from_slice(&of(rows)[at..][..units]);
        });
        memory
    }

    fn decodes(&self, elements: usize) {
        let head = self.head;
        head.decoded.set(head.decoded.get() + 4 * elements as u64);
    }
}

/// Calls `then` with each of `tokens` rows from row `row` of the pages on: its number, its page, its row in there.
fn each_row<'u, 'a>(
    pages: &'u [Page<'a>],
    row: usize,
    tokens: usize,
    mut then: impl FnMut(usize, &'u Page<'a>, usize),
) {
    let (mut skip, mut number) = (row, 0);
    for page in pages {
        if skip >= page.length {
            skip -= page.length;
            continue;
        }
        for inside in std::mem::take(&mut skip)..page.length {
            if number == tokens {
                return;
            }
            then(number, page, inside);
            number += 1;
        }
    }
}

fn strip<U>(all: &[U], at: usize, width: usize) -> Strip<'_, U> {
    Strip {
        units: &all[at..],
        stride: width,
        width,
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, '_, false> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, _: S, part: Part, out: &mut [f32], stride: usize) {
        self.widen_part(part, out, stride);
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, '_, true> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, _: S, part: Part, out: &mut [f32], stride: usize) {
        self.widen_part(part, out, stride);
    }
}

impl<const VALUES: bool> Side<'_, '_, '_, '_, VALUES> {
    fn widen_part(&self, part: Part, out: &mut [f32], stride: usize) {
        for (place, count) in runs(part) {
            self.each_run(part.row(place), count, |offset, tokens, strips, scales| {
                let out = &mut out[(place + offset) * stride..];
                widen_to(self.head.cache.isa, strips, tokens, scales, (out, stride));
            });
        }
    }
}

impl<'h> KeyRows<'h, f32> for Side<'h, '_, '_, '_, false> {
    #[inline(always)]
    fn scores<S: Simd<f32>>(&self, _: S, _: &[f32], _: usize, part: Part, scores: &mut [f32]) {
        self.scores_of_part(part, scores);
    }
}

impl Side<'_, '_, '_, '_, false> {
    fn scores_of_part(&self, part: Part, scores: &mut [f32]) {
        let Some(queries) = &self.head.queries else {
            return; // the walk begins with the queries
        };
        for (place, count) in runs(part) {
            self.each_run(part.row(place), count, |offset, tokens, strips, scales| {
                let out = &mut scores[place + offset..];
                scores_of(self.head.cache.isa, queries, strips, tokens, scales, out);
            });
        }
    }
}

impl<'h> ValueRows<'h, f32> for Side<'h, '_, '_, '_, true> {
    #[inline(always)]
    fn add<S: Simd<f32>>(
        &self,
        _: S,
        weights: Weights<'_, f32>,
        part: Part,
        sums: &mut [f32],
        stride: usize,
    ) {
        self.add_part(weights, part, sums, stride);
    }
}

impl Side<'_, '_, '_, '_, true> {
    fn add_part(&self, weights: Weights<'_, f32>, part: Part, sums: &mut [f32], stride: usize) {
        for (place, count) in runs(part) {
            self.each_run(part.row(place), count, |offset, tokens, strips, scales| {
                let weights = RunWeights {
                    values: &weights.values[place + offset..],
                    count: weights.own.len(),
                };
                let isa = self.head.cache.isa;
                add_to(isa, weights, strips, tokens, scales, (&mut *sums, stride));
            });
        }
    }
}
