//! Checking a cache, each page once, and the pages that queries see.

use super::fill::Tails;
use super::lock;
use crate::kernel::OpError;
use refeed_kernels::attention::paged::{GroupError, PageGroup};
use refeed_kernels::quantize::{Payload, QuantizeError};
use refeed_values::paged_cache::{self, CacheShape, PageFault, PageRun, blocks, page};
use refeed_values::{RuntimeValue, SequenceMemo};
use std::sync::{Arc, Mutex};

/// What earlier executions of a kernel found out about pages. It keeps none of them alive, but for `tails`.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: SequenceMemo<PageRun>,
    /// Room behind last pages; only the policy "fill" keeps some.
    pub(super) tails: Tails,
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

/// Why a page or two neighbours are no part of a cache.
enum Refused {
    /// They break a rule, found without a look at the others: their positions are not known.
    Rule,
    /// The payload at a position cannot be read.
    Payload(OpError),
}

/// The structure of a page, and whether its payloads can be read.
fn looked_at(index: usize, held: &RuntimeValue) -> Result<PageRun, Refused> {
    let run = PageRun::of(held).map_err(|_| Refused::Rule)?;
    let parts = page(held).map_err(|_| Refused::Rule)?;
    for (field, payload) in [("key", parts.key), ("value", parts.value)] {
        if let Err(error) = Payload::of(payload) {
            return Err(Refused::Payload(unreadable(index, field, error)));
        }
    }
    Ok(run)
}

impl Memo {
    /// Holds a cache to all rules; gives its extents and the number of pages that were looked at.
    ///
    /// # Errors
    /// With the first page that breaks a rule, and its field.
    pub(super) fn check(&mut self, cache: &RuntimeValue) -> Result<(CacheShape, u64), OpError> {
        let Some(blocks) = blocks(cache) else {
            return Ok((paged_cache::check(cache)?, 0));
        };
        let mut looked = 0;
        let run = blocks.fold(
            &mut self.known,
            &mut |index, held| {
                looked += 1;
                looked_at(index, held)
            },
            &mut |a, b| a.join(b).map_err(|_| Refused::Rule),
        );
        let run = run.and_then(|run| match run {
            Some(run) => PageRun::after(None, run)
                .map_err(|_| Refused::Rule)
                .map(Some),
            None => Ok(None),
        });
        match run {
            Ok(run) => {
                let shape = CacheShape {
                    tokens: run.map_or(0, |run| run.end()),
                    dims: run.map(|run| *run.dims()),
                };
                Ok((shape, looked))
            }
            // Page after page, so that the fault has its position.
            Err(Refused::Rule) => Ok((paged_cache::check(cache)?, looked)),
            Err(Refused::Payload(error)) => Err(error),
        }
    }

    /// The position of the page that holds a token of a cache that was checked: O(log n).
    fn page_of_token(&self, cache: &RuntimeValue, token: i64) -> Option<usize> {
        let (index, _) = blocks(cache)?.locate(&self.known, |run| run.end() > token)?;
        Some(index)
    }
}

/// The pages from the group that holds token `low` on, ready to be attended to; the memo has checked the cache. Groups stay
/// with the cache, so only those with new pages are made.
///
/// # Errors
/// When a page cannot be read, which a checked one can.
pub(super) fn pages_from(
    memo: &Mutex<Memo>,
    cache: &RuntimeValue,
    low: usize,
) -> Result<Vec<Arc<PageGroup>>, OpError> {
    let Some(blocks) = blocks(cache) else {
        return Ok(Vec::new());
    };
    let first = match low {
        0 => 0,
        low => {
            let token = i64::try_from(low).unwrap_or(i64::MAX);
            match lock(memo).page_of_token(cache, token) {
                Some(index) => index,
                None => return Ok(Vec::new()),
            }
        }
    };
    blocks.groups(first, &mut |start, pages| {
        PageGroup::of(pages).map_err(|error| match error {
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
