//! The rules of single messages of a declared type.

use super::Role;
use super::text::{Dim, element_text, sizes};
use crate::error::FieldError;
use crate::load::shown;
use crate::path::Path;
use crate::validate::tensors;
use refeed_proto::struct_type_proto::{Array, BitPacking, Structure};
use refeed_proto::tensor_proto::DataType;
use refeed_proto::{StructTypeProto, TensorProto, TensorShapeProto};
use refeed_values::DType;
use std::collections::HashSet;

/// Tensors name the type of their elements.
pub(super) fn check_element(number: Option<i32>, at: &Path<'_>) -> Result<DType, FieldError> {
    let number = number.unwrap_or(0);
    DType::from_onnx(number).ok_or_else(|| at.fault("an element type", number.to_string()))
}

/// Maps are by integers or by STRING.
pub(super) fn check_map_key(number: Option<i32>, at: &Path<'_>) -> Result<(), FieldError> {
    use DataType::{Int8, Int16, Int32, Int64, String, Uint8, Uint16, Uint32, Uint64};
    let key = DataType::try_from(number.unwrap_or(0)).unwrap_or(DataType::Undefined);
    if matches!(
        key,
        Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64 | String
    ) {
        Ok(())
    } else {
        Err(at.fault(
            "map keys of an integer type or STRING",
            element_text(number),
        ))
    }
}

/// Entries of the catalogue have an identity that is not 0; nothing else has one.
pub(super) fn check_identity(
    declared: &StructTypeProto,
    role: Role,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let at = at.field("type_id");
    match (role, declared.type_id) {
        (Role::Entry, None | Some(0)) => Err(at.fault("a nonzero identity", "0")),
        (Role::Declared | Role::Layout, Some(id)) => {
            Err(at.fault("none outside the catalogue of the model", id.to_string()))
        }
        _ => Ok(()),
    }
}

/// Only a struct type inside a `TypeProto` may leave its kind out, and then it says how nothing is coded.
pub(super) fn check_category(
    declared: &StructTypeProto,
    role: Role,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    if role != Role::Declared {
        return Err(at.fault("an array, a structure or a bit packing", "no kind"));
    }
    if declared.decoder.is_some() || declared.encoder.is_some() {
        return Err(at.fault(
            "no decoder and no encoder on a struct type of no kind",
            "one",
        ));
    }
    Ok(())
}

/// A reference names an entry, and says nothing else.
pub(super) fn check_reference(
    declared: &StructTypeProto,
    id: u64,
    role: Role,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    if role == Role::Entry {
        return Err(at.fault(
            "an array, a structure or a bit packing",
            "a reference to a struct type",
        ));
    }
    let at = at.field("type_ref");
    if id == 0 {
        return Err(at.fault("a nonzero identity", "0"));
    }
    let more = [
        ("a decoder", declared.decoder.is_some()),
        ("an encoder", declared.encoder.is_some()),
        ("a name", declared.name.is_some()),
        ("a doc string", declared.doc_string.is_some()),
        ("metadata", !declared.metadata_props.is_empty()),
    ];
    match more.iter().find(|(_, there)| *there) {
        Some((what, _)) => Err(at.fault("nothing beside a reference", *what)),
        None => Ok(()),
    }
}

/// Arrays have elements.
pub(super) fn check_array(array: &Array, at: &Path<'_>) -> Result<(), FieldError> {
    if array.dimension() == 0 {
        return Err(at.field("dimension").fault("1 or more", "0"));
    }
    Ok(())
}

/// Bit packings have components, each with a name of its own and 1 to 64 bits.
pub(super) fn check_bit_packing(packing: &BitPacking, at: &Path<'_>) -> Result<(), FieldError> {
    if packing.component.is_empty() {
        return Err(at.field("component").fault("at least one", "none"));
    }
    if packing.dimension() == 0 {
        return Err(at.field("dimension").fault("1 or more", "0"));
    }
    let mut names = HashSet::with_capacity(packing.component.len());
    for (index, component) in packing.component.iter().enumerate() {
        let at = at.named("component", index, component.name());
        check_name(component.name(), &mut names, &at)?;
        let bits = component.bit_width();
        if !(1..=64).contains(&bits) {
            return Err(at
                .field("bit_width")
                .fault("1 to 64 bits", bits.to_string()));
        }
    }
    Ok(())
}

/// Structures have fields, each with a name of its own.
pub(super) fn check_field_names(structure: &Structure, at: &Path<'_>) -> Result<(), FieldError> {
    if structure.field.is_empty() {
        return Err(at.field("field").fault("at least one", "none"));
    }
    let mut names = HashSet::with_capacity(structure.field.len());
    for (index, field) in structure.field.iter().enumerate() {
        let at = at.named("field", index, field.name());
        check_name(field.name(), &mut names, &at)?;
    }
    Ok(())
}

fn check_name<'a>(
    name: &'a str,
    names: &mut HashSet<&'a str>,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let at = at.field("name");
    if name.is_empty() {
        return Err(at.fault("a name", "an empty one"));
    }
    if !names.insert(name) {
        return Err(at.fault(
            "a name of its own",
            format!("`{}` for the second time", shown(name)),
        ));
    }
    Ok(())
}

/// Constants of a structure are inline and have exactly the elements that they declare.
pub(super) fn check_constant(constant: &TensorProto, at: &Path<'_>) -> Result<(), FieldError> {
    tensors::check_inline(constant, at)
}

/// Sizes of axes are not negative.
pub(crate) fn check_shape(
    shape: Option<&TensorShapeProto>,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let dims = shape.into_iter().flat_map(sizes);
    for (axis, dim) in dims.enumerate() {
        if let Dim::Value(n) = dim
            && n < 0
        {
            return Err(at
                .item("dim", axis)
                .fault("a size of 0 or more", n.to_string()));
        }
    }
    Ok(())
}
