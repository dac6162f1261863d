//! A written append that may still be published or taken back.

use super::persistent_tensor::{PersistentTensor, same_tensor};
use super::reservation::Place;
use super::{AppendCounters, Outcome, SpareTails};
use crate::Tensor;

/// The result of an append, not yet kept by anybody. Publish it when the whole call has succeeded.
///
/// Dropping it discards it. Publication consumes it:
/// ```compile_fail,E0382
/// fn twice(candidate: refeed_values::append::AppendCandidate) {
///     let kept = candidate.publish();
///     candidate.discard();
/// }
/// ```
#[derive(Debug)]
#[must_use = "a candidate that is dropped gives its rows back if nobody sees them"]
pub struct AppendCandidate {
    /// Dropped before the claim, so that it does not count as a view when the rows are given back.
    tensor: Tensor,
    place: Place,
    spares: SpareTails,
    counters: AppendCounters,
}

impl AppendCandidate {
    pub(super) fn new(
        tensor: Tensor,
        place: Place,
        spares: SpareTails,
        counters: AppendCounters,
    ) -> AppendCandidate {
        AppendCandidate {
            tensor,
            place,
            spares,
            counters,
        }
    }

    /// The whole value, old rows and new: a strided view of the block.
    pub fn tensor(&self) -> Tensor {
        self.tensor.clone()
    }

    /// Where the rows were found.
    pub fn outcome(&self) -> Outcome {
        self.place.outcome
    }

    /// The counters of the append.
    pub fn counters(&self) -> AppendCounters {
        self.counters
    }

    /// Whether `tensor` is exactly this result: same memory, element zero, dtype, shape and strides.
    pub fn certifies(&self, tensor: &Tensor) -> bool {
        same_tensor(&self.tensor, tensor)
    }

    /// Keeps the result. Infallible; the right to give the rows back ends here.
    pub fn publish(mut self) -> PersistentTensor {
        self.place.claim.owed = false;
        PersistentTensor::certified(self.tensor, self.place.start, self.spares)
    }

    /// Keeps `tensor`, a range of this result's rows (a sliding window, say), with what capacity lies behind it.
    ///
    /// # Errors
    /// The candidate, when `tensor` is no such range.
    pub fn publish_rows(
        mut self,
        tensor: &Tensor,
    ) -> Result<PersistentTensor, Box<AppendCandidate>> {
        let geometry = self.place.claim.handle.geometry();
        let (axis, rows) = (
            geometry.axis,
            tensor.shape().get(geometry.axis).copied().unwrap_or(0),
        );
        let first = (tensor.dtype() == geometry.dtype
            && tensor.buffer().same_allocation(self.tensor.buffer()))
        .then(|| geometry.first_row(tensor.offset(), tensor.layout()))
        .flatten()
        .filter(|&first| {
            let end = self.place.start + self.tensor.shape()[axis];
            first >= self.place.start && first + rows <= end
        });
        let Some(first) = first else {
            return Err(Box::new(self));
        };
        let mut kept = tensor.clone();
        kept.buffer_mut().end_sight_at(first + rows);
        self.place.claim.owed = false;
        Ok(PersistentTensor::certified(kept, first, self.spares))
    }

    /// Gives the rows back if nobody else holds a view of them; drop the call's context and slots first. True when
    /// they were given back; false when they are burnt, or lie in a block of their own that is freed with it.
    pub fn discard(mut self) -> bool {
        drop(self.tensor);
        self.place.claim.give_back()
    }
}
