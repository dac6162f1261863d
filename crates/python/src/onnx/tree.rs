//! The one lock of all editable messages.

use pyo3::prelude::*;
use refeed_proto::message::TreeLock;
use std::cell::{Cell, RefCell};
use std::sync::{LazyLock, Mutex, PoisonError};

static LOCK: LazyLock<Mutex<TreeLock>> = LazyLock::new(|| Mutex::new(TreeLock::new()));

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
    /// Objects whose last reference went while this thread held the lock.
    static DEFERRED: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}

/// Reads or edits messages. The work never calls Python and never waits for anything: an object that goes meanwhile is
/// let go afterwards, because its finaliser might come back here.
pub(crate) fn with<R>(work: impl FnOnce(&mut TreeLock) -> R) -> R {
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            HELD.set(false);
        }
    }
    let outcome = {
        // A panic in the work leaves messages that are whole: each step of an edit is one assignment.
        let mut lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        HELD.set(true);
        let _release = Release;
        work(&mut lock)
    };
    let deferred = DEFERRED.with_borrow_mut(std::mem::take);
    if !deferred.is_empty() {
        drop(deferred);
    }
    outcome
}

/// Keeps an object until the lock is free, when this thread holds it; gives it back otherwise.
pub(crate) fn defer(object: Py<PyAny>) -> Option<Py<PyAny>> {
    if !HELD.try_with(Cell::get).unwrap_or(false) {
        return Some(object);
    }
    DEFERRED.with_borrow_mut(|deferred| deferred.push(object));
    None
}
