//! Raw memory with its provenance, and the allocator that accounts for it.
//!
//! # The argument for the unsafe code of this file
//! An [`Allocation`] is a pointer, a length and whoever frees it. Three facts carry every block below:
//!
//! 1. *Validity.* `ptr` is valid for reads of `len` bytes for as long as the value lives: heap memory belongs to its
//!    [`HeapBlock`], which is freed only when it is dropped, foreign memory belongs to `owner`, which is dropped after the last use. All `len` bytes are
//!    initialised: heap memory is made zeroed, an owner hands over a byte slice.
//! 2. *Exclusivity.* Bytes are written only through `&mut Allocation` (so by nobody else), or, for append blocks,
//!    by `crate::append`, whose own argument stands there. Foreign memory is never written.
//! 3. *Threads.* The pointer is plain memory without thread affinity, and owners are `Send + Sync`.

mod heap_block;

use crate::arena::RawBufferAllocator;
use std::alloc::Layout as MemoryLayout;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
// An account is a statistic and orders nothing, and a reserve belongs to one call, so loom need not model them.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thiserror::Error;

pub(crate) use heap_block::{HeapBlock, Reserve};

/// Every heap allocation starts on a cache line, which is also the widest vector.
pub const ALIGNMENT: usize = 64;

/// Where memory came from; decides what may be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Made by an [`Allocator`]; the only memory that is ever written.
    Heap,
    /// Part of a model: an initializer in a mapped or read file. Read only, immutable while the model lives.
    Model,
    /// Lent by the caller (NumPy, DLPack, `Bytes`). Read only, and the caller may refill it after the call.
    Foreign,
    /// Lent by the caller for as long as it is kept: inside an initial value of a state, which is kept without a copy.
    /// Read only, and not refilled meanwhile.
    Kept,
}

/// A refused allocation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The request would take the session over its budget.
    #[error("allocating {requested} bytes exceeds the budget: {live} of {limit} bytes are in use")]
    Budget {
        /// Bytes asked for.
        requested: usize,
        /// Bytes in use at that moment.
        live: usize,
        /// The budget.
        limit: usize,
    },
    /// The caller's allocator has given as many buffers as it may.
    #[error(
        "allocating a buffer of {requested} bytes exceeds the allocator: {capacity} of {capacity} buffers are in use"
    )]
    Buffers {
        /// Bytes asked for.
        requested: usize,
        /// Buffers that it may have in use at once.
        capacity: usize,
    },
    /// The operating system has no memory to give, or the request is no valid size.
    #[error("allocating {requested} bytes failed")]
    Exhausted {
        /// Bytes asked for.
        requested: usize,
    },
}

#[derive(Debug)]
struct Account {
    limit: usize,
    live: AtomicUsize,
    peak: AtomicUsize,
}

/// Makes heap memory under a budget. Clones share the account.
///
/// ```
/// use refeed_values::Allocator;
/// let allocator = Allocator::with_limit(1024);
/// let block = allocator.allocate(1000).unwrap();
/// assert!(allocator.allocate(1000).is_err());
/// drop(block);
/// assert!(allocator.allocate(1000).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Allocator {
    account: Arc<Account>,
    /// Where the memory comes from, when not from the system.
    source: Option<RawBufferAllocator>,
    /// What is asked first.
    reserve: Option<Arc<Mutex<Reserve>>>,
}

impl Default for Allocator {
    fn default() -> Self {
        Allocator::with_limit(usize::MAX)
    }
}

impl Allocator {
    /// An allocator that refuses to have more than `limit` bytes in use at once.
    pub fn with_limit(limit: usize) -> Allocator {
        let account = Account {
            limit,
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        };
        Allocator {
            account: Arc::new(account),
            source: None,
            reserve: None,
        }
    }

    /// An allocator under the same budget for `bytes` bytes in many blocks that are read one after the other: they lie one behind
    /// the other as far as the system allows, and go back to it in pieces of 2 MiB. Nothing is charged before it is allocated.
    pub fn reserving(&self, bytes: usize) -> Allocator {
        let reserve = self.source.is_none().then(|| Reserve::new(bytes));
        Allocator {
            reserve: reserve.map(|reserve| Arc::new(Mutex::new(reserve))),
            ..self.clone()
        }
    }

