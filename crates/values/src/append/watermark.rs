//! The watermark of a block: claims and their return. Clauses 1, 5, 6 and 7 of the head of `append.rs`.

use super::Tail;
use super::fault::{Fault, planted};
use super::geometry::Geometry;
use crate::allocation::Allocation;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// Geometry and watermark of a block.
#[derive(Debug)]
pub struct Block {
    pub(crate) geometry: Geometry,
    watermark: AtomicUsize,
    #[cfg(loom)]
    pub(crate) shadow: super::shadow::Shadow,
}

impl Block {
    /// A block whose first `rows` rows are claimed by its maker.
    pub(crate) fn new(geometry: Geometry, rows: usize) -> Block {
        Block {
            watermark: AtomicUsize::new(rows),
            #[cfg(loom)]
            shadow: super::shadow::Shadow::new(geometry.slices, geometry.capacity_rows),
            geometry,
        }
    }

    fn orders() -> (Ordering, Ordering) {
        if planted(Fault::RelaxedWatermark) {
            return (Ordering::Relaxed, Ordering::Relaxed);
        }
        (Ordering::AcqRel, Ordering::Relaxed)
    }

    /// Rows that are claimed. Stale at once, unless the caller holds the only handle.
    pub(crate) fn watermark(&self) -> usize {
        self.watermark.load(Ordering::Relaxed)
    }

    /// Claims `rows > 0` rows behind `end`; false when they are taken or beyond the capacity.
    pub(crate) fn claim(&self, end: usize, rows: usize) -> bool {
        let Some(next) = end.checked_add(rows) else {
            return false;
        };
        if next > self.geometry.capacity_rows {
            return false;
        }
        let (done, failed) = Block::orders();
        if planted(Fault::UncheckedClaim) {
            self.watermark.fetch_max(next, done);
            return true;
        }
        if rows == 0 && planted(Fault::EmptyClaim) {
            if self.watermark.load(Ordering::Acquire) == end {
                self.watermark.store(end, Ordering::Release);
            }
            return true;
        }
        self.watermark
            .compare_exchange(end, next, done, failed)
            .is_ok()
    }

    /// Returns a claim to the block; false when it is not the last one.
    pub(crate) fn give_back(&self, end: usize, rows: usize) -> bool {
        let (done, failed) = Block::orders();
        if planted(Fault::RollbackByStore) {
            self.watermark.store(end, Ordering::Release);
            return true;
        }
        self.watermark
            .compare_exchange(end + rows, end, done, failed)
            .is_ok()
    }

    /// Frees all rows from `end` on. `&mut` proves that nobody else has a handle to the block.
    pub(crate) fn rewind(&mut self, end: usize) {
        self.watermark.store(end, Ordering::Relaxed);
    }
}

/// What a handle to a block may see: the rows below `end`, some of which the tail's candidate wrote.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    pub(crate) tail: Arc<Tail>,
    pub(crate) end: usize,
}

/// A counted handle to an allocation that is a block.
#[derive(Debug, Clone)]
pub(crate) struct BlockHandle(Arc<Allocation>);

impl BlockHandle {
    /// Makes a block of an allocation; its maker owns the first `rows` rows.
    pub(crate) fn new(mut allocation: Allocation, geometry: Geometry, rows: usize) -> BlockHandle {
        allocation.block = Some(Box::new(Block::new(geometry, rows)));
        BlockHandle(Arc::new(allocation))
    }

    /// The handle of an allocation, when it is a block.
    pub(crate) fn of(allocation: &Arc<Allocation>) -> Option<BlockHandle> {
        allocation
            .block
            .is_some()
            .then(|| BlockHandle(Arc::clone(allocation)))
    }

    pub(crate) fn block(&self) -> &Block {
        // Both constructors made sure, and no code takes a block out of an allocation.
        self.0.block.as_deref().expect("allocation is a block")
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.block().geometry
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.0
    }
}
