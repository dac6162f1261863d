//! The file that tensors are moved to.

use super::NewFile;
use crate::error::ModelError;
use refeed_proto::Bytes;
use std::collections::HashMap;
use std::path::Path;

/// Tensors of at least this many bytes start on a page.
const PAGED: usize = 64 * 1024;

/// The elements of tensors, one after the other.
pub(crate) struct DataFile {
    file: NewFile,
    location: String,
    end: u64,
    /// Offsets of payloads by address and length; tensors that share bytes share them afterwards. The payloads are
    /// kept, so that an address stays that of one payload.
    written: HashMap<(usize, usize), (u64, Bytes)>,
}

impl DataFile {
    /// A file at `path`, which references call `location`.
    pub(crate) fn create(path: &Path, location: String) -> Result<DataFile, ModelError> {
        Ok(DataFile {
            file: NewFile::create(path)?,
            location,
            end: 0,
            written: HashMap::new(),
        })
    }

    /// Writes a tensor's elements, and gives the entries of the reference to them.
    pub(crate) fn place(
        &mut self,
        bytes: Bytes,
    ) -> Result<[(&'static str, String); 3], ModelError> {
        let length = bytes.len();
        let key = (bytes.as_ptr().addr(), length);
        let offset = match self.written.get(&key) {
            Some((offset, _)) => *offset,
            None => {
                let align = if length >= PAGED { 4096 } else { 64 };
                let offset = self.end.next_multiple_of(align);
                let gap = (offset - self.end) as usize;
                self.file.put(&vec![0; gap])?;
                self.file.put(&bytes)?;
                self.end = offset + length as u64;
                self.written.insert(key, (offset, bytes));
                offset
            }
        };
        Ok([
            ("location", self.location.clone()),
            ("offset", offset.to_string()),
            ("length", length.to_string()),
        ])
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> Result<(), ModelError> {
        self.file.finish()
    }
}
