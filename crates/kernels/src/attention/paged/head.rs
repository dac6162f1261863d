//! The pages of one head as segments of the walk over keys.

use super::super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen};
use super::super::rows::Strip;
use super::super::split::FEW;
use super::super::visibility::TILE;
use super::PagedProblem;
use super::group::{At, Page, Pages};
use super::ops::{Arrange, Queries, RunWeights, Scales, Strips, add_to, scores_of, widen_to};
use super::payload::{Along, CodeParameters, Codes, Held, PageRows};
use crate::quantize::Payload;
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::{Isa, KernelError};
use refeed_values::Slabs;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of fewer tokens are joined with their neighbours: their rows are copied to one place first.
const SHORT: usize = 8;

/// Rows that are decoded at a time where they cannot be used as they are.
const DECODED: usize = 16;

/// Pages and new rows of all heads.
pub(super) struct PagedCache<'a> {
    isa: Isa,
    pages: Pages<'a>,
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

impl<'a> PagedCache<'a> {
    pub(super) fn new(
        isa: Isa,
        problem: &PagedProblem<'a>,
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
        let first = problem.pages.first();
        let mut end = first.map_or(problem.past, |group| group.tokens().start);
        for group in problem.pages {
            let expected = [batch, kv_heads, size, width];
            if group.extents != expected {
                return Err(KernelError::shape("pages", &expected, &group.extents));
            }
            let tokens = group.tokens();
            if tokens.start != end {
                let what = "start and length of a page";
                return Err(KernelError::shape(what, &[end], &[tokens.start]));
            }
            for (slot, own) in needed.iter_mut().zip(group.needed) {
                *slot |= own;
            }
            end = tokens.end;
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
            pages: Pages(problem.pages),
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

impl<'a> Cache<f32> for PagedCache<'a> {
    type Head<'s>
        = PagedHead<'s, 'a>
    where
        Self: 's;

    #[inline(always)]
    fn head(&self, batch: usize, head: usize) -> Option<PagedHead<'_, 'a>> {
        Some(PagedHead {
            cache: self,
            slice: batch * self.kv_heads + head,
            cursor: Cell::new((0, 0)),
            queries: None,
            decoded: Cell::new(0),
        })
    }
}

/// Pages and new rows of one head.
pub(super) struct PagedHead<'s, 'a> {
    cache: &'s PagedCache<'a>,
    /// Batch row and head, counted together.
    slice: usize,
    /// The page that was found last.
    cursor: Cell<At>,
    queries: Option<Queries>,
    decoded: Cell<u64>,
}

impl Drop for PagedHead<'_, '_> {
    fn drop(&mut self) {
        self.cache
            .decoded
            .fetch_add(self.decoded.get(), Ordering::Relaxed);
    }
}

impl<'a> PagedHead<'_, 'a> {
    /// The page that holds a token.
    fn page_of(&self, token: usize) -> Option<At> {
        let pages = self.cache.pages;
        let holds = |at: At| {
            let page = pages.get(at)?;
            (page.start <= token && token < page.end()).then_some(at)
        };
        let last = self.cursor.get();
        let found = holds(last)
            .or_else(|| holds(pages.after(last)))
            .or_else(|| pages.find(token))?;
        self.cursor.set(found);
        Some(found)
    }
}

impl<'s, 'a> Head<f32> for PagedHead<'s, 'a> {
    type Keys<'h>
        = Side<'h, 's, 'a, false>
    where
        Self: 'h;
    type Values<'h>
        = Side<'h, 's, 'a, true>
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
            return (key < end).then(|| segment((0, 0), 0, cache.past, end));
        }
        let first = self.page_of(key)?;
        let page = cache.pages.get(first)?;
        let mut end = page.end();
        let mut count = 1;
        if page.length < SHORT {
            let tile = (key / TILE + 1) * TILE;
            for next in cache.pages.from(cache.pages.after(first)) {
                let fits = end < tile && next.length < SHORT;
                if !fits || !page.key.joins(&next.key) || !page.value.joins(&next.value) {
                    break;
                }
                end += next.length;
                count += 1;
            }
        }
        Some(segment(first, count, page.start, end))
    }
}

/// Keys or values of some pages in a row, or of the new rows when there are none.
pub(super) struct Side<'h, 's, 'a, const VALUES: bool> {
    head: &'h PagedHead<'s, 'a>,
    first: At,
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

