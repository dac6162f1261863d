//! From a builder to a model, a standard model, a function; and what each of them has no place for.

use super::GraphBuilder;
use super::error::{BuildError, Loss};
use super::files;
use super::walk::nested_in;
use crate::error::ModelError;
use crate::model::Model;
use crate::shape_inference::{InferenceOptions, infer_shapes};
use crate::validate::NEWEST_IR_VERSION;
use crate::{place, publish};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::type_proto::Value;
use refeed_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    SparseTensorProto, StructTypeProto, TensorProto, TypeProto, ValueInfoProto,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The version of ai.onnx that a model gets when nothing is said: the newest one that refeed reads.
pub const NEWEST_OPSET: i64 = 28;

/// Newest opset of ai.onnx for each IR version from 3 on, from the table in ONNX's document on versions.
const OPSETS_OF_IR: [(i64, i64); 11] = [
    (3, 8),
    (4, 9),
    (5, 10),
    (6, 11),
    (7, 14),
    (8, 18),
    (9, 20),
    (10, 22),
    (11, 23),
    (12, 24),
    (13, 27),
];

/// The oldest IR version whose releases know an opset.
fn ir_version_of(opset: i64) -> i64 {
    OPSETS_OF_IR
        .iter()
        .find(|(_, newest)| opset <= *newest)
        .map_or(NEWEST_IR_VERSION, |&(ir_version, _)| ir_version)
}

impl GraphBuilder {
    /// The model, validated as a loaded one is, uses of bound inputs included. Payloads are shared; the builder can go on.
    ///
    /// A builder that started from nothing states what was left unsaid: the newest opset of ai.onnx that refeed reads
    /// when the graph uses that domain and no version was set, and the oldest IR version that knows the opset.
    ///
    /// # Errors
    /// [`BuildError::NoType`] for a graph output whose type nothing says, not even shape inference; otherwise what
    /// validation says.
    pub fn to_model(&self) -> Result<Model, BuildError> {
        let proto = self.complete()?;
        let model = Model::new(proto, Arc::clone(&self.external))?;
        model.verify()?;
        Ok(model)
    }

    /// The model as a message of its own: tensors in files become payloads that share the mapped files. See
    /// [`GraphBuilder::to_model`].
    ///
    /// # Errors
    /// As [`GraphBuilder::to_model`], and when a file cannot be read.
    pub fn to_onnx(&self) -> Result<ModelProto, BuildError> {
        let mut model = self.to_model()?.proto().clone();
        files::take_in(&mut model, &self.external)?;
        Ok(model)
    }

    /// The model without extensions, for programs that read standard ONNX only.
    ///
    /// # Errors
    /// [`BuildError::WouldLose`] while the model has persistent bindings, struct types, values or attributes of such
    /// types, encoded or paged cache initializers: nothing is left out silently. Otherwise as
    /// [`GraphBuilder::to_model`].
    pub fn to_standard_model(&self) -> Result<ModelProto, BuildError> {
        let lost = extensions(&self.model);
        if !lost.is_empty() {
            return Err(BuildError::WouldLose {
                form: "standard ONNX",
                lost,
            });
        }
        self.to_onnx()
    }

