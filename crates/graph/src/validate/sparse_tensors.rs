//! Sparse tensors: values in one row, and for each its position, ascending and inside the dimensions.

use super::{Context, tensors};
use crate::error::ModelError;
use crate::load::{ExternalData, tensor_bytes};
use crate::path::Path;
use refeed_proto::{SparseTensorProto, TensorProto, tensor_proto::DataType};

/// Checks a sparse tensor, positions included.
pub(super) fn check(
    sparse: &SparseTensorProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let Some(values) = &sparse.values else {
        return Err(at.field("values").refused("a tensor", "none"));
    };
    tensors::check_dense(values, &at.field("values"), context)?;
    let count = check_values(values, &at.field("values"))?;
    check_dims(&sparse.dims, at)?;
    match &sparse.indices {
        None if count == 0 => Ok(()),
        None => Err(at
            .field("indices")
            .refused(format!("the positions of {count} values"), "none")),
        Some(indices) => {
            let at = at.field("indices");
            tensors::check_dense(indices, &at, context)?;
            check_indices(indices, count, sparse.dims.len(), &at)?;
            check_positions(indices, &sparse.dims, &at, context)
        }
    }
}

/// The values have one axis; gives their number.
fn check_values(values: &TensorProto, at: &Path<'_>) -> Result<i64, ModelError> {
    match values.dims.as_slice() {
        [count] => Ok(*count),
        dims => Err(at
            .field("dims")
            .refused("one axis", format!("{} axes", dims.len()))),
    }
}

/// A sparse tensor has axes, and none of them is empty.
fn check_dims(dims: &[i64], at: &Path<'_>) -> Result<(), ModelError> {
    if dims.is_empty() {
        return Err(at.field("dims").refused("at least one axis", "none"));
    }
    match dims.iter().position(|&dim| dim < 1) {
        Some(axis) => Err(at
            .item("dims", axis)
            .refused("1 or more", dims[axis].to_string())),
        None => Ok(()),
    }
}

/// Positions are INT64: one number for each value, or one number for each axis of each value.
fn check_indices(
    indices: &TensorProto,
    count: i64,
    rank: usize,
    at: &Path<'_>,
) -> Result<(), ModelError> {
    if indices.data_type() != DataType::Int64 as i32 {
        let got = crate::validate::types::element_text(indices.data_type);
        return Err(at.field("data_type").refused("INT64", got));
    }
    let rank = i64::try_from(rank).unwrap_or(i64::MAX);
    match indices.dims.as_slice() {
        [one] if *one == count => Ok(()),
        [one, axes] if *one == count && *axes == rank => Ok(()),
        dims => Err(at.field("dims").refused(
            format!("[{count}] or [{count}, {rank}]"),
            format!("{:?}", &dims[..dims.len().min(8)]),
        )),
    }
}

/// Positions are inside the dimensions and ascend.
fn check_positions(
    indices: &TensorProto,
    dims: &[i64],
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let nowhere = ExternalData::none();
    let external = match context.external {
        Some(external) => external,
        // Positions in a file that is not known cannot be read.
        None if indices.is_external() => return Ok(()),
        None => &nowhere,
    };
    let bytes = tensor_bytes(indices, external).map_err(|source| ModelError::Payload {
        at: at.to_string(),
        source,
    })?;
    let numbers = bytes.chunks_exact(8).map(|chunk| {
        let mut number = [0; 8];
        number.copy_from_slice(chunk);
        i64::from_le_bytes(number)
    });
    if indices.dims.len() == 1 {
        // The number of elements may be beyond every number that a position can be.
        let size = dims
            .iter()
            .try_fold(1i64, |size, &dim| size.checked_mul(dim))
            .unwrap_or(i64::MAX);
        let mut before = -1;
        for (index, position) in numbers.enumerate() {
            let at = at.item("position", index);
            if position < 0 || position >= size {
                return Err(at.refused(format!("0 to {}", size - 1), position.to_string()));
            }
            if position <= before {
                return Err(at.refused(format!("more than {before}"), position.to_string()));
            }
            before = position;
        }
        return Ok(());
    }
    let rank = dims.len();
    let numbers: Vec<i64> = numbers.collect();
    let mut before: Option<&[i64]> = None;
    for (index, position) in numbers.chunks_exact(rank).enumerate() {
        let at = at.item("position", index);
        for (axis, (&number, &dim)) in position.iter().zip(dims).enumerate() {
            if number < 0 || number >= dim {
                return Err(at
                    .item("axis", axis)
                    .refused(format!("0 to {}", dim - 1), number.to_string()));
            }
        }
        if let Some(before) = before
            && position <= before
        {
            let shown = |position: &[i64]| format!("{:?}", &position[..rank.min(8)]);
            return Err(at.refused(
                format!("a position after {}", shown(before)),
                shown(position),
            ));
        }
        before = Some(position);
    }
    Ok(())
}
