//! Names and order: single assignment, topological order, cycles, scopes of nested graphs.
//!
//! A graph owns every name that it defines anywhere. So a nested graph that defines `x` never sees an outer `x`, not
//! even before its own definition: reading it there is an error, never a silent look at another scope.

use super::opsets::Opsets;
use super::{attributes, control_flow, tensors};
use crate::error::ModelError;
use crate::functions::FunctionTable;
use crate::load::ExternalData;
use crate::schema::Arity;
use crate::{ops, place, uses};
use refeed_proto::{FunctionProto, GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// What every body is checked against.
pub(super) struct Context<'a, 'm> {
    pub(super) functions: &'a FunctionTable<'m>,
    pub(super) external: &'a ExternalData,
    /// Whether attributes must state their type: since IR version 2.
    pub(super) typed_attributes: bool,
}

/// Where a value of one scope comes from: 0 before all nodes, `i + 1` from node `i`.
type Position = usize;

/// One graph or function body that is being walked.
struct Frame<'a> {
    /// Prefix of places in it.
    at: String,
    nodes: &'a [NodeProto],
    outputs: Vec<&'a str>,
    defined: HashMap<&'a str, Position>,
    /// The node that is being looked at.
    current: usize,
    /// Its nested graphs that are still to come, last first.
    nested: Vec<(&'a GraphProto, String)>,
    /// Whether its inputs, outputs and attributes have been looked at.
    entered: bool,
}

impl<'a> Frame<'a> {
    fn new(at: String, nodes: &'a [NodeProto], outputs: Vec<&'a str>) -> Frame<'a> {
        Frame {
            at,
            nodes,
            outputs,
            defined: HashMap::new(),
            current: 0,
            nested: Vec::new(),
            entered: false,
        }
    }

    fn of_graph(
        graph: &'a GraphProto,
        at: String,
        root: bool,
        context: &Context<'_, '_>,
    ) -> Result<Frame<'a>, ModelError> {
        let outputs = graph.output.iter().map(|output| output.name()).collect();
        let mut frame = Frame::new(at, &graph.node, outputs);
        for input in &graph.input {
            frame.define_input(input.name())?;
        }
        let mut initializers = HashSet::new();
        for name in uses::initializer_names(graph) {
            if name.is_empty() {
                return Err(ModelError::Unnamed {
                    at: frame.place(),
                    what: "an initializer",
                });
            }
            if !initializers.insert(name) {
                let at = frame.place();
                return Err(ModelError::Duplicate {
                    at,
                    what: "initializer",
                    name: name.to_string(),
                });
            }
            // On the root an initializer is the default of an input; a nested graph is always given its inputs.
            if frame.defined.insert(name, 0).is_some() && !root {
                let (at, name) = (frame.place(), name.to_string());
                return Err(ModelError::Redefined {
                    at,
                    name,
                    before: "an input".to_string(),
                });
            }
        }
        for tensor in &graph.initializer {
            tensors::check_dense(tensor, context.external)?;
        }
        for sparse in &graph.sparse_initializer {
            tensors::check_sparse(sparse, "", context.external)?;
        }
        frame.define_outputs()?;
        Ok(frame)
    }

    fn place(&self) -> String {
        if self.at.is_empty() {
            "graph".to_string()
        } else {
            self.at.trim_end_matches(" / ").to_string()
        }
    }

    fn node(&self, index: usize) -> String {
        format!("{}{}", self.at, place::node(index, &self.nodes[index]))
    }

    fn define_input(&mut self, name: &'a str) -> Result<(), ModelError> {
        if name.is_empty() {
            return Err(ModelError::Unnamed {
                at: self.place(),
                what: "an input",
            });
        }
        if self.defined.insert(name, 0).is_some() {
            return Err(ModelError::Duplicate {
                at: self.place(),
                what: "graph input",
                name: name.to_string(),
            });
        }
        Ok(())
    }

    fn define_outputs(&mut self) -> Result<(), ModelError> {
        for (index, node) in self.nodes.iter().enumerate() {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                if let Some(before) = self.defined.insert(name, index + 1) {
                    let before = if before == 0 {
                        "an input or initializer".to_string()
                    } else {
                        self.node(before - 1)
                    };
                    return Err(ModelError::Redefined {
                        at: self.node(index),
                        name: name.clone(),
                        before,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Checks the root graph with everything nested in it.
pub(super) fn check_graph(
    graph: &GraphProto,
    opsets: &Opsets,
    context: &Context<'_, '_>,
) -> Result<(), ModelError> {
    let frame = Frame::of_graph(graph, String::new(), true, context)?;
    walk(frame, opsets, None, context)
}

/// Checks the body of a function.
pub(super) fn check_function(
    function: &FunctionProto,
    opsets: &Opsets,
    declared: &HashSet<&str>,
    context: &Context<'_, '_>,
) -> Result<(), ModelError> {
    let at = format!("function {} / ", place::function(function));
    let mut frame = Frame::new(
        at,
        &function.node,
        function.output.iter().map(String::as_str).collect(),
    );
    for input in &function.input {
        frame.define_input(input)?;
    }
    frame.define_outputs()?;
    walk(frame, opsets, Some(declared), context)
}

fn walk<'a>(
    root: Frame<'a>,
    opsets: &Opsets,
    declared: Option<&HashSet<&str>>,
    context: &Context<'_, '_>,
) -> Result<(), ModelError> {
    let mut frames = vec![root];
    while let Some(frame) = frames.last_mut() {
        if let Some((graph, at)) = frame.nested.pop() {
            let inner = Frame::of_graph(graph, at, false, context)?;
            frames.push(inner);
            continue;
        }
        if frame.entered {
            frame.entered = false;
            frame.current += 1;
        }
        if let Some(node) = frame.nodes.get(frame.current) {
            let index = frame.current;
            frame.entered = true;
            for attribute in node.attribute.iter().rev() {
                for graph in uses::nested(attribute).rev() {
                    let at = format!("{}{}", frame.at, place::branch(index, node, attribute));
                    frame.nested.push((graph, at));
                }
            }
            let frame = &frames[frames.len() - 1];
            check_node(node, &|| frame.node(index), opsets, declared, context)?;
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                look_up(&frames, name, "input")?;
            }
            continue;
        }
        // Past the last node: everything that the graph defines is there.
        let at = frames.len() - 1;
        for name in &frames[at].outputs {
            if name.is_empty() {
                return Err(ModelError::Unnamed {
                    at: frames[at].place(),
                    what: "an output",
                });
            }
            look_up(&frames, name, "output")?;
        }
        frames.pop();
    }
    Ok(())
}

/// Finds a name from the innermost scope outwards, and holds its place to the order of nodes.
fn look_up(frames: &[Frame<'_>], name: &str, role: &'static str) -> Result<(), ModelError> {
    let at = || {
        let inner = &frames[frames.len() - 1];
        if inner.current < inner.nodes.len() {
            inner.node(inner.current)
        } else {
            inner.place()
        }
    };
    for frame in frames.iter().rev() {
        let Some(&position) = frame.defined.get(name) else {
            continue;
        };
        if position <= frame.current {
            return Ok(());
        }
        let producer = position - 1;
        let name = name.to_string();
        return Err(match cycle(frame, frame.current, producer) {
            Some(cycle) => ModelError::Cycle {
                at: at(),
                name,
                cycle,
            },
            None => ModelError::OutOfOrder {
                at: at(),
                name,
                producer: frame.node(producer),
            },
        });
    }
    Err(ModelError::Undefined {
        at: at(),
        role,
        name: name.to_string(),
    })
}

/// The way from `producer` back to `reader`, if the producer needs what the reader makes.
fn cycle(frame: &Frame<'_>, reader: usize, producer: usize) -> Option<String> {
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut stack = vec![producer];
    let mut found = reader == producer;
    while let Some(index) = stack.pop() {
        if found {
            break;
        }
        let node = &frame.nodes[index];
        let needed = node
            .input
            .iter()
            .map(String::as_str)
            .chain(uses::captures(node));
        for name in needed.filter(|name| !name.is_empty()) {
            let Some(&position @ 1..) = frame.defined.get(name) else {
                continue;
            };
            let before = position - 1;
            if before != producer && !came_from.contains_key(&before) {
                came_from.insert(before, index);
                stack.push(before);
            }
            found |= before == reader;
        }
    }
    if !found {
        return None;
    }
    // `came_from` leads from the reader to the producer, each node to one that needs it.
    let mut names = vec![frame.node(reader)];
    let mut index = reader;
    while index != producer {
        index = *came_from.get(&index)?;
        names.push(frame.node(index));
    }
    names.push(frame.node(reader));
    if names.len() > 12 {
        names.splice(6..names.len() - 5, ["...".to_string()]);
    }
    Some(names.join(" -> "))
}

/// Everything about a node that does not depend on other nodes.
fn check_node(
    node: &NodeProto,
    at: &dyn Fn() -> String,
    opsets: &Opsets,
    declared: Option<&HashSet<&str>>,
    context: &Context<'_, '_>,
) -> Result<(), ModelError> {
    if node.op_type().is_empty() {
        return Err(ModelError::Unnamed {
            at: at(),
            what: "the operator",
        });
    }
    if opsets.get(node.domain()).is_none() {
        return Err(ModelError::DomainNotImported {
            at: at(),
            domain: place::shown_domain(node.domain()),
            imported: opsets.shown(),
        });
    }
    let mut names = HashSet::with_capacity(node.attribute.len());
    for attribute in &node.attribute {
        attributes::check(attribute, at, declared, context)?;
        if !names.insert(attribute.name()) {
            return Err(ModelError::Duplicate {
                at: at(),
                what: "attribute",
                name: attribute.name().to_string(),
            });
        }
    }
    match context
        .functions
        .get(node.domain(), node.op_type(), node.overload())
    {
        // A call may leave out inputs from the end, and outputs that it does not need.
        Some(function) => {
            check_arity(
                node,
                at,
                Arity::between(0, function.input.len()),
                Arity::between(0, function.output.len()),
            )?;
        }
        None => {
            if let Some(schema) = ops::schema(node.domain(), node.op_type()) {
                check_arity(node, at, schema.inputs, schema.outputs)?;
            }
        }
    }
    control_flow::check(node, at)
}

fn check_arity(
    node: &NodeProto,
    at: &dyn Fn() -> String,
    inputs: Arity,
    outputs: Arity,
) -> Result<(), ModelError> {
    for (role, names, arity) in [
        ("inputs", &node.input, inputs),
        ("outputs", &node.output, outputs),
    ] {
        // Empty names at the end are positions that are not there.
        let count = names
            .iter()
            .rposition(|name| !name.is_empty())
            .map_or(0, |last| last + 1);
        let required = names
            .iter()
            .take(arity.min)
            .filter(|name| !name.is_empty())
            .count();
        // Required inputs must be named. Outputs may be skipped when nothing needs them.
        let short = role == "inputs" && required < arity.min;
        if count > arity.max || short {
            let expected = match (arity.min, arity.max) {
                (min, max) if min == max => min.to_string(),
                (min, usize::MAX) => format!("at least {min}"),
                (min, max) => format!("{min} to {max}"),
            };
            return Err(ModelError::Arity {
                at: at(),
                role,
                expected,
                got: if short { required } else { count },
            });
        }
    }
    Ok(())
}
