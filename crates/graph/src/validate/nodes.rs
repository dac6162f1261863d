//! Nodes: everything about one that does not depend on other nodes.

use super::attributes::{self, Declared};
use super::{Context, Opsets, control_flow, operators};
use crate::error::ModelError;
use crate::path::Path;
use crate::schema::{Arity, OpSchema};
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
        None => check_operator(node, at, opsets, context)?,
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

/// A node is one of its operator, as far as the operator is known.
fn check_operator(
    node: &NodeProto,
    at: &Path<'_>,
    opsets: Option<&Opsets>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    if let (Some(options), Some(opsets)) = (context.rules.checker(), opsets) {
        operators::check(node, at, opsets, options)?;
    }
    if let Some(schema) = ops::schema(node.domain(), node.op_type()) {
        check_arity(node, schema, at)?;
        check_required_inputs(node, schema, at, opsets)?;
    }
    Ok(())
}

/// A node has as many inputs and outputs as some version of its operator takes.
fn check_arity(node: &NodeProto, schema: &OpSchema, at: &Path<'_>) -> Result<(), ModelError> {
    match schema.arity_fault(node) {
        None => Ok(()),
        Some(fault) => Err(ModelError::Arity {
            at: at.to_string(),
            role: fault.what,
            expected: fault.expected.to_string(),
            got: fault.got,
        }),
    }
}

/// Inputs that the imported version of the operator asks for are named.
fn check_required_inputs(
    node: &NodeProto,
    schema: &OpSchema,
    at: &Path<'_>,
    opsets: Option<&Opsets>,
) -> Result<(), ModelError> {
    let version = opsets.and_then(|opsets| opsets.get(node.domain()));
    let signature =
        operators::signature(node.domain(), node.op_type(), version.unwrap_or(i64::MAX));
    let required = |index: usize| match &signature {
        Some(signature) => signature.requires_input(index),
        None => index < schema.inputs.min,
    };
    for (index, name) in node.input.iter().enumerate() {
        if name.is_empty() && required(index) {
            return Err(at.item("input", index).refused(
                "a name, as the operator asks for this input",
                "an empty one",
            ));
        }
    }
    Ok(())
}

/// A call may leave out inputs from the end, and outputs that it does not need.
fn check_call(node: &NodeProto, function: &FunctionProto, at: &Path<'_>) -> Result<(), ModelError> {
    for (role, names, most) in [
        ("inputs", &node.input, function.input.len()),
        ("outputs", &node.output, function.output.len()),
    ] {
        // Empty names at the end are positions that are not there.
        let last = names.iter().rposition(|name| !name.is_empty());
        let got = last.map_or(0, |last| last + 1);
        if got > most {
            return Err(ModelError::Arity {
                at: at.to_string(),
                role,
                expected: Arity::between(0, most).to_string(),
                got,
            });
        }
    }
    Ok(())
}
