//! Writing models: as bytes, and as a file with its external data beside it.
//!
//! A model whose tensors are all inline becomes one file. When it has tensors in other files, or is larger than one
//! protobuf message may be, they are written one after the other into `<file name>.data` in the same folder, tensors that
//! share bytes once. Each file is written under a temporary name, flushed to the disk and renamed, so a reader sees the
//! old file or the new one, whole. The data file is renamed before the model file; over an older pair of the same names
//! there is a moment at which the old model stands beside the new data.

use crate::error::ModelError;
use crate::load::{ExternalData, tensor_bytes};
use crate::model::Model;
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::tensor_proto::DataLocation;
use refeed_proto::{
    Bytes, EncodedValueProto, GraphProto, Message, ModelProto, NodeProto, StringStringEntryProto,
    TensorProto,
};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest protobuf message that readers accept.
const MESSAGE_LIMIT: usize = i32::MAX as usize;
/// Tensors below this size stay inline when a model is split because of its own size.
const INLINE: usize = 1024;
/// Tensors of at least this many bytes start on a page.
const PAGED: usize = 64 * 1024;

impl Model {
    /// The model as bytes.
    ///
    /// # Errors
    /// When the model has tensors in other files, or does not fit in a message of 2 GiB.
    pub fn to_bytes(&self) -> Result<Bytes, ModelError> {
        if let Some(tensor) = first_external(self.proto()) {
            return Err(ModelError::HasExternalData { tensor });
        }
        let got = self.proto().encoded_len();
        if got > MESSAGE_LIMIT {
            return Err(ModelError::TooLarge {
                limit: MESSAGE_LIMIT,
                got,
            });
        }
        Ok(Bytes::from(self.proto().encode_to_vec()))
    }

    /// Writes the model to `path`, and its tensors in other files to `<file name>.data` beside it.
    ///
    /// # Errors
    /// When a file cannot be written, an external tensor cannot be read, or an encoded value is in another file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        let path = path.as_ref();
        let has_external = first_external(self.proto()).is_some();
        let split = self.proto().encoded_len() > MESSAGE_LIMIT;
        if !has_external && !split {
            return write_whole(path, &self.proto().encode_to_vec());
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| {
                let source = io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the file name is not UTF-8 text",
                );
                ModelError::Write {
                    path: path.to_string_lossy().into_owned(),
                    action: "naming the data file",
                    source,
                }
            })?;
        let location = format!("{name}.data");
        let data_path = path.with_file_name(&location);
        let mut proto = self.proto().clone();
        let mut data = DataFile::create(&data_path, location, self.external())?;
        let mut result = Ok(());
        visit_tensors(&mut proto, &mut |tensor| {
            let large = split
                && tensor
                    .raw_data
                    .as_ref()
                    .is_some_and(|raw| raw.len() >= INLINE);
            if result.is_ok() && (tensor.is_external() || large) {
                result = data.move_out(tensor);
            }
        });
        result?;
        let got = proto.encoded_len();
        if got > MESSAGE_LIMIT {
            return Err(ModelError::TooLarge {
                limit: MESSAGE_LIMIT,
                got,
            });
        }
        // An encoded value in another file would be lost; nothing reads those yet.
        if let Some(value) = proto
            .graph
            .iter()
            .flat_map(|graph| &graph.encoded_initializer)
            .find(|v| is_external(v))
        {
            let fault =
                "stored in another file; only tensors are copied when a model is saved".to_string();
            return Err(ModelError::Value {
                what: "encoded value",
                name: value.name().to_string(),
                fault,
            });
        }
        data.file.finish()?;
        write_whole(path, &proto.encode_to_vec())
    }
}

pub(crate) fn is_external(value: &EncodedValueProto) -> bool {
    value.data_location() == DataLocation::External
}

/// Name of the first value that is stored in another file.
fn first_external(model: &ModelProto) -> Option<String> {
    let mut stack: Vec<&[NodeProto]> = model
        .functions
        .iter()
        .map(|function| function.node.as_slice())
        .collect();
    let mut graphs: Vec<&GraphProto> = model.graph.iter().collect();
    let found = |tensor: &TensorProto| tensor.is_external().then(|| tensor.name().to_string());
    loop {
        if let Some(graph) = graphs.pop() {
            let sparse = graph
                .sparse_initializer
                .iter()
                .flat_map(|sparse| sparse.values.iter().chain(&sparse.indices));
            if let Some(name) = graph.initializer.iter().chain(sparse).find_map(found) {
                return Some(name);
            }
            if let Some(value) = graph
                .encoded_initializer
                .iter()
                .find(|value| is_external(value))
            {
                return Some(value.name().to_string());
            }
            stack.push(&graph.node);
        } else if let Some(nodes) = stack.pop() {
            for attribute in nodes.iter().flat_map(|node| &node.attribute) {
                let sparse = attribute
                    .sparse_tensor
                    .as_deref()
                    .into_iter()
                    .chain(&attribute.sparse_tensors);
                let sparse = sparse.flat_map(|sparse| sparse.values.iter().chain(&sparse.indices));
                let dense = attribute.t.as_deref().into_iter().chain(&attribute.tensors);
                if let Some(name) = dense.chain(sparse).find_map(found) {
                    return Some(name);
                }
                graphs.extend(crate::uses::nested(attribute));
            }
        } else {
            return None;
        }
    }
}

