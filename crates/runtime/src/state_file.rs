//! Files of states: the retained values of one moment, whole and checked. The format is described in
//! `docs/state-files.md`.
//!
//! A file is written under a temporary name, flushed to the disk and renamed, so that a reader sees the old file or the
//! new one. Reading believes no number: lengths are held against what is left of the file before memory is asked for,
//! and the checksum against everything before a value is published.

mod checksum;
mod read;
mod weights;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

use refeed_graph::{Binding, Model, ModelError};
use refeed_values::{RuntimeValue, TensorError};
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"REFEEDST";
/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 2;
/// The most bytes that describe an encoding: small enough that what a reader makes of them stays small.
const MESSAGE: usize = 1 << 24;
/// What stands in front of a value.
const TENSOR: u8 = 0;
const STRUCT: u8 = 1;
const SEQUENCE: u8 = 2;
const ENCODED: u8 = 3;

/// One retained value of a file.
pub(crate) struct Held {
    pub(crate) value: RuntimeValue,
    pub(crate) published: bool,
}

/// Why a state cannot be written to a file or read from one. The state is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// The system refused the file.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The file could not be written; an older one of its name is untouched.
    #[error(transparent)]
    Write(#[from] Box<ModelError>),
    /// A value has no form in a file.
    #[error("retained input `{name}` cannot be written: {reason}")]
    Unwritable {
        /// The bound input.
        name: Arc<str>,
        /// Why.
        reason: String,
    },
    /// The file is something else.
    #[error("{path}: expected a state file, got bytes that start with {got:?}")]
    NotAStateFile {
        /// The file.
        path: String,
        /// Its first bytes.
        got: Vec<u8>,
    },
    /// The file is of a version that this refeed does not read.
    #[error("{path}: expected version {VERSION} of the format, got {got}")]
    Version {
        /// The file.
        path: String,
        /// The version that it states.
        got: u32,
    },
    /// The file is shorter than it says, or longer.
    #[error("{path}: cut off or damaged: {what} of {wanted} bytes, {left} are left")]
    Length {
        /// The file.
        path: String,
        /// What was to be read.
        what: &'static str,
        /// Its bytes.
        wanted: u64,
        /// Bytes that the file still has.
        left: u64,
    },
    /// The bytes are not those that were written.
    #[error("{path}: damaged: expected checksum {stated:#018x}, got {computed:#018x}")]
    Checksum {
        /// The file.
        path: String,
        /// In the file.
        stated: u64,
        /// Of its bytes.
        computed: u64,
    },
    /// The values are those of another model.
    #[error("{path}: of another model: the file has {file}, the model has {model}")]
    OtherModel {
        /// The file.
        path: String,
        /// A binding as the file has it.
        file: String,
        /// As the model has it.
        model: String,
    },
    /// The values are those of a model with the same bindings and other weights.
    #[error(
        "{path}: of a model with other weights: the file has {file:#018x}, the model has {model:#018x}"
    )]
    OtherWeights {
        /// The file.
        path: String,
        /// The number of the weights that the file states.
        file: u64,
        /// That of the model.
        model: u64,
    },
    /// A value in the file breaks a rule.
    #[error("{path}: `{name}`: {reason}")]
    Value {
        /// The file.
        path: String,
        /// The bound input, or a part of the file.
        name: String,
        /// Which rule.
        reason: String,
    },
    /// A value of the file does not fit in memory.
    #[error("{path}: `{name}`: {source}")]
    Tensor {
        /// The file.
        path: String,
        /// The bound input.
        name: String,
        /// Why.
        source: TensorError,
    },
}

/// What a file says about each binding, so that values of another model are refused: names and declared types.
fn fingerprint(model: &Model, binding: &Binding) -> String {
    let ty = |values: &[refeed_graph::types::ValueInfo], index: usize| values[index].ty.to_string();
    let mut text = format!(
        "`{}` {}",
        binding.input,
        ty(model.inputs(), binding.input_index)
    );
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        " <- `{}` {}",
        binding.output,
        ty(model.outputs(), binding.output_index)
    );
    text
}

#[cfg(test)]
mod tests;
