//! Stopping a run from outside: a poll that is asked by the clock, and a completion that is looked at, both between nodes
//! and between the tasks that kernels cut their work into.

use crate::completion::TaskCompletion;
use crate::kernel::OpError;
use refeed_kernels::pool::Watch;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Tells whether the caller wants the run to stop. Called on the calling thread only.
pub type Poll = fn() -> bool;

/// At most this long passes between two polls, as long as no single task of a kernel runs longer.
const INTERVAL: Duration = Duration::from_millis(20);

/// What can stop a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunControl<'a> {
    /// Asked by the clock, between nodes and between tasks of long kernels.
    pub poll: Option<Poll>,
    /// Cancels the run between nodes or tasks, up to the publication, and is succeeded by it.
    pub completion: Option<&'a TaskCompletion>,
    /// Cancels the run between nodes or tasks, but is neither taken nor succeeded by it: one completion of many runs.
    pub watched: Option<&'a TaskCompletion>,
}

/// What stops one run, and the clock that decides when to poll.
#[derive(Debug)]
pub(crate) struct Interrupt {
    poll: Option<Poll>,
    completion: Option<TaskCompletion>,
    /// The thread that polls.
    caller: ThreadId,
    begun: Instant,
    /// When to poll next, in nanoseconds since the beginning; short runs never do.
    due: AtomicU64,
    /// Whether a poll said stop.
    asked: AtomicBool,
}

/// A time span as a number; spans of centuries are all the same here.
fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Interrupt {
    pub(crate) fn new(control: RunControl<'_>) -> Interrupt {
        Interrupt {
            poll: control.poll,
            completion: control.completion.or(control.watched).cloned(),
            caller: std::thread::current().id(),
            begun: Instant::now(),
            due: AtomicU64::new(nanoseconds(INTERVAL)),
            asked: AtomicBool::new(false),
        }
    }

    /// Whether the run is to end, without a look at the clock.
    ///
    /// # Errors
    /// When its completion was cancelled, or a poll said stop. What a kernel computed until then is not whole.
    pub(crate) fn go_on(&self) -> Result<(), OpError> {
        if self.asked.load(Ordering::Relaxed) {
            return Err(OpError::Interrupted);
        }
        match &self.completion {
            Some(completion) if completion.is_ready() => Err(OpError::Cancelled),
            _ => Ok(()),
        }
    }

    /// As [`Interrupt::go_on`], after a poll if one is due.
    ///
    /// # Errors
    /// When the run is to end.
    pub(crate) fn check(&self) -> Result<(), OpError> {
        self.go_on()?;
        let Some(poll) = self.poll else { return Ok(()) };
        if std::thread::current().id() != self.caller {
            return Ok(());
        }
        let now = self.begun.elapsed();
        if nanoseconds(now) < self.due.load(Ordering::Relaxed) {
            return Ok(());
        }
        let next = nanoseconds(now.saturating_add(INTERVAL));
        self.due.store(next, Ordering::Relaxed);
        if poll() {
            self.asked.store(true, Ordering::Relaxed);
            return Err(OpError::Interrupted);
        }
        Ok(())
    }
}

impl Watch for Interrupt {
    fn ended(&self) -> bool {
        self.go_on().is_err()
    }

    fn look(&self) -> bool {
        self.check().is_err()
    }
}

#[cfg(test)]
mod tests;
