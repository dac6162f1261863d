//! One graph or function body that is being walked.

use crate::error::ModelError;
use crate::path::{Path, Place, Trail};
use crate::uses;
use crate::validate::{Context, encoded, paged_cache, sparse_tensors, tensors, value_infos};
use refeed_proto::{FunctionProto, GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// Where a value of one scope comes from: 0 before all nodes, `i + 1` from node `i`.
pub(super) type Position = usize;

pub(super) struct Frame<'a> {
    pub(super) place: Place,
    pub(super) nodes: &'a [NodeProto],
    pub(super) outputs: Vec<&'a str>,
    pub(super) defined: HashMap<&'a str, Position>,
    /// The node that is being looked at.
    pub(super) current: usize,
    /// Its nested graphs that are still to come, last first.
    pub(super) nested: Vec<(&'a GraphProto, Place)>,
    /// Whether its inputs, outputs and attributes have been looked at.
    pub(super) entered: bool,
    inputs: Vec<&'a str>,
}

impl<'a> Frame<'a> {
    fn new(place: Place, nodes: &'a [NodeProto]) -> Frame<'a> {
        Frame {
            place,
            nodes,
            outputs: Vec::new(),
            defined: HashMap::new(),
            current: 0,
            nested: Vec::new(),
            entered: false,
            inputs: Vec::new(),
        }
    }

    /// A scope that is not there but for the names that it defines.
    pub(super) fn around(names: &'a [String]) -> Frame<'a> {
        let mut frame = Frame::new(Place::BASE, &[]);
        frame
            .defined
            .extend(names.iter().map(|name| (name.as_str(), 0)));
        frame
    }

    /// The body of a function, with no name defined yet.
    pub(super) fn of_function(function: &'a FunctionProto) -> Frame<'a> {
        Frame {
            outputs: function.output.iter().map(String::as_str).collect(),
            inputs: function.input.iter().map(String::as_str).collect(),
            ..Frame::new(Place::BASE, &function.node)
        }
    }

    /// A graph: its names are taken in and its declarations and constants checked.
    pub(super) fn of_graph(
        graph: &'a GraphProto,
        root: bool,
        place: Place,
        trail: &Trail<'_>,
        context: &Context<'_>,
    ) -> Result<Frame<'a>, ModelError> {
        let at = trail.path(place);
        if context.rules.is_checker() {
            check_name(graph, &at)?;
        }
        value_infos::check(graph, root, &at, context)?;
        let mut frame = Frame {
            outputs: graph.output.iter().map(|output| output.name()).collect(),
            inputs: graph.input.iter().map(|input| input.name()).collect(),
            ..Frame::new(place, &graph.node)
        };
        frame.define_inputs(trail)?;
        if context.rules.is_checker() && context.ir_version < 4 {
            frame.check_old_initializers(graph, &at)?;
        }
        frame.define_initializers(graph, root, &at)?;
        check_initializers(graph, &at, context)?;
        frame.define_outputs(trail)?;
        Ok(frame)
    }

    /// The path of a node, for messages.
    pub(super) fn node(&self, trail: &Trail<'_>, index: usize) -> String {
        let body = trail.path(self.place);
        body.node(index, &self.nodes[index]).to_string()
    }

    /// What defines a value, for messages.
    pub(super) fn definer(&self, trail: &Trail<'_>, position: Position) -> String {
        match position.checked_sub(1) {
            Some(index) => self.node(trail, index),
            None => "an input or initializer".to_string(),
        }
    }

    /// Inputs have names, and each its own.
    pub(super) fn define_inputs(&mut self, trail: &Trail<'_>) -> Result<(), ModelError> {
        let at = trail.path(self.place);
        for (index, &name) in self.inputs.iter().enumerate() {
            let at = at.item("input", index);
            if name.is_empty() {
                return Err(ModelError::Unnamed {
                    at: at.to_string(),
                    what: "an input",
                });
            }
            if self.defined.insert(name, 0).is_some() {
                return Err(ModelError::Duplicate {
                    at: at.to_string(),
                    what: "graph input",
                    name: name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Before IR version 4 every initializer was the default of an input.
    fn check_old_initializers(&self, graph: &GraphProto, at: &Path<'_>) -> Result<(), ModelError> {
        for (index, tensor) in graph.initializer.iter().enumerate() {
            if !self.defined.contains_key(tensor.name()) {
                return Err(at.named("initializer", index, tensor.name()).refused(
                    "the name of a graph input, as IR versions before 4 ask for",
                    "another name",
                ));
            }
        }
        Ok(())
    }

    /// Initializers have names, and each its own over all four kinds.
    fn define_initializers(
        &mut self,
        graph: &'a GraphProto,
        root: bool,
        at: &Path<'_>,
    ) -> Result<(), ModelError> {
        let mut initializers = HashSet::new();
        for (field, index, name) in uses::initializers(graph) {
            let at = at.item(field, index);
            if name.is_empty() {
                return Err(ModelError::Unnamed {
                    at: at.to_string(),
                    what: "an initializer",
                });
            }
            if !initializers.insert(name) {
                return Err(ModelError::Duplicate {
                    at: at.to_string(),
                    what: "initializer",
                    name: name.to_string(),
                });
            }
            // On the root an initializer is the default of an input; a nested graph is always given its inputs.
            if self.defined.insert(name, 0).is_some() && !root {
                return Err(ModelError::Redefined {
                    at: at.to_string(),
                    name: name.to_string(),
                    before: "an input".to_string(),
                });
            }
        }
        Ok(())
    }

    /// No value is written twice.
    pub(super) fn define_outputs(&mut self, trail: &Trail<'_>) -> Result<(), ModelError> {
        for (index, node) in self.nodes.iter().enumerate() {
            for (position, name) in node.output.iter().enumerate() {
                if name.is_empty() {
                    continue;
                }
                if let Some(before) = self.defined.insert(name, index + 1) {
                    let body = trail.path(self.place);
                    let at = body.node(index, node);
                    return Err(ModelError::Redefined {
                        at: at.item("output", position).to_string(),
                        name: name.clone(),
                        before: self.definer(trail, before),
                    });
                }
            }
        }
        Ok(())
    }
}

/// A graph has a name.
fn check_name(graph: &GraphProto, at: &Path<'_>) -> Result<(), ModelError> {
    if graph.name().is_empty() {
        return Err(ModelError::Unnamed {
            at: at.to_string(),
            what: "the graph",
        });
    }
    Ok(())
}

/// Initializers hold what they declare.
fn check_initializers(
    graph: &GraphProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    for (index, tensor) in graph.initializer.iter().enumerate() {
        let at = at.named("initializer", index, tensor.name());
        tensors::check_dense(tensor, &at, context)?;
    }
    for (index, sparse) in graph.sparse_initializer.iter().enumerate() {
        let at = at.item("sparse_initializer", index);
        sparse_tensors::check(sparse, &at, context)?;
    }
    for (index, value) in graph.encoded_initializer.iter().enumerate() {
        let at = at.named("encoded_initializer", index, value.name());
        encoded::check(value, &at, context)?;
    }
    paged_cache::check_initializers(graph, at, context)
}
