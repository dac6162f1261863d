//! Writing the rows of a claim. The argument for the unsafe code stands at the head of `append.rs`.

use super::fault::{Fault, planted};
use super::geometry::Geometry;
use super::watermark::BlockHandle;
use super::{AppendError, Tail};
use crate::allocation::Allocation;
use crate::layout::{Dims, Layout};
use crate::sync::Arc;
use crate::{DType, Tensor, TensorError};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The right to write rows `[first, first + rows)` of each outer slice of a block, and the duty to give them back.
///
/// Dropping it gives the rows back if they are owed and nobody else holds the tail.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) handle: BlockHandle,
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) tail: Arc<Tail>,
    /// The rows were taken from a block that others may hold, and are not published.
    pub(crate) owed: bool,
}

impl Claim {
    /// The claimed rows of one outer slice; `None` when there is no such slice.
    pub(crate) fn span(&mut self, slice: usize) -> Option<&mut [u8]> {
        let range = span_range(self.handle.geometry(), self.first, self.rows, slice)?;
        #[cfg(loom)]
        self.handle
            .block()
            .shadow
            .write(slice, self.first, self.rows);
        let base = self.handle.allocation().raw();
        // SAFETY: clauses 1 and 3: the range lies inside the block (`span_range`), in rows of this claim alone, of
        // which nobody else has a reference; `&mut self` keeps it so. The memory is initialised (clause 8).
        Some(unsafe { std::slice::from_raw_parts_mut(base.add(range.0).as_ptr(), range.1) })
    }

    /// The claimed rows of all outer slices, one after the other.
    pub(crate) fn spans(&mut self) -> SpansMut<'_> {
        #[cfg(loom)]
        for slice in 0..self.handle.geometry().slices {
            self.handle
                .block()
                .shadow
                .write(slice, self.first, self.rows);
        }
        SpansMut {
            base: self.handle.allocation().raw(),
            geometry: self.handle.geometry(),
            first: self.first,
            rows: self.rows,
            next: 0,
            lifetime: PhantomData,
        }
    }

    /// Where the claimed rows start, and how they lie; the address reaches those of all outer slices.
    pub(crate) fn raw_rows(&mut self) -> Option<(*mut u8, DType, Layout)> {
        #[cfg(loom)]
        for slice in 0..self.handle.geometry().slices {
            self.handle
                .block()
                .shadow
                .write(slice, self.first, self.rows);
        }
        let geometry = self.handle.geometry();
        let layout = geometry.layout(self.rows)?;
        let base = self.handle.allocation().raw().as_ptr();
        let start = base.wrapping_add(self.first * geometry.row_bytes);
        Some((start, geometry.dtype, layout))
    }

    /// Copies rows of any strides into the claim, from its row `at_row` on. Returns the bytes copied.
    pub(crate) fn write(&mut self, at_row: usize, source: &Tensor) -> Result<usize, AppendError> {
        let geometry = self.handle.geometry();
        if source.dtype() != geometry.dtype {
            return Err(TensorError::DType {
                expected: geometry.dtype,
                got: source.dtype(),
            }
            .into());
        }
        let (shape, axis) = (source.shape(), geometry.axis);
        let count = shape.get(axis).copied().unwrap_or(0);
        let fits = shape.len() == geometry.outer.len() + 1 + geometry.inner.len()
            && shape[..axis] == geometry.outer[..]
            && shape[axis + 1..] == geometry.inner[..]
            && at_row
                .checked_add(count)
                .is_some_and(|end| end <= self.rows);
        if !fits {
            return Err(AppendError::Rows {
                at_row,
                rows: count,
                shape: shape.to_vec(),
                reserved: self.rows,
                outer: geometry.outer.to_vec(),
                inner: geometry.inner.to_vec(),
            });
        }
        if count == 0 {
            return Ok(0);
        }
        #[cfg(loom)]
        {
            source.touch();
            for slice in 0..geometry.slices {
                self.handle
                    .block()
                    .shadow
                    .write(slice, self.first + at_row, count);
            }
        }
        let bytes = count * geometry.row_bytes;
        let start = (self.first + at_row) * geometry.row_bytes;
        let to = self.handle.allocation().raw();
        let from = source.buffer().allocation().raw();
        // SAFETY: `from_parts` checked that the offset of element zero is inside the source's memory.
        let from = unsafe { from.add(source.offset()) }.as_ptr().cast_const();
        let Some(size) = geometry.dtype.size() else {
            // Packed rows: one outer slice, and a packed tensor is dense.
            // SAFETY: `bytes` bytes of the source; the target as in `span`; a handle never reaches claimed rows
            // (clause 4), so the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from, to.add(start).as_ptr(), bytes) };
            return Ok(bytes);
        };
        let layout = source.layout();
        let dense = layout.contiguous_suffix();
        let strides = layout.strides();
        let row_stride = strides[axis];
        let inner = (&shape[axis + 1..], &strides[axis + 1..]);
        let mut index = Dims::from_elem(0, axis);
        let mut offset = 0isize; // of element zero of the slice, in elements
        for slice in 0..geometry.slices {
            // SAFETY: the slice, and the rows in it from `start` on, lie inside the block (`fits`).
            let to = unsafe { to.add(slice * geometry.pitch_bytes() + start) }.as_ptr();
            // SAFETY: `offset` is that of a reached element of the source.
            let from = unsafe { from.offset(offset * size as isize) };
            if dense > inner.0.len() {
                // SAFETY: the rows of this slice are one run of the source. Target and overlap: as above.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            } else {
                for row in 0..count {
                    // SAFETY: `row` is in range, so both ends of the copy are those of one whole row.
                    unsafe {
                        let from = from.offset(row as isize * row_stride * size as isize);
                        let to = to.add(row * geometry.row_bytes);
                        if dense == inner.0.len() {
                            std::ptr::copy_nonoverlapping(from, to, geometry.row_bytes);
                        } else {
                            gather_row(from, inner, size, to);
                        }
                    }
                }
            }
            for outer in (0..axis).rev() {
                index[outer] += 1;
                offset += strides[outer];
                if index[outer] < shape[outer] {
                    break;
                }
                index[outer] = 0;
                offset -= strides[outer] * shape[outer] as isize;
            }
        }
        Ok(bytes * geometry.slices)
    }

    /// Gives the rows back if they are owed and nobody can see them. False: they are burnt, or were not owed.
    pub(crate) fn give_back(&mut self) -> bool {
        if !std::mem::replace(&mut self.owed, false) {
            return false;
        }
        if Arc::get_mut(&mut self.tail).is_none() && !planted(Fault::ForgottenView) {
            return false;
        }
        for span in self.spans() {
            span.fill(0);
        }
        self.handle.block().give_back(self.first, self.rows)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A model that failed is being unwound, and loom's objects are of no more use.
        #[cfg(loom)]
        if std::thread::panicking() {
            return;
        }
        self.give_back();
    }
}

