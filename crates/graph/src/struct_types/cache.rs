//! Which struct types declare a paged cache.
//!
//! A struct type of no kind stands for any cache. One with a layout has a single field `blocks`, a sequence of pages, and
//! a page has exactly the fields `start` and `length`, INT64 scalars, and `key` and `value`, FLOAT tensors
//! `[batch, heads, capacity, width]`. A shape may be left out. Pages may hold their elements in other formats: the
//! declaration is of what they mean.

use super::StructTypes;
use crate::error::FieldError;
use crate::path::Path;
use crate::validate::types;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::struct_type_proto::{Kind, Structure};
use refeed_proto::tensor_proto::DataType;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TensorShapeProto, TypeProto};

/// What a declaration says of the pages of a cache.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheDeclaration<'a> {
    /// Shape of every key; `None` when nothing is said.
    pub(crate) key: Option<&'a TensorShapeProto>,
    /// Shape of every value.
    pub(crate) value: Option<&'a TensorShapeProto>,
}

const PAGE: [&str; 4] = ["start", "length", "key", "value"];

/// Reads a declaration of a cache; `Ok(None)` when it refers to an entry that is taken on trust.
pub(crate) fn declaration<'a>(
    declared: &'a StructTypeProto,
    at: &Path<'_>,
    catalogue: &'a StructTypes,
) -> Result<Option<CacheDeclaration<'a>>, FieldError> {
    let Some(declared) = resolve(declared, at, catalogue)? else {
        return Ok(None);
    };
    let structure = match &declared.kind {
        None => return Ok(Some(CacheDeclaration::default())),
        Some(Kind::Structure(structure)) => structure,
        Some(_) => {
            return Err(at.fault(
                "a paged cache: a structure with the field `blocks`",
                types::struct_kind(declared),
            ));
        }
    };
    let at = at.field("structure");
    let [ty] = fields(structure, ["blocks"], &at)?;
    let at = at.key("field", "blocks");
    let at = at.field("type");
    let Some(Value::SequenceType(blocks)) = &ty.value else {
        return Err(at.fault("a sequence of pages", types::kind(ty)));
    };
    let at = at.field("sequence_type");
    let at = at.field("elem_type");
    let page = match blocks.elem_type.as_deref() {
        Some(TypeProto {
            value: Some(Value::StructType(page)),
            ..
        }) => page,
        Some(other) => return Err(at.fault("a page: a structure", types::kind(other))),
        None => return Err(at.fault("a page: a structure", "no type")),
    };
    let at = at.field("struct_type");
    let Some(page) = resolve(page, &at, catalogue)? else {
        return Ok(None);
    };
    let Some(Kind::Structure(page)) = &page.kind else {
        return Err(at.fault("a page: a structure", types::struct_kind(page)));
    };
    let at = at.field("structure");
    let [start, length, key, value] = fields(page, PAGE, &at)?;
    for (name, ty) in [("start", start), ("length", length)] {
        check_number(ty, &at.key("field", name))?;
    }
    Ok(Some(CacheDeclaration {
        key: payload(key, &at.key("field", "key"))?,
        value: payload(value, &at.key("field", "value"))?,
    }))
}

/// Whether a declaration is of a cache with a layout.
pub(crate) fn is_declared_cache(declared: &StructTypeProto, catalogue: &StructTypes) -> bool {
    declared.kind.is_some()
        && declaration(declared, &Path::root("struct_type"), catalogue)
            .is_ok_and(|declaration| declaration.is_some())
}

fn resolve<'a>(
    declared: &'a StructTypeProto,
    at: &Path<'_>,
    catalogue: &'a StructTypes,
) -> Result<Option<&'a StructTypeProto>, FieldError> {
    match (&declared.kind, catalogue.resolve(declared)) {
        (_, Some(found)) => Ok(Some(found)),
        (Some(Kind::TypeRef(id)), None) if !catalogue.is_deferred() => {
            Err(at.field("type_ref").fault(
                "the identity of an entry of the model's struct_types",
                id.to_string(),
            ))
        }
        _ => Ok(None),
    }
}

/// The types of a structure that has exactly these fields, in any order.
fn fields<'a, const N: usize>(
    structure: &'a Structure,
    names: [&'static str; N],
    at: &Path<'_>,
) -> Result<[&'a TypeProto; N], FieldError> {
    let expected = || format!("exactly the fields {}", names.join(", "));
    let got = || {
        let names = structure.field.iter().take(6).map(|field| {
            let name = field.name();
            crate::load::shown(name)
        });
        let mut names: Vec<String> = names.collect();
        if structure.field.len() > names.len() {
            names.push("...".to_string());
        }
        names.join(", ")
    };
    if structure.field.len() != N {
        return Err(at.fault(expected(), got()));
    }
    let mut types = Vec::with_capacity(N);
    for name in names {
        let Some(field) = structure.field.iter().find(|field| field.name() == name) else {
            return Err(at.fault(expected(), got()));
        };
        match &field.content {
            Some(Content::Type(ty)) => types.push(ty),
            Some(Content::Constant(_)) => {
                return Err(at.key("field", name).fault("a type", "a constant"));
            }
            None => return Err(at.key("field", name).fault("a type", "none")),
        }
    }
    types.try_into().map_err(|_| at.fault(expected(), got()))
}

fn tensor<'a>(
    ty: &'a TypeProto,
    element: DataType,
    at: &Path<'_>,
) -> Result<&'a type_proto::Tensor, FieldError> {
    let at = at.field("type");
    match &ty.value {
        Some(Value::TensorType(tensor)) if tensor.elem_type == Some(element as i32) => Ok(tensor),
        Some(Value::TensorType(tensor)) => Err(at.fault(
            format!("{} elements", element.as_str_name()),
            types::element_text(tensor.elem_type),
        )),
        _ => Err(at.fault(
            format!("a tensor of {}", element.as_str_name()),
            types::kind(ty),
        )),
    }
}

/// Start and length are INT64 scalars.
fn check_number(ty: &TypeProto, at: &Path<'_>) -> Result<(), FieldError> {
    let tensor = tensor(ty, DataType::Int64, at)?;
    match &tensor.shape {
        Some(shape) if !shape.dim.is_empty() => Err(at
            .field("type")
            .fault("a scalar", types::tensor_text(tensor))),
        _ => Ok(()),
    }
}

/// Keys and values are FLOAT, of four axes.
fn payload<'a>(
    ty: &'a TypeProto,
    at: &Path<'_>,
) -> Result<Option<&'a TensorShapeProto>, FieldError> {
    let tensor = tensor(ty, DataType::Float, at)?;
    match &tensor.shape {
        Some(shape) if shape.dim.len() != 4 => Err(at.field("type").fault(
            "four axes: batch, heads, capacity, width",
            types::tensor_text(tensor),
        )),
        shape => Ok(shape.as_ref()),
    }
}
