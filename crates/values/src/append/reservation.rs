//! The new rows of an append while they are being written.

use super::candidate::AppendCandidate;
use super::rows::Claim;
use super::{AppendCounters, AppendError, Outcome, SpareTails};
use crate::Tensor;

pub use super::rows::SpansMut;

/// A claim and where it was found.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) claim: Claim,
    /// First row of the value in its block.
    pub(super) start: usize,
    pub(super) outcome: Outcome,
}

/// Rows that only this reservation can see. Write all of them, then [`AppendReservation::seal`]; rows that were not
/// written are zero. Dropping a reservation gives its rows back.
///
/// Sealing ends the writing:
/// ```compile_fail,E0382
/// use refeed_values::{Tensor, append::AppendReservation};
/// fn late(mut rows: AppendReservation, row: &Tensor) {
///     let candidate = rows.seal();
///     let _ = rows.write_rows(0, row);
/// }
/// ```
/// and spans do not outlive it:
/// ```compile_fail,E0505
/// use refeed_values::append::AppendReservation;
/// fn late(mut rows: AppendReservation) {
///     let span = rows.span_mut(0);
///     let candidate = rows.seal();
///     drop(span);
/// }
/// ```
/// ```compile_fail,E0599
/// fn twice(rows: refeed_values::append::AppendReservation) {
///     let other = rows.clone();
/// }
/// ```
#[derive(Debug)]
#[must_use = "a reservation that is dropped gives its rows back"]
pub struct AppendReservation {
    /// The whole extent; dropped before the claim, which gives its rows back only when nobody sees them.
    tensor: Tensor,
    place: Place,
    spares: SpareTails,
    append_copied_bytes: u64,
}

impl AppendReservation {
    pub(super) fn new(
        place: Place,
        axis: usize,
        rows: usize,
        spares: SpareTails,
    ) -> Result<AppendReservation, AppendError> {
        let geometry = place.claim.handle.geometry();
        let too_large = AppendError::Capacity {
            rows,
            bytes_per_row: geometry.row_bytes,
        };
        debug_assert_eq!(geometry.axis, axis);
        let layout = geometry.layout(rows).ok_or(too_large)?;
        let offset = place.start * geometry.row_bytes;
        let tensor = Tensor::from_parts(geometry.dtype, layout, offset, place.buffer(rows))?;
        Ok(AppendReservation {
            tensor,
            place,
            spares,
            append_copied_bytes: 0,
        })
    }

    /// Where the rows were found.
    pub fn outcome(&self) -> Outcome {
        self.place.outcome
    }

    /// The counters so far: those of the outcome, and the rows copied in by [`AppendReservation::write_rows`].
    pub fn counters(&self) -> AppendCounters {
        AppendCounters {
            append_copied_bytes: self.append_copied_bytes,
            ..self.place.outcome.counters()
        }
    }

    /// Number of reserved rows.
    pub fn rows(&self) -> usize {
        self.place.claim.rows
    }

    /// Bytes of one row of one outer slice.
    pub fn row_bytes(&self) -> usize {
        self.place.claim.handle.geometry().row_bytes
    }

    /// Number of outer slices: the product of the extents before the append axis.
    pub fn slices(&self) -> usize {
        self.place.claim.handle.geometry().slices
    }

    /// Bytes of the reserved rows of all outer slices.
    pub fn bytes(&self) -> usize {
        // No overflow: they lie in one block.
        self.rows() * self.row_bytes() * self.slices()
    }

    /// Address, element type and layout of the reserved rows alone, for writing them from another language. The address
    /// is good while the reservation lives and is not sealed; whoever writes there is its only user meanwhile.
    pub fn raw_rows(&mut self) -> Option<(*mut u8, crate::DType, crate::Layout)> {
        self.place.claim.raw_rows()
    }

    /// Copies rows of any strides into the reserved ones, from reserved row `at_row` on. `source` has the value's dtype and
    /// extents, except along the append axis.
    ///
    /// # Errors
    /// When dtype or shape differ or the rows do not fit.
    pub fn write_rows(&mut self, at_row: usize, source: &Tensor) -> Result<(), AppendError> {
        let bytes = self.place.claim.write(at_row, source)?;
        self.append_copied_bytes += bytes as u64;
        Ok(())
    }

    /// The reserved rows of each outer slice, in row-major order of the outer extents: `rows() * row_bytes()` bytes
    /// each, aligned for the dtype. They are zero until written.
    pub fn spans_mut(&mut self) -> SpansMut<'_> {
        self.place.claim.spans()
    }

    /// The reserved rows of one outer slice; `None` when there is no such slice.
    pub fn span_mut(&mut self, slice: usize) -> Option<&mut [u8]> {
        self.place.claim.span(slice)
    }

    /// Ends the writing.
    pub fn seal(self) -> AppendCandidate {
        let counters = self.counters();
        AppendCandidate::new(self.tensor, self.place, self.spares, counters)
    }
}
