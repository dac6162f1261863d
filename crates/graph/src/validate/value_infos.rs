//! Declared values: graph inputs, graph outputs, and what `value_info` says of values between them.

use super::Context;
use super::types::{self, Asked};
use crate::error::ModelError;
use crate::path::Path;
use refeed_proto::type_proto::Value;
use refeed_proto::{GraphProto, ValueInfoProto};
use std::collections::HashSet;

/// Checks the declarations of a graph. Nested graphs may leave types out.
pub(super) fn check(
    graph: &GraphProto,
    root: bool,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    for (field, values) in [("input", &graph.input), ("output", &graph.output)] {
        if root {
            check_names(field, values, at)?;
        }
        for (index, value) in values.iter().enumerate() {
            check_value(value, root, &at.named(field, index, value.name()), context)?;
        }
    }
    for (index, value) in graph.value_info.iter().enumerate() {
        let at = at.named("value_info", index, value.name());
        check_struct_types(value, &at, context)?;
    }
    Ok(())
}

/// Checks one input or output.
pub(super) fn check_value(
    value: &ValueInfoProto,
    root: bool,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    check_name(value, at)?;
    if !root {
        return check_struct_types(value, at, context);
    }
    let at = at.field("type");
    let Some(ty) = &value.r#type else {
        return Err(at.refused("a type", "none"));
    };
    types::check_declared(ty, &at, context.catalogue)?;
    if context.rules.asks_for_shapes() {
        check_shape_is_there(ty.value.as_ref(), &at)?;
    }
    if context.rules.is_checker() {
        check_opaque_name(ty.value.as_ref(), &at)?;
    }
    Ok(())
}

/// Every value has a name.
fn check_name(value: &ValueInfoProto, at: &Path<'_>) -> Result<(), ModelError> {
    if value.name().is_empty() {
        return Err(ModelError::Unnamed {
            at: at.to_string(),
            what: "the value",
        });
    }
    Ok(())
}

/// No two inputs of the root graph have one name, and no two outputs.
fn check_names(
    field: &'static str,
    values: &[ValueInfoProto],
    at: &Path<'_>,
) -> Result<(), ModelError> {
    let mut names = HashSet::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let name = value.name();
        if !name.is_empty() && !names.insert(name) {
            return Err(ModelError::Duplicate {
                at: at.item(field, index).to_string(),
                what: if field == "input" {
                    "graph input"
                } else {
                    "graph output"
                },
                name: name.to_string(),
            });
        }
    }
    Ok(())
}

/// Tensors of the root graph's inputs and outputs state a shape, be it of unknown dimensions.
fn check_shape_is_there(ty: Option<&Value>, at: &Path<'_>) -> Result<(), ModelError> {
    let (field, shape) = match ty {
        Some(Value::TensorType(tensor)) => ("tensor_type", &tensor.shape),
        Some(Value::SparseTensorType(sparse)) => ("sparse_tensor_type", &sparse.shape),
        _ => return Ok(()),
    };
    match shape {
        Some(_) => Ok(()),
        None => Err(at.field(field).field("shape").refused("a shape", "none")),
    }
}

/// Opaque types have a name.
fn check_opaque_name(ty: Option<&Value>, at: &Path<'_>) -> Result<(), ModelError> {
    match ty {
        Some(Value::OpaqueType(opaque)) if opaque.name().is_empty() => Err(at
            .field("opaque_type")
            .field("name")
            .refused("a name", "an empty one")),
        _ => Ok(()),
    }
}

/// What is said of a struct type is right, wherever it is said.
fn check_struct_types(
    value: &ValueInfoProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let Some(ty) = &value.r#type else {
        return Ok(());
    };
    let found = types::walk_type(ty, &at.field("type"), Asked::StructTypes)?;
    Ok(context.catalogue.check(&found)?)
}
