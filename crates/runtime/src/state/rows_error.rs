//! Why rows of a value cannot be selected or cut.

use crate::error::StateError;
use refeed_values::append::AppendError;
use refeed_values::encoded::EncodedError;
use refeed_values::paged_cache::PageFault;
use refeed_values::{TensorError, ValueError};
use std::sync::Arc;

/// Memory that cannot be had is told as such; everything else is a reason.
#[derive(Debug)]
pub(super) enum RowsError {
    Reason(String),
    Memory(TensorError),
}

impl RowsError {
    /// The error for the bound input `name`: `refused` says what could not be done with its rows.
    pub(super) fn of(
        self,
        name: &Arc<str>,
        refused: impl FnOnce(Arc<str>, String) -> StateError,
    ) -> StateError {
        match self {
            RowsError::Reason(reason) => refused(name.clone(), reason),
            RowsError::Memory(source) => StateError::Value {
                name: name.clone(),
                source: source.into(),
            },
        }
    }
}

impl From<&str> for RowsError {
    fn from(reason: &str) -> RowsError {
        RowsError::Reason(reason.to_string())
    }
}

impl From<String> for RowsError {
    fn from(reason: String) -> RowsError {
        RowsError::Reason(reason)
    }
}

impl From<TensorError> for RowsError {
    fn from(error: TensorError) -> RowsError {
        match error {
            TensorError::Alloc(_) => RowsError::Memory(error),
            other => RowsError::Reason(other.to_string()),
        }
    }
}

impl From<AppendError> for RowsError {
    fn from(error: AppendError) -> RowsError {
        match error {
            AppendError::Alloc(source) => RowsError::Memory(source.into()),
            AppendError::Tensor(source) => source.into(),
            other => RowsError::Reason(other.to_string()),
        }
    }
}

impl From<EncodedError> for RowsError {
    fn from(error: EncodedError) -> RowsError {
        match error {
            EncodedError::Tensor(source) => source.into(),
            other => RowsError::Reason(other.to_string()),
        }
    }
}

impl From<ValueError> for RowsError {
    fn from(error: ValueError) -> RowsError {
        match error {
            ValueError::Tensor(source) => source.into(),
            other => RowsError::Reason(other.to_string()),
        }
    }
}

impl From<PageFault> for RowsError {
    fn from(fault: PageFault) -> RowsError {
        RowsError::Reason(fault.to_string())
    }
}
