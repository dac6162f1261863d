//! What `refeed.onnx.builder.GraphBuilder` stands on.

use crate::error::{Class, IntoPyErr};
use crate::model::{PyModel, source};
use crate::run;
use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use refeed_graph::builder::{BuildError, GraphBuilder, NewNode, Output};
use refeed_graph::shape_inference::ShapeInferenceError;
use refeed_proto::{
    AttributeProto, EncodedValueProto, FunctionProto, Message, NodeProto, PagedCacheProto,
    PersistentBindingProto, SparseTensorProto, StructTypeProto, TensorProto, ValueInfoProto,
};

impl IntoPyErr for BuildError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            BuildError::Model(source)
            | BuildError::Inference(ShapeInferenceError::Model(source)) => source.into_py(py),
            other => Class::Model.error(py, other),
        }
    }
}

/// Reads a message object. One of another package is serialised once.
fn read<T: Message + Default>(value: &Bound<'_, PyAny>, name: &str) -> PyResult<T> {
    let kind = value.get_type();
    if kind.name()? != name || !value.hasattr("SerializeToString")? {
        let got = kind.fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!("expected {name}, got {got}")));
    }
    let wire = value
        .call_method0("SerializeToString")?
        .cast_into::<PyBytes>()?;
    let wire = Bytes::from_owner(PyBackedBytes::from(wire));
    T::decode(wire).map_err(|fault| Class::Model.error(value.py(), fault))
}

/// Makes a message object.
fn made<'py>(py: Python<'py>, message: &impl Message, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let object = py.import("refeed.onnx")?.getattr(name)?.call0()?;
    let wire = PyBytes::new(py, &message.encode_to_vec());
    object.call_method1("ParseFromString", (wire,))?;
    Ok(object)
}

fn made_each<'py>(
    py: Python<'py>,
    messages: &[impl Message],
    name: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let messages = messages.iter();
    messages.map(|message| made(py, message, name)).collect()
}

#[pyclass(name = "_GraphBuilder", module = "refeed._native")]
pub(crate) struct PyGraphBuilder {
    inner: GraphBuilder,
}

impl PyGraphBuilder {
    /// Runs an edit or an export. Both are short: no payload is touched.
    fn attached<T>(
        &mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut GraphBuilder) -> Result<T, BuildError>,
    ) -> PyResult<T> {
        run::attached(py, || work(&mut self.inner))
    }
}

#[pymethods]
impl PyGraphBuilder {
    #[new]
    #[pyo3(signature = (name = None, model = None))]
    fn new(name: Option<String>, model: Option<&Bound<'_, PyAny>>) -> PyResult<PyGraphBuilder> {
        let inner = match model {
            Some(model) => GraphBuilder::from_model(&source::model(model, true)?),
            None => GraphBuilder::new(name.unwrap_or_default()),
        };
        Ok(PyGraphBuilder { inner })
    }

    fn set_opset(&mut self, py: Python<'_>, domain: &str, version: i64) -> PyResult<()> {
        self.attached(py, |builder| builder.set_opset(domain, version))
    }

    fn set_ir_version(&mut self, py: Python<'_>, version: i64) -> PyResult<()> {
        self.attached(py, |builder| builder.set_ir_version(version))
    }

    fn opset(&self, domain: &str) -> Option<i64> {
        self.inner.opset(domain)
    }

    fn opsets(&self) -> Vec<(String, i64)> {
        let imports = self.inner.proto().opset_import.iter();
        imports
            .map(|import| (import.domain().to_string(), import.version()))
            .collect()
    }

    fn has_name(&self, name: &str) -> bool {
        self.inner.has_name(name)
    }

    fn has_value(&self, name: &str) -> bool {
        self.inner.has_value(name)
    }

    fn fresh_name(&mut self, stem: &str) -> String {
        self.inner.fresh_name(stem)
    }

    fn producer(&self, value: &str) -> Option<usize> {
        self.inner.producer(value)
    }

    fn make_input(&mut self, info: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: ValueInfoProto = read(info, "ValueInfoProto")?;
        self.attached(info.py(), |builder| builder.make_input_info(message))
    }

    fn make_output(&mut self, info: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: ValueInfoProto = read(info, "ValueInfoProto")?;
        self.attached(info.py(), |builder| builder.make_output_info(message))
    }

    /// In `outputs`, an empty name asks for a new one and `None` leaves the output out.
    fn make_node(
        &mut self,
        op_type: &Bound<'_, PyAny>,
        inputs: Vec<String>,
        outputs: Vec<Option<String>>,
        domain: &str,
        name: &str,
        attributes: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let mut node = NewNode::new(op_type.extract::<String>()?).inputs(inputs);
        if !domain.is_empty() {
            node = node.domain(domain);
        }
        if !name.is_empty() {
            node = node.name(name);
        }
        for attribute in &attributes {
            node = node.attribute(read::<AttributeProto>(attribute, "AttributeProto")?);
        }
        let node = node.outputs(outputs.into_iter().map(|output| match output {
            None => Output::Omitted,
            Some(name) if name.is_empty() => Output::Fresh,
            Some(name) => Output::Named(name),
        }));
        self.attached(op_type.py(), |builder| builder.make_node(node))
    }

