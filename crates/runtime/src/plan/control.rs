//! Operators that hold graphs: `If`, `Loop`, `Scan` and `SequenceMap`.

use super::build::{Builder, Place};
use crate::control::{BatchedScan, Body, If, Loop, Scan, Scanned, SequenceMap, never_ends};
use crate::error::{NodeProblem, SessionError};
use crate::events::NodeLabel;
use crate::kernel::{Kernel, OpError, Slot};
use crate::plan::Step;
use crate::plan::appends::BoundOutputs;
use crate::plan::checks::check_schema;
use crate::plan::form::Form;
use crate::plan::scope::{Known, Operands, Scope};
use crate::plan::walk::Walker;
use refeed_graph::attributes::{AttributeError, Attributes};
use refeed_graph::schema::Inference;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_proto::{GraphProto, NodeProto};

/// The operators that this module compiles.
pub(super) fn holds_graphs(label: &NodeLabel) -> bool {
    label.domain.is_empty() && ["If", "Loop", "Scan", "SequenceMap"].contains(&&*label.op_type)
}

/// Why a node with graphs is left out.
enum Refusal {
    /// The node cannot be computed; others are looked at still.
    Node(NodeProblem),
    /// The model is broken.
    Model(SessionError),
}

impl<E: Into<NodeProblem>> From<E> for Refusal {
    fn from(problem: E) -> Refusal {
        Refusal::Node(problem.into())
    }
}

impl From<AttributeError> for NodeProblem {
    fn from(error: AttributeError) -> NodeProblem {
        NodeProblem::Build(OpError::Attribute(error))
    }
}

fn arity(what: &'static str, expected: String, got: usize) -> Refusal {
    Refusal::Node(NodeProblem::Arity {
        what,
        expected,
        got,
    })
}

/// A node, ready to be placed: its kernel, all its inputs, and what is known of its outputs.
type Built = (Box<dyn Kernel>, Vec<Option<Slot>>, Vec<Known>);

