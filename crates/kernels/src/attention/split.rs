//! The cutting of attention into tasks, and the merge of what tasks found for ranges of keys.
//!
//! The rows that share a key/value head are cut into blocks. When there are few blocks, their keys are cut into chunks,
//! so that one long cache keeps every thread busy: a task then gives, for each row, the largest score, the sum of
//! exponentials and the weighted sum of values of its chunk (a partial), and a second pass merges the partials of a row
//! in the order of the keys. Blocks and chunks follow from the extents alone, never from the number of threads, so
//! results have the same bits for any number of them.

use super::cache::Cache;
use super::online_softmax::Row;
use super::{Core, prefill};
use crate::matmul::micro::narrow;
use crate::pool::{RowLayout, Rows};
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies;
use crate::{Compute, KernelError};

/// Up to this many rows read keys and values where they lie.
pub(super) const FEW: usize = 16;
/// Rows of a block: a multiple of what every matrix kernel takes at a time.
pub(super) const BLOCK: usize = 96;
/// Most chunks that the keys of a block are cut into.
const CHUNKS: usize = 64;
/// Tasks that are enough for any number of threads to be even; more would only be more beginnings.
const TASKS: usize = 128;
/// With this many blocks, threads have enough to do without chunks.
const ENOUGH: usize = 64;

/// How a problem is cut.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Key/value heads whose rows are one line: one, or all of a batch row.
    heads: usize,
    /// Rows of a line.
    line: usize,
    /// Rows of a block.
    block: usize,
    /// Blocks of a line.
    across: usize,
    /// Keys of a chunk.
    chunk: usize,
    /// Chunks.
    chunks: usize,
    /// From one row's weighted sums to the next one's.
    stride: usize,
}

impl Plan {
    fn new<T: Real, C: Cache<T::Acc>>(core: &Core<'_, '_, T>) -> Plan {
        let own = core.group() * core.length;
        let together = C::TOGETHER && (1..=FEW).contains(&own);
        let heads = if together { core.kv_heads } else { 1 };
        let line = heads * own;
        let block = match together {
            true => line.min(BLOCK / own * own),
            false => line.clamp(1, BLOCK),
        };
        let across = line.div_ceil(block);
        let stride = core.value_size.next_multiple_of(16);
        let lines = core.batch * core.kv_heads / heads.max(1);
        let blocks = lines.saturating_mul(across);
        // Few rows are bound by memory: chunks cost them nothing and even out the load.
        let whole = own > FEW && blocks >= ENOUGH;
        let chunk = if whole {
            core.total.max(1)
        } else {
            let chunks = TASKS.div_ceil(blocks.max(1)).min(CHUNKS);
            core.total
                .div_ceil(chunks)
                .next_multiple_of(super::visibility::SPAN)
                .max(super::visibility::SPAN)
        };
        Plan {
            heads,
            line,
            block,
            across,
            chunk,
            chunks: core.total.div_ceil(chunk).max(1),
            stride,
        }
    }

    /// Lines of a batch row.
    fn lines(&self, kv_heads: usize) -> usize {
        (kv_heads / self.heads.max(1)).max(1)
    }
}

/// The rows and keys of one task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Batch row.
    pub(super) batch: usize,
    /// Key/value head, the first one of its line.
    pub(super) kv_head: usize,
    /// First row of the line.
    pub(super) first: usize,
    /// Rows.
    pub(super) count: usize,
    /// First key; a multiple of a span.
    pub(super) low: usize,
    /// Key after the last one.
    pub(super) high: usize,
}

impl Work {
    /// Query head and position of row `i`.
    #[inline(always)]
    pub(super) fn place<T: Real>(&self, core: &Core<'_, '_, T>, i: usize) -> (usize, usize) {
        let row = self.first + i;
        let head = self.kv_head * core.group() + row / core.length;
        (head, row % core.length)
    }

