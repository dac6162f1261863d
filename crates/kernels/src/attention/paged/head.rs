//! The pages of one head as segments of the walk over keys.

use super::super::cache::{Cache, Head, KeyRows, Part, Segment, ValueRows, Weights, Widen, runs};
use super::super::few::Soon;
use super::super::rows::{RowRuns, Run};
use super::super::split::FEW;
use super::super::visibility::TILE;
use super::PagedProblem;
use super::group::{At, Page, Pages};
use super::ops::{Arrange, Lists, Queries, RunWeights, Scales, add_to, scores_of, widen_to};
use super::payload::{Along, CodeParameters, Codes, Held, PageRows};
use crate::quantize::Payload;
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::{Isa, KernelError};
use refeed_values::{Element, Slabs};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs that the rows of a tile may lie in; those of more are copied to one place first. It is what pages of one token cost.
const RUNS: usize = 8;

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
            ahead: Cell::new((0, 0)),
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
    /// The page that was asked for last.
    ahead: Cell<At>,
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
    /// The page that holds a token, looked for from where the last one was found.
    fn page_of(&self, token: usize, cursor: &Cell<At>) -> Option<At> {
        let pages = self.cache.pages;
        let holds = |at: At| {
            let page = pages.get(at)?;
            (page.start <= token && token < page.end()).then_some(at)
        };
        let last = cursor.get();
        let found = holds(last)
            .or_else(|| holds(pages.after(last)))
            .or_else(|| pages.find(token))?;
        cursor.set(found);
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
        let first = self.page_of(key, &self.cursor)?;
        let page = cache.pages.get(first)?;
        let mut end = page.end();
        let mut count = 1;
        let tile = (key / TILE + 1) * TILE;
        if end < tile {
            for next in cache.pages.from(cache.pages.after(first)) {
                if !page.key.joins(&next.key) || !page.value.joins(&next.value) {
                    break;
                }
                end += next.length;
                count += 1;
                if end >= tile {
                    break;
                }
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

/// Some rows of a segment: the first, how many (at most those of a tile), and units of each.
type Extent = [usize; 3];

impl<'a, const VALUES: bool> Side<'_, '_, 'a, VALUES> {
    fn rows<'r>(&self, page: &'r Page) -> &'r PageRows {
        if VALUES { &page.value } else { &page.key }
    }

    /// Calls `then` with rows that together are `tokens` rows from row `row` of the segment on: the first one's distance from
    /// `row`, the rows, and their scales.
    fn each_list<S: Simd<f32>>(
        &self,
        s: S,
        row: usize,
        tokens: usize,
        mut then: impl FnMut(usize, Lists<'_>, Scales<'_>),
    ) {
        let cache = self.head.cache;
        let slice = self.head.slice;
        let Some(page) = cache.pages.get(self.first).filter(|_| self.count > 0) else {
            let (all, width) = match VALUES {
                true => (cache.value, cache.width),
                false => (cache.key, cache.size),
            };
            let new = &all[(slice * cache.length + row) * width..][..tokens * width];
            let runs = &[(new, tokens, Soon::default())];
            return then(0, Lists::Float(RowRuns { runs, width }), Scales::Plain);
        };
        let rows = self.rows(page);
        let width = rows.extents[3];
        let extent = [row, tokens, width];
        match &rows.held {
            Held::Float(_) => self.with_runs(
                s,
                extent,
                PageRows::float,
                |_, _| {},
                |runs| then(0, Lists::Float(RowRuns { runs, width }), Scales::Plain),
            ),
            Held::Float16(_) => self.with_runs(
                s,
                extent,
                PageRows::float16,
                |_, _| {},
                |runs| then(0, Lists::Float16(RowRuns { runs, width }), Scales::Plain),
            ),
            Held::Bfloat16(_) => self.with_runs(
                s,
                extent,
                PageRows::bfloat16,
                |_, _| {},
                |runs| then(0, Lists::Bfloat16(RowRuns { runs, width }), Scales::Plain),
            ),
            Held::Codes(codes) => {
                self.decodes(tokens * width);
                let units = width / codes.parts();
                let one = codes.of_slice(slice);
                let own = RefCell::new((RowScales::new(), true));
                let note = |places: Range<usize>, rows: &PageRows| {
                    if let Held::Codes(codes) = &rows.held
                        && let Some((scale, zero)) = codes.of_slice(slice)
                    {
                        let (own, alike) = &mut *own.borrow_mut();
                        *alike &= Some((scale, zero)) == one;
                        own.scales[places.clone()].fill(scale);
                        own.zeros[places].fill(zero);
                    }
                };
                self.with_runs(s, [row, tokens, units], PageRows::codes, note, |runs| {
                    let rows = RowRuns { runs, width: units };
                    let rows = Lists::Codes(codes.storage, rows);
                    let (own, alike) = &*own.borrow();
                    if self.count == 1 || *alike {
                        self.with_scales(codes, extent, |scales| then(0, rows, scales));
                    } else {
                        then(0, rows, own.first(tokens));
                    }
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
                    let runs = &[(&memory[..count * width], count, Soon::default())];
                    let rows = RowRuns { runs, width };
                    then(done, Lists::Float(rows), Scales::Plain);
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

    /// Calls `then` with runs of rows of the segment's pages, as `of` finds them in a page. `with` is told the places of the
    /// rows of each page.
    fn with_runs<U: Scratch + Element, S: Simd<f32>>(
        &self,
        s: S,
        [row, tokens, units]: Extent,
        of: impl Fn(&'a PageRows) -> Option<&'a Slabs<U>>,
        with: impl Fn(Range<usize>, &'a PageRows),
        then: impl FnOnce(&[Run<'_, U>]),
    ) {
        let mut runs: [Run<'_, U>; RUNS] = [(&[], 0, Soon::default()); RUNS];
        let mut memory = U::scratch(0);
        let (mut skip, mut at, mut number) = (row, 0, 0);
        let mut token = None;
        for page in self.head.cache.pages.from(self.first).take(self.count) {
            if skip >= page.length {
                skip -= page.length;
                continue;
            }
            let rows = if VALUES { &page.value } else { &page.key };
            let count = (page.length - skip).min(tokens - at);
            let slab = of(rows).and_then(|all| all.get(self.head.slice));
            let slab = &slab.unwrap_or_default()[skip * units..][..count * units];
            let first = *token.get_or_insert(page.start + skip);
            if number == RUNS {
                // One more than there is room for: all go to one place.
                memory = U::scratch(tokens * units);
                let mut place = 0;
                for (run, _, soon) in runs {
                    s.prefetch(soon.bytes);
                    memory[place..][..run.len()].copy_from_slice(run);
                    place += run.len();
                }
                number += 1;
            }
            let soon = self.soon(first + at + TILE, count);
            if number > RUNS {
                s.prefetch(soon.bytes);
                memory[at * units..][..count * units].copy_from_slice(slab);
            } else {
                runs[number] = (slab, count, soon);
                number += 1;
            }
            with(at..at + count, rows);
            (skip, at) = (0, at + count);
            if at == tokens {
                break;
            }
        }
        match number > RUNS {
            true => then(&[(&memory, tokens, Soon::default())]),
            false => then(&runs[..number]),
        }
    }

    /// At most `count` rows of the page that holds a token, from that one on, whatever they hold.
    fn soon(&self, token: usize, count: usize) -> Soon<'a> {
        let head = self.head;
        let at = head.page_of(token, &head.ahead);
        let Some(page) = at.and_then(|at| head.cache.pages.get(at)) else {
            return Soon::default(); // the last tile
        };
        let rows = if VALUES { &page.value } else { &page.key };
        let first = token.saturating_sub(page.start);
        let count = page.length.saturating_sub(first).min(count);
        let (bytes, each) = rows.bytes(head.slice);
        let bytes = bytes.get(first * each..(first + count) * each);
        Soon {
            bytes: bytes.unwrap_or_default(),
            each,
        }
    }

    fn decodes(&self, elements: usize) {
        let head = self.head;
        head.decoded.set(head.decoded.get() + 4 * elements as u64);
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, false> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, s: S, part: Part, out: &mut [f32], stride: usize) {
        self.widen_part(s, part, out, stride);
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, true> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, s: S, part: Part, out: &mut [f32], stride: usize) {
        self.widen_part(s, part, out, stride);
    }
}

impl<const VALUES: bool> Side<'_, '_, '_, VALUES> {
    fn widen_part<S: Simd<f32>>(&self, s: S, part: Part, out: &mut [f32], stride: usize) {
        for (place, count) in runs(part) {
            self.each_list(s, part.row(place), count, |offset, rows, scales| {
                let out = &mut out[(place + offset) * stride..];
                widen_to(self.head.cache.isa, rows, scales, (out, stride));
            });
        }
    }
}

impl<'h> KeyRows<'h, f32> for Side<'h, '_, '_, false> {
    fn scores<S: Simd<f32>>(&self, s: S, _: &[f32], _: usize, part: Part, scores: &mut [f32]) {
        let Some(queries) = &self.head.queries else {
            return; // the walk begins with the queries
        };
        for (place, count) in runs(part) {
            self.each_list(s, part.row(place), count, |offset, rows, scales| {
                let out = &mut scores[place + offset..];
                scores_of(self.head.cache.isa, queries, rows, scales, out);
            });
        }
    }
}

impl<'h> ValueRows<'h, f32> for Side<'h, '_, '_, true> {
    fn add<S: Simd<f32>>(
        &self,
        s: S,
        weights: Weights<'_, f32>,
        part: Part,
        sums: &mut [f32],
        stride: usize,
    ) {
        for (place, count) in runs(part) {
            self.each_list(s, part.row(place), count, |offset, rows, scales| {
                let weights = RunWeights {
                    values: &weights.values[place + offset..],
                    count: weights.own.len(),
                };
                let isa = self.head.cache.isa;
                add_to(isa, weights, rows, scales, (&mut *sums, stride));
            });
        }
    }
}
