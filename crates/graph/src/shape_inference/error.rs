//! What can be wrong with the types of a model.

use crate::error::ModelError;
use crate::schema::InferError;
use std::fmt;
use thiserror::Error;

/// Why a model's types cannot be inferred.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShapeInferenceError {
    /// The model is not one that can be walked, or too large.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Nodes or declarations contradict each other.
    #[error("{}", list(.0))]
    Problems(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    texts.join("\n")
}

/// One contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The node, with the graphs around it: `node 3 'If_1' (If) then_branch / node 0 (Add)`.
    pub at: String,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.fault)
    }
}

impl std::error::Error for Problem {}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The node contradicts its operator.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// What the node computes is declared to be something else.
    #[error(
        "`{value}` is declared as {declared} in {source_of_declaration}, but the node gives {inferred}: {detail}"
    )]
    Contradiction {
        /// Name of the value.
        value: String,
        /// Where the declaration stands: `value_info`, `graph output`, `graph input`.
        source_of_declaration: &'static str,
        /// The declared type.
        declared: String,
        /// The type that the node gives.
        inferred: String,
        /// Where they differ.
        detail: String,
    },
    /// Another number of inputs or outputs than the operator has.
    #[error("expected {expected} {what}, got {got}")]
    Arity {
        /// `"inputs"` or `"outputs"`.
        what: &'static str,
        /// What the operator has.
        expected: String,
        /// What the node has.
        got: usize,
    },
    /// A call that does not fit its function.
    #[error("{0}")]
    Call(String),
}

impl Fault {
    /// Whether this is about kinds of values and element types, which
    /// [`InferenceOptions::check_type`](super::InferenceOptions::check_type) makes an error.
    pub fn is_type(&self) -> bool {
        matches!(
            self,
            Fault::Infer(InferError::DType { .. } | InferError::Kind { .. })
        )
    }
}
