//! Paged caches: a structure with the one field `blocks`, a sequence of pages that each hold some consecutive tokens.
//!
//! A page is a structure of exactly `start` and `length`, INT64 scalars, and `key` and `value`, each a dense tensor
//! `[batch, heads, capacity, width]` or an encoded value that decodes to one. Nothing marks a value as a cache: the
//! structure alone tells, as it does in a file.
//!
//! Checking reads extents and the two scalars of each page, never an element of a payload. Runs of pages are checked
//! apart and joined, so that a run that was checked before need not be looked at again: sequences know of each of their
//! parts whether it is a run of pages that keep the rules (`summary`), and a check of a cache asks for that of the whole.

mod memo;
mod summary;

pub use memo::CacheMemo;
pub(crate) use summary::Pages;
use summary::Payloads;

use crate::encoded::Encoding;
use crate::{DType, EncodedValue, RuntimeSequence, RuntimeValue, StructValue, Tensor, ValueError};
use std::fmt;
use std::sync::{Arc, LazyLock};
use thiserror::Error;

/// The field of a cache.
pub const BLOCKS: &str = "blocks";
/// The fields of a page.
pub const PAGE: [&str; 4] = ["start", "length", "key", "value"];
/// What the axes of a payload mean.
pub const AXES: [&str; 4] = ["batch", "heads", "capacity", "width"];
/// The types that a dense page can be of.
pub const DENSE: [DType; 3] = [DType::Float, DType::Float16, DType::Bfloat16];

/// A page that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: expected {expected}, got {got}", Place(*block, field))]
pub struct PageFault {
    /// The page; `None` when the value is no cache at all.
    pub block: Option<usize>,
    /// The field: `start`, `length`, `key`, `value`, or a part of one.
    pub field: String,
    /// What the rule asks for.
    pub expected: String,
    /// What is there.
    pub got: String,
}

struct Place<'a>(Option<usize>, &'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, field) => f.write_str(field),
            (Some(block), "") => write!(f, "blocks[{block}]"),
            (Some(block), field) => write!(f, "blocks[{block}].{field}"),
        }
    }
}

fn fault(field: &str, expected: impl Into<String>, got: impl Into<String>) -> PageFault {
    PageFault {
        block: None,
        field: field.to_string(),
        expected: expected.into(),
        got: got.into(),
    }
}

/// What the pages of a cache agree in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheDims {
    /// Sequences side by side.
    pub batch: usize,
    /// Heads of the keys and values.
    pub heads: usize,
    /// Width of a key.
    pub key_width: usize,
    /// Width of a value.
    pub value_width: usize,
    /// The smallest number of rows that a page has room for.
    pub least_capacity: usize,
    /// The largest.
    pub most_capacity: usize,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Tokens in all pages.
    pub tokens: i64,
    /// Extents; `None` when there is no page.
    pub dims: Option<CacheDims>,
}

impl CacheShape {
    fn of(run: Option<PageRun>) -> CacheShape {
        CacheShape {
            tokens: run.map_or(0, |run| run.end),
            dims: run.map(|run| run.dims),
        }
    }
}

/// One page, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Position of the first token.
    pub start: i64,
    /// Valid rows.
    pub length: i64,
    /// Keys.
    pub key: &'a RuntimeValue,
    /// Values.
    pub value: &'a RuntimeValue,
}

/// Consecutive pages that fit together: what a check needs to know of them. Runs that follow each other join to one, and in
/// whatever order they are joined, the outcome is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    start: i64,
    end: i64,
    dims: CacheDims,
}