impl Builder<'_> {
    /// Compiles a node that holds graphs.
    pub(super) fn control(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        inputs: Vec<Option<Slot>>,
        label: NodeLabel,
        place: &Place,
    ) -> Result<(), SessionError> {
        let built = match &*label.op_type {
            "If" => self.conditional(scope, node, inputs, &label, place),
            _ => self.repeated(scope, node, inputs, &label, place),
        };
        let (kernel, inputs, known) = match built {
            Ok(built) => built,
            Err(Refusal::Model(error)) => return Err(error),
            Err(Refusal::Node(problem)) => {
                self.problems.push(((&label).into(), problem));
                for name in node.output.iter().filter(|name| !name.is_empty()) {
                    scope.define(name, Known::default());
                }
                return Ok(());
            }
        };
        let outputs: Vec<Option<Slot>> = node
            .output
            .iter()
            .zip(known)
            .map(|(name, known)| (!name.is_empty()).then(|| scope.define(name, known)))
            .collect();
        scope.steps.push(Step {
            form: Form::Other,
            kernel: kernel.into(),
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

    /// Where the nodes of a nested graph stand.
    fn inside(&mut self, label: &NodeLabel, attribute: &str, place: &Place) -> Place {
        let within = place.within.clone();
        Place {
            within: within.or_else(|| Some((label.index, self.text(attribute)))),
            bound: BoundOutputs::default(),
            ..place.clone()
        }
    }

    fn conditional(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        mut inputs: Vec<Option<Slot>>,
        label: &NodeLabel,
        place: &Place,
    ) -> Result<Built, Refusal> {
        if inputs.len() != 1 || inputs[0].is_none() {
            return Err(arity("inputs", "1".to_string(), inputs.len()));
        }
        let attributes = Attributes::new(node);
        let mut branches = Vec::with_capacity(2);
        let mut outputs: Option<Vec<Known>> = None;
        for name in ["then_branch", "else_branch"] {
            let graph = attributes.required_graph(name)?;
            check_outputs(graph, name, node.output.len())?;
            let inner = Place {
                bound: place.bound.inside(node, graph),
                ..self.inside(label, name, place)
            };
            let placed = self.branches.sites();
            let compiled = self.nested(graph, &[], scope, &inner);
            let (plan, captures, known) = compiled.map_err(Refusal::Model)?;
            let appends = self.branches.sites() > placed;
            let captures = captured(captures, &mut inputs);
            outputs = Some(match outputs {
                None => known,
                Some(held) => held.iter().zip(&known).map(|(a, b)| merge(a, b)).collect(),
            });
            branches.push(Body::appending(plan, captures, appends));
        }
        attributes.finish()?;
        let (Some(else_branch), Some(then_branch)) = (branches.pop(), branches.pop()) else {
            return Err(OpError::Unsupported("`If` without two branches".to_string()).into());
        };
        let kernel = Box::new(If {
            then_branch,
            else_branch,
        });
        Ok((kernel, inputs, outputs.unwrap_or_default()))
    }

    /// Compiles `Loop`, `Scan` or `SequenceMap`.
    fn repeated(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        mut inputs: Vec<Option<Slot>>,
        label: &NodeLabel,
        place: &Place,
    ) -> Result<Built, Refusal> {
        let schema = refeed_graph::ops::schema(&label.domain, &label.op_type)
            .ok_or(NodeProblem::NoKernel)?;
        let opset = place.version(&label.domain);
        check_schema(schema, node, opset)?;
        let attributes = Attributes::new(node);
        let shape = Repeated::read(&label.op_type, opset, &attributes, node)?;
        let graph = attributes.required_graph("body")?;
        check_outputs(graph, "body", shape.body_outputs(node.output.len()))?;

        let Operands { types, constants } = scope.operands(&inputs);
        let mut caches: Vec<bool> = inputs
            .iter()
            .map(|slot| slot.is_some_and(|slot| scope.known(slot).cache))
            .collect();
        // The inputs of a body are those of its node behind some of its own kind.
        caches.drain(..shape.skipped().min(caches.len()));
        caches.splice(0..0, vec![false; shape.given()]);
        let inner = self.inside(label, "body", place);
        let reader = Attributes::new(node);
        let count = node.output.len();
        let mut inference = Inference::new(&reader, opset, &types, &constants, count);
        let mut walker = Walker::new(self, scope, inner, &caches);
        let inferred = {
            inference = inference.with_graphs(&mut walker);
            let result = (schema.infer)(&mut inference);
            let types = inference.into_types().into_iter().map(|(ty, _)| ty);
            result.map(|()| types.collect::<Vec<ValueType>>())
        };
        let compiled = walker.finish(graph).map_err(Refusal::Model)?;
        let types = inferred.map_err(NodeProblem::Infer)?;
        let (plan, captures, given) = compiled;

        let parts: Vec<TensorType> = graph.output[shape.before_parts().min(graph.output.len())..]
            .iter()
            .zip(&given[shape.before_parts().min(given.len())..])
            .map(|(declared, known)| part_type(&known.ty, declared))
            .collect();
        let outer = inputs.len();
        let captures = captured(captures, &mut inputs);
        let kernel: Box<dyn Kernel> = match shape {
            Repeated::Loop { states } => Box::new(Loop {
                never_ends: never_ends(&plan),
                body: Body::new(plan, captures),
                states,
                parts,
            }),
            Repeated::Scan {
                states,
                inputs,
                outputs,
                batched,
            } => {
                let scan = Scan {
                    body: Body::new(plan, captures),
                    states,
                    inputs,
                    outputs,
                    parts,
                };
                match batched {
                    true => Box::new(BatchedScan(scan)),
                    false => Box::new(scan),
                }
            }
            Repeated::Map => Box::new(SequenceMap {
                body: Body::new(plan, captures),
                inputs: outer,
            }),
        };
        attributes.finish()?;
        let from_body = &given[given.len() - count.min(given.len())..];
        let known = types
            .into_iter()
            .zip(from_body)
            .map(|(ty, given)| Known {
                ty,
                constant: None,
                cache: given.cache,
                bound: None,
            })
            .collect();
        Ok((kernel, inputs, known))
    }
}

/// What the attributes and the inputs of a repeating node say.
enum Repeated {
    Loop {
        states: usize,
    },
    Scan {
        states: usize,
        inputs: Vec<Scanned>,
        outputs: Vec<Scanned>,
        batched: bool,
    },
    Map,
}

impl Repeated {
    fn read(
        op_type: &str,
        opset: i64,
        attributes: &Attributes<'_>,
        node: &NodeProto,
    ) -> Result<Repeated, Refusal> {
        let (inputs, outputs) = (node.input.len(), node.output.len());
        let parts = |states: usize| {
            let expected = || format!("at least {states}, one for each state");
            let parts = outputs.checked_sub(states);
            parts.ok_or_else(|| arity("outputs", expected(), outputs))
        };
        match op_type {
            "Loop" => {
                let states = inputs.saturating_sub(2);
                parts(states)?;
                Ok(Repeated::Loop { states })
            }
            "Scan" => {
                let batched = opset < 9;
                let all = inputs.saturating_sub(usize::from(batched));
                let number = attributes.required_int("num_scan_inputs")?;
                let scans = usize::try_from(number).ok().filter(|&n| n > 0 && n <= all);
                let scans = scans.ok_or_else(|| AttributeError::Value {
                    name: "num_scan_inputs",
                    expected: "at least 1, and at most the number of inputs",
                    got: number.to_string(),
                })?;
                let states = all - scans;
                let parts = parts(states)?;
                let (inputs, outputs) = match batched {
                    true => {
                        let inputs = scanned(attributes, [None, Some("directions")], scans)?;
                        (inputs, scanned(attributes, [None, None], parts)?)
                    }
                    false => {
                        let names = ["scan_input_axes", "scan_input_directions"];
                        let inputs = scanned(attributes, names.map(Some), scans)?;
                        let names = ["scan_output_axes", "scan_output_directions"];
                        (inputs, scanned(attributes, names.map(Some), parts)?)
                    }
                };
                Ok(Repeated::Scan {
                    states,
                    inputs,
                    outputs,
                    batched,
                })
            }
            _ => Ok(Repeated::Map),
        }
    }

    /// Inputs of the node that are no inputs of the body.
    fn skipped(&self) -> usize {
        match self {
            Repeated::Loop { .. } => 2,
            Repeated::Scan { batched: true, .. } => 1,
            _ => 0,
        }
    }

    /// Inputs of the body that are no inputs of the node: iteration and condition.
    fn given(&self) -> usize {
        match self {
            Repeated::Loop { .. } => 2,
            _ => 0,
        }
    }

    fn body_outputs(&self, outputs: usize) -> usize {
        match self {
            Repeated::Loop { .. } => outputs.saturating_add(1),
            _ => outputs,
        }
    }

    /// Outputs of the body before those that are stacked.
    fn before_parts(&self) -> usize {
        match self {
            Repeated::Loop { states } => states.saturating_add(1),
            Repeated::Scan { states, .. } => *states,
            Repeated::Map => usize::MAX,
        }
    }
}

/// Axes and directions of some tensors, 0 where nothing is said.
fn scanned(
    attributes: &Attributes<'_>,
    names: [Option<&'static str>; 2],
    count: usize,
) -> Result<Vec<Scanned>, Refusal> {
    let list = |name: Option<&'static str>| -> Result<Vec<i64>, Refusal> {
        let given = match name {
            Some(name) => attributes.ints(name)?.map(|given| (name, given)),
            None => None,
        };
        match given {
            None => Ok(vec![0; count]),
            Some((_, given)) if given.len() == count => Ok(given.to_vec()),
            Some((name, given)) => Err(AttributeError::Value {
                name,
                expected: "one number for each scanned input or output",
                got: format!("{given:?}"),
            }
            .into()),
        }
    };
    let [axes, directions] = names;
    let directed = list(directions)?
        .into_iter()
        .map(|direction| match direction {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(AttributeError::Value {
                name: directions.unwrap_or_default(),
                expected: "0 or 1 for each",
                got: other.to_string(),
            }),
        });
    let scanned = list(axes)?
        .into_iter()
        .zip(directed)
        .map(|(axis, backwards)| {
            Ok(Scanned {
                axis,
                backwards: backwards?,
            })
        });
    scanned.collect()
}

fn check_outputs(graph: &GraphProto, name: &str, expected: usize) -> Result<(), Refusal> {
    let got = graph.output.len();
    if got == expected {
        return Ok(());
    }
    let expected = format!("{expected} of `{name}`, as the node has them,");
    Err(arity("outputs", expected, got))
}

/// Makes captured values inputs of the node, and says which slot of the body each input fills.
fn captured(captures: Vec<(Slot, Slot)>, inputs: &mut Vec<Option<Slot>>) -> Vec<(usize, Slot)> {
    let place = |(outside, inside): (Slot, Slot)| {
        let held = inputs.iter().position(|slot| *slot == Some(outside));
        let position = held.unwrap_or_else(|| {
            inputs.push(Some(outside));
            inputs.len() - 1
        });
        (position, inside)
    };
    captures.into_iter().map(place).collect()
}

/// What one iteration gives to be stacked: as far as it is not known, what the body declares.
fn part_type(known: &ValueType, declared: &refeed_proto::ValueInfoProto) -> TensorType {
    let declared = ValueType::from_proto(declared.r#type.as_ref());
    let declared = declared.tensor().cloned().unwrap_or_default();
    let known = known.tensor().cloned().unwrap_or_default();
    TensorType {
        dtype: known.dtype.or(declared.dtype),
        shape: known.shape.or(declared.shape),
    }
}

/// What is known of a value that comes from one of two branches.
fn merge(a: &Known, b: &Known) -> Known {
    Known {
        ty: common(&a.ty, &b.ty),
        constant: None,
        cache: a.cache || b.cache,
        bound: None,
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
        (ValueType::Optional(a), ValueType::Optional(b)) => {
            ValueType::Optional(Box::new(common(a, b)))
        }
        (a, b) if a == b => a.clone(),
        _ => ValueType::Unset,
    }
}
