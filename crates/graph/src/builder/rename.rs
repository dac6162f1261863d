//! New names for values, wherever they are named, with the scopes of nested graphs respected.

use super::walk::{Site, graphs_of_mut, visit_names, visit_node_names, visit_policies};
use crate::uses;
use refeed_proto::{GraphProto, ModelProto, NodeProto};
use std::collections::HashMap;

/// New names of values of one graph. Both maps are applied at once: `a -> b, b -> a` swaps.
pub(super) struct Renaming<'m> {
    /// New names where values are read.
    pub(super) uses: &'m HashMap<String, String>,
    /// New names where values are made or described.
    pub(super) definitions: &'m HashMap<String, String>,
    /// Whether the graph's own outputs count as reads.
    pub(super) outputs: bool,
}

/// One step of the walk through nested graphs; the stack replaces recursion.
enum Step<'g> {
    Enter(&'g mut GraphProto),
    /// The end of a graph that hides these names.
    Leave(Vec<String>),
}

impl Renaming<'_> {
    fn change(&self, site: Site, name: &mut String) {
        let new = match site {
            Site::Definition | Site::Note => self.definitions.get(name),
            Site::Use => self.uses.get(name),
            Site::Output if self.outputs => self.uses.get(name),
            Site::Output => None,
        };
        if let Some(new) = new {
            name.clone_from(new);
        }
    }

    /// Renames in `graph`, which defines the values, and in everything nested in it.
    pub(super) fn apply(&self, graph: &mut GraphProto) {
        visit_names(graph, &mut |site, name| self.change(site, name));
        self.apply_to_nested(graph.node.iter_mut().flat_map(graphs_of_mut));
    }

    /// Renames in one node and everything nested in it.
    pub(super) fn apply_to_node(&self, node: &mut NodeProto) {
        visit_node_names(node, &mut |site, name| self.change(site, name));
        self.apply_to_nested(graphs_of_mut(node));
    }

    /// Renames what `graphs` and the graphs in them take from outside. A graph that defines a name itself, and whatever is
    /// nested in it, mean another value by it.
    pub(super) fn apply_to_nested<'g>(&self, graphs: impl Iterator<Item = &'g mut GraphProto>) {
        let mut hidden: HashMap<String, usize> = HashMap::new();
        let mut stack: Vec<Step<'_>> = graphs.map(Step::Enter).collect();
        while let Some(step) = stack.pop() {
            let graph = match step {
                Step::Leave(names) => {
                    for name in names {
                        if let Some(count) = hidden.get_mut(&name) {
                            *count -= 1;
                        }
                    }
                    continue;
                }
                Step::Enter(graph) => graph,
            };
            let own: Vec<String> = uses::definitions(graph)
                .filter(|&name| self.uses.contains_key(name) || self.definitions.contains_key(name))
                .map(str::to_string)
                .collect();
            for name in &own {
                *hidden.entry(name.clone()).or_default() += 1;
            }
            visit_names(graph, &mut |site, name| {
                if hidden.get(name).is_some_and(|&count| count > 0) {
                    return;
                }
                // A nested graph's output reads a value; what it defines is its own.
                match site {
                    Site::Definition => {}
                    Site::Output => self.change(Site::Use, name),
                    site => self.change(site, name),
                }
            });
            stack.push(Step::Leave(own));
            stack.extend(
                graph
                    .node
                    .iter_mut()
                    .flat_map(graphs_of_mut)
                    .map(Step::Enter),
            );
        }
    }
}

impl Renaming<'_> {
    /// Renames in the root graph and wherever else a model names its values: policies of bindings, training steps.
    pub(super) fn apply_to_model(&self, model: &mut ModelProto) {
        visit_policies(&mut model.metadata_props, &mut |site, name| {
            self.change(site, name)
        });
        if let Some(graph) = &mut model.graph {
            self.apply(graph);
        }
        for step in &mut model.training_info {
            let graphs = step.initialization.iter_mut().chain(&mut step.algorithm);
            self.apply_to_nested(graphs);
            // Keys are initializers of the root graph; values are outputs of the step's own graphs.
            let bindings = step
                .initialization_binding
                .iter_mut()
                .chain(&mut step.update_binding);
            for key in bindings.filter_map(|binding| binding.key.as_mut()) {
                self.change(Site::Use, key);
            }
        }
    }
}
