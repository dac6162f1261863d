//! Stopping a run from outside: a poll that the executor asks by the clock, and a completion that it looks at between
//! nodes.

use crate::completion::TaskCompletion;
use crate::kernel::OpError;
use std::time::{Duration, Instant};

/// Tells whether the caller wants the run to stop. Called on the calling thread only.
pub type Poll = fn() -> bool;

/// At most this long passes between two polls, as long as no single kernel runs longer.
const INTERVAL: Duration = Duration::from_millis(20);

/// What can stop a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunControl<'a> {
    /// Asked by the clock, between nodes and inside long kernels.
    pub poll: Option<Poll>,
    /// Cancels the run between nodes, up to the publication, and is succeeded by it.
    pub completion: Option<&'a TaskCompletion>,
    /// Cancels the run between nodes, but is neither taken nor succeeded by it: one completion of many runs.
    pub watched: Option<&'a TaskCompletion>,
}

/// The clock that decides when to poll.
#[derive(Debug)]
pub(crate) struct Interrupt {
    poll: Option<Poll>,
    completion: Option<TaskCompletion>,
    next: Option<Instant>,
}

impl Interrupt {
    pub(crate) fn new(control: RunControl<'_>) -> Interrupt {
        Interrupt {
            poll: control.poll,
            completion: control.completion.or(control.watched).cloned(),
            next: None,
        }
    }

    /// Between two nodes, where a cancelled run ends. Kernels that run are never cut by a completion.
    ///
    /// # Errors
    /// When the run's completion was cancelled.
    pub(crate) fn between_nodes(&self) -> Result<(), OpError> {
        match &self.completion {
            Some(completion) if completion.is_ready() => Err(OpError::Cancelled),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// When the caller wants to stop.
    pub(crate) fn check(&mut self) -> Result<(), OpError> {
        let Some(poll) = self.poll else { return Ok(()) };
        let now = Instant::now();
        match self.next {
            // The first look only starts the clock: short runs never poll.
            None => self.next = Some(now + INTERVAL),
            Some(due) if now < due => {}
            Some(_) => {
                self.next = Some(now + INTERVAL);
                if poll() {
                    return Err(OpError::Interrupted);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_by_the_clock_and_not_before() {
        let polled = |poll| {
            Interrupt::new(RunControl {
                poll,
                ..RunControl::default()
            })
        };
        let mut interrupt = polled(Some(|| true));
        assert!(interrupt.check().is_ok());
        assert!(interrupt.check().is_ok());
        interrupt.next = Some(Instant::now());
        assert!(matches!(interrupt.check(), Err(OpError::Interrupted)));
        assert!(polled(None).check().is_ok());
    }
}
