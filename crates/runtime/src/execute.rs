//! The loop over the steps of a plan.

use crate::append::Appends;
use crate::error::RunError;
use crate::events::Meter;
use crate::interrupt::Interrupt;
use crate::kernel::{Invocation, OpError, Slot};
use crate::plan::form::Form;
use crate::plan::{Plan, Step};
use refeed_kernels::Compute;
use refeed_values::{Pool, RuntimeValue, Tensor};
use smallvec::SmallVec;

/// Steps between two looks at the clock.
const CLOCK_EVERY: usize = 16;

/// What all nodes of a call share.
pub(crate) struct Environment<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) compute: &'a Compute<'a>,
    pub(crate) appends: &'a mut Appends,
    pub(crate) meter: &'a mut Meter,
    pub(crate) interrupt: &'a Interrupt,
    /// Where values go after their last use, with the slot each had, when they are to be kept.
    pub(crate) kept: Option<&'a mut Vec<(Slot, RuntimeValue)>>,
}

/// Runs every step. Inputs must be in their slots; afterwards the outputs are in theirs.
///
/// # Errors
/// When a node fails; slots are then in any state and must be reset.
pub(crate) fn execute(
    plan: &Plan,
    slots: &mut [Option<RuntimeValue>],
    environment: &mut Environment<'_>,
) -> Result<(), Box<RunError>> {
    let mut outputs: SmallVec<[Option<RuntimeValue>; 4]> = SmallVec::new();
    // Inside of a branch, outputs are outputs of the graph only where the branch's are.
    let outside = environment.pool.is_publishing();
    for (index, (step, publishes)) in plan.steps.iter().zip(&plan.publishes).enumerate() {
        environment.pool.set_publishing(outside && *publishes);
        let started = environment.meter.start();
        run(step, index, slots, &mut outputs, environment).map_err(|source| match source {
            OpError::Nested(inner) if step.form == Form::Nodes => inner,
            source => {
                let node = (&step.label).into();
                Box::new(RunError { node, source })
            }
        })?;
        if step.rewrites_cache && environment.meter.is_on() {
            count_rewritten(step, slots, &outputs, environment.meter);
        }
        if environment.meter.is_on() {
            record(plan, step, started, slots, &outputs, environment.meter);
        }
        for (slot, output) in step.outputs.iter().zip(outputs.drain(..)) {
            if let Some(slot) = slot {
                slots[*slot as usize] = output;
            }
        }
        for slot in &step.release {
            if let Some(kept) = &mut environment.kept {
                let value = slots[*slot as usize].take();
                kept.extend(value.map(|value| (*slot, value)));
                continue;
            }
            if environment.meter.is_on() && slots[*slot as usize].is_some() {
                environment.meter.removed(&step.label, plan.name(*slot));
            }
            if let Some(RuntimeValue::Tensor(tensor)) = slots[*slot as usize].take() {
                environment.pool.give(tensor);
            }
        }
    }
    environment.pool.set_publishing(outside);
    Ok(())
}

/// Tells the log that a node ran, and what it made.
#[cold]
fn record(
    plan: &Plan,
    step: &Step,
    started: Option<u64>,
    slots: &[Option<RuntimeValue>],
    outputs: &[Option<RuntimeValue>],
    meter: &Meter,
) {
    let name = |slot: &Option<Slot>| slot.map_or_else(|| "".into(), |slot| plan.name(slot));
    meter.ran(&step.label, started, step.inputs.iter().map(name).collect());
    for (slot, output) in step.outputs.iter().zip(outputs) {
        if let (Some(slot), Some(value)) = (slot, output) {
            let replaces = slots[*slot as usize].is_some();
            meter.result(&step.label, plan.name(*slot), value, replaces);
        }
    }
}

fn run(
    step: &Step,
    index: usize,
    slots: &[Option<RuntimeValue>],
    outputs: &mut SmallVec<[Option<RuntimeValue>; 4]>,
    environment: &mut Environment<'_>,
) -> Result<(), OpError> {
    if index.is_multiple_of(CLOCK_EVERY) {
        environment.interrupt.check()?;
    }
    environment.interrupt.go_on()?;
    #[cfg(feature = "testing")]
    crate::testing::check(crate::testing::Site::Kernel)?;
    if step.doubtful {
        refuse_other_kinds(step, slots)?;
    }
    environment.meter.enter(&step.label);
    outputs.clear();
    outputs.resize(step.outputs.len(), None);
    let mut call = Invocation {
        slots,
        inputs: &step.inputs,
        wanted: &step.outputs,
        outputs,
        pool: environment.pool,
        compute: environment.compute,
        sites: &step.sites,
        appends: environment.appends,
        meter: environment.meter,
        interrupt: environment.interrupt,
    };
    let outcome = step.kernel.run(&mut call);
    // A kernel whose work was ended early does not know it, and what it says of its numbers means nothing.
    environment.interrupt.go_on()?;
    outcome?;
    #[cfg(feature = "testing")]
    crate::testing::check(crate::testing::Site::Kernel)?;
    for (index, (got, want)) in outputs.iter().zip(step.outputs.iter()).enumerate() {
        if want.is_some() && got.is_none() && !step.kernel.may_leave_empty() {
            return Err(OpError::NoOutput { index });
        }
    }
    Ok(())
}

/// Values whose kind the model did not tell, in front of a kernel that reads tensors only.
fn refuse_other_kinds(step: &Step, slots: &[Option<RuntimeValue>]) -> Result<(), OpError> {
    for (index, slot) in step.inputs.iter().enumerate() {
        let value = slot.and_then(|slot| slots[slot as usize].as_ref());
        if let Some(value) = value.filter(|value| value.tensor().is_none()) {
            return Err(OpError::Kind {
                index,
                expected: "a tensor",
                got: value.kind(),
            });
        }
    }
    Ok(())
}

/// An output that shares no memory with an input of its step was written.
fn count_rewritten(
    step: &Step,
    slots: &[Option<RuntimeValue>],
    outputs: &[Option<RuntimeValue>],
    meter: &mut Meter,
) {
    let tensor = RuntimeValue::tensor;
    for output in outputs.iter().flatten().filter_map(tensor) {
        let shared = step.inputs.iter().flatten().any(|slot| {
            let input: Option<&Tensor> = slots[*slot as usize].as_ref().and_then(tensor);
            input.is_some_and(|input| input.buffer().same_allocation(output.buffer()))
        });
        if !shared {
            meter.rewrite(&step.label.op_type, output.bytes() as u64);
        }
    }
}
