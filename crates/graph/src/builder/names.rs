//! Which names a model has, and names that it does not have yet.

use super::walk;
use crate::uses;
use refeed_proto::{GraphProto, ModelProto};
use std::collections::{HashMap, HashSet};

/// What defines a value of the root graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A graph input or an initializer.
    Given,
    /// The node at this position.
    Node(usize),
}

/// The names of a model's values. A name that was handed out is never handed out again.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Where the root graph defines a value; `None` for names of nested graphs, and for those of values that are gone.
    values: HashMap<String, Option<Origin>>,
    /// The last number that was tried for a stem.
    tried: HashMap<String, usize>,
}

impl Names {
    pub(super) fn of(model: &ModelProto) -> Names {
        let mut names = Names::default();
        names.read(model);
        names
    }

    /// Reads a model again after an edit. Names that are gone stay taken.
    pub(super) fn read(&mut self, model: &ModelProto) {
        self.values.values_mut().for_each(|origin| *origin = None);
        let Some(graph) = &model.graph else { return };
        for nested in nested_of(model) {
            self.take_all(nested);
        }
        for name in uses::definitions(graph) {
            self.define(name, Origin::Given);
        }
        for (index, node) in graph.node.iter().enumerate() {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                self.define(name, Origin::Node(index));
            }
        }
    }

    /// Takes every name that a graph defines.
    pub(super) fn take_all(&mut self, graph: &GraphProto) {
        for name in uses::definitions(graph) {
            if !self.values.contains_key(name) {
                self.values.insert(name.to_string(), None);
            }
        }
    }

    pub(super) fn define(&mut self, name: &str, origin: Origin) {
        match self.values.get_mut(name) {
            Some(held) => *held = Some(origin),
            None => drop(self.values.insert(name.to_string(), Some(origin))),
        }
    }

    /// What defines a value of the root graph.
    pub(super) fn origin(&self, name: &str) -> Option<Origin> {
        self.values.get(name).copied().flatten()
    }

    /// Whether a name was ever used.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// A name that was never used, and takes it: `stem`, or `stem_1`, `stem_2`, ...
    pub(super) fn fresh(&mut self, stem: &str) -> String {
        let mut number = self.tried.get(stem).copied().unwrap_or(0);
        let name = loop {
            let name = match number {
                0 => stem.to_string(),
                number => format!("{stem}_{number}"),
            };
            number += 1;
            if !name.is_empty() && !self.values.contains_key(&name) {
                break name;
            }
        };
        self.tried.insert(stem.to_string(), number);
        self.values.insert(name.clone(), None);
        name
    }

    /// How many names were tried for a stem.
    #[cfg(test)]
    pub(super) fn trials(&self, stem: &str) -> usize {
        self.tried.get(stem).copied().unwrap_or(0)
    }
}

/// Every graph of a model but the root: nested ones and those of training.
pub(super) fn nested_of(model: &ModelProto) -> Vec<&GraphProto> {
    let mut found = walk::nested_in(model.graph.iter().flat_map(|graph| &graph.node));
    for graph in training_graphs(model) {
        found.push(graph);
        found.extend(walk::nested_in(&graph.node));
    }
    found
}

/// The graphs of training steps, which see the root graph's values.
pub(super) fn training_graphs(model: &ModelProto) -> impl Iterator<Item = &GraphProto> {
    model
        .training_info
        .iter()
        .flat_map(|step| step.initialization.iter().chain(&step.algorithm))
}

/// Every name that is in use now, by any scope.
pub(super) fn in_use(model: &ModelProto) -> HashSet<&str> {
    let root = model.graph.iter().flat_map(uses::definitions);
    let nested = nested_of(model).into_iter().flat_map(uses::definitions);
    root.chain(nested).collect()
}
