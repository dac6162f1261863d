//! Allocators that a caller brings: they count what they gave, and arenas keep what comes back for the next request.
//!
//! A buffer is counted until its last handle goes; who keeps an output therefore keeps its buffer, and the allocator that
//! it goes back to, however long. Nothing is ever taken from under a handle.

use crate::allocation::{AllocError, HeapBlock};
use crate::pool::{class_of, class_size};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which of the three kinds of allocator this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Simple,
    Execution,
    Io,
}

#[derive(Debug, Default)]
struct Books {
    live_bytes: usize,
    peak_bytes: usize,
    live_count: usize,
    retained_bytes: usize,
    retained_count: usize,
    retention_cap: usize,
    /// Free blocks by size.
    free: BTreeMap<usize, Vec<HeapBlock>>,
}

#[derive(Debug)]
struct Shared {
    kind: Kind,
    capacity: usize,
    books: Mutex<Books>,
}

/// An allocator that a caller brings to the calls of a context. Clones are handles to the same one.
///
/// `capacity` is the most buffers that may be in use at once; a request beyond it is refused and not tried again. An arena
/// keeps buffers that come back, up to `retention_cap` bytes of them, for later requests of the same size class, and zeroes
/// them when it hands them out again. The two kinds of arena differ only in what they are for, which their name tells in
/// reports: an execution arena for what a call needs on the way, an I/O arena for outputs and retained values.
///
/// ```
/// use refeed_values::{Allocator, RawBufferAllocator};
/// let arena = RawBufferAllocator::io_arena(8, usize::MAX);
/// let memory = Allocator::default().over(&arena);
/// let first = memory.allocate(1000)?;
/// assert_eq!((arena.live_bytes(), arena.live_count(), arena.retained_count()), (1000, 1, 0));
/// drop(first);
/// assert_eq!((arena.live_bytes(), arena.peak_bytes(), arena.retained_count()), (0, 1000, 1));
/// # Ok::<(), refeed_values::AllocError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RawBufferAllocator(Arc<Shared>);

impl RawBufferAllocator {
    fn new(kind: Kind, capacity: usize, retention_cap: usize) -> RawBufferAllocator {
        RawBufferAllocator(Arc::new(Shared {
            kind,
            capacity,
            books: Mutex::new(Books {
                retention_cap,
                ..Books::default()
            }),
        }))
    }

    /// An allocator that counts, and frees what comes back.
    pub fn simple(capacity: usize) -> RawBufferAllocator {
        RawBufferAllocator::new(Kind::Simple, capacity, 0)
    }

    /// An arena for what a call needs on the way.
    pub fn execution_arena(capacity: usize, retention_cap: usize) -> RawBufferAllocator {
        RawBufferAllocator::new(Kind::Execution, capacity, retention_cap)
    }

    /// An arena for outputs and retained values.
    pub fn io_arena(capacity: usize, retention_cap: usize) -> RawBufferAllocator {
        RawBufferAllocator::new(Kind::Io, capacity, retention_cap)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // What is done under the lock cannot panic half way.
        self.0.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A zeroed block of at least `bytes` bytes.
    pub(crate) fn request(&self, bytes: usize) -> Result<HeapBlock, AllocError> {
        let exhausted = AllocError::Exhausted { requested: bytes };
        let size = match self.0.kind {
            Kind::Simple => bytes,
            Kind::Execution | Kind::Io if bytes == 0 => 0,
            Kind::Execution | Kind::Io => class_size(class_of(bytes)),
        };
        let free = {
            let mut books = self.books();
            if books.live_count >= self.0.capacity {
                return Err(AllocError::Buffers {
                    requested: bytes,
                    capacity: self.0.capacity,
                });
            }
            books.live_count += 1;
            books.live_bytes = books.live_bytes.saturating_add(bytes);
            let free = books.free.get_mut(&size).and_then(Vec::pop);
            if free.is_some() {
                books.retained_bytes -= size;
                books.retained_count -= 1;
            }
            free
        };
        let block = match free {
            Some(mut block) => {
                block.clear(bytes);
                Some(block)
            }
            None => HeapBlock::zeroed(size),
        };
        let mut books = self.books();
        match block {
            Some(block) => {
                books.peak_bytes = books.peak_bytes.max(books.live_bytes);
                Ok(block)
            }
            None => {
                books.live_count -= 1;
                books.live_bytes -= bytes;
                Err(exhausted)
            }
        }
    }

    /// Takes a block back that was given for `bytes` bytes.
    pub(crate) fn take_back(&self, block: HeapBlock, bytes: usize) {
        let mut books = self.books();
        books.live_count -= 1;
        books.live_bytes -= bytes;
        let size = block.size();
        let kept = books.retained_bytes.saturating_add(size) <= books.retention_cap;
        if self.0.kind != Kind::Simple && kept && size > 0 {
            books.retained_bytes += size;
            books.retained_count += 1;
            books.free.entry(size).or_default().push(block);
            return;
        }
        drop(books);
        drop(block);
    }

    /// Bytes that were asked for and are in use.
    pub fn live_bytes(&self) -> usize {
        self.books().live_bytes
    }

    /// The most bytes that were in use at once since the start or the last [`RawBufferAllocator::reset_peak`].
    pub fn peak_bytes(&self) -> usize {
        self.books().peak_bytes
    }

    /// Starts measuring the peak anew, from what is in use now.
    pub fn reset_peak(&self) {
        let mut books = self.books();
        books.peak_bytes = books.live_bytes;
    }

    /// Buffers in use: each is held by a value that somebody keeps.
    pub fn live_count(&self) -> usize {
        self.books().live_count
    }

    /// The most buffers that may be in use at once.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Bytes of the free buffers that are kept.
    pub fn retained_bytes(&self) -> usize {
        self.books().retained_bytes
    }

    /// Free buffers that are kept.
    pub fn retained_count(&self) -> usize {
        self.books().retained_count
    }

    /// Most bytes of free buffers that are kept.
    pub fn retention_cap(&self) -> usize {
        self.books().retention_cap
    }

    /// Keeps at most so many bytes of free buffers from now on; the largest go first.
    pub fn set_retention_cap(&self, cap: usize) {
        self.books().retention_cap = cap;
        self.shrink(cap);
    }

    /// Frees all buffers that are kept.
    pub fn trim(&self) {
        self.shrink(0);
    }

    fn shrink(&self, most: usize) {
        let mut gone = Vec::new();
        let mut books = self.books();
        while books.retained_bytes > most {
            let Some(mut largest) = books.free.last_entry() else {
                break;
            };
            match largest.get_mut().pop() {
                Some(block) => {
                    books.retained_bytes -= block.size();
                    books.retained_count -= 1;
                    gone.push(block);
                }
                None => {
                    largest.remove();
                }
            }
        }
        drop(books);
        drop(gone);
    }

    /// Whether two handles are one allocator.
    pub fn same_as(&self, other: &RawBufferAllocator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
