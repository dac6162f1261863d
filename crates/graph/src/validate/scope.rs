//! Names and order: single assignment, topological order, scopes of nested graphs.
//!
//! A graph owns every name that it defines anywhere. So a nested graph that defines `x` never sees an outer `x`, not
//! even before its own definition: reading it there is an error, never a silent look at another scope. The checker asks
//! for more: that a nested graph's nodes write no name that it could read from outside, and that its outputs are its own.

mod cycle;
mod frame;

use super::attributes::Declared;
use super::{Context, Opsets, nodes};
use crate::error::ModelError;
use crate::path::{Path, Place, Step, Trail};
use crate::uses;
use frame::Frame;
use refeed_proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};

/// Checks a root graph with everything nested in it.
pub(super) fn check_graph(
    graph: &GraphProto,
    at: &Path<'_>,
    opsets: Option<&Opsets>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let mut walk = Walk::new(at, opsets, Declared::Graph, context);
    walk.enter(graph, true, Place::BASE)?;
    walk.run()
}

/// Checks a graph that is nested in one that is not there, whose values are named.
pub(super) fn check_nested_graph(
    graph: &GraphProto,
    at: &Path<'_>,
    outer: &[String],
    opsets: Option<&Opsets>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let mut walk = Walk::new(at, opsets, Declared::Unknown, context);
    walk.frames.push(Frame::around(outer));
    walk.enter(graph, false, Place::BASE)?;
    walk.run()
}

/// Checks the body of a function.
pub(super) fn check_function(
    function: &FunctionProto,
    at: &Path<'_>,
    opsets: Option<&Opsets>,
    declared: Declared<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let mut walk = Walk::new(at, opsets, declared, context);
    let mut frame = Frame::of_function(function);
    frame.define_inputs(&walk.trail)?;
    frame.define_outputs(&walk.trail)?;
    walk.frames.push(frame);
    walk.run()
}

/// Checks a node apart from its graph. Its own inputs come from anywhere; what its nested graphs take from outside must
/// be among `outer`.
pub(super) fn check_node(
    node: &NodeProto,
    at: &Path<'_>,
    outer: &[String],
    opsets: Option<&Opsets>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    nodes::check(node, at, opsets, Declared::Unknown, context)?;
    for attribute in &node.attribute {
        let at = at.key("attribute", attribute.name());
        check_attribute(attribute, &at, outer, opsets, context)?;
    }
    Ok(())
}

/// Checks the graphs of an attribute apart from its node.
pub(super) fn check_attribute(
    attribute: &AttributeProto,
    at: &Path<'_>,
    outer: &[String],
    opsets: Option<&Opsets>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    for (field, graph) in uses::nested_fields(attribute) {
        check_nested_graph(graph, &at.then(field), outer, opsets, context)?;
    }
    Ok(())
}

/// The walk through a graph or a function and all that is nested in it, from the outside in.
struct Walk<'a, 'c> {
    trail: Trail<'a>,
    frames: Vec<Frame<'a>>,
    opsets: Option<&'c Opsets>,
    declared: Declared<'c>,
    context: &'c Context<'c>,
}

impl<'a, 'c> Walk<'a, 'c> {
    fn new(
        at: &'a Path<'a>,
        opsets: Option<&'c Opsets>,
        declared: Declared<'c>,
        context: &'c Context<'c>,
    ) -> Walk<'a, 'c> {
        Walk {
            trail: Trail::new(*at),
            frames: Vec::new(),
            opsets,
            declared,
            context,
        }
    }

    /// Opens a graph: all that is checked before its nodes.
    fn enter(&mut self, graph: &'a GraphProto, root: bool, place: Place) -> Result<(), ModelError> {
        let frame = Frame::of_graph(graph, root, place, &self.trail, self.context)?;
        if !root && self.context.rules.is_checker() {
            self.check_shadowing(&frame)?;
        }
        self.frames.push(frame);
        Ok(())
    }

