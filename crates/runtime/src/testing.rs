//! Planted failures, for tests. Not compiled into a released wheel.

use crate::kernel::OpError;
pub use refeed_values::testing::{Mode, Site, arm, count, disarm, fill};

/// Passes a site of this crate.
///
/// # Errors
/// When a failure is planted here.
pub(crate) fn check(site: Site) -> Result<(), OpError> {
    match refeed_values::testing::strike(site) {
        false => Ok(()),
        true => Err(OpError::Injected),
    }
}
