//! `refeed.Model`: a loaded, validated, immutable model.

pub(crate) mod source;

use crate::onnx::convert;
use crate::run;
use crate::runtime::session::PyRuntimeSession;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use refeed_graph::types::{Dim, ValueInfo, ValueType};
use refeed_graph::{Binding, Model};
use refeed_proto::ModelProto;
use refeed_runtime::{OperatorUse, RuntimeSessionOptions, survey};
use refeed_values::DType;
use std::path::PathBuf;

/// A named, typed graph input or output.
#[pyclass(name = "ValueInfo", module = "refeed", frozen)]
pub(crate) struct PyValueInfo {
    inner: ValueInfo,
}

impl PyValueInfo {
    pub(crate) fn new(inner: ValueInfo) -> PyValueInfo {
        PyValueInfo { inner }
    }
}

#[pymethods]
impl PyValueInfo {
    /// The value's name, taken literally.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The declared type as text, such as ``FLOAT[batch, 8]``.
    #[getter]
    fn r#type(&self) -> String {
        self.inner.ty.to_string()
    }

    /// The element type's number in `onnx.TensorProto`; None when it is not declared or the value is no tensor.
    #[getter]
    fn data_type(&self) -> Option<i32> {
        self.inner.ty.tensor()?.dtype.map(DType::to_onnx)
    }

    /// Declared dimensions: numbers, symbols, or None where nothing is said; None without a declared rank.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let ValueType::Tensor(ty) = &self.inner.ty else {
            return Ok(None);
        };
        let Some(shape) = &ty.shape else {
            return Ok(None);
        };
        let dims: PyResult<Vec<Bound<'py, PyAny>>> = shape
            .iter()
            .map(|dim| match dim {
                Dim::Known(n) => Ok(n.into_pyobject(py)?.into_any()),
                Dim::Symbol(name) => Ok((&**name).into_pyobject(py)?.into_any()),
                Dim::Unknown => Ok(py.None().into_bound(py)),
            })
            .collect();
        Ok(Some(PyTuple::new(py, dims?)?))
    }

    fn __repr__(&self) -> String {
        format!("<ValueInfo {}: {}>", self.inner.name, self.inner.ty)
    }
}

/// One pair: an output that is the next value of an input.
#[pyclass(name = "Binding", module = "refeed", frozen)]
pub(crate) struct PyBinding {
    inner: Binding,
}

#[pymethods]
impl PyBinding {
    /// The graph input that is fed.
    #[getter]
    fn input(&self) -> &str {
        &self.inner.input
    }

    /// The graph output that feeds it.
    #[getter]
    fn output(&self) -> &str {
        &self.inner.output
    }

    /// When the output is published: "always", "once" or "if_present".
    #[getter]
    fn publish(&self) -> &'static str {
        self.inner.publish.as_str()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Binding {} <- {} ({})>",
            self.inner.input, self.inner.output, self.inner.publish
        )
    }
}

/// One operator of a model.
#[pyclass(name = "OperatorUse", module = "refeed", frozen)]
pub(crate) struct PyOperatorUse {
    inner: OperatorUse,
}

#[pymethods]
impl PyOperatorUse {
    /// Operator domain; ai.onnx is "".
    #[getter]
    fn domain(&self) -> &str {
        &self.inner.domain
    }

    /// Operator.
    #[getter]
    fn op_type(&self) -> &str {
        &self.inner.op_type
    }

    /// Number of nodes, those of subgraphs and called functions included.
    #[getter]
    fn nodes(&self) -> usize {
        self.inner.nodes
    }

    /// What stands in the way of computing it; empty when all its nodes can run.
    #[getter]
    fn problems(&self) -> Vec<String> {
        self.inner.problems.clone()
    }

    fn __repr__(&self) -> String {
        format!(
            "<OperatorUse {}:{} x {}>",
            self.inner.domain, self.inner.op_type, self.inner.nodes
        )
    }
}

/// A loaded, validated, immutable model. Made by `load` and `bind`.
#[pyclass(name = "Model", module = "refeed", frozen)]
pub(crate) struct PyModel {
    pub(crate) inner: Model,
    session: PyOnceLock<PyRuntimeSession>,
}

impl PyModel {
    pub(crate) fn new(inner: Model) -> PyModel {
        PyModel {
            inner,
            session: PyOnceLock::new(),
        }
    }
}

