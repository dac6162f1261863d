//! Whole files as bytes, mapped or read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use refeed_proto::Bytes;
use refeed_values::mapped::map_file;
use rustix::fs::{Mode, OFlags};

use super::{LoadError, LoadOptions};

/// Flags for reading a file that may turn out to be a pipe: opening it must not wait for a writer.
pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens the file that the user named; links are followed.
pub(super) fn open_regular(path: &Path, name: &str) -> Result<File, LoadError> {
    let opened = rustix::fs::open(path, READ, Mode::empty());
    let file = File::from(opened.map_err(|errno| LoadError::Open {
        path: name.to_string(),
        source: errno.into(),
    })?);
    let metadata = file.metadata().map_err(|source| LoadError::Read {
        path: name.to_string(),
        source,
    })?;
    if !metadata.is_file() {
        return Err(LoadError::NotRegular {
            path: name.to_string(),
        });
    }
    Ok(file)
}

/// The content of a regular file. The size is checked again after mapping or reading.
pub(super) fn read_whole(
    file: File,
    name: &str,
    options: &LoadOptions,
) -> Result<Bytes, LoadError> {
    let read_error = |source| LoadError::Read {
        path: name.to_string(),
        source,
    };
    let size = file.metadata().map_err(read_error)?.len();
    if size > options.max_file_bytes {
        return Err(LoadError::TooLarge {
            path: name.to_string(),
            size,
            limit: options.max_file_bytes,
        });
    }
    let content = if options.mmap {
        map_file(&file).map_err(read_error)?
    } else {
        read_owned(&file, name, size)?
    };
    let after = file.metadata().map_err(read_error)?.len();
    for got in [content.len() as u64, after] {
        if got != size {
            return Err(LoadError::Changed {
                path: name.to_string(),
                expected: size,
                got,
            });
        }
    }
    Ok(content)
}

fn read_owned(file: &File, name: &str, size: u64) -> Result<Bytes, LoadError> {
    let read_error = |source| LoadError::Read {
        path: name.to_string(),
        source,
    };
    let capacity =
        usize::try_from(size).map_err(|_| read_error(io::ErrorKind::FileTooLarge.into()))?;
    let mut content = Vec::new();
    content
        .try_reserve_exact(capacity)
        .map_err(|_| LoadError::Memory {
            what: format!("`{}`", super::shown(name)),
            bytes: capacity,
        })?;
    file.take(size)
        .read_to_end(&mut content)
        .map_err(read_error)?;
    Ok(Bytes::from(content))
}
