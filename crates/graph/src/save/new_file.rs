//! A file that is there whole or not at all.

use crate::error::ModelError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file under a temporary name, which takes its own name when it is complete and is removed when it is not.
///
/// ```
/// # fn example(path: &std::path::Path) -> Result<(), refeed_graph::ModelError> {
/// let mut file = refeed_graph::NewFile::create(path)?;
/// file.put(b"whole or not at all")?;
/// file.finish()
/// # }
/// ```
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl NewFile {
    /// Opens a file under a temporary name beside `path`.
    ///
    /// # Errors
    /// When `path` names no file, something else than a regular file stands there, or the system refuses.
    pub fn create(path: &Path) -> Result<NewFile, ModelError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let failed = |action, source| ModelError::Write {
            path: path.to_string_lossy().into_owned(),
            action,
            source,
        };
        if name.is_empty() {
            return Err(failed(
                "naming the file",
                io::Error::from(io::ErrorKind::InvalidInput),
            ));
        }
        // Renaming over a device, pipe or folder would replace it; a link is replaced, not followed.
        let held = fs::symlink_metadata(path).ok();
        if held.as_ref().is_some_and(fs::Metadata::is_dir) {
            let source = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(failed("replacing it", source));
        }
        if held
            .as_ref()
            .is_some_and(|held| !held.is_file() && !held.is_symlink())
        {
            let text =
                "expected a new name or a regular file to replace, found something else there";
            return Err(failed(
                "replacing it",
                io::Error::new(io::ErrorKind::InvalidInput, text),
            ));
        }
        // File systems end names at 255 bytes, and what stands around this one needs some of them.
        let stem = &name[..name.floor_char_boundary(200)];
        // A name that exists belongs to somebody else, perhaps to an earlier process of the same number.
        for _ in 0..100 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let process = std::process::id();
            let temporary = path.with_file_name(format!(".{stem}.{process}-{number}.tmp"));
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(file) => {
                    // Who could not read the old file cannot read the new one.
                    if let Some(held) = held.filter(fs::Metadata::is_file) {
                        let kept = file.set_permissions(held.permissions());
                        if let Err(error) = kept {
                            let _ = fs::remove_file(&temporary);
                            return Err(failed(
                                "giving it the mode of the file it replaces",
                                error,
                            ));
                        }
                    }
                    let file = Some(BufWriter::with_capacity(1 << 20, file));
                    return Ok(NewFile {
                        path: path.to_path_buf(),
                        temporary,
                        file,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("creating a temporary file beside it", error)),
            }
        }
        Err(failed(
            "creating a temporary file beside it",
            io::Error::from(io::ErrorKind::AlreadyExists),
        ))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> ModelError {
        ModelError::Write {
            path: self.path.to_string_lossy().into_owned(),
            action,
            source,
        }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// When the system refuses them.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let done = file.write_all(bytes);
        done.map_err(|error| self.failed("writing", error))
    }

    /// Flushes to the disk, renames, and makes the new name durable.
    ///
    /// # Errors
    /// When the system refuses; a file of the name that was there before is then still there.
    pub fn finish(&mut self) -> Result<(), ModelError> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let result = file
            .into_inner()
            .map_err(|error| error.into_error())
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.path));
        if let Err(error) = result {
            let _ = fs::remove_file(&self.temporary);
            return Err(self.failed("writing", error));
        }
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| self.failed("flushing its folder", error))
    }
}

/// For encoders; what goes wrong is told without the path.
impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
