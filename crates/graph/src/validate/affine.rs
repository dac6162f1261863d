//! Affine encodings: `real = scale * (code - zero_point)`, with one scale, one for each slice along an axis, or one for each
//! block along an axis.

use super::encoded::Payload;
use super::tensors;
use super::types::{self, Dim, sizes};
use crate::error::FieldError;
use crate::load::{ExternalData, tensor_bytes};
use crate::path::Path;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{AffineLayoutProto, EncodedValueProto, TensorProto, TypeProto};
use refeed_values::encoded::{self, CODES, EncodedError, SCALES};
use refeed_values::{DType, Dims, Extent};

/// Checks an affine layout against what it decodes to and against its payload.
pub(super) fn check(
    affine: &AffineLayoutProto,
    value: &EncodedValueProto,
    payload: Payload<'_>,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let dims = check_logical_type(value.logical_type.as_ref(), &at.field("logical_type"))?;
    let codes = check_storage_type(affine, &dims, payload.len(), at)?;
    check_payload(payload, codes, &dims, &at.field("raw_data"))?;
    let at = at.field("affine");
    let parameters = check_axis(affine, &dims, &at)?;
    let Some(scale) = &affine.scale else {
        return Err(at.field("scale").fault("a tensor", "none"));
    };
    check_scale(scale, &parameters, &at.field("scale"))?;
    match &affine.zero_point {
        Some(zero_point) => {
            check_zero_point(zero_point, codes, &parameters, &at.field("zero_point"))
        }
        None => Ok(()),
    }
}

/// The decoded type is a tensor whose dimensions are numbers; gives them.
pub(super) fn check_logical_type(
    ty: Option<&TypeProto>,
    at: &Path<'_>,
) -> Result<Vec<i64>, FieldError> {
    let Some(ty) = ty else {
        return Err(at.fault("a tensor type", "none"));
    };
    let Some(Value::TensorType(tensor)) = &ty.value else {
        return Err(at.fault("a tensor type", types::kind(ty)));
    };
    let at = at.field("tensor_type");
    let number = tensor.elem_type.unwrap_or(0);
    match DType::from_onnx(number) {
        Some(DType::String) | None => {
            let got = types::element_text(tensor.elem_type);
            return Err(at
                .field("elem_type")
                .fault("an element type that is not STRING", got));
        }
        Some(_) => {}
    }
    concrete_dims(tensor, &at.field("shape"))
}

fn concrete_dims(tensor: &type_proto::Tensor, at: &Path<'_>) -> Result<Vec<i64>, FieldError> {
    let Some(shape) = &tensor.shape else {
        return Err(at.fault("dimensions that are numbers", "none"));
    };
    let mut dims = Vec::with_capacity(shape.dim.len());
    for (axis, dim) in sizes(shape).enumerate() {
        match dim {
            Dim::Value(n) => dims.push(n),
            Dim::Symbol(_) | Dim::Unknown => {
                let got = types::tensor_text(tensor);
                return Err(at.item("dim", axis).fault("a number", got));
            }
        }
    }
    // The elements are counted in the smallest type; codes are never larger than 8 bits.
    Extent::from_dims(DType::Int8, &dims)
        .map_err(|source| at.fault("dimensions with a size", source.to_string()))?;
    Ok(dims)
}

fn bytes_of(codes: DType, dims: &[i64]) -> Option<u64> {
    let (extent, _) = Extent::from_dims(codes, dims).ok()?;
    u64::try_from(extent.bytes()).ok()
}

/// The type of the codes is stated, or follows from its sign and the size of the payload.
fn check_storage_type(
    affine: &AffineLayoutProto,
    dims: &[i64],
    length: u64,
    at: &Path<'_>,
) -> Result<DType, FieldError> {
    let at = at.field("affine");
    match (affine.storage_type, affine.signed_storage) {
        (Some(number), None) => {
            let found = DType::from_onnx(number).filter(|dtype| CODES.contains(dtype));
            found.ok_or_else(|| {
                let got = types::element_text(Some(number));
                at.field("storage_type")
                    .fault("an integer type of 2, 4 or 8 bits", got)
            })
        }
        (None, Some(signed)) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            encoded::infer_storage(signed, &extents(dims), length).map_err(|fault| told(fault, &at))
        }
        (Some(_), Some(_)) => Err(at.fault("storage_type or signed_storage", "both")),
        (None, None) => Err(at.fault("storage_type or signed_storage", "neither")),
    }
}

