//! What a declared paged cache says of its pages.
//!
//! A cache is a structure of one field `blocks`, a sequence of pages; a page has `start` and `length`, INT64 scalars,
//! and `key` and `value`, tensors of `[batch, heads, capacity, width]`. Each of these types may stand in place or refer
//! to the model's catalogue. A structured type without a kind says nothing, and is a cache as well.

use crate::schema::{InferError, Inference};
use crate::types::{Dim, TensorType, ValueType};
use refeed_proto::StructTypeProto;
use refeed_proto::struct_type_proto::structure::{Field, field::Content};
use refeed_proto::struct_type_proto::{Kind, Structure};
use refeed_values::DType;

/// Element types of what attention takes and gives.
pub(super) const FLOATS: [DType; 3] = [DType::Float, DType::Float16, DType::Bfloat16];

/// The declared types of the keys and values in the pages.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) key: TensorType,
    pub(super) value: TensorType,
}

fn refused<T>(text: String) -> Result<T, InferError> {
    Err(InferError::StructType(text))
}

/// The structure that a declaration is; `None` when it has no kind or its catalogue is not at hand.
///
/// # Errors
/// When it is of another kind.
fn structure<'t>(
    cx: &Inference<'t>,
    declared: &'t StructTypeProto,
    what: &str,
) -> Result<Option<&'t Structure>, InferError> {
    let Some(resolved) = cx.resolve_struct(declared)? else {
        return Ok(None);
    };
    match &resolved.kind {
        None => Ok(None),
        Some(Kind::Structure(structure)) => Ok(Some(structure)),
        Some(Kind::Array(_)) => refused(format!("{what}: expected a structure, got an array")),
        Some(Kind::BitPacking(_)) => {
            refused(format!("{what}: expected a structure, got a bit packing"))
        }
        // A catalogue holds no references.
        Some(Kind::TypeRef(id)) => refused(format!(
            "{what}: expected a structure, got the reference {id}"
        )),
    }
}

/// The type of a field.
fn field_type(field: &Field) -> Result<ValueType, InferError> {
    match &field.content {
        Some(Content::Type(ty)) => Ok(ValueType::from_proto(Some(ty))),
        _ => refused(format!("field `{}`: expected a type", field.name())),
    }
}

fn names(structure: &Structure) -> Vec<&str> {
    structure.field.iter().map(Field::name).collect()
}

/// The pages of the cache at an input; `None` when its declaration does not say.
///
/// # Errors
/// When the input is no structured type, or one that is no paged cache.
pub(super) fn page(cx: &Inference<'_>, index: usize) -> Result<Option<Page>, InferError> {
    let declared = match cx.input_type(index) {
        Some(ValueType::Struct(declared)) => declared,
        _ => return Err(cx.unexpected_kind(index, "a struct")),
    };
    let Some(cache) = structure(cx, declared, "the cache")? else {
        return Ok(None);
    };
    let [blocks] = &cache.field[..] else {
        return refused(format!(
            "the cache: expected the field `blocks` alone, got {:?}",
            names(cache)
        ));
    };
    if blocks.name() != "blocks" {
        return refused(format!(
            "the cache: expected the field `blocks`, got `{}`",
            blocks.name()
        ));
    }
    let pages = field_type(blocks)?;
    let element = match &pages {
        ValueType::Sequence(element) => element,
        other => {
            return refused(format!(
                "field `blocks`: expected a sequence of structs, got {other}"
            ));
        }
    };
    match &**element {
        ValueType::Unset => Ok(None),
        ValueType::Struct(declared) => page_of(cx, declared),
        other => refused(format!(
            "field `blocks`: expected a sequence of structs, got a sequence of {other}"
        )),
    }
}

fn page_of(cx: &Inference<'_>, declared: &StructTypeProto) -> Result<Option<Page>, InferError> {
    let Some(resolved) = cx.resolve_struct(declared)? else {
        return Ok(None);
    };
    let fields = match &resolved.kind {
        None => return Ok(None),
        Some(Kind::Structure(structure)) => structure,
        Some(_) => return refused("the pages: expected a structure".to_string()),
    };
    let [start, length, key, value] = &fields.field[..] else {
        return refused(format!(
            "the pages: expected the fields start, length, key, value, got {:?}",
            names(fields)
        ));
    };
    if names(fields) != ["start", "length", "key", "value"] {
        return refused(format!(
            "the pages: expected the fields start, length, key, value, got {:?}",
            names(fields)
        ));
    }
    for field in [start, length] {
        let ty = field_type(field)?;
        let fits = ty.tensor().is_some_and(|tensor| {
            tensor.dtype.is_none_or(|dtype| dtype == DType::Int64)
                && tensor.rank().is_none_or(|rank| rank == 0)
        });
        if !fits {
            return refused(format!(
                "field `{}`: expected an INT64 scalar, got {ty}",
                field.name()
            ));
        }
    }
    Ok(Some(Page {
        key: payload(key)?,
        value: payload(value)?,
    }))
}

/// The type of keys or values. They are declared as FLOAT; FLOAT16 and BFLOAT16 are how a page may be kept.
fn payload(field: &Field) -> Result<TensorType, InferError> {
    let ty = field_type(field)?;
    let fits = ty.tensor().is_some_and(|tensor| {
        tensor.dtype.is_none_or(|dtype| dtype == DType::Float)
            && tensor.rank().is_none_or(|rank| rank == 4)
    });
    match ty {
        ValueType::Tensor(tensor) if fits => Ok(tensor),
        other => refused(format!(
            "field `{}`: expected FLOAT of 4 axes, got {other}",
            field.name()
        )),
    }
}

/// One dimension of keys or values, unknown when their shape is not declared.
pub(super) fn dim(payload: &TensorType, axis: usize) -> Dim {
    let shape = payload.shape.as_ref();
    shape
        .and_then(|shape| shape.get(axis))
        .cloned()
        .unwrap_or(Dim::Unknown)
}
