//! The one decision between publishing a call's results and cancelling it.
//!
//! # Who wins
//!
//! A cell is *pending*, *running*, *succeeded* or *cancelled*. Every step is one compare-and-swap, and no step leaves
//! *succeeded* or *cancelled*. A call publishes by `running -> succeeded`, a canceller decides by `-> cancelled`, so of
//! a publication and a cancellation that meet, exactly one sees its step succeed; the other finds the decision made. A
//! call swaps its handles only after its own step, so what was cancelled never becomes visible.

use crate::append::fault::{Fault, planted};
use crate::sync::{AtomicUsize, Ordering};

/// Where a completion stands. The numbers are part of the contract; 3 is not used, because a run that fails leaves its
/// completion pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// No run has it, and none has ended with it.
    Pending = 0,
    /// A run has it.
    Running = 1,
    /// A run published its results with it.
    Succeeded = 2,
    /// It was cancelled first.
    Cancelled = 4,
}

impl TaskStatus {
    fn of(number: usize) -> TaskStatus {
        match number {
            0 => TaskStatus::Pending,
            1 => TaskStatus::Running,
            2 => TaskStatus::Succeeded,
            _ => TaskStatus::Cancelled,
        }
    }

    /// The name: `"pending"`, `"running"`, `"succeeded"`, `"cancelled"`.
    pub const fn name(self) -> &'static str {
        match self {
            TaskStatus::Pending => "pending",
            TaskStatus::Running => "running",
            TaskStatus::Succeeded => "succeeded",
            TaskStatus::Cancelled => "cancelled",
        }
    }

    /// Whether the decision is made.
    pub const fn is_ready(self) -> bool {
        matches!(self, TaskStatus::Succeeded | TaskStatus::Cancelled)
    }
}

/// The cell in which a call and its cancellers decide.
///
/// ```
/// use refeed_values::completion::{CompletionCell, TaskStatus};
/// let cell = CompletionCell::new();
/// cell.begin().unwrap();
/// assert!(cell.publish());
/// assert_eq!(cell.cancel(), Err(TaskStatus::Succeeded));
/// ```
#[derive(Debug)]
pub struct CompletionCell(AtomicUsize);

impl Default for CompletionCell {
    fn default() -> Self {
        CompletionCell::new()
    }
}

impl CompletionCell {
    /// A pending cell.
    pub fn new() -> CompletionCell {
        CompletionCell(AtomicUsize::new(TaskStatus::Pending as usize))
    }

    /// Where it stands now. Only [`TaskStatus::is_ready`] values stay.
    pub fn status(&self) -> TaskStatus {
        TaskStatus::of(self.0.load(Ordering::Acquire))
    }

    /// Takes the cell for one run.
    ///
    /// # Errors
    /// Where it stands, when it is not pending.
    pub fn begin(&self) -> Result<(), TaskStatus> {
        self.swap(TaskStatus::Pending, TaskStatus::Running)
    }

    /// Gives the cell back after a run that failed: pending again, unless it was cancelled.
    pub fn release(&self) {
        // Whoever cancelled it has decided for good.
        let _ = self.swap(TaskStatus::Running, TaskStatus::Pending);
    }

    /// Decides for the run that has the cell. False: somebody cancelled first, and nothing may be published.
    pub fn publish(&self) -> bool {
        if planted(Fault::PublicationByStore) {
            let running = self.status() == TaskStatus::Running;
            self.0
                .store(TaskStatus::Succeeded as usize, Ordering::Release);
            return running;
        }
        self.swap(TaskStatus::Running, TaskStatus::Succeeded)
            .is_ok()
    }

    /// Decides against the run that has the cell, or that will ask for it.
    ///
    /// # Errors
    /// Where it stands, when the decision was already made.
    pub fn cancel(&self) -> Result<(), TaskStatus> {
        let mut from = self.status();
        while !from.is_ready() {
            match self.swap(from, TaskStatus::Cancelled) {
                Ok(()) => return Ok(()),
                // A run began or failed in between.
                Err(now) => from = now,
            }
        }
        Err(from)
    }

    fn swap(&self, from: TaskStatus, to: TaskStatus) -> Result<(), TaskStatus> {
        self.0
            .compare_exchange(
                from as usize,
                to as usize,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .map(drop)
            .map_err(TaskStatus::of)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
