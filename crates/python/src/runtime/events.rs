//! `RuntimeEvent`: one recorded fact, read only.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use refeed_runtime::{RuntimeEvent, RuntimeEventAction};

#[pyclass(name = "RuntimeEvent", module = "refeed.runtime", frozen)]
pub(crate) struct PyRuntimeEvent {
    inner: RuntimeEvent,
}

impl PyRuntimeEvent {
    pub(crate) fn new(inner: RuntimeEvent) -> PyRuntimeEvent {
        PyRuntimeEvent { inner }
    }
}

#[pymethods]
impl PyRuntimeEvent {
    #[getter]
    fn action<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.get_or_try_init(py, || -> PyResult<_> {
            Ok(py
                .import("refeed.runtime")?
                .getattr("RuntimeEventAction")?
                .unbind())
        })?;
        class.bind(py).call1((self.inner.action as i32,))
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind.name()
    }

    #[getter]
    fn data_type(&self) -> i32 {
        self.inner.captured.data_type
    }

    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.inner.captured.shape.clone()
    }

    #[getter]
    fn value_count(&self) -> usize {
        self.inner.captured.value_count
    }

    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let captured = &self.inner.captured;
        match captured.reals.is_empty() {
            true => PyList::new(py, &captured.integers),
            false => PyList::new(py, &captured.reals),
        }
    }

    #[getter]
    fn string_values(&self) -> Vec<&str> {
        let texts = self.inner.captured.texts.iter();
        texts.map(|text| &**text).collect()
    }

    #[getter]
    fn inputs(&self) -> Vec<&str> {
        self.inner.inputs.iter().map(|name| &**name).collect()
    }

    #[getter]
    fn duration_ns(&self) -> u64 {
        self.inner.duration_ns
    }

    /// All runs of the process share one pool of threads.
    #[getter]
    fn cpu_executor_instance_id(&self) -> i64 {
        0
    }

    #[getter]
    fn cpu_effective_threads(&self) -> usize {
        self.inner.threads
    }

    /// The CPU.
    #[getter]
    fn device(&self) -> i64 {
        -1
    }

    #[getter]
    fn timestamp_ns(&self) -> u64 {
        self.inner.timestamp_ns
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn op_domain(&self) -> &str {
        &self.inner.op_domain
    }

    #[getter]
    fn op_type(&self) -> &str {
        &self.inner.op_type
    }

    #[getter]
    fn node_index(&self) -> i64 {
        self.inner.node_index
    }

    #[getter]
    fn subgraph_node_index(&self) -> i64 {
        self.inner.subgraph_node_index
    }

    #[getter]
    fn subgraph_attr_name(&self) -> &str {
        &self.inner.subgraph_attr_name
    }

    #[getter]
    fn allocated_bytes(&self) -> u64 {
        self.inner.allocated_bytes
    }

    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.inner.peak_bytes
    }

    #[getter]
    fn storage_allocations(&self) -> u64 {
        self.inner.storage.allocations
    }

    #[getter]
    fn storage_allocated_bytes(&self) -> u64 {
        self.inner.storage.allocated_bytes
    }

    #[getter]
    fn storage_prefix_copied_bytes(&self) -> u64 {
        self.inner.storage.prefix_copied_bytes
    }

    #[getter]
    fn storage_append_copied_bytes(&self) -> u64 {
        self.inner.storage.append_copied_bytes
    }

    #[getter]
    fn storage_reuse_count(&self) -> u64 {
        self.inner.storage.reuse_count
    }

    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let event = &self.inner;
        let dict = PyDict::new(py);
        dict.set_item("action", event.action.name())?;
        dict.set_item("kind", event.kind.name())?;
        dict.set_item("timestamp_ns", event.timestamp_ns)?;
        dict.set_item("name", &*event.name)?;
        dict.set_item("data_type", event.captured.data_type)?;
        dict.set_item("shape", &event.captured.shape)?;
        dict.set_item("value_count", event.captured.value_count)?;
        dict.set_item("values", self.values(py)?)?;
        dict.set_item("string_values", self.string_values())?;
        dict.set_item("inputs", self.inputs())?;
        dict.set_item("duration_ns", event.duration_ns)?;
        dict.set_item("device", self.device())?;
        dict.set_item("cpu_executor_instance_id", self.cpu_executor_instance_id())?;
        dict.set_item("cpu_effective_threads", event.threads)?;
        dict.set_item("op_domain", &*event.op_domain)?;
        dict.set_item("op_type", &*event.op_type)?;
        dict.set_item("node_index", event.node_index)?;
        dict.set_item("subgraph_node_index", event.subgraph_node_index)?;
        dict.set_item("subgraph_attr_name", &*event.subgraph_attr_name)?;
        dict.set_item("allocated_bytes", event.allocated_bytes)?;
        dict.set_item("peak_bytes", event.peak_bytes)?;
        if event.action == RuntimeEventAction::PersistentStorage {
            dict.set_item("storage_allocations", event.storage.allocations)?;
            dict.set_item("storage_allocated_bytes", event.storage.allocated_bytes)?;
            dict.set_item(
                "storage_prefix_copied_bytes",
                event.storage.prefix_copied_bytes,
            )?;
            dict.set_item(
                "storage_append_copied_bytes",
                event.storage.append_copied_bytes,
            )?;
            dict.set_item("storage_reuse_count", event.storage.reuse_count)?;
        }
        Ok(dict)
    }

    fn summary(&self) -> String {
        let event = &self.inner;
        let mut text = format!("{} node={}", event.action.name(), event.node_index);
        if !event.op_type.is_empty() {
            text.push_str(&format!(" op={}", event.op_type));
        }
        if !event.name.is_empty() {
            text.push_str(&format!(" name={}", event.name));
        }
        if event.action == RuntimeEventAction::RunNode {
            text.push_str(&format!(" duration_ns={}", event.duration_ns));
        }
        if event.captured.data_type >= 0 {
            let (ty, shape) = (event.captured.data_type, &event.captured.shape);
            text.push_str(&format!(" data_type={ty} shape={shape:?}"));
        }
        if event.action == RuntimeEventAction::PersistentStorage {
            let storage = &event.storage;
            text.push_str(&format!(
                " allocations={} storage_bytes={} prefix_bytes={} append_bytes={} reused={}",
                storage.allocations,
                storage.allocated_bytes,
                storage.prefix_copied_bytes,
                storage.append_copied_bytes,
                storage.reuse_count
            ));
        }
        text
    }

    fn __repr__(&self) -> String {
        format!("<RuntimeEvent {}>", self.summary())
    }
}
