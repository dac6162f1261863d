//! What an execution cost.

use refeed_kernels::attention::paged::PageGroup;
use std::sync::Arc;

/// Counts of one execution, or of several together.
///
/// Two of them are defined, not measured, so that they can be compared between runtimes: `dequantized_bytes` and
/// `peak_workspace_bytes`. What this runtime really did stands beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Payload bytes of new pages: what was copied or converted.
    pub copied_bytes: u64,
    /// FLOAT bytes (4 an element) of the quantised keys and values of every visible token of the cache, for each query row
    /// and query head.
    pub dequantized_bytes: u64,
    /// Bytes of one double a value column: what a computation needs that walks over one query row at a time. Of several
    /// executions, the most.
    pub peak_workspace_bytes: u64,
    /// Pages that were held to the rules for the first time; those that an earlier execution checked do not count.
    pub validated_pages: u64,
    /// FLOAT bytes of codes that were computed with, as numbers in registers or as the bytes that they are: once for all query
    /// rows and heads that share them.
    pub decoded_bytes: u64,
    /// Bytes that one task of the computation works in. Of several executions, the most.
    pub tile_bytes: u64,
}

impl Statistics {
    /// Adds those of another execution.
    pub fn add(&mut self, other: &Statistics) {
        self.copied_bytes += other.copied_bytes;
        self.dequantized_bytes += other.dequantized_bytes;
        self.peak_workspace_bytes = self.peak_workspace_bytes.max(other.peak_workspace_bytes);
        self.validated_pages += other.validated_pages;
        self.decoded_bytes += other.decoded_bytes;
        self.tile_bytes = self.tile_bytes.max(other.tile_bytes);
    }
}

/// [`Statistics::dequantized_bytes`] of `rows` query rows, the first at `past`, over pages without gaps; `heads` counts the
/// query heads of all batch rows.
pub(super) fn dequantized_bytes(
    groups: &[Arc<PageGroup>],
    past: usize,
    rows: usize,
    window: Option<u64>,
    heads: usize,
) -> u64 {
    // Numbers of the groups behind each.
    let mut behind = vec![0u64; groups.len()];
    let mut sum = 0u64;
    for (slot, group) in behind.iter_mut().zip(groups).rev() {
        *slot = sum;
        sum = sum.saturating_add(group.coded_numbers(0));
    }
    let from = |token: usize| -> u64 {
        let index = groups.partition_point(|group| group.tokens().end <= token);
        match (groups.get(index), behind.get(index)) {
            (Some(group), Some(behind)) => behind.saturating_add(group.coded_numbers(token)),
            _ => 0,
        }
    };
    let window = window.and_then(|before| usize::try_from(before).ok());
    (0..rows)
        .map(|row| from(window.map_or(0, |before| (past + row).saturating_sub(before))))
        .fold(0u64, u64::saturating_add)
        .saturating_mul(4)
        .saturating_mul(heads as u64)
}