    /// The graph as a model-local function: graph inputs and outputs become the function's, dense and sparse initializers
    /// become Constant nodes that share their payloads.
    ///
    /// # Errors
    /// [`BuildError::WouldLose`] while the graph has bindings, encoded or paged cache initializers, inputs with a
    /// default, quantization annotations, training steps or values of struct types, which a function cannot have. Otherwise as
    /// [`GraphBuilder::to_model`].
    pub fn to_function(&self, domain: &str, name: &str) -> Result<FunctionProto, BuildError> {
        let graph = self.graph();
        let mut lost = extensions(&self.model);
        for input in &graph.input {
            if crate::uses::initializer_names(graph).any(|name| name == input.name()) {
                lost.push(loss("default of input", input.name()));
            }
        }
        for annotation in &graph.quantization_annotation {
            lost.push(loss("quantization annotation", annotation.tensor_name()));
        }
        for step in 0..self.model.training_info.len() {
            lost.push(loss("training step", &step.to_string()));
        }
        if !lost.is_empty() {
            return Err(BuildError::WouldLose {
                form: "a FunctionProto",
                lost,
            });
        }
        if name.is_empty() {
            return Err(BuildError::Unnamed { what: "function" });
        }
        let mut model = self.to_onnx()?;
        let graph = model.graph.take().ok_or(ModelError::NoGraph)?;
        let mut opset_import = std::mem::take(&mut model.opset_import);
        let dense = graph
            .initializer
            .into_iter()
            .map(|tensor| (tensor.name().to_string(), dense_value(tensor)));
        let sparse = graph.sparse_initializer.into_iter().map(|tensor| {
            let values = tensor.values.as_ref();
            let name = values.map_or(String::new(), |values| values.name().to_string());
            (name, sparse_value(tensor))
        });
        let mut node: Vec<NodeProto> = dense.chain(sparse).map(constant).collect();
        let default_domain =
            |import: &OperatorSetIdProto| place::domain(import.domain()).is_empty();
        if !node.is_empty() && !opset_import.iter().any(default_domain) {
            opset_import.push(OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(NEWEST_OPSET),
            });
        }
        node.extend(graph.node);
        let names = |infos: &[ValueInfoProto]| -> Vec<String> {
            infos.iter().map(|info| info.name().to_string()).collect()
        };
        // What the interface declares has no other place in a function.
        let declared = graph.input.iter().chain(&graph.output);
        Ok(FunctionProto {
            name: Some(name.to_string()),
            domain: Some(domain.to_string()),
            input: names(&graph.input),
            output: names(&graph.output),
            value_info: declared.chain(&graph.value_info).cloned().collect(),
            node,
            doc_string: graph.doc_string,
            opset_import,
            metadata_props: graph.metadata_props,
            ..FunctionProto::default()
        })
    }

    /// The message with everything stated that a builder may leave open.
    fn complete(&self) -> Result<ModelProto, BuildError> {
        let mut model = self.with_versions();
        let untyped = self.graph().output.iter();
        let untyped: Vec<&str> = untyped
            .filter(|output| output.r#type.is_none())
            .map(|output| output.name())
            .collect();
        let mut types = self.types_of("graph output", &untyped)?;
        let graph = model.graph.as_mut().ok_or(ModelError::NoGraph)?;
        for output in &mut graph.output {
            if output.r#type.is_none() {
                output.r#type = types.remove(output.name());
            }
        }
        Ok(model)
    }

    /// A copy that states its versions.
    fn with_versions(&self) -> ModelProto {
        let mut model = self.model.clone();
        if !self.from_nothing {
            return model;
        }
        let default = |import: &OperatorSetIdProto| place::domain(import.domain()).is_empty();
        let uses_default = |nodes: &[NodeProto]| {
            let mut domains = nodes.iter().map(|node| place::domain(node.domain()));
            domains.any(str::is_empty)
        };
        let nodes = &self.graph().node;
        let needed = model.opset_import.is_empty()
            || uses_default(nodes)
            || nested_in(nodes)
                .iter()
                .any(|graph| uses_default(&graph.node));
        if needed && !model.opset_import.iter().any(default) {
            model.opset_import.push(OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(NEWEST_OPSET),
            });
        }
        if model.ir_version.is_none() {
            let opset = model.opset_import.iter().find(|import| default(import));
            let opset = opset.map_or(NEWEST_OPSET, OperatorSetIdProto::version);
            // Functions came with IR version 8.
            let oldest = if model.functions.is_empty() { 3 } else { 8 };
            model.ir_version = Some(ir_version_of(opset).max(oldest));
        }
        model
    }

    /// The types of values of the root graph: what the graph says, else what shape inference finds.
    ///
    /// # Errors
    /// [`BuildError::NoType`] for the first value of which neither says a type, [`BuildError::Inference`] when types
    /// cannot be inferred at all.
    pub(super) fn types_of(
        &self,
        what: &'static str,
        names: &[&str],
    ) -> Result<HashMap<String, TypeProto>, BuildError> {
        let mut types: HashMap<String, TypeProto> = names
            .iter()
            .filter_map(|&name| Some((name.to_string(), self.value_type(name)?)))
            .collect();
        if types.len() < names.len() {
            let inferred = infer_shapes(&self.with_versions(), &InferenceOptions::default())?;
            let graph = inferred.model.graph.unwrap_or_default();
            let infos = graph.value_info.into_iter().chain(graph.output);
            for info in infos.filter(|info| names.contains(&info.name())) {
                if let (Some(name), Some(ty)) = (info.name, info.r#type) {
                    types.entry(name).or_insert(ty);
                }
            }
        }
        match names.iter().find(|&&name| !types.contains_key(name)) {
            None => Ok(types),
            Some(&name) => Err(BuildError::NoType {
                what,
                name: name.to_string(),
            }),
        }
    }
}

