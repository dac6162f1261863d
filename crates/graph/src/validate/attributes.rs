//! Attributes: one payload, of the type that the attribute states.

use super::scope::Context;
use super::tensors;
use crate::error::ModelError;
use crate::load::shown;
use refeed_proto::AttributeProto;
use refeed_proto::attribute_proto::AttributeType;
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

/// Checks one attribute. `declared` holds the attributes of the function that the node belongs to, if it does.
pub(super) fn check(
    attribute: &AttributeProto,
    at: &dyn Fn() -> String,
    declared: Option<&HashSet<&str>>,
    context: &Context<'_, '_>,
) -> Result<(), ModelError> {
    let name = || attribute.name().to_string();
    let fault = |expected: String, got: String| ModelError::Attribute {
        at: at(),
        name: name(),
        expected,
        got,
    };
    if attribute.name().is_empty() {
        return Err(ModelError::Unnamed {
            at: at(),
            what: "attribute",
        });
    }
    let set: Vec<AttributeType> = payloads(attribute)
        .into_iter()
        .filter_map(|(kind, is_set)| is_set.then_some(kind))
        .collect();
    let number = attribute.r#type.unwrap_or(0);
    let kind = AttributeType::try_from(number)
        .map_err(|_| fault("an attribute type".to_string(), number.to_string()))?;

    if let Some(reference) = attribute
        .ref_attr_name
        .as_deref()
        .filter(|reference| !reference.is_empty())
    {
        let refused = |why: String| ModelError::Reference {
            at: at(),
            name: name(),
            reference: reference.to_string(),
            why,
        };
        let Some(declared) = declared else {
            return Err(refused(
                "which only nodes of function bodies may do".to_string(),
            ));
        };
        if !declared.contains(reference) {
            return Err(refused("which the function does not declare".to_string()));
        }
        if !set.is_empty() {
            return Err(refused("and has a value of its own".to_string()));
        }
        if kind == AttributeType::Undefined && context.typed_attributes {
            return Err(fault("a type".to_string(), "none".to_string()));
        }
        return Ok(());
    }

    match (kind, set.as_slice()) {
        (AttributeType::Undefined, [_]) if !context.typed_attributes => {}
        (AttributeType::Undefined, _) => {
            return Err(fault("a type".to_string(), "none".to_string()));
        }
        (kind, [one]) if kind == *one => {}
        // Scalars and lists that are empty or 0 may be left out of the wire.
        (kind, []) if !is_message(kind) => {}
        (kind, []) => {
            return Err(fault(
                kind.as_str_name().to_string(),
                "no value".to_string(),
            ));
        }
        (kind, set) => {
            let got: Vec<&str> = set.iter().map(AttributeType::as_str_name).collect();
            return Err(fault(
                format!("one value of type {}", kind.as_str_name()),
                got.join(" and "),
            ));
        }
    }
    let place = || format!("{} attribute {}", at(), shown(attribute.name()));
    for tensor in attribute.t.as_deref().into_iter().chain(&attribute.tensors) {
        tensors::check_dense(tensor, context.external)?;
    }
    for sparse in attribute
        .sparse_tensor
        .as_deref()
        .into_iter()
        .chain(&attribute.sparse_tensors)
    {
        tensors::check_sparse(sparse, &place(), context.external)?;
    }
    Ok(())
}

fn is_message(kind: AttributeType) -> bool {
    use AttributeType as T;
    matches!(kind, T::Tensor | T::Graph | T::SparseTensor | T::TypeProto)
}