impl PageRun {
    /// One page, with the extents of its payloads, none of them 0.
    ///
    /// # Errors
    /// When it holds no token or more than it has room for, or its keys and values are of different batch, heads or
    /// capacity.
    pub fn new(
        start: i64,
        length: i64,
        key: [usize; 4],
        value: [usize; 4],
    ) -> Result<PageRun, PageFault> {
        if length < 1 {
            return Err(fault("length", "1 or more", length.to_string()));
        }
        let Some(end) = start.checked_add(length) else {
            let expected = format!("tokens that end before {}", i64::MAX);
            let got = format!("{length} tokens from {start} on");
            let field = if start > length { "start" } else { "length" };
            return Err(fault(field, expected, got));
        };
        let capacity = key[2];
        if usize::try_from(length).is_ok_and(|length| length > capacity) {
            let expected = format!("at most {capacity}, the capacity of the page");
            return Err(fault("length", expected, length.to_string()));
        }
        for axis in 0..3 {
            if key[axis] != value[axis] {
                return Err(fault(
                    &along("value", AXES[axis]),
                    format!("{}, as the key has", key[axis]),
                    value[axis].to_string(),
                ));
            }
        }
        Ok(PageRun {
            start,
            end,
            dims: CacheDims {
                batch: key[0],
                heads: key[1],
                key_width: key[3],
                value_width: value[3],
                least_capacity: capacity,
                most_capacity: capacity,
            },
        })
    }

    /// The page of a value.
    ///
    /// # Errors
    /// When it is no page, or one that breaks a rule.
    pub fn of(value: &RuntimeValue) -> Result<PageRun, PageFault> {
        PageRun::of_parts(&page(value)?)
    }

    fn of_parts(page: &Page<'_>) -> Result<PageRun, PageFault> {
        let key = payload_extents("key", page.key)?;
        let value = payload_extents("value", page.value)?;
        PageRun::new(page.start, page.length, key, value)
    }

    /// This run and the one after it.
    ///
    /// # Errors
    /// When the next does not start where this one ends, or is of another batch, other heads or widths.
    pub fn join(&self, next: &PageRun) -> Result<PageRun, PageFault> {
        if next.start != self.end {
            return Err(fault("start", self.end.to_string(), next.start.to_string()));
        }
        let (a, b) = (&self.dims, &next.dims);
        for (field, axis, first, got) in [
            ("key", "batch", a.batch, b.batch),
            ("key", "heads", a.heads, b.heads),
            ("key", "width", a.key_width, b.key_width),
            ("value", "width", a.value_width, b.value_width),
        ] {
            if first != got {
                let expected = format!("{first}, as the first page has");
                return Err(fault(&along(field, axis), expected, got.to_string()));
            }
        }
        Ok(PageRun {
            start: self.start,
            end: next.end,
            dims: CacheDims {
                least_capacity: a.least_capacity.min(b.least_capacity),
                most_capacity: a.most_capacity.max(b.most_capacity),
                ..*a
            },
        })
    }

    /// The run with the page after it; the first page of all starts at 0.
    ///
    /// # Errors
    /// As [`PageRun::join`].
    pub fn after(run: Option<&PageRun>, next: PageRun) -> Result<PageRun, PageFault> {
        match run {
            Some(run) => run.join(&next),
            None if next.start != 0 => Err(fault("start", "0", next.start.to_string())),
            None => Ok(next),
        }
    }

    /// Position after the last token.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// What the pages agree in.
    pub fn dims(&self) -> &CacheDims {
        &self.dims
    }
}

fn along(field: &str, axis: &str) -> String {
    format!("{field}.axis[\"{axis}\"]")
}

/// Joins pages to a cache, without a look at them.
///
/// # Errors
/// When the payloads nest too deep.
pub fn cache_of(pages: impl IntoIterator<Item = RuntimeValue>) -> Result<RuntimeValue, ValueError> {
    let blocks = RuntimeSequence::from_values(pages)?;
    Ok(StructValue::new([(BLOCKS, RuntimeValue::from(blocks))])?.into())
}

/// Makes a page.
///
/// # Errors
/// When memory cannot be had.
pub fn page_of(
    start: Tensor,
    length: Tensor,
    key: RuntimeValue,
    value: RuntimeValue,
) -> Result<RuntimeValue, ValueError> {
    // One piece of memory for the names of all pages.
    static NAMES: LazyLock<[Arc<str>; 4]> = LazyLock::new(|| PAGE.map(Arc::from));
    let [a, b, c, d] = NAMES.clone();
    let fields = [(a, start.into()), (b, length.into()), (c, key), (d, value)];
    Ok(StructValue::new(fields)?.into())
}

