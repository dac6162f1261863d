//! A small builder of model messages for the tests of this crate.

use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::struct_type_proto::structure::{Field, field::Content};
use refeed_proto::struct_type_proto::{Kind, Structure};
use refeed_proto::tensor_shape_proto::{Dimension, dimension};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{
    AttributeProto, Bytes, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    PersistentBindingProto, StructTypeProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto,
};

/// FLOAT, INT64, STRING.
pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT64: i32 = 7;
pub(crate) const STRING: i32 = 8;

/// A tensor type; dimensions that are numbers are known, `?` is unknown, others are symbols.
pub(crate) fn tensor_type(element: i32, dims: &str) -> TypeProto {
    let dim = |text: &str| {
        let value = match text.parse() {
            Ok(number) => Some(dimension::Value::DimValue(number)),
            Err(_) if text == "?" => None,
            Err(_) => Some(dimension::Value::DimParam(text.to_string())),
        };
        Dimension {
            value,
            denotation: None,
        }
    };
    let shape = TensorShapeProto {
        dim: dims.split_whitespace().map(dim).collect(),
    };
    of_value(Value::TensorType(type_proto::Tensor {
        elem_type: Some(element),
        shape: Some(shape),
    }))
}

pub(crate) fn of_value(value: Value) -> TypeProto {
    TypeProto {
        denotation: None,
        value: Some(value),
    }
}

pub(crate) fn sequence(element: TypeProto) -> TypeProto {
    of_value(Value::SequenceType(Box::new(type_proto::Sequence {
        elem_type: Some(Box::new(element)),
    })))
}

/// A struct type of named fields.
pub(crate) fn structure(fields: Vec<(&str, Content)>) -> StructTypeProto {
    let field = |(name, content): (&str, Content)| Field {
        name: Some(name.to_string()),
        content: Some(content),
        ..Field::default()
    };
    let fields = fields.into_iter().map(field).collect();
    of_kind(Kind::Structure(Structure { field: fields }))
}

pub(crate) fn of_kind(kind: Kind) -> StructTypeProto {
    StructTypeProto {
        kind: Some(kind),
        ..StructTypeProto::default()
    }
}

pub(crate) fn of_struct(declared: StructTypeProto) -> TypeProto {
    of_value(Value::StructType(Box::new(declared)))
}

/// A reference to an entry of the catalogue.
pub(crate) fn reference_to(id: u64) -> TypeProto {
    of_struct(of_kind(Kind::TypeRef(id)))
}

/// The layout of a paged cache whose sequence of pages has the given name.
pub(crate) fn cache_structure(blocks: &str) -> StructTypeProto {
    let page = structure(vec![
        ("start", Content::Type(tensor_type(INT64, ""))),
        ("length", Content::Type(tensor_type(INT64, ""))),
        ("key", Content::Type(tensor_type(FLOAT, "1 2 rows 3"))),
        ("value", Content::Type(tensor_type(FLOAT, "1 2 rows 5"))),
    ]);
    structure(vec![(blocks, Content::Type(sequence(of_struct(page))))])
}

pub(crate) fn value(name: &str, ty: TypeProto) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_string()),
        r#type: Some(ty),
        ..ValueInfoProto::default()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace()
        .map(|word| {
            if word == "_" {
                String::new()
            } else {
                word.to_string()
            }
        })
        .collect()
}

/// A node of `ai.onnx`; names are separated by blanks, `_` is an absent one.
pub(crate) fn node(op_type: &str, inputs: &str, outputs: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op_type.to_string()),
        input: words(inputs),
        output: words(outputs),
        ..NodeProto::default()
    }
}

/// A node of another domain.
pub(crate) fn call(domain: &str, op_type: &str, inputs: &str, outputs: &str) -> NodeProto {
    NodeProto {
        domain: Some(domain.to_string()),
        ..node(op_type, inputs, outputs)
    }
}

pub(crate) fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(kind as i32),
        ..AttributeProto::default()
    }
}

pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        i: Some(value),
        ..attribute(name, AttributeType::Int)
    }
}

pub(crate) fn reference(name: &str, kind: AttributeType, to: &str) -> AttributeProto {
    AttributeProto {
        ref_attr_name: Some(to.to_string()),
        ..attribute(name, kind)
    }
}

pub(crate) fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        g: Some(Box::new(graph)),
        ..attribute(name, AttributeType::Graph)
    }
}

pub(crate) trait With: Sized {
    fn with(self, attribute: AttributeProto) -> Self;
}

impl With for NodeProto {
    fn with(mut self, attribute: AttributeProto) -> NodeProto {
        self.attribute.push(attribute);
        self
    }
}

/// A graph whose inputs and outputs are FLOAT tensors of two symbolic axes.
pub(crate) fn graph(inputs: &str, nodes: Vec<NodeProto>, outputs: &str) -> GraphProto {
    let declare = |names: &str| {
        names
            .split_whitespace()
            .map(|n| value(n, tensor_type(FLOAT, "rows 3")))
            .collect()
    };
    GraphProto {
        name: Some("tested".to_string()),
        node: nodes,
        input: declare(inputs),
        output: declare(outputs),
        ..GraphProto::default()
    }
}

/// An `If` with two branches over the condition `cond`.
pub(crate) fn branches(
    then_branch: GraphProto,
    else_branch: GraphProto,
    outputs: &str,
) -> NodeProto {
    node("If", "cond", outputs)
        .with(graph_attribute("then_branch", then_branch))
        .with(graph_attribute("else_branch", else_branch))
}

/// A FLOAT tensor with raw data.
pub(crate) fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let raw: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    TensorProto {
        name: Some(name.to_string()),
        data_type: Some(FLOAT),
        dims: dims.to_vec(),
        raw_data: Some(Bytes::from(raw)),
        ..TensorProto::default()
    }
}

pub(crate) fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto {
        domain: Some(domain.to_string()),
        version: Some(version),
    }
}

/// A model of opset 18, with the domain `mine` for functions.
pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 18), opset("mine", 1)],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

pub(crate) fn function(
    name: &str,
    inputs: &str,
    nodes: Vec<NodeProto>,
    outputs: &str,
) -> FunctionProto {
    FunctionProto {
        domain: Some("mine".to_string()),
        name: Some(name.to_string()),
        input: words(inputs),
        output: words(outputs),
        node: nodes,
        opset_import: vec![opset("", 18), opset("mine", 1)],
        ..FunctionProto::default()
    }
}

pub(crate) fn binding(input: &str, output: &str) -> PersistentBindingProto {
    PersistentBindingProto {
        input_name: Some(input.to_string()),
        output_name: Some(output.to_string()),
        ..PersistentBindingProto::default()
    }
}

/// `past + delta = present`, bound.
pub(crate) fn accumulate() -> ModelProto {
    let mut graph = graph(
        "past delta",
        vec![node("Add", "past delta", "present")],
        "present",
    );
    graph.persistent_bindings.push(binding("past", "present"));
    model(graph)
}