    fn run(&mut self) -> Result<(), ModelError> {
        while let Some(frame) = self.frames.last_mut() {
            if let Some((graph, place)) = frame.nested.pop() {
                self.enter(graph, false, place)?;
                continue;
            }
            if frame.entered {
                frame.entered = false;
                frame.current += 1;
            }
            let (nodes, index) = (frame.nodes, frame.current);
            if let Some(node) = nodes.get(index) {
                frame.entered = true;
                self.visit(node, index)?;
                continue;
            }
            // Past the last node: everything that the graph defines is there.
            self.check_outputs()?;
            self.frames.pop();
        }
        Ok(())
    }

    fn visit(&mut self, node: &'a NodeProto, index: usize) -> Result<(), ModelError> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(());
        };
        for attribute in node.attribute.iter().rev() {
            for (field, graph) in uses::nested_fields(attribute).rev() {
                let place = self.trail.push(frame.place, Step::Node(index, node));
                let place = self
                    .trail
                    .push(place, Step::Key("attribute", attribute.name()));
                let place = self.trail.push(place, field);
                frame.nested.push((graph, place));
            }
        }
        let body = self.trail.path(frame.place);
        let at = body.node(index, node);
        nodes::check(node, &at, self.opsets, self.declared, self.context)?;
        for (position, name) in node.input.iter().enumerate() {
            if !name.is_empty() {
                self.look_up(name, &at.item("input", position), "input")?;
            }
        }
        Ok(())
    }

    /// What a graph or a function gives is defined in it or around it; the checker asks for in it.
    fn check_outputs(&self) -> Result<(), ModelError> {
        let Some(frame) = self.frames.last() else {
            return Ok(());
        };
        let body = self.trail.path(frame.place);
        for (index, &name) in frame.outputs.iter().enumerate() {
            let at = body.named("output", index, name);
            if name.is_empty() {
                return Err(ModelError::Unnamed {
                    at: at.to_string(),
                    what: "an output",
                });
            }
            if self.context.rules.is_checker() && !frame.defined.contains_key(name) {
                return Err(ModelError::Undefined {
                    at: at.to_string(),
                    role: "output",
                    name: name.to_string(),
                });
            }
            self.look_up(name, &at, "output")?;
        }
        Ok(())
    }

    /// Finds a name from the innermost scope outwards, and holds its place to the order of nodes.
    fn look_up(&self, name: &str, at: &Path<'_>, role: &'static str) -> Result<(), ModelError> {
        for frame in self.frames.iter().rev() {
            let Some(&position) = frame.defined.get(name) else {
                continue;
            };
            if position <= frame.current {
                return Ok(());
            }
            let producer = position - 1;
            let name = name.to_string();
            return Err(match cycle::find(frame, &self.trail, producer) {
                Some(cycle) => ModelError::Cycle {
                    at: at.to_string(),
                    name,
                    cycle,
                },
                None => ModelError::OutOfOrder {
                    at: at.to_string(),
                    name,
                    producer: frame.node(&self.trail, producer),
                },
            });
        }
        Err(ModelError::Undefined {
            at: at.to_string(),
            role,
            name: name.to_string(),
        })
    }

    /// Nodes of a nested graph write no name that the graph could read from outside.
    fn check_shadowing(&self, inner: &Frame<'_>) -> Result<(), ModelError> {
        for (index, node) in inner.nodes.iter().enumerate() {
            for (position, name) in node.output.iter().enumerate() {
                if name.is_empty() {
                    continue;
                }
                for outer in &self.frames {
                    let Some(&before) = outer.defined.get(name.as_str()) else {
                        continue;
                    };
                    if before <= outer.current {
                        let body = self.trail.path(inner.place);
                        let at = body.node(index, node);
                        return Err(ModelError::Redefined {
                            at: at.item("output", position).to_string(),
                            name: name.clone(),
                            before: outer.definer(&self.trail, before),
                        });
                    }
                }
            }
        }
        Ok(())
    }
}