/// The pages of a value that is a structure with the one field `blocks`, a sequence.
pub fn blocks(value: &RuntimeValue) -> Option<&RuntimeSequence> {
    let fields = value.fields()?;
    let blocks = fields.get(BLOCKS)?.elements()?;
    (fields.len() == 1).then_some(blocks)
}

/// Whether a value is built as a paged cache is: the one field `blocks`, and pages of exactly the four fields, INT64
/// scalars and payloads. What the pages say may still be wrong. O(1).
///
/// ```
/// use refeed_values::paged_cache::{cache_of, has_paged_cache_structure};
/// assert!(has_paged_cache_structure(&cache_of([])?));
/// # Ok::<(), refeed_values::ValueError>(())
/// ```
pub fn has_paged_cache_structure(value: &RuntimeValue) -> bool {
    blocks(value).is_some_and(|blocks| blocks.pages() != Some(Pages::Other))
}

/// Whether a value is a paged cache that keeps all rules, and stands alone: no payload refers to parameters that lie
/// elsewhere. O(1): sequences know it of their parts.
pub fn is_whole_cache(value: &RuntimeValue) -> bool {
    keeps(value, |payloads| payloads.whole)
}

/// Whether a value is a paged cache that keeps all rules, and attention can read every payload: dense numbers are aligned
/// for their type, and codes are affine with FLOAT scales. O(1): sequences know it of their parts.
pub fn is_decodable_cache(value: &RuntimeValue) -> bool {
    keeps(value, |payloads| payloads.decodable)
}

fn keeps(value: &RuntimeValue, wanted: impl Fn(Payloads) -> bool) -> bool {
    blocks(value).is_some_and(|blocks| match blocks.pages() {
        None => true,
        Some(Pages::Checked(run, payloads)) => run.start == 0 && wanted(payloads),
        Some(_) => false,
    })
}

/// The page that holds a token of a cache that keeps all rules, with its position among the pages: O(log n). `None` past
/// the last token.
pub fn page_of_token(cache: &RuntimeValue, token: i64) -> Option<(usize, Page<'_>)> {
    let ends_later = |pages: &Pages| pages.run().is_some_and(|run| run.end > token);
    let (index, found) = blocks(cache)?.locate_pages(ends_later)?;
    Some((index, page(found).ok()?))
}

/// Takes a page apart.
///
/// # Errors
/// When it is no structure of exactly the four fields, of these kinds.
pub fn page(page: &RuntimeValue) -> Result<Page<'_>, PageFault> {
    let expected = || format!("a structure of {}", PAGE.join(", "));
    let Some(fields) = page.fields() else {
        return Err(fault("", expected(), page.kind()));
    };
    let found = PAGE.map(|name| fields.get(name));
    let ([Some(start), Some(length), Some(key), Some(value)], 4) = (found, fields.len()) else {
        let names: Vec<&str> = fields.iter().take(8).map(|(name, _)| &**name).collect();
        return Err(fault("", expected(), format!("fields {names:?}")));
    };
    for (name, payload) in [("key", key), ("value", value)] {
        if !matches!(payload, RuntimeValue::Tensor(_) | RuntimeValue::Encoded(_)) {
            return Err(fault(name, "a tensor or an encoded value", payload.kind()));
        }
    }
    Ok(Page {
        start: number("start", start)?,
        length: number("length", length)?,
        key,
        value,
    })
}

