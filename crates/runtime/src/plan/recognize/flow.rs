//! Who makes a value and who reads it, in a scope that is compiled.

use crate::kernel::Slot;
use crate::plan::Step;
use crate::plan::form::Form;
use crate::plan::scope::Known;
use refeed_values::DType;
use smallvec::SmallVec;

/// Producers and readers of the values of a scope.
pub(super) struct Flow<'g> {
    pub(super) steps: &'g [Step],
    known: &'g [Known],
    producers: Vec<Option<usize>>,
    readers: Vec<SmallVec<[usize; 2]>>,
    outputs: Vec<bool>,
}

impl<'g> Flow<'g> {
    pub(super) fn new(steps: &'g [Step], known: &'g [Known], outputs: &[Slot]) -> Flow<'g> {
        let mut flow = Flow {
            steps,
            known,
            producers: vec![None; known.len()],
            readers: vec![SmallVec::new(); known.len()],
            outputs: vec![false; known.len()],
        };
        for (index, step) in steps.iter().enumerate() {
            for slot in step.outputs.iter().flatten() {
                flow.producers[*slot as usize] = Some(index);
            }
            for slot in step.inputs.iter().flatten() {
                let readers = &mut flow.readers[*slot as usize];
                if readers.last() != Some(&index) {
                    readers.push(index);
                }
            }
        }
        for &slot in outputs {
            flow.outputs[slot as usize] = true;
        }
        flow
    }

    pub(super) fn known(&self, slot: Slot) -> &'g Known {
        &self.known[slot as usize]
    }

    pub(super) fn dtype(&self, slot: Slot) -> Option<DType> {
        self.known(slot).ty.tensor()?.dtype
    }

    pub(super) fn producer_index(&self, slot: Slot) -> Option<usize> {
        self.producers[slot as usize]
    }

    pub(super) fn producer(&self, slot: Slot) -> Option<&'g Step> {
        Some(&self.steps[self.producer_index(slot)?])
    }

    pub(super) fn form(&self, slot: Slot) -> &'g Form {
        self.producer(slot).map_or(&Form::Other, |step| &step.form)
    }

    /// The steps that read a value, each once, in their order.
    pub(super) fn readers(&self, slot: Slot) -> &[usize] {
        &self.readers[slot as usize]
    }

    pub(super) fn is_output(&self, slot: Slot) -> bool {
        self.outputs[slot as usize]
    }

    /// The one step that reads a value that is no output.
    pub(super) fn only_reader(&self, slot: Slot) -> Option<usize> {
        match *self.readers(slot) {
            [reader] if !self.is_output(slot) => Some(reader),
            _ => None,
        }
    }

    /// The value behind copies that change nothing: `Identity`, and `Cast` to the type that is there. Steps passed are
    /// added to `through`.
    pub(super) fn behind_copies(&self, mut slot: Slot, through: &mut Vec<usize>) -> Slot {
        while let Some(index) = self.producer_index(slot) {
            let step = &self.steps[index];
            let Some(&Some(from)) = step.inputs.first() else {
                break;
            };
            let copies = match &step.form {
                Form::Identity => true,
                Form::Cast { to } => to.is_some() && self.dtype(from) == *to,
                _ => false,
            };
            if !copies || self.is_output(slot) {
                break;
            }
            through.push(index);
            slot = from;
        }
        slot
    }

    /// Whether a value is a tensor of one element, as far as is known before the first call.
    pub(super) fn is_one_element(&self, slot: Slot) -> bool {
        let ty = self.known(slot).ty.tensor();
        let shape = ty.and_then(|ty| ty.shape.as_deref());
        shape.is_some_and(|shape| shape.iter().all(|dim| dim.known() == Some(1)))
    }
}
