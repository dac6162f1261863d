//! Structural validation: names, topology, scopes, functions, operator sets, attributes, tensors, declarations.
//!
//! Everything here is linear in the size of the model and keeps its own stacks, so that no nesting of a file reaches the
//! thread's stack. Unknown operators are no fault: a session finds them, and inspection lists them. The elements of
//! tensors are not read; their sizes are compared with the dimensions.

mod attributes;
mod calls;
mod control_flow;
mod nesting;
mod opsets;
mod scope;
mod tensors;

pub(crate) use calls::check as check_calls;
pub(crate) use opsets::Opsets;

use crate::bindings::{self, Bindings, check_type};
use crate::error::ModelError;
use crate::functions::FunctionTable;
use crate::load::ExternalData;
use crate::place;
use crate::struct_types::StructTypes;
use refeed_proto::{FunctionProto, GraphProto, ModelProto, NodeProto};
use std::collections::HashSet;

/// Newest format that refeed reads.
pub const NEWEST_IR_VERSION: i64 = 14;
/// Graphs nested deeper are refused.
pub const NESTING_LIMIT: u64 = 64;
/// Functions that call each other deeper are refused.
pub const CALL_DEPTH_LIMIT: u64 = 100;
/// More nodes, with functions expanded, are refused.
pub const NODE_LIMIT: u64 = 1_000_000;

/// Holds the graphs nested in nodes to [`NESTING_LIMIT`], and to what may stand in them.
pub(crate) fn check_nesting(nodes: &[NodeProto]) -> Result<(), ModelError> {
    nesting::check_nodes(nodes, "")
}

/// What validation learned on its way.
#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) bindings: Bindings,
    pub(crate) warnings: Vec<String>,
}

/// Checks a whole model, except for the number of uses of bound inputs.
///
/// Bindings come first, then the rest, as the ONNX verifier of the format's extensions has it; only the depth of nesting
/// is checked before, because every other check walks the nested graphs.
pub(crate) fn validate(
    model: &ModelProto,
    external: &ExternalData,
) -> Result<Validated, ModelError> {
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    nesting::check(model)?;
    let catalogue = StructTypes::new(model).map_err(ModelError::StructTypes)?;
    let bindings = bindings::verify_persistent_bindings(model, &catalogue)?;

    let mut warnings = Vec::new();
    match model.ir_version {
        None => warnings.push("the model states no IR version".to_string()),
        Some(got) if !(1..=NEWEST_IR_VERSION).contains(&got) => {
            return Err(ModelError::IrVersion {
                got,
                newest: NEWEST_IR_VERSION,
            });
        }
        Some(_) => {}
    }
    let typed_attributes = model.ir_version.is_none_or(|version| version >= 2);
    let opsets = Opsets::new("model", &model.opset_import)?;
    let functions = FunctionTable::new(&model.functions)?;
    check_declarations(graph, &catalogue)?;
    let context = scope::Context {
        functions: &functions,
        external,
        typed_attributes,
    };
    scope::check_graph(graph, &opsets, &context)?;
    for function in &model.functions {
        check_function(function, &context)?;
    }
    calls::check(model, &functions)?;
    Ok(Validated { bindings, warnings })
}

/// Root inputs and outputs: named once, with a type that says something.
fn check_declarations(graph: &GraphProto, catalogue: &StructTypes<'_>) -> Result<(), ModelError> {
    for (at, values) in [
        ("graph input", &graph.input),
        ("graph output", &graph.output),
    ] {
        let mut names = HashSet::with_capacity(values.len());
        for value in values {
            let name = || value.name().to_string();
            if value.name().is_empty() {
                return Err(ModelError::Unnamed {
                    at: "graph".to_string(),
                    what: at,
                });
            }
            if !names.insert(value.name()) {
                return Err(ModelError::Duplicate {
                    at: "graph".to_string(),
                    what: at,
                    name: name(),
                });
            }
            let Some(ty) = &value.r#type else {
                return Err(ModelError::Type {
                    at,
                    name: name(),
                    fault: "expected a type, got none".to_string(),
                });
            };
            check_type(ty, catalogue).map_err(|fault| ModelError::Type {
                at,
                name: name(),
                fault,
            })?;
        }
    }
    Ok(())
}

fn check_function(
    function: &FunctionProto,
    context: &scope::Context<'_, '_>,
) -> Result<(), ModelError> {
    let at = || format!("function {}", place::function(function));
    let opsets = Opsets::new(&at(), &function.opset_import)?;
    for (what, names) in [("input", &function.input), ("output", &function.output)] {
        let mut seen = HashSet::with_capacity(names.len());
        for name in names {
            if name.is_empty() {
                return Err(ModelError::Unnamed { at: at(), what });
            }
            if !seen.insert(name.as_str()) {
                return Err(ModelError::Duplicate {
                    at: at(),
                    what,
                    name: name.clone(),
                });
            }
        }
    }
    let mut declared = HashSet::new();
    let defaults = function
        .attribute_proto
        .iter()
        .map(|attribute| attribute.name());
    for name in function
        .attribute
        .iter()
        .map(String::as_str)
        .chain(defaults)
    {
        if name.is_empty() {
            return Err(ModelError::Unnamed {
                at: at(),
                what: "attribute",
            });
        }
        if !declared.insert(name) {
            return Err(ModelError::Duplicate {
                at: at(),
                what: "attribute",
                name: name.to_string(),
            });
        }
    }
    for attribute in &function.attribute_proto {
        attributes::check(attribute, &at, None, context)?;
    }
    scope::check_function(function, &opsets, &declared, context)
}

#[cfg(test)]
mod tests;
