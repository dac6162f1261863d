//! Adapters of the operators of `ai.rt`: caches in pages.

mod quantize_paged_cache;

use crate::kernel::KernelEntry;

/// The domain of these operators.
const DOMAIN: &str = "ai.rt";

/// What is registered by itself: PagedAttention is not.
pub(super) const KERNELS: &[KernelEntry] = &[quantize_paged_cache::KERNEL];