/// Calls `visit` for every tensor that may hold weights: initializers, attributes, parameters of encoded values.
pub(crate) fn visit_tensors(model: &mut ModelProto, visit: &mut dyn FnMut(&mut TensorProto)) {
    let mut graphs: Vec<&mut GraphProto> = model.graph.iter_mut().collect();
    let mut lists: Vec<&mut Vec<NodeProto>> = model
        .functions
        .iter_mut()
        .map(|function| &mut function.node)
        .collect();
    loop {
        if let Some(graph) = graphs.pop() {
            graph.initializer.iter_mut().for_each(&mut *visit);
            for sparse in &mut graph.sparse_initializer {
                sparse
                    .values
                    .iter_mut()
                    .chain(&mut sparse.indices)
                    .for_each(&mut *visit);
            }
            graph
                .encoded_initializer
                .iter_mut()
                .for_each(|value| visit_encoded(value, visit));
            for block in graph
                .paged_cache_initializer
                .iter_mut()
                .flat_map(|cache| &mut cache.blocks)
            {
                match &mut block.key_payload {
                    Some(KeyPayload::Key(tensor)) => visit(tensor),
                    Some(KeyPayload::EncodedKey(value)) => visit_encoded(value, visit),
                    None => {}
                }
                match &mut block.value_payload {
                    Some(ValuePayload::Value(tensor)) => visit(tensor),
                    Some(ValuePayload::EncodedValue(value)) => visit_encoded(value, visit),
                    None => {}
                }
            }
            lists.push(&mut graph.node);
        } else if let Some(nodes) = lists.pop() {
            for attribute in nodes.iter_mut().flat_map(|node| &mut node.attribute) {
                attribute
                    .t
                    .as_deref_mut()
                    .into_iter()
                    .chain(&mut attribute.tensors)
                    .for_each(&mut *visit);
                let sparse = attribute
                    .sparse_tensor
                    .as_deref_mut()
                    .into_iter()
                    .chain(&mut attribute.sparse_tensors);
                sparse
                    .flat_map(|sparse| sparse.values.iter_mut().chain(&mut sparse.indices))
                    .for_each(&mut *visit);
                graphs.extend(
                    attribute
                        .g
                        .as_deref_mut()
                        .into_iter()
                        .chain(&mut attribute.graphs),
                );
            }
        } else {
            return;
        }
    }
}

fn visit_encoded(value: &mut EncodedValueProto, visit: &mut dyn FnMut(&mut TensorProto)) {
    if let Some(Layout::Affine(affine)) = &mut value.layout {
        affine
            .scale
            .iter_mut()
            .chain(&mut affine.zero_point)
            .for_each(visit);
    }
}

/// The file that tensors are moved to.
struct DataFile<'a> {
    file: NewFile,
    location: String,
    external: &'a ExternalData,
    end: u64,
    /// Offsets of payloads by address and length; tensors that share bytes share them afterwards. The payloads are
    /// kept, so that an address stays that of one payload.
    written: HashMap<(usize, usize), (u64, Bytes)>,
}

impl<'a> DataFile<'a> {
    fn create(
        path: &Path,
        location: String,
        external: &'a ExternalData,
    ) -> Result<DataFile<'a>, ModelError> {
        Ok(DataFile {
            file: NewFile::create(path)?,
            location,
            external,
            end: 0,
            written: HashMap::new(),
        })
    }

    /// Writes a tensor's elements and leaves a reference to them in its place.
    fn move_out(&mut self, tensor: &mut TensorProto) -> Result<(), ModelError> {
        let bytes = tensor_bytes(tensor, self.external)?;
        let length = bytes.len();
        let key = (bytes.as_ptr().addr(), length);
        let offset = match self.written.get(&key) {
            Some((offset, _)) => *offset,
            None => {
                let align = if length >= PAGED { 4096 } else { 64 };
                let offset = self.end.next_multiple_of(align);
                let gap = (offset - self.end) as usize;
                self.file.write(&vec![0; gap])?;
                self.file.write(&bytes)?;
                self.end = offset + length as u64;
                self.written.insert(key, (offset, bytes));
                offset
            }
        };
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.to_string()),
            value: Some(value),
        };
        tensor.raw_data = None;
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", self.location.clone()),
            entry("offset", offset.to_string()),
            entry("length", length.to_string()),
        ];
        Ok(())
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    let mut file = NewFile::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// A file under a temporary name, which takes its own name when it is complete and is removed when it is not.
struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl NewFile {
    fn create(path: &Path) -> Result<NewFile, ModelError> {
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
        if let Ok(held) = fs::symlink_metadata(path)
            && !held.is_file()
            && !held.is_symlink()
        {
            let text =
                "expected a new name or a regular file to replace, found something else there";
            return Err(failed(
                "replacing it",
                io::Error::new(io::ErrorKind::InvalidInput, text),
            ));
        }
        // A name that exists belongs to somebody else, perhaps to an earlier process of the same number.
        for _ in 0..100 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary =
                path.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(file) => {
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

    fn write(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let done = file.write_all(bytes);
        done.map_err(|error| self.failed("writing", error))
    }

    /// Flushes to the disk, renames, and makes the new name durable.
    fn finish(&mut self) -> Result<(), ModelError> {
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

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests;
