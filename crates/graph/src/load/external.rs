//! Tensors that are stored in files beside the model.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use refeed_proto::{Bytes, StringStringEntryProto};

use super::contained::{self, Refused};
use super::{LoadError, LoadOptions, file};

/// Finds external data in one folder. Each file is opened and mapped (or read) once, when it is first asked for.
///
/// A file must be a regular one inside the folder, with no link on the way to it and no second name.
#[derive(Debug)]
pub struct ExternalData {
    base: Option<Base>,
}

#[derive(Debug)]
struct Base {
    /// Absolute, so that a later change of the working directory does not matter.
    path: PathBuf,
    options: LoadOptions,
    opened: Mutex<Opened>,
}

#[derive(Debug, Default)]
struct Opened {
    folder: Option<OwnedFd>,
    files: HashMap<String, Bytes>,
}

/// `location`, `offset` and `length` as the file gives them.
struct Entry<'a> {
    location: &'a str,
    offset: u64,
    length: u64,
}

impl ExternalData {
    /// No folder: every external tensor is refused.
    pub fn none() -> ExternalData {
        ExternalData { base: None }
    }

    /// Looks in `folder`, which is opened with the first external tensor; the empty path is the working directory.
    ///
    /// # Errors
    /// [`LoadError::Open`] when there is no working directory that a relative path could start from.
    pub fn in_folder(folder: &Path, options: &LoadOptions) -> Result<ExternalData, LoadError> {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let path = std::path::absolute(folder).map_err(|source| LoadError::Open {
            path: folder.to_string_lossy().into_owned(),
            source,
        })?;
        Ok(ExternalData {
            base: Some(Base {
                path,
                options: options.clone(),
                opened: Mutex::default(),
            }),
        })
    }

    /// The folder, when there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.base.as_ref().map(|base| base.path.as_path())
    }

    /// The bytes that `entries` (`location`, `offset`, `length`; other keys are not used) describe for the value
    /// called `name`, which takes `expected` bytes. A `length` that is absent or 0 says nothing.
    ///
    /// # Errors
    /// When an entry is missing, malformed or repeated, the location is refused, `length` is not `expected`, or the
    /// file ends too early.
    pub fn bytes(
        &self,
        name: &str,
        entries: &[StringStringEntryProto],
        expected: u64,
    ) -> Result<Bytes, LoadError> {
        let entry = Entry::read(name, entries)?;
        if entry.length != 0 && entry.length != expected {
            return Err(LoadError::ExternalLength {
                tensor: name.to_string(),
                expected,
                got: entry.length,
            });
        }
        let Some(base) = &self.base else {
            let (tensor, location) = (name.to_string(), entry.location.to_string());
            return Err(LoadError::NoBaseFolder { tensor, location });
        };
        let content = base.content(name, entry.location)?;
        let size = content.len() as u64;
        match entry.offset.checked_add(expected) {
            // Both ends are at most the length of a slice.
            Some(end) if end <= size => Ok(content.slice(entry.offset as usize..end as usize)),
            _ => Err(LoadError::ExternalRange {
                tensor: name.to_string(),
                location: entry.location.to_string(),
                offset: entry.offset,
                length: expected,
                size,
            }),
        }
    }
}

impl<'a> Entry<'a> {
    fn read(name: &str, entries: &'a [StringStringEntryProto]) -> Result<Entry<'a>, LoadError> {
        let one = |key: &'static str| {
            let mut found = entries.iter().filter(|entry| entry.key() == key);
            match (found.next(), found.next()) {
                (_, Some(_)) => Err(LoadError::ExternalTwice {
                    tensor: name.to_string(),
                    key,
                }),
                (first, None) => Ok(first.map(StringStringEntryProto::value)),
            }
        };
        let number = |key: &'static str| match one(key)? {
            None => Ok(0),
            Some(text) => text.parse::<u64>().map_err(|_| LoadError::ExternalNumber {
                tensor: name.to_string(),
                key,
                value: text.to_string(),
            }),
        };
        Ok(Entry {
            location: one("location")?.unwrap_or(""),
            offset: number("offset")?,
            length: number("length")?,
        })
    }
}

impl Base {
    fn content(&self, tensor: &str, location: &str) -> Result<Bytes, LoadError> {
        let fault = |fault| LoadError::Location {
            tensor: tensor.to_string(),
            location: location.to_string(),
            fault,
        };
        let external = |source| LoadError::External {
            tensor: tensor.to_string(),
            location: location.to_string(),
            source,
        };
        let parts = contained::parts(location).map_err(fault)?;
        let key = parts.join("/");
        // A panic elsewhere leaves the map whole: entries are inserted complete.
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = opened.files.get(&key) {
            return Ok(content.clone());
        }
        let folder = match opened.folder.take() {
            Some(folder) => folder,
            None => contained::open_folder(&self.path).map_err(|source| LoadError::Open {
                path: self.path.to_string_lossy().into_owned(),
                source,
            })?,
        };
        let file = contained::open(
            opened.folder.insert(folder),
            &parts,
            self.options.allow_hard_links,
        );
        let file = file.map_err(|refused| match refused {
            Refused::Fault(reason) => fault(reason),
            Refused::Io(source) => external(source),
        })?;
        let content = file::read_whole(file, location, &self.options)?;
        opened.files.insert(key, content.clone());
        Ok(content)
    }
}
