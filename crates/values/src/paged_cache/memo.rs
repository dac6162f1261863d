//! Which pages a reader has held to the rules.

use super::{CacheShape, PageFault, check, checked_blocks};
use crate::{RuntimeValue, SequenceMemo};

/// The pages that earlier checks of a reader have seen, so that a check counts only those that are new: a cache grown by one
/// page is checked in O(log n). It keeps no page alive.
///
/// What the pages are is known to the sequences; a memo knows which of them its reader has met.
///
/// ```
/// use refeed_values::paged_cache::{CacheMemo, cache_of};
/// let mut memo = CacheMemo::default();
/// assert_eq!(memo.check(&cache_of([])?).unwrap().tokens, 0);
/// # Ok::<(), refeed_values::ValueError>(())
/// ```
#[derive(Debug, Default)]
pub struct CacheMemo {
    pub(super) known: SequenceMemo<()>,
    looked_at: u64,
}

impl CacheMemo {
    /// As [`check`].
    ///
    /// # Errors
    /// As [`check`].
    pub fn check(&mut self, cache: &RuntimeValue) -> Result<CacheShape, PageFault> {
        let shape = check(cache)?;
        let new = checked_blocks(cache)?.meet(&mut self.known);
        self.looked_at += new as u64;
        Ok(shape)
    }

    /// Number of pages looked at so far; those that were known do not count.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }
}
