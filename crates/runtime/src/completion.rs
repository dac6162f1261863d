//! `TaskCompletion`: cancels a run from another thread, or tells that the run has published.

use crate::error::StateError;
use refeed_values::completion::CompletionCell;
pub use refeed_values::completion::TaskStatus;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// A completion that cannot be used as asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompletionError {
    /// Cancelling comes too late.
    #[error("task {task_id} is already {}: it can no longer be cancelled", .status.name())]
    Finished {
        /// The caller's number of the task.
        task_id: i64,
        /// Where it stands.
        status: TaskStatus,
    },
    /// A run was given a completion that another run has or had.
    #[error("task {task_id} is {}: expected a pending completion, each ends one run", .status.name())]
    NotPending {
        /// The caller's number of the task.
        task_id: i64,
        /// Where it stands.
        status: TaskStatus,
    },
}

#[derive(Debug)]
struct Shared {
    task_id: i64,
    cell: CompletionCell,
    /// Written under its lock together with the decision to cancel, so that whoever sees that decision finds it.
    message: Mutex<Arc<str>>,
}

/// A single-use handle to one run: any thread may cancel it until the run publishes. Cloning shares it.
///
/// Of a publication and a cancellation that meet, exactly one wins. The kernel that runs when it is cancelled begins no
/// further task, later nodes do not start. A run that fails leaves the completion pending, for a retry.
///
/// ```
/// use refeed_runtime::{TaskCompletion, TaskStatus};
/// let completion = TaskCompletion::new(7);
/// completion.cancel("request no longer needed").unwrap();
/// assert_eq!(completion.status(), TaskStatus::Cancelled);
/// assert!(completion.cancel("again").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct TaskCompletion(Arc<Shared>);

impl Default for TaskCompletion {
    fn default() -> Self {
        TaskCompletion::new(0)
    }
}

impl TaskCompletion {
    /// A pending completion; `task_id` is the caller's number for messages.
    pub fn new(task_id: i64) -> TaskCompletion {
        TaskCompletion(Arc::new(Shared {
            task_id,
            cell: CompletionCell::new(),
            message: Mutex::new(Arc::from("")),
        }))
    }

    /// The caller's number.
    pub fn task_id(&self) -> i64 {
        self.0.task_id
    }

    /// Where it stands now.
    pub fn status(&self) -> TaskStatus {
        self.0.cell.status()
    }

    /// Whether it is decided: the run has published, or it was cancelled.
    pub fn is_ready(&self) -> bool {
        self.status().is_ready()
    }

    /// What the canceller said; empty before that.
    pub fn message(&self) -> Arc<str> {
        self.lock().clone()
    }

    /// Decides that the run publishes nothing. `message` goes into the error that the run ends with.
    ///
    /// # Errors
    /// When the run has published, or it was cancelled before.
    pub fn cancel(&self, message: &str) -> Result<(), CompletionError> {
        let mut held = self.lock();
        match self.0.cell.cancel() {
            Ok(()) => {
                *held = Arc::from(message);
                Ok(())
            }
            Err(status) => Err(CompletionError::Finished {
                task_id: self.0.task_id,
                status,
            }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Arc<str>> {
        // A panic cannot come between the decision and the message.
        self.0
            .message
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it for one run, until the guard is gone.
    pub(crate) fn begin(&self) -> Result<Running<'_>, StateError> {
        match self.0.cell.begin() {
            Ok(()) => Ok(Running(self)),
            Err(TaskStatus::Cancelled) => Err(self.cancelled()),
            Err(status) => Err(CompletionError::NotPending {
                task_id: self.0.task_id,
                status,
            }
            .into()),
        }
    }

    /// What a run ends with that was cancelled.
    pub(crate) fn cancelled(&self) -> StateError {
        StateError::Cancelled {
            message: self.message(),
        }
    }
}

/// A completion that a run has. Dropping it without a publication leaves it pending, or cancelled.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a TaskCompletion);

impl Running<'_> {
    /// Decides for the run.
    ///
    /// # Errors
    /// When somebody cancelled first.
    pub(crate) fn publish(&self) -> Result<(), StateError> {
        match self.0.0.cell.publish() {
            true => Ok(()),
            false => Err(self.0.cancelled()),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.cell.release();
    }
}