    /// The keys that each row may see, as far as they belong to this task, and the first and last of them; `None` when
    /// no row sees any. There are at most `N` rows.
    #[inline(always)]
    pub(super) fn ranges<T: Real, const N: usize>(
        &self,
        core: &Core<'_, '_, T>,
    ) -> Option<(Ranges<N>, usize, usize)> {
        let mut ranges = [(0, 0); N];
        let (mut low, mut end) = (usize::MAX, 0);
        for (i, range) in ranges.iter_mut().enumerate().take(self.count) {
            let (_, position) = self.place(core, i);
            let (from, to) = core.visible.range(self.batch, position);
            let (from, to) = (from.max(self.low), to.min(self.high));
            if from < to {
                *range = (from, to);
                (low, end) = (low.min(from), end.max(to));
            }
        }
        (low < end).then_some((ranges, low, end))
    }

    /// Writes the query rows, scaled, one after another. False: there is no such row.
    #[inline(always)]
    pub(super) fn queries<T: Real>(&self, core: &Core<'_, '_, T>, out: &mut [T::Acc]) -> bool {
        for i in 0..self.count {
            let (query_head, position) = self.place(core, i);
            let Some(lane) = core.query.lane(&[self.batch, query_head, position]) else {
                return false;
            };
            let row = &mut out[i * core.size..][..core.size];
            for (x, slot) in lane.iter().zip(row) {
                *slot = x.to_acc() * core.scale;
            }
        }
        true
    }
}

/// The first key that each row may see, and the one after the last.
type Ranges<const N: usize> = [(usize, usize); N];

/// What a task found, row by row.
pub(super) struct Found<'f, E> {
    /// Largest scores and sums of exponentials.
    pub(super) rows: &'f mut [Row<E>],
    /// Weighted sums, `stride` apart.
    pub(super) sums: &'f mut [E],
    /// A multiple of 16.
    pub(super) stride: usize,
}

impl<E> Found<'_, E> {
    /// The same for a while.
    fn again(&mut self) -> Found<'_, E> {
        Found {
            rows: self.rows,
            sums: self.sums,
            stride: self.stride,
        }
    }
}

/// Attention over a cache of any kind. `out` and `layout` as for [`super::attention`]; extents were checked.
pub(super) fn run<T: Real, C: Cache<T::Acc>>(
    compute: &Compute<'_>,
    core: &Core<'_, '_, T>,
    cache: &C,
    out: &mut [T],
    layout: &RowLayout,
) -> Result<(), KernelError> {
    let plan = Plan::new::<T, C>(core);
    let lines = plan.lines(core.kv_heads);
    let parallel = compute.parallel(core.work());
    let refused = KernelError::Length {
        operand: "attention output",
        expected: layout.rows().saturating_mul(core.value_size),
        got: out.len(),
    };
    if plan.chunks == 1 {
        let ran = compute
            .pool
            .rows(out, layout, plan.line, plan.block, parallel, |rows| {
                let mut found = [Row::new(); BLOCK];
                let mut sums = T::Acc::scratch(rows.count * plan.stride);
                let work = Work {
                    batch: rows.line / lines,
                    kv_head: rows.line % lines,
                    first: rows.first,
                    count: rows.count,
                    low: 0,
                    high: core.total,
                };
                let mut found = Found {
                    rows: &mut found[..rows.count],
                    sums: &mut sums,
                    stride: plan.stride,
                };
                let pass = Pass {
                    core,
                    cache,
                    work,
                    found: found.again(),
                };
                T::Acc::dispatch(compute.isa, pass);
                let finish = Finish {
                    core,
                    work,
                    found,
                    rows,
                };
                T::Acc::dispatch(compute.isa, finish);
            });
        return if ran { Ok(()) } else { Err(refused) };
    }
    if !layout.fits(out.len()) {
        return Err(refused);
    }
    let each = (plan.stride + 2) * plan.block;
    let Some(len) = (core.batch * lines)
        .checked_mul(plan.across * plan.chunks)
        .and_then(|tasks| tasks.checked_mul(each))
    else {
        return Err(refused);
    };
    let mut partials = T::Acc::scratch(len);
    compute
        .pool
        .chunks(&mut partials, each, parallel, |index, partial| {
            let (block, chunk) = (index / plan.chunks, index % plan.chunks);
            let (line, first) = (block / plan.across, block % plan.across * plan.block);
            let low = chunk * plan.chunk;
            let work = Work {
                batch: line / lines,
                kv_head: line % lines,
                first,
                count: plan.block.min(plan.line - first),
                low,
                high: core.total.min(low + plan.chunk),
            };
            let (heads, sums) = partial.split_at_mut(2 * plan.block);
            let mut rows = [Row::new(); BLOCK];
            let found = Found {
                rows: &mut rows[..work.count],
                sums: &mut sums[..work.count * plan.stride],
                stride: plan.stride,
            };
            let pass = Pass {
                core,
                cache,
                work,
                found,
            };
            T::Acc::dispatch(compute.isa, pass);
            for (row, slot) in rows.iter().zip(heads.chunks_exact_mut(2)) {
                (slot[0], slot[1]) = (row.top, row.total);
            }
        });
    let partials = &*partials;
    let worth = compute.parallel(len);
    let ran = compute
        .pool
        .rows(out, layout, plan.line, plan.block, worth, |rows| {
            let merge = Merge::<T> {
                core,
                partials,
                plan,
                rows,
            };
            T::Acc::dispatch(compute.isa, merge);
        });
    if ran { Ok(()) } else { Err(refused) }
}

