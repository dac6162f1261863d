//! Checking a cache, each page once, and the pages that queries see.

use super::Formats;
use super::fill::Tails;
use crate::kernel::OpError;
use refeed_kernels::attention::paged::{GroupError, PageGroup};
use refeed_kernels::quantize::{Payload, QuantizeError, Storage};
use refeed_values::paged_cache::{
    CacheMemo, CacheShape, PageFault, blocks, is_decodable_cache, page, page_of_token,
};
use refeed_values::{RuntimeSequence, RuntimeValue, Tensor};
use std::sync::Arc;

/// What earlier executions of a kernel found out about pages. It keeps none of them alive, but for `tails`.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: CacheMemo,
    /// Room behind last pages; only the policy "fill" keeps some.
    pub(super) tails: Tails,
    /// What the last formats are encoded to: steps after each other mostly have the same, whose pages share the parameters.
    storage: Option<(Formats, Arc<[Storage; 2]>)>,
    /// The last length of a page, likewise.
    length: Option<(usize, Tensor)>,
}

/// A fault of a payload, at its place.
fn unreadable(block: usize, field: &str, error: QuantizeError) -> OpError {
    match error {
        QuantizeError::Part {
            part,
            expected,
            got,
        } => OpError::Page(PageFault {
            block: Some(block),
            field: match part {
                "payload" => field.to_string(),
                part => format!("{field}.{part}"),
            },
            expected,
            got,
        }),
        other => other.into(),
    }
}

/// Page after page, so that a fault has its position.
///
/// # Errors
/// With the first payload that cannot be read.
fn readable(blocks: &RuntimeSequence) -> Result<(), OpError> {
    for (index, held) in blocks.iter().enumerate() {
        let parts = page(held)?;
        for (field, payload) in [("key", parts.key), ("value", parts.value)] {
            Payload::of(payload).map_err(|error| unreadable(index, field, error))?;
        }
    }
    Ok(())
}

impl Memo {
    /// Holds a cache to all rules; gives its extents and the number of pages that were looked at for the first time.
    ///
    /// # Errors
    /// With the first page that breaks a rule, and its field.
    pub(super) fn check(&mut self, cache: &RuntimeValue) -> Result<(CacheShape, u64), OpError> {
        let before = self.known.looked_at();
        let shape = self.known.check(cache)?;
        if let Some(blocks) = blocks(cache)
            && !is_decodable_cache(cache)
        {
            readable(blocks)?;
        }
        Ok((shape, self.known.looked_at() - before))
    }

    /// As [`Formats::storage`].
    ///
    /// # Errors
    /// As [`Formats::storage`].
    pub(super) fn storage(&mut self, formats: &Formats) -> Result<Arc<[Storage; 2]>, OpError> {
        match &self.storage {
            Some((held, storage)) if held == formats => Ok(storage.clone()),
            _ => {
                let storage = Arc::new(formats.storage()?);
                self.storage = Some((*formats, storage.clone()));
                Ok(storage)
            }
        }
    }

    /// The length of a page as its field.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub(super) fn length(&mut self, length: usize) -> Result<Tensor, OpError> {
        match &self.length {
            Some((held, tensor)) if *held == length => Ok(tensor.clone()),
            _ => {
                let tensor = number(length)?;
                self.length = Some((length, tensor.clone()));
                Ok(tensor)
            }
        }
    }
}

/// A number as the field of a page.
///
/// # Errors
/// When memory cannot be had.
pub(super) fn number(n: usize) -> Result<Tensor, OpError> {
    Ok(Tensor::scalar(i64::try_from(n).unwrap_or(i64::MAX))?)
}

/// The pages from the group that holds token `low` on, ready to be attended to, of a cache that was checked. Groups stay
/// with the cache, so only those with new pages are made.
///
/// # Errors
/// When a page cannot be read, which a checked one can.
pub(super) fn pages_from(cache: &RuntimeValue, low: usize) -> Result<Vec<Arc<PageGroup>>, OpError> {
    let Some(blocks) = blocks(cache) else {
        return Ok(Vec::new());
    };
    let first = match low {
        0 => 0,
        low => {
            let token = i64::try_from(low).unwrap_or(i64::MAX);
            match page_of_token(cache, token) {
                Some((index, _)) => index,
                None => return Ok(Vec::new()),
            }
        }
    };
    blocks.groups(first, &mut |start, begun: Option<Arc<PageGroup>>, pages| {
        let made = match begun {
            Some(begun) => Arc::unwrap_or_clone(begun).with(pages),
            None => PageGroup::of(pages),
        };
        made.map_err(|error| match error {
            GroupError::Page { index, source } => OpError::Page(PageFault {
                block: Some(start + index),
                ..source
            }),
            GroupError::Payload {
                index,
                field,
                source,
            } => unreadable(start + index, field, source),
            GroupError::Kernel(source) => OpError::Kernel(source),
            other => OpError::Custom(Box::new(other)),
        })
    })
}
