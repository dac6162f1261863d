//! Depth of nested graphs, and what may stand on the root graph alone.

use super::NESTING_LIMIT;
use crate::error::{BindingError, ModelError};
use crate::path::{Path, Place, Step, Trail};
use crate::publish::KEY_PREFIX;
use crate::uses;
use refeed_proto::{AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto};

/// Walks every nested graph of the root graph, of the functions and of training.
pub(super) fn check(model: &ModelProto) -> Result<(), ModelError> {
    let root = Path::MODEL;
    if let Some(graph) = &model.graph {
        check_nodes(&graph.node, &root.field("graph"))?;
    }
    for function in &model.functions {
        let at = root.then(Step::Function(function));
        check_metadata(&function.metadata_props, &at)?;
        check_nodes(&function.node, &at)?;
    }
    for (index, training) in model.training_info.iter().enumerate() {
        let at = root.item("training_info", index);
        for (field, graph) in [
            ("initialization", &training.initialization),
            ("algorithm", &training.algorithm),
        ] {
            if let Some(graph) = graph {
                let at = at.field(field);
                check_root_only(graph, &at)?;
                check_nodes(&graph.node, &at)?;
            }
        }
    }
    Ok(())
}

/// Walks the nested graphs of a list of nodes.
pub(super) fn check_nodes(nodes: &[NodeProto], at: &Path<'_>) -> Result<(), ModelError> {
    walk(Trail::new(*at), vec![(nodes, Place::BASE, 0)])
}

/// Walks the graphs of an attribute.
pub(super) fn check_attribute(attribute: &AttributeProto, at: &Path<'_>) -> Result<(), ModelError> {
    let mut trail = Trail::new(*at);
    let mut open = Vec::new();
    for (step, graph) in uses::nested_fields(attribute) {
        let place = trail.push(Place::BASE, step);
        check_root_only(graph, &trail.path(place))?;
        open.push((graph.node.as_slice(), place, 1));
    }
    walk(trail, open)
}

fn walk<'a>(
    mut trail: Trail<'a>,
    mut open: Vec<(&'a [NodeProto], Place, u64)>,
) -> Result<(), ModelError> {
    while let Some((nodes, place, depth)) = open.pop() {
        for (index, node) in nodes.iter().enumerate() {
            for attribute in &node.attribute {
                for (step, graph) in uses::nested_fields(attribute) {
                    let place = trail.push(place, Step::Node(index, node));
                    let place = trail.push(place, Step::Key("attribute", attribute.name()));
                    let place = trail.push(place, step);
                    check_depth(depth + 1, &trail.path(place))?;
                    check_root_only(graph, &trail.path(place))?;
                    open.push((&graph.node, place, depth + 1));
                }
            }
        }
    }
    Ok(())
}

/// Graphs are nested no deeper than the limit.
fn check_depth(depth: u64, at: &Path<'_>) -> Result<(), ModelError> {
    if depth <= NESTING_LIMIT {
        return Ok(());
    }
    Err(ModelError::Limit {
        at: at.to_string(),
        what: "nested graphs",
        limit: NESTING_LIMIT,
        got: depth,
    })
}

/// Bindings and our metadata belong to the root graph.
pub(super) fn check_root_only(graph: &GraphProto, at: &Path<'_>) -> Result<(), ModelError> {
    if !graph.persistent_bindings.is_empty() {
        return Err(BindingError::NotRoot { at: at.to_string() }.into());
    }
    check_metadata(&graph.metadata_props, at)
}

fn check_metadata(entries: &[StringStringEntryProto], at: &Path<'_>) -> Result<(), ModelError> {
    if entries
        .iter()
        .any(|entry| entry.key().starts_with(KEY_PREFIX))
    {
        return Err(BindingError::NotRoot { at: at.to_string() }.into());
    }
    Ok(())
}
