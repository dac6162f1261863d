//! Why a file or a tensor cannot be read.

use std::fmt;
use std::io;

use refeed_proto::DecodeError;
use refeed_values::{DType, ExtentError};
use thiserror::Error;

/// Why a location of external data is refused before any file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocationFault {
    /// No `location` entry, or an empty one.
    Empty,
    /// A NUL character.
    Nul,
    /// Starts at the root of the file system or of a drive.
    Absolute,
    /// Has a `..` part.
    Parent,
    /// Has a backslash; parts are separated by `/`.
    Backslash,
    /// Has an empty part, or none that names a file.
    EmptyPart,
    /// Longer than any path can be.
    TooLong,
    /// Is a symbolic link, or lies behind one.
    SymbolicLink,
    /// Leads out of the folder.
    Outside,
    /// Is a folder, a pipe, a device or a socket.
    NotRegular,
    /// Has a second name that may lie anywhere; the number of names is the file's link count.
    HardLink,
}

impl fmt::Display for LocationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LocationFault::Empty => "names no file",
            LocationFault::Nul => "contains a NUL character",
            LocationFault::Absolute => "is absolute",
            LocationFault::Parent => "has a `..` part",
            LocationFault::Backslash => "has a backslash",
            LocationFault::EmptyPart => "has an empty part",
            LocationFault::TooLong => "is longer than 4096 bytes",
            LocationFault::SymbolicLink => "is or lies behind a symbolic link",
            LocationFault::Outside => "leads out of the model's folder",
            LocationFault::NotRegular => "is not a regular file",
            LocationFault::HardLink => "is a hard link with other names",
        })
    }
}

