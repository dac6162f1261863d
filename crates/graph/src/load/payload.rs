//! The elements of a tensor as little-endian bytes, wherever the file keeps them.

use refeed_proto::{Bytes, TensorProto, tensor_proto::DataLocation};
use refeed_values::{DType, Extent};

use super::{ExternalData, LoadError, typed};

/// The elements of `tensor`, row by row, little-endian, sub-byte types packed from the low bits on: exactly the bytes
/// that its type and dimensions ask for.
///
/// `raw_data` and external data are shared, not copied; their memory is aligned as the file happens to be. Typed fields
/// (`float_data`, `int32_data`, ...) are converted. For 4-bit and 2-bit types an entry of `int32_data` holds one byte of
/// packed elements or, when there are only that many entries, four bytes of them. Bits past the last element are kept as
/// they are.
///
/// # Errors
/// When the type or the dimensions are invalid, the elements are in several places, in a field that is not for the
/// type, too few, too many or out of range, or external data cannot be had. STRING tensors have no bytes and are
/// refused ([`LoadError::Dims`]).
pub fn tensor_bytes(tensor: &TensorProto, external: &ExternalData) -> Result<Bytes, LoadError> {
    let name = || tensor.name().to_string();
    let number = tensor.data_type();
    let dtype = DType::from_onnx(number).ok_or_else(|| LoadError::DataType {
        tensor: name(),
        number,
    })?;
    if tensor.segment.is_some() {
        return Err(LoadError::Segmented { tensor: name() });
    }
    let (extent, _) = Extent::from_dims(dtype, &tensor.dims).map_err(|source| LoadError::Dims {
        tensor: name(),
        source,
    })?;
    let is_external = match tensor.data_location {
        None => false,
        Some(number) => match DataLocation::try_from(number) {
            Ok(location) => location == DataLocation::External,
            Err(_) => {
                return Err(LoadError::DataLocation {
                    tensor: name(),
                    number,
                });
            }
        },
    };

    let fields = [
        ("external data", is_external),
        ("raw_data", tensor.raw_data.is_some()),
        ("float_data", !tensor.float_data.is_empty()),
        ("int32_data", !tensor.int32_data.is_empty()),
        ("string_data", !tensor.string_data.is_empty()),
        ("int64_data", !tensor.int64_data.is_empty()),
        ("double_data", !tensor.double_data.is_empty()),
        ("uint64_data", !tensor.uint64_data.is_empty()),
    ];
    let mut set = fields
        .into_iter()
        .filter_map(|(field, is_set)| is_set.then_some(field));
    let first = set.next();
    if let (Some(first), Some(second)) = (first, set.next()) {
        return Err(LoadError::MixedData {
            tensor: name(),
            first,
            second,
        });
    }

    match (first, &tensor.raw_data) {
        (_, Some(raw)) if raw.len() == extent.bytes() => Ok(raw.clone()),
        (_, Some(raw)) => Err(LoadError::DataSize {
            tensor: name(),
            field: "raw_data",
            unit: "bytes",
            expected: extent.bytes(),
            got: raw.len(),
        }),
        _ if is_external => {
            external.bytes(tensor.name(), &tensor.external_data, extent.bytes() as u64)
        }
        (field, None) => typed::convert(tensor, dtype, extent, field),
    }
}
