//! Constant tensors of a model: a known type, dimensions with a size, and exactly the elements that they ask for.

use crate::error::ModelError;
use crate::load::{ExternalData, LoadError, tensor_bytes};
use refeed_proto::{SparseTensorProto, TensorProto, tensor_proto::DataType};
use refeed_values::{DType, Extent};

/// Checks a dense tensor. External data is opened, mapped and compared in length; no element is read from it.
pub(super) fn check_dense(tensor: &TensorProto, external: &ExternalData) -> Result<(), ModelError> {
    if tensor.data_type() != DataType::String as i32 {
        tensor_bytes(tensor, external)?;
        return Ok(());
    }
    // STRING tensors have elements but no bytes; INT8 has as many bytes as they have elements.
    let name = || tensor.name().to_string();
    let (extent, _) =
        Extent::from_dims(DType::Int8, &tensor.dims).map_err(|source| LoadError::Dims {
            tensor: name(),
            source,
        })?;
    if tensor.string_data.len() != extent.elements() {
        return Err(LoadError::DataSize {
            tensor: name(),
            field: "string_data",
            unit: "elements",
            expected: extent.elements(),
            got: tensor.string_data.len(),
        }
        .into());
    }
    Ok(())
}

/// Checks the declarations of a sparse tensor: values in one row, positions as INT64, in one row or one row each.
pub(super) fn check_sparse(
    sparse: &SparseTensorProto,
    at: &str,
    external: &ExternalData,
) -> Result<(), ModelError> {
    let name = sparse.values.as_ref().map_or(at, |values| values.name());
    let fault = |fault: String| ModelError::Value {
        what: "sparse tensor",
        name: name.to_string(),
        fault,
    };
    let Some(values) = &sparse.values else {
        return Err(fault("expected values, got none".to_string()));
    };
    check_dense(values, external)?;
    if values.dims.len() != 1 {
        return Err(fault(format!(
            "values: expected rank 1, got {}",
            values.dims.len()
        )));
    }
    if sparse.dims.is_empty() || sparse.dims.iter().any(|&dim| dim < 1) {
        return Err(fault(format!(
            "dimensions: expected at least one, each 1 or more, got {:?}",
            sparse.dims
        )));
    }
    let count = values.dims[0];
    let Some(indices) = &sparse.indices else {
        return if count == 0 {
            Ok(())
        } else {
            Err(fault("expected indices, got none".to_string()))
        };
    };
    check_dense(indices, external)?;
    let rank = i64::try_from(sparse.dims.len()).unwrap_or(i64::MAX);
    if indices.data_type() != DataType::Int64 as i32 {
        return Err(fault("indices: expected INT64".to_string()));
    }
    if indices.dims != [count] && indices.dims != [count, rank] {
        return Err(fault(format!(
            "indices: expected [{count}] or [{count}, {rank}], got {:?}",
            indices.dims
        )));
    }
    Ok(())
}