    fn make_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: TensorProto = read(value, "TensorProto")?;
        self.attached(value.py(), |builder| builder.make_initializer(message))
    }

    fn make_sparse_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: SparseTensorProto = read(value, "SparseTensorProto")?;
        self.attached(value.py(), |builder| {
            builder.make_sparse_initializer(message)
        })
    }

    fn make_encoded_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: EncodedValueProto = read(value, "EncodedValueProto")?;
        self.attached(value.py(), |builder| {
            builder.make_encoded_initializer(message)
        })
    }

    fn make_paged_cache_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: PagedCacheProto = read(value, "PagedCacheProto")?;
        self.attached(value.py(), |builder| {
            builder.make_paged_cache_initializer(message)
        })
    }

    fn make_constant(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: TensorProto = read(value, "TensorProto")?;
        self.attached(value.py(), |builder| builder.make_constant(message))
    }

    fn make_struct_type(&mut self, declared: &Bound<'_, PyAny>) -> PyResult<u64> {
        let message: StructTypeProto = read(declared, "StructTypeProto")?;
        self.attached(declared.py(), |builder| builder.make_struct_type(message))
    }

    fn make_function(&mut self, function: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: FunctionProto = read(function, "FunctionProto")?;
        self.attached(function.py(), |builder| builder.make_function(message))
    }

    fn make_persistent_binding(&mut self, binding: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: PersistentBindingProto = read(binding, "PersistentBindingProto")?;
        self.inner.make_persistent_binding(message);
        Ok(())
    }

    fn persistent_bindings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        made_each(
            py,
            self.inner.persistent_bindings(),
            "PersistentBindingProto",
        )
    }

    fn paged_cache_initializers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        made_each(py, self.inner.paged_cache_initializers(), "PagedCacheProto")
    }

    fn encoded_initializers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        made_each(py, self.inner.encoded_initializers(), "EncodedValueProto")
    }

    fn struct_types<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        made_each(py, self.inner.struct_types(), "StructTypeProto")
    }

    fn remove_input<'py>(&mut self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.attached(py, |builder| builder.remove_input(name))?;
        made(py, &removed, "ValueInfoProto")
    }

    fn remove_output<'py>(&mut self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.attached(py, |builder| builder.remove_output(name))?;
        made(py, &removed, "ValueInfoProto")
    }

    fn remove_persistent_binding<'py>(
        &mut self,
        py: Python<'py>,
        input: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.attached(py, |builder| builder.remove_persistent_binding(input))?;
        made(py, &removed, "PersistentBindingProto")
    }

    fn rename_values(&mut self, py: Python<'_>, pairs: Vec<(String, String)>) -> PyResult<()> {
        let pairs = pairs.iter().map(|(old, new)| (old.as_str(), new.as_str()));
        self.attached(py, |builder| builder.rename_values(pairs))
    }

    fn replace_all_uses(&mut self, py: Python<'_>, old: &str, new: &str) -> PyResult<usize> {
        self.attached(py, |builder| builder.replace_all_uses(old, new))
    }

    fn replace_node(&mut self, index: usize, node: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: NodeProto = read(node, "NodeProto")?;
        self.attached(node.py(), |builder| builder.replace_node(index, message))
    }

    fn replace_nodes(
        &mut self,
        py: Python<'_>,
        removed: Vec<usize>,
        added: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let added: PyResult<Vec<NodeProto>> =
            added.iter().map(|node| read(node, "NodeProto")).collect();
        let added = added?;
        self.attached(py, |builder| builder.replace_nodes(&removed, added))
    }

    fn remove_identity_nodes(&mut self, py: Python<'_>) -> PyResult<usize> {
        self.attached(py, |builder| Ok(builder.remove_identity_nodes()))
    }

    fn remove_unused_nodes(&mut self, py: Python<'_>) -> PyResult<usize> {
        self.attached(py, |builder| Ok(builder.remove_unused_nodes()))
    }

    fn remove_unused_initializers(&mut self, py: Python<'_>) -> PyResult<usize> {
        self.attached(py, |builder| Ok(builder.remove_unused_initializers()))
    }

    fn remove_duplicate_nodes(&mut self, py: Python<'_>) -> PyResult<usize> {
        self.attached(py, |builder| Ok(builder.remove_duplicate_nodes()))
    }

    fn extract(
        &mut self,
        py: Python<'_>,
        inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> PyResult<PyGraphBuilder> {
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let inner = self.attached(py, |builder| builder.extract(&inputs, &outputs))?;
        Ok(PyGraphBuilder { inner })
    }

    /// `other` is copied: it can go on, and it may be this builder.
    fn merge(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, Self>,
        io_map: Vec<(String, String)>,
        prefix: &str,
    ) -> PyResult<()> {
        let copied = other.try_borrow()?.inner.clone();
        let io_map: Vec<(&str, &str)> = io_map
            .iter()
            .map(|(output, input)| (output.as_str(), input.as_str()))
            .collect();
        slf.try_borrow_mut()?
            .attached(slf.py(), |builder| builder.merge(copied, &io_map, prefix))
    }

    fn graph<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        made(py, self.inner.graph(), "GraphProto")
    }

    fn to_onnx<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = self.attached(py, |builder| builder.to_onnx())?;
        made(py, &model, "ModelProto")
    }

    fn to_standard_model<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = self.attached(py, |builder| builder.to_standard_model())?;
        made(py, &model, "ModelProto")
    }

    fn to_function<'py>(
        &mut self,
        py: Python<'py>,
        domain: &str,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let function = self.attached(py, |builder| builder.to_function(domain, name))?;
        made(py, &function, "FunctionProto")
    }

    fn load(&mut self, py: Python<'_>) -> PyResult<PyModel> {
        Ok(PyModel::new(
            self.attached(py, |builder| builder.to_model())?,
        ))
    }
}