/// The pass that suits the number of rows.
struct Pass<'t, 'p, 'a, T: Real, C> {
    core: &'t Core<'p, 'a, T>,
    cache: &'t C,
    work: Work,
    found: Found<'t, T::Acc>,
}

impl<T: Real, C: Cache<T::Acc>> Op<T::Acc> for Pass<'_, '_, '_, T, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let Pass {
            core,
            cache,
            work,
            found,
        } = self;
        found.rows.fill(Row::new());
        found.sums.fill(T::Acc::ZERO);
        if work.count <= FEW || core.group() * core.length <= FEW {
            cache.few(s, core, work, found);
        } else if let Some(head) = cache.head(work.batch, work.kv_head) {
            prefill::pass(s, core, head, work, found);
        }
    }
}

/// Writes the rows of a block whose keys were one chunk.
struct Finish<'t, 'p, 'a, T: Real> {
    core: &'t Core<'p, 'a, T>,
    work: Work,
    found: Found<'t, T::Acc>,
    rows: Rows<'t, T>,
}

impl<T: Real> Op<T::Acc> for Finish<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let Finish {
            core,
            work,
            found,
            mut rows,
        } = self;
        for (i, row) in found.rows.iter().enumerate() {
            let out = rows.row(i);
            let sums = &mut found.sums[i * found.stride..][..out.len()];
            let (head, _) = work.place(core, i);
            row.finish(s, sums, core.visible.sink(head));
            narrow(sums, out);
        }
    }
}

/// The rows of a block, from the partials of all its chunks.
struct Merge<'t, 'p, 'a, T: Real> {
    core: &'t Core<'p, 'a, T>,
    partials: &'t [T::Acc],
    plan: Plan,
    rows: Rows<'t, T>,
}

impl<T: Real> Op<T::Acc> for Merge<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let Merge {
            core,
            partials,
            plan,
            mut rows,
        } = self;
        let each = (plan.stride + 2) * plan.block;
        let block = rows.line * plan.across + rows.first / plan.block;
        let chunks = &partials[block * plan.chunks * each..][..plan.chunks * each];
        let mut sums = T::Acc::scratch(plan.stride);
        for i in 0..rows.count {
            let row = |chunk: &[T::Acc]| Row {
                top: chunk[2 * i],
                total: chunk[2 * i + 1],
            };
            let mut whole = Row::new();
            for chunk in chunks.chunks_exact(each) {
                whole.raise(row(chunk).top);
            }
            sums.fill(T::Acc::ZERO);
            for chunk in chunks.chunks_exact(each) {
                let part = row(chunk);
                if part.total == T::Acc::ZERO {
                    continue; // the row sees no key of this chunk
                }
                let factor = part.factor(whole.top);
                whole.total += part.total * factor;
                let from = 2 * plan.block + i * plan.stride;
                bodies::axpy(s, factor, &chunk[from..][..plan.stride], &mut sums);
            }
            let kv_head = rows.line % plan.lines(core.kv_heads);
            let head = kv_head * core.group() + (rows.first + i) / core.length;
            let out = rows.row(i);
            let sums = &mut sums[..out.len()];
            whole.finish(s, sums, core.visible.sink(head));
            narrow(sums, out);
        }
    }
}
