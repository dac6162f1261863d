//! A global allocator that counts requests, for test binaries that show that warm work asks the system for no memory. Each
//! includes this file and names [`Counting`] as its allocator.

#![allow(dead_code)] // a binary reads one of the two counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, and a count of what is asked of it.
pub(crate) struct Counting;

static OF_ALL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Requests of all threads so far.
pub(crate) fn requests_of_all() -> usize {
    OF_ALL.load(Ordering::Relaxed)
}

/// Requests of this thread so far, for binaries whose tests run side by side.
pub(crate) fn requests_of_thread() -> usize {
    OF_THREAD.get()
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        OF_ALL.fetch_add(1, Ordering::Relaxed);
        OF_THREAD.set(OF_THREAD.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}
