//! Appends of one call: a lease for each binding that may append, what became of it, and the candidate it left; and for
//! values whose rows are written over, the buffer that they had before their current one.

use crate::events::{Meter, StorageReport};
use crate::explain::Outcome;
use crate::kernel::OpError;
use refeed_values::append::{
    AppendCandidate, AppendLease, AppendReservation, PersistentTensor, Reserve,
};
use refeed_values::{Allocator, Provenance, Tensor};
use smallvec::SmallVec;

/// Input and output position of a node that reads a bound input and writes the output bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendSite {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) binding: usize,
}

/// Rows along one axis, on a ring: in each entry of the first axis, `rows` of them from the entry's start on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) axis: usize,
    pub(crate) rows: usize,
    pub(crate) starts: SmallVec<[usize; 8]>,
}

/// The buffer that a value had before its current one, and the rows that were written since.
#[derive(Debug)]
struct Older {
    tensor: Tensor,
    missing: Span,
}

#[derive(Debug, Default)]
struct Entry {
    /// Whether this call had a lease: then a second attempt is the kernel's fault.
    armed: bool,
    lease: Option<AppendLease>,
    candidate: Option<AppendCandidate>,
    outcome: Option<Outcome>,
    /// Left by the last publication of a value whose rows are written over.
    older: Option<Older>,
    /// What this call wrote over, and where it differs from the value before.
    written: Option<(Tensor, Span)>,
}

/// The appends of one call, by binding. Empty for sessions and subgraphs.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    entries: Vec<Entry>,
}

impl Appends {
    pub(crate) fn new(bindings: usize) -> Appends {
        Appends {
            entries: std::iter::repeat_with(Entry::default)
                .take(bindings)
                .collect(),
        }
    }

    /// Begins a call, in which nothing has happened to a retained value yet.
    pub(crate) fn start(&mut self, binding: usize) {
        if let Some(entry) = self.entries.get_mut(binding) {
            entry.outcome = None;
        }
    }

    /// Hands in the permission to append to a retained value, once a call.
    pub(crate) fn arm(&mut self, binding: usize, lease: AppendLease) {
        let older = self.entries[binding].older.take();
        self.entries[binding] = Entry {
            armed: true,
            lease: Some(lease),
            older,
            ..Entry::default()
        };
    }

    pub(crate) fn reserve(
        &mut self,
        binding: usize,
        shape: &[usize],
        axis: usize,
        allocator: &Allocator,
        meter: &mut Meter,
    ) -> Result<Option<AppendReservation>, OpError> {
        let Some(entry) = self.entries.get_mut(binding) else {
            return Ok(None);
        };
        if !entry.armed {
            return Ok(None);
        }
        let Some(lease) = entry.lease.take() else {
            return Err(OpError::Reserved);
        };
        match lease.reserve(shape, axis, allocator)? {
            Reserve::Declined(reason) => {
                entry.outcome = Some(Outcome::Copied(reason.to_string()));
                Ok(None)
            }
            Reserve::Ready(reservation) => {
                let placed = reservation.outcome();
                report(meter, &reservation);
                entry.outcome = Some(Outcome::from(&placed));
                Ok(Some(reservation))
            }
        }
    }

    pub(crate) fn commit(
        &mut self,
        binding: usize,
        reservation: AppendReservation,
    ) -> Result<Tensor, OpError> {
        let candidate = reservation.seal();
        let tensor = candidate.tensor();
        if let Some(entry) = self.entries.get_mut(binding) {
            entry.candidate = Some(candidate);
        }
        Ok(tensor)
    }

    /// The buffer that a value had before its current one, with the rows that were written since: once, because from
    /// now on it may hold anything.
    pub(crate) fn take_older(&mut self, binding: usize) -> Option<(Tensor, Span)> {
        let older = self.entries.get_mut(binding)?.older.take()?;
        Some((older.tensor, older.missing))
    }

    /// Notes that `tensor` is the binding's value with the rows of `span` written over, and how it was made.
    pub(crate) fn wrote(&mut self, binding: usize, tensor: Tensor, span: Span, outcome: Outcome) {
        if let Some(entry) = self.entries.get_mut(binding) {
            entry.written = Some((tensor, span));
            entry.outcome = Some(outcome);
        }
    }

    /// Keeps the value that `next` took the place of, when the next call `may` catch up with `next` by the rows that this
    /// call wrote; else hands it back.
    pub(crate) fn turn(
        &mut self,
        binding: usize,
        last: Tensor,
        next: &Tensor,
        may: bool,
    ) -> Option<Tensor> {
        let Some(entry) = self.entries.get_mut(binding) else {
            return Some(last);
        };
        match entry.written.take() {
            Some((tensor, missing))
                if may
                    && tensor.buffer().same_allocation(next.buffer())
                    && last.provenance() == Provenance::Heap =>
            {
                let tensor = last;
                entry.older = Some(Older { tensor, missing });
                None
            }
            _ => {
                entry.older = None;
                Some(last)
            }
        }
    }

    /// Forgets what belongs to a value that another one takes the place of.
    pub(crate) fn replaced(&mut self, binding: usize) {
        if let Some(entry) = self.entries.get_mut(binding) {
            entry.older = None;
        }
        self.forget(binding);
    }

    /// Notes why an output was computed densely although its node could have appended.
    pub(crate) fn copied_because(&mut self, binding: usize, reason: String) {
        if let Some(entry) = self.entries.get_mut(binding) {
            entry.outcome = Some(Outcome::Copied(reason));
        }
    }

    /// What became of a binding's append in this call, when its node tried one.
    pub(crate) fn outcome(&self, binding: usize) -> Option<&Outcome> {
        self.entries.get(binding)?.outcome.as_ref()
    }

    /// Turns a computed output into a value to retain: with its capacity when it still is the append's own result,
    /// else as plain memory.
    pub(crate) fn retain(&mut self, binding: usize, output: Tensor) -> PersistentTensor {
        match self
            .entries
            .get_mut(binding)
            .and_then(|entry| entry.candidate.take())
        {
            Some(candidate) if candidate.certifies(&output) => candidate.publish(),
            Some(candidate) => {
                candidate.discard();
                PersistentTensor::imported(output)
            }
            None => PersistentTensor::imported(output),
        }
    }

    /// Drops what a call has left for a binding whose value stays.
    pub(crate) fn forget(&mut self, binding: usize) {
        if let Some(entry) = self.entries.get_mut(binding) {
            entry.armed = false;
            entry.lease = None;
            entry.written = None;
            if let Some(candidate) = entry.candidate.take() {
                candidate.discard();
            }
        }
    }

    /// Ends a failed call. Everything that saw the rows must be gone by now, so that they can be given back.
    pub(crate) fn abandon(&mut self) {
        for binding in 0..self.entries.len() {
            self.forget(binding);
        }
    }
}

/// One event for the buffer that was found or made, and one for the prefix that moved.
fn report(meter: &mut Meter, reservation: &AppendReservation) {
    if !meter.is_on() {
        return;
    }
    let counters = reservation.counters();
    if counters.reuse_count + counters.allocations > 0 {
        meter.storage(StorageReport {
            allocations: counters.allocations,
            allocated_bytes: counters.allocated_bytes,
            reuse_count: counters.reuse_count,
            ..StorageReport::default()
        });
    }
    if counters.prefix_copied_bytes > 0 {
        let prefix_copied_bytes = counters.prefix_copied_bytes;
        meter.storage(StorageReport {
            prefix_copied_bytes,
            ..StorageReport::default()
        });
    }
}
