//! `Explanation`, `BindingReport` and `AttentionForm`: why a binding was appended in place, moved, or copied.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use refeed_runtime::{AttentionForm, BindingReport, Explanation};

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

#[pyclass(name = "AttentionForm", module = "refeed.runtime", frozen)]
pub(crate) struct PyAttentionForm {
    inner: AttentionForm,
}

impl PyAttentionForm {
    pub(crate) fn all(forms: &[AttentionForm]) -> Vec<PyAttentionForm> {
        let forms = forms.iter();
        forms
            .map(|form| PyAttentionForm {
                inner: form.clone(),
            })
            .collect()
    }
}

#[pymethods]
impl PyAttentionForm {
    #[getter]
    fn node(&self) -> String {
        self.inner.node.to_string()
    }

    #[getter]
    fn nodes(&self) -> usize {
        self.inner.nodes
    }

    #[getter]
    fn obstacle(&self) -> Option<&str> {
        self.inner.obstacle.as_deref()
    }

    #[getter]
    fn declined(&self) -> Option<(u64, &'static str)> {
        self.inner.declined()
    }

    fn __repr__(&self) -> String {
        format!("<AttentionForm {}>", self.inner)
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
    fn attention(&self) -> Vec<PyAttentionForm> {
        PyAttentionForm::all(&self.inner.attention)
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
