//! Single nodes and functions, apart from a model.

use super::driver::{Driver, Place};
use super::scope::{Known, Scope, declared_type};
use super::{InferenceOptions, ShapeInferenceError, constant};
use crate::path::Path;
use crate::types::ValueType;
use crate::validate::Opsets;
use refeed_proto::{
    AttributeProto, FunctionProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TypeProto, ValueInfoProto,
};
use std::collections::HashMap;

const STRICT: InferenceOptions = InferenceOptions {
    check_type: true,
    strict_mode: true,
    data_prop: true,
};

/// The types of a node's outputs by name, as far as they can be told, from the types of values by name: its inputs, and
/// what its nested graphs take from around. `input_data` are values that are known.
///
/// # Errors
/// When the node contradicts its operator, or its domain is not imported.
pub fn infer_node_outputs(
    node: &NodeProto,
    opset_import: &[OperatorSetIdProto],
    input_types: &[(String, TypeProto)],
    input_data: &[(String, TensorProto)],
) -> Result<Vec<(String, TypeProto)>, ShapeInferenceError> {
    let model = ModelProto::default();
    let mut driver = Driver::new(&model, &STRICT)?;
    let opsets = Opsets::new(&Path::root("node"), opset_import)?;
    let data: HashMap<&str, &TensorProto> = input_data
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let mut scope = Scope::default();
    for (name, ty) in input_types {
        let known = Known {
            ty: declared(ty),
            constant: data.get(name.as_str()).copied().and_then(constant::small),
            value: None,
        };
        scope.define(name, Some(known));
    }
    let place = Place {
        opsets: &opsets,
        prefix: "",
    };
    driver.nodes(&mut scope, std::slice::from_ref(node), &place);
    let mut found = Vec::new();
    for name in node.output.iter().filter(|name| !name.is_empty()) {
        let known = scope.lookup(name).unwrap_or_default();
        let ty = Driver::outside(known, 0).ty;
        if ty != ValueType::Unset {
            found.push((name.clone(), ty.to_proto()));
        }
    }
    driver.finish(&STRICT)?;
    Ok(found)
}

/// The types of a function's outputs, from those of its inputs and from attribute values; without a kind where nothing
/// can be told. Other functions are not known.
///
/// # Errors
/// When there are more types than inputs, an attribute that the function does not have, or a node of the body
/// contradicts its operator.
pub fn infer_function_output_types(
    function: &FunctionProto,
    input_types: &[TypeProto],
    attributes: &[AttributeProto],
) -> Result<Vec<TypeProto>, ShapeInferenceError> {
    let model = ModelProto {
        functions: vec![function.clone()],
        ..ModelProto::default()
    };
    let mut driver = Driver::new(&model, &STRICT)?;
    let opsets = Opsets::new(&Path::root("function"), &function.opset_import)?;
    let call = NodeProto {
        domain: function.domain.clone(),
        op_type: function.name.clone(),
        overload: function.overload.clone(),
        input: (0..input_types.len()).map(|at| at.to_string()).collect(),
        output: function.output.clone(),
        attribute: attributes.to_vec(),
        ..NodeProto::default()
    };
    let arguments = input_types.iter().map(|ty| Some(declared(ty).into()));
    let place = Place {
        opsets: &opsets,
        prefix: "",
    };
    let at = || crate::place::function(function);
    let outputs = driver.call(&model.functions[0], &call, arguments.collect(), &at, &place);
    driver.finish(&STRICT)?;
    let types = outputs.unwrap_or_default().into_iter();
    Ok(types
        .map(|known| Driver::outside(known, 0).ty.to_proto())
        .collect())
}

fn declared(ty: &TypeProto) -> ValueType {
    declared_type(&ValueInfoProto {
        r#type: Some(ty.clone()),
        ..ValueInfoProto::default()
    })
}
