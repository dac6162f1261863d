//! What an execution cost.

use refeed_kernels::attention::paged::Page;

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
    /// Pages that were looked at to check the cache; those that an earlier execution checked do not count.
    pub validated_pages: u64,
    /// FLOAT bytes of codes that were turned into numbers, in registers mostly: once for all query rows and heads that share
    /// them.
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
    pages: &[Page<'_>],
    past: usize,
    rows: usize,
    window: Option<u64>,
    heads: usize,
) -> u64 {
    // Bytes of all tokens before each page.
    let mut before = vec![0u64];
    let each: Vec<u64> = pages
        .iter()
        .map(|page| {
            let width =
                |rows: &refeed_kernels::attention::paged::PageRows<'_>| match rows.is_affine() {
                    true => rows.extents()[3] as u64,
                    false => 0,
                };
            4 * (width(&page.key) + width(&page.value))
        })
        .collect();
    let mut sum = 0u64;
    for (page, each) in pages.iter().zip(&each) {
        sum = sum.saturating_add(each.saturating_mul(page.length as u64));
        before.push(sum);
    }
    let after = |token: usize| -> u64 {
        let index = pages.partition_point(|page| page.start + page.length <= token);
        match pages.get(index) {
            Some(page) => {
                let inside = token.saturating_sub(page.start) as u64;
                sum - before[index] - each[index] * inside
            }
            None => 0,
        }
    };
    let window = window.and_then(|before| usize::try_from(before).ok());
    (0..rows)
        .map(|row| after(window.map_or(0, |before| (past + row).saturating_sub(before))))
        .fold(0u64, u64::saturating_add)
        .saturating_mul(heads as u64)
}
