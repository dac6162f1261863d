//! Writing models: as bytes, and as a file with its external data beside it.
//!
//! A model whose tensors are all inline becomes one file. When it has tensors in other files, or is larger than one
//! protobuf message may be, they are written one after the other into `<file name>.data` in the same folder, tensors that
//! share bytes once. Each file is written under a temporary name, flushed to the disk and renamed, so a reader sees the
//! old file or the new one, whole. The data file is renamed before the model file; over an older pair of the same names
//! there is a moment at which the old model stands beside the new data.

mod data_file;
mod new_file;

pub(crate) use data_file::DataFile;
pub use new_file::NewFile;

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
use std::io;
use std::path::Path;

/// The largest protobuf message that readers accept.
const MESSAGE_LIMIT: usize = i32::MAX as usize;
/// Tensors below this size stay inline when a model is split because of its own size.
const INLINE: usize = 1024;

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
        let mut data = DataFile::create(&data_path, location)?;
        let mut result = Ok(());
        visit_tensors(&mut proto, &mut |tensor| {
            let large = split
                && tensor
                    .raw_data
                    .as_ref()
                    .is_some_and(|raw| raw.len() >= INLINE);
            if result.is_ok() && (tensor.is_external() || large) {
                result = move_out(tensor, self.external(), &mut data);
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
        data.finish()?;
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

/// Writes a tensor's elements and leaves a reference to them in its place.
fn move_out(
    tensor: &mut TensorProto,
    external: &ExternalData,
    data: &mut DataFile,
) -> Result<(), ModelError> {
    let bytes = tensor_bytes(tensor, external)?;
    let entries = data.place(bytes)?;
    tensor.raw_data = None;
    tensor.data_location = Some(DataLocation::External as i32);
    tensor.external_data = entries
        .into_iter()
        .map(|(key, value)| StringStringEntryProto {
            key: Some(key.to_string()),
            value: Some(value),
        })
        .collect();
    Ok(())
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    let mut file = NewFile::create(path)?;
    file.put(bytes)?;
    file.finish()
}

#[cfg(test)]
mod tests;
