//! One test a rule, named after it: what the rule lets through stands beside what it refuses.

mod attributes;
mod declarations;
mod encoded;
mod functions;
mod model_rules;
mod names;
mod nested_graphs;
mod nodes;
mod operators;
mod paged_cache;
mod parameters;
mod parts;
mod rules;
mod sparse_tensors;
mod tensors;

use super::*;
use crate::testing::*;
use crate::{LoadOptions, Model};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{
    AttributeProto, Bytes, FunctionProto, GraphProto, NodeProto, PagedCacheProto,
    SparseTensorProto, TensorProto,
};
use std::time::{Duration, Instant};

fn load(model: ModelProto) -> Result<Model, ModelError> {
    Model::from_proto(model, &LoadOptions::default())
}

#[track_caller]
fn accepted(model: ModelProto) {
    if let Err(error) = load(model) {
        panic!("{error}");
    }
}

/// The text has all the parts.
#[track_caller]
fn told(error: &ModelError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

/// Refused with a text that has all the parts.
#[track_caller]
fn refused(model: ModelProto, parts: &[&str]) {
    told(&load(model).expect_err("the model must be refused"), parts);
}

fn chain(nodes: Vec<NodeProto>) -> ModelProto {
    model(graph("x cond", nodes, "y"))
}
