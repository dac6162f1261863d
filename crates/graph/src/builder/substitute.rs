//! Values of one graph that take the place of others: what passes that remove nodes have in common.

use super::names;
use super::rename::Renaming;
use super::walk::nested_in;
use crate::bindings::BindingUses;
use crate::{publish, uses};
use refeed_proto::{GraphProto, ModelProto};
use std::collections::{HashMap, HashSet};

/// What a pass may not touch, over the whole model.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    /// Values that keep name and definition: annotated ones, and those that training steps read.
    pub(super) kept: HashSet<String>,
    /// Bound inputs that may be used only once.
    pub(super) single_use: HashSet<String>,
}

impl Fixed {
    pub(super) fn of(model: &ModelProto) -> Fixed {
        let Some(graph) = &model.graph else {
            return Fixed::default();
        };
        let mut kept: HashSet<String> = HashSet::new();
        for graph in std::iter::once(graph).chain(names::nested_of(model)) {
            for annotation in &graph.quantization_annotation {
                kept.insert(annotation.tensor_name().to_string());
                let parameters = &annotation.quant_parameter_tensor_names;
                kept.extend(parameters.iter().map(|entry| entry.value().to_string()));
            }
        }
        kept.extend(
            uses::captures_of(names::training_graphs(model))
                .into_iter()
                .map(str::to_string),
        );
        let bindings = &graph.persistent_bindings;
        let single_use = if bindings.is_empty() || binding_uses(model) == BindingUses::Any {
            HashSet::new()
        } else {
            bindings
                .iter()
                .map(|binding| binding.input_name().to_string())
                .collect()
        };
        Fixed { kept, single_use }
    }
}

/// How often bound inputs may be used, as the model says; once when what it says is no policy.
fn binding_uses(model: &ModelProto) -> BindingUses {
    let graph = model.graph.iter().flat_map(|graph| &graph.metadata_props);
    publish::read(model.metadata_props.iter().chain(graph))
        .map(|policies| policies.uses)
        .unwrap_or_default()
}

/// Facts about one graph, with what is nested in it, that decide what may take the place of what.
pub(super) struct Scope<'g> {
    /// The graph's outputs, whose names are its interface.
    outputs: HashSet<&'g str>,
    /// Values that its own nodes make.
    made: HashSet<&'g str>,
    /// Names that nested graphs define. A value of such a name may be hidden somewhere, so none is moved there.
    nested: HashSet<&'g str>,
    /// How often each name is read, in whatever scope.
    reads: HashMap<&'g str, usize>,
    fixed: &'g Fixed,
}

impl<'g> Scope<'g> {
    pub(super) fn of(graph: &'g GraphProto, fixed: &'g Fixed) -> Scope<'g> {
        let inner = nested_in(&graph.node);
        let mut reads: HashMap<&str, usize> = HashMap::new();
        for graph in std::iter::once(graph).chain(inner.iter().copied()) {
            let inputs = graph.node.iter().flat_map(|node| &node.input);
            let outputs = graph.output.iter().map(|output| output.name());
            for name in inputs.map(String::as_str).chain(outputs) {
                *reads.entry(name).or_default() += 1;
            }
        }
        let made = graph.node.iter().flat_map(|node| &node.output);
        Scope {
            outputs: graph.output.iter().map(|output| output.name()).collect(),
            made: made.map(String::as_str).collect(),
            nested: inner.into_iter().flat_map(uses::definitions).collect(),
            reads,
            fixed,
        }
    }
}

/// Values that give way to others.
#[derive(Debug, Default)]
pub(super) struct Substitution {
    /// Values that are gone, and those that are read in their place.
    instead: HashMap<String, String>,
    /// Values whose node makes them under another name from now on: that of a graph output.
    renamed: HashMap<String, String>,
}

impl Substitution {
    /// The value that is read where the graph says `name`, under the name that it had.
    pub(super) fn read<'n>(&'n self, name: &'n str) -> &'n str {
        self.instead.get(name).map_or(name, String::as_str)
    }

    /// Whether `old` can give way to `new`, which is there before every reader of `old` and has the same elements.
    pub(super) fn allows(&self, old: &str, new: &str, scope: &Scope<'_>) -> bool {
        if scope.fixed.kept.contains(old) {
            return false;
        }
        if scope.outputs.contains(old) {
            // The interface keeps its name, so the node of `new` has to take it.
            return scope.made.contains(new)
                && !scope.outputs.contains(new)
                && !scope.fixed.kept.contains(new)
                && !self.renamed.contains_key(new)
                && !scope.nested.contains(old);
        }
        let once = !scope.fixed.single_use.contains(new) || scope.reads.get(old) == Some(&1);
        let name = self.renamed.get(new).map_or(new, String::as_str);
        once && !scope.nested.contains(name)
    }

    /// Lets `old` give way to `new`.
    pub(super) fn replace(&mut self, old: &str, new: &str, scope: &Scope<'_>) {
        if scope.outputs.contains(old) {
            self.renamed.insert(new.to_string(), old.to_string());
        } else {
            self.instead.insert(old.to_string(), new.to_string());
        }
    }

    /// Makes the changes in the graph and in what is nested in it.
    pub(super) fn apply(&self, graph: &mut GraphProto) {
        if self.instead.is_empty() && self.renamed.is_empty() {
            return;
        }
        // What is gone needs no type, and what takes the name of an output has that output's.
        graph.value_info.retain(|info| {
            !self.instead.contains_key(info.name()) && !self.renamed.contains_key(info.name())
        });
        let mut uses = self.renamed.clone();
        for (old, new) in &self.instead {
            let new = self.renamed.get(new).unwrap_or(new);
            uses.insert(old.clone(), new.clone());
        }
        Renaming {
            uses: &uses,
            definitions: &self.renamed,
            outputs: false,
        }
        .apply(graph);
    }
}

/// Takes nodes out of a list.
pub(super) fn remove_marked(graph: &mut GraphProto, marked: &[bool]) -> usize {
    let mut index = 0;
    let before = graph.node.len();
    graph.node.retain(|_| {
        index += 1;
        !marked.get(index - 1).copied().unwrap_or(false)
    });
    before - graph.node.len()
}
