//! Bodies of `If`, `Loop` and `Scan`: as many inputs and outputs as the node gives and takes.

use crate::error::ModelError;
use crate::path::Path;
use crate::place;
use refeed_proto::{GraphProto, NodeProto};

/// Checks a node's bodies; nodes of other operators pass.
pub(super) fn check(node: &NodeProto, at: &Path<'_>) -> Result<(), ModelError> {
    if !place::domain(node.domain()).is_empty() {
        return Ok(());
    }
    let body = |name: &str| {
        node.attribute_named(name)
            .and_then(|attribute| attribute.g.as_deref())
    };
    let arity = |name: &str, role, expected: String, got| {
        Err(ModelError::Arity {
            at: at.key("attribute", name).field("g").to_string(),
            role,
            expected,
            got,
        })
    };
    match node.op_type() {
        "If" => {
            for name in ["then_branch", "else_branch"] {
                let Some(graph) = body(name) else { continue };
                if !graph.input.is_empty() {
                    return arity(name, "inputs", "0".to_string(), graph.input.len());
                }
                if graph.output.len() < node.output.len() {
                    return arity(
                        name,
                        "outputs",
                        node.output.len().to_string(),
                        graph.output.len(),
                    );
                }
            }
            Ok(())
        }
        "Loop" => {
            let Some(graph) = body("body") else {
                return Ok(());
            };
            let inputs = node.input.len().max(2);
            if graph.input.len() != inputs {
                return arity("body", "inputs", inputs.to_string(), graph.input.len());
            }
            // One condition and the carried values; the node returns all but the condition.
            let outputs = (inputs - 1).max(node.output.len() + 1);
            at_least(graph, outputs)
                .or_else(|expected| arity("body", "outputs", expected, graph.output.len()))
        }
        "Scan" => {
            let Some(graph) = body("body") else {
                return Ok(());
            };
            // Before opset 9 the first input holds sequence lengths, which the body does not see.
            if graph.input.len() != node.input.len() && graph.input.len() + 1 != node.input.len() {
                return arity(
                    "body",
                    "inputs",
                    node.input.len().to_string(),
                    graph.input.len(),
                );
            }
            let outputs = at_least(graph, node.output.len());
            outputs.or_else(|expected| arity("body", "outputs", expected, graph.output.len()))
        }
        _ => Ok(()),
    }
}

/// Says what is expected of a body that has too few outputs.
fn at_least(graph: &GraphProto, outputs: usize) -> Result<(), String> {
    if graph.output.len() < outputs {
        Err(format!("at least {outputs}"))
    } else {
        Ok(())
    }
}
