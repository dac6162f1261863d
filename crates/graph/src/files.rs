//! Messages in files, with the elements of their tensors and encoded values in the same file or beside it.
//!
//! [`Model::load`](crate::Model::load) and [`Model::save`](crate::Model::save) are for models that are run. The
//! functions here are for any message, as it is: nothing is validated, unknown fields are kept.
//!
//! Files are written under a temporary name, flushed to the disk and renamed: a reader sees the old file or the new one,
//! whole. Data files are renamed before the file that refers to them.

use crate::error::ModelError;
use crate::load::{
    ExternalData, LoadError, LoadOptions, LocationFault, location_parts, read_file, shown,
};
use crate::save::{DataFile, NewFile};
use refeed_proto::message::{
    DecodeFault, DecodeLimits, EncodeFault, FieldDescriptor, FrozenMessage, MessageDescriptor,
    NestingError, Payload, Text, Value, descriptors,
};
use refeed_proto::tensor_proto::DataLocation;
use refeed_proto::{Bytes, StringStringEntryProto};
use refeed_values::{DType, Extent};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use thiserror::Error;

/// Why a message cannot be read from a file or written to one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file, or a tensor in another file, cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file is not such a message.
    #[error("`{}`: {source}", shown(path))]
    Decode {
        /// Path as given.
        path: String,
        /// What the decoder said.
        source: DecodeFault,
    },
    /// The message cannot be put on the wire.
    #[error("`{}`: {source}", shown(path))]
    Encode {
        /// Path as given.
        path: String,
        /// What the encoder said.
        source: EncodeFault,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] Box<ModelError>),
    /// A tensor in another file has a type without a size.
    #[error(
        "tensor `{}`: expected a data type whose elements have a size, got {number}",
        shown(tensor)
    )]
    DataType {
        /// Name of the tensor.
        tensor: String,
        /// Its data type.
        number: i64,
    },
    /// A data file must lie in the folder of the file that refers to it, or below.
    #[error(
        "external data `{}`: expected a name inside the folder of the file that refers to it: it {fault}",
        shown(location)
    )]
    Location {
        /// The name as given.
        location: String,
        /// What is wrong with it.
        fault: LocationFault,
    },
    /// A data file would take the name of the file that refers to it.
    #[error(
        "external data `{}`: expected another name than that of the file that refers to it",
        shown(location)
    )]
    Itself {
        /// The name as given.
        location: String,
    },
    /// A tensor lies in another file than the one that was named.
    #[error(
        "tensor `{}`: expected its elements in `{}`, found them in `{}`",
        shown(tensor),
        shown(expected),
        shown(got)
    )]
    OtherFile {
        /// Name of the tensor.
        tensor: String,
        /// The file that was named.
        expected: String,
        /// The file that the tensor names.
        got: String,
    },
    /// Messages would be nested too deep.
    #[error(transparent)]
    Nesting(#[from] NestingError),
}

impl From<ModelError> for FileError {
    fn from(error: ModelError) -> FileError {
        FileError::Write(Box::new(error))
    }
}

/// Where elements go that do not stay in the message.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Split {
    /// Payloads of at least this many bytes move out.
    pub threshold: usize,
    /// The data file, relative to the message's folder. `None`: one file for each tensor, called by its name.
    pub location: Option<String>,
    /// Whether tensors move out wherever they are, in attributes and elsewhere; otherwise the initializers of graphs.
    pub everywhere: bool,
}

impl Split {
    /// Every payload of at least `threshold` bytes moves to the file `location`.
    pub fn new(location: impl Into<String>, threshold: usize) -> Split {
        Split {
            threshold,
            location: Some(location.into()),
            everywhere: true,
        }
    }

    /// Each tensor moves to a file of its own.
    #[must_use]
    pub fn one_file_each(mut self) -> Split {
        self.location = None;
        self
    }

