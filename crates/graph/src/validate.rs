//! Validation: names, topology, scopes, functions, operator sets, attributes, tensors, declarations, encoded values, paged
//! caches.
//!
//! Everything here is linear in the size of the model and keeps its own stacks, so that no nesting of a file reaches the
//! thread's stack. Each rule is one function, and each fault is told with the path of the field and with what is expected
//! beside what is there.
//!
//! Three kinds of reader ask for more or less ([`Rules`]): a session takes any model whose meaning is clear, the verifier
//! holds it to the format, the checker also to what the checker of the `onnx` package asks for. Elements of tensors are not
//! read, but for the positions of sparse tensors and the parameters of encodings; their sizes are compared with the
//! dimensions.

mod affine;
pub(crate) mod attributes;
mod calls;
mod context;
mod control_flow;
mod encoded;
mod functions;
mod nesting;
mod nodes;
mod operators;
mod opsets;
mod paged_cache;
mod parameters;
mod parts;
mod scope;
mod sparse_tensors;
pub(crate) mod tensors;
pub(crate) mod types;
mod value_infos;

pub(crate) use calls::check as check_calls;
pub(crate) use context::Context;
pub use context::{Checker, Rules};
pub(crate) use encoded::check as check_encoded;
pub(crate) use opsets::Opsets;
pub(crate) use paged_cache::check_apart as check_paged_cache;
pub(crate) use parameters::{PREFIX as PARAMETERS_PREFIX, Parameters};
pub use parts::PartVerifier;

use crate::bindings::{self, Bindings};
use crate::error::ModelError;
use crate::functions::FunctionTable;
use crate::load::ExternalData;
use crate::path::Path;
use crate::struct_types::StructTypes;
use crate::uses;
use refeed_proto::{ModelProto, NodeProto};

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
    nesting::check_nodes(nodes, &Path::root("graph"))
}

/// What validation learned on its way.
#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) bindings: Bindings,
    pub(crate) struct_types: StructTypes,
    pub(crate) warnings: Vec<String>,
}

/// Checks a whole model, the number of uses of bound inputs included; gives what is odd about it but not wrong.
///
/// `external` says where tensors in other files are. Without it, they are held to what they say of themselves.
///
/// ```
/// use refeed_graph::validate::{Rules, check_model};
/// use refeed_proto::ModelProto;
/// let error = check_model(&ModelProto::default(), None, Rules::Verifier).unwrap_err();
/// assert_eq!(error.to_string(), "the model has no graph");
/// ```
///
/// # Errors
/// The first rule that the model breaks.
pub fn check_model(
    model: &ModelProto,
    external: Option<&ExternalData>,
    rules: Rules,
) -> Result<Vec<String>, ModelError> {
    let validated = validate(model, external, rules)?;
    if let Some(graph) = &model.graph {
        let bindings = &validated.bindings;
        uses::check_binding_uses(graph, &bindings.list, bindings.uses)?;
    }
    Ok(validated.warnings)
}

/// Checks a whole model, except for the number of uses of bound inputs.
///
/// Bindings come first, then the rest, as the ONNX verifier of the format's extensions has it; only the depth of nesting
/// is checked before, because every other check walks the nested graphs.
pub(crate) fn validate(
    model: &ModelProto,
    external: Option<&ExternalData>,
    rules: Rules,
) -> Result<Validated, ModelError> {
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    nesting::check(model)?;
    let catalogue = StructTypes::new(model)?;
    let bindings = bindings::verify_persistent_bindings(model, &catalogue)?;

    let warnings = check_ir_version(model, rules)?;
    if rules.is_checker() {
        check_metadata_keys(model)?;
    }
    let opsets = Opsets::of_model(model, rules)?;
    let functions = FunctionTable::new(&model.functions)?;
    let at = Path::MODEL;
    let at = at.field("graph");
    // The verifier is told nothing of other files and takes references to shared parameters on trust.
    let parameters = match external {
        Some(external) if rules != Rules::Verifier => {
            Some(Parameters::new(graph, external, &catalogue, &at)?)
        }
        _ => None,
    };
    let context = Context {
        rules,
        ir_version: model.ir_version.unwrap_or(NEWEST_IR_VERSION),
        functions: Some(&functions),
        external,
        catalogue: &catalogue,
        parameters: parameters.as_ref(),
    };
    scope::check_graph(graph, &at, Some(&opsets), &context)?;
    functions::check(model, &opsets, &context)?;
    calls::check(model, &functions)?;
    Ok(Validated {
        bindings,
        struct_types: catalogue,
        warnings,
    })
}

/// The version of the format is one that exists; the checker asks for it, a session makes do without.
fn check_ir_version(model: &ModelProto, rules: Rules) -> Result<Vec<String>, ModelError> {
    match model.ir_version {
        None if !rules.is_checker() => Ok(vec!["the model states no IR version".to_string()]),
        got => {
            let got = got.unwrap_or(0);
            if (1..=NEWEST_IR_VERSION).contains(&got) {
                return Ok(Vec::new());
            }
            Err(ModelError::IrVersion {
                got,
                newest: NEWEST_IR_VERSION,
            })
        }
    }
}

/// Each key of the model's metadata is there once.
fn check_metadata_keys(model: &ModelProto) -> Result<(), ModelError> {
    let mut keys = std::collections::HashSet::with_capacity(model.metadata_props.len());
    for (index, entry) in model.metadata_props.iter().enumerate() {
        if !keys.insert(entry.key()) {
            return Err(ModelError::Duplicate {
                at: Path::MODEL.item("metadata_props", index).to_string(),
                what: "key",
                name: entry.key().to_string(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