/// Holds a whole cache to the rules: the first page starts at 0, each starts where the one before ends, holds at least
/// one token and no more than it has room for; keys and values of a page are of one batch, one number of heads and one
/// capacity; batch, heads and widths are the same in all pages; payloads are FLOAT, FLOAT16 or BFLOAT16, or encoded
/// FLOAT with concrete extents. O(1) for a cache that keeps them: sequences know it of their parts.
///
/// # Errors
/// [`PageFault`] with the first page that breaks a rule.
pub fn check(cache: &RuntimeValue) -> Result<CacheShape, PageFault> {
    let blocks = checked_blocks(cache)?;
    match blocks.pages() {
        Some(Pages::Checked(run, _)) if run.start == 0 => Ok(CacheShape::of(Some(run))),
        // Page after page, so that the fault has the position of its page.
        _ => check_in_order(blocks),
    }
}

fn check_in_order(blocks: &RuntimeSequence) -> Result<CacheShape, PageFault> {
    let mut run: Option<PageRun> = None;
    for (index, page) in blocks.iter().enumerate() {
        let next = PageRun::of(page).and_then(|next| PageRun::after(run.as_ref(), next));
        run = Some(next.map_err(|fault| PageFault {
            block: Some(index),
            ..fault
        })?);
    }
    Ok(CacheShape::of(run))
}

fn checked_blocks(cache: &RuntimeValue) -> Result<&RuntimeSequence, PageFault> {
    if let Some(blocks) = blocks(cache) {
        return Ok(blocks);
    }
    let got = match cache.fields() {
        None => cache.kind().to_string(),
        Some(fields) => {
            let names: Vec<&str> = fields.iter().take(8).map(|(name, _)| &**name).collect();
            format!("fields {names:?}")
        }
    };
    let expected = "a structure of the one field `blocks`, a sequence";
    Err(fault("paged cache", expected, got))
}

fn number(field: &str, value: &RuntimeValue) -> Result<i64, PageFault> {
    let scalar = value
        .tensor()
        .filter(|tensor| tensor.dtype() == DType::Int64 && tensor.rank() == 0);
    let bytes = scalar.and_then(Tensor::as_bytes);
    match bytes.and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => Ok(i64::from_ne_bytes(bytes)),
        None => Err(fault(field, "an INT64 scalar", described(value))),
    }
}

fn described(value: &RuntimeValue) -> String {
    match value {
        RuntimeValue::Tensor(tensor) => format!("{}{:?}", tensor.dtype(), tensor.shape()),
        other => other.kind().to_string(),
    }
}

/// A payload is of four axes, none of them 0.
fn payload_extents(field: &str, payload: &RuntimeValue) -> Result<[usize; 4], PageFault> {
    let shape = match payload {
        RuntimeValue::Tensor(tensor) if DENSE.contains(&tensor.dtype()) => tensor.shape(),
        RuntimeValue::Encoded(encoded) => encoded_shape(field, encoded)?,
        other => {
            let expected = "FLOAT, FLOAT16 or BFLOAT16, or an encoded FLOAT";
            return Err(fault(field, expected, described(other)));
        }
    };
    let Ok(extents) = <[usize; 4]>::try_from(shape) else {
        return Err(fault(
            field,
            "four axes: batch, heads, capacity, width",
            format!("{shape:?}"),
        ));
    };
    match extents.iter().position(|&extent| extent == 0) {
        None => Ok(extents),
        Some(axis) => Err(fault(&along(field, AXES[axis]), "1 or more", "0")),
    }
}

/// An encoded payload decodes to FLOAT, and affine scales are positive.
fn encoded_shape<'v>(field: &str, encoded: &'v EncodedValue) -> Result<&'v [usize], PageFault> {
    if let Encoding::Affine(affine) = encoded.encoding()
        && let Some((index, scale)) = affine.unfit_scale()
    {
        return Err(fault(
            &format!("{field}.scale[{index}]"),
            "a positive finite number",
            scale.to_string(),
        ));
    }
    match encoded.logical() {
        Some((DType::Float, shape)) => Ok(shape),
        Some((dtype, shape)) => Err(fault(
            field,
            "an encoding of FLOAT",
            format!("one of {dtype}{shape:?}"),
        )),
        None => Err(fault(
            field,
            "an encoding of FLOAT",
            "one without a logical type",
        )),
    }
}

#[cfg(test)]
mod tests;
