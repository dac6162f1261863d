//! `Checkpoint`: the retained values of one moment.

use crate::model::PyModel;
use crate::runtime::tensor::Warned;
use crate::runtime::value::write;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use refeed_runtime::Checkpoint;
use refeed_values::RuntimeValue;

/// The retained values of a state at one moment: handles, not copies. It keeps their memory alive.
#[pyclass(name = "Checkpoint", module = "refeed.runtime", frozen)]
pub(crate) struct PyCheckpoint {
    pub(crate) inner: Checkpoint,
    warned: Warned,
}

impl PyCheckpoint {
    pub(crate) fn new(inner: Checkpoint, warned: Warned) -> PyCheckpoint {
        PyCheckpoint { inner, warned }
    }
}

#[pymethods]
impl PyCheckpoint {
    /// The values by input name: shared views.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.inner.values(), &self.warned)
    }

    /// The model whose values these are.
    #[getter]
    fn model(&self) -> PyModel {
        PyModel::new(self.inner.model().clone())
    }

    fn __repr__(&self) -> String {
        let bindings = self.inner.model().bindings().len();
        format!("<Checkpoint of {bindings} bindings>")
    }
}

/// Retained values as a dictionary of shared views.
pub(crate) fn by_name<'py>(
    py: Python<'py>,
    values: impl IntoIterator<Item = (std::sync::Arc<str>, RuntimeValue)>,
    warned: &Warned,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in values {
        let name = PyString::new(py, &name);
        let value = write(py, value, &name.clone().unbind(), warned)?;
        dict.set_item(name, value)?;
    }
    Ok(dict)
}