    /// An allocator under the same budget whose memory comes from `source`, and goes back there.
    pub fn over(&self, source: &RawBufferAllocator) -> Allocator {
        Allocator {
            account: Arc::clone(&self.account),
            source: Some(source.clone()),
            reserve: None,
        }
    }

    /// Where the memory comes from, when not from the system.
    pub fn source(&self) -> Option<&RawBufferAllocator> {
        self.source.as_ref()
    }

    /// Allocates `bytes` zeroed bytes, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// When the budget, the source or the system refuses. A refused request is not retried.
    pub fn allocate(&self, bytes: usize) -> Result<Allocation, AllocError> {
        // What is no size is told before anything is charged.
        if MemoryLayout::from_size_align(bytes, ALIGNMENT).is_err() {
            return Err(AllocError::Exhausted { requested: bytes });
        }
        #[cfg(feature = "testing")]
        if crate::testing::strike(crate::testing::Site::Allocation) {
            return Err(AllocError::Exhausted { requested: bytes });
        }
        self.account.charge(bytes)?;
        let made = match &self.source {
            Some(source) => source.request(bytes),
            None => {
                let reserve = self.reserve.as_ref();
                let reserve = reserve.and_then(|reserve| reserve.lock().ok());
                let block = reserve.and_then(|mut reserve| reserve.block(bytes));
                let block = block.or_else(|| HeapBlock::zeroed(bytes));
                block.ok_or(AllocError::Exhausted { requested: bytes })
            }
        };
        let block = match made {
            Ok(block) => block,
            Err(error) => {
                self.account.release(bytes);
                return Err(error);
            }
        };
        Ok(Allocation {
            ptr: block.ptr(),
            len: bytes,
            memory: Memory::Heap {
                block: Some(block),
                account: Arc::clone(&self.account),
                source: self.source.clone(),
            },
            block: None,
        })
    }

    /// Bytes in use now.
    pub fn live_bytes(&self) -> usize {
        self.account.live.load(Ordering::Relaxed)
    }

    /// The most bytes that were ever in use at once.
    pub fn peak_bytes(&self) -> usize {
        self.account.peak.load(Ordering::Relaxed)
    }

    /// The budget.
    pub fn limit(&self) -> usize {
        self.account.limit
    }

    /// Whether two handles share one account.
    pub fn same_as(&self, other: &Allocator) -> bool {
        Arc::ptr_eq(&self.account, &other.account)
    }
}

impl Account {
    fn charge(&self, bytes: usize) -> Result<(), AllocError> {
        let mut live = self.live.load(Ordering::Relaxed);
        loop {
            let next = match live.checked_add(bytes) {
                Some(next) if next <= self.limit => next,
                _ => {
                    return Err(AllocError::Budget {
                        requested: bytes,
                        live,
                        limit: self.limit,
                    });
                }
            };
            match self
                .live
                .compare_exchange_weak(live, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => {
                    self.peak.fetch_max(next, Ordering::Relaxed);
                    return Ok(());
                }
                Err(now) => live = now,
            }
        }
    }

    fn release(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }
}

enum Memory {
    Heap {
        /// Taken out when the allocation goes.
        block: Option<HeapBlock>,
        account: Arc<Account>,
        source: Option<RawBufferAllocator>,
    },
    Owned {
        provenance: Provenance,
        owner: Box<dyn Any + Send + Sync>,
    },
}

/// A counted allocation, as buffers hold it.
type SharedAllocation = crate::sync::Arc<Allocation>;

/// A run of initialised bytes and the duty to free it.
pub struct Allocation {
    ptr: NonNull<u8>,
    len: usize,
    memory: Memory,
    /// Set once for memory that is appended to in place.
    pub(crate) block: Option<Box<crate::append::Block>>,
}

// SAFETY: fact 3 of the module head; shared access only reads, and writes need `&mut` or an append claim.
unsafe impl Send for Allocation {}
// SAFETY: as for `Send`.
unsafe impl Sync for Allocation {}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("ptr", &self.ptr)
            .field("len", &self.len)
            .field("provenance", &self.provenance())
            .finish_non_exhaustive()
    }
}

