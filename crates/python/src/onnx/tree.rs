//! The one lock of all editable messages.

use crate::interop::exclusive::Exclusive;
use pyo3::prelude::*;
use refeed_proto::message::TreeLock;
use std::cell::{Cell, RefCell};
use std::sync::LazyLock;

static LOCK: LazyLock<Exclusive<TreeLock>> = LazyLock::new(|| Exclusive::new(TreeLock::new()));

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::No) };
    /// Objects whose last reference went while this thread held the lock.
    static DEFERRED: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}

/// Whether a thread holds the lock.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    No,
    Yes,
    /// And objects wait until it is free.
    WithDeferred,
}

/// Reads or edits messages. The work never calls Python and never waits for anything: an object that goes meanwhile is
/// let go afterwards, because its finaliser might come back here.
#[inline]
pub(crate) fn with<R>(py: Python<'_>, work: impl FnOnce(&mut TreeLock) -> R) -> R {
    /// Also after a panic in the work, which leaves messages that are whole: each step of an edit is one assignment.
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            if HELD.replace(Held::No) == Held::WithDeferred {
                release_deferred();
            }
        }
    }
    let _release = Release;
    LOCK.with(py, |lock| {
        HELD.set(Held::Yes);
        work(lock)
    })
}

#[cold]
fn release_deferred() {
    drop(DEFERRED.with_borrow_mut(std::mem::take));
}

/// Keeps an object until the lock is free, when this thread holds it; gives it back otherwise.
pub(crate) fn defer(object: Py<PyAny>) -> Option<Py<PyAny>> {
    if HELD.try_with(Cell::get).unwrap_or(Held::No) == Held::No {
        return Some(object);
    }
    DEFERRED.with_borrow_mut(|deferred| deferred.push(object));
    HELD.set(Held::WithDeferred);
    None
}
