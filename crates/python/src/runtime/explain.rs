//! `Explanation`, `BindingReport` and `AttentionForm`: why a binding was appended in place, moved, or copied.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use refeed_runtime::{AttentionForm, BindingReport, Explanation};

/// The state of one binding after the last call.
#[pyclass(name = "BindingReport", module = "refeed.runtime", frozen)]
pub(crate) struct PyBindingReport {
    inner: BindingReport,
}

#[pymethods]
impl PyBindingReport {
    /// The graph input.
    #[getter]
    fn input(&self) -> &str {
        &self.inner.input
    }

    /// The graph output that feeds it.
    #[getter]
    fn output(&self) -> &str {
        &self.inner.output
    }

    /// What the last call did: "in place", "grown: ...", "copied because ...", "appended ...", "kept", ....
    #[getter]
    fn outcome(&self) -> String {
        self.inner.outcome.to_string()
    }

    /// Extents of the retained value.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.inner.shape)
    }

    /// Rows that fit before the buffer must grow; 0 when the value has no capacity.
    #[getter]
    fn capacity(&self) -> usize {
        self.inner.capacity_rows
    }

    /// Bytes of the visible elements.
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

/// Attention that a graph writes out in single nodes: whether the attention kernel stands for them, and why not.
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
    /// The product of weights and values, whose output the whole computes.
    #[getter]
    fn node(&self) -> String {
        self.inner.node.to_string()
    }

    /// Nodes that the kernel stands for, those that only compute shapes included; 0 when they run as written.
    #[getter]
    fn nodes(&self) -> usize {
        self.inner.nodes
    }

    /// Why the nodes run as they are written; None when the kernel runs.
    #[getter]
    fn obstacle(&self) -> Option<&str> {
        self.inner.obstacle.as_deref()
    }

    /// Calls of the session so far in which the nodes ran all the same, and why in the last of them.
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

/// What a state answers about its last call; `str` of it is a table.
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
    /// One report a binding, in the model's order.
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

    /// Outputs that were copied so that they share no memory with a feed, with the bytes copied.
    #[getter]
    fn materialised<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, bytes) in &self.inner.materialised {
            dict.set_item(&**name, *bytes)?;
        }
        Ok(dict)
    }

    /// Bytes of retained values that ordinary operators wrote again, by operator; counted only with events on.
    #[getter]
    fn rewritten<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (op_type, bytes) in &self.inner.rewritten {
            dict.set_item(&**op_type, *bytes)?;
        }
        Ok(dict)
    }

    /// The attention that the graph writes out in single nodes, as for `RuntimeSession`.
    #[getter]
    fn attention(&self) -> Vec<PyAttentionForm> {
        PyAttentionForm::all(&self.inner.attention)
    }

    /// Declarations that the values contradict and that ``binding_uses="any"`` lets pass.
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
