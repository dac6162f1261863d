//! The loop over the steps of a plan.

use crate::append::Appends;
use crate::error::RunError;
use crate::events::Meter;
use crate::interrupt::Interrupt;
use crate::kernel::{Invocation, OpError};
use crate::plan::{Plan, Step};
use refeed_kernels::Compute;
use refeed_values::{Pool, Tensor};
use smallvec::SmallVec;

/// Steps between two looks at the clock.
const CLOCK_EVERY: usize = 16;

/// What all nodes of a call share.
pub(crate) struct Environment<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) compute: &'a Compute<'static>,
    pub(crate) appends: &'a mut Appends,
    pub(crate) meter: &'a mut Meter,
    pub(crate) interrupt: &'a mut Interrupt,
}

/// Runs every step. Inputs must be in their slots; afterwards the outputs are in theirs.
///
/// # Errors
/// When a node fails; slots are then in any state and must be reset.
pub(crate) fn execute(
    plan: &Plan,
    slots: &mut [Option<Tensor>],
    environment: &mut Environment<'_>,
) -> Result<(), Box<RunError>> {
    let mut outputs: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        run(step, index, slots, &mut outputs, environment).map_err(|source| {
            let node = (&step.label).into();
            Box::new(RunError { node, source })
        })?;
        if step.rewrites_cache && environment.meter.is_on() {
            count_rewritten(step, slots, &outputs, environment.meter);
        }
        for (slot, output) in step.outputs.iter().zip(outputs.drain(..)) {
            if let Some(slot) = slot {
                slots[*slot as usize] = output;
            }
        }
        for slot in &step.release {
            if let Some(tensor) = slots[*slot as usize].take() {
                environment.pool.give(tensor);
            }
        }
    }
    Ok(())
}

fn run(
    step: &Step,
    index: usize,
    slots: &[Option<Tensor>],
    outputs: &mut SmallVec<[Option<Tensor>; 4]>,
    environment: &mut Environment<'_>,
) -> Result<(), OpError> {
    if index.is_multiple_of(CLOCK_EVERY) {
        environment.interrupt.check()?;
    }
    #[cfg(feature = "testing")]
    crate::testing::check()?;
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
    step.kernel.run(&mut call)?;
    #[cfg(feature = "testing")]
    crate::testing::check()?;
    for (index, (got, want)) in outputs.iter().zip(step.outputs.iter()).enumerate() {
        if want.is_some() && got.is_none() {
            return Err(OpError::Unsupported(format!(
                "output {index} was not computed"
            )));
        }
    }
    Ok(())
}

/// An output that shares no memory with an input of its step was written.
fn count_rewritten(
    step: &Step,
    slots: &[Option<Tensor>],
    outputs: &[Option<Tensor>],
    meter: &mut Meter,
) {
    for output in outputs.iter().flatten() {
        let shared = step.inputs.iter().flatten().any(|slot| {
            slots[*slot as usize]
                .as_ref()
                .is_some_and(|input| input.buffer().same_allocation(output.buffer()))
        });
        if !shared {
            meter.rewrite(&step.label.op_type, output.bytes() as u64);
        }
    }
}