/// Why a model file, or a tensor in it, cannot be read.
///
/// Names and paths are kept as given; the messages show them escaped and cut at 200 characters.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The model file or the folder of external data cannot be opened.
    #[error("`{}`: cannot be opened: {source}", shown(path))]
    Open {
        /// Path as given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The model path is a folder, a pipe, a device or a socket.
    #[error("`{}`: expected a regular file", shown(path))]
    NotRegular {
        /// Path as given.
        path: String,
    },
    /// A file is larger than [`LoadOptions::max_file_bytes`](super::LoadOptions::max_file_bytes).
    #[error("`{}`: expected at most {limit} bytes, got {size}", shown(path))]
    TooLarge {
        /// Path as given.
        path: String,
        /// Size of the file in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file cannot be mapped or read.
    #[error("`{}`: cannot be read: {source}", shown(path))]
    Read {
        /// Path as given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file changed its size while it was read.
    #[error(
        "`{}`: changed while it was read: expected {expected} bytes, got {got}",
        shown(path)
    )]
    Changed {
        /// Path as given.
        path: String,
        /// Size when the file was opened.
        expected: u64,
        /// Size afterwards.
        got: u64,
    },
    /// The bytes are not a model: malformed, nested deeper than 100, or with text that is not UTF-8.
    #[error("not an ONNX model: {}", shown(&source.to_string()))]
    Decode {
        /// What the decoder said.
        source: DecodeError,
    },
    /// The bytes decode to a model without a graph.
    #[error("not an ONNX model: {size} bytes without a graph")]
    NoGraph {
        /// Size of the input in bytes.
        size: usize,
    },
    /// Decoding would take more memory than
    /// [`LoadOptions::max_structure_bytes`](super::LoadOptions::max_structure_bytes).
    #[error(
        "model of {size} bytes: expected a structure that takes at most {limit} bytes of memory, got more"
    )]
    Structure {
        /// Size of the input in bytes.
        size: usize,
        /// The limit in bytes.
        limit: u64,
    },
    /// Memory for the elements of a tensor or a file is not to be had.
    #[error("{what}: cannot allocate {bytes} bytes")]
    Memory {
        /// What the memory is for, ready to be shown.
        what: String,
        /// How much was asked for.
        bytes: usize,
    },
    /// A tensor is stored in another file, but the model has no folder to look in.
    #[error(
        "{}: stored in `{}`, but a model that is not read from a file has no folder unless one is given",
        tensor_label(tensor),
        shown(location)
    )]
    NoBaseFolder {
        /// Name of the tensor.
        tensor: String,
        /// Location as given.
        location: String,
    },
    /// A location of external data is refused.
    #[error(
        "{}: external data location `{}` {fault}",
        tensor_label(tensor),
        shown(location)
    )]
    Location {
        /// Name of the tensor.
        tensor: String,
        /// Location as given.
        location: String,
        /// What is wrong with it.
        fault: LocationFault,
    },
    /// An external file cannot be opened, mapped or read.
    #[error(
        "{}: external data `{}`: {source}",
        tensor_label(tensor),
        shown(location)
    )]
    External {
        /// Name of the tensor.
        tensor: String,
        /// Location as given.
        location: String,
        /// What went wrong with the file.
        source: io::Error,
    },
    /// `offset` or `length` of external data is not a number that fits in 64 bits without a sign.
    #[error(
        "{}: external data {key}: expected a nonnegative integer, got `{}`",
        tensor_label(tensor),
        shown(value)
    )]
    ExternalNumber {
        /// Name of the tensor.
        tensor: String,
        /// `offset` or `length`.
        key: &'static str,
        /// Text as given.
        value: String,
    },
    /// A key of external data is given twice.
    #[error("{}: external data {key}: given more than once", tensor_label(tensor))]
    ExternalTwice {
        /// Name of the tensor.
        tensor: String,
        /// `location`, `offset` or `length`.
        key: &'static str,
    },
    /// `length` of external data is not what the type and the dimensions ask for.
    #[error(
        "{}: external data length: expected {expected} bytes, got {got}",
        tensor_label(tensor)
    )]
    ExternalLength {
        /// Name of the tensor.
        tensor: String,
        /// Bytes that the tensor takes.
        expected: u64,
        /// `length` as given.
        got: u64,
    },
    /// External data ends past the end of its file.
    #[error(
        "{}: external data `{}`: expected {length} bytes at offset {offset}, got a file of {size}",
        tensor_label(tensor),
        shown(location)
    )]
    ExternalRange {
        /// Name of the tensor.
        tensor: String,
        /// Location as given.
        location: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Size of the file in bytes.
        size: u64,
    },
    /// `data_type` is no element type.
    #[error("{}: data type {number} is not an element type", tensor_label(tensor))]
    DataType {
        /// Name of the tensor.
        tensor: String,
        /// Number as given; 0 when absent.
        number: i32,
    },
    /// `data_location` is neither DEFAULT nor EXTERNAL.
    #[error(
        "{}: data location: expected 0 or 1, got {number}",
        tensor_label(tensor)
    )]
    DataLocation {
        /// Name of the tensor.
        tensor: String,
        /// Number as given.
        number: i32,
    },
    /// The dimensions have no size: one is negative, or the product does not fit.
    #[error("{}: {}", tensor_label(tensor), shown(&source.to_string()))]
    Dims {
        /// Name of the tensor.
        tensor: String,
        /// What is wrong with them.
        source: ExtentError,
    },
    /// The tensor is stored in segments, which refeed does not read.
    #[error(
        "{}: stored in segments, expected a whole tensor",
        tensor_label(tensor)
    )]
    Segmented {
        /// Name of the tensor.
        tensor: String,
    },
    /// Elements are in more than one place.
    #[error(
        "{}: expected elements in one place, got both {first} and {second}",
        tensor_label(tensor)
    )]
    MixedData {
        /// Name of the tensor.
        tensor: String,
        /// One field.
        first: &'static str,
        /// Another field.
        second: &'static str,
    },
    /// Elements are in a field that is not for their type.
    #[error(
        "{}: expected {dtype} elements in {expected} or raw_data, got {got}",
        tensor_label(tensor)
    )]
    WrongField {
        /// Name of the tensor.
        tensor: String,
        /// Element type.
        dtype: DType,
        /// Field for this type.
        expected: &'static str,
        /// Field that is set.
        got: &'static str,
    },
    /// There are more or fewer elements than the dimensions ask for.
    #[error(
        "{}: expected {expected} {unit} in {field}, got {got}",
        tensor_label(tensor)
    )]
    DataSize {
        /// Name of the tensor.
        tensor: String,
        /// Field that holds them.
        field: &'static str,
        /// What is counted.
        unit: &'static str,
        /// The number that the dimensions ask for.
        expected: usize,
        /// The number that is there.
        got: usize,
    },
    /// An entry of a typed field does not fit the element type.
    #[error(
        "{}: {field}[{index}]: {value} does not fit {dtype}",
        tensor_label(tensor)
    )]
    ValueRange {
        /// Name of the tensor.
        tensor: String,
        /// Field that holds it.
        field: &'static str,
        /// Which entry.
        index: usize,
        /// The entry.
        value: i128,
        /// Element type.
        dtype: DType,
    },
}

/// Text from a file as messages show it: escaped, and cut at 200 characters.
///
/// ```
/// use refeed_graph::load::shown;
/// assert_eq!(shown("w\u{202E}\n"), "w\\u{202e}\\n");
/// assert_eq!(shown(&"x".repeat(1000)).len(), 203);
/// ```
pub fn shown(text: &str) -> String {
    const LIMIT: usize = 200;
    let mut shown = String::new();
    let mut characters = 0;
    for character in text.chars() {
        // Quotes and backslashes are readable as they are.
        let plain = matches!(character, '\'' | '"' | '\\');
        let escaped = character.escape_debug();
        characters += if plain { 1 } else { escaped.len() };
        if characters > LIMIT {
            shown.push_str("...");
            break;
        }
        if plain {
            shown.push(character);
        } else {
            shown.extend(escaped);
        }
    }
    shown
}

pub(super) fn tensor_label(name: &str) -> String {
    if name.is_empty() {
        "unnamed tensor".to_string()
    } else {
        format!("tensor `{}`", shown(name))
    }
}
