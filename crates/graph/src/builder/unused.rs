//! Removal of what no output needs.

use super::GraphBuilder;
use super::names;
use super::order::{needed, reads};
use super::substitute::{Fixed, remove_marked};
use super::walk::innermost_first;
use crate::uses;
use refeed_proto::GraphProto;
use std::collections::HashSet;

impl GraphBuilder {
    /// Removes the nodes that no graph output needs, in the root graph and in nested graphs, with the types of their
    /// values, and says how many.
    ///
    /// Graph inputs, outputs, initializers and bindings stay, and what training steps read. So does a node that is the only
    /// use of a bound input: a bound input must have one.
    pub fn remove_unused_nodes(&mut self) -> usize {
        let fixed = Fixed::of(&self.model);
        let mut removed = 0;
        for node in &mut self.graph_mut().node {
            for graph in super::walk::graphs_of_mut(node) {
                innermost_first(graph, &mut |graph| {
                    removed += remove_unneeded(graph, &HashSet::new(), &HashSet::new());
                });
            }
        }
        // Inputs that have uses now must have one afterwards.
        let graph = self.graph();
        let bound: Vec<&str> = fixed.single_use.iter().map(String::as_str).collect();
        let counted = uses::count_uses(graph, &bound);
        let used: HashSet<String> = bound
            .iter()
            .zip(counted)
            .filter(|(_, uses)| uses.count > 0)
            .map(|(name, _)| (*name).to_string())
            .collect();
        removed += remove_unneeded(self.graph_mut(), &fixed.kept, &used);
        self.names.read(&self.model);
        removed
    }

    /// Removes the initializers, of every kind, that nothing reads, and says how many. The defaults of graph inputs stay,
    /// and so do the parameters of quantization annotations and what training steps read or write.
    pub fn remove_unused_initializers(&mut self) -> usize {
        let graph = self.graph();
        let mut read: HashSet<String> = Fixed::of(&self.model).kept;
        let names = graph.node.iter().flat_map(reads);
        let interface = graph
            .input
            .iter()
            .chain(&graph.output)
            .map(|info| info.name());
        read.extend(names.chain(interface).map(str::to_string));
        for step in &self.model.training_info {
            let bindings = step
                .initialization_binding
                .iter()
                .chain(&step.update_binding);
            read.extend(bindings.map(|binding| binding.key().to_string()));
        }
        let graph = self.graph_mut();
        let count = |graph: &GraphProto| uses::initializer_names(graph).count();
        let before = count(graph);
        graph
            .initializer
            .retain(|tensor| read.contains(tensor.name()));
        graph.sparse_initializer.retain(|tensor| {
            tensor
                .values
                .as_ref()
                .is_some_and(|values| read.contains(values.name()))
        });
        graph
            .encoded_initializer
            .retain(|value| read.contains(value.name()));
        graph
            .paged_cache_initializer
            .retain(|cache| read.contains(cache.name()));
        let removed = before - count(graph);
        keep_described(graph);
        self.names.read(&self.model);
        removed
    }

    /// What reads a value of the root graph, if something does: a node, a nested graph, an output, a training step.
    pub(super) fn first_reader(&self, name: &str) -> Option<String> {
        let uses = uses::count_uses(self.graph(), &[name]);
        if let Some(site) = uses.first().and_then(|uses| uses.sites.first()) {
            return Some(site.clone());
        }
        let training = uses::captures_of(names::training_graphs(&self.model));
        training
            .contains(&name)
            .then(|| "a training step".to_string())
    }
}

/// Removes the nodes of one graph that neither its outputs need nor `kept` names, but keeps a reader of each of `used`.
fn remove_unneeded(
    graph: &mut GraphProto,
    kept: &HashSet<String>,
    used: &HashSet<String>,
) -> usize {
    let outputs = graph.output.iter().map(|output| output.name());
    let wanted: Vec<&str> = outputs.chain(kept.iter().map(String::as_str)).collect();
    let mut live = needed(graph, wanted.iter().copied(), &HashSet::new());
    let mut unread: HashSet<&str> = used.iter().map(String::as_str).collect();
    for output in &graph.output {
        unread.remove(output.name());
    }
    for (node, _) in graph.node.iter().zip(&live).filter(|(_, live)| **live) {
        for name in reads(node) {
            unread.remove(name);
        }
    }
    if !unread.is_empty() {
        // The first reader of each stays, with all that it needs.
        let mut more = wanted;
        for node in &graph.node {
            let reader = reads(node).filter(|name| unread.remove(name)).count() > 0;
            let output = node.output.iter().find(|name| !name.is_empty());
            more.extend(output.filter(|_| reader).map(String::as_str));
        }
        live = needed(graph, more, &HashSet::new());
    }
    let dead: Vec<bool> = live.into_iter().map(|live| !live).collect();
    let removed = remove_marked(graph, &dead);
    if removed > 0 {
        keep_described(graph);
    }
    removed
}

/// Drops the types of values that are gone.
fn keep_described(graph: &mut GraphProto) {
    let defined: HashSet<String> = uses::definitions(graph).map(str::to_string).collect();
    graph
        .value_info
        .retain(|info| defined.contains(info.name()));
}
