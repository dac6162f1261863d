//! Small models for tests, built from wire structs.

use refeed_graph::{BindRequest, BindingUses, LoadOptions, Model, bind};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::tensor_shape_proto::{Dimension, dimension::Value as DimValue};
use refeed_proto::type_proto::{self, Value as Type};
use refeed_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};
use refeed_values::DType;

/// A declared value: name, element type, dimensions (numbers or symbols, separated by spaces).
pub(crate) fn value(name: &str, dtype: DType, dims: &str) -> ValueInfoProto {
    let dim = dims.split_whitespace().map(|text| Dimension {
        value: Some(match text.parse() {
            Ok(number) => DimValue::DimValue(number),
            Err(_) => DimValue::DimParam(text.to_string()),
        }),
        ..Default::default()
    });
    let tensor = type_proto::Tensor {
        elem_type: Some(dtype.to_onnx()),
        shape: Some(TensorShapeProto { dim: dim.collect() }),
    };
    let r#type = Some(TypeProto {
        value: Some(Type::TensorType(tensor)),
        ..Default::default()
    });
    ValueInfoProto {
        name: Some(name.to_string()),
        r#type,
        ..Default::default()
    }
}

/// A node; names are separated by spaces, `_` is an absent one.
pub(crate) fn node(op_type: &str, inputs: &str, outputs: &str) -> NodeProto {
    let names = |text: &str| {
        text.split_whitespace()
            .map(|name| if name == "_" { "" } else { name }.to_string())
            .collect()
    };
    NodeProto {
        op_type: Some(op_type.to_string()),
        input: names(inputs),
        output: names(outputs),
        ..Default::default()
    }
}

/// Adds an INT attribute.
pub(crate) fn int(mut node: NodeProto, name: &str, value: i64) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(AttributeType::Int as i32),
        i: Some(value),
        ..Default::default()
    });
    node
}

/// Adds a GRAPH attribute.
pub(crate) fn graph_attribute(mut node: NodeProto, name: &str, graph: GraphProto) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(Box::new(graph)),
        ..Default::default()
    });
    node
}

/// A graph.
pub(crate) fn graph(
    nodes: Vec<NodeProto>,
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
) -> GraphProto {
    GraphProto {
        name: Some("test".to_string()),
        node: nodes,
        input: inputs,
        output: outputs,
        ..Default::default()
    }
}

/// A model of opset 24 with its bindings.
pub(crate) fn bound(graph: GraphProto, pairs: &[(&str, &str)], uses: BindingUses) -> Model {
    let model = unbound(graph);
    let request = BindRequest::pairs(pairs.iter().copied()).with_uses(uses);
    bind(&model, &request).unwrap().0
}

/// A model of opset 24 without bindings.
pub(crate) fn unbound(graph: GraphProto) -> Model {
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.to_string()),
        version: Some(version),
    };
    let proto = ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 24), opset("com.microsoft", 1)],
        graph: Some(graph),
        ..Default::default()
    };
    Model::from_proto(proto, &LoadOptions::default()).unwrap()
}

/// A model of opset 24 from the text of its graph.
pub(crate) fn text(graph: &str) -> Model {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 24]> {graph}");
    let proto = refeed_graph::parser::parse_model(text).unwrap();
    Model::from_proto(proto, &LoadOptions::default()).unwrap()
}

/// `present = Add(delta, past)` on FLOAT[2].
pub(crate) fn accumulate() -> Model {
    let graph = graph(
        vec![node("Add", "delta past", "present")],
        vec![
            value("delta", DType::Float, "2"),
            value("past", DType::Float, "2"),
        ],
        vec![value("present", DType::Float, "2")],
    );
    bound(graph, &[("past", "present")], BindingUses::One)
}

/// A cache grown by Concat along axis 2.
pub(crate) fn concat(batch: usize, heads: usize, size: usize) -> Model {
    let dims = |length: &str| format!("{batch} {heads} {length} {size}");
    let graph = graph(
        vec![int(node("Concat", "past new", "present"), "axis", 2)],
        vec![
            value("new", DType::Float, &dims("n")),
            value("past", DType::Float, &dims("p")),
        ],
        vec![value("present", DType::Float, &dims("t"))],
    );
    bound(graph, &[("past", "present")], BindingUses::One)
}

/// A decode step of ONNX Attention with two caches, and two nodes after it that can fail.
pub(crate) fn attention(batch: usize, heads: usize, size: usize) -> Model {
    let dims = |heads: usize, length: &str| format!("{batch} {heads} {length} {size}");
    let graph = graph(
        vec![
            int(
                node(
                    "Attention",
                    "q k v _ past_key past_value",
                    "y present_key present_value",
                ),
                "is_causal",
                1,
            ),
            node("Sigmoid", "y", "gate"),
            node("Mul", "gate y", "out"),
        ],
        vec![
            value("q", DType::Float, &dims(2 * heads, "n")),
            value("k", DType::Float, &dims(heads, "n")),
            value("v", DType::Float, &dims(heads, "n")),
            value("past_key", DType::Float, &dims(heads, "p")),
            value("past_value", DType::Float, &dims(heads, "p")),
        ],
        vec![
            value("out", DType::Float, &dims(2 * heads, "n")),
            value("present_key", DType::Float, &dims(heads, "t")),
            value("present_value", DType::Float, &dims(heads, "t")),
        ],
    );
    let pairs = [("past_key", "present_key"), ("past_value", "present_value")];
    bound(graph, &pairs, BindingUses::One)
}

/// A decode step of `com.microsoft.GroupQueryAttention` with two query heads for each of `heads`, and two caches.
pub(crate) fn group_query(batch: usize, heads: usize, size: usize) -> Model {
    let inputs = "q k v past_key past_value lengths total";
    let mut step = node("GroupQueryAttention", inputs, "y present_key present_value");
    step.domain = Some("com.microsoft".to_string());
    let step = int(step, "num_heads", 2 * heads as i64);
    let step = int(step, "kv_num_heads", heads as i64);
    let rows = |heads: usize| format!("{batch} n {}", heads * size);
    let cache = |length: &str| format!("{batch} {heads} {length} {size}");
    let graph = graph(
        vec![step],
        vec![
            value("q", DType::Float, &rows(2 * heads)),
            value("k", DType::Float, &rows(heads)),
            value("v", DType::Float, &rows(heads)),
            value("past_key", DType::Float, &cache("p")),
            value("past_value", DType::Float, &cache("p")),
            value("lengths", DType::Int32, &batch.to_string()),
            value("total", DType::Int32, ""),
        ],
        vec![
            value("y", DType::Float, &rows(2 * heads)),
            value("present_key", DType::Float, &cache("t")),
            value("present_value", DType::Float, &cache("t")),
        ],
    );
    let pairs = [("past_key", "present_key"), ("past_value", "present_value")];
    bound(graph, &pairs, BindingUses::One)
}