    /// Only initializers move.
    #[must_use]
    pub fn initializers_only(mut self) -> Split {
        self.everywhere = false;
        self
    }
}

/// Files of this size and more are mapped; smaller ones are read. People write an edited message over the file that it
/// came from, and doing that through an open file would pull a mapping from under its payloads.
pub const MAPPED_FROM: u64 = 64 << 20;

/// Reads the message of a file of any size. Payloads are slices of the file's content, which is mapped from
/// [`MAPPED_FROM`] on unless the options say otherwise. Tensors in other files stay there: see [`bring_in`].
///
/// # Errors
/// When the file cannot be read, or is not such a message.
pub fn read(
    path: &Path,
    descriptor: &'static MessageDescriptor,
    options: &LoadOptions,
    limits: &DecodeLimits,
) -> Result<Arc<FrozenMessage>, FileError> {
    let large = path.metadata().is_ok_and(|held| held.len() >= MAPPED_FROM);
    let options = options.clone().with_mmap(options.mmap && large);
    let wire = read_file(path, &options)?;
    let message = FrozenMessage::decode(descriptor, wire, limits);
    message.map(Arc::new).map_err(|source| FileError::Decode {
        path: path.to_string_lossy().into_owned(),
        source,
    })
}

/// Writes a message to a file, and payloads to data files beside it when `split` says so. The message itself stays as it
/// is.
///
/// # Errors
/// When the message is too large or nested too deep, a location leads out of the folder, or a file cannot be written.
pub fn write(
    path: &Path,
    message: &Arc<FrozenMessage>,
    split: Option<&Split>,
) -> Result<(), FileError> {
    let (message, moved) = match split {
        Some(split) => {
            let mut moved = MovedOut::new(path, split);
            let message = message.rewrite(|field, message| moved.visit(field, message))?;
            (message, Some(moved))
        }
        None => (message.clone(), None),
    };
    // All files are complete before the first one gets its name.
    let mut file = NewFile::create(path)?;
    message.encode_to(&mut file).map_err(|source| {
        let path = path.to_string_lossy().into_owned();
        match source {
            EncodeFault::Write(source) => {
                let action = "writing";
                let error = ModelError::Write {
                    path,
                    action,
                    source,
                };
                FileError::from(error)
            }
            source => FileError::Encode { path, source },
        }
    })?;
    if let Some(moved) = moved {
        moved.finish()?;
    }
    file.finish()?;
    Ok(())
}

/// Writes bytes to a file, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write_bytes(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut file = NewFile::create(path)?;
    file.put(content)?;
    file.finish()?;
    Ok(())
}

/// A name for a data file as the message's file is to store it: relative to that file's folder, parts divided by `/`.
/// `data` is a name in that folder, or a path that leads there.
///
/// # Errors
/// When it leads elsewhere.
pub fn location_of(data: &Path, message: &Path) -> Result<String, FileError> {
    let given = || data.to_string_lossy().into_owned();
    let outside = || FileError::Location {
        location: given(),
        fault: LocationFault::Outside,
    };
    let folder = message.parent().unwrap_or(Path::new(""));
    let inside = match (std::path::absolute(data), std::path::absolute(folder)) {
        (Ok(data), Ok(folder)) => data.strip_prefix(folder).ok().map(Path::to_path_buf),
        _ => None,
    };
    let relative = match inside {
        // Seen from the working directory it lies in the folder.
        Some(inside) if data.components().count() > 1 => inside,
        _ if data.is_absolute() => return Err(outside()),
        _ => data.to_path_buf(),
    };
    let location = relative.to_str().ok_or_else(outside)?.to_string();
    checked(&location)?;
    Ok(location)
}

fn checked(location: &str) -> Result<(), FileError> {
    match location_parts(location) {
        Ok(_) => Ok(()),
        Err(fault) => Err(FileError::Location {
            location: location.to_string(),
            fault,
        }),
    }
}

