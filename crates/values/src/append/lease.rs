//! The permission for one append, and how it finds its rows.

use super::fault::{Fault, planted};
use super::geometry::Geometry;
use super::reservation::{AppendReservation, Place};
use super::rows::Claim;
use super::watermark::{BlockHandle, Sight};
use super::{
    AppendError, AppendPolicy, AppendReuse, DeclineReason, MoveReason, Outcome, SpareTails, Tail,
};
use crate::allocation::Allocator;
use crate::sync::Arc;
use crate::{Buffer, Extent, Tensor};

/// Move-only permission for one append to a [`super::PersistentTensor`].
///
/// It is no handle that could be shared:
/// ```compile_fail,E0599
/// # // Rule 5.1.2; S136.
/// fn twice(lease: refeed_values::append::AppendLease) {
///     let other = lease.clone();
/// }
/// ```
/// and one attempt consumes it, whatever comes of it:
/// ```compile_fail,E0382
/// use refeed_values::{Allocator, append::AppendLease};
/// fn twice(lease: AppendLease, memory: &Allocator) {
///     let _ = lease.reserve(&[1], 0, memory);
///     let _ = lease.reserve(&[1], 0, memory);
/// }
/// ```
/// The same, once, compiles:
/// ```
/// use refeed_values::{Allocator, append::AppendLease};
/// fn once(lease: AppendLease, memory: &Allocator) {
///     let _ = lease.reserve(&[1], 0, memory);
/// }
/// ```
#[derive(Debug)]
#[must_use = "a lease is one attempt to append"]
pub struct AppendLease {
    pub(super) past: Tensor,
    pub(super) start: Option<usize>,
    /// Exclusive reuse, and somebody else held the past when the lease was made.
    pub(super) shared: bool,
    pub(super) policy: AppendPolicy,
    pub(super) spares: SpareTails,
}

/// What a lease got.
#[derive(Debug)]
#[must_use = "a reservation that is dropped gives its rows back"]
pub enum Reserve {
    /// Rows to write.
    Ready(AppendReservation),
    /// The value can have no capacity; its operator computes a dense result.
    Declined(DeclineReason),
}

impl AppendLease {
    /// Reserves the rows by which `result_shape` is longer than the old value along `axis`: behind the old rows if
    /// that is possible, else in a new block, to which the old rows are copied.
    ///
    /// # Errors
    /// When the shapes do not fit, a size overflows, or the allocator refuses (it is asked once).
    pub fn reserve(
        mut self,
        result_shape: &[usize],
        axis: usize,
        allocator: &Allocator,
    ) -> Result<Reserve, AppendError> {
        let shape = self.past.shape();
        if axis >= shape.len() {
            return Err(AppendError::Axis {
                axis,
                rank: shape.len(),
            });
        }
        let extends = shape.len() == result_shape.len()
            && result_shape[axis] >= shape[axis]
            && (0..shape.len()).all(|at| at == axis || shape[at] == result_shape[at]);
        if !extends {
            let (past, result) = (shape.to_vec(), result_shape.to_vec());
            return Err(AppendError::Shape { axis, past, result });
        }
        let (old_rows, rows) = (shape[axis], result_shape[axis]);
        if self.policy.initial_capacity == 0 {
            return Ok(Reserve::Declined(DeclineReason::CapacityZero));
        }
        let tail = spare_tail(&mut self.spares);
        if let (Some(_), Some(sight)) = (self.start, self.past.buffer().sight()) {
            // The old tail can serve again when the last view of the old rows is gone.
            if self.spares.len() == self.spares.inline_size() {
                self.spares.remove(0);
            }
            self.spares.push(Arc::clone(&sight.tail));
        }
        let place = match self.place(axis, old_rows, rows, &tail) {
            Ok(place) => place,
            Err(why) => {
                let dtype = self.past.dtype();
                Extent::new(dtype, result_shape)?;
                let geometry = match Geometry::of(dtype, result_shape, axis, self.policy.reuse)? {
                    Ok(geometry) => geometry,
                    Err(reason) => return Ok(Reserve::Declined(reason)),
                };
                self.moved(geometry, axis, old_rows, rows, allocator, tail, why)?
            }
        };
        AppendReservation::new(place, axis, rows, self.spares).map(Reserve::Ready)
    }

