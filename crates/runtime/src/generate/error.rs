//! What can go wrong with a generation.

use super::control::FinishReason;
use crate::error::{SessionError, StateError};
use refeed_values::{DType, TensorError};
use std::fmt::Display;
use thiserror::Error;

/// A generation that did not happen, or a step of one. The generator is as it was before the step.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GenerationError {
    /// An option has a value that means nothing, or that does not fit the model.
    #[error("{option}: expected {expected}, got {got}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: String,
    },
    /// An option names a graph input or output that the model does not have.
    #[error("{option}: the model has no graph {role} `{name}`; it has {known}")]
    NoSuchValue {
        /// The option.
        option: &'static str,
        /// "input" or "output".
        role: &'static str,
        /// The name.
        name: String,
        /// What there is.
        known: String,
    },
    /// Two options name one graph input.
    #[error("{first} and {second} both name graph input `{name}`: expected different ones")]
    SameName {
        /// One option.
        first: &'static str,
        /// The other one.
        second: &'static str,
        /// The name.
        name: String,
    },
    /// A feed names no graph input.
    #[error("unknown feed `{0}`: the model has no such graph input")]
    UnknownFeed(String),
    /// The prompt is not fed.
    #[error("missing tensor input `{name}`: expected the prompt, got {got}")]
    MissingPrompt {
        /// The graph input of the tokens.
        name: String,
        /// What is there instead.
        got: String,
    },
    /// The prompt, the mask or the positions are not what they must be.
    #[error("`{name}`: expected {expected}, got {got}")]
    Prompt {
        /// The graph input.
        name: String,
        /// What it must be.
        expected: String,
        /// What it is.
        got: String,
    },
    /// A mask or positions of a type that is not made up.
    #[error("`{name}` is declared as {declared}: it is made only as {expected}, so it must be fed")]
    NotMade {
        /// The graph input.
        name: String,
        /// Its declaration.
        declared: String,
        /// What is made.
        expected: &'static str,
    },
    /// A binding feeds an input that the loop itself must feed.
    #[error(
        "{option}: graph input `{name}` is bound to output `{output}`, so it cannot be fed at each step"
    )]
    Bound {
        /// The option that names the input.
        option: &'static str,
        /// The input.
        name: String,
        /// The output that feeds it.
        output: String,
    },
    /// A retained value does not start empty.
    #[error(
        "initial value of `{name}`: expected an empty prefix, got {got}; only a Generator continues one"
    )]
    NotEmpty {
        /// The bound input.
        name: String,
        /// What it holds.
        got: String,
    },
    /// No initial value can be made from a declaration.
    #[error("input `{name}`: no initial value can be made for {declared}")]
    NoInitial {
        /// The bound input.
        name: String,
        /// Its declaration.
        declared: String,
    },
    /// The logits are not what they must be.
    #[error("logits `{name}`: expected {expected}, got {got}")]
    Logits {
        /// The graph output.
        name: String,
        /// What they must be.
        expected: String,
        /// What they are.
        got: String,
    },
    /// No token can be chosen from a row of logits.
    #[error("logits `{name}`, row {row}: {reason}")]
    Row {
        /// The graph output.
        name: String,
        /// The row of the batch.
        row: usize,
        /// Why.
        reason: String,
    },
    /// Rows cannot be chosen from the retained values.
    #[error("{wanted} needs rows of the batch to be chosen, but {reason}")]
    Rows {
        /// The option that needs it.
        wanted: &'static str,
        /// Why they cannot.
        reason: String,
    },
    /// A generator is asked for something that its rows do not allow.
    #[error("{what}: {reason}")]
    Turn {
        /// The operation.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// A node of the model would take padding for tokens.
    #[error(
        "rows with padding: {blind}, so padding would be taken for tokens, \
         and rows cannot be evaluated one by one: {reason}"
    )]
    PaddedRows {
        /// The node's name and type, and why it cannot tell.
        blind: String,
        /// Why rows cannot be evaluated one by one.
        reason: String,
    },
    /// The evaluation of a prompt was stopped between two of its pieces.
    #[error("stopped before the prompt was evaluated: {0}")]
    Stopped(FinishReason),
    /// Memory could not be had, or a tensor not be read.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The model could not be run.
    #[error(transparent)]
    State(#[from] StateError),
}

impl From<SessionError> for GenerationError {
    fn from(error: SessionError) -> GenerationError {
        GenerationError::State(error.into())
    }
}

impl GenerationError {
    pub(super) fn option(option: &'static str, expected: impl Display, got: impl Display) -> Self {
        GenerationError::Option {
            option,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    pub(super) fn prompt(name: &str, expected: impl Display, got: impl Display) -> Self {
        GenerationError::Prompt {
            name: name.to_string(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    pub(super) fn turn(what: &'static str, reason: impl Display) -> Self {
        GenerationError::Turn {
            what,
            reason: reason.to_string(),
        }
    }
}

/// An element type and a shape, for messages.
pub(super) fn shown(dtype: DType, shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("{dtype} [{}]", dims.join(", "))
}
