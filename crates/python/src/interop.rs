//! Values between Python and Rust: runtime tensors, NumPy arrays, DLPack producers, buffers.
//!
//! # The argument for the unsafe code below this module
//! 1. *Lifetime.* Adopted memory belongs to a Python object that [`owner::ForeignMemory`] holds; exported memory belongs
//!    to a tensor that the capsule, or the base of the array, holds. Neither can go before the last view.
//! 2. *Writing.* Adopted memory is never written. Exported memory is marked read only; a consumer that cannot be told so
//!    gets a copy of its own. A consumer that ignores the mark breaks the contract.
//! 3. *Foreign headers.* A DLPack header is believed only where it was checked: version, device, type, lanes, shape,
//!    strides, offset and alignment come before the first access.

pub(crate) mod attributes;
pub(crate) mod descriptor;
pub(crate) mod dlpack;
pub(crate) mod exclusive;
pub(crate) mod getset;
pub(crate) mod handle;
pub(crate) mod numpy;
pub(crate) mod owner;
pub(crate) mod payload;
pub(crate) mod registry;
pub(crate) mod reservation;

use crate::error::Class;
use crate::runtime::tensor::PyTensor;
use ::numpy::PyUntypedArray;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use refeed_values::{ExtentError, Tensor, TensorError};

/// Why a Python object is no tensor.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its kind is wrong: no array, not on the CPU, not contiguous.
    Kind(String),
    /// Its contents are wrong: element type, byte order, alignment, header.
    Value(String),
    /// Its size does not fit.
    Size(String),
    /// The object itself raised this.
    Python(PyErr),
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Refused {
        Refused::Python(error)
    }
}

impl From<TensorError> for Refused {
    fn from(error: TensorError) -> Refused {
        match error {
            TensorError::Extent(ExtentError::Overflow { .. }) => Refused::Size(error.to_string()),
            other => Refused::Value(other.to_string()),
        }
    }
}

impl Refused {
    /// The exception, with the name of the value in front.
    pub(crate) fn named(self, py: Python<'_>, role: &str, name: &str) -> PyErr {
        match self {
            Refused::Kind(text) => PyTypeError::new_err(format!("{role} `{name}`: {text}")),
            Refused::Value(text) => {
                Class::ValueType.error(py, format_args!("{role} `{name}`: {text}"))
            }
            Refused::Size(text) => PyOverflowError::new_err(format!("{role} `{name}`: {text}")),
            Refused::Python(error) => error,
        }
    }
}

/// A Python object as a tensor, without a copy.
///
/// Runtime tensors are taken with any strides, and so is memory that a runtime tensor was exported to. Other arrays must
/// be contiguous, in native byte order, aligned, and on the CPU.
pub(crate) fn tensor(value: &Bound<'_, PyAny>) -> Result<Tensor, Refused> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return numpy::import(array);
    }
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return Ok(tensor.borrow().tensor().clone());
    }
    if value.hasattr("__dlpack__")? {
        return dlpack::import(value);
    }
    if let Ok(view) = PyMemoryView::from(value) {
        let array = value
            .py()
            .import("numpy")?
            .call_method1("asarray", (view,))?;
        return match array.cast::<PyUntypedArray>() {
            Ok(array) => numpy::import(array),
            Err(error) => Err(Refused::Python(error.into())),
        };
    }
    let kind = value.get_type().fully_qualified_name()?;
    Err(Refused::Kind(format!(
        "expected a tensor, a NumPy array or a DLPack producer, got {kind}"
    )))
}
