//! Constant tensors of a model: a known type, dimensions with a size, and exactly the elements that they ask for.

use super::Context;
use crate::error::{FieldError, ModelError};
use crate::load::{ExternalData, LoadError, location_parts, tensor_bytes};
use crate::path::Path;
use refeed_proto::ext::metadata;
use refeed_proto::{TensorProto, tensor_proto::DataType};
use refeed_values::{DType, Extent};

/// Checks a dense tensor. External data is opened, mapped and compared in length; no element is read from it.
pub(crate) fn check_dense(
    tensor: &TensorProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let payload = |source| ModelError::Payload {
        at: at.to_string(),
        source,
    };
    if tensor.data_type() == DataType::String as i32 {
        return check_strings(tensor, at);
    }
    match context.external {
        Some(external) => tensor_bytes(tensor, external).map(drop).map_err(payload)?,
        None => check_entries(tensor).map_err(payload)?,
    }
    if context.rules.is_checker() {
        check_padding(tensor, at)?;
    }
    Ok(())
}

/// Checks a tensor whose elements must be in the message itself.
pub(crate) fn check_inline(tensor: &TensorProto, at: &Path<'_>) -> Result<(), FieldError> {
    if tensor.is_external() {
        return Err(at
            .field("data_location")
            .fault("elements in the message", "elements in another file"));
    }
    if tensor.data_type() == DataType::String as i32 {
        return check_strings(tensor, at).map_err(|error| at.fault("a whole tensor", told(error)));
    }
    match tensor_bytes(tensor, &ExternalData::none()) {
        Ok(_) => Ok(()),
        Err(source) => Err(at.fault("exactly the elements of the dimensions", source.to_string())),
    }
}

/// The text of an error without its path, which the caller gives.
fn told(error: ModelError) -> String {
    match error {
        ModelError::Payload { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// STRING tensors have elements but no bytes, and one field for them.
fn check_strings(tensor: &TensorProto, at: &Path<'_>) -> Result<(), ModelError> {
    let name = || tensor.name().to_string();
    let payload = |source| ModelError::Payload {
        at: at.to_string(),
        source,
    };
    let others = [
        ("external data", tensor.is_external()),
        ("raw_data", tensor.raw_data.is_some()),
        ("float_data", !tensor.float_data.is_empty()),
        ("int32_data", !tensor.int32_data.is_empty()),
        ("int64_data", !tensor.int64_data.is_empty()),
        ("double_data", !tensor.double_data.is_empty()),
        ("uint64_data", !tensor.uint64_data.is_empty()),
    ];
    if let Some(&(got, _)) = others.iter().find(|(_, is_set)| *is_set) {
        return Err(payload(LoadError::WrongField {
            tensor: name(),
            dtype: DType::String,
            expected: "string_data",
            got,
        }));
    }
    // INT8 has as many bytes as STRING has elements.
    let (extent, _) = Extent::from_dims(DType::Int8, &tensor.dims).map_err(|source| {
        payload(LoadError::Dims {
            tensor: name(),
            source,
        })
    })?;
    if tensor.string_data.len() != extent.elements() {
        return Err(payload(LoadError::DataSize {
            tensor: name(),
            field: "string_data",
            unit: "elements",
            expected: extent.elements(),
            got: tensor.string_data.len(),
        }));
    }
    Ok(())
}

/// Where no folder is known, external data is held to what its entries say: a location inside the folder, numbers, and
/// the length that the dimensions ask for.
fn check_entries(tensor: &TensorProto) -> Result<(), LoadError> {
    match tensor_bytes(tensor, &ExternalData::none()) {
        Err(LoadError::NoBaseFolder { .. }) => {
            let location = metadata(&tensor.external_data, "location").unwrap_or_default();
            match location_parts(location) {
                Ok(_) => Ok(()),
                Err(fault) => Err(LoadError::Location {
                    tensor: tensor.name().to_string(),
                    location: location.to_string(),
                    fault,
                }),
            }
        }
        other => other.map(drop),
    }
}

/// Bits past the last element of 6-bit types are 0.
fn check_padding(tensor: &TensorProto, at: &Path<'_>) -> Result<(), FieldError> {
    let six = [DataType::Float6e2m3 as i32, DataType::Float6e3m2 as i32];
    let (true, Some(raw)) = (six.contains(&tensor.data_type()), &tensor.raw_data) else {
        return Ok(());
    };
    let elements = match Extent::from_dims(DType::Float6E2M3, &tensor.dims) {
        Ok((extent, _)) => extent.elements(),
        Err(_) => return Ok(()),
    };
    // Four elements fill three bytes.
    let used = elements % 4 * 6 % 8;
    match raw.last() {
        Some(&last) if used != 0 && last >> used != 0 => Err(at.field("raw_data").fault(
            "0 in the bits past the last element",
            format!("{:#010b} in the last byte", last),
        )),
        _ => Ok(()),
    }
}
