//! `If`: two compiled branches, and the outer values that each reads.

use crate::execute::{Environment, execute};
use crate::kernel::{Invocation, Kernel, Kinds, OpError, Slot};
use crate::plan::Plan;
use refeed_values::RuntimeValue;
use std::sync::{Mutex, PoisonError};

/// One branch.
pub(crate) struct Branch {
    pub(crate) plan: Plan,
    /// Input position of the `If` node's step, and the branch's slot that it fills.
    pub(crate) captures: Vec<(usize, Slot)>,
    /// Frames that earlier runs left for reuse.
    frames: Mutex<Vec<Vec<Option<RuntimeValue>>>>,
}

impl Branch {
    pub(crate) fn new(plan: Plan, captures: Vec<(usize, Slot)>) -> Branch {
        Branch {
            plan,
            captures,
            frames: Mutex::default(),
        }
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let spare = self
            .frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut slots = spare.unwrap_or_else(|| self.plan.frame());
        for &(input, slot) in &self.captures {
            slots[slot as usize] = call.value(input).cloned();
        }
        let (compute, wanted) = (call.compute(), call.output_count());
        let mut environment = Environment {
            pool: call.pool,
            compute,
            appends: &mut crate::append::Appends::default(),
            meter: call.meter,
            interrupt: call.interrupt,
        };
        if let Err(error) = execute(&self.plan, &mut slots, &mut environment) {
            self.plan.reset(&mut slots);
            self.frames
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(slots);
            return Err(OpError::Nested(error));
        }
        for (index, &slot) in self.plan.outputs.iter().enumerate().take(wanted) {
            if let Some(value) = slots[slot as usize].clone() {
                call.set(index, value);
            }
        }
        for &slot in &self.plan.leftover {
            slots[slot as usize] = None;
        }
        self.frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(slots);
        Ok(())
    }
}

/// Runs the branch that its condition names. Source: the ONNX operator `If`.
pub(crate) struct If {
    pub(crate) then_branch: Branch,
    pub(crate) else_branch: Branch,
}

impl Kernel for If {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let condition = call.view::<u8>(0)?;
        let mut elements = condition.iter();
        let (Some(value), None) = (elements.next(), elements.next()) else {
            let shape = condition.shape();
            return Err(OpError::Shape(format!(
                "condition must have one element, got shape {shape:?}"
            )));
        };
        if value != 0 {
            self.then_branch.run(call)
        } else {
            self.else_branch.run(call)
        }
    }
}
