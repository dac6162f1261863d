//! Where a graph appends to its retained values.
//!
//! A node may append when it reads a binding's retained value as the operand that it grows, and what it makes of it is
//! the binding's output, with no other node between. The same holds in the branches of an `If`, however deep they lie,
//! whose output is the binding's.

use super::build::{Builder, Place};
use crate::append::AppendSite;
use crate::explain::Outcome;
use crate::kernel::Slot;
use crate::ops::{NOT_FIRST, paged_attention};
use crate::plan::scope::Scope;
use crate::plan::{Plan, Step};
use refeed_proto::{GraphProto, NodeProto};
use std::collections::HashSet;
use std::sync::Arc;

/// An operator, and which of its inputs it makes which of its outputs of.
type Grows = (&'static str, &'static str, &'static [(usize, usize)]);

/// Operators whose kernels ask for rows behind a retained input.
const APPENDS: &[Grows] = &[
    ("", "Concat", &[(0, 0)]),
    ("", "Attention", &[(4, 1), (5, 2)]),
    ("com.microsoft", "GroupQueryAttention", &[(3, 1), (4, 2)]),
    ("com.microsoft", "MultiHeadAttention", &[(6, 1), (7, 2)]),
];

/// Operators that write rows of a retained input over, in two buffers by turns.
const WRITES_OVER: &[Grows] = &[("", "TensorScatter", &[(0, 0)])];

/// The values of one graph that become the next values of bindings, by binding.
#[derive(Debug, Clone, Default)]
pub(super) struct BoundOutputs(Arc<[(usize, String)]>);

impl BoundOutputs {
    /// The same values, where an `If` of the graph makes them, in one of its branches.
    pub(super) fn inside(&self, node: &NodeProto, branch: &GraphProto) -> BoundOutputs {
        let within = self.0.iter().filter_map(|(binding, name)| {
            let position = node.output.iter().position(|output| output == name)?;
            let made = branch.output.get(position)?.name();
            Some((*binding, made.to_string()))
        });
        BoundOutputs(within.collect())
    }
}

/// What nodes of branches do with retained values.
#[derive(Debug, Default)]
pub(super) struct BranchAppends {
    /// Bindings to whose values a node appends.
    appended: HashSet<usize>,
    /// Bindings whose values a node writes over.
    written: HashSet<usize>,
    sites: usize,
}

impl BranchAppends {
    /// How many such nodes there are.
    pub(super) fn sites(&self) -> usize {
        self.sites
    }
}

/// What a step does with the retained value of a binding.
enum Use {
    /// It grows this input to this output.
    Appends(usize, usize),
    /// It writes rows of this input over, for this output.
    WritesOver(usize, usize),
    /// It would grow it, were it another operand.
    Elsewhere,
    None,
}

impl Builder<'_> {
    /// The outputs of the root graph that bindings read, for nodes of branches.
    pub(super) fn bound_outputs(&self, graph: &GraphProto) -> BoundOutputs {
        let branches = graph.node.iter().any(|node| node.op_type() == "If");
        if !branches || !self.appends_in_branches {
            return BoundOutputs::default();
        }
        let bindings = self.model.bindings().iter().enumerate();
        let outputs = bindings.map(|(index, binding)| {
            let name = &*self.model.outputs()[binding.output_index].name;
            (index, name.to_string())
        });
        BoundOutputs(outputs.collect())
    }

    /// Finds the nodes of a branch that append to retained values.
    pub(super) fn place_branch_appends(&mut self, scope: &mut Scope<'_>, place: &Place) {
        for (binding, name) in place.bound.0.iter() {
            let Some(&output) = scope.names.get(name) else {
                continue;
            };
            let Some(step) = producer(scope, output) else {
                continue;
            };
            let (input, output) = match self.use_of(scope, step, *binding, output) {
                Use::Appends(input, output) => {
                    self.branches.appended.insert(*binding);
                    (input, output)
                }
                Use::WritesOver(input, output) => {
                    self.branches.written.insert(*binding);
                    (input, output)
                }
                Use::Elsewhere | Use::None => continue,
            };
            add_site(&mut scope.steps[step], input, output, *binding);
            self.branches.sites += 1;
        }
    }

    /// What a step that makes `output` does with the retained value of a binding.
    fn use_of(&self, scope: &Scope<'_>, step: usize, binding: usize, output: Slot) -> Use {
        let step = &scope.steps[step];
        let (domain, op_type) = (&*step.label.domain, &*step.label.op_type);
        let of = |operators: &[Grows]| {
            let mut operators = operators.iter();
            let found = operators.find(|(d, o, _)| (*d, *o) == (domain, op_type));
            found.map(|(.., pairs)| *pairs)
        };
        if self.kernels.find(domain, op_type).is_some() {
            return Use::None;
        }
        let is_read = |input: usize| {
            let slot = step.inputs.get(input).copied().flatten();
            slot.is_some_and(|slot| scope.known(slot).bound == Some(binding))
        };
        let grown = |pairs: &[(usize, usize)]| {
            let mut pairs = pairs.iter();
            pairs
                .find(|&&(i, o)| is_read(i) && step.outputs.get(o) == Some(&Some(output)))
                .copied()
        };
        if let Some(pairs) = of(APPENDS) {
            // `Concat` looks for the retained value among all its parts, to tell why it copies one that is not the first.
            let part = || {
                let part = (0..step.inputs.len()).find(|&part| is_read(part));
                part.filter(|_| op_type == "Concat").map(|part| (part, 0))
            };
            return match grown(pairs).or_else(part) {
                Some((input, output)) => Use::Appends(input, output),
                None => Use::Elsewhere,
            };
        }
        match of(WRITES_OVER).and_then(grown) {
            // With exclusive reuse every value is written whole.
            Some((input, output)) if self.appends_in_branches => Use::WritesOver(input, output),
            _ => Use::None,
        }
    }

    /// Finds, for each binding, the node that may append in place, and what happens where there is none.
    pub(super) fn place_appends(&self, scope: &mut Scope<'_>, plan: &mut Plan) {
        for (index, binding) in self.model.bindings().iter().enumerate() {
            let output = plan.outputs[binding.output_index];
            let (appends, surely, usual) = self.place_append(scope, plan, index, output);
            plan.appends.push(appends);
            plan.surely.push(surely);
            plan.usual.push(usual);
        }
    }

    /// Whether a node may append to a binding's value, whether it does whenever it can, and what happens else.
    fn place_append(
        &self,
        scope: &mut Scope<'_>,
        plan: &Plan,
        index: usize,
        output: Slot,
    ) -> (bool, bool, Outcome) {
        let names = &self.model.bindings()[index];
        if scope.known(output).bound == Some(index) {
            return (false, false, Outcome::Kept);
        }
        let Some(step) = producer(scope, output) else {
            let fed = plan.inputs.iter().position(|slot| *slot == output);
            let from: Arc<str> = match fed {
                Some(fed) => Arc::from(format!(
                    "nothing: it is the graph input `{}`",
                    self.model.inputs()[fed].name
                )),
                None => Arc::from("a constant"),
            };
            return (false, false, Outcome::Computed(from));
        };
        let op_type = scope.steps[step].label.op_type.clone();
        if scope.steps[step].label.domain.is_empty() && &*op_type == "If" {
            let appended = self.branches.appended.contains(&index);
            let inside = appended || self.branches.written.contains(&index);
            let made = match inside {
                true => "a branch of `If` that does not append to it",
                false => "a branch of `If`",
            };
            return (appended, inside, Outcome::Computed(Arc::from(made)));
        }
        match self.use_of(scope, step, index, output) {
            Use::Appends(input, output) => {
                add_site(&mut scope.steps[step], input, output, index);
                match input > 0 && &*op_type == "Concat" {
                    false => (true, true, Outcome::Computed(op_type)),
                    true => (true, false, Outcome::Copied(NOT_FIRST.to_string())),
                }
            }
            Use::WritesOver(input, output) => {
                add_site(&mut scope.steps[step], input, output, index);
                (false, true, Outcome::Computed(op_type))
            }
            Use::Elsewhere => {
                let inputs = scope.steps[step].inputs.iter().flatten();
                let mut inputs = inputs.map(|&slot| scope.known(slot).bound == Some(index));
                let why = match inputs.any(|is| is) {
                    true => format!(
                        "`{}` is not the operand of which {op_type} makes `{}`",
                        names.input, names.output
                    ),
                    false => format!("`{}` does not reach this {op_type} directly", names.input),
                };
                (false, false, Outcome::Copied(why))
            }
            Use::None => {
                let held = &scope.steps[step];
                let is_read = |slot: &Option<Slot>| {
                    slot.is_some_and(|slot| scope.known(slot).bound == Some(index))
                };
                let reads = held.inputs.iter().position(is_read);
                let writes = held.outputs.iter().position(|slot| *slot == Some(output));
                let pages = (&*held.label.domain, &*op_type)
                    == (paged_attention::DOMAIN, paged_attention::OP_TYPE);
                let usual = match pages && reads.is_some() {
                    true => Outcome::AppendsPages,
                    false => Outcome::Computed(op_type),
                };
                let may = self.may_append.contains(&output);
                let (true, Some(input), Some(output)) = (may, reads, writes) else {
                    return (false, false, usual);
                };
                add_site(&mut scope.steps[step], input, output, index);
                (true, false, usual)
            }
        }
    }
}

/// The step that makes a value; none for inputs and constants.
fn producer(scope: &Scope<'_>, slot: Slot) -> Option<usize> {
    let mut steps = scope.steps.iter();
    steps.position(|step| step.outputs.contains(&Some(slot)))
}

/// Lets a step append to the value of a binding.
fn add_site(step: &mut Step, input: usize, output: usize, binding: usize) {
    let mut sites = std::mem::take(&mut step.sites).into_vec();
    sites.push(AppendSite {
        input,
        output,
        binding,
    });
    step.sites = sites.into_boxed_slice();
    step.rewrites_cache = false;
}