/// The payload has exactly the bytes of the codes, and nothing in the bits past the last one.
fn check_payload(
    payload: Payload<'_>,
    codes: DType,
    dims: &[i64],
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let expected = bytes_of(codes, dims);
    if expected != Some(payload.len()) {
        let expected = expected.map_or("fewer".to_string(), |bytes| bytes.to_string());
        return Err(at.fault(
            format!("{expected} bytes, as {codes}{dims:?} takes"),
            payload.len().to_string(),
        ));
    }
    let elements = Extent::from_dims(codes, dims).map_or(0, |(extent, _)| extent.elements());
    let used = elements % (8 / codes.bits()) * codes.bits();
    match payload {
        Payload::Inline(bytes) if used != 0 => match bytes.last() {
            Some(&last) if last >> used != 0 => Err(at.fault(
                "0 in the bits past the last code",
                format!("{last:#010b} in the last byte"),
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The axis is one of the value's, blocks have a size, and both are given together or the axis alone; gives the shape of
/// the parameters.
fn check_axis(
    affine: &AffineLayoutProto,
    dims: &[i64],
    at: &Path<'_>,
) -> Result<Vec<i64>, FieldError> {
    let Some(axis) = affine.axis else {
        return match affine.block_size {
            None => Ok(Vec::new()),
            Some(_) => Err(at.field("axis").fault("an axis beside block_size", "none")),
        };
    };
    let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
    let index = if axis < 0 {
        axis.saturating_add(rank)
    } else {
        axis
    };
    let Some(index) = usize::try_from(index)
        .ok()
        .filter(|&index| index < dims.len())
    else {
        let expected = match rank {
            0 => "none, as the value has no axis".to_string(),
            rank => format!("an axis from -{rank} to {}", rank - 1),
        };
        return Err(at.field("axis").fault(expected, axis.to_string()));
    };
    let block = affine.block_size;
    let block = block.map(|block| usize::try_from(block).unwrap_or(usize::MAX));
    let shape = encoded::parameter_shape(&extents(dims), Some(index), block);
    let shape = shape.map_err(|fault| told(fault, at))?;
    // No extent is larger than the dimension that it comes from.
    Ok(shape.iter().map(|&extent| extent as i64).collect())
}

/// Dimensions that were counted before.
fn extents(dims: &[i64]) -> Dims {
    let extents = dims.iter().map(|&dim| usize::try_from(dim));
    extents.map(|extent| extent.unwrap_or(0)).collect()
}

/// The fault of a part as that of the field of the same name.
fn told(fault: EncodedError, at: &Path<'_>) -> FieldError {
    match fault {
        EncodedError::Part {
            part,
            expected,
            got,
        } => at.field(part).fault(expected, got),
        other => at.fault("an affine layout", other.to_string()),
    }
}

/// Scales are floating-point numbers, inline, one for each slice or block.
fn check_scale(scale: &TensorProto, dims: &[i64], at: &Path<'_>) -> Result<(), FieldError> {
    let found = DType::from_onnx(scale.data_type()).filter(|dtype| SCALES.contains(dtype));
    if found.is_none() {
        let got = types::element_text(scale.data_type);
        return Err(at
            .field("data_type")
            .fault("FLOAT, FLOAT16, DOUBLE or BFLOAT16", got));
    }
    check_parameter(scale, dims, at)
}

/// Zero points are of the type of the codes, inline, as many as scales.
fn check_zero_point(
    zero_point: &TensorProto,
    codes: DType,
    dims: &[i64],
    at: &Path<'_>,
) -> Result<(), FieldError> {
    if zero_point.data_type() != codes.to_onnx() {
        let got = types::element_text(zero_point.data_type);
        return Err(at.field("data_type").fault(codes.to_string(), got));
    }
    check_parameter(zero_point, dims, at)
}

fn check_parameter(tensor: &TensorProto, dims: &[i64], at: &Path<'_>) -> Result<(), FieldError> {
    if tensor.dims != dims {
        return Err(at
            .field("dims")
            .fault(format!("{dims:?}"), short(&tensor.dims)));
    }
    tensors::check_inline(tensor, at)
}

/// Dimensions as messages show them.
pub(super) fn short(dims: &[i64]) -> String {
    match dims.get(..16) {
        Some(head) if dims.len() > 16 => format!("{head:?}..."),
        _ => format!("{dims:?}"),
    }
}

/// Every scale is a positive number: a page could not be decoded otherwise.
pub(super) fn check_scales_are_positive(
    affine: &AffineLayoutProto,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let Some(scale) = &affine.scale else {
        return Ok(());
    };
    let Ok(bytes) = tensor_bytes(scale, &ExternalData::none()) else {
        return Ok(());
    };
    let Some(dtype) = DType::from_onnx(scale.data_type()).filter(|dtype| SCALES.contains(dtype))
    else {
        return Ok(());
    };
    for index in 0..bytes.len() / (dtype.bits() / 8) {
        let number = encoded::number_at(&bytes, dtype, index);
        if !(number > 0.0 && number.is_finite()) {
            return Err(at
                .item("scale", index)
                .fault("a positive finite number", number.to_string()));
        }
    }
    Ok(())
}
