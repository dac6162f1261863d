//! A graph, compiled: values are slot numbers, nodes are kernels, and every slot's last use is known.

mod appends;
mod build;
mod checks;
mod control;
mod custom;
mod fold;
pub(crate) mod form;
mod inline;
mod recognize;
mod scope;
mod survey;
mod walk;
mod weights;

pub(crate) use build::compile;
pub use survey::{OperatorUse, survey};

use crate::append::AppendSite;
use crate::error::NodePath;
use crate::events::NodeLabel;
use crate::explain::Outcome;
use crate::kernel::{Kernel, Slot};
use crate::recognition::AttentionForm;
use refeed_graph::types::ValueType;
use refeed_values::RuntimeValue;
use std::fmt;
use std::sync::Arc;

/// One node, ready to run.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) inputs: Box<[Option<Slot>]>,
    pub(crate) outputs: Box<[Option<Slot>]>,
    /// Slots that nothing reads after this step.
    pub(crate) release: Box<[Slot]>,
    /// Appends that this node may make in place.
    pub(crate) sites: Box<[AppendSite]>,
    pub(crate) label: NodeLabel,
    /// Whether this is an ordinary operator that writes a retained cache again when it cannot give a view.
    pub(crate) rewrites_cache: bool,
    /// Whether an input may be of a kind that the kernel does not read: its type is not known, or it may come in an encoded
    /// form.
    pub(crate) doubtful: bool,
    /// What the node is, for those who look for patterns.
    pub(crate) form: form::Form,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} {:?} -> {:?}",
            self.label.op_type, self.inputs, self.outputs
        )
    }
}

/// A graph as steps over slots.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) slot_count: usize,
    /// Names of the slots' values, for events; empty where the model gives none.
    pub(crate) names: Vec<Arc<str>>,
    /// Slots of the graph inputs, in the graph's order.
    pub(crate) inputs: Vec<Slot>,
    /// Slots of the graph outputs, in the graph's order.
    pub(crate) outputs: Vec<Slot>,
    /// Values that are there before the first step and stay: initializers and folded constants.
    pub(crate) presets: Vec<(Slot, RuntimeValue)>,
    /// Values of inputs that are not fed, by input position.
    pub(crate) defaults: Vec<(usize, RuntimeValue)>,
    pub(crate) steps: Vec<Step>,
    /// What the operators' rules say of the graph outputs, in the graph's order.
    pub(crate) output_types: Vec<ValueType>,
    /// Slots that still hold a value after the last step.
    pub(crate) leftover: Vec<Slot>,
    /// What a binding's call amounts to when no append is tried, by binding.
    pub(crate) usual: Vec<Outcome>,
    /// Whether a node may append in place, by binding.
    pub(crate) appends: Vec<bool>,
    /// Whether the node that may append is one of refeed's own, which does so whenever it can; by binding.
    pub(crate) surely: Vec<bool>,
    /// Whether a step writes graph outputs, by step.
    pub(crate) publishes: Vec<bool>,
    /// Attention that the graph, and graphs within it, write out in single nodes.
    pub(crate) attention: Vec<AttentionForm>,
    /// Nodes whose kernel the caller has not registered.
    pub(crate) missing: Vec<NodePath>,
}

impl Plan {
    /// Slots of a new frame, with the presets in place.
    pub(crate) fn frame(&self) -> Vec<Option<RuntimeValue>> {
        let mut slots = vec![None; self.slot_count];
        for (slot, value) in &self.presets {
            slots[*slot as usize] = Some(value.clone());
        }
        slots
    }

    /// The name of a slot's value.
    pub(crate) fn name(&self, slot: Slot) -> Arc<str> {
        let name = self.names.get(slot as usize).cloned();
        name.unwrap_or_else(|| Arc::from(""))
    }

    /// Whether a node may append to this binding's value in place.
    pub(crate) fn may_append(&self, binding: usize) -> bool {
        self.appends.get(binding).copied().unwrap_or(false)
    }

    /// Empties what a failed run left behind.
    pub(crate) fn reset(&self, slots: &mut [Option<RuntimeValue>]) {
        slots.fill(None);
        for (slot, value) in &self.presets {
            slots[*slot as usize] = Some(value.clone());
        }
    }

    /// Finds each slot's last use. Presets and graph outputs are never released.
    pub(crate) fn place_releases(&mut self) {
        const NEVER: usize = usize::MAX;
        let mut last: Vec<Option<usize>> = vec![None; self.slot_count];
        for (index, step) in self.steps.iter().enumerate() {
            // An output that nobody reads goes right after its own step.
            for slot in step.outputs.iter().chain(step.inputs.iter()).flatten() {
                last[*slot as usize] = Some(index);
            }
        }
        for slot in self
            .outputs
            .iter()
            .chain(self.presets.iter().map(|(slot, _)| slot))
        {
            last[*slot as usize] = Some(NEVER);
        }
        let mut releases: Vec<Vec<Slot>> = vec![Vec::new(); self.steps.len()];
        let mut leftover = self.outputs.clone();
        for (slot, last) in last.iter().enumerate() {
            match last {
                Some(NEVER) => {}
                Some(index) => releases[*index].push(slot as Slot),
                None => leftover.push(slot as Slot),
            }
        }
        let publishes = self.steps.iter().map(|step| {
            let mut outputs = step.outputs.iter().flatten();
            outputs.any(|slot| self.outputs.contains(slot))
        });
        self.publishes = publishes.collect();
        for (step, release) in self.steps.iter_mut().zip(releases) {
            step.release = release.into_boxed_slice();
        }
        leftover.sort_unstable();
        leftover.dedup();
        let preset: std::collections::HashSet<Slot> =
            self.presets.iter().map(|(slot, _)| *slot).collect();
        leftover.retain(|slot| !preset.contains(slot));
        self.leftover = leftover;
    }
}
