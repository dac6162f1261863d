//! What new pages are kept as, and who chooses it.

use crate::kernel::OpError;
use refeed_kernels::quantize::{Format, Storage};
use refeed_values::Tensor;
use std::fmt;

/// How the keys and the values of new pages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Formats {
    /// Keys.
    pub key: Format,
    /// Values.
    pub value: Format,
}

impl Formats {
    /// The same format for both.
    pub fn both(format: Format) -> Formats {
        Formats {
            key: format,
            value: format,
        }
    }

    /// What pages are encoded to.
    ///
    /// # Errors
    /// When a format breaks a rule of [`Format::check`], or memory cannot be had.
    pub(super) fn storage(&self) -> Result<[Storage; 2], OpError> {
        Ok([self.key.storage()?, self.value.storage()?])
    }
}

/// Chooses formats, execution by execution.
///
/// Functions are selectors:
///
/// ```
/// use refeed_runtime::paged_attention::{Format, Formats, PagedAttention};
/// use refeed_values::{DType, Tensor};
/// // FLOAT pages for the first thousand tokens, then INT8.
/// let kernel = PagedAttention::with_selector(|_: &Tensor, _: &Tensor, retained: usize| {
///     Ok(match retained {
///         0..1024 => Formats::default(),
///         _ => Formats::both(Format::affine(DType::Int8, 1.0 / 64.0, 0)),
///     })
/// });
/// # drop(kernel);
/// ```
pub trait FormatSelector: Send + Sync {
    /// The formats of the pages that an execution adds, given its new keys and values `[batch, heads, length, width]` and
    /// the number of tokens before them. It is not asked when there are no new tokens.
    ///
    /// # Errors
    /// Whatever keeps it from choosing; the execution fails with it.
    fn select(&self, key: &Tensor, value: &Tensor, retained: usize) -> Result<Formats, OpError>;
}

impl<F> FormatSelector for F
where
    F: Fn(&Tensor, &Tensor, usize) -> Result<Formats, OpError> + Send + Sync,
{
    fn select(&self, key: &Tensor, value: &Tensor, retained: usize) -> Result<Formats, OpError> {
        self(key, value, retained)
    }
}

impl fmt::Debug for dyn FormatSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FormatSelector")
    }
}
