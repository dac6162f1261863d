//! Nodes that need each other.

use super::frame::Frame;
use crate::path::Trail;
use crate::uses;
use std::collections::HashMap;

/// The way from `producer` back to the node that is being looked at, if the producer needs what that makes.
pub(super) fn find(frame: &Frame<'_>, trail: &Trail<'_>, producer: usize) -> Option<String> {
    let reader = frame.current;
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut stack = vec![producer];
    let mut found = reader == producer;
    while let Some(index) = stack.pop() {
        if found {
            break;
        }
        let node = &frame.nodes[index];
        let needed = node
            .input
            .iter()
            .map(String::as_str)
            .chain(uses::captures(node));
        for name in needed.filter(|name| !name.is_empty()) {
            let Some(&position @ 1..) = frame.defined.get(name) else {
                continue;
            };
            let before = position - 1;
            if before != producer && !came_from.contains_key(&before) {
                came_from.insert(before, index);
                stack.push(before);
            }
            found |= before == reader;
        }
    }
    if !found {
        return None;
    }
    // `came_from` leads from the reader to the producer, each node to one that needs it.
    let mut nodes = vec![reader];
    let mut index = reader;
    while index != producer {
        index = *came_from.get(&index)?;
        nodes.push(index);
    }
    nodes.push(reader);
    let mut names: Vec<String> = Vec::new();
    for (position, &index) in nodes.iter().enumerate() {
        // The ends of a long way say enough.
        if nodes.len() > 12 && (6..nodes.len() - 5).contains(&position) {
            if position == 6 {
                names.push("...".to_string());
            }
            continue;
        }
        names.push(frame.node(trail, index));
    }
    Some(names.join(" -> "))
}
