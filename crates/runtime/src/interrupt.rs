//! Stopping a run from outside: a poll that the executor asks by the clock.

use crate::kernel::OpError;
use std::time::{Duration, Instant};

/// Tells whether the caller wants the run to stop. Called on the calling thread only.
pub type Poll = fn() -> bool;

/// At most this long passes between two polls, as long as no single kernel runs longer.
const INTERVAL: Duration = Duration::from_millis(20);

/// The clock that decides when to poll.
#[derive(Debug)]
pub(crate) struct Interrupt {
    poll: Option<Poll>,
    next: Option<Instant>,
}

impl Interrupt {
    pub(crate) fn new(poll: Option<Poll>) -> Interrupt {
        Interrupt { poll, next: None }
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
        let mut interrupt = Interrupt::new(Some(|| true));
        assert!(interrupt.check().is_ok());
        assert!(interrupt.check().is_ok());
        interrupt.next = Some(Instant::now());
        assert!(matches!(interrupt.check(), Err(OpError::Interrupted)));
        assert!(Interrupt::new(None).check().is_ok());
    }
}
