//! `AppendReservation`: rows behind a retained value that a kernel of Python writes through a NumPy array.
//!
//! # The argument for the unsafe code here
//! The array covers the rows of one [`AppendReservation`], which nobody else can see until it is sealed, and nothing here
//! writes to them. Its base is an [`Export`], which keeps the object that holds the reservation and counts among its
//! exports. The reservation leaves the object, to be sealed or to give its rows back, only while no export is alive; so
//! whoever can still reach the array writes to rows that are still its own.

use super::Refused;
use super::numpy::lend;
use crate::error::Class;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use refeed_values::append::AppendReservation;
use refeed_values::{DType, Layout};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Inside {
    reservation: Option<AppendReservation>,
    exports: usize,
    /// Whether it can no longer be committed: its rows go back with the last export.
    revoked: bool,
}

/// Rows behind a retained value that only one kernel can see, until it commits them. Dropping it gives them back.
#[pyclass(name = "AppendReservation", module = "refeed.runtime", frozen)]
pub(crate) struct PyAppendReservation {
    inside: Mutex<Inside>,
    slots: (usize, usize),
    dtype: DType,
    shape: Vec<usize>,
    bytes: usize,
    outcome: String,
}

/// Keeps the rows of an array, as its base.
#[pyclass(frozen, module = "refeed._native")]
pub(crate) struct Export {
    of: Py<PyAppendReservation>,
}

impl Drop for Export {
    fn drop(&mut self) {
        let gone = {
            let mut inside = self.of.get().lock();
            inside.exports -= 1;
            let over = inside.exports == 0 && inside.revoked;
            over.then(|| inside.reservation.take())
        };
        drop(gone);
    }
}

impl PyAppendReservation {
    /// `slots` are the input and the output of the node that the rows are for.
    pub(crate) fn new(
        mut reservation: AppendReservation,
        slots: (usize, usize),
    ) -> Option<PyAppendReservation> {
        let (_, dtype, layout) = reservation.raw_rows()?;
        Some(PyAppendReservation {
            slots,
            dtype,
            shape: layout.shape().to_vec(),
            bytes: reservation.bytes(),
            outcome: reservation.outcome().to_string(),
            inside: Mutex::new(Inside {
                reservation: Some(reservation),
                ..Inside::default()
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that is done under the lock can panic half way.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The output that the rows are for.
    pub(crate) fn output(&self) -> usize {
        self.slots.1
    }

    /// Takes the reservation, to commit it.
    ///
    /// # Errors
    /// `BufferError` while an array of its rows is alive: the rows are then given back with the last such array.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<AppendReservation> {
        let mut inside = self.lock();
        if inside.exports > 0 && inside.reservation.is_some() {
            inside.revoked = true;
            let count = inside.exports;
            return Err(PyBufferError::new_err(format!(
                "{count} arrays of the reserved rows are alive: delete them before the commit"
            )));
        }
        let taken = if inside.revoked {
            None
        } else {
            inside.reservation.take()
        };
        taken.ok_or_else(|| {
            let text = "the reservation was committed or given back already";
            Class::ValueType.error(py, text)
        })
    }

    /// Gives the rows back, now or with the last array of them.
    pub(crate) fn revoke(&self) {
        let gone = {
            let mut inside = self.lock();
            inside.revoked = true;
            let free = inside.exports == 0;
            free.then(|| inside.reservation.take())
        };
        drop(gone);
    }
}

#[pymethods]
impl PyAppendReservation {
    /// Extents of the rows alone.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Number of their element type, as in `TensorProto.DataType`.
    #[getter]
    fn data_type(&self) -> i32 {
        self.dtype.to_onnx()
    }

    /// Bytes of the rows: what is to be written.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    /// Where the rows were found: in place, or in a larger buffer.
    #[getter]
    fn outcome(&self) -> &str {
        &self.outcome
    }

    /// Return a writable array of the rows, zero at first.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let (address, dtype, layout) = {
            let mut inside = this.lock();
            let revoked = inside.revoked;
            let rows = inside.reservation.as_mut().filter(|_| !revoked);
            let rows = rows.and_then(AppendReservation::raw_rows).ok_or_else(|| {
                let text = "the reservation was committed or given back already";
                Class::ValueType.error(py, text)
            })?;
            inside.exports += 1;
            rows
        };
        // From here on the export is counted, and uncounted when `base` goes.
        let of = slf.clone().unbind();
        let base = Bound::new(py, Export { of })?.into_any();
        // Packed elements have no type in NumPy: their bytes are one run.
        let (dtype, layout) = match dtype.size() {
            Some(_) => (dtype, layout),
            None => (DType::Uint8, Layout::contiguous(&[this.bytes])),
        };
        // SAFETY: as the module argues.
        unsafe { lend(py, dtype, &layout, address, base) }
            .map_err(|refused: Refused| refused.named(py, "reservation", "rows"))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = PyAppendReservation::numpy(slf)?;
        match (dtype, copy) {
            (None, Some(true)) => array.call_method0("copy"),
            (None, _) => Ok(array),
            (Some(dtype), _) => array.call_method1("astype", (dtype,)),
        }
    }

    /// Give the rows back.
    fn release(&self) {
        self.revoke();
    }

    fn __repr__(&self) -> String {
        format!(
            "<AppendReservation of {} {:?}, {}>",
            self.dtype, self.shape, self.outcome
        )
    }
}
