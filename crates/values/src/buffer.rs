//! Counted, immutable handles to memory.

use crate::allocation::{Allocation, Provenance};
use crate::append::Sight;
use crate::sync::Arc;
use bytes::Bytes;

/// A counted handle to an [`Allocation`]. Clones share it; nothing is ever written through a buffer.
///
/// A handle to an append block also carries the row where its sight ends, and the tail of the candidate that it was made
/// from, so that a failed run can tell whether anybody still sees the rows that it wrote (see `crate::append`).
#[derive(Clone, Debug)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    sight: Option<Sight>,
}

impl Buffer {
    /// Wraps an allocation.
    pub fn new(allocation: Allocation) -> Buffer {
        Buffer {
            allocation: Arc::new(allocation),
            sight: None,
        }
    }

    /// Adopts memory that `owner` keeps alive; nothing is copied.
    ///
    /// ```
    /// use refeed_values::{Buffer, Provenance};
    /// let buffer = Buffer::from_owner(vec![1u8, 2, 3], Provenance::Foreign);
    /// assert_eq!(buffer.len(), 3);
    /// ```
    pub fn from_owner<T>(owner: T, provenance: Provenance) -> Buffer
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        Buffer::new(Allocation::from_owner(owner, provenance))
    }

    /// Adopts shared bytes of a model.
    pub fn from_model(bytes: Bytes) -> Buffer {
        Buffer::from_owner(bytes, Provenance::Model)
    }

    /// The same memory under the promise that its lender does not write to it while it is kept.
    pub(crate) fn kept(&self) -> Buffer {
        match self.provenance() {
            Provenance::Foreign => {
                let lent = self.allocation.clone();
                Buffer::new(Allocation::relabelled(lent, Provenance::Kept))
            }
            _ => self.clone(),
        }
    }

    /// A handle to memory that is no block.
    pub(crate) fn from_shared(allocation: Arc<Allocation>) -> Buffer {
        debug_assert!(allocation.block.is_none());
        Buffer {
            allocation,
            sight: None,
        }
    }

    /// A handle to a block. It may reach the rows below `sight.end`, so those must be sealed.
    pub(crate) fn of_block(allocation: Arc<Allocation>, sight: Sight) -> Buffer {
        Buffer {
            allocation,
            sight: Some(sight),
        }
    }

    /// What a handle to a block may see; `None` for other memory.
    pub(crate) fn sight(&self) -> Option<&Sight> {
        self.sight.as_ref()
    }

    /// Shortens the sight of a handle to a block.
    pub(crate) fn end_sight_at(&mut self, end: usize) {
        if let Some(sight) = &mut self.sight {
            sight.end = sight.end.min(end);
        }
    }

    /// The allocation, if this is the only handle to it.
    pub(crate) fn alone(&mut self) -> Option<&mut Allocation> {
        Arc::get_mut(&mut self.allocation)
    }

    pub(crate) fn into_shared(self) -> Arc<Allocation> {
        self.allocation
    }

    pub(crate) fn shared(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// The memory behind the handle.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Size in bytes of the whole allocation.
    pub fn len(&self) -> usize {
        self.allocation.len()
    }

    /// Whether the allocation has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the memory came from.
    pub fn provenance(&self) -> Provenance {
        self.allocation.provenance()
    }

    /// Whether two handles share one allocation.
    pub fn same_allocation(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.allocation, &other.allocation)
    }

    /// Whether this is the only handle to its memory. Needs `&mut`, so the answer cannot go stale.
    pub fn is_unique(&mut self) -> bool {
        Arc::get_mut(&mut self.allocation).is_some()
    }
}
