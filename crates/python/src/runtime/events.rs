//! `RuntimeEvent`: one recorded fact, read only.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use refeed_runtime::{RuntimeEvent, RuntimeEventAction};

/// One recorded fact. Read only.
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
    /// What the event is about.
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

    /// What it happened to: "input", "initializer", "result", "node" or "storage".
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind.name()
    }

    /// Element type of a tensor of at most 8 elements, as a number of `TensorProto.DataType`; else -1.
    #[getter]
    fn data_type(&self) -> i32 {
        self.inner.captured.data_type
    }

    /// Extents of a tensor of at most 8 elements; else empty.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.inner.captured.shape.clone()
    }

    /// Elements of a tensor or sequence, fields of a struct.
    #[getter]
    fn value_count(&self) -> usize {
        self.inner.captured.value_count
    }

    /// The elements of a tensor of at most 8 of a type that Python has numbers for; else empty.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let captured = &self.inner.captured;
        match captured.reals.is_empty() {
            true => PyList::new(py, &captured.integers),
            false => PyList::new(py, &captured.reals),
        }
    }

    /// Always empty: a run keeps no strings.
    #[getter]
    fn string_values(&self) -> Vec<&str> {
        let texts = self.inner.captured.texts.iter();
        texts.map(|text| &**text).collect()
    }

    /// Names of the values that a node read; only for `kRunNode`.
    #[getter]
    fn inputs(&self) -> Vec<&str> {
        self.inner.inputs.iter().map(|name| &**name).collect()
    }

    /// How long a node ran, the nodes of its subgraphs included; only for `kRunNode`.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.inner.duration_ns
    }

    /// Always 0: the process has one pool of threads.
    #[getter]
    fn cpu_executor_instance_id(&self) -> i64 {
        0
    }

    /// Threads that the node could use.
    #[getter]
    fn cpu_effective_threads(&self) -> usize {
        self.inner.threads
    }

    /// Always -1: the CPU.
    #[getter]
    fn device(&self) -> i64 {
        -1
    }

    /// Nanoseconds since the context was made, at the end of what happened.
    #[getter]
    fn timestamp_ns(&self) -> u64 {
        self.inner.timestamp_ns
    }

    /// Name of the value, or of the node; "" when the model gives it none.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// Domain of the node's operator.
    #[getter]
    fn op_domain(&self) -> &str {
        &self.inner.op_domain
    }

    /// The node's operator.
    #[getter]
    fn op_type(&self) -> &str {
        &self.inner.op_type
    }

    /// Position of the node in the graph that holds it; -1 for graph inputs, -2 for initializers.
    #[getter]
    fn node_index(&self) -> i64 {
        self.inner.node_index
    }

    /// Position in the root graph of the control-flow node around it; -1 when there is none.
    #[getter]
    fn subgraph_node_index(&self) -> i64 {
        self.inner.subgraph_node_index
    }

    /// Attribute of that control-flow node; "" when there is none.
    #[getter]
    fn subgraph_attr_name(&self) -> &str {
        &self.inner.subgraph_attr_name
    }

    /// Bytes that the allocator had in use.
    #[getter]
    fn allocated_bytes(&self) -> u64 {
        self.inner.allocated_bytes
    }

    /// The most bytes it ever had in use.
    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.inner.peak_bytes
    }

    /// Buffers requested.
    #[getter]
    fn storage_allocations(&self) -> u64 {
        self.inner.storage.allocations
    }

    /// Bytes requested for them, capacity included.
    #[getter]
    fn storage_allocated_bytes(&self) -> u64 {
        self.inner.storage.allocated_bytes
    }

    /// Bytes of earlier rows that were copied.
    #[getter]
    fn storage_prefix_copied_bytes(&self) -> u64 {
        self.inner.storage.prefix_copied_bytes
    }

    /// Bytes of new rows that were copied in.
    #[getter]
    fn storage_append_copied_bytes(&self) -> u64 {
        self.inner.storage.append_copied_bytes
    }

    /// Appends that found room in the buffer they already had.
    #[getter]
    fn storage_reuse_count(&self) -> u64 {
        self.inner.storage.reuse_count
    }

    /// Return the attributes as a dictionary; the `storage_*` ones only for storage events.
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

    /// Return one line of text.
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
