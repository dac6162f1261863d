//! Depth of nested graphs, and what may stand on the root graph alone.

use super::NESTING_LIMIT;
use crate::error::{BindingError, ModelError};
use crate::publish::KEY_PREFIX;
use crate::{place, uses};
use refeed_proto::{ModelProto, NodeProto, StringStringEntryProto};

fn has_our_keys(entries: &[StringStringEntryProto]) -> bool {
    entries
        .iter()
        .any(|entry| entry.key().starts_with(KEY_PREFIX))
}

/// Walks every nested graph of the root graph and of the functions.
pub(super) fn check(model: &ModelProto) -> Result<(), ModelError> {
    let Some(graph) = &model.graph else {
        return Ok(());
    };
    check_nodes(&graph.node, "")?;
    for function in &model.functions {
        let at = format!("function {} / ", place::function(function));
        if has_our_keys(&function.metadata_props) {
            return Err(BindingError::NotRoot {
                at: at.trim_end_matches(" / ").to_string(),
            }
            .into());
        }
        check_nodes(&function.node, &at)?;
    }
    for training in &model.training_info {
        for graph in training.initialization.iter().chain(&training.algorithm) {
            if !graph.persistent_bindings.is_empty() {
                return Err(BindingError::NotRoot {
                    at: "training graph".to_string(),
                }
                .into());
            }
            check_nodes(&graph.node, "training graph / ")?;
        }
    }
    Ok(())
}

/// Walks every nested graph of a list of nodes. `at` is the prefix of their places.
pub(super) fn check_nodes(nodes: &[NodeProto], at: &str) -> Result<(), ModelError> {
    // The place of a list of nodes is built only when one of them has a nested graph.
    let mut stack: Vec<(&[NodeProto], String, u64)> = vec![(nodes, at.to_string(), 0)];
    while let Some((nodes, at, depth)) = stack.pop() {
        for (index, node) in nodes.iter().enumerate() {
            for attribute in &node.attribute {
                for graph in uses::nested(attribute) {
                    let at = format!("{at}{}", place::branch(index, node, attribute));
                    let here = || at.trim_end_matches(" / ").to_string();
                    if depth + 1 > NESTING_LIMIT {
                        return Err(ModelError::Limit {
                            at: here(),
                            what: "nested graphs",
                            limit: NESTING_LIMIT,
                            got: depth + 1,
                        });
                    }
                    if !graph.persistent_bindings.is_empty() || has_our_keys(&graph.metadata_props)
                    {
                        return Err(BindingError::NotRoot { at: here() }.into());
                    }
                    stack.push((&graph.node, at, depth + 1));
                }
            }
        }
    }
    Ok(())
}
