//! Operators of the domain `ai.rt`: attention over paged caches.
//!
//! A schema is all that stands here: which of them a session may compute is decided where kernels are registered.

mod cache;
mod paged_attention;
mod quantize_paged_cache;

pub(super) use paged_attention::SCHEMAS as PAGED_ATTENTION;
pub(super) use quantize_paged_cache::SCHEMAS as QUANTIZE_PAGED_CACHE;

const DOMAIN: &str = "ai.rt";

#[cfg(test)]
mod tests;
