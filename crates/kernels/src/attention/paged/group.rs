//! Pages, prepared to be attended to.

use super::super::digits::KEYS;
use super::payload::PageRows;
use crate::KernelError;
use crate::quantize::QuantizeError;
use refeed_values::RuntimeValue;
use refeed_values::paged_cache::{PageFault, page};
use std::sync::Arc;
use thiserror::Error;

/// Consecutive tokens of a cache.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Position of the first token.
    pub(super) start: usize,
    /// Tokens.
    pub(super) length: usize,
    pub(super) key: PageRows,
    pub(super) value: PageRows,
}

impl Page {
    /// Position after the last token.
    pub(super) fn end(&self) -> usize {
        self.start.saturating_add(self.length)
    }

    /// Whether the codes of the page after this one are as these, and both pages are of whole tiles.
    pub(super) fn goes_on(&self, next: &Page) -> bool {
        let whole = |page: &Page| page.length.is_multiple_of(KEYS);
        whole(self) && whole(next) && self.key.goes_on(&next.key) && self.value.goes_on(&next.value)
    }

    /// How many numbers of a token are codes.
    fn coded_width(&self) -> u64 {
        let width = |rows: &PageRows| match rows.is_affine() {
            true => rows.width as u64,
            false => 0,
        };
        width(&self.key) + width(&self.value)
    }
}

/// Some consecutive pages, prepared: what attention needs to know of each is found out once, in one piece of memory. A group
/// keeps the payloads of its pages.
///
/// ```
/// use refeed_kernels::attention::paged::PageGroup;
/// use refeed_values::paged_cache::page_of;
/// use refeed_values::Tensor;
/// let rows = |n: usize| Tensor::from_slice(&[1, 1, n, 1], &vec![0.5f32; n]);
/// let page = page_of(Tensor::scalar(0i64)?, Tensor::scalar(2i64)?, rows(2)?.into(), rows(2)?.into())?;
/// assert_eq!(PageGroup::of([&page])?.tokens(), 0..2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
// In this order, since a step asks every group for all but the last, which are two lines of memory.
#[repr(C)]
pub struct PageGroup {
    pub(super) pages: Vec<Page>,
    /// Positions of the first token and after the last one: whoever looks for a token need not look at pages.
    start: usize,
    end: usize,
    /// Numbers of all tokens that are codes.
    coded: u64,
    /// Batch rows, heads, width of keys, width of values.
    pub(super) extents: [usize; 4],
    /// Which orders of queries the keys need.
    pub(super) needed: [bool; 3],
    /// The payloads, page by page, keys before values: for those who look at single numbers.
    pub(super) values: Vec<RuntimeValue>,
}

