//! Control flow while a graph is compiled: nested graphs become plans of their own.

use super::build::{Builder, Place};
use crate::error::{NodeProblem, SessionError};
use crate::events::NodeLabel;
use crate::kernel::{OpError, Slot};
use crate::plan::Step;
use crate::plan::branch::{Branch, If};
use crate::plan::scope::{Known, Scope};
use refeed_graph::attributes::Attributes;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_proto::NodeProto;

impl Builder<'_> {
    /// Compiles an `If`.
    pub(super) fn conditional(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        mut inputs: Vec<Option<Slot>>,
        label: NodeLabel,
        place: &Place,
    ) -> Result<(), SessionError> {
        if inputs.len() != 1 || inputs[0].is_none() {
            let got = inputs.len();
            let problem = NodeProblem::Arity {
                what: "inputs",
                expected: "1".to_string(),
                got,
            };
            self.problems.push(((&label).into(), problem));
            return Ok(());
        }
        let attributes = Attributes::new(node);
        let mut branches = Vec::with_capacity(2);
        let mut outputs: Vec<Known> = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let graph = match attributes.required_graph(name) {
                Ok(graph) => graph,
                Err(error) => {
                    let problem = NodeProblem::Build(OpError::Attribute(error));
                    self.problems.push(((&label).into(), problem));
                    return Ok(());
                }
            };
            if graph.output.len() != node.output.len() {
                let problem = NodeProblem::Arity {
                    what: "outputs",
                    expected: format!("{} as `{name}` has", graph.output.len()),
                    got: node.output.len(),
                };
                self.problems.push(((&label).into(), problem));
                return Ok(());
            }
            let within = place
                .within
                .clone()
                .or_else(|| Some((label.index, self.text(name))));
            let inner = Place {
                within,
                ..place.clone()
            };
            let (plan, captures, known) = self.branch(graph, scope, &inner)?;
            let captures = captures
                .into_iter()
                .map(|(outside, inside)| {
                    let held = inputs
                        .iter()
                        .skip(1)
                        .position(|slot| *slot == Some(outside));
                    let position = held.map_or_else(
                        || {
                            inputs.push(Some(outside));
                            inputs.len() - 1
                        },
                        |at| at + 1,
                    );
                    (position, inside)
                })
                .collect();
            outputs = match outputs.is_empty() {
                true => known,
                false => outputs
                    .iter()
                    .zip(&known)
                    .map(|(a, b)| merge(a, b))
                    .collect(),
            };
            branches.push(Branch::new(plan, captures));
        }
        if let Err(error) = attributes.finish() {
            self.problems.push((
                (&label).into(),
                NodeProblem::Build(OpError::Attribute(error)),
            ));
        }
        let (Some(else_branch), Some(then_branch)) = (branches.pop(), branches.pop()) else {
            return Ok(());
        };
        let outputs: Vec<Option<Slot>> = node
            .output
            .iter()
            .zip(outputs)
            .map(|(name, known)| (!name.is_empty()).then(|| scope.define(name, known)))
            .collect();
        scope.steps.push(Step {
            kernel: Box::new(If {
                then_branch,
                else_branch,
            }),
            inputs: inputs.into_boxed_slice(),
            outputs: outputs.into_boxed_slice(),
            release: Box::default(),
            sites: Box::default(),
            label,
            rewrites_cache: false,
            doubtful: false,
        });
        Ok(())
    }
}

/// What is known of a value that comes from one of two branches.
fn merge(a: &Known, b: &Known) -> Known {
    Known {
        ty: common(&a.ty, &b.ty),
        constant: None,
        cache: a.cache || b.cache,
    }
}

/// What two types both say.
fn common(a: &ValueType, b: &ValueType) -> ValueType {
    match (a, b) {
        (ValueType::Tensor(a), ValueType::Tensor(b)) => {
            let shape = match (&a.shape, &b.shape) {
                (Some(a), Some(b)) if a.len() == b.len() => {
                    let same = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
                    Some(a.iter().zip(b).map(same).collect())
                }
                _ => None,
            };
            let dtype = a.dtype.filter(|_| a.dtype == b.dtype);
            TensorType { dtype, shape }.into()
        }
        (ValueType::Sequence(a), ValueType::Sequence(b)) => {
            ValueType::Sequence(Box::new(common(a, b)))
        }
        (a, b) if a == b => a.clone(),
        _ => ValueType::Unset,
    }
}
