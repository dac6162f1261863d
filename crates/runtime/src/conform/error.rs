//! How a value can contradict its declaration.

use refeed_values::DType;
use std::sync::Arc;
use thiserror::Error;

/// A value that contradicts its declaration. Names of parts are paths: `` `cache.blocks[3].key` ``.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConformError {
    /// Planted by a test.
    #[cfg(feature = "testing")]
    #[error("{role} `{name}`: injected failure")]
    Injected {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
    },
    /// A value of another kind.
    #[error("{role} `{name}`: expected {expected}, got {got}")]
    Kind {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Declared kind.
        expected: &'static str,
        /// Kind of the value.
        got: &'static str,
    },
    /// Another element type.
    #[error("{role} `{name}`: dtype mismatch, expected {expected}, got {got}")]
    DType {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Declared element type.
        expected: DType,
        /// Element type of the value.
        got: DType,
    },
    /// Another number of axes.
    #[error("{role} `{name}`: rank mismatch, expected {expected} axes, got shape {got:?}")]
    Rank {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Declared rank.
        expected: usize,
        /// Shape of the value.
        got: Vec<usize>,
    },
    /// An extent that is declared as another number.
    #[error("{role} `{name}`: shape mismatch, expected {expected}, got {got:?} (axis {axis})")]
    Extent {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Which axis.
        axis: usize,
        /// The declaration.
        expected: String,
        /// Shape of the value.
        got: Vec<usize>,
    },
    /// An extent that a symbol already has another value for.
    #[error(
        "{role} `{name}`: symbolic shape mismatch, `{symbol}` is {expected} elsewhere, got {got:?} (axis {axis})"
    )]
    Symbol {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// The symbol.
        symbol: Arc<str>,
        /// What it stands for in this call.
        expected: usize,
        /// Which axis.
        axis: usize,
        /// Shape of the value.
        got: Vec<usize>,
    },
    /// A struct without a field that is declared.
    #[error("{role} `{name}`: missing field `{field}`")]
    MissingField {
        /// "input" or "output".
        role: &'static str,
        /// The struct.
        name: Arc<str>,
        /// The field.
        field: Arc<str>,
    },
    /// A struct with a field that is not declared.
    #[error("{role} `{name}`: unexpected structured field `{field}`")]
    UnexpectedField {
        /// "input" or "output".
        role: &'static str,
        /// The struct.
        name: Arc<str>,
        /// The field.
        field: Arc<str>,
    },
    /// An encoding that does not fit: of another struct type, or without a decoded type where a tensor is declared.
    #[error("{role} `{name}`: expected {expected}, got {got}")]
    Encoding {
        /// "input" or "output".
        role: &'static str,
        /// The value, or the part of its type.
        name: Arc<str>,
        /// The declaration.
        expected: String,
        /// What the value is.
        got: String,
    },
    /// A paged cache that breaks a rule of caches.
    #[error("{role} `{name}`: expected {expected}, got {got}")]
    Page {
        /// "input" or "output".
        role: &'static str,
        /// The part of the cache.
        name: Arc<str>,
        /// What the rule asks for.
        expected: String,
        /// What is there.
        got: String,
    },
}
