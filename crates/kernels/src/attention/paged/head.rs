//! The pages of one head as segments of the walk over keys.

use super::super::Core;
use super::super::cache::{Cache, Head, Part, Segment, Widen};
use super::super::digits::ByteRows;
use super::super::few::Run;
use super::super::split::{Found, Work};
use super::super::visibility::TILE;
use super::group::{At, Page, Pages};
use super::ops::{AnyRun, Arrange, Queries, Scales, widen_to};
use super::payload::{Along, CodeParameters, Codes, Held, PageRows};
use super::{PagedProblem, QueryPrecision, decode};
use crate::quantize::Payload;
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::storage::Real;
use crate::{Isa, KernelError};
use refeed_values::{DType, Element, Slabs};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Neighbouring pages of fewer tokens than this are copied to one place.
const SHORT: usize = 16;
/// How many short pages ahead rows are asked for.
const AHEAD: usize = 8;

/// How many segments ahead that is asked for which is known of pages.
const FAR: usize = 4;

/// Rows that are decoded at a time where they cannot be used as they are.
const DECODED: usize = 16;

/// Pages and new rows of all heads.
pub(super) struct PagedCache<'a> {
    pub(super) isa: Isa,
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
    /// The query rows of all heads; empty where each task lays out its own.
    pub(super) queries: Option<Queries>,
    /// Whether codes of neighbouring pages are multiplied together.
    joins: bool,
    /// How exactly codes are multiplied.
    pub(super) precision: QueryPrecision,
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
            queries: None,
            joins: ByteRows::of(isa, DType::Int8, problem.query_precision).is_some(),
            precision: problem.query_precision,
            decoded: AtomicU64::new(0),
        })
    }

    /// Query rows, already scaled, `line` a head, in the orders that the pages need.
    pub(super) fn arranged(&self, queries: &[f32], line: usize) -> Queries {
        self.isa.run_f32(Arrange {
            queries,
            size: self.size,
            line,
            needed: self.needed,
            isa: self.isa,
            precision: self.precision,
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
    const TOGETHER: bool = true;

    #[inline(always)]
    fn head(&self, batch: usize, head: usize) -> Option<PagedHead<'_, 'a>> {
        Some(self.heads(batch, head, 1))
    }

    #[inline(always)]
    fn few<T: Real<Acc = f32>, S: Simd<f32>>(
        &self,
        s: S,
        core: &Core<'_, '_, T>,
        work: Work,
        found: Found<'_, f32>,
    ) {
        decode::pass(s, core, self, work, found);
    }
}

impl<'a> PagedCache<'a> {
    /// Some heads of a batch row.
    pub(super) fn heads(&self, batch: usize, first: usize, heads: usize) -> PagedHead<'_, 'a> {
        PagedHead {
            cache: self,
            slice: batch * self.kv_heads + first,
            heads,
            cursor: Cell::new((0, 0)),
            decoded: Cell::new(0),
        }
    }
}

/// Pages and new rows of some heads, mostly one.
pub(super) struct PagedHead<'s, 'a> {
    cache: &'s PagedCache<'a>,
    /// Batch row and first head, counted together.
    slice: usize,
    heads: usize,
    /// The page that was found last.
    cursor: Cell<At>,
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
    const FINITE: bool = true;
    type Keys<'h>
        = Side<'h, 's, 'a, false>
    where
        Self: 'h;
    type Values<'h>
        = Side<'h, 's, 'a, true>
    where
        Self: 'h;

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
        let tile = (key / TILE + 1) * TILE;
        if page.length < SHORT {
            let joins = |next: &Page| {
                let alike = page.key.joins(&next.key) && page.value.joins(&next.value);
                next.length < SHORT && alike
            };
            let behind = cache.pages.from(cache.pages.after(first));
            for next in behind.take_while(|next| joins(next)) {
                if end >= tile {
                    break;
                }
                end += next.length;
                count += 1;
            }
        } else if cache.joins {
            let behind = cache.pages.from(cache.pages.after(first));
            for next in behind.take_while(|next| page.goes_on(next)) {
                if end + next.length > tile {
                    break;
                }
                end += next.length;
                count += 1;
            }
        }
        Some(segment(first, count, page.start, end))
    }
}

/// Keys or values of a page, of some short ones in a row, or of the new rows when there are none.
pub(super) struct Side<'h, 's, 'a, const VALUES: bool> {
    head: &'h PagedHead<'s, 'a>,
    first: At,
    count: usize,
}

