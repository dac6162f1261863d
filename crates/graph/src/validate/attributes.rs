//! Attributes: one payload, of the type that the attribute states.

use super::types::{self, Asked};
use super::{Context, sparse_tensors, tensors};
use crate::error::{FieldError, ModelError};
use crate::path::Path;
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{AttributeProto, TypeProto};
use std::collections::HashSet;

/// The payload fields with their types, and whether each is set.
fn payloads(attribute: &AttributeProto) -> [(AttributeType, bool); 14] {
    use AttributeType as T;
    [
        (T::Float, attribute.f.is_some()),
        (T::Int, attribute.i.is_some()),
        (T::String, attribute.s.is_some()),
        (T::Tensor, attribute.t.is_some()),
        (T::Graph, attribute.g.is_some()),
        (T::SparseTensor, attribute.sparse_tensor.is_some()),
        (T::TypeProto, attribute.tp.is_some()),
        (T::Floats, !attribute.floats.is_empty()),
        (T::Ints, !attribute.ints.is_empty()),
        (T::Strings, !attribute.strings.is_empty()),
        (T::Tensors, !attribute.tensors.is_empty()),
        (T::Graphs, !attribute.graphs.is_empty()),
        (T::SparseTensors, !attribute.sparse_tensors.is_empty()),
        (T::TypeProtos, !attribute.type_protos.is_empty()),
    ]
}

/// Attributes that nodes of a body may refer to.
#[derive(Clone, Copy)]
pub(crate) enum Declared<'a> {
    /// The body of a graph: none.
    Graph,
    /// The body of a function that declares these.
    Function(&'a HashSet<&'a str>),
    /// Apart from any body: whichever.
    Unknown,
}

/// Checks one attribute, except for graphs in it.
pub(crate) fn check(
    attribute: &AttributeProto,
    at: &Path<'_>,
    declared: Declared<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    check_name(attribute, at)?;
    let kind = check_type(attribute, at, context)?;
    let set: Vec<AttributeType> = payloads(attribute)
        .into_iter()
        .filter_map(|(kind, is_set)| is_set.then_some(kind))
        .collect();
    match attribute.ref_attr_name() {
        "" => check_payload(kind, &set, at)?,
        reference => {
            check_reference(attribute, reference, declared, at)?;
            check_reference_alone(&set, at)?;
        }
    }
    check_tensors(attribute, at, context)?;
    check_types(attribute, at, context)
}

/// Attributes have a name.
fn check_name(attribute: &AttributeProto, at: &Path<'_>) -> Result<(), ModelError> {
    if attribute.name().is_empty() {
        return Err(ModelError::Unnamed {
            at: at.to_string(),
            what: "attribute",
        });
    }
    Ok(())
}

/// Attributes state their type, since IR version 2.
fn check_type(
    attribute: &AttributeProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<AttributeType, FieldError> {
    let at = at.field("type");
    let number = attribute.r#type.unwrap_or(0);
    match AttributeType::try_from(number) {
        Ok(AttributeType::Undefined) if context.ir_version >= 2 => Err(at.fault("a type", "none")),
        Ok(kind) => Ok(kind),
        Err(_) => Err(at.fault("an attribute type", number.to_string())),
    }
}

/// There is one value, and it is of the type that is stated.
fn check_payload(
    kind: AttributeType,
    set: &[AttributeType],
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let names = |set: &[AttributeType]| {
        let names: Vec<&str> = set.iter().map(AttributeType::as_str_name).collect();
        names.join(" and ")
    };
    match (kind, set) {
        (AttributeType::Undefined, [_]) => Ok(()),
        (AttributeType::Undefined, []) => Err(at.fault("a value", "none")),
        (AttributeType::Undefined, set) => Err(at.fault("one value", names(set))),
        (kind, [one]) if kind == *one => Ok(()),
        // Scalars and lists that are empty or 0 may be left out of the wire.
        (kind, []) if !is_message(kind) => Ok(()),
        (kind, []) => Err(at.fault(kind.as_str_name(), "no value")),
        (kind, set) => Err(at.fault(
            format!("one value of type {}", kind.as_str_name()),
            names(set),
        )),
    }
}

fn is_message(kind: AttributeType) -> bool {
    use AttributeType as T;
    matches!(kind, T::Tensor | T::Graph | T::SparseTensor | T::TypeProto)
}

/// Only bodies of functions refer to attributes, and only to those of the function.
fn check_reference(
    attribute: &AttributeProto,
    reference: &str,
    declared: Declared<'_>,
    at: &Path<'_>,
) -> Result<(), ModelError> {
    let refused = |why: &str| {
        Err(ModelError::Reference {
            at: at.to_string(),
            name: attribute.name().to_string(),
            reference: reference.to_string(),
            why: why.to_string(),
        })
    };
    match declared {
        Declared::Graph => refused("which only nodes of function bodies may do"),
        Declared::Function(names) if !names.contains(reference) => {
            refused("which the function does not declare")
        }
        _ => Ok(()),
    }
}

/// An attribute that refers to another has no value of its own.
fn check_reference_alone(set: &[AttributeType], at: &Path<'_>) -> Result<(), FieldError> {
    match set {
        [] => Ok(()),
        [kind, ..] => Err(at.field("ref_attr_name").fault(
            "no value beside a reference to an attribute",
            kind.as_str_name(),
        )),
    }
}

fn check_tensors(
    attribute: &AttributeProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    if let Some(tensor) = &attribute.t {
        tensors::check_dense(tensor, &at.field("t"), context)?;
    }
    for (index, tensor) in attribute.tensors.iter().enumerate() {
        tensors::check_dense(tensor, &at.item("tensors", index), context)?;
    }
    if let Some(sparse) = &attribute.sparse_tensor {
        sparse_tensors::check(sparse, &at.field("sparse_tensor"), context)?;
    }
    for (index, sparse) in attribute.sparse_tensors.iter().enumerate() {
        sparse_tensors::check(sparse, &at.item("sparse_tensors", index), context)?;
    }
    Ok(())
}

fn check_types(
    attribute: &AttributeProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let check = |ty: &TypeProto, at: &Path<'_>| {
        let found = types::walk_type(ty, at, Asked::StructTypes)?;
        context.catalogue.check(&found)
    };
    if let Some(ty) = &attribute.tp {
        check(ty, &at.field("tp"))?;
    }
    for (index, ty) in attribute.type_protos.iter().enumerate() {
        check(ty, &at.item("type_protos", index))?;
    }
    Ok(())
}
