//! A retained tensor and its certified capacity.

use super::geometry::Geometry;
use super::lease::AppendLease;
use super::rows::clear_rows;
use super::watermark::BlockHandle;
use super::{AppendPolicy, AppendReuse, SpareTails};
use crate::Tensor;

/// A tensor that a state retains, and where in its append block it stands.
///
/// It has a tensor and is none: no method of [`Tensor`] can lose or forge the certificate. It cannot be cloned; a second
/// holder of the same rows is made by [`PersistentTensor::fork`].
///
/// ```compile_fail,E0308
/// # // Rule 5.1.1; S135.
/// use refeed_values::{Tensor, append::PersistentTensor};
/// fn as_tensor(held: &PersistentTensor) -> &Tensor {
///     held
/// }
/// ```
#[derive(Debug)]
pub struct PersistentTensor {
    tensor: Tensor,
    /// First row in the block, for what a candidate published.
    start: Option<usize>,
    spares: SpareTails,
}

impl PersistentTensor {
    /// Retains a tensor from outside. It never claims rows, even when its memory is a block: the first append moves.
    pub fn imported(tensor: Tensor) -> PersistentTensor {
        PersistentTensor {
            tensor,
            start: None,
            spares: SpareTails::new(),
        }
    }

    /// `start` is the first row of `tensor` in its block.
    pub(super) fn certified(tensor: Tensor, start: usize, spares: SpareTails) -> PersistentTensor {
        PersistentTensor {
            tensor,
            start: Some(start),
            spares,
        }
    }

    /// The retained tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The value alone, when it is retained no longer.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }

    /// Rows that fit from the tensor's first row to the end of its block; 0 when it has no capacity.
    pub fn capacity_rows(&self) -> usize {
        match (self.start, self.geometry()) {
            (Some(start), Some(geometry)) => geometry.capacity_rows.saturating_sub(start),
            _ => 0,
        }
    }

    /// The axis along which the value was appended to; `None` when it has no capacity.
    pub fn append_axis(&self) -> Option<usize> {
        self.geometry().map(|geometry| geometry.axis)
    }

    fn geometry(&self) -> Option<&Geometry> {
        let block = self.tensor.buffer().allocation().block.as_deref()?;
        self.start.map(|_| &block.geometry)
    }

    /// Another holder of the same rows. The first of the two to append does so in place, the other moves.
    pub fn fork(&self) -> PersistentTensor {
        PersistentTensor {
            tensor: self.tensor.clone(),
            start: self.start,
            spares: SpareTails::new(),
        }
    }

    /// Rows `[first, first + count)` along the append axis, as another holder; `None` when out of range or when the
    /// tensor has no capacity. A slice that keeps the last row can append in place; an earlier end can only when
    /// nobody else holds the block.
    pub fn slice_rows(&self, first: usize, count: usize) -> Option<PersistentTensor> {
        let (start, axis) = (self.start?, self.geometry()?.axis);
        let rows = *self.tensor.shape().get(axis)?;
        if first.checked_add(count)? > rows {
            return None;
        }
        let (layout, offset) = self.tensor.layout().slice(axis, first, count, 1)?;
        let delta = if layout.elements() == 0 { 0 } else { offset };
        let mut tensor = self.tensor.with_layout(layout, delta).ok()?;
        // Rows behind the slice may be freed and written again while it lives, so it must not reach them.
        tensor.buffer_mut().end_sight_at(start + first + count);
        Some(PersistentTensor {
            tensor,
            start: Some(start + first),
            spares: SpareTails::new(),
        })
    }

    /// Whether `tensor` is this very handle's tensor: same memory, element zero, dtype, shape and strides.
    pub fn certifies(&self, tensor: &Tensor) -> bool {
        same_tensor(&self.tensor, tensor)
    }

    /// Permission for one append. Make it before the call's own views of the tensor exist: under
    /// [`AppendReuse::Exclusive`] they would count as other holders.
    ///
    /// The tensor stays as it is, whatever becomes of the lease.
    pub fn lease(&mut self, policy: &AppendPolicy) -> AppendLease {
        let mut shared = false;
        if let (Some(start), Some(axis)) =
            (self.start, self.geometry().map(|geometry| geometry.axis))
        {
            let end = start + self.tensor.shape()[axis];
            let taken = BlockHandle::of(self.tensor.buffer().shared())
                .map_or(0, |handle| handle.block().watermark())
                .saturating_sub(end);
            if policy.reuse == AppendReuse::Exclusive || taken > 0 {
                shared = !self.rewind(end, taken);
            }
        }
        AppendLease {
            past: self.tensor.clone(),
            start: self.start,
            shared: shared && policy.reuse == AppendReuse::Exclusive,
            policy: *policy,
            spares: std::mem::take(&mut self.spares),
        }
    }

    /// If this is the only handle to its block: frees the `taken` rows behind `end` (clause 6) and says true.
    fn rewind(&mut self, end: usize, taken: usize) -> bool {
        let Some(alone) = self.tensor.buffer_mut().alone() else {
            return false;
        };
        if taken == 0 {
            return true;
        }
        clear_rows(alone, end, taken);
        if let Some(block) = alone.block.as_deref_mut() {
            block.rewind(end);
        }
        true
    }
}

/// Whether two handles show the same elements in the same way.
pub(super) fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype()
        && a.offset() == b.offset()
        && a.layout() == b.layout()
        && a.buffer().same_allocation(b.buffer())
}
