//! What a kernel refuses.

use thiserror::Error;

/// Why a kernel did not run. Kernels know no node names; the caller adds them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// An operand has another shape than the others ask for.
    #[error("{operand}: expected shape {expected:?}, got {got:?}")]
    Shape {
        /// Which operand.
        operand: &'static str,
        /// What the other operands ask for.
        expected: Vec<usize>,
        /// What was given.
        got: Vec<usize>,
    },
    /// An operand has another number of axes.
    #[error("{operand}: expected {expected}, got rank {got}")]
    Rank {
        /// Which operand.
        operand: &'static str,
        /// What is allowed, in words.
        expected: &'static str,
        /// Number of axes given.
        got: usize,
    },
    /// Two shapes do not broadcast or multiply.
    #[error("{operation}: shapes {left:?} and {right:?} do not fit")]
    Mismatch {
        /// What was computed.
        operation: &'static str,
        /// Shape of the first operand.
        left: Vec<usize>,
        /// Shape of the second operand.
        right: Vec<usize>,
    },
    /// An output slice has another length than its shape, or rows of its layout overlap.
    #[error("{operand}: expected {expected} elements, got {got}")]
    Length {
        /// Which operand.
        operand: &'static str,
        /// Elements needed.
        expected: usize,
        /// Elements given.
        got: usize,
    },
    /// A parameter is outside its range.
    #[error("{parameter}: {got} is outside {low}..={high}")]
    Range {
        /// Which parameter.
        parameter: &'static str,
        /// What was given.
        got: i64,
        /// Smallest value allowed.
        low: i64,
        /// Largest value allowed.
        high: i64,
    },
    /// A parameter that goes in pairs is odd.
    #[error("{parameter}: expected an even number, got {got}")]
    Odd {
        /// Which parameter.
        parameter: &'static str,
        /// What was given.
        got: usize,
    },
    /// Query heads are no multiple of key/value heads.
    #[error("{query_heads} query heads are not a multiple of {kv_heads} key/value heads")]
    Heads {
        /// Heads of the query.
        query_heads: usize,
        /// Heads of key and value.
        kv_heads: usize,
    },
}

impl KernelError {
    pub(crate) fn shape(operand: &'static str, expected: &[usize], got: &[usize]) -> Self {
        KernelError::Shape {
            operand,
            expected: expected.to_vec(),
            got: got.to_vec(),
        }
    }

    /// `Ok` when `got` is `expected`.
    pub(crate) fn check_len(
        operand: &'static str,
        expected: usize,
        got: usize,
    ) -> Result<(), KernelError> {
        if expected == got {
            return Ok(());
        }
        Err(KernelError::Length {
            operand,
            expected,
            got,
        })
    }
}