impl Allocation {
    /// Adopts memory that `owner` keeps alive and unmoved. Nothing is copied and nothing will be written.
    pub fn from_owner<T>(owner: T, provenance: Provenance) -> Allocation
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        // Boxed before the slice is taken, so that an owner holding its bytes inline does not move afterwards.
        let owner = Box::new(owner);
        let bytes = (*owner).as_ref();
        let len = bytes.len();
        let ptr = NonNull::new(bytes.as_ptr().cast_mut()).unwrap_or(dangling());
        Allocation {
            ptr,
            len,
            memory: Memory::Owned { provenance, owner },
            block: None,
        }
    }

    /// Where the memory came from.
    pub fn provenance(&self) -> Provenance {
        match &self.memory {
            Memory::Heap { .. } => Provenance::Heap,
            Memory::Owned { provenance, .. } => *provenance,
        }
    }

    /// Who lent the memory, when it is of this type.
    pub(crate) fn owner<T: Any>(&self) -> Option<&T> {
        match &self.memory {
            Memory::Owned { owner, .. } => match owner.downcast_ref::<SharedAllocation>() {
                Some(inner) => inner.owner(),
                None => owner.downcast_ref(),
            },
            Memory::Heap { .. } => None,
        }
    }

    /// The same memory with another provenance; it keeps `lent`, which is no block, alive.
    pub(crate) fn relabelled(lent: SharedAllocation, provenance: Provenance) -> Allocation {
        Allocation {
            ptr: lent.ptr,
            len: lent.len,
            memory: Memory::Owned {
                provenance,
                owner: Box::new(lent),
            },
            block: None,
        }
    }

    /// Whether the memory goes back to the caller's allocator.
    pub(crate) fn has_source(&self) -> bool {
        matches!(&self.memory, Memory::Heap { source, .. } if source.is_some())
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// The raw pointer, from which `crate::view` and `crate::append` derive every access.
    pub(crate) fn raw(&self) -> NonNull<u8> {
        self.ptr
    }

    /// All bytes, for writing; `None` for memory that is not ours to write.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self.memory {
            Memory::Heap { .. } => {
                // SAFETY: facts 1 and 2: heap memory of `len` initialised bytes, reached through `&mut self`.
                Some(unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) })
            }
            Memory::Owned { .. } => None,
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Memory::Heap {
            block,
            account,
            source,
        } = &mut self.memory
        {
            account.release(self.len);
            if let (Some(block), Some(source)) = (block.take(), source) {
                source.take_back(block, self.len);
            }
        }
    }
}

/// A well aligned pointer for empty memory.
fn dangling() -> NonNull<u8> {
    NonNull::without_provenance(
        std::num::NonZero::new(ALIGNMENT).unwrap_or(std::num::NonZero::<usize>::MIN),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn budget_counts_what_is_alive() {
        let allocator = Allocator::with_limit(100);
        let a = allocator.allocate(60).unwrap();
        let refused = allocator.allocate(41).unwrap_err();
        assert_eq!(
            refused,
            AllocError::Budget {
                requested: 41,
                live: 60,
                limit: 100
            }
        );
        let b = allocator.allocate(40).unwrap();
        drop(a);
        drop(b);
        assert_eq!((allocator.live_bytes(), allocator.peak_bytes()), (0, 100));
    }

    #[test]
    fn absurd_sizes_are_refused_without_a_panic() {
        let allocator = Allocator::default();
        for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize - 63] {
            assert!(allocator.allocate(bytes).is_err());
        }
        assert_eq!(allocator.live_bytes(), 0);
    }

    #[test]
    fn adopted_memory_keeps_its_address_and_is_never_writable() {
        let bytes = bytes::Bytes::from(vec![1u8, 2, 3]);
        let address = bytes.as_ptr();
        let mut adopted = Allocation::from_owner(bytes, Provenance::Foreign);
        assert_eq!(adopted.as_ptr(), address);
        assert!(adopted.bytes_mut().is_none());
        let inline = Allocation::from_owner([7u8; 5], Provenance::Foreign);
        assert_eq!(inline.len(), 5);
    }
}
