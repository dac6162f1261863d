//! Where a graph appends to its retained values.

use super::build::Builder;
use crate::append::AppendSite;
use crate::explain::Outcome;
use crate::kernel::Slot;
use crate::ops::paged_attention;
use crate::plan::scope::Scope;
use crate::plan::{Plan, Step};
use refeed_proto::NodeProto;
use std::sync::Arc;

/// Operators whose kernels ask for rows behind a retained input.
const APPENDS: &[(&str, &str)] = &[
    ("", "Concat"),
    ("", "Attention"),
    ("com.microsoft", "GroupQueryAttention"),
    ("com.microsoft", "MultiHeadAttention"),
];

/// Operators that write rows of a retained input over, in two buffers by turns.
const WRITES_OVER: &[(&str, &str)] = &[("", "TensorScatter")];

impl Builder<'_> {
    /// Finds, in a branch of an `If` of the root graph, the nodes that append to a retained value which the branch captures
    /// and whose output the `If` hands on as the value's successor. `captures` pairs slots of the root and of the branch.
    pub(super) fn place_branch_appends(
        &mut self,
        scope: &Scope<'_>,
        node: &NodeProto,
        branch: &mut Plan,
        captures: &[(Slot, Slot)],
    ) {
        for (index, binding) in self.model.bindings().iter().enumerate() {
            let bound = &self.model.outputs()[binding.output_index].name;
            let position = node.output.iter().position(|name| **name == **bound);
            let output = position.and_then(|position| branch.outputs.get(position).copied());
            let outside = scope.names.get(&*binding.input);
            let inside = captures.iter().find(|(outer, _)| Some(outer) == outside);
            let (Some(output), Some(&(_, input))) = (output, inside) else {
                continue;
            };
            let step = branch
                .steps
                .iter_mut()
                .find(|step| step.outputs.contains(&Some(output)));
            let Some(step) = step.filter(|step| self.appends(step)) else {
                continue;
            };
            let reads = step.inputs.iter().position(|slot| *slot == Some(input));
            let writes = step.outputs.iter().position(|slot| *slot == Some(output));
            if let (Some(input), Some(output)) = (reads, writes) {
                add_site(step, input, output, index);
                self.branch_appends.insert(index);
            }
        }
    }

    /// Whether a step runs one of refeed's own kernels that ask for rows.
    fn appends(&self, step: &Step) -> bool {
        self.is_own(step, APPENDS)
    }

    /// Whether a step runs refeed's own kernel of one of these operators.
    fn is_own(&self, step: &Step, operators: &[(&str, &str)]) -> bool {
        let (domain, op_type) = (&*step.label.domain, &*step.label.op_type);
        let custom = self.kernels.find(domain, op_type).is_some();
        !custom && operators.contains(&(domain, op_type))
    }

    /// Finds, for each binding, the node that may append in place, and what happens where there is none.
    pub(super) fn place_appends(&self, scope: &mut Scope<'_>, plan: &mut Plan) {
        for (index, binding) in self.model.bindings().iter().enumerate() {
            let (input, output) = (
                plan.inputs[binding.input_index],
                plan.outputs[binding.output_index],
            );
            if input == output {
                plan.usual.push(Outcome::Kept);
                plan.appends.push(false);
                plan.surely.push(false);
                continue;
            }
            let producer = scope
                .steps
                .iter_mut()
                .find(|step| step.outputs.contains(&Some(output)));
            let Some(step) = producer else {
                let fed = plan.inputs.iter().position(|slot| *slot == output);
                plan.usual.push(match fed {
                    Some(fed) => Outcome::Computed(Arc::from(format!(
                        "nothing: it is the graph input `{}`",
                        self.model.inputs()[fed].name
                    ))),
                    None => Outcome::Computed(Arc::from("a constant")),
                });
                plan.appends.push(false);
                plan.surely.push(false);
                continue;
            };
            let reads = step.inputs.iter().position(|slot| *slot == Some(input));
            let writes = step.outputs.iter().position(|slot| *slot == Some(output));
            let appends = self.appends(step);
            let op_type = step.label.op_type.clone();
            if step.label.domain.is_empty() && &*op_type == "If" {
                let inside = self.branch_appends.contains(&index);
                plan.appends.push(inside);
                plan.surely.push(inside);
                plan.usual.push(Outcome::Computed(Arc::from(match inside {
                    true => "a branch of `If` that does not append to it",
                    false => "a branch of `If`",
                })));
                continue;
            }
            // With exclusive reuse, which branches have none of either, every value is written whole.
            let turns = self.appends_in_branches && self.is_own(step, WRITES_OVER);
            if turns && (reads, writes) == (Some(0), Some(0)) {
                add_site(step, 0, 0, index);
                plan.appends.push(false);
                plan.surely.push(true);
                plan.usual.push(Outcome::Computed(op_type));
                continue;
            }
            let may_append = (appends || self.may_append.contains(&output)) && reads.is_some();
            plan.appends.push(may_append);
            plan.surely.push(may_append && appends);
            if let (true, Some(input), Some(output)) = (may_append, reads, writes) {
                add_site(step, input, output, index);
            }
            let pages = reads.is_some()
                && (&*step.label.domain, &*op_type)
                    == (paged_attention::DOMAIN, paged_attention::OP_TYPE);
            plan.usual.push(match appends {
                true if reads.is_none() => Outcome::Copied(format!(
                    "`{}` does not reach this {op_type} directly",
                    binding.input
                )),
                _ if pages => Outcome::AppendsPages,
                _ => Outcome::Computed(op_type),
            });
        }
    }
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
