//! Tests of the builder; what they compare with is written out by hand.

mod build;
mod export;
mod extract;
mod merge;
mod passes;
mod rename;
mod replace;

use super::{GraphBuilder, NewNode};
use crate::LoadOptions;
use crate::testing::*;
use refeed_proto::{GraphProto, ModelProto, NodeProto, PagedCacheBlockProto, PagedCacheProto};
use refeed_proto::{StringStringEntryProto, TypeProto, paged_cache_block_proto as page};

fn imported(proto: ModelProto) -> GraphBuilder {
    GraphBuilder::from_proto(proto, &LoadOptions::default()).unwrap()
}

/// A builder over a graph of FLOAT tensors.
fn of(inputs: &str, nodes: Vec<NodeProto>, outputs: &str) -> GraphBuilder {
    imported(model(graph(inputs, nodes, outputs)))
}

fn float() -> TypeProto {
    tensor_type(FLOAT, "rows 3")
}

/// `Op(in, in) -> out, out; ...`, in order.
fn listing(graph: &GraphProto) -> String {
    let line = |node: &NodeProto| {
        format!(
            "{}({}) -> {}",
            node.op_type(),
            node.input.join(", "),
            node.output.join(", ")
        )
    };
    graph.node.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn names<'a>(infos: impl IntoIterator<Item = &'a refeed_proto::ValueInfoProto>) -> String {
    let names: Vec<&str> = infos.into_iter().map(|info| info.name()).collect();
    names.join(" ")
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto {
        key: Some(key.to_string()),
        value: Some(value.to_string()),
    }
}

/// One page of one token: keys of width 3, values of width 5, capacity 2.
fn cache(name: &str) -> PagedCacheProto {
    let block = PagedCacheBlockProto {
        start: Some(0),
        length: Some(1),
        key_payload: Some(page::KeyPayload::Key(floats("", &[1, 1, 2, 3], &[0.5; 6]))),
        value_payload: Some(page::ValuePayload::Value(floats(
            "",
            &[1, 1, 2, 5],
            &[0.25; 10],
        ))),
    };
    PagedCacheProto {
        blocks: vec![block],
        name: Some(name.to_string()),
        doc_string: None,
    }
}

fn category() -> TypeProto {
    of_value(refeed_proto::type_proto::Value::StructType(Box::default()))
}