/// Zeroes rows of a block that nobody else has a handle to.
pub(crate) fn clear_rows(alone: &mut Allocation, first: usize, rows: usize) {
    let Some(geometry) = alone.block.as_deref().map(|block| block.geometry.clone()) else {
        return;
    };
    let Some(bytes) = alone.bytes_mut() else {
        return;
    };
    for slice in 0..geometry.slices {
        if let Some((offset, len)) = span_range(&geometry, first, rows, slice) {
            bytes[offset..offset + len].fill(0);
        }
    }
}

/// Byte offset and length of `rows` rows of one outer slice.
fn span_range(
    geometry: &Geometry,
    first: usize,
    rows: usize,
    slice: usize,
) -> Option<(usize, usize)> {
    debug_assert!(first + rows <= geometry.capacity_rows);
    // No overflow: the block has `slices` times `pitch_bytes` bytes.
    (slice < geometry.slices).then(|| {
        (
            slice * geometry.pitch_bytes() + first * geometry.row_bytes,
            rows * geometry.row_bytes,
        )
    })
}

/// Copies one row of scattered elements.
///
/// # Safety
/// `from` is an element from which the extents and strides `inner` reach only readable elements of `size` bytes, and
/// `to` has room for all of them.
unsafe fn gather_row(from: *const u8, inner: (&[usize], &[isize]), size: usize, mut to: *mut u8) {
    let Some(layout) = Layout::strided(inner.0, inner.1) else {
        return;
    };
    let (shape, strides) = (layout.shape(), layout.strides());
    let mut index = Dims::from_elem(0, shape.len());
    let mut offset = 0isize;
    for _ in 0..layout.elements() {
        // SAFETY: `offset` belongs to an index in range, and `to` moves by one element each time.
        unsafe {
            let from = from.offset(offset * size as isize);
            match size {
                // A constant size is one load and one store.
                2 => std::ptr::copy_nonoverlapping(from, to, 2),
                4 => std::ptr::copy_nonoverlapping(from, to, 4),
                8 => std::ptr::copy_nonoverlapping(from, to, 8),
                _ => std::ptr::copy_nonoverlapping(from, to, size),
            }
            to = to.add(size);
        }
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
            offset -= strides[axis] * shape[axis] as isize;
        }
    }
}

/// The reserved rows, one outer slice at a time; see [`super::AppendReservation::spans_mut`].
#[derive(Debug)]
pub struct SpansMut<'a> {
    base: NonNull<u8>,
    geometry: &'a Geometry,
    first: usize,
    rows: usize,
    next: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: it is a bundle of disjoint `&mut [u8]` in disguise.
unsafe impl Send for SpansMut<'_> {}

impl<'a> Iterator for SpansMut<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        let (offset, len) = span_range(self.geometry, self.first, self.rows, self.next)?;
        self.next += 1;
        // SAFETY: as in `Claim::span`, whose `&mut` this iterator holds; spans of different slices do not overlap, and
        // each is handed out once.
        Some(unsafe { std::slice::from_raw_parts_mut(self.base.add(offset).as_ptr(), len) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.geometry.slices - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for SpansMut<'_> {}
