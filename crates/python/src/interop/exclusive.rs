//! A value that one piece of work at a time may read and change.
//!
//! # The argument for the unsafe code here
//! Work gets the only reference to the value, and only while the value is marked as taken. The mark is set and read by
//! threads that hold the interpreter: where it has a global lock, one thread at a time, which is why no atomic
//! instruction is needed; where it has none, a mutex stands for it. So two pieces of work never meet: a thread that
//! finds the mark set is inside work that broke its promise never to run Python, and is stopped.

use super::handle;
use pyo3::prelude::*;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A value for one piece of work at a time.
pub(crate) struct Exclusive<T> {
    taken: AtomicBool,
    /// Locked by interpreters without a global lock.
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: threads reach the value one after the other, as the module argues: it is handed on, not shared.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive {
            taken: AtomicBool::new(false),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs work on the value. The work never runs Python and never waits.
    #[inline]
    pub(crate) fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        let locked = if handle::has_lock(py) {
            None
        } else {
            Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
        };
        assert!(
            !self.taken.load(Ordering::Relaxed),
            "work on messages started inside work on messages"
        );
        self.taken.store(true, Ordering::Relaxed);
        let release = Release(&self.taken);
        // SAFETY: the mark says that no other reference lives, as the module argues.
        let outcome = work(unsafe { &mut *self.value.get() });
        drop(release);
        drop(locked);
        outcome
    }
}
