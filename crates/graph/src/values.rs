//! Between the messages of a file and the values of a run: dense tensors, encoded values, struct types, paged caches.
//!
//! Reading holds a message to the rules of validation first, and shares its payloads with the value: bytes are copied
//! only when they are not aligned for their type, or stand in typed fields. Writing shares them back; nothing is decoded
//! either way. What a message says beside its payload is kept, so that an encoded value is written as it was read.
//!
//! What values of a model refer to, by number or name, stands in its [`Catalogues`]. A message apart from any model is read
//! with [`Catalogues::default`], which has no entries, so that every reference is refused.

mod declared;
mod encoded;
mod initializers;
mod paged_cache;
mod parameters;
mod strings;
mod struct_type;
mod tensor;

pub use declared::{DeclaredPages, check_encoded, declared_pages};
pub use encoded::{encoded_from_proto, encoded_to_proto};
pub(crate) use initializers::{ModelValues, encoded_initializer, paged_cache_initializer};
pub use paged_cache::{from_paged_cache, to_paged_cache};
pub use parameters::{
    AddedParameters, QuantizationParameterCatalogue, add_quantization_parameters,
    make_shared_quantization_type,
};
pub(crate) use strings::is_of_strings;
pub use strings::{strings_from_proto, strings_to_proto, value_from_proto};
pub(crate) use struct_type::layout_of;
pub use struct_type::{struct_type_from_proto, struct_type_to_proto};
pub(crate) use tensor::{Elements, adopt, moved as moved_bytes};
pub use tensor::{tensor_from_proto, tensor_to_proto};

use crate::error::{FieldError, ModelError};
use crate::load::ExternalData;
use crate::path::Path;
use crate::struct_types::StructTypes;
use crate::validate::{Context, NEWEST_IR_VERSION, Rules};
use refeed_proto::ModelProto;
use refeed_values::Provenance;
use refeed_values::encoded::EncodedError;
use std::sync::Arc;

/// What values of a model refer to: declared struct types by their identity, shared quantization parameters by name.
/// Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Catalogues {
    pub(crate) struct_types: Arc<StructTypes>,
    pub(crate) parameters: Arc<QuantizationParameterCatalogue>,
}

impl Catalogues {
    /// The catalogues of a model message whose tensors are in it. The rest of the message is not looked at.
    ///
    /// # Errors
    /// When a declared struct type or a parameter set breaks a rule.
    pub fn of_message(model: &ModelProto) -> Result<Catalogues, ModelError> {
        Ok(Catalogues {
            struct_types: Arc::new(StructTypes::new(model)?),
            parameters: Arc::new(QuantizationParameterCatalogue::of_message(model)?),
        })
    }

    /// The declared struct types.
    pub fn struct_types(&self) -> &Arc<StructTypes> {
        &self.struct_types
    }

    /// The shared quantization parameters.
    pub fn parameters(&self) -> &Arc<QuantizationParameterCatalogue> {
        &self.parameters
    }
}

/// What a message is read with.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) struct_types: &'a StructTypes,
    /// `None` while the parameters themselves are read.
    pub(crate) parameters: Option<&'a QuantizationParameterCatalogue>,
    pub(crate) external: &'a ExternalData,
    pub(crate) provenance: Provenance,
}

impl<'a> Reading<'a> {
    /// A message apart from any file, whose payloads somebody else may hold as well.
    fn apart(catalogues: &'a Catalogues, external: &'a ExternalData) -> Reading<'a> {
        Reading {
            struct_types: &catalogues.struct_types,
            parameters: Some(&catalogues.parameters),
            external,
            provenance: Provenance::Foreign,
        }
    }

    fn context(&self) -> Context<'a> {
        Context {
            rules: Rules::Session,
            ir_version: NEWEST_IR_VERSION,
            functions: None,
            external: Some(self.external),
            catalogue: self.struct_types,
            parameters: None,
        }
    }
}

/// The fault of a value, with the path of the message that it stands for.
fn refused(fault: EncodedError, at: &Path<'_>) -> ModelError {
    match fault {
        EncodedError::Part {
            part,
            expected,
            got,
        } => ModelError::Field(FieldError {
            at: at.field(part).to_string(),
            expected,
            got,
        }),
        EncodedError::Tensor(source) => ModelError::Tensor {
            tensor: at.to_string(),
            source,
        },
        other => at.refused("a value that can be kept", other.to_string()),
    }
}

#[cfg(test)]
mod tests;
