//! What `refeed.onnx.builder.GraphBuilder` stands on.

use crate::error::{Class, IntoPyErr};
use crate::model::{PyModel, source};
use crate::onnx::convert::{message_of, prost_of};
use crate::run;
use pyo3::prelude::*;
use refeed_graph::builder::{BuildError, GraphBuilder, NewNode, Output};
use refeed_graph::shape_inference::ShapeInferenceError;
use refeed_proto::{
    AttributeProto, Convert, EncodedValueProto, FunctionProto, NodeProto, PagedCacheProto,
    PersistentBindingProto, SparseTensorProto, StructTypeProto, TensorProto, ValueInfoProto,
};

impl IntoPyErr for BuildError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            BuildError::Model(source) => source.into_py(py),
            BuildError::Inference(source) => match *source {
                ShapeInferenceError::Model(source) => source.into_py(py),
                other => Class::Model.error(py, other),
            },
            other => Class::Model.error(py, other),
        }
    }
}

fn messages_of<'py>(
    py: Python<'py>,
    contents: &[impl Convert],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let contents = contents.iter();
    contents.map(|content| message_of(py, content)).collect()
}

/// What `refeed.onnx.builder.GraphBuilder` stands on.
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
        let message: ValueInfoProto = prost_of(info)?;
        self.attached(info.py(), |builder| builder.make_input_info(message))
    }

    fn make_output(&mut self, info: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: ValueInfoProto = prost_of(info)?;
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
            node = node.attribute(prost_of::<AttributeProto>(attribute)?);
        }
        let node = node.outputs(outputs.into_iter().map(|output| match output {
            None => Output::Omitted,
            Some(name) if name.is_empty() => Output::Fresh,
            Some(name) => Output::Named(name),
        }));
        self.attached(op_type.py(), |builder| builder.make_node(node))
    }

    fn make_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: TensorProto = prost_of(value)?;
        self.attached(value.py(), |builder| builder.make_initializer(message))
    }

    fn make_sparse_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: SparseTensorProto = prost_of(value)?;
        self.attached(value.py(), |builder| {
            builder.make_sparse_initializer(message)
        })
    }

    fn make_encoded_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: EncodedValueProto = prost_of(value)?;
        self.attached(value.py(), |builder| {
            builder.make_encoded_initializer(message)
        })
    }

    fn make_paged_cache_initializer(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: PagedCacheProto = prost_of(value)?;
        self.attached(value.py(), |builder| {
            builder.make_paged_cache_initializer(message)
        })
    }

    fn make_constant(&mut self, value: &Bound<'_, PyAny>) -> PyResult<String> {
        let message: TensorProto = prost_of(value)?;
        self.attached(value.py(), |builder| builder.make_constant(message))
    }

    fn make_struct_type(&mut self, declared: &Bound<'_, PyAny>) -> PyResult<u64> {
        let message: StructTypeProto = prost_of(declared)?;
        self.attached(declared.py(), |builder| builder.make_struct_type(message))
    }

    fn make_function(&mut self, function: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: FunctionProto = prost_of(function)?;
        self.attached(function.py(), |builder| builder.make_function(message))
    }

    fn make_persistent_binding(&mut self, binding: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: PersistentBindingProto = prost_of(binding)?;
        self.inner.make_persistent_binding(message);
        Ok(())
    }

    fn persistent_bindings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        messages_of(py, self.inner.persistent_bindings())
    }

    fn paged_cache_initializers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        messages_of(py, self.inner.paged_cache_initializers())
    }

    fn encoded_initializers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        messages_of(py, self.inner.encoded_initializers())
    }

    fn struct_types<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        messages_of(py, self.inner.struct_types())
    }

    fn remove_input<'py>(&mut self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.attached(py, |builder| builder.remove_input(name))?;
        message_of(py, &removed)
    }

    fn remove_output<'py>(&mut self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.attached(py, |builder| builder.remove_output(name))?;
        message_of(py, &removed)
    }

    fn remove_persistent_binding<'py>(
        &mut self,
        py: Python<'py>,
        input: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.attached(py, |builder| builder.remove_persistent_binding(input))?;
        message_of(py, &removed)
    }

    fn rename_values(&mut self, py: Python<'_>, pairs: Vec<(String, String)>) -> PyResult<()> {
        let pairs = pairs.iter().map(|(old, new)| (old.as_str(), new.as_str()));
        self.attached(py, |builder| builder.rename_values(pairs))
    }

    fn replace_all_uses(&mut self, py: Python<'_>, old: &str, new: &str) -> PyResult<usize> {
        self.attached(py, |builder| builder.replace_all_uses(old, new))
    }

    fn replace_node(&mut self, index: usize, node: &Bound<'_, PyAny>) -> PyResult<()> {
        let message: NodeProto = prost_of(node)?;
        self.attached(node.py(), |builder| builder.replace_node(index, message))
    }

    fn replace_nodes(
        &mut self,
        py: Python<'_>,
        removed: Vec<usize>,
        added: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let added: PyResult<Vec<NodeProto>> = added.iter().map(|node| prost_of(node)).collect();
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
        &self,
        py: Python<'_>,
        inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> PyResult<PyGraphBuilder> {
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let inner = run::attached(py, || self.inner.extract(&inputs, &outputs))?;
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
        message_of(py, self.inner.graph())
    }

    fn to_onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = run::attached(py, || self.inner.to_onnx())?;
        message_of(py, &model)
    }

    fn to_standard_model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = run::attached(py, || self.inner.to_standard_model())?;
        message_of(py, &model)
    }

    fn to_function<'py>(
        &self,
        py: Python<'py>,
        domain: &str,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let function = run::attached(py, || self.inner.to_function(domain, name))?;
        message_of(py, &function)
    }

    fn load(&self, py: Python<'_>) -> PyResult<PyModel> {
        Ok(PyModel::new(run::attached(py, || self.inner.to_model())?))
    }
}
