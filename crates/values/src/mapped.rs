//! Mapped files as shared bytes.

use std::fs::File;
use std::io;

use bytes::Bytes;
use memmap2::MmapOptions;

/// Maps the whole of `file` as immutable shared bytes; an empty file gives empty bytes.
///
/// The mapping is private and read-only, and lives until the last slice of the bytes is dropped; `file` itself may be
/// closed at once. The size is the one the file has when it is mapped.
///
/// A mapping shows what the file holds when a page is touched. Someone who overwrites the file changes the values under
/// the reader, and someone who shortens it makes the process die with SIGBUS at the next touch of a lost page. Files
/// that others may change while they are in use should be read into memory instead.
///
/// # Errors
/// What `fstat` or `mmap` report; also a file larger than the address space.
pub fn map_file(file: &File) -> io::Result<Bytes> {
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(Bytes::new());
    }
    let size = usize::try_from(size).map_err(|_| {
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            "file exceeds the address space",
        )
    })?;
    // SAFETY: the mapping is private, read-only and as long as the file was a moment ago, and `Bytes` keeps it alive
    // for as long as any slice of it. What no program can rule out, another process writing or shortening the file, is
    // the documented contract of this function: callers who cannot trust the file read it instead of mapping it.
    let mapping = unsafe { MmapOptions::new().len(size).map_copy_read_only(file)? };
    Ok(Bytes::from_owner(mapping))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn scratch(name: &str, content: &[u8]) -> (std::path::PathBuf, File) {
        let path =
            std::env::temp_dir().join(format!("refeed-mapped-{}-{name}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(content).unwrap();
        let file = File::open(&path).unwrap();
        (path, file)
    }

    #[test]
    fn a_mapping_outlives_the_file_handle() {
        let content: Vec<u8> = (0..10_007u32).map(|i| (i % 251) as u8).collect();
        let (path, file) = scratch("content", &content);
        let bytes = map_file(&file).unwrap();
        drop(file);
        std::fs::remove_file(path).unwrap();
        let tail = bytes.slice(5_000..);
        drop(bytes);
        assert_eq!(tail, content[5_000..]);
    }

    #[test]
    fn an_empty_file_maps_to_nothing() {
        let (path, file) = scratch("empty", b"");
        assert!(map_file(&file).unwrap().is_empty());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_folder_is_an_error() {
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(map_file(&folder).is_err());
    }
}
