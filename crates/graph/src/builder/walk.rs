//! Walks over graphs and over the places where they name values. The one list of such places.

use crate::publish::PUBLISH_PREFIX;
use crate::uses;
use refeed_proto::{GraphProto, NodeProto, StringStringEntryProto};

/// What a name does where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// Brings the value into being: a graph input, an initializer, a node's output.
    Definition,
    /// Reads the value: a node's input, a quantization parameter, a placement on devices.
    Use,
    /// Names a graph output, or the binding that starts there.
    Output,
    /// Says something about the value: a type, an annotation, the binding that ends at an input.
    Note,
}

/// Every graph in `nodes` at any depth, outer ones before those in them.
pub(super) fn nested_in<'a>(nodes: impl IntoIterator<Item = &'a NodeProto>) -> Vec<&'a GraphProto> {
    let mut found: Vec<&GraphProto> = graphs_of(nodes).collect();
    let mut next = 0;
    while let Some(&graph) = found.get(next) {
        found.extend(graphs_of(&graph.node));
        next += 1;
    }
    found
}

fn graphs_of<'a>(
    nodes: impl IntoIterator<Item = &'a NodeProto>,
) -> impl Iterator<Item = &'a GraphProto> {
    nodes
        .into_iter()
        .flat_map(|node| &node.attribute)
        .flat_map(uses::nested)
}

/// The graphs that are attributes of a node.
pub(super) fn graphs_of_mut(node: &mut NodeProto) -> impl Iterator<Item = &mut GraphProto> {
    node.attribute.iter_mut().flat_map(|attribute| {
        attribute
            .g
            .as_deref_mut()
            .into_iter()
            .chain(&mut attribute.graphs)
    })
}

/// Runs `edit` on every graph that is nested in `graph`, innermost first, and then on `graph`.
///
/// Recurses once per level of nesting, of which there are at most [`crate::validate::NESTING_LIMIT`]: import and
/// `make_node` hold the graph to it.
pub(super) fn innermost_first(graph: &mut GraphProto, edit: &mut dyn FnMut(&mut GraphProto)) {
    for node in &mut graph.node {
        for nested in graphs_of_mut(node) {
            innermost_first(nested, edit);
        }
    }
    edit(graph);
}

/// Runs `edit` on `graph` and on every graph nested in it, in no particular order.
pub(super) fn each_graph(graph: &mut GraphProto, edit: &mut dyn FnMut(&mut GraphProto)) {
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        edit(graph);
        open.extend(graph.node.iter_mut().flat_map(graphs_of_mut));
    }
}

/// Calls `visit` for every name of a value in `graph`, those in nested graphs excepted. Absent names are no names.
pub(super) fn visit_names(graph: &mut GraphProto, visit: &mut dyn FnMut(Site, &mut String)) {
    let mut at = |site: Site, name: &mut Option<String>| {
        if let Some(name) = name.as_mut().filter(|name| !name.is_empty()) {
            visit(site, name);
        }
    };
    for input in &mut graph.input {
        at(Site::Definition, &mut input.name);
    }
    for tensor in &mut graph.initializer {
        at(Site::Definition, &mut tensor.name);
    }
    for sparse in &mut graph.sparse_initializer {
        // The name of the values is that of the whole; the indices have none that counts.
        if let Some(values) = &mut sparse.values {
            at(Site::Definition, &mut values.name);
        }
    }
    for value in &mut graph.encoded_initializer {
        at(Site::Definition, &mut value.name);
    }
    for cache in &mut graph.paged_cache_initializer {
        at(Site::Definition, &mut cache.name);
    }
    for output in &mut graph.output {
        at(Site::Output, &mut output.name);
    }
    for info in &mut graph.value_info {
        at(Site::Note, &mut info.name);
    }
    for annotation in &mut graph.quantization_annotation {
        at(Site::Note, &mut annotation.tensor_name);
        for parameter in &mut annotation.quant_parameter_tensor_names {
            at(Site::Use, &mut parameter.value);
        }
    }
    for binding in &mut graph.persistent_bindings {
        at(Site::Note, &mut binding.input_name);
        at(Site::Output, &mut binding.output_name);
    }
    visit_policies(&mut graph.metadata_props, visit);
    for node in &mut graph.node {
        visit_node_names(node, visit);
    }
}

/// Calls `visit` for the names of bound inputs in a list of metadata.
pub(super) fn visit_policies(
    entries: &mut [StringStringEntryProto],
    visit: &mut dyn FnMut(Site, &mut String),
) {
    for entry in entries {
        if let Some(mut name) = entry
            .key()
            .strip_prefix(PUBLISH_PREFIX)
            .map(str::to_string)
            .filter(|name| !name.is_empty())
        {
            visit(Site::Note, &mut name);
            entry.key = Some(format!("{PUBLISH_PREFIX}{name}"));
        }
    }
}

/// Calls `visit` for every name of a value that a node has, those in its nested graphs excepted.
pub(super) fn visit_node_names(node: &mut NodeProto, visit: &mut dyn FnMut(Site, &mut String)) {
    let (inputs, outputs) = (node.input.iter_mut(), node.output.iter_mut());
    let inputs = inputs.map(|name| (Site::Use, name));
    for (site, name) in inputs.chain(outputs.map(|name| (Site::Definition, name))) {
        if !name.is_empty() {
            visit(site, name);
        }
    }
    let placed = node
        .device_configurations
        .iter_mut()
        .flat_map(|configuration| &mut configuration.sharding_spec);
    for name in placed.filter_map(|placed| placed.tensor_name.as_mut()) {
        if !name.is_empty() {
            visit(Site::Use, name);
        }
    }
}
