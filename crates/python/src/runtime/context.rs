//! `OpsetId`, `KernelContext`, `RuntimeContext`.

use crate::error::{Class, IntoPyErr};
use crate::run;
use crate::runtime::allocators::PyRawBufferAllocator;
use crate::runtime::context_options::{Keywords, PyRuntimeContextOptions};
use crate::runtime::custom_kernel::factory;
use crate::runtime::events::PyRuntimeEvent;
use crate::runtime::map;
use crate::runtime::options::flag;
use crate::runtime::tensor::{PyTensor, Warned, size};
use crate::runtime::value::{self, Reader};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use refeed_runtime::{
    ContextError, KernelContext, OpsetId, RuntimeContext, RuntimeEventAction, StorageReport,
    ValueKind,
};
use refeed_values::RuntimeValue;

/// A domain and a version of it.
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

    /// The domain; "" is ai.onnx.
    #[getter]
    fn domain(&self) -> &str {
        &self.inner.domain
    }

    #[setter]
    fn set_domain(&mut self, domain: String) {
        self.inner.domain = domain;
    }

    /// The version.
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

/// Return version `version` of the domain ai.onnx.
#[pyfunction]
pub(crate) fn default_opset(version: i64) -> PyOpsetId {
    PyOpsetId {
        inner: OpsetId::default_opset(version),
    }
}

/// What kernels assume where no model says otherwise.
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

    /// The default opset.
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

/// What the calls of a request share: events, values by name, kernels of the caller's own, allocators.
#[pyclass(name = "RuntimeContext", module = "refeed.runtime", frozen)]
pub(crate) struct PyRuntimeContext {
    pub(crate) inner: RuntimeContext,
    allocator: Option<Py<PyRawBufferAllocator>>,
    io_allocator: Option<Py<PyRawBufferAllocator>>,
    warned: Warned,
}

/// An action and what is reported with it: a name, and storage counters where the action has some.
///
/// # Errors
/// When the action is none, or a field is unknown, no size, or not of the action.
pub(crate) fn storage_of(
    action: &Bound<'_, PyAny>,
    fields: Option<&Bound<'_, PyDict>>,
) -> PyResult<(RuntimeEventAction, Option<String>, StorageReport)> {
    const ACTIONS: [RuntimeEventAction; 5] = [
        RuntimeEventAction::Add,
        RuntimeEventAction::Replace,
        RuntimeEventAction::Remove,
        RuntimeEventAction::RunNode,
        RuntimeEventAction::PersistentStorage,
    ];
    let py = action.py();
    let number: i32 = action.extract()?;
    let action = ACTIONS
        .into_iter()
        .find(|known| *known as i32 == number)
        .ok_or_else(|| {
            let text = format!("action: expected a RuntimeEventAction, got {number}");
            Class::ValueType.error(py, text)
        })?;
    let (mut name, mut storage) = (None, StorageReport::default());
    for (key, value) in fields.into_iter().flat_map(|fields| fields.iter()) {
        let key = key.cast_into::<PyString>()?;
        let key = key.to_str()?;
        if key == "name" {
            name = Some(value.extract::<String>()?);
            continue;
        }
        let counter = match key {
            "storage_allocations" => &mut storage.allocations,
            "storage_allocated_bytes" => &mut storage.allocated_bytes,
            "storage_prefix_copied_bytes" => &mut storage.prefix_copied_bytes,
            "storage_append_copied_bytes" => &mut storage.append_copied_bytes,
            "storage_reuse_count" => &mut storage.reuse_count,
            _ => {
                let text = format!("record_event() got an unexpected field `{key}`");
                return Err(PyTypeError::new_err(text));
            }
        };
        if action != RuntimeEventAction::PersistentStorage {
            let text = format!("{key}: only events of kPersistentStorage have storage counters");
            return Err(Class::ValueType.error(py, text));
        }
        *counter = size(&value, key)? as u64;
    }
    Ok((action, name, storage))
}

impl PyRuntimeContext {
    fn put_as(
        &self,
        name: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
        kind: &str,
    ) -> PyResult<()> {
        let kind = kind_of(name.py(), kind)?;
        let value = Reader::new("value", None).read(value, name)?;
        let put = self.inner.values().put(name.to_str()?, value, kind);
        put.map(drop).map_err(|error| error.into_py(name.py()))
    }

    fn names_of(&self, wanted: impl Fn(&RuntimeValue) -> bool) -> Vec<String> {
        let names = self.inner.values().names(wanted).into_iter();
        names.map(|name| name.to_string()).collect()
    }
}