fn constant((name, value): (String, AttributeProto)) -> NodeProto {
    NodeProto {
        op_type: Some("Constant".to_string()),
        output: vec![name],
        attribute: vec![value],
        ..NodeProto::default()
    }
}

fn dense_value(tensor: TensorProto) -> AttributeProto {
    AttributeProto {
        name: Some("value".to_string()),
        r#type: Some(AttributeType::Tensor as i32),
        t: Some(Box::new(tensor)),
        ..AttributeProto::default()
    }
}

fn sparse_value(tensor: SparseTensorProto) -> AttributeProto {
    AttributeProto {
        name: Some("sparse_value".to_string()),
        r#type: Some(AttributeType::SparseTensor as i32),
        sparse_tensor: Some(Box::new(tensor)),
        ..AttributeProto::default()
    }
}

fn loss(what: &'static str, name: &str) -> Loss {
    Loss {
        what,
        name: name.to_string(),
    }
}

/// Everything in a model that standard ONNX has no place for.
pub(super) fn extensions(model: &ModelProto) -> Vec<Loss> {
    let mut lost = Vec::new();
    let Some(graph) = &model.graph else {
        return lost;
    };
    for binding in &graph.persistent_bindings {
        let pair = format!("{} -> {}", binding.input_name(), binding.output_name());
        lost.push(loss("persistent binding", &pair));
    }
    for entry in model.metadata_props.iter().chain(&graph.metadata_props) {
        if entry.key().starts_with(publish::KEY_PREFIX) {
            lost.push(loss("binding policy", entry.key()));
        }
    }
    for declared in &model.struct_types {
        lost.push(loss("struct type", &struct_name(declared)));
    }
    let lists = model.functions.iter().map(|function| &function.node);
    let nested = super::names::nested_of(model);
    let in_functions = lists.flat_map(nested_in);
    for graph in std::iter::once(graph).chain(nested).chain(in_functions) {
        graph_extensions(graph, &mut lost);
    }
    for function in &model.functions {
        typed_structs(&function.value_info, &mut lost);
        node_extensions(&function.node, &mut lost);
    }
    lost
}

fn struct_name(declared: &StructTypeProto) -> String {
    match (declared.name(), declared.type_id()) {
        ("", id) => id.to_string(),
        (name, _) => name.to_string(),
    }
}

fn graph_extensions(graph: &GraphProto, lost: &mut Vec<Loss>) {
    for value in &graph.encoded_initializer {
        lost.push(loss("encoded initializer", value.name()));
    }
    for cache in &graph.paged_cache_initializer {
        lost.push(loss("paged cache initializer", cache.name()));
    }
    for infos in [&graph.input, &graph.output, &graph.value_info] {
        typed_structs(infos, lost);
    }
    node_extensions(&graph.node, lost);
}

fn typed_structs(infos: &[ValueInfoProto], lost: &mut Vec<Loss>) {
    for info in infos {
        if info.r#type.as_ref().is_some_and(has_struct) {
            lost.push(loss("struct type of value", info.name()));
        }
    }
}

fn node_extensions(nodes: &[NodeProto], lost: &mut Vec<Loss>) {
    for (index, node) in nodes.iter().enumerate() {
        for attribute in &node.attribute {
            let mut types = attribute
                .tp
                .as_deref()
                .into_iter()
                .chain(&attribute.type_protos);
            if types.any(has_struct) {
                let name = format!("{} {}", place::node(index, node), attribute.name());
                lost.push(loss("struct type of attribute", &name));
            }
        }
    }
}

/// Whether a type is or holds a struct type.
fn has_struct(ty: &TypeProto) -> bool {
    let mut at = Some(ty);
    while let Some(ty) = at {
        at = match &ty.value {
            Some(Value::StructType(_)) => return true,
            Some(Value::SequenceType(sequence)) => sequence.elem_type.as_deref(),
            Some(Value::OptionalType(optional)) => optional.elem_type.as_deref(),
            Some(Value::MapType(map)) => map.value_type.as_deref(),
            _ => None,
        };
    }
    false
}