impl<'a, const VALUES: bool> Side<'_, '_, 'a, VALUES> {
    fn rows<'r>(&self, page: &'r Page) -> &'r PageRows {
        if VALUES { &page.value } else { &page.key }
    }

    /// Calls `then` with `tokens` rows from row `row` of the segment on: with the number of the first head, the distance from
    /// `row`, rows of some heads and their scales. All rows of each head come, those of one head one after another.
    pub(super) fn each_run<S: Simd<f32>>(
        &self,
        s: S,
        row: usize,
        tokens: usize,
        mut then: impl FnMut([usize; 2], AnyRun<'_>, Scales<'_>),
    ) {
        let PagedHead {
            cache,
            slice,
            heads,
            ..
        } = *self.head;
        let Some(page) = cache.pages.get(self.first).filter(|_| self.count > 0) else {
            let (all, width) = match VALUES {
                true => (cache.value, cache.width),
                false => (cache.key, cache.size),
            };
            for head in 0..heads {
                let first = ((slice + head) * cache.length + row) * width;
                let run = Run::new(&all[first..][..tokens * width], [1, tokens, width]);
                then([head, 0], AnyRun::Float(run), Scales::Plain);
            }
            return;
        };
        if !VALUES {
            // What is known of a page is some cache lines, which no processor foresees behind the stream of rows.
            for n in 0..self.count {
                s.prefetch(cache.pages.ahead(self.first, FAR * self.count + n));
            }
        }
        let rows = self.rows(page);
        let width = rows.width;
        let extent = [row, tokens, width];
        match &rows.held {
            Held::Float(_) => self.with_rows(s, extent, PageRows::float, |run| {
                then([0, 0], AnyRun::Float(run), Scales::Plain);
            }),
            Held::Float16(_) => self.with_rows(s, extent, PageRows::float16, |run| {
                then([0, 0], AnyRun::Float16(run), Scales::Plain);
            }),
            Held::Bfloat16(_) => self.with_rows(s, extent, PageRows::bfloat16, |run| {
                then([0, 0], AnyRun::Bfloat16(run), Scales::Plain);
            }),
            Held::Codes(codes) => {
                self.decodes(tokens * width);
                let extent = [row, tokens, width / codes.parts()];
                if let (CodeParameters::One(scale, zero), true) =
                    (&codes.parameters, self.count > 1 && page.length >= SHORT)
                {
                    let runs = self.runs(extent);
                    let runs = AnyRun::Codes(codes.storage, &runs);
                    return then([0, 0], runs, Scales::One(*scale, *zero));
                }
                self.with_rows(s, extent, PageRows::codes, |run| {
                    if let (CodeParameters::One(scale, zero), 1) = (&codes.parameters, self.count) {
                        let run = AnyRun::Codes(codes.storage, std::slice::from_ref(&run));
                        return then([0, 0], run, Scales::One(*scale, *zero));
                    }
                    for head in 0..heads {
                        let run = [run.part(head, 0, tokens)];
                        let run = AnyRun::Codes(codes.storage, &run);
                        let own = [row, tokens, width];
                        self.with_scales(codes, head, own, |scales| then([head, 0], run, scales));
                    }
                });
            }
            Held::Apart(value, codes) => {
                let Ok(payload) = Payload::of(value) else {
                    return; // it was one when the page was prepared
                };
                if *codes {
                    self.decodes(tokens * width);
                }
                let mut memory = f32::scratch(DECODED * width);
                for head in 0..heads {
                    for done in (0..tokens).step_by(DECODED) {
                        let count = DECODED.min(tokens - done);
                        for (j, slot) in memory.chunks_exact_mut(width).take(count).enumerate() {
                            if payload.row(slice + head, row + done + j, slot).is_err() {
                                slot.fill(f32::NAN); // found again, with its place
                            }
                        }
                        let run = Run::new(&memory[..count * width], [1, count, width]);
                        then([head, done], AnyRun::Float(run), Scales::Plain);
                    }
                }
            }
        }
    }

    /// `tokens` rows of codes of all heads from row `row` of the segment on, page by page.
    fn runs(&self, [row, tokens, width]: [usize; 3]) -> SmallVec<[Run<'a, u8>; 4]> {
        let PagedHead {
            cache,
            slice,
            heads,
            ..
        } = *self.head;
        let mut pages = cache.pages.from(self.first);
        let mut later = pages.clone().skip(self.count);
        let codes = |page: &'a Page| match VALUES {
            true => page.value.codes(),
            false => page.key.codes(),
        };
        let (mut skip, mut left) = (row, tokens);
        let runs = std::iter::from_fn(|| {
            loop {
                let page = pages.next().filter(|_| left > 0)?;
                let later = later.next().and_then(codes);
                if skip >= page.length {
                    skip -= page.length;
                    continue;
                }
                let count = (page.length - skip).min(left);
                let run = Run::slabs((codes(page)?, slice), skip, [heads, count, width]);
                (skip, left) = (0, left - count);
                return Some(run.long_before(later));
            }
        });
        runs.collect()
    }

    /// Calls `then` with `tokens` rows of each head from row `row` of the segment on, as `of` finds them in a page. Those of
    /// several pages are copied to one place, page by page, as they lie.
    fn with_rows<U: Scratch + Element, S: Simd<f32>>(
        &self,
        s: S,
        [row, tokens, width]: [usize; 3],
        of: impl Fn(&'a PageRows) -> Option<&'a Slabs<U>>,
        then: impl FnOnce(Run<'_, U>),
    ) {
        let PagedHead {
            cache,
            slice,
            heads,
            ..
        } = *self.head;
        let slabs = |page: &'a Page| of(if VALUES { &page.value } else { &page.key });
        let mut pages = cache.pages.from(self.first);
        if self.count == 1 {
            // A segment has a page, of the kind that it was asked for.
            if let Some(held) = pages.next().and_then(slabs) {
                let run = Run::slabs((held, slice), row, [heads, tokens, width]);
                let next = pages.next().and_then(slabs);
                let next = next.and_then(|slabs| slabs.get(slice));
                then(run.before(next.unwrap_or_default()));
            }
            return;
        }
        let slab = |page: &'a Page, head: usize| -> &'a [U] {
            let rows = slabs(page).and_then(|slabs| slabs.get(slice + head));
            rows.unwrap_or_default()
        };
        let each = tokens * width;
        let mut memory = U::scratch(heads * each);
        let mut ahead = pages.clone();
        ahead.nth(AHEAD);
        let (mut skip, mut at) = (row, 0);
        for page in pages {
            let soon = ahead.next();
            if skip >= page.length {
                skip -= page.length;
                continue;
            }
            let count = (page.length - skip).min(tokens - at);
            for head in 0..heads {
                if let Some(soon) = soon {
                    s.prefetch(slab(soon, head).get(..width).unwrap_or_default());
                }
                let rows = &slab(page, head)[skip * width..][..count * width];
                memory[head * each + at * width..][..rows.len()].copy_from_slice(rows);
            }
            (skip, at) = (0, at + count);
            if at == tokens {
                break;
            }
        }
        then(Run::new(&memory, [heads, tokens, width]));
    }

    /// Calls `then` with the scales of `tokens` rows of codes of a head from row `row` on.
    fn with_scales(
        &self,
        codes: &'a Codes,
        head: usize,
        [row, tokens, width]: [usize; 3],
        then: impl FnOnce(Scales<'_>),
    ) {
        let slice = self.head.slice + head;
        let one = codes.of_slice(slice);
        if self.count > 1 {
            // Short pages that were joined have one scale a head each.
            let mut own = f32::scratch(2 * tokens);
            let (scales, zeros) = own.split_at_mut(tokens);
            let (mut skip, mut at, mut alike) = (row, 0, true);
            for page in self.head.cache.pages.from(self.first).take(self.count) {
                if skip >= page.length {
                    skip -= page.length;
                    continue;
                }
                let count = (page.length - skip).min(tokens - at);
                let held = match &self.rows(page).held {
                    Held::Codes(codes) => codes.of_slice(slice),
                    _ => None,
                };
                alike &= held == one;
                let (scale, zero) = held.unwrap_or((1.0, 0.0));
                scales[at..][..count].fill(scale);
                zeros[at..][..count].fill(zero);
                (skip, at) = (0, at + count);
            }
            return match one {
                Some((scale, zero)) if alike => then(Scales::One(scale, zero)),
                _ => then(Scales::Rows(scales, zeros)),
            };
        }
        let several = match (&codes.parameters, one) {
            (CodeParameters::Several(several), None) => several,
            (_, one) => {
                let (scale, zero) = one.unwrap_or((1.0, 0.0));
                return then(Scales::One(scale, zero));
            }
        };
        let base = several.places.row(slice, row);
        if several.along == Along::Rows {
            let mut own = f32::scratch(2 * tokens);
            let (scales, zeros) = own.split_at_mut(tokens);
            for (j, (scale, zero)) in scales.iter_mut().zip(&mut *zeros).enumerate() {
                (*scale, *zero) = several.at(several.places.row(slice, row + j));
            }
            return then(Scales::Rows(scales, zeros));
        }
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

    fn decodes(&self, elements: usize) {
        let head = self.head;
        let bytes = 4 * (elements * head.heads) as u64;
        head.decoded.set(head.decoded.get() + bytes);
    }

    fn widen_part<S: Simd<f32>>(&self, s: S, part: Part<1>, out: &mut [f32], stride: usize) {
        for (place, count) in part.runs(TILE) {
            self.each_run(s, part.row(place), count, |[_, offset], run, scales| {
                let out = &mut out[(place + offset) * stride..];
                widen_to(self.head.cache.isa, run, scales, (out, stride));
            });
        }
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, false> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, s: S, part: Part<1>, out: &mut [f32], stride: usize) {
        self.widen_part(s, part, out, stride);
    }
}

impl<'h> Widen<'h, f32> for Side<'h, '_, '_, true> {
    #[inline(always)]
    fn widen<S: Simd<f32>>(&self, s: S, part: Part<1>, out: &mut [f32], stride: usize) {
        self.widen_part(s, part, out, stride);
    }
}