fn infos(values: &[ValueInfo]) -> Vec<PyValueInfo> {
    values
        .iter()
        .map(|value| PyValueInfo {
            inner: value.clone(),
        })
        .collect()
}

#[pymethods]
impl PyModel {
    /// All declared inputs of the graph, bound ones and those with a default included.
    #[getter]
    fn inputs(&self) -> Vec<PyValueInfo> {
        infos(self.inner.inputs())
    }

    /// All declared outputs of the graph.
    #[getter]
    fn outputs(&self) -> Vec<PyValueInfo> {
        infos(self.inner.outputs())
    }

    /// Names of the graph's constant tensors; an input of such a name need not be fed.
    #[getter]
    fn initializer_names(&self) -> Vec<&str> {
        self.inner
            .graph()
            .initializer
            .iter()
            .map(|tensor| tensor.name())
            .collect()
    }

    /// The persistent bindings, in the order of declaration.
    #[getter]
    fn bindings(&self) -> Vec<PyBinding> {
        self.inner
            .bindings()
            .iter()
            .map(|binding| PyBinding {
                inner: binding.clone(),
            })
            .collect()
    }

    /// How often a bound input may be used, as the graph says: "one" or "any".
    #[getter]
    fn binding_uses(&self) -> &'static str {
        self.inner.binding_uses().as_str()
    }

    /// Imported operator sets by domain; ai.onnx is "".
    #[getter]
    fn opsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (domain, version) in self.inner.opsets() {
            dict.set_item(domain, version)?;
        }
        Ok(dict)
    }

    /// Every operator of the model, and what stands in the way of computing it.
    #[getter]
    fn operators(&self, py: Python<'_>) -> PyResult<Vec<PyOperatorUse>> {
        let uses = run::detached(py, || survey(&self.inner))?;
        Ok(uses
            .into_iter()
            .map(|inner| PyOperatorUse { inner })
            .collect())
    }

    /// What is odd about the model but not wrong.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings().to_vec()
    }

    /// Number of payloads that were copied because they were not aligned for their type.
    #[getter]
    fn moved_payloads(&self) -> usize {
        self.inner.moved_payloads()
    }

    /// Check the uses of bound inputs under the graph's own policy.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        run::detached(py, || self.inner.verify())
    }

    /// Write the model to a file, and its external tensors to ``<file name>.data`` beside it.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run::detached(py, || self.inner.save(path))
    }

    /// Return the serialised model.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes: Bytes = run::detached(py, || self.inner.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Give the model as a message, which shares its payloads. Editing it changes nothing here.
    fn to_proto<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::message_of(py, self.inner.proto())
    }

    /// Return a model with a changed message, whose tensors in other files are found where this model's are.
    fn with_proto(&self, model: &Bound<'_, PyAny>) -> PyResult<PyModel> {
        let proto: ModelProto = convert::prost_of(model)?;
        let changed = run::detached(model.py(), || self.inner.with_proto(proto))?;
        Ok(PyModel::new(changed))
    }

    /// Make a model from a message as it is now: payloads are shared, structure is copied.
    #[staticmethod]
    fn from_proto(model: &Bound<'_, PyAny>) -> PyResult<PyModel> {
        Ok(PyModel::new(source::model(model, true)?))
    }

    /// Run the graph once without any state; a session is made at the first call.
    fn run<'py>(&self, feeds: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let py = feeds.py();
        let session = self.session.get_or_try_init(py, || {
            PyRuntimeSession::make(
                py,
                self.inner.clone(),
                RuntimeSessionOptions::default(),
                None,
            )
        })?;
        session.run_feeds(feeds, None)
    }

    fn __repr__(&self) -> String {
        let (inputs, outputs) = (self.inner.inputs().len(), self.inner.outputs().len());
        format!(
            "<refeed.Model of {inputs} inputs, {outputs} outputs, {} bindings>",
            self.inner.bindings().len()
        )
    }
}

/// Read and validate a model.
#[pyfunction]
#[pyo3(signature = (model, *, mmap = true))]
pub(crate) fn load(model: &Bound<'_, PyAny>, mmap: bool) -> PyResult<PyModel> {
    Ok(PyModel::new(source::model(model, mmap)?))
}