/// Fields of a tensor or an encoded value that moving its payload touches.
struct Fields {
    message: &'static MessageDescriptor,
    name: u16,
    raw_data: u16,
    external_data: u16,
    data_location: u16,
    /// Type and dimensions, which tell the size of a tensor's elements.
    elements: Option<(u16, u16)>,
}

/// The messages whose payload may lie in another file.
static STORED: LazyLock<[Fields; 2]> = LazyLock::new(|| {
    [
        &descriptors::TENSOR_PROTO,
        &descriptors::ENCODED_VALUE_PROTO,
    ]
    .map(|message| {
        // The names are those of the schema; a test would fail without one.
        let slot = |name| message.field(name).map(|field| field.slot);
        Fields {
            message,
            name: slot("name").unwrap_or(0),
            raw_data: slot("raw_data").unwrap_or(0),
            external_data: slot("external_data").unwrap_or(0),
            data_location: slot("data_location").unwrap_or(0),
            elements: slot("data_type").zip(slot("dims")),
        }
    })
});

impl Fields {
    fn of(message: &FrozenMessage) -> Option<&'static Fields> {
        let mut stored = STORED.iter();
        stored.find(|fields| fields.message == message.descriptor())
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        _ => String::new(),
    }
}

/// Longer names of tensors are no names of files: systems allow 255 bytes, some of which a temporary name needs.
const LONGEST_NAME: usize = 200;

/// Tensors on their way to data files.
struct MovedOut<'a> {
    /// The file that will refer to them.
    path: &'a Path,
    split: &'a Split,
    initializer: Option<&'static FieldDescriptor>,
    files: HashMap<String, DataFile>,
    unnamed: usize,
}

impl<'a> MovedOut<'a> {
    fn new(path: &'a Path, split: &'a Split) -> MovedOut<'a> {
        MovedOut {
            path,
            split,
            initializer: descriptors::GRAPH_PROTO.field("initializer"),
            files: HashMap::new(),
            unnamed: 0,
        }
    }

    fn visit(
        &mut self,
        field: Option<&'static FieldDescriptor>,
        message: &Arc<FrozenMessage>,
    ) -> Result<Option<FrozenMessage>, FileError> {
        let initializer = field.map(std::ptr::from_ref) == self.initializer.map(std::ptr::from_ref);
        let Some(fields) = Fields::of(message).filter(|_| initializer || self.split.everywhere)
        else {
            return Ok(None);
        };
        let Value::Bytes(payload) = message.value(fields.raw_data) else {
            return Ok(None);
        };
        if payload.bytes().len() < self.split.threshold {
            return Ok(None);
        }
        let location = match &self.split.location {
            Some(location) => location.clone(),
            None => self.location_for(&text(message.value(fields.name))),
        };
        let file = match self.files.entry(location) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(place) => {
                let location = place.key().clone();
                checked(&location)?;
                let data = self.path.with_file_name(&location);
                if data == self.path {
                    return Err(FileError::Itself { location });
                }
                place.insert(DataFile::create(&data, location)?)
            }
        };
        let entries = file.place(payload.bytes().clone())?;
        let entries = entries.iter().map(|(key, value)| entry(key, value));
        let entries: Result<Arc<[Arc<FrozenMessage>]>, NestingError> = entries.collect();
        let external = DataLocation::External as i64;
        Ok(Some(message.with_values([
            (fields.raw_data, Value::Absent),
            (fields.external_data, Value::Messages(entries?)),
            (fields.data_location, Value::Int(external)),
        ])?))
    }

    /// A file name for a tensor that gets a file of its own: its name, where that is a file name.
    fn location_for(&mut self, name: &str) -> String {
        let itself = self.path.file_name().is_some_and(|own| own == name);
        let usable = !name.contains('/')
            && name.len() <= LONGEST_NAME
            && !itself
            && location_parts(name).is_ok();
        if usable && !self.files.contains_key(name) {
            return name.to_string();
        }
        loop {
            let location = format!("tensor-{}.data", self.unnamed);
            self.unnamed += 1;
            if !self.files.contains_key(&location) {
                return location;
            }
        }
    }

    fn finish(self) -> Result<(), FileError> {
        let mut files = self.files.into_values();
        files.try_for_each(|file| Ok(file.finish()?))
    }
}

