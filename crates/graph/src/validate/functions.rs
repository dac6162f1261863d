//! Model-local functions, each by itself.

use super::attributes::{self, Declared};
use super::{Context, Opsets, operators, scope};
use crate::error::ModelError;
use crate::path::{Path, Step};
use refeed_proto::{FunctionProto, ModelProto};
use std::collections::HashSet;

/// More functions are refused by the checker.
const FUNCTION_LIMIT: u64 = 10_000;

/// Checks the functions of a model.
pub(super) fn check(
    model: &ModelProto,
    opsets: &Opsets,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let options = context.rules.checker();
    if options.is_some() {
        check_number(model)?;
    }
    // A domain that only functions import has the version of the first of them.
    let mut versions = opsets.clone();
    for import in model
        .functions
        .iter()
        .flat_map(|function| &function.opset_import)
    {
        versions.add(import.domain(), import.version());
    }
    for function in &model.functions {
        let at = Path::MODEL.then(Step::Function(function));
        check_function(function, &at, context)?;
        if options.is_some_and(|options| !options.skip_opset_compatibility) {
            check_compatibility(function, &versions, &at)?;
        }
    }
    Ok(())
}

/// The nodes of a function mean the operators that the model's operator sets have.
pub(super) fn check_compatibility(
    function: &FunctionProto,
    versions: &Opsets,
    at: &Path<'_>,
) -> Result<(), ModelError> {
    let own = Opsets::new(at, &function.opset_import)?;
    for (index, node) in function.node.iter().enumerate() {
        let domain = node.domain();
        if let (Some(function), Some(model)) = (own.get(domain), versions.get(domain)) {
            operators::check_same_version(node, function, model, &at.node(index, node))?;
        }
    }
    Ok(())
}

/// Checks one function.
pub(super) fn check_function(
    function: &FunctionProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    if context.rules.is_checker() {
        check_domain(function, at, context)?;
    }
    let opsets = Opsets::new(at, &function.opset_import)?;
    check_values("input", &function.input, at)?;
    check_values("output", &function.output, at)?;
    let declared = check_attributes(function, at)?;
    for attribute in &function.attribute_proto {
        let at = at.key("attribute_proto", attribute.name());
        attributes::check(attribute, &at, Declared::Graph, context)?;
    }
    scope::check_function(
        function,
        at,
        Some(&opsets),
        Declared::Function(&declared),
        context,
    )
}

/// A model has a sane number of functions.
fn check_number(model: &ModelProto) -> Result<(), ModelError> {
    let got = model.functions.len() as u64;
    if got > FUNCTION_LIMIT {
        return Err(ModelError::Limit {
            at: Path::MODEL.field("functions").to_string(),
            what: "functions",
            limit: FUNCTION_LIMIT,
            got,
        });
    }
    Ok(())
}

/// A function states its domain, since IR version 8; it may be the empty one.
fn check_domain(
    function: &FunctionProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    if context.ir_version >= 8 && function.domain.is_none() {
        return Err(at.field("domain").refused("a domain", "none"));
    }
    Ok(())
}

/// Inputs have names, and each its own; so have outputs.
fn check_values(what: &'static str, names: &[String], at: &Path<'_>) -> Result<(), ModelError> {
    let mut seen = HashSet::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(ModelError::Unnamed {
                at: at.item(what, index).to_string(),
                what,
            });
        }
        if !seen.insert(name.as_str()) {
            return Err(ModelError::Duplicate {
                at: at.item(what, index).to_string(),
                what,
                name: name.clone(),
            });
        }
    }
    Ok(())
}

/// Attributes have names, and each its own, with a default or without.
fn check_attributes<'a>(
    function: &'a FunctionProto,
    at: &Path<'_>,
) -> Result<HashSet<&'a str>, ModelError> {
    let mut declared = HashSet::new();
    let defaults = function.attribute_proto.iter();
    let names = function
        .attribute
        .iter()
        .map(String::as_str)
        .chain(defaults.map(|attribute| attribute.name()));
    for name in names {
        if name.is_empty() {
            return Err(ModelError::Unnamed {
                at: at.to_string(),
                what: "attribute",
            });
        }
        if !declared.insert(name) {
            return Err(ModelError::Duplicate {
                at: at.to_string(),
                what: "attribute",
                name: name.to_string(),
            });
        }
    }
    Ok(declared)
}