/// Why pages cannot be attended to.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A value is no page.
    #[error("page {index} of a group: {source}")]
    Page {
        /// Which of the group.
        index: usize,
        /// What is wrong.
        source: PageFault,
    },
    /// A payload cannot be read.
    #[error("{field} of page {index} of a group: {source}")]
    Payload {
        /// Which of the group.
        index: usize,
        /// `key` or `value`.
        field: &'static str,
        /// What is wrong.
        source: QuantizeError,
    },
    /// Pages do not fit each other.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl PageGroup {
    /// Prepares pages: structures of `start`, `length`, `key` and `value`.
    ///
    /// # Errors
    /// When there is none, one of them is no page, a payload cannot be read, or neighbours do not fit.
    pub fn of<'v>(
        values: impl IntoIterator<Item = &'v RuntimeValue>,
    ) -> Result<PageGroup, GroupError> {
        let values = values.into_iter();
        let group = PageGroup {
            pages: Vec::with_capacity(values.size_hint().0),
            values: Vec::with_capacity(2 * values.size_hint().0),
            extents: [0; 4],
            needed: [true, false, false],
            start: 0,
            end: 0,
            coded: 0,
        };
        group.with(values)
    }

    /// The group with further pages behind its own, which are not looked at again.
    ///
    /// ```
    /// use refeed_kernels::attention::paged::PageGroup;
    /// use refeed_values::paged_cache::page_of;
    /// use refeed_values::Tensor;
    /// let page = |start: i64| {
    ///     let rows = || Tensor::from_slice(&[1, 1, 1, 1], &[0.5f32]);
    ///     page_of(Tensor::scalar(start)?, Tensor::scalar(1i64)?, rows()?.into(), rows()?.into())
    /// };
    /// let first = PageGroup::of([&page(0)?])?;
    /// assert_eq!(first.with([&page(1)?])?.tokens(), 0..2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`PageGroup::of`].
    pub fn with<'v>(
        mut self,
        values: impl IntoIterator<Item = &'v RuntimeValue>,
    ) -> Result<PageGroup, GroupError> {
        for value in values {
            let index = self.pages.len();
            let parts = page(value).map_err(|source| GroupError::Page { index, source })?;
            let rows = |field, payload| {
                PageRows::of(payload).map_err(|source| GroupError::Payload {
                    index,
                    field,
                    source,
                })
            };
            let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
            let ((key_rows, key), (value_rows, value)) =
                (rows("key", parts.key)?, rows("value", parts.value)?);
            let new = Page {
                start: size(parts.start),
                length: size(parts.length),
                key: key_rows,
                value: value_rows,
            };
            let [batch, heads, capacity, width] = key;
            if index == 0 {
                self.extents = [batch, heads, width, value[3]];
                (self.start, self.end) = (new.start, new.start);
            }
            let own = self.extents;
            for (operand, got, expected) in [
                ("page key", key, [own[0], own[1], capacity, own[2]]),
                ("page value", value, [own[0], own[1], capacity, own[3]]),
            ] {
                if got != expected {
                    return Err(KernelError::shape(operand, &expected, &got).into());
                }
            }
            if new.start != self.end || new.length == 0 || new.length > capacity {
                let (expected, got) = ([self.end, capacity], [new.start, new.length]);
                let what = "start and length of a page";
                return Err(KernelError::shape(what, &expected, &got).into());
            }
            self.needed[new.key.parts().trailing_zeros() as usize % 3] = true;
            self.end = new.end();
            let coded = new.coded_width().saturating_mul(new.length as u64);
            self.coded = self.coded.saturating_add(coded);
            self.pages.push(new);
            self.values.extend([parts.key.clone(), parts.value.clone()]);
        }
        match self.pages.len() {
            0 => Err(KernelError::Length {
                operand: "pages of a group",
                expected: 1,
                got: 0,
            }
            .into()),
            _ => Ok(self),
        }
    }

    /// Positions of the tokens.
    pub fn tokens(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// How many numbers of the tokens from `from` on are kept as codes, keys and values together.
    pub fn coded_numbers(&self, from: usize) -> u64 {
        if from <= self.start {
            return self.coded;
        }
        let pages = self.pages.iter();
        pages
            .map(|page| page.coded_width() * page.end().saturating_sub(page.start.max(from)) as u64)
            .sum()
    }
}

/// Which page: its group and its number there.
pub(super) type At = (usize, usize);

/// The pages of all groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages<'a>(pub(super) &'a [Arc<PageGroup>]);

impl<'a> Pages<'a> {
    pub(super) fn get(self, (group, index): At) -> Option<&'a Page> {
        self.0.get(group)?.pages.get(index)
    }

    /// What is known of the page `ahead` pages behind one.
    #[inline]
    pub(super) fn ahead(self, (mut group, index): At, ahead: usize) -> &'a [Page] {
        let mut at = index + ahead;
        while let Some(held) = self.0.get(group) {
            match held.pages.get(at..at + 1) {
                Some(page) => return page,
                None => (group, at) = (group + 1, at - held.pages.len()),
            }
        }
        &[]
    }

    /// The page after one.
    #[inline]
    pub(super) fn after(self, (group, index): At) -> At {
        match self.0.get(group) {
            Some(held) if index + 1 < held.pages.len() => (group, index + 1),
            _ => (group + 1, 0),
        }
    }

    /// The page that holds a token.
    pub(super) fn find(self, token: usize) -> Option<At> {
        let after = self.0.partition_point(|group| group.start <= token);
        let group = after.checked_sub(1)?;
        let pages = &self.0.get(group)?.pages;
        let index = pages
            .partition_point(|page| page.start <= token)
            .checked_sub(1)?;
        (token < pages.get(index)?.end()).then_some((group, index))
    }

    /// Pages from one on.
    pub(super) fn from(self, at: At) -> Walk<'a> {
        Walk { pages: self, at }
    }
}

/// Pages one after another; see [`Pages::from`].
#[derive(Debug, Clone)]
pub(super) struct Walk<'a> {
    pages: Pages<'a>,
    at: At,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Page;

    fn next(&mut self) -> Option<&'a Page> {
        let page = self.pages.get(self.at)?;
        self.at = self.pages.after(self.at);
        Some(page)
    }
}
