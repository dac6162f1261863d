//! A block of heap memory: large ones are mapped on huge pages, the rest comes from the allocator of the process.
//!
//! A decode step reads its caches from end to end, and what limits it is how fast the memory delivers. With pages of
//! 4 KiB the processor looks up an address every 64 cache lines, and its prefetcher stops at every page; with pages of
//! 2 MiB neither costs anything. So blocks from [`HUGE`] bytes on are mappings of their own that ask the kernel for such
//! pages. Pages that nobody has touched take no memory, so capacity reserved behind the rows of a cache is free until
//! then; a cache of several heads touches at most one huge page a head ahead of its rows. The many small blocks of the pages of
//! one call get such a mapping together ([`Reserve`]).

use super::{ALIGNMENT, dangling};
use memmap2::MmapMut;
use std::alloc::{Layout as MemoryLayout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

/// Size and alignment of a huge page on the machines that have them.
const HUGE_PAGE: usize = 1 << 21;
/// Blocks from this size on are mapped: two huge pages, so that the end of the last one is at most a third of what is used.
const HUGE: usize = 2 * HUGE_PAGE;
/// Most bytes that go only together: what a single page of a cache may keep from the system.
const PIECE: usize = HUGE_PAGE;

/// Heap memory, zeroed when it is made, freed when this goes.
#[derive(Debug)]
pub(crate) struct HeapBlock {
    ptr: NonNull<u8>,
    layout: MemoryLayout,
    /// The mapping that the memory is part of; without one it belongs to the allocator of the process.
    mapping: Option<Arc<MmapMut>>,
}

// SAFETY: fact 3 of the head of `allocation.rs`; the pointer is the only one while the block is not part of an allocation.
unsafe impl Send for HeapBlock {}
// SAFETY: as for `Send`; shared access does not touch the memory.
unsafe impl Sync for HeapBlock {}

impl HeapBlock {
    /// `None` when the size is none that memory has, or the system has nothing to give.
    pub(crate) fn zeroed(bytes: usize) -> Option<HeapBlock> {
        let layout = MemoryLayout::from_size_align(bytes, ALIGNMENT).ok()?;
        if bytes == 0 {
            let ptr = dangling();
            return Some(HeapBlock {
                ptr,
                layout,
                mapping: None,
            });
        }
        if let Some(block) = HeapBlock::mapped(layout) {
            return Some(block);
        }
        // SAFETY: `layout` has a nonzero size.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(HeapBlock {
            ptr,
            layout,
            mapping: None,
        })
    }

    /// A block on huge pages; `None` for small ones, where there are no such pages, and when the system refuses.
    fn mapped(layout: MemoryLayout) -> Option<HeapBlock> {
        // Miri watches what its own allocator gives, and knows no advice.
        if !cfg!(target_os = "linux") || cfg!(miri) || layout.size() < HUGE {
            return None;
        }
        let len = layout.size().checked_next_multiple_of(HUGE_PAGE)?;
        let (mapping, ptr) = huge_pages(len)?;
        Some(HeapBlock {
            ptr,
            layout,
            mapping: Some(mapping),
        })
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }

    /// Zeroes the first bytes again.
    pub(crate) fn clear(&mut self, bytes: usize) {
        let bytes = bytes.min(self.size());
        // SAFETY: `ptr` is valid for `size()` bytes, and `&mut self` of a block means that nobody else has its memory.
        unsafe { std::ptr::write_bytes(self.ptr.as_ptr(), 0, bytes) };
    }
}

/// A mapping on huge pages, and the first of `len` bytes of it, which begin with such a page.
fn huge_pages(len: usize) -> Option<(Arc<MmapMut>, NonNull<u8>)> {
    // A mapping starts on a small page: one huge page more leaves room to start on a huge one.
    let mut mapping = MmapMut::map_anon(len.checked_add(HUGE_PAGE)?).ok()?;
    #[cfg(target_os = "linux")]
    // Refused by kernels built without huge pages, whose small ones serve as well.
    let _ = mapping.advise(memmap2::Advice::HugePage);
    let start = mapping.as_mut_ptr();
    let ptr = NonNull::new(start.wrapping_add(start.addr().wrapping_neg() % HUGE_PAGE))?;
    Some((Arc::new(mapping), ptr))
}

/// Room for blocks that are read one after the other: they lie one behind the other, and go together when the last one goes.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Bytes that are still to be mapped.
    left: usize,
    mapping: Option<Arc<MmapMut>>,
    /// What is free of the mapping.
    free: NonNull<u8>,
    room: usize,
}

// SAFETY: fact 3 of the head of `allocation.rs`; nobody else has the memory that is free.
unsafe impl Send for Reserve {}

impl Reserve {
    /// Room for `bytes` bytes, mapped when they are asked for.
    pub(crate) fn new(bytes: usize) -> Reserve {
        Reserve {
            left: bytes,
            mapping: None,
            free: dangling(),
            room: 0,
        }
    }

