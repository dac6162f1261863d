//! One call of a state.

use super::Inner;
use super::commit::{Change, Next};
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::explain::Outcome;
use crate::interrupt::RunControl;
use crate::ops::paged_attention::OP_TYPE;
use crate::session::{Core, note_clash};
use refeed_graph::Publish;
use refeed_values::{RuntimeValue, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a call has computed and checked.
pub(super) struct Step {
    pub(super) outputs: Vec<RuntimeValue>,
    pub(super) next: Next,
    /// Bytes of retained caches that other operators wrote again, by operator.
    pub(super) rewritten: Vec<(Arc<str>, u64)>,
}

/// Whether an output has anything in it.
fn is_present(value: &RuntimeValue) -> bool {
    match value {
        RuntimeValue::Tensor(tensor) => !tensor.shape().contains(&0),
        RuntimeValue::Encoded(encoded) => !encoded.shape().contains(&0),
        RuntimeValue::Sequence(elements) => !elements.is_empty(),
        _ => true,
    }
}

impl Inner {
    /// Computes and checks the next values. Nothing is published here, and the retained values are untouched.
    pub(super) fn step(
        &mut self,
        core: &Core,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'_>,
    ) -> Result<Step, StateError> {
        let bindings = core.model.bindings();
        let workspace = &mut self.workspace;
        workspace.begin(core);
        let policy = core.append_policy();
        for (index, (binding, held)) in bindings.iter().zip(&mut self.retained).enumerate() {
            self.appends.start(index);
            if core.plan.may_append(index)
                && let Some(lease) = held.value.lease(&policy)
            {
                self.appends.arm(index, lease);
            }
            workspace.fill(core, binding.input_index, held.value.value());
        }
        for (position, value) in feeds {
            let Some(info) = core.model.inputs().get(*position) else {
                return Err(StateError::UnknownInput(position.to_string()));
            };
            if bindings
                .iter()
                .any(|binding| binding.input_index == *position)
            {
                return Err(StateError::OverridesRetained(info.name.to_string()));
            }
            workspace.fill(core, *position, value.clone());
        }
        workspace.check_inputs(core)?;
        if !workspace.draw_on(core, context) {
            return Err(StateError::AllocatorsChanged);
        }
        let mut meter = workspace.meter(core, context);
        workspace.execute(core, &mut self.appends, &mut meter, control)?;
        let outputs = {
            let retained = self.retained.iter();
            let retained: SmallVec<[&Tensor; 8]> =
                retained.filter_map(|held| held.value.tensor()).collect();
            workspace.collect(core, feeds, &retained, |output| {
                bindings
                    .iter()
                    .any(|binding| binding.output_index == output)
            })?
        };
        for (rule, value) in core.outputs.iter().zip(&outputs) {
            if let Some(clash) = rule.check(value, &mut workspace.table)? {
                note_clash(core.uses, clash, &mut workspace.warnings)?;
            }
        }
        workspace.retained.clear();
        let mut publishes: SmallVec<[bool; 8]> = SmallVec::new();
        for ((binding, held), rule) in bindings.iter().zip(&self.retained).zip(&core.retained) {
            let value = &outputs[binding.output_index];
            let publish = match binding.publish {
                Publish::Always => true,
                Publish::Once => !held.published,
                Publish::IfPresent => is_present(value),
            };
            publishes.push(publish);
            if publish && let Some(clash) = rule.check(value, &mut workspace.retained)? {
                note_clash(core.uses, clash, &mut workspace.warnings)?;
            }
        }
        #[cfg(feature = "testing")]
        crate::testing::check(crate::testing::Site::Publication).map_err(|source| {
            let node = crate::error::NodePath {
                index: core.plan.steps.len(),
                name: "publication".into(),
                domain: "".into(),
                op_type: "".into(),
                within: None,
            };
            StateError::Run(Box::new(crate::error::RunError { node, source }))
        })?;
        // Slots let go of the outputs now; of the publication only the decision to cancel can fail.
        workspace.end(core);
        let mut next = std::mem::take(&mut self.spare);
        for (index, (binding, publish)) in bindings.iter().zip(publishes).enumerate() {
            next.0.push(match publish {
                false => (Change::Keep, Outcome::Kept),
                true => {
                    let usual = &core.plan.usual[index];
                    let output = outputs[binding.output_index].clone();
                    let outcome = match (self.appends.outcome(index), usual) {
                        (Some(outcome), _) => outcome.clone(),
                        (None, Outcome::AppendsPages) => self.retained[index]
                            .value
                            .other()
                            .and_then(|old| Outcome::of_pages(old, &output))
                            .unwrap_or_else(|| Outcome::Computed(OP_TYPE.into())),
                        (None, usual) => usual.clone(),
                    };
                    (Change::Publish(output), outcome)
                }
            });
        }
        Ok(Step {
            next,
            outputs,
            rewritten: meter.rewritten,
        })
    }

    /// Lets go of what a call has left unpublished.
    pub(super) fn abandon(&mut self) {
        // Slots first: only then can given-back rows be known to be unseen.
        self.workspace.abandon(&self.core);
        self.appends.abandon();
    }
}

#[cfg(test)]
mod tests;
