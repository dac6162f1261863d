//! Reading model files: bytes to [`ModelProto`], and tensors to their elements, also those that lie in other files.
//!
//! Nothing here knows what a graph means. What it does know is that files lie: sizes are computed with checked
//! arithmetic and compared with what is there before anything is allocated or sliced, and a tensor stored in another file
//! can only name a file in the model's own folder.
//!
//! By default files are mapped: reading a model touches its structure and none of its weights, and every payload is a
//! slice of the mapping. A mapped file must not be changed while it is in use: an overwrite changes the weights, and
//! shortening it ends the process. [`LoadOptions::mmap`] set to false reads files into memory instead.
//!
//! ```no_run
//! use refeed_graph::load::{LoadOptions, read_model_file, tensor_bytes};
//! let loaded = read_model_file("decoder/model.onnx".as_ref(), &LoadOptions::default())?;
//! if let Some(graph) = &loaded.model.graph {
//!     for tensor in &graph.initializer {
//!         let elements = tensor_bytes(tensor, &loaded.external)?;
//!         assert!(elements.len() > 0 || tensor.dims.contains(&0));
//!     }
//! }
//! # Ok::<(), refeed_graph::load::LoadError>(())
//! ```

mod contained;
mod error;
mod external;
mod file;
mod payload;
mod typed;

use std::path::{Path, PathBuf};

use refeed_proto::{Bytes, Message, ModelProto, structure_bytes};

pub use error::{LoadError, LocationFault, shown};
pub use external::ExternalData;
pub use payload::tensor_bytes;

/// How files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Map files (the default) instead of reading them into memory.
    pub mmap: bool,
    /// The folder that external tensors are looked up in. Without one it is the model file's folder, and a model that
    /// comes as bytes has none.
    pub external_base: Option<PathBuf>,
    /// The largest file that is opened, in bytes. Unlimited by default.
    pub max_file_bytes: u64,
    /// The most memory that decoding may take for nodes, attributes and the like, in bytes, as
    /// [`refeed_proto::structure_bytes`] bounds it. 4 GiB by default, room for some hundred thousand nodes; without it a
    /// file of empty messages takes hundreds of times its size.
    pub max_structure_bytes: u64,
    /// Accept external files that have another name elsewhere. Off by default: a hard link may point out of the folder.
    pub allow_hard_links: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            mmap: true,
            external_base: None,
            max_file_bytes: u64::MAX,
            max_structure_bytes: 1 << 32,
            allow_hard_links: false,
        }
    }
}

impl LoadOptions {
    /// Sets [`LoadOptions::mmap`].
    #[must_use]
    pub fn with_mmap(mut self, mmap: bool) -> LoadOptions {
        self.mmap = mmap;
        self
    }

    /// Sets [`LoadOptions::external_base`].
    #[must_use]
    pub fn with_external_base(mut self, folder: impl Into<PathBuf>) -> LoadOptions {
        self.external_base = Some(folder.into());
        self
    }

    /// Sets [`LoadOptions::max_file_bytes`].
    #[must_use]
    pub fn with_max_file_bytes(mut self, bytes: u64) -> LoadOptions {
        self.max_file_bytes = bytes;
        self
    }

    /// Sets [`LoadOptions::max_structure_bytes`].
    #[must_use]
    pub fn with_max_structure_bytes(mut self, bytes: u64) -> LoadOptions {
        self.max_structure_bytes = bytes;
        self
    }

    /// Sets [`LoadOptions::allow_hard_links`].
    #[must_use]
    pub fn with_allow_hard_links(mut self, allow: bool) -> LoadOptions {
        self.allow_hard_links = allow;
        self
    }
}

/// A decoded model, not yet validated, with the place where its external tensors are.
#[derive(Debug)]
pub struct LoadedProto {
    /// The model. Payloads are slices of the file.
    pub model: ModelProto,
    /// Resolves the tensors that are stored in other files.
    pub external: ExternalData,
}

/// Reads the model file at `path`, of any size. External tensors are looked up in the file's folder, or in
/// [`LoadOptions::external_base`] when it is given; they are not opened yet.
///
/// # Errors
/// [`LoadError::Open`], [`LoadError::NotRegular`], [`LoadError::TooLarge`], [`LoadError::Read`] for the file;
/// [`LoadError::Structure`], [`LoadError::Decode`] and [`LoadError::NoGraph`] when it is no model.
pub fn read_model_file(path: &Path, options: &LoadOptions) -> Result<LoadedProto, LoadError> {
    let wire = read_file(path, options)?;
    let base = match &options.external_base {
        Some(folder) => folder.clone(),
        None => path.parent().unwrap_or(Path::new("")).to_path_buf(),
    };
    Ok(LoadedProto {
        model: decode(wire, options)?,
        external: ExternalData::in_folder(&base, options)?,
    })
}

/// The content of a regular file.
pub(crate) fn read_file(path: &Path, options: &LoadOptions) -> Result<Bytes, LoadError> {
    let name = path.to_string_lossy();
    file::read_whole(file::open_regular(path, &name)?, &name, options)
}

/// Decodes a model from bytes, whose memory the payloads share. External tensors are refused unless
/// [`LoadOptions::external_base`] is given.
///
/// # Errors
/// [`LoadError::Structure`], [`LoadError::Decode`] and [`LoadError::NoGraph`] when the bytes are no model.
pub fn decode_model(wire: Bytes, options: &LoadOptions) -> Result<LoadedProto, LoadError> {
    let external = match &options.external_base {
        Some(folder) => ExternalData::in_folder(folder, options)?,
        None => ExternalData::none(),
    };
    Ok(LoadedProto {
        model: decode(wire, options)?,
        external,
    })
}

/// The parts of a location of external data, by its text alone: folders, and last the file.
///
/// # Errors
/// When the text names no file inside the model's folder.
///
/// ```
/// use refeed_graph::load::{LocationFault, location_parts};
/// assert_eq!(location_parts("./weights/decoder.bin"), Ok(vec!["weights", "decoder.bin"]));
/// assert_eq!(location_parts("../decoder.bin"), Err(LocationFault::Parent));
/// ```
pub fn location_parts(location: &str) -> Result<Vec<&str>, LocationFault> {
    contained::parts(location)
}

fn decode(wire: Bytes, options: &LoadOptions) -> Result<ModelProto, LoadError> {
    let size = wire.len();
    let limit = options.max_structure_bytes;
    if structure_bytes(&wire, limit).is_none() {
        return Err(LoadError::Structure { size, limit });
    }
    let model = ModelProto::decode(wire).map_err(|source| LoadError::Decode { source })?;
    if model.graph.is_none() {
        return Err(LoadError::NoGraph { size });
    }
    Ok(model)
}

#[cfg(test)]
mod tests;
