//! Shape inference: `refeed.onnx.shape_inference`.

use crate::error::{Class, IntoPyErr};
use crate::onnx::convert::{message_of, prost_of};
use crate::run;
use pyo3::prelude::*;
use refeed_graph::ModelError;
use refeed_graph::shape_inference::{
    Declarations, InferenceOptions, ShapeInferenceError, infer_declarations,
    infer_function_output_types as function_types, infer_node_outputs as node_types,
};
use refeed_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TypeProto,
};

impl IntoPyErr for ShapeInferenceError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            // Files and memory are no faults of the model.
            ShapeInferenceError::Model(
                error @ (ModelError::Load(_) | ModelError::Payload { .. }),
            ) => error.into_py(py),
            other => Class::Inference.error(py, other),
        }
    }
}

/// A nested graph's place: node, attribute, and for a list of graphs the position there.
type Step = (usize, usize, Option<usize>);

/// What the graphs of a model declare with inferred types: for each its way from the root graph, and a graph that holds
/// nothing but inputs, outputs and `value_info`.
///
/// # Errors
/// `InferenceError` as [`infer_declarations`] says; `TypeError` when it is no model.
#[pyfunction(name = "_infer_declarations")]
pub(crate) fn infer<'py>(
    model: &Bound<'py, PyAny>,
    check_type: bool,
    strict_mode: bool,
    data_prop: bool,
) -> PyResult<Vec<(Vec<Step>, Bound<'py, PyAny>)>> {
    let py = model.py();
    let model: ModelProto = prost_of(model)?;
    let options = InferenceOptions {
        check_type,
        strict_mode,
        data_prop,
    };
    let (declarations, _) = run::detached(py, || infer_declarations(&model, &options))?;
    let placed = declarations.into_iter().map(|declared| {
        let Declarations {
            path,
            input,
            output,
            value_info,
        } = declared;
        let path = path
            .into_iter()
            .map(|step| (step.node, step.attribute, step.graph));
        let graph = GraphProto {
            input,
            output,
            value_info,
            ..GraphProto::default()
        };
        Ok((path.collect(), message_of(py, &graph)?))
    });
    placed.collect()
}

/// The types of a node's outputs by name.
///
/// # Errors
/// `InferenceError` when the node contradicts its operator; `TypeError` when an argument is another message.
#[pyfunction(name = "_infer_node_outputs")]
pub(crate) fn infer_node_outputs<'py>(
    node: &Bound<'py, PyAny>,
    opset_imports: Vec<(String, i64)>,
    input_types: Vec<(String, Bound<'py, PyAny>)>,
    input_data: Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let py = node.py();
    let node: NodeProto = prost_of(node)?;
    let import = |(domain, version)| OperatorSetIdProto {
        domain: Some(domain),
        version: Some(version),
    };
    let imports: Vec<OperatorSetIdProto> = opset_imports.into_iter().map(import).collect();
    let mut types: Vec<(String, TypeProto)> = Vec::with_capacity(input_types.len());
    for (name, ty) in &input_types {
        types.push((name.clone(), prost_of(ty)?));
    }
    let mut data: Vec<(String, TensorProto)> = Vec::with_capacity(input_data.len());
    for (name, tensor) in &input_data {
        data.push((name.clone(), prost_of(tensor)?));
    }
    let found = run::detached(py, || node_types(&node, &imports, &types, &data))?;
    found
        .into_iter()
        .map(|(name, ty)| Ok((name, message_of(py, &ty)?)))
        .collect()
}

/// The types of a function's outputs.
///
/// # Errors
/// As [`infer_node_outputs`].
#[pyfunction(name = "_infer_function_output_types")]
pub(crate) fn infer_function_output_types<'py>(
    function: &Bound<'py, PyAny>,
    input_types: Vec<Bound<'py, PyAny>>,
    attributes: Vec<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = function.py();
    let function: FunctionProto = prost_of(function)?;
    let types: Vec<TypeProto> = input_types.iter().map(prost_of).collect::<PyResult<_>>()?;
    let attributes: Vec<AttributeProto> =
        attributes.iter().map(prost_of).collect::<PyResult<_>>()?;
    let found = run::detached(py, || function_types(&function, &types, &attributes))?;
    found.iter().map(|ty| message_of(py, ty)).collect()
}
