//! Computing, while a session is built, what no run can change.

use crate::append::Appends;
use crate::events::Meter;
use crate::interrupt::Interrupt;
use crate::kernel::{Invocation, Slot};
use crate::plan::Step;
use refeed_kernels::Compute;
use refeed_values::{Allocator, Pool, RuntimeValue};
use smallvec::SmallVec;

/// Most bytes that folding may make in one session: what is larger is computed when it is needed, under the
/// session's own budget.
const LIMIT: usize = 64 << 20;

/// The memory and the machine that folding uses.
pub(crate) struct Folding {
    compute: Compute<'static>,
    allocator: Allocator,
}

impl Folding {
    pub(crate) fn new(compute: Compute<'static>) -> Folding {
        Folding {
            compute,
            allocator: Allocator::with_limit(LIMIT),
        }
    }

    /// What computing is done with.
    pub(crate) fn compute(&self) -> &Compute<'static> {
        &self.compute
    }

    /// The outputs of a step whose inputs are all known, or `None` when it cannot be told now: then the step stays,
    /// and whatever is wrong with it shows when it runs.
    pub(crate) fn fold(
        &self,
        step: &Step,
        inputs: &[Option<RuntimeValue>],
    ) -> Option<Vec<Option<RuntimeValue>>> {
        let places: Vec<Option<Slot>> = inputs
            .iter()
            .enumerate()
            .map(|(at, input)| input.as_ref().map(|_| at as Slot))
            .collect();
        let mut outputs: SmallVec<[Option<RuntimeValue>; 4]> =
            SmallVec::from_elem(None, step.outputs.len());
        let mut call = Invocation {
            slots: inputs,
            inputs: &places,
            wanted: &step.outputs,
            outputs: &mut outputs,
            pool: &mut Pool::new(self.allocator.clone()),
            compute: &self.compute,
            sites: &[],
            appends: &mut Appends::default(),
            meter: &mut Meter::new(None, self.allocator.clone(), 1),
            interrupt: &Interrupt::new(Default::default()),
        };
        step.kernel.run(&mut call).ok()?;
        let complete = outputs
            .iter()
            .zip(step.outputs.iter())
            .all(|(got, want)| got.is_some() || want.is_none());
        complete.then(|| outputs.into_vec())
    }
}
