//! `OpsetId`, `KernelContext`, `RuntimeContext`.

use crate::error::Class;
use crate::run;
use crate::runtime::events::PyRuntimeEvent;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use refeed_runtime::{KernelContext, OpsetId, RuntimeContext, RuntimeContextOptions};

#[pyclass(name = "OpsetId", module = "refeed.runtime", eq, from_py_object)]
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct PyOpsetId {
    inner: OpsetId,
}

#[pymethods]
impl PyOpsetId {
    #[new]
    #[pyo3(signature = (domain = "", version = 0))]
    fn new(domain: &str, version: i64) -> PyOpsetId {
        PyOpsetId {
            inner: OpsetId {
                domain: domain.to_string(),
                version,
            },
        }
    }

    #[getter]
    fn domain(&self) -> &str {
        &self.inner.domain
    }

    #[setter]
    fn set_domain(&mut self, domain: String) {
        self.inner.domain = domain;
    }

    #[getter]
    fn version(&self) -> i64 {
        self.inner.version
    }

    #[setter]
    fn set_version(&mut self, version: i64) {
        self.inner.version = version;
    }

    fn __repr__(&self) -> String {
        format!(
            "OpsetId(domain='{}', version={})",
            self.inner.domain, self.inner.version
        )
    }
}

/// The opset `version` of ai.onnx.
#[pyfunction]
pub(crate) fn default_opset(version: i64) -> PyOpsetId {
    PyOpsetId {
        inner: OpsetId::default_opset(version),
    }
}

#[pyclass(name = "KernelContext", module = "refeed.runtime", eq, from_py_object)]
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct PyKernelContext {
    inner: KernelContext,
}

#[pymethods]
impl PyKernelContext {
    #[new]
    #[pyo3(signature = (opset = None))]
    fn new(opset: Option<PyOpsetId>) -> PyKernelContext {
        PyKernelContext {
            inner: KernelContext::new(opset.unwrap_or_default().inner),
        }
    }

    #[getter]
    fn opset(&self) -> PyOpsetId {
        PyOpsetId {
            inner: self.inner.opset.clone(),
        }
    }

    #[setter]
    fn set_opset(&mut self, opset: PyOpsetId) {
        self.inner.opset = opset.inner;
    }

    fn __repr__(&self) -> String {
        format!("KernelContext({})", self.opset().__repr__())
    }
}

#[pyclass(name = "RuntimeContext", module = "refeed.runtime", frozen)]
pub(crate) struct PyRuntimeContext {
    pub(crate) inner: RuntimeContext,
}

#[pymethods]
impl PyRuntimeContext {
    #[new]
    #[pyo3(signature = (kernel_ctx = None, *, events_enabled = false, verbose = 0))]
    fn new(
        py: Python<'_>,
        kernel_ctx: Option<PyKernelContext>,
        events_enabled: bool,
        verbose: i64,
    ) -> PyResult<PyRuntimeContext> {
        if verbose != 0 {
            return Err(
                Class::ValueType.error(py, format_args!("verbose: expected 0, got {verbose}"))
            );
        }
        let kernel = kernel_ctx.unwrap_or_default().inner;
        Ok(PyRuntimeContext {
            inner: RuntimeContext::with_options(
                kernel,
                RuntimeContextOptions {
                    events_enabled,
                    ..RuntimeContextOptions::default()
                },
            ),
        })
    }

    #[getter]
    fn kernel_ctx(&self) -> PyKernelContext {
        PyKernelContext {
            inner: self.inner.kernel_context().clone(),
        }
    }

    #[getter]
    fn events_enabled(&self) -> bool {
        self.inner.events_enabled()
    }

    #[getter]
    fn verbose(&self) -> i64 {
        0
    }

    fn events(&self) -> Vec<PyRuntimeEvent> {
        self.inner
            .events()
            .into_iter()
            .map(PyRuntimeEvent::new)
            .collect()
    }

    fn export_trace(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        run::detached(py, || self.inner.export_trace(path))
    }

    fn node_table<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows = self.inner.node_table().rows.into_iter();
        rows.map(|row| {
            let dict = PyDict::new(py);
            dict.set_item("node_index", row.node_index)?;
            dict.set_item("subgraph_node_index", row.subgraph_node_index)?;
            dict.set_item("name", &*row.name)?;
            dict.set_item("op_domain", &*row.op_domain)?;
            dict.set_item("op_type", &*row.op_type)?;
            dict.set_item("calls", row.calls)?;
            dict.set_item("total_ns", row.total_ns)?;
            dict.set_item("min_ns", row.min_ns)?;
            dict.set_item("max_ns", row.max_ns)?;
            Ok(dict)
        })
        .collect()
    }

    fn clear_events(&self) {
        self.inner.clear_events();
    }

    fn __repr__(&self) -> String {
        let enabled = if self.inner.events_enabled() {
            "True"
        } else {
            "False"
        };
        format!(
            "RuntimeContext({}, events_enabled={enabled})",
            self.kernel_ctx().__repr__()
        )
    }
}
