//! Removal of nodes that compute what another node computes.

use super::GraphBuilder;
use super::substitute::{Fixed, Scope, Substitution, remove_marked};
use super::walk::innermost_first;
use crate::{ops, place, uses};
use refeed_proto::{Bytes, GraphProto, Message, ModelProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// Operators that may give something else each time.
const RANDOM: [&str; 7] = [
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

/// Attributes up to this size are compared by content, larger payloads by address.
const COMPARED: usize = 64 * 1024;

impl GraphBuilder {
    /// Removes nodes that have the operator, inputs and attributes of an earlier node of the same graph, in the root graph
    /// and in nested graphs, and says how many. Readers read the earlier node's outputs instead.
    ///
    /// Left alone are random operators, nodes with nested graphs, calls of functions, and operators of other domains that
    /// refeed has no schema of. Names of graph inputs and outputs stay, and so do bindings; a node stays when two outputs
    /// would have to be one value. Payloads over 64 KiB are equal when they are the same memory.
    pub fn remove_duplicate_nodes(&mut self) -> usize {
        let fixed = Fixed::of(&self.model);
        let calls = called(&self.model);
        let mut removed = 0;
        innermost_first(self.graph_mut(), &mut |graph| {
            removed += remove_duplicates(graph, &fixed, &calls);
        });
        self.names.read(&self.model);
        removed
    }
}

type Operator = (String, String, String);

/// The model-local functions by domain, name and overload.
fn called(model: &ModelProto) -> HashSet<Operator> {
    let functions = model.functions.iter();
    functions
        .map(|function| {
            let domain = place::domain(function.domain()).to_string();
            (
                domain,
                function.name().to_string(),
                function.overload().to_string(),
            )
        })
        .collect()
}

fn remove_duplicates(graph: &mut GraphProto, fixed: &Fixed, calls: &HashSet<Operator>) -> usize {
    let mut substitution = Substitution::default();
    let mut marked = vec![false; graph.node.len()];
    let mut firsts: HashMap<Vec<u8>, usize> = HashMap::new();
    let scope = Scope::of(graph, fixed);
    for (index, node) in graph.node.iter().enumerate() {
        if !is_repeatable(node, calls) {
            continue;
        }
        let Some(key) = key(node, &substitution) else {
            continue;
        };
        let Some(&first) = firsts.get(&key) else {
            firsts.insert(key, index);
            continue;
        };
        let pairs: Vec<(&str, &str)> = pairs(node, &graph.node[first]);
        let wanted = node.output.iter().filter(|name| !name.is_empty()).count();
        let allowed = |&(old, new): &(&str, &str)| substitution.allows(old, new, &scope);
        if pairs.len() == wanted && pairs.iter().all(allowed) {
            for (old, new) in pairs {
                substitution.replace(old, new, &scope);
            }
            marked[index] = true;
        }
    }
    substitution.apply(graph);
    remove_marked(graph, &marked)
}

/// Outputs of `node` with those of `first` at the same position, where both have one.
fn pairs<'n>(node: &'n NodeProto, first: &'n NodeProto) -> Vec<(&'n str, &'n str)> {
    let outputs = node.output.iter().zip(&first.output);
    outputs
        .filter(|(old, new)| !old.is_empty() && !new.is_empty())
        .map(|(old, new)| (old.as_str(), new.as_str()))
        .collect()
}

/// Whether the same inputs and attributes give the same outputs, as far as can be known.
fn is_repeatable(node: &NodeProto, calls: &HashSet<Operator>) -> bool {
    let domain = place::domain(node.domain());
    let known = if domain.is_empty() {
        !RANDOM.contains(&node.op_type())
    } else {
        ops::schema(domain, node.op_type()).is_some()
    };
    let operator = || {
        (
            domain.to_string(),
            node.op_type().to_string(),
            node.overload().to_string(),
        )
    };
    known
        && node
            .attribute
            .iter()
            .all(|attribute| uses::nested(attribute).next().is_none())
        && (calls.is_empty() || !calls.contains(&operator()))
}

/// Bytes that are equal for nodes that compute the same; `None` when a node is too large to say.
fn key(node: &NodeProto, substitution: &Substitution) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    let mut part = |bytes: &[u8]| {
        key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        key.extend_from_slice(bytes);
    };
    part(place::domain(node.domain()).as_bytes());
    part(node.op_type().as_bytes());
    part(node.overload().as_bytes());
    part(&(node.input.len() as u64).to_le_bytes());
    for input in &node.input {
        part(substitution.read(input).as_bytes());
    }
    let mut attributes: Vec<_> = node.attribute.iter().collect();
    attributes.sort_by_key(|attribute| attribute.name());
    part(&(attributes.len() as u64).to_le_bytes());
    for attribute in attributes {
        if attribute.encoded_len() <= COMPARED {
            part(b"content");
            part(&attribute.encode_to_vec());
            continue;
        }
        part(b"address");
        // Everything but the payload, and where the payload is.
        let mut plain = attribute.clone();
        let payload = plain
            .t
            .as_mut()
            .and_then(|tensor| tensor.raw_data.replace(Bytes::new()))?;
        if plain.encoded_len() > COMPARED {
            return None;
        }
        part(&plain.encode_to_vec());
        part(&(payload.as_ptr().addr() as u64).to_le_bytes());
        part(&(payload.len() as u64).to_le_bytes());
    }
    for configuration in &node.device_configurations {
        part(&configuration.encode_to_vec());
    }
    Some(key)
}
