//! What can stop a generation between and inside of its steps.

use crate::completion::{Running, TaskCompletion};
use crate::error::StateError;
use crate::interrupt::{Poll, RunControl};
use std::time::{Duration, Instant};

/// Time between two polls.
const INTERVAL: Duration = Duration::from_millis(20);

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FinishReason {
    /// It has produced the end token.
    Eos,
    /// It has produced a stop token or a stop sequence, or the caller said so.
    Stop,
    /// It has as many tokens as it may have.
    Length,
    /// The caller's poll said stop.
    Interrupted,
    /// The completion was cancelled.
    Cancelled,
}

impl std::fmt::Display for FinishReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FinishReason {
    /// The reason in a word: `"eos"`, `"stop"`, `"length"`, `"interrupted"`, `"cancelled"`.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Eos => "eos",
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Interrupted => "interrupted",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// A poll by the clock and a completion, over many runs.
pub(super) struct Control<'a> {
    poll: Option<Poll>,
    completion: Option<&'a TaskCompletion>,
    running: Option<Running<'a>>,
    due: Instant,
}

impl<'a> Control<'a> {
    /// Takes the completion for the whole generation.
    ///
    /// # Errors
    /// When it is cancelled, or another run has or had it.
    pub(super) fn begin(control: RunControl<'a>) -> Result<Control<'a>, StateError> {
        Ok(Control {
            poll: control.poll,
            completion: control.completion.or(control.watched),
            running: control.completion.map(TaskCompletion::begin).transpose()?,
            due: Instant::now() + INTERVAL,
        })
    }

    /// What one run looks at.
    pub(super) fn of_run(&self) -> RunControl<'a> {
        RunControl {
            poll: self.poll,
            completion: None,
            watched: self.completion,
        }
    }

    /// Looks between two steps.
    pub(super) fn look(&mut self) -> Option<FinishReason> {
        if self.completion.is_some_and(TaskCompletion::is_ready) {
            return Some(FinishReason::Cancelled);
        }
        let poll = self.poll?;
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        self.due = now + INTERVAL;
        poll().then_some(FinishReason::Interrupted)
    }

    /// Ends the generation: succeeds the completion, unless it was cancelled.
    pub(super) fn end(self) -> Option<FinishReason> {
        let lost = self
            .running
            .is_some_and(|running| running.publish().is_err());
        lost.then_some(FinishReason::Cancelled)
    }
}

/// Why an error is no error but a wish to stop.
pub(super) fn wish(error: &StateError) -> Option<FinishReason> {
    if error.is_interrupt() {
        return Some(FinishReason::Interrupted);
    }
    error.is_cancelled().then_some(FinishReason::Cancelled)
}