pub(crate) fn kind_of(py: Python<'_>, kind: &str) -> PyResult<ValueKind> {
    kind.parse()
        .map_err(|error: ContextError| error.into_py(py))
}

#[pymethods]
impl PyRuntimeContext {
    #[new]
    #[pyo3(signature = (kernel_ctx = None, options = None, *, events_enabled = None, verbose = None,
        release_intermediates = None, allocator = None, io_allocator = None, device = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        kernel_ctx: Option<PyKernelContext>,
        options: Option<&Bound<'_, PyRuntimeContextOptions>>,
        events_enabled: Option<&Bound<'_, PyAny>>,
        verbose: Option<i64>,
        release_intermediates: Option<&Bound<'_, PyAny>>,
        allocator: Option<&Bound<'_, PyRawBufferAllocator>>,
        io_allocator: Option<&Bound<'_, PyRawBufferAllocator>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyRuntimeContext> {
        let keywords = Keywords {
            allocator,
            io_allocator,
            events_enabled,
            verbose,
            release_intermediates,
            device,
        };
        let options = keywords.or(py, options)?;
        let kernel = kernel_ctx.unwrap_or_default().inner;
        Ok(PyRuntimeContext {
            inner: RuntimeContext::with_options(kernel, options.to_runtime()),
            allocator: options.allocator,
            io_allocator: options.io_allocator,
            warned: Warned::default(),
        })
    }

    /// A copy of what kernels assume.
    #[getter]
    fn kernel_ctx(&self) -> PyKernelContext {
        PyKernelContext {
            inner: self.inner.kernel_context().clone(),
        }
    }

    /// Whether reports are recorded.
    #[getter]
    fn events_enabled(&self) -> bool {
        self.inner.events_enabled()
    }

    /// 0.
    #[getter]
    fn verbose(&self) -> i64 {
        0
    }

    #[getter]
    fn release_intermediates(&self) -> bool {
        self.inner.release_intermediates()
    }

    #[setter]
    fn set_release_intermediates(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let release = flag(value, "release_intermediates")?;
        self.inner.set_release_intermediates(release);
        Ok(())
    }

    /// Where calls take memory for intermediate values, when the context says so.
    #[getter]
    fn execution_allocator(&self, py: Python<'_>) -> Option<Py<PyRawBufferAllocator>> {
        self.allocator.as_ref().map(|held| held.clone_ref(py))
    }

    /// Where calls take memory for outputs, when the context says so.
    #[getter]
    fn io_allocator(&self, py: Python<'_>) -> Option<Py<PyRawBufferAllocator>> {
        self.io_allocator.as_ref().map(|held| held.clone_ref(py))
    }

    /// Return a copy of all recorded events; always empty with events off.
    fn events(&self) -> Vec<PyRuntimeEvent> {
        self.inner
            .events()
            .into_iter()
            .map(PyRuntimeEvent::new)
            .collect()
    }

    /// Write the events to a file that Perfetto and Chrome show (JSON of the Trace Event Format).
    fn export_trace(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        run::detached(py, || self.inner.export_trace(path))
    }

    /// Return where the time of the recorded calls went: one row a node, the most time first.
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

    /// Forget all recorded events.
    fn clear_events(&self) {
        self.inner.clear_events();
    }

    /// Record an event outside of any node; nothing with events off.
    #[pyo3(signature = (action, **fields))]
    fn record_event(
        &self,
        action: &Bound<'_, PyAny>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let py = action.py();
        let (action, name, storage) = storage_of(action, fields)?;
        let name = name.unwrap_or_default();
        let recorded = self.inner.record_event(action, &name, storage);
        recorded.map_err(|error| error.into_py(py))
    }

    /// Return whether a tensor is kept under a name.
    fn has(&self, name: &str) -> bool {
        self.inner.values().tensor(name).is_ok()
    }

    /// Forget the value of a name, of whatever kind; False when there is none. Of a tensor, this is a `kRemove`.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        let removed = self.inner.values().remove(name);
        removed.map_err(|error| error.into_py(py))
    }

    /// Keep a value under a name that has none. With events on, this is `kAdd`.
    #[pyo3(signature = (name, tensor, kind = "input"))]
    fn set(
        &self,
        name: &Bound<'_, PyString>,
        tensor: &Bound<'_, PyAny>,
        kind: &str,
    ) -> PyResult<()> {
        let py = name.py();
        let kind = kind_of(py, kind)?;
        let value = Reader::new("value", None).read(tensor, name)?;
        self.inner
            .values()
            .set(name.to_str()?, value, kind)
            .map_err(|error| error.into_py(py))
    }

    /// Keep a value under a name; what was there goes. With events on, this is `kAdd` or `kReplace`.
    #[pyo3(signature = (name, tensor, kind = "intermediate"))]
    fn put(
        &self,
        name: &Bound<'_, PyString>,
        tensor: &Bound<'_, PyAny>,
        kind: &str,
    ) -> PyResult<()> {
        self.put_as(name, tensor, kind)
    }

    /// As `put`, for values of every kind: a dict is a struct, a list a sequence.
    fn put_value(&self, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put_as(name, value, "intermediate")
    }

    /// Return the tensor of a name.
    fn get(&self, name: &Bound<'_, PyString>) -> PyResult<PyTensor> {
        let tensor = self
            .inner
            .values()
            .tensor(name.to_str()?)
            .map_err(|error| error.into_py(name.py()))?;
        Ok(PyTensor::new(
            tensor,
            name.clone().unbind(),
            self.warned.clone(),
        ))
    }

    /// Return the value of a name, of whatever kind.
    fn get_value<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (py, text) = (name.py(), name.to_str()?);
        let value = self.inner.values().value(text);
        let value = value.map_err(|error| error.into_py(py))?;
        value::write(py, value, &name.clone().unbind(), &self.warned)
    }

    /// Return what the value of a name is to a graph.
    fn kind(&self, py: Python<'_>, name: &str) -> PyResult<&'static str> {
        let kind = self.inner.values().kind(name);
        let kind = kind.ok_or_else(|| ContextError::Missing(name.to_string()).into_py(py))?;
        Ok(kind.as_str())
    }

    /// Return the names of the tensors, in the order of the alphabet.
    fn names(&self) -> Vec<String> {
        self.names_of(|value| value.tensor().is_some())
    }

    /// Return whether a sequence is kept under a name.
    fn has_sequence(&self, name: &str) -> bool {
        let value = self.inner.values().get(name);
        value.is_some_and(|value| value.elements().is_some())
    }

    /// Return the names of the sequences, in the order of the alphabet.
    fn sequence_names(&self) -> Vec<String> {
        self.names_of(|value| value.elements().is_some())
    }

    /// Return the elements of a sequence.
    fn get_sequence<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (py, text) = (name.py(), name.to_str()?);
        let value = self.inner.values().value(text);
        let value = value.map_err(|error| error.into_py(py))?;
        if value.elements().is_none() {
            let other = ContextError::Other {
                name: text.to_string(),
                expected: "a sequence",
                got: value.kind(),
            };
            return Err(other.into_py(py));
        }
        value::write(py, value, &name.clone().unbind(), &self.warned)
    }

    /// Keep a sequence under a name; what was there goes.
    fn put_sequence(&self, name: &Bound<'_, PyString>, values: &Bound<'_, PyList>) -> PyResult<()> {
        self.put_as(name, values, "intermediate")
    }

    /// Return whether a map is kept under a name.
    fn has_map(&self, name: &str) -> bool {
        self.inner.values().map(name).is_ok()
    }

    /// Return the names of the maps, in the order of the alphabet.
    fn map_names(&self) -> Vec<String> {
        let names = self.inner.values().map_names().into_iter();
        names.map(|name| name.to_string()).collect()
    }

    /// Keep a map under a name; what was there goes. No graph reads maps: they are for kernels of the caller's own.
    fn put_map(&self, name: &str, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let put = self.inner.values().put_map(name, map::read(name, values)?);
        put.map(drop).map_err(|error| error.into_py(values.py()))
    }

    /// Return a map as a dictionary, in the order in which it was given.
    fn get_map<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let held = self.inner.values().map(name);
        map::write(py, &held.map_err(|error| error.into_py(py))?)
    }

    /// Forget all values and all recorded events; kernels and allocators stay.
    fn clear(&self) {
        self.inner.values().clear();
        self.inner.clear_events();
    }

    /// Make a function the kernel of an operator, for calls with this context.
    #[pyo3(signature = (domain, op_type, r#fn))]
    fn register_custom_kernel(
        &self,
        domain: &str,
        op_type: &str,
        r#fn: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let factory = factory(r#fn)?;
        self.inner
            .register_kernel(domain, op_type, factory)
            .map_err(|error| error.into_py(r#fn.py()))
    }

    /// Forget a kernel of this context; False when there is none.
    fn unregister_custom_kernel(&self, domain: &str, op_type: &str) -> bool {
        self.inner.unregister_kernel(domain, op_type)
    }

    /// Forget all kernels of this context.
    fn clear_custom_kernels(&self) {
        self.inner.clear_kernels();
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
