//! Nodes: everything about one that does not depend on other nodes.

use super::attributes::{self, Declared};
use super::{Context, Opsets, control_flow, operators};
use crate::error::ModelError;
use crate::path::Path;
use crate::schema::Arity;
use crate::{ops, place};
use refeed_proto::{FunctionProto, NodeProto};
use std::collections::HashSet;

/// Checks a node, except for the names of its inputs and the graphs nested in it.
pub(super) fn check(
    node: &NodeProto,
    at: &Path<'_>,
    opsets: Option<&Opsets>,
    declared: Declared<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    check_op_type(node, at)?;
    if context.rules.is_checker() {
        check_is_connected(node, at)?;
    }
    if let Some(opsets) = opsets {
        check_domain(node, opsets, at)?;
    }
    check_attribute_names(node, at)?;
    for attribute in &node.attribute {
        let at = at.key("attribute", attribute.name());
        attributes::check(attribute, &at, declared, context)?;
    }
    let functions = context.functions;
    let function =
        functions.and_then(|table| table.get(node.domain(), node.op_type(), node.overload()));
    match function {
        Some(function) => check_call(node, function, at)?,
        None => {
            if let (Some(options), Some(opsets)) = (context.rules.checker(), opsets) {
                operators::check(node, at, opsets, options)?;
            }
            if let Some(schema) = ops::schema(node.domain(), node.op_type()) {
                check_arity(node, at, schema.inputs, schema.outputs)?;
            }
        }
    }
    control_flow::check(node, at)
}

/// A node names its operator.
fn check_op_type(node: &NodeProto, at: &Path<'_>) -> Result<(), ModelError> {
    if node.op_type().is_empty() {
        return Err(ModelError::Unnamed {
            at: at.to_string(),
            what: "the operator",
        });
    }
    Ok(())
}

/// A node reads or writes something.
fn check_is_connected(node: &NodeProto, at: &Path<'_>) -> Result<(), ModelError> {
    if node.input.is_empty() && node.output.is_empty() {
        return Err(at.refused("an input or an output", "neither"));
    }
    Ok(())
}

/// The operator set of a node's operator is imported.
fn check_domain(node: &NodeProto, opsets: &Opsets, at: &Path<'_>) -> Result<(), ModelError> {
    if opsets.get(node.domain()).is_none() {
        return Err(ModelError::DomainNotImported {
            at: at.to_string(),
            domain: place::shown_domain(node.domain()),
            imported: opsets.shown(),
        });
    }
    Ok(())
}

/// A node has each attribute once.
fn check_attribute_names(node: &NodeProto, at: &Path<'_>) -> Result<(), ModelError> {
    let mut names = HashSet::with_capacity(node.attribute.len());
    for attribute in &node.attribute {
        let name = attribute.name();
        if !names.insert(name) && !name.is_empty() {
            return Err(ModelError::Duplicate {
                at: at.to_string(),
                what: "attribute",
                name: name.to_string(),
            });
        }
    }
    Ok(())
}

/// A call may leave out inputs from the end, and outputs that it does not need.
fn check_call(node: &NodeProto, function: &FunctionProto, at: &Path<'_>) -> Result<(), ModelError> {
    let up_to = |count| Arity::between(0, count);
    check_arity(
        node,
        at,
        up_to(function.input.len()),
        up_to(function.output.len()),
    )
}

/// A node has the inputs and outputs that its operator takes, as far as every version of it agrees.
fn check_arity(
    node: &NodeProto,
    at: &Path<'_>,
    inputs: Arity,
    outputs: Arity,
) -> Result<(), ModelError> {
    for (role, names, arity) in [
        ("inputs", &node.input, inputs),
        ("outputs", &node.output, outputs),
    ] {
        // Empty names at the end are positions that are not there.
        let count = names
            .iter()
            .rposition(|name| !name.is_empty())
            .map_or(0, |last| last + 1);
        let required = names
            .iter()
            .take(arity.min)
            .filter(|name| !name.is_empty())
            .count();
        // Required inputs must be named. Outputs may be skipped when nothing needs them.
        let short = role == "inputs" && required < arity.min;
        if count > arity.max || short {
            let expected = match (arity.min, arity.max) {
                (min, max) if min == max => min.to_string(),
                (min, usize::MAX) => format!("at least {min}"),
                (min, max) => format!("{min} to {max}"),
            };
            return Err(ModelError::Arity {
                at: at.to_string(),
                role,
                expected,
                got: if short { required } else { count },
            });
        }
    }
    Ok(())
}