fn entry(key: &str, value: &str) -> Result<Arc<FrozenMessage>, NestingError> {
    let values = [key, value].map(|text| Value::Text(Text::from(text)));
    let entry = FrozenMessage::new(&descriptors::STRING_STRING_ENTRY_PROTO, values, None)?;
    Ok(Arc::new(entry))
}

/// The message with the elements of its external tensors in `raw_data`: slices of the mapped data files. With `only`,
/// they all must lie in the file of that location.
///
/// # Errors
/// When a tensor's reference is broken, its file is refused or cannot be read, or is not the one that was named.
pub fn bring_in(
    message: &Arc<FrozenMessage>,
    external: &ExternalData,
    only: Option<&str>,
) -> Result<Arc<FrozenMessage>, FileError> {
    let moved = Value::Int(DataLocation::External as i64);
    message.rewrite(|_, message| {
        let fields = Fields::of(message);
        let Some(fields) = fields.filter(|fields| *message.value(fields.data_location) == moved)
        else {
            return Ok(None);
        };
        let bytes = payload(message, fields, external, only)?;
        Ok(Some(message.with_values([
            (fields.raw_data, Value::bytes(Payload::new(bytes))),
            (fields.external_data, Value::Absent),
            (
                fields.data_location,
                Value::Int(DataLocation::Default as i64),
            ),
        ])?))
    })
}

/// The payload of a tensor or an encoded value in another file.
fn payload(
    message: &FrozenMessage,
    fields: &Fields,
    external: &ExternalData,
    only: Option<&str>,
) -> Result<Bytes, FileError> {
    let name = text(message.value(fields.name));
    let entries = message.value(fields.external_data).messages().iter();
    let entries: Vec<StringStringEntryProto> = entries
        .map(|entry| StringStringEntryProto {
            key: Some(text(entry.value(0))),
            value: Some(text(entry.value(1))),
        })
        .collect();
    let given = |key: &str| {
        let entry = entries.iter().find(|entry| entry.key() == key);
        entry.map_or("", StringStringEntryProto::value)
    };
    let size = match fields.elements {
        Some((data_type, dims)) => {
            elements_size(&name, message.value(data_type), message.value(dims))?
        }
        // What the records of an encoding take is for validation to say; the reference has to.
        None => given("length")
            .parse()
            .map_err(|_| LoadError::ExternalNumber {
                tensor: name.clone(),
                key: "length",
                value: given("length").to_string(),
            })?,
    };
    if let Some(expected) = only {
        let got = given("location");
        if location_parts(got) != location_parts(expected) {
            return Err(FileError::OtherFile {
                tensor: name,
                expected: expected.to_string(),
                got: got.to_string(),
            });
        }
    }
    let bytes = external.bytes(&name, &entries, size)?;
    Ok(bytes)
}

/// Bytes of a tensor's elements.
fn elements_size(name: &str, data_type: &Value, dims: &Value) -> Result<u64, FileError> {
    let number = match data_type {
        Value::Int(number) => *number,
        _ => 0,
    };
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    let Some(dtype) = dtype else {
        return Err(FileError::DataType {
            tensor: name.to_string(),
            number,
        });
    };
    let dims: &[i64] = match dims {
        Value::Ints(dims) => dims,
        _ => &[],
    };
    let (extent, _) = Extent::from_dims(dtype, dims).map_err(|source| LoadError::Dims {
        tensor: name.to_string(),
        source,
    })?;
    Ok(extent.bytes() as u64)
}

#[cfg(test)]
mod tests;