    /// Claims the rows behind the old ones, or says why that cannot be.
    fn place(
        &self,
        axis: usize,
        old_rows: usize,
        rows: usize,
        tail: &Arc<Tail>,
    ) -> Result<Place, Why> {
        let handle = BlockHandle::of(self.past.buffer().shared());
        let (Some(start), Some(handle)) = (self.start, handle) else {
            return Err(if old_rows == 0 {
                Why::First
            } else {
                Why::Moved(MoveReason::Imported)
            });
        };
        let geometry = handle.geometry();
        // A certified value has the dtype and the other extents of its block.
        debug_assert_eq!(geometry.dtype, self.past.dtype());
        if geometry.axis != axis {
            return Err(Why::Moved(MoveReason::Axis));
        }
        let exclusive = self.policy.reuse == AppendReuse::Exclusive;
        if self.shared || (exclusive && geometry.declines_exclusive().is_some()) {
            return Err(Why::Moved(MoveReason::Shared));
        }
        let (mut end, new_rows) = (start + old_rows, rows - old_rows);
        if end
            .checked_add(new_rows)
            .is_none_or(|end| end > geometry.capacity_rows)
        {
            return Err(if start == 0 {
                Why::Full
            } else {
                Why::Moved(MoveReason::WindowEnd)
            });
        }
        // An empty append writes nothing, so it claims nothing.
        let claims = new_rows > 0 || planted(Fault::EmptyClaim);
        if claims && !handle.block().claim(end, new_rows) {
            return Err(Why::Moved(MoveReason::TailTaken));
        }
        if planted(Fault::ClaimByLength) {
            end = old_rows;
        }
        let owed = new_rows > 0 || planted(Fault::RollbackByStore);
        let claim = Claim {
            handle,
            first: end,
            rows: new_rows,
            tail: Arc::clone(tail),
            owed,
        };
        Ok(Place {
            claim,
            start,
            outcome: Outcome::InPlace,
        })
    }

    /// Makes a new block and copies the old rows.
    #[allow(clippy::too_many_arguments)]
    fn moved(
        &self,
        geometry: Geometry,
        axis: usize,
        old_rows: usize,
        rows: usize,
        allocator: &Allocator,
        tail: Arc<Tail>,
        why: Why,
    ) -> Result<Place, AppendError> {
        let from_rows = match (self.start, &self.past.buffer().allocation().block) {
            (Some(_), Some(block)) if block.geometry.axis == axis => block.geometry.capacity_rows,
            _ => 0,
        };
        let window = self.start.is_some_and(|start| start > 0);
        let (geometry, allocated_bytes) =
            geometry.with_capacity(rows, from_rows, window, &self.policy, allocator)?;
        let to_rows = geometry.capacity_rows;
        let allocation = allocator.allocate(allocated_bytes)?;
        let handle = BlockHandle::new(allocation, geometry, rows);
        let mut claim = Claim {
            handle,
            first: 0,
            rows,
            tail,
            owed: false,
        };
        let prefix_bytes = claim.write(0, &self.past)?;
        claim.first = old_rows;
        claim.rows = rows - old_rows;
        let outcome = match why {
            Why::First | Why::Full => Outcome::Grown {
                from_rows,
                to_rows,
                allocated_bytes,
                prefix_bytes,
            },
            Why::Moved(reason) => Outcome::Moved {
                reason,
                capacity_rows: to_rows,
                allocated_bytes,
                prefix_bytes,
            },
        };
        Ok(Place {
            claim,
            start: 0,
            outcome,
        })
    }
}

/// Why rows were not found in place.
enum Why {
    First,
    Full,
    Moved(MoveReason),
}

/// A tail that nobody else holds.
fn spare_tail(spares: &mut SpareTails) -> Arc<Tail> {
    match spares
        .iter_mut()
        .position(|tail| Arc::get_mut(tail).is_some())
    {
        Some(free) => spares.remove(free),
        None => Arc::new(Tail),
    }
}

impl Place {
    /// A handle to the value's `rows` rows, old and new, which the reservation keeps to itself until it is sealed.
    pub(super) fn buffer(&self, rows: usize) -> Buffer {
        let sight = Sight {
            tail: Arc::clone(&self.claim.tail),
            end: self.start + rows,
        };
        Buffer::of_block(Arc::clone(self.claim.handle.allocation()), sight)
    }
}
