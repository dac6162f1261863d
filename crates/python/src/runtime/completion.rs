//! `TaskCompletion`: cancels a run from another thread.

use crate::run;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use refeed_runtime::TaskCompletion;

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

    #[pyo3(signature = (message = ""))]
    fn cancel(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        run::attached(py, || self.inner.cancel(message))
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.get_or_try_init(py, || -> PyResult<_> {
            let module = py.import("refeed.runtime")?;
            Ok(module.getattr("TaskStatus")?.unbind())
        })?;
        class.bind(py).call1((self.inner.status() as i32,))
    }

    #[getter]
    fn task_id(&self) -> i64 {
        self.inner.task_id()
    }

    #[getter]
    fn message(&self) -> String {
        self.inner.message().to_string()
    }

    fn __repr__(&self) -> String {
        let status = self.inner.status().name();
        format!("<TaskCompletion {} {status}>", self.inner.task_id())
    }
}
