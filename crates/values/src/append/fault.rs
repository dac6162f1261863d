//! Faults that the loom models plant into the protocols, to prove that the models would see them.
//!
//! Outside loom no fault exists: `planted` is constantly false.

/// One broken rule; the numbers are those of the head of `append.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 5: rows are given back by a store, and empty reservations give back, too.
    RollbackByStore,
    /// 7: the watermark is moved without ordering.
    RelaxedWatermark,
    /// 1, 2: the rows are placed behind as many rows as the view is long, not behind its end row.
    ClaimByLength,
    /// 1: an append of no rows marks its place at the watermark.
    EmptyClaim,
    /// 5: sealed rows are given back although a view of them is alive.
    ForgottenView,
    /// 2: the watermark is not compared with the end row.
    UncheckedClaim,
    /// A publication does not compare with the decision that a canceller may have made (`completion.rs`).
    PublicationByStore,
    /// A state is closed although an operation has it (`life_cycle.rs`).
    CloseWhileBusy,
    /// 4: a reader makes one reference over its whole extent.
    #[cfg(loom)]
    SpanningReference,
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

#[cfg(loom)]
mod switch {
    use super::Fault;
    use std::cell::Cell;

    std::thread_local! {
        // The threads of a loom model are coroutines of the test's own thread.
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    pub(crate) fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }
}
#[cfg(loom)]
pub(crate) use switch::{plant, planted};