impl<'a, const VALUES: bool> Side<'_, '_, 'a, VALUES> {
    fn rows<'r>(&self, page: &'r Page) -> &'r PageRows {
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
        let Some(page) = cache.pages.get(self.first) else {
            return; // segments are made of pages
        };
        match self.count {
            1 => self.one_page(self.rows(page), row, tokens, then),
            _ => self.joined(page, row, tokens, then),
        }
    }

    /// [`Side::each_run`] of one page.
    fn one_page(
        &self,
        rows: &PageRows,
        row: usize,
        tokens: usize,
        mut then: impl FnMut(usize, usize, Strips<'_>, Scales<'_>),
    ) {
        let slice = self.head.slice;
        let width = rows.extents[3];
        match &rows.held {
            Held::Float(all) => {
                let strips = Strips::Float(strip_of(all, slice, row, width));
                then(0, tokens, strips, Scales::Plain);
            }
            Held::Float16(all) => {
                let strips = Strips::Float16(strip_of(all, slice, row, width));
                then(0, tokens, strips, Scales::Plain);
            }
            Held::Bfloat16(all) => {
                let strips = Strips::Bfloat16(strip_of(all, slice, row, width));
                then(0, tokens, strips, Scales::Plain);
            }
            Held::Codes(codes) => {
                self.decodes(tokens * width);
                let strip = strip_of(&codes.bytes, slice, row, width / codes.parts());
                let strips = Strips::Codes(codes.storage, strip);
                self.with_scales(codes, [row, tokens, width], |scales| {
                    then(0, tokens, strips, scales);
                });
            }
            Held::Apart(value, codes) => {
                let Ok(payload) = Payload::of(value) else {
                    return; // it was one when the page was prepared
                };
                let mut memory = f32::scratch(DECODED * width);
                let mut done = 0;
                while done < tokens {
                    let count = DECODED.min(tokens - done);
                    for (j, slot) in memory.chunks_exact_mut(width).take(count).enumerate() {
                        if payload.row(slice, row + done + j, slot).is_err() {
                            slot.fill(f32::NAN); // found again, with its place
                        }
                    }
                    if *codes {
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
        codes: &Codes,
        [row, tokens, width]: [usize; 3],
        then: impl FnOnce(Scales<'_>),
    ) {
        let slice = self.head.slice;
        let several = match (&codes.parameters, codes.of_slice(slice)) {
            (CodeParameters::Several(several), None) => several,
            (_, one) => {
                let (scale, zero) = one.unwrap_or((1.0, 0.0));
                return then(Scales::One(scale, zero));
            }
        };
        if several.along == Along::Rows {
            let mut own = RowScales::new();
            for j in 0..tokens.min(TILE) {
                let index = several.places.row(slice, row + j);
                (own.scales[j], own.zeros[j]) = several.at(index);
            }
            return then(own.first(tokens));
        }
        let base = several.places.row(slice, row);
        let whole = width.next_multiple_of(16);
        let mut memory = f32::scratch(2 * whole);
        memory.fill(0.0);
        let (scales, zeros) = memory.split_at_mut(whole);
        for (column, (scale, zero)) in scales.iter_mut().zip(&mut *zeros).enumerate() {
            if column < width {
                (*scale, *zero) = several.at(base + several.places.column(column));
            }
        }
        then(Scales::Columns(scales, zeros));
    }

    /// [`Side::each_run`] of several short pages of one kind, whose rows are copied to one place. `first` is the first page.
    fn joined(
        &self,
        first: &Page,
        row: usize,
        tokens: usize,
        mut then: impl FnMut(usize, usize, Strips<'_>, Scales<'_>),
    ) {
        let rows = self.rows(first);
        let width = rows.extents[3];
        match &rows.held {
            Held::Float(_) => {
                let of = |rows: &'a PageRows| match &rows.held {
                    Held::Float(all) => Some(all),
                    _ => None,
                };
                let all = self.gathered([row, tokens, width], of, |_, _| {});
                let strips = Strips::Float(strip(&all, 0, width));
                then(0, tokens, strips, Scales::Plain);
            }
            Held::Float16(_) => {
                let of = |rows: &'a PageRows| match &rows.held {
                    Held::Float16(all) => Some(all),
                    _ => None,
                };
                let all = self.gathered([row, tokens, width], of, |_, _| {});
                let strips = Strips::Float16(strip(&all, 0, width));
                then(0, tokens, strips, Scales::Plain);
            }
            Held::Bfloat16(_) => {
                let of = |rows: &'a PageRows| match &rows.held {
                    Held::Bfloat16(all) => Some(all),
                    _ => None,
                };
                let all = self.gathered([row, tokens, width], of, |_, _| {});
                let strips = Strips::Bfloat16(strip(&all, 0, width));
                then(0, tokens, strips, Scales::Plain);
            }
            Held::Codes(codes) => {
                self.decodes(tokens * width);
                let units = width / codes.parts();
                let of = |rows: &'a PageRows| match &rows.held {
                    Held::Codes(codes) => Some(&codes.bytes),
                    _ => None,
                };
                let mut own = RowScales::new();
                let all = self.gathered([row, tokens, units], of, |places, rows| {
                    if let Held::Codes(codes) = &rows.held
                        && let Some((scale, zero)) = codes.of_slice(self.head.slice)
                    {
                        own.scales[places.clone()].fill(scale);
                        own.zeros[places].fill(zero);
                    }
                });
                let strips = Strips::Codes(codes.storage, strip(&all, 0, units));
                then(0, tokens, strips, own.first(tokens));
            }
            Held::Apart(..) => {} // never joined
        }
    }

    /// Rows of short pages, copied to one place: `tokens` of `units` units, from row `row` of the segment on. `with` is told
    /// the places of the rows of each page.
    fn gathered<U: Scratch + refeed_values::Element>(
        &self,
        [row, tokens, units]: [usize; 3],
        of: impl Fn(&'a PageRows) -> Option<&'a Slabs<U>>,
        mut with: impl FnMut(Range<usize>, &'a PageRows),
    ) -> crate::scratch::Lent<U> {
        let mut memory = U::scratch(tokens * units);
        let (mut skip, mut at) = (row, 0);
        for page in self.head.cache.pages.from(self.first).take(self.count) {
            if skip >= page.length {
                skip -= page.length;
                continue;
            }
            let rows = if VALUES { &page.value } else { &page.key };
            let count = (page.length - skip).min(tokens - at);
            if let Some(slab) = of(rows).and_then(|all| all.get(self.head.slice)) {
                let from = &slab[skip * units..][..count * units];
                memory[at * units..][..count * units].copy_from_slice(from);
            }
            with(at..at + count, rows);
            (skip, at) = (0, at + count);
            if at == tokens {
                break;
            }
        }
        memory
    }

    /// Asks for the rows that are read next where the pages of a part are read now: the values of its tokens, or, one tile
    /// `ahead`, keys. Pages lie anywhere, so nothing else could know.
    #[inline(always)]
    fn soon<S: Simd<f32>, const NEXT: bool>(&self, s: S, part: Part, ahead: usize) {
        let pages = self.head.cache.pages;
        if self.count == 0 {
            return; // new rows are at hand
        }
        let Some(first) = pages.get(self.first) else {
            return;
        };
        let low = first.start + part.first + ahead;
        let high = low + part.seen.count_ones() as usize;
        for page in pages.from(self.first).skip_while(|page| page.end() <= low) {
            if page.start >= high {
                return;
            }
            let rows = if NEXT { &page.value } else { &page.key };
            let from = low.max(page.start) - page.start;
            let to = high.min(page.end()) - page.start;
            let (slice, width) = (self.head.slice, rows.extents[3]);
            match &rows.held {
                Held::Float(all) => s.prefetch(rows_of(all, slice, from..to, width)),
                Held::Float16(all) => s.prefetch(rows_of(all, slice, from..to, width)),
                Held::Bfloat16(all) => s.prefetch(rows_of(all, slice, from..to, width)),
                Held::Codes(codes) => {
                    let units = width / codes.parts();
                    s.prefetch(rows_of(&codes.bytes, slice, from..to, units));
                }
                Held::Apart(..) => {}
            }
        }
    }

    fn decodes(&self, elements: usize) {
        let head = self.head;
        head.decoded.set(head.decoded.get() + 4 * elements as u64);
    }
}

/// Some rows of a slice of a page.
#[inline(always)]
fn rows_of<U: refeed_values::Element>(
    all: &Slabs<U>,
    slice: usize,
    rows: Range<usize>,
    width: usize,
) -> &[U] {
    let slab = all.get(slice).unwrap_or_default();
    slab.get(rows.start * width..rows.end * width)
        .unwrap_or_default()
}

/// The rows of a slice of a page, from row `row` on.
fn strip_of<U: refeed_values::Element>(
    all: &Slabs<U>,
    slice: usize,
    row: usize,
    width: usize,
) -> Strip<'_, U> {
    strip(all.get(slice).unwrap_or_default(), row * width, width)
}

fn strip<U>(all: &[U], at: usize, width: usize) -> Strip<'_, U> {
    Strip {
        units: &all[at..],
        stride: width,
        width,
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, false> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, _: S, part: Part, out: &mut [f32], stride: usize) {
        self.widen_part(part, out, stride);
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, true> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, _: S, part: Part, out: &mut [f32], stride: usize) {
        self.widen_part(part, out, stride);
    }
}

