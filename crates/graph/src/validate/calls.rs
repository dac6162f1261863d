//! Calls of model-local functions: no recursion, bounded depth, bounded expansion.

use super::{CALL_DEPTH_LIMIT, NODE_LIMIT};
use crate::error::ModelError;
use crate::functions::FunctionTable;
use crate::path::{Path, Step};
use crate::{place, uses};
use refeed_proto::{ModelProto, NodeProto};
use std::collections::BTreeMap;

/// The nodes of one body, nested graphs included, and how often it calls which function.
#[derive(Debug, Default)]
struct Body {
    nodes: u64,
    calls: Vec<(usize, u64)>,
}

impl Body {
    fn new(nodes: &[NodeProto], functions: &FunctionTable) -> Body {
        let mut count = 0u64;
        let mut calls: BTreeMap<usize, u64> = BTreeMap::new();
        let mut stack = vec![nodes];
        while let Some(nodes) = stack.pop() {
            for node in nodes {
                count += 1;
                if let Some(callee) = functions.find(node.domain(), node.op_type(), node.overload())
                {
                    *calls.entry(callee).or_default() += 1;
                }
                for attribute in &node.attribute {
                    stack.extend(uses::nested(attribute).map(|graph| graph.node.as_slice()));
                }
            }
        }
        Body {
            nodes: count,
            calls: calls.into_iter().collect(),
        }
    }
}

/// What a function becomes when it is expanded.
#[derive(Debug, Clone, Copy, Default)]
struct Expanded {
    nodes: u64,
    depth: u64,
}

/// The number of nodes of the root graph with functions expanded.
pub(crate) fn check(model: &ModelProto, functions: &FunctionTable) -> Result<u64, ModelError> {
    let bodies: Vec<Body> = model
        .functions
        .iter()
        .map(|function| Body::new(&function.node, functions))
        .collect();
    let mut expanded: Vec<Option<Expanded>> = vec![None; bodies.len()];
    let mut open = vec![false; bodies.len()];
    for start in 0..bodies.len() {
        if expanded[start].is_some() {
            continue;
        }
        // A function and the position of its next call.
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        open[start] = true;
        while let Some(&mut (function, ref mut next)) = path.last_mut() {
            if let Some(&(callee, _)) = bodies[function].calls.get(*next) {
                *next += 1;
                if open[callee] {
                    return Err(recursion(model, &path, callee));
                }
                if expanded[callee].is_none() {
                    open[callee] = true;
                    path.push((callee, 0));
                }
                continue;
            }
            let sum = total(&bodies[function], &expanded);
            if sum.depth > CALL_DEPTH_LIMIT {
                return Err(ModelError::Limit {
                    at: Path::MODEL
                        .then(Step::Function(&model.functions[function]))
                        .to_string(),
                    what: "depth of function calls",
                    limit: CALL_DEPTH_LIMIT,
                    got: sum.depth,
                });
            }
            expanded[function] = Some(sum);
            open[function] = false;
            path.pop();
        }
    }
    let Some(graph) = &model.graph else {
        return Ok(0);
    };
    let sum = total(&Body::new(&graph.node, functions), &expanded);
    if sum.nodes > NODE_LIMIT {
        let what = "nodes, with functions expanded";
        return Err(ModelError::Limit {
            at: "graph".to_string(),
            what,
            limit: NODE_LIMIT,
            got: sum.nodes,
        });
    }
    Ok(sum.nodes)
}

/// Adds up a body whose callees are all expanded.
fn total(body: &Body, expanded: &[Option<Expanded>]) -> Expanded {
    let mut sum = Expanded {
        nodes: body.nodes,
        depth: 1,
    };
    for &(callee, times) in &body.calls {
        let inner = expanded[callee].unwrap_or_default();
        sum.nodes = sum.nodes.saturating_add(inner.nodes.saturating_mul(times));
        sum.depth = sum.depth.max(inner.depth.saturating_add(1));
    }
    sum
}

fn recursion(model: &ModelProto, path: &[(usize, usize)], callee: usize) -> ModelError {
    let from = path
        .iter()
        .position(|&(function, _)| function == callee)
        .unwrap_or(0);
    let mut names: Vec<String> = path[from..]
        .iter()
        .map(|&(f, _)| place::function(&model.functions[f]))
        .collect();
    let function = place::function(&model.functions[callee]);
    names.push(function.clone());
    if names.len() > 12 {
        names.splice(6..names.len() - 5, ["...".to_string()]);
    }
    ModelError::RecursiveFunction {
        function,
        cycle: names.join(" -> "),
    }
}
