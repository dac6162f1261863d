//! `Explanation` and `BindingReport`: why a binding was appended in place, moved, or copied.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use refeed_runtime::{BindingReport, Explanation};

#[pyclass(name = "BindingReport", module = "refeed.runtime", frozen)]
pub(crate) struct PyBindingReport {
    inner: BindingReport,
}

#[pymethods]
impl PyBindingReport {
    #[getter]
    fn input(&self) -> &str {
        &self.inner.input
    }

    #[getter]
    fn output(&self) -> &str {
        &self.inner.output
    }

    #[getter]
    fn outcome(&self) -> String {
        self.inner.outcome.to_string()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.inner.shape)
    }

    #[getter]
    fn capacity(&self) -> usize {
        self.inner.capacity_rows
    }

    #[getter]
    fn bytes(&self) -> usize {
        self.inner.logical_bytes
    }

    fn __repr__(&self) -> String {
        format!("<BindingReport {}>", self.inner)
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }
}

#[pyclass(name = "Explanation", module = "refeed.runtime", frozen)]
pub(crate) struct PyExplanation {
    inner: Explanation,
}

impl PyExplanation {
    pub(crate) fn new(inner: Explanation) -> PyExplanation {
        PyExplanation { inner }
    }
}

#[pymethods]
impl PyExplanation {
    #[getter]
    fn bindings(&self) -> Vec<PyBindingReport> {
        self.inner
            .bindings
            .iter()
            .map(|report| PyBindingReport {
                inner: report.clone(),
            })
            .collect()
    }

    #[getter]
    fn materialised<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, bytes) in &self.inner.materialised {
            dict.set_item(&**name, *bytes)?;
        }
        Ok(dict)
    }

    #[getter]
    fn rewritten<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (op_type, bytes) in &self.inner.rewritten {
            dict.set_item(&**op_type, *bytes)?;
        }
        Ok(dict)
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings.clone()
    }

    fn __repr__(&self) -> String {
        format!("<Explanation of {} bindings>", self.inner.bindings.len())
    }

    fn __str__(&self) -> String {
        self.inner.to_string().trim_end().to_string()
    }
}