impl<const VALUES: bool> Side<'_, '_, '_, VALUES> {
    fn widen_part(&self, part: Part, out: &mut [f32], stride: usize) {
        for (place, count) in runs(part) {
            self.each_run(part.row(place), count, |offset, tokens, strips, scales| {
                let out = &mut out[(place + offset) * stride..];
                widen_to(self.head.cache.isa, strips, tokens, scales, (out, stride));
            });
        }
    }
}

impl<'h> KeyRows<'h, f32> for Side<'h, '_, '_, false> {
    #[inline(always)]
    fn scores<S: Simd<f32>>(&self, s: S, _: &[f32], _: usize, part: Part, scores: &mut [f32]) {
        self.soon::<S, true>(s, part, 0);
        self.scores_of_part(part, scores);
    }
}

impl Side<'_, '_, '_, false> {
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

impl<'h> ValueRows<'h, f32> for Side<'h, '_, '_, true> {
    #[inline(always)]
    fn add<S: Simd<f32>>(
        &self,
        s: S,
        weights: Weights<'_, f32>,
        part: Part,
        sums: &mut [f32],
        stride: usize,
    ) {
        self.soon::<S, false>(s, part, TILE);
        self.add_part(weights, part, sums, stride);
    }
}

impl Side<'_, '_, '_, true> {
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
