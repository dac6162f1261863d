//! One operation at a time, until the end: the protocol of a state's life.
//!
//! A value lies in a [`LifeCycle`]. Whoever takes it out works on it alone, on any thread; everybody else is refused at
//! once and never waits. The value goes back when [`Taken`] is dropped, also by a panic, of which the next one is told.
//! Closing takes the value out for good.
//!
//! The lock is held for the exchange of one pointer and never while somebody works. So a process that forks finds the
//! value in its place, or taken by a thread that the child does not have: then it is busy for ever, which is the truth.

use crate::append::fault::{Fault, planted};
use crate::sync::Mutex;
use std::fmt;
use std::ops::{Deref, DerefMut};
use thiserror::Error;

/// Why a value cannot be taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Somebody has it.
    #[error("another operation is going on")]
    Busy,
    /// It is closed.
    #[error("closed")]
    Closed,
}

enum Phase<T> {
    Idle { value: Box<T>, interrupted: bool },
    Busy,
    Closed,
}

/// A value that one operation at a time may take, until it is closed.
///
/// ```
/// use refeed_values::life_cycle::{LifeCycle, Refusal};
/// let cell = LifeCycle::new(7);
/// let mut taken = cell.take().unwrap();
/// assert_eq!(cell.take().err(), Some(Refusal::Busy));
/// assert_eq!(cell.close().err(), Some(Refusal::Busy));
/// *taken += 1;
/// drop(taken);
/// assert_eq!(*cell.take().unwrap(), 8);
/// cell.close().unwrap();
/// cell.close().unwrap();
/// assert_eq!(cell.take().err(), Some(Refusal::Closed));
/// ```
pub struct LifeCycle<T> {
    phase: Mutex<Phase<T>>,
}

impl<T> fmt::Debug for LifeCycle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifeCycle").finish_non_exhaustive()
    }
}

impl<T> LifeCycle<T> {
    /// A value that nobody has taken.
    pub fn new(value: T) -> LifeCycle<T> {
        let value = Box::new(value);
        LifeCycle {
            phase: Mutex::new(Phase::Idle {
                value,
                interrupted: false,
            }),
        }
    }

    /// Looks at the phase, unless somebody else does at this moment.
    fn exchange<R>(
        &self,
        with: impl FnOnce(&mut Phase<T>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        // Never poisoned: nothing that is done under the lock can panic.
        match self.phase.try_lock() {
            Ok(mut phase) => with(&mut phase),
            Err(_) => Err(Refusal::Busy),
        }
    }

    /// Takes the value, or fails at once.
    ///
    /// # Errors
    /// When somebody else has it, or it is closed.
    pub fn take(&self) -> Result<Taken<'_, T>, Refusal> {
        self.exchange(|phase| match std::mem::replace(phase, Phase::Busy) {
            Phase::Idle { value, interrupted } => Ok(Taken {
                cell: self,
                value: Some(value),
                interrupted,
            }),
            Phase::Busy => Err(Refusal::Busy),
            Phase::Closed => {
                *phase = Phase::Closed;
                Err(Refusal::Closed)
            }
        })
    }

    /// Takes the value out for good: `None` when that was done before.
    ///
    /// # Errors
    /// When somebody has it.
    pub fn close(&self) -> Result<Option<T>, Refusal> {
        let closed = self.exchange(|phase| match std::mem::replace(phase, Phase::Closed) {
            Phase::Idle { value, .. } => Ok(Some(value)),
            Phase::Busy if planted(Fault::CloseWhileBusy) => Ok(None),
            Phase::Busy => {
                *phase = Phase::Busy;
                Err(Refusal::Busy)
            }
            Phase::Closed => Ok(None),
        })?;
        Ok(closed.map(|value| *value))
    }

    fn put_back(&self, value: Box<T>, interrupted: bool) {
        if let Ok(mut phase) = self.phase.lock() {
            *phase = Phase::Idle { value, interrupted };
        }
    }
}

/// The value of a [`LifeCycle`], taken by one operation. Dropping it puts the value back.
pub struct Taken<'a, T> {
    cell: &'a LifeCycle<T>,
    /// There until `drop`.
    value: Option<Box<T>>,
    interrupted: bool,
}

impl<T> Taken<'_, T> {
    /// Whether the operation before this one ended by a panic; its work may be half done.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("the value is there until the drop"),
        }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("the value is there until the drop"),
        }
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.cell.put_back(value, std::thread::panicking());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Taken<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&**self).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
