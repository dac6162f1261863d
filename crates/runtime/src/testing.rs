//! Planted failures, for tests. Not compiled into a released wheel.

use crate::kernel::OpError;
use std::cell::Cell;

thread_local! {
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Makes the check number `number` (from 0) of the calling thread fail. A call checks before and after each node, and
/// once between the validation of the next values and their publication.
pub fn arm(number: usize) {
    LEFT.set(Some(number));
}

/// Plants nothing any more. Returns whether the planted failure has happened.
pub fn disarm() -> bool {
    LEFT.take().is_none()
}

/// # Errors
/// When a failure is planted here.
pub(crate) fn check() -> Result<(), OpError> {
    match LEFT.get() {
        None => Ok(()),
        Some(0) => {
            LEFT.set(None);
            Err(OpError::Injected)
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            Ok(())
        }
    }
}
