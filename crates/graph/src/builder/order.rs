//! What nodes need: liveness and topological order, captures of nested graphs included.

use crate::{place, uses};
use refeed_proto::{GraphProto, NodeProto};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Names that a node reads: its inputs and what its nested graphs take from outside.
pub(super) fn reads(node: &NodeProto) -> impl Iterator<Item = &str> {
    let inputs = node
        .input
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty());
    inputs.chain(uses::captures(node))
}

/// Positions of the nodes that make values, by name.
pub(super) fn producers<'a>(
    nodes: impl IntoIterator<Item = &'a NodeProto>,
) -> HashMap<&'a str, usize> {
    let mut found = HashMap::new();
    for (index, node) in nodes.into_iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            found.insert(name.as_str(), index);
        }
    }
    found
}

/// Which nodes of `graph` are needed to make the `wanted` values, when those in `given` are there already.
pub(super) fn needed<'a>(
    graph: &'a GraphProto,
    wanted: impl IntoIterator<Item = &'a str>,
    given: &HashSet<&str>,
) -> Vec<bool> {
    let producers = producers(&graph.node);
    let mut needed = vec![false; graph.node.len()];
    let mut open: Vec<&str> = wanted.into_iter().collect();
    while let Some(name) = open.pop() {
        let Some(&index) = producers.get(name).filter(|_| !given.contains(name)) else {
            continue;
        };
        if !std::mem::replace(&mut needed[index], true) {
            open.extend(reads(&graph.node[index]));
        }
    }
    needed
}

/// The order of `nodes` in which each stands after what it needs, otherwise as they are; or the nodes of a cycle as text.
pub(super) fn order(nodes: &[&NodeProto]) -> Result<Vec<usize>, String> {
    let producers = producers(nodes.iter().copied());
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0usize; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let needs: HashSet<usize> = reads(node)
            .filter_map(|name| producers.get(name).copied())
            .collect();
        missing[index] = needs.len();
        for producer in needs {
            readers[producer].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len())
        .filter(|&index| missing[index] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    Err(cycle(nodes, &producers, &missing))
}

/// A cycle among the nodes that could not be ordered: each of them waits for another one of them.
fn cycle(nodes: &[&NodeProto], producers: &HashMap<&str, usize>, missing: &[usize]) -> String {
    let waits_for = |index: usize| {
        reads(nodes[index])
            .filter_map(|name| producers.get(name).copied())
            .find(|&producer| missing[producer] > 0)
    };
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut path = Vec::new();
    let mut at = missing.iter().position(|&count| count > 0);
    while let Some(index) = at {
        if let Some(&start) = seen.get(&index) {
            path.drain(..start);
            path.push(index);
            break;
        }
        seen.insert(index, path.len());
        path.push(index);
        at = waits_for(index);
    }
    // Values flow from a node to the one that waits for it.
    let mut names: Vec<String> = path
        .iter()
        .rev()
        .map(|&index| place::node(index, nodes[index]))
        .collect();
    if names.len() > 12 {
        names.splice(6..names.len() - 5, ["...".to_string()]);
    }
    names.join(" -> ")
}
