//! Tensors in other files, taken into the model.

use super::walk::nested_in;
use crate::load::{ExternalData, LoadError, tensor_bytes};
use crate::save;
use refeed_proto::{GraphProto, ModelProto};

/// Turns tensors in files into payloads, which share the files' mappings.
///
/// # Errors
/// When a file cannot be read or is too short.
pub(super) fn take_in(model: &mut ModelProto, external: &ExternalData) -> Result<(), LoadError> {
    let mut result = Ok(());
    save::visit_tensors(model, &mut |tensor| {
        if result.is_ok() && tensor.is_external() {
            match tensor_bytes(tensor, external) {
                Ok(bytes) => {
                    tensor.raw_data = Some(bytes);
                    tensor.data_location = None;
                    tensor.external_data.clear();
                }
                Err(error) => result = Err(error),
            }
        }
    });
    result
}

/// Name of the first encoded initializer that is stored in another file, nested graphs included.
pub(super) fn external_encoded(graph: &GraphProto) -> Option<String> {
    let nested = nested_in(&graph.node);
    let graphs = std::iter::once(graph).chain(nested);
    let mut values = graphs.flat_map(|graph| &graph.encoded_initializer);
    let found = values.find(|value| save::is_external(value))?;
    Some(found.name().to_string())
}
