//! Encoded values.

use super::struct_type::{self, concrete, tensor_type};
use super::tensor::adopt;
use super::{Catalogues, Elements, Reading, refused, struct_type_to_proto, tensor_to_proto};
use crate::error::ModelError;
use crate::load::{ExternalData, shown};
use crate::path::Path;
use crate::validate;
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::type_proto::Value;
use refeed_proto::{AffineLayoutProto, EncodedValueProto, TensorProto, TypeProto};
use refeed_values::encoded::{Affine, Declaration, Encoding, infer_storage};
use refeed_values::{Buffer, DType, Dims, EncodedValue, Tensor};

/// A message as a value that shares its payload.
///
/// # Errors
/// When the message breaks a rule, is in another file, or refers to a struct type or a parameter set that the catalogues do
/// not have.
pub fn encoded_from_proto(
    proto: &EncodedValueProto,
    catalogues: &Catalogues,
) -> Result<EncodedValue, ModelError> {
    let external = ExternalData::none();
    let reading = Reading::apart(catalogues, &external);
    read(proto, &Path::root("encoded_value"), &reading)
}

/// Reads a message: first the rules, then the value.
pub(crate) fn read(
    proto: &EncodedValueProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<EncodedValue, ModelError> {
    validate::check_encoded(proto, at, &reading.context())?;
    checked(proto, at, reading)
}

/// Reads a message that keeps the rules.
pub(super) fn checked(
    proto: &EncodedValueProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<EncodedValue, ModelError> {
    let payload = payload(proto, at, reading)?;
    let logical = logical(proto, at)?;
    let logical = logical.as_ref().map(|(dtype, shape)| (*dtype, &shape[..]));
    let made = match (&proto.layout, &proto.parameter_ref) {
        (None, _) => return Err(at.refused("an affine layout or a struct type", "neither")),
        (Some(Layout::Affine(affine)), _) => {
            let Some((dtype, shape)) = logical else {
                return Err(at.field("logical_type").refused("a tensor type", "none"));
            };
            let bytes = payload.bytes();
            let affine = affine_of(affine, shape, bytes, &at.field("affine"), reading)?;
            EncodedValue::affine(affine, (dtype, shape), payload)
        }
        (Some(Layout::StructType(declared)), None) => {
            let layout = struct_type::read(declared, &at.field("struct_type"), reading)?;
            EncodedValue::records(layout, logical, payload)
        }
        (Some(Layout::StructType(declared)), Some(name)) => {
            let here = at.field("parameter_ref");
            let found = reading.parameters.and_then(|sets| sets.get(name));
            let Some(parameters) = found else {
                return Err(here.refused(
                    "the name of a set of the model's quantization parameters",
                    format!("`{}`", shown(name)),
                ));
            };
            let Some(logical) = logical else {
                return Err(at.field("logical_type").refused("a tensor type", "none"));
            };
            let layout = struct_type::read(declared, &at.field("struct_type"), reading)?;
            EncodedValue::shared(layout, logical, payload, parameters.clone())
        }
    };
    let made = made.map_err(|fault| refused(fault, at))?;
    let declared = EncodedValueProto {
        raw_data: None,
        external_data: Vec::new(),
        data_location: proto.data_location.filter(|_| proto.raw_data.is_some()),
        ..proto.clone()
    };
    Ok(made.with_declaration(Declaration::new(declared)))
}

fn payload(
    proto: &EncodedValueProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<Tensor, ModelError> {
    let bytes = match &proto.raw_data {
        Some(bytes) => bytes.clone(),
        None => {
            let length = refeed_proto::ext::metadata(&proto.external_data, "length");
            let length = length.and_then(|text| text.parse().ok()).unwrap_or(0);
            let found = reading
                .external
                .bytes(proto.name(), &proto.external_data, length);
            found.map_err(|source| ModelError::Payload {
                at: at.to_string(),
                source,
            })?
        }
    };
    let len = bytes.len();
    let buffer = Buffer::from_owner(bytes, reading.provenance);
    Tensor::dense(DType::Uint8, &[len], buffer).map_err(|source| ModelError::Tensor {
        tensor: at.to_string(),
        source,
    })
}

/// What a value decodes to, when it says and it is a tensor of numbers.
fn logical(proto: &EncodedValueProto, at: &Path<'_>) -> Result<Option<(DType, Dims)>, ModelError> {
    match proto.logical_type.as_ref().and_then(|ty| ty.value.as_ref()) {
        None => Ok(None),
        Some(Value::TensorType(tensor)) => {
            let at = at.field("logical_type");
            concrete(tensor, &at.field("tensor_type")).map(Some)
        }
        // A structured encoding may stand for a value of another kind; only its records are known.
        Some(_) => Ok(None),
    }
}

fn affine_of(
    proto: &AffineLayoutProto,
    shape: &[usize],
    bytes: usize,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<Affine, ModelError> {
    let storage = match (proto.storage_type, proto.signed_storage) {
        (None, Some(signed)) => {
            infer_storage(signed, shape, bytes).map_err(|fault| refused(fault, at))?
        }
        (number, _) => DType::from_onnx(number.unwrap_or(0)).ok_or_else(|| {
            at.field("storage_type")
                .refused("an integer type of 2, 4 or 8 bits", "none")
        })?,
    };
    let parameter = |tensor: &TensorProto, field| {
        let at = at.field(field);
        let elements =
            Elements::of(tensor, reading.external).map_err(|source| ModelError::Payload {
                at: at.to_string(),
                source,
            })?;
        adopt(elements, reading.provenance).map_err(|source| ModelError::Tensor {
            tensor: at.to_string(),
            source,
        })
    };
    let Some(scale) = &proto.scale else {
        return Err(at.field("scale").refused("a tensor", "none"));
    };
    let rank = shape.len() as i64;
    let axis = proto
        .axis
        .map(|axis| if axis < 0 { axis + rank } else { axis });
    Ok(Affine {
        storage,
        inferred: proto.storage_type.is_none(),
        scale: parameter(scale, "scale")?,
        zero_point: proto
            .zero_point
            .as_ref()
            .map(|zero| parameter(zero, "zero_point"))
            .transpose()?,
        axis: axis.map(|axis| usize::try_from(axis).unwrap_or(usize::MAX)),
        // A block that is larger than memory holds the whole axis, as does the largest that can be counted.
        block_size: proto
            .block_size
            .map(|block| usize::try_from(block).unwrap_or(usize::MAX)),
    })
}

/// A value as a message that shares its payload: as it was read, or made from its parts.
///
/// # Errors
/// When memory for a parameter or constant cannot be had.
pub fn encoded_to_proto(value: &EncodedValue) -> Result<EncodedValueProto, ModelError> {
    let raw_data = value.payload().to_bytes();
    let declared = value
        .declaration()
        .and_then(Declaration::get::<EncodedValueProto>);
    if let Some(declared) = declared {
        return Ok(EncodedValueProto {
            raw_data,
            ..declared.clone()
        });
    }
    let layout = match value.encoding() {
        Encoding::Affine(affine) => Layout::Affine(Box::new(affine_to_proto(affine)?)),
        Encoding::Struct(ty) => Layout::StructType(struct_type_to_proto(ty)?),
        other => {
            let path = Path::root("encoded_value");
            return Err(path.refused("an affine or structured encoding", format!("{other:?}")));
        }
    };
    Ok(EncodedValueProto {
        logical_type: value.logical().map(|(dtype, shape)| TypeProto {
            denotation: None,
            value: Some(tensor_type(dtype, shape)),
        }),
        raw_data,
        parameter_ref: value.parameters().map(|set| set.name().to_string()),
        layout: Some(layout),
        ..EncodedValueProto::default()
    })
}

fn affine_to_proto(affine: &Affine) -> Result<AffineLayoutProto, ModelError> {
    Ok(AffineLayoutProto {
        storage_type: (!affine.inferred).then(|| affine.storage.to_onnx()),
        signed_storage: affine.inferred.then(|| affine.storage_is_signed()),
        scale: Some(tensor_to_proto(&affine.scale)?),
        zero_point: affine
            .zero_point
            .as_ref()
            .map(tensor_to_proto)
            .transpose()?,
        axis: affine.axis.and_then(|axis| axis.try_into().ok()),
        block_size: affine.block_size.map(|block| block as u64),
    })
}
