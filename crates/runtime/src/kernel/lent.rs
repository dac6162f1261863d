//! An invocation apart from its call's borrows, for kernels that run in another language.

use super::{Invocation, OpError, check_written};
use crate::append::{AppendSite, Appends};
use crate::events::{Meter, RuntimeEventAction, StorageReport};
use refeed_values::append::AppendReservation;
use refeed_values::{Allocator, RuntimeValue, Tensor};
use smallvec::SmallVec;

/// What an [`Invocation`] knows and may do, owned: it can stand in an object of another language while the kernel runs.
/// [`Invocation::lend`] makes it, [`Invocation::take_back`] ends it.
#[derive(Debug)]
pub struct LentInvocation {
    inputs: SmallVec<[Option<RuntimeValue>; 4]>,
    outputs: SmallVec<[Option<RuntimeValue>; 4]>,
    wanted: SmallVec<[bool; 4]>,
    sites: SmallVec<[AppendSite; 2]>,
    appends: Appends,
    meter: Meter,
    memory: Allocator,
}

impl Invocation<'_> {
    /// Lends everything out. Until it is taken back the invocation itself cannot append or report.
    pub fn lend(&mut self) -> LentInvocation {
        let inputs = (0..self.input_count()).map(|index| self.value(index).cloned());
        LentInvocation {
            inputs: inputs.collect(),
            outputs: SmallVec::from_elem(None, self.output_count()),
            wanted: (0..self.output_count())
                .map(|index| self.wants(index))
                .collect(),
            sites: SmallVec::from_slice(self.sites),
            appends: std::mem::take(self.appends),
            meter: std::mem::take(self.meter),
            memory: self.pool.output_allocator().clone(),
        }
    }

    /// Takes back what was lent, with the outputs that were set.
    pub fn take_back(&mut self, lent: LentInvocation) {
        *self.appends = lent.appends;
        *self.meter = lent.meter;
        for (index, output) in lent.outputs.into_iter().enumerate() {
            if let Some(output) = output {
                self.set(index, output);
            }
        }
    }
}

impl LentInvocation {
    /// An input, or `None` when it is absent.
    pub fn value(&self, index: usize) -> Option<&RuntimeValue> {
        self.inputs.get(index)?.as_ref()
    }

    /// Number of input positions, absent ones included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of output positions.
    pub fn output_count(&self) -> usize {
        self.wanted.len()
    }

    /// Whether anybody reads this output.
    pub fn wants(&self, index: usize) -> bool {
        self.wanted.get(index).copied().unwrap_or(false)
    }

    /// An output that was set.
    pub fn output(&self, index: usize) -> Option<&RuntimeValue> {
        self.outputs.get(index)?.as_ref()
    }

    /// Sets an output.
    pub fn set(&mut self, index: usize, value: impl Into<RuntimeValue>) {
        if self.wants(index) {
            self.outputs[index] = Some(value.into());
        }
    }

    /// As [`Invocation::reserve`].
    ///
    /// # Errors
    /// As [`Invocation::reserve`].
    pub fn reserve(
        &mut self,
        input: usize,
        output: usize,
        shape: &[usize],
        axis: usize,
    ) -> Result<Option<AppendReservation>, OpError> {
        let of = |site: &&AppendSite| site.input == input && site.output == output;
        let Some(site) = self.sites.iter().find(of) else {
            return Ok(None);
        };
        self.appends
            .reserve(site.binding, shape, axis, &self.memory, &mut self.meter)
    }

    /// As [`Invocation::commit_bytes`].
    ///
    /// # Errors
    /// As [`Invocation::commit_bytes`].
    pub fn commit_bytes(
        &mut self,
        output: usize,
        reservation: AppendReservation,
        written: usize,
    ) -> Result<Tensor, OpError> {
        check_written(&reservation, written)?;
        let site = self.sites.iter().find(|site| site.output == output);
        let site = site.ok_or_else(|| super::unbound(output))?;
        let tensor = self.appends.commit(site.binding, reservation)?;
        self.set(output, tensor.clone());
        Ok(tensor)
    }

    /// As [`Invocation::record_event`], with a name of the kernel's choice.
    pub fn record_event(
        &mut self,
        action: RuntimeEventAction,
        name: Option<&str>,
        storage: StorageReport,
    ) {
        self.meter.record(action, name, storage);
    }
}
