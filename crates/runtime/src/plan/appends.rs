//! Where a graph appends to its retained values.

use super::build::Builder;
use crate::append::AppendSite;
use crate::explain::Outcome;
use crate::plan::Plan;
use crate::plan::scope::Scope;
use std::sync::Arc;

/// Operators whose kernels ask for rows behind a retained input.
const APPENDS: &[(&str, &str)] = &[
    ("", "Concat"),
    ("", "Attention"),
    ("com.microsoft", "GroupQueryAttention"),
];

impl Builder<'_> {
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
            let (domain, op_type) = (&*step.label.domain, &*step.label.op_type);
            let custom = self.kernels.find(domain, op_type).is_some();
            let appends = !custom && APPENDS.contains(&(domain, op_type));
            let may_append = (appends || self.may_append.contains(&output)) && reads.is_some();
            plan.appends.push(may_append);
            plan.surely.push(may_append && appends);
            if let (true, Some(input), Some(output)) = (may_append, reads, writes) {
                let mut sites = std::mem::take(&mut step.sites).into_vec();
                sites.push(AppendSite {
                    input,
                    output,
                    binding: index,
                });
                step.sites = sites.into_boxed_slice();
                step.rewrites_cache = false;
            }
            plan.usual.push(match (domain, op_type) {
                ("", "If") => Outcome::Copied("it is computed inside a branch of `If`".to_string()),
                _ if appends && reads.is_none() => Outcome::Copied(format!(
                    "`{}` does not reach this {op_type} directly",
                    binding.input
                )),
                _ => Outcome::Computed(step.label.op_type.clone()),
            });
        }
    }
}