    /// A zeroed block behind the one before; `None` when there is no room for it, or no such mapping.
    pub(crate) fn block(&mut self, bytes: usize) -> Option<HeapBlock> {
        let layout = MemoryLayout::from_size_align(bytes, ALIGNMENT).ok()?;
        let size = bytes.checked_next_multiple_of(ALIGNMENT)?;
        if bytes == 0 || !cfg!(target_os = "linux") || cfg!(miri) {
            return None;
        }
        if self.room < size {
            let left = self.left.min(PIECE);
            let len = left.checked_next_multiple_of(HUGE_PAGE)?;
            if left < HUGE_PAGE / 2 || len < size {
                return None; // half a huge page would be lost, or more
            }
            let (mapping, first) = huge_pages(len)?;
            self.left = self.left.saturating_sub(len);
            (self.mapping, self.free, self.room) = (Some(mapping), first, len);
        }
        let block = HeapBlock {
            ptr: self.free,
            layout,
            mapping: self.mapping.clone(),
        };
        // SAFETY: `room` bytes from `free` on are mapped, and `size` is not more; blocks never overlap since `free` moves on.
        self.free = unsafe { self.free.add(size) };
        self.room -= size;
        Some(block)
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        // A mapping goes by itself.
        if self.size() != 0 && self.mapping.is_none() {
            // SAFETY: `ptr` came from `alloc_zeroed` with this layout and is freed only here.
            unsafe { dealloc(self.ptr.as_ptr(), self.layout) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes(block: &HeapBlock) -> &[u8] {
        // SAFETY: `ptr` is valid for `size()` initialised bytes while the block lives, and nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(block.ptr.as_ptr(), block.size()) }
    }

    #[test]
    fn blocks_of_every_size_are_zeroed_aligned_and_cleared() {
        for size in [1, 4096, HUGE - 1, HUGE, HUGE + 1, 3 * HUGE_PAGE] {
            let mut block = HeapBlock::zeroed(size).unwrap();
            assert_eq!(block.size(), size);
            assert_eq!(block.ptr.addr().get() % ALIGNMENT, 0);
            assert!(bytes(&block).iter().all(|byte| *byte == 0));
            // SAFETY: as in `bytes`, and this is the only access.
            unsafe { std::ptr::write_bytes(block.ptr.as_ptr(), 7, size) };
            block.clear(size - 1);
            let (last, rest) = bytes(&block).split_last().unwrap();
            assert!(*last == 7 && rest.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn large_blocks_start_on_a_huge_page_and_small_ones_are_not_mapped() {
        let large = HeapBlock::zeroed(HUGE).unwrap();
        assert!(large.mapping.is_some());
        assert_eq!(large.ptr.addr().get() % HUGE_PAGE, 0);
        assert!(HeapBlock::zeroed(HUGE - 1).unwrap().mapping.is_none());
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn blocks_of_a_reserve_lie_one_behind_the_other_and_live_on_their_own() {
        let each = HUGE_PAGE / 8 + 1;
        let mut reserve = Reserve::new(80 * each);
        let mut blocks: Vec<_> = (0..40).map(|_| reserve.block(each).unwrap()).collect();
        drop(reserve);
        let next = each.next_multiple_of(ALIGNMENT);
        let gap = |pair: &[HeapBlock]| {
            pair[1]
                .ptr
                .addr()
                .get()
                .wrapping_sub(pair[0].ptr.addr().get())
        };
        // A piece has room for 7; the next one begins elsewhere.
        let apart = blocks.windows(2).filter(|pair| gap(pair) != next).count();
        assert_eq!(apart, 5);
        for (i, block) in blocks.iter_mut().enumerate() {
            assert!(bytes(block).iter().all(|byte| *byte == 0));
            // SAFETY: this is the only access to a block that nobody else has.
            unsafe { std::ptr::write_bytes(block.ptr.as_ptr(), i as u8 + 1, each) };
        }
        let last = blocks.pop().unwrap();
        drop(blocks);
        assert!(bytes(&last).iter().all(|byte| *byte == 40));
    }

    #[test]
    fn a_reserve_that_is_small_or_used_up_gives_nothing() {
        assert!(Reserve::new(HUGE_PAGE / 2 - 1).block(64).is_none());
        let mut reserve = Reserve::new(HUGE);
        assert!(reserve.block(0).is_none());
        assert!(reserve.block(usize::MAX).is_none());
        assert!(reserve.block(HUGE_PAGE + 1).is_none());
        for _ in 0..2 {
            let all = reserve.block(HUGE_PAGE);
            assert_eq!(all.is_some(), cfg!(all(target_os = "linux", not(miri))));
        }
        assert!(reserve.block(1).is_none());
    }

    #[test]
    fn sizes_that_no_mapping_has_are_refused() {
        for bytes in [isize::MAX as usize, isize::MAX as usize - 63, usize::MAX] {
            assert!(HeapBlock::zeroed(bytes).is_none());
        }
    }

    /// What is reserved takes memory only once it is touched: bit 63 of a page's entry says whether it is there.
    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    fn untouched_capacity_takes_no_memory() {
        use std::os::unix::fs::FileExt;
        const PAGE: usize = 4096;
        let block = HeapBlock::zeroed(64 * HUGE_PAGE).unwrap();
        // SAFETY: the first byte of a block that nobody else has.
        unsafe { block.ptr.as_ptr().write(1) };
        let mut entries = vec![0u8; block.size() / PAGE * 8];
        let first = (block.ptr.addr().get() / PAGE * 8) as u64;
        let map = std::fs::File::open("/proc/self/pagemap").unwrap();
        map.read_exact_at(&mut entries, first).unwrap();
        let present = entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0);
        let present = present.count();
        assert!((1..=HUGE_PAGE / PAGE).contains(&present), "{present} pages");
    }
}
