//! The size of a structured encoding: bits laid side by side, with no padding anywhere.
//!
//! A tensor takes its elements, an array its elements, a bit packing its components, a structure its typed fields; a
//! constant field takes none, because the type holds it. Other types have no fixed size.

use super::StructTypes;
use crate::error::FieldError;
use crate::path::{Path, Place, Step, Trail};
use crate::validate::types::{self, Dim, sizes};
use refeed_proto::struct_type_proto::Kind;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TypeProto};
use refeed_values::{DType, Extent};

enum Item<'a> {
    Type(&'a TypeProto),
    Struct(&'a StructTypeProto),
}

/// Adds up the leaves, each as often as the arrays around it say.
pub(super) fn of(
    declared: &StructTypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<Option<u64>, FieldError> {
    let mut trail = Trail::new(*at);
    let mut total = 0u64;
    let mut known = true;
    let mut stack = vec![(Item::Struct(declared), 1u64, Place::BASE)];
    while let Some((item, times, place)) = stack.pop() {
        let path = trail.path(place);
        let too_large = || path.fault("a size that fits in 64 bits", "a larger one");
        let leaf = match item {
            Item::Type(ty) => match &ty.value {
                Some(Value::TensorType(tensor)) => {
                    Some(tensor_bits(tensor, &path.field("tensor_type"))?)
                }
                Some(Value::StructType(declared)) => {
                    let place = trail.push(place, Step::Field("struct_type"));
                    stack.push((Item::Struct(declared), times, place));
                    None
                }
                _ => return Err(path.fault("a type of fixed size", types::kind(ty))),
            },
            Item::Struct(declared) => match &declared.kind {
                None => {
                    return Err(path.fault("a type of fixed size", types::struct_kind(declared)));
                }
                Some(Kind::TypeRef(id)) => match catalogue.entries.get(id) {
                    Some(entry) => match &entry.bits {
                        Ok(bits) => Some(*bits),
                        Err(_) => {
                            let got = format!("struct type {id}, which has none");
                            return Err(path.field("type_ref").fault("a type of fixed size", got));
                        }
                    },
                    None => {
                        known = false;
                        None
                    }
                },
                Some(Kind::BitPacking(packing)) => {
                    let widths = packing
                        .component
                        .iter()
                        .map(|part| u64::from(part.bit_width()));
                    let bits = widths.sum::<u64>().checked_mul(packing.dimension());
                    Some(bits.ok_or_else(too_large)?)
                }
                Some(Kind::Array(array)) => {
                    let times = times.checked_mul(array.dimension()).ok_or_else(too_large)?;
                    if let Some(element) = array.element_type.as_deref() {
                        let place = trail.push(place, Step::Field("array"));
                        let place = trail.push(place, Step::Field("element_type"));
                        stack.push((Item::Type(element), times, place));
                    }
                    None
                }
                Some(Kind::Structure(structure)) => {
                    let place = trail.push(place, Step::Field("structure"));
                    for (index, field) in structure.field.iter().enumerate() {
                        if let Some(Content::Type(ty)) = &field.content {
                            let step = Step::Named("field", index, field.name());
                            let place = trail.push(place, step);
                            let place = trail.push(place, Step::Field("type"));
                            stack.push((Item::Type(ty), times, place));
                        }
                    }
                    None
                }
            },
        };
        if let Some(bits) = leaf {
            let more = bits.checked_mul(times);
            total = more
                .and_then(|more| total.checked_add(more))
                .ok_or_else(|| at.fault("a size that fits in 64 bits", "a larger one"))?;
        }
    }
    Ok(known.then_some(total))
}

fn tensor_bits(tensor: &type_proto::Tensor, at: &Path<'_>) -> Result<u64, FieldError> {
    let number = tensor.elem_type.unwrap_or(0);
    let dtype = DType::from_onnx(number).filter(|&dtype| dtype != DType::String);
    let Some(dtype) = dtype else {
        let got = types::element_text(tensor.elem_type);
        return Err(at.field("elem_type").fault("elements of fixed size", got));
    };
    let at = at.field("shape");
    let Some(shape) = &tensor.shape else {
        return Err(at.fault("dimensions", "none"));
    };
    let mut dims = Vec::with_capacity(shape.dim.len());
    for (axis, dim) in sizes(shape).enumerate() {
        match dim {
            Dim::Value(n) => dims.push(n),
            Dim::Symbol(_) | Dim::Unknown => {
                let at = at.item("dim", axis);
                return Err(at.fault("a number", "a dimension that is not known"));
            }
        }
    }
    let (extent, _) = Extent::from_dims(dtype, &dims)
        .map_err(|source| at.fault("dimensions with a size", source.to_string()))?;
    let elements = u64::try_from(extent.elements()).ok();
    elements
        .and_then(|elements| elements.checked_mul(dtype.bits() as u64))
        .ok_or_else(|| at.fault("a size that fits in 64 bits", types::tensor_text(tensor)))
}
