//! `TaskCompletion`: cancels a run from another thread.

use crate::run;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use refeed_runtime::TaskCompletion;

/// A single-use handle to one run of a state: any thread may cancel it until the run publishes.
#[pyclass(name = "TaskCompletion", module = "refeed.runtime", frozen)]
pub(crate) struct PyTaskCompletion {
    pub(crate) inner: TaskCompletion,
}

#[pymethods]
impl PyTaskCompletion {
    #[new]
    #[pyo3(signature = (task_id = 0))]
    fn new(task_id: i64) -> PyTaskCompletion {
        PyTaskCompletion {
            inner: TaskCompletion::new(task_id),
        }
    }

    /// Decide that the run publishes nothing; it ends with a `CancelledError` that carries `message`.
    #[pyo3(signature = (message = ""))]
    fn cancel(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        run::attached(py, || self.inner.cancel(message))
    }

    /// Whether it is decided: the run has published, or it was cancelled.
    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    /// Where it stands now.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.get_or_try_init(py, || -> PyResult<_> {
            let module = py.import("refeed.runtime")?;
            Ok(module.getattr("TaskStatus")?.unbind())
        })?;
        class.bind(py).call1((self.inner.status() as i32,))
    }

    /// The caller's number.
    #[getter]
    fn task_id(&self) -> i64 {
        self.inner.task_id()
    }

    /// What the canceller said; empty before that.
    #[getter]
    fn message(&self) -> String {
        self.inner.message().to_string()
    }

    fn __repr__(&self) -> String {
        let status = self.inner.status().name();
        format!("<TaskCompletion {} {status}>", self.inner.task_id())
    }
}
