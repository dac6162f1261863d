//! The fixed geometry of a block, and how large a new block is made. All arithmetic here is checked.

use super::{AppendError, AppendPolicy, AppendReuse, DeclineReason};
use crate::allocation::Allocator;
use crate::layout::{Dims, Layout, Strides};
use crate::{DType, Extent};

/// What never changes about a block. The memory of one outer slice is `capacity_rows` rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) dtype: DType,
    pub(crate) axis: usize,
    /// Extents before the append axis.
    pub(crate) outer: Dims,
    /// Extents behind the append axis.
    pub(crate) inner: Dims,
    /// Product of `outer`; at least 1.
    pub(crate) slices: usize,
    /// Bytes of one row of one outer slice; at least 1.
    pub(crate) row_bytes: usize,
    pub(crate) capacity_rows: usize,
}

impl Geometry {
    /// The geometry for appending to tensors of this shape, still without capacity.
    /// The caller has checked the extent of `shape`, where the append axis may be 0, and that `axis` is in range.
    pub(crate) fn of(
        dtype: DType,
        shape: &[usize],
        axis: usize,
        reuse: AppendReuse,
    ) -> Result<Result<Geometry, DeclineReason>, AppendError> {
        let outer = Dims::from_slice(&shape[..axis]);
        let inner = Dims::from_slice(&shape[axis + 1..]);
        if dtype == DType::String {
            return Ok(Err(DeclineReason::NoFixedWidth));
        }
        // One row of all slices has an extent even when the append axis is empty.
        let mut one_row = Dims::from_slice(shape);
        one_row[axis] = 1;
        let whole = Extent::new(dtype, &one_row)?;
        if whole.elements() == 0 {
            return Ok(Err(DeclineReason::EmptyRows));
        }
        let slices: usize = outer.iter().product();
        let row_elements = whole.elements() / slices;
        if dtype.is_packed() {
            // The extent fits in memory, so its bits fit in 128.
            if !(row_elements as u128 * dtype.bits() as u128).is_multiple_of(8) {
                return Ok(Err(DeclineReason::PackedRow {
                    dtype,
                    elements: row_elements,
                }));
            }
            if slices != 1 {
                return Ok(Err(DeclineReason::PackedSlices { dtype, slices }));
            }
        }
        let row_bytes = whole.bytes() / slices;
        let geometry = Geometry {
            dtype,
            axis,
            outer,
            inner,
            slices,
            row_bytes,
            capacity_rows: 0,
        };
        match (reuse, geometry.declines_exclusive()) {
            (AppendReuse::Exclusive, Some(reason)) => Ok(Err(reason)),
            _ => Ok(Ok(geometry)),
        }
    }

    /// Why [`AppendReuse::Exclusive`] gives such values no capacity.
    pub(crate) fn declines_exclusive(&self) -> Option<DeclineReason> {
        let (slices, dtype) = (self.slices, self.dtype);
        if slices != 1 {
            return Some(DeclineReason::ExclusiveSlices { slices });
        }
        (dtype != DType::Float).then_some(DeclineReason::ExclusiveDType { dtype })
    }

    /// Gives the geometry its capacity, in rows; at least `rows`, the rows that the block must take now.
    ///
    /// `max(initial, old)` and then doubling until the rows fit, or exactly `max_length`. A `window` (a value whose first
    /// rows were sliced off) slides through its block, so it gets as much room again as it is long. When
    /// the rows beyond the needed ones would take more than half of what the budget has left, there are none.
    pub(crate) fn with_capacity(
        mut self,
        rows: usize,
        old_rows: usize,
        window: bool,
        policy: &AppendPolicy,
        allocator: &Allocator,
    ) -> Result<(Geometry, usize), AppendError> {
        let all = self.slices * self.row_bytes; // one row of all slices; its extent was checked
        let most = isize::MAX as usize / all;
        let too_large = |rows| AppendError::Capacity {
            rows,
            bytes_per_row: all,
        };
        let mut capacity = match policy.max_length {
            Some(length) if !window && length >= rows => length,
            _ => {
                let wanted = if window { rows.saturating_mul(2) } else { rows };
                let mut capacity = policy.initial_capacity.max(old_rows).max(1);
                while capacity < wanted && capacity < most {
                    capacity = capacity.saturating_mul(2).min(most);
                }
                capacity
            }
        };
        if capacity > most || capacity < rows {
            return Err(too_large(capacity.max(rows)));
        }
        if capacity > rows && allocator.limit() != usize::MAX {
            let left = allocator.limit().saturating_sub(allocator.live_bytes());
            let spare = ((capacity - rows) * all).saturating_mul(2);
            if (rows * all).saturating_add(spare) > left {
                capacity = rows;
            }
        }
        self.capacity_rows = capacity;
        Ok((self, capacity * all))
    }

    /// Bytes from one outer slice to the next.
    pub(crate) fn pitch_bytes(&self) -> usize {
        self.capacity_rows * self.row_bytes
    }

    /// Shape and strides of `rows` rows.
    pub(crate) fn layout(&self, rows: usize) -> Option<Layout> {
        let mut shape = self.outer.clone();
        shape.push(rows);
        shape.extend_from_slice(&self.inner);
        let mut strides: Strides = smallvec::smallvec![1; shape.len()];
        let mut next = 1usize;
        for axis in (0..shape.len()).rev() {
            strides[axis] = isize::try_from(next).ok()?;
            let extent = if axis == self.axis {
                self.capacity_rows
            } else {
                shape[axis]
            };
            next = next.checked_mul(extent)?;
        }
        Layout::strided(&shape, &strides)
    }

    /// Whether a layout, `offset` bytes into the block, reaches only rows below `end` of each outer slice. Elements
    /// take `size` bytes (`None`: packed and dense, `bytes` together). That it stays inside the block is checked elsewhere.
    ///
    /// Axes that step by whole outer slices stay at the same row; all others must stay inside one slice. This refuses
    /// layouts that run diagonally through several slices, which no view operation makes.
    pub(crate) fn admits(
        &self,
        end: usize,
        offset: usize,
        layout: &Layout,
        size: Option<usize>,
        bytes: usize,
    ) -> bool {
        if end >= self.capacity_rows {
            return true;
        }
        let (pitch, valid) = (self.pitch_bytes() as i128, (end * self.row_bytes) as i128);
        let (mut low, mut high) = ((offset as i128) % pitch, (offset as i128) % pitch);
        let Some(size) = size else {
            return high + bytes as i128 <= valid;
        };
        for (&dim, &stride) in layout.shape().iter().zip(layout.strides()) {
            let step = stride as i128 * size as i128;
            if dim <= 1 || step % pitch == 0 {
                continue;
            }
            let span = step * (dim as i128 - 1);
            if span < 0 { low += span } else { high += span }
        }
        low >= 0 && high + size as i128 <= valid
    }

    /// The first row that `layout` shows when, `offset` bytes into the block, it is a range of rows of all outer slices.
    pub(crate) fn first_row(&self, offset: usize, layout: &Layout) -> Option<usize> {
        let rows = *layout.shape().get(self.axis)?;
        let own = self.layout(rows)?;
        let same = own.shape() == layout.shape()
            && (rows == 0
                || own
                    .shape()
                    .iter()
                    .zip(own.strides().iter().zip(layout.strides()))
                    .all(|(&dim, (a, b))| dim == 1 || a == b));
        let first = offset / self.row_bytes;
        (same
            && offset.is_multiple_of(self.row_bytes)
            && first.checked_add(rows)? <= self.capacity_rows)
            .then_some(first)
    }
}
