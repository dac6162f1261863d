//! Edits of trees: each makes one new path and shares the rest.
//!
//! The balance is that of AVL trees with the values at the leaves: the heights of two sides differ by at most one.
//! Every edit recurses at most as deep as the tree is high.

use super::groups::GROUP;
use super::node::{Inner, Node};
use crate::runtime_value::RuntimeValue;

/// Joins two parts whose heights differ by at most two, turning the higher one where they differ by two.
fn balance(front: Node, back: Node) -> Node {
    let (high, low) = (front.height(), back.height());
    if high > low + 1
        && let Node::Inner(inner) = &front
    {
        return lean_front(inner, back);
    }
    if low > high + 1
        && let Node::Inner(inner) = &back
    {
        return lean_back(front, inner);
    }
    Node::inner(front, back)
}

/// `front` is two higher than `back`.
fn lean_front(front: &Inner, back: Node) -> Node {
    let (outer, middle) = (front.front.clone(), front.back.clone());
    match &middle {
        Node::Inner(split) if middle.height() > outer.height() => Node::inner(
            Node::inner(outer, split.front.clone()),
            Node::inner(split.back.clone(), back),
        ),
        _ => Node::inner(outer, Node::inner(middle, back)),
    }
}

/// `back` is two higher than `front`.
fn lean_back(front: Node, back: &Inner) -> Node {
    let (middle, outer) = (back.front.clone(), back.back.clone());
    match &middle {
        Node::Inner(split) if middle.height() > outer.height() => Node::inner(
            Node::inner(front, split.front.clone()),
            Node::inner(split.back.clone(), outer),
        ),
        _ => Node::inner(Node::inner(front, middle), outer),
    }
}

/// Joins two parts of any heights; costs the difference of the heights.
pub(super) fn join(front: &Node, back: &Node) -> Node {
    let (high, low) = (front.height(), back.height());
    match (front, back) {
        (Node::Inner(inner), _) if high > low + 1 => {
            balance(inner.front.clone(), join(&inner.back, back))
        }
        (_, Node::Inner(inner)) if low > high + 1 => {
            balance(join(front, &inner.front), inner.back.clone())
        }
        _ => Node::inner(front.clone(), back.clone()),
    }
}

/// Puts a leaf in front of the element at `index`, or at the end.
pub(super) fn insert(node: &Node, index: usize, leaf: Node) -> Node {
    match node {
        Node::Leaf(_) if index == 0 => Node::inner(leaf, node.clone()),
        Node::Leaf(_) => Node::inner(node.clone(), leaf),
        Node::Inner(inner) => {
            let front = inner.front.size();
            if index < front {
                balance(insert(&inner.front, index, leaf), inner.back.clone())
            } else {
                let back = insert(&inner.back, index - front, leaf);
                let made = balance(inner.front.clone(), back);
                match index == node.size() && index < GROUP {
                    true => made.begins_with(inner),
                    false => made,
                }
            }
        }
    }
}

/// The tree without the element at `index`; nothing when it was the only one.
pub(super) fn remove(node: &Node, index: usize) -> Option<Node> {
    let Node::Inner(inner) = node else {
        return None;
    };
    let front = inner.front.size();
    Some(if index < front {
        match remove(&inner.front, index) {
            Some(rest) => balance(rest, inner.back.clone()),
            None => inner.back.clone(),
        }
    } else {
        match remove(&inner.back, index - front) {
            Some(rest) => balance(inner.front.clone(), rest),
            None => inner.front.clone(),
        }
    })
}

/// The first `count` elements; nothing when there is none.
pub(super) fn first(node: &Node, count: usize) -> Option<Node> {
    let inner = match node {
        _ if count == 0 => return None,
        Node::Inner(inner) if count < node.size() => inner,
        _ => return Some(node.clone()),
    };
    let front = inner.front.size();
    match count.checked_sub(front) {
        None => first(&inner.front, count),
        Some(more) => Some(match first(&inner.back, more) {
            Some(rest) => join(&inner.front, &rest),
            None => inner.front.clone(),
        }),
    }
}

/// The tree with another leaf at `index`, which it has.
pub(super) fn set(node: &Node, index: usize, leaf: Node) -> Node {
    let Node::Inner(inner) = node else {
        return leaf;
    };
    let front = inner.front.size();
    if index < front {
        Node::inner(set(&inner.front, index, leaf), inner.back.clone())
    } else {
        Node::inner(inner.front.clone(), set(&inner.back, index - front, leaf))
    }
}

/// The tree with some leaves replaced; nothing when it stays as it is. `start` is the position of its first element.
pub(super) fn transform<E>(
    node: &Node,
    start: usize,
    skip: &impl Fn(&Node) -> bool,
    replace: &mut impl FnMut(usize, &RuntimeValue) -> Result<Option<Node>, E>,
) -> Result<Option<Node>, E> {
    if skip(node) {
        return Ok(None);
    }
    match node {
        Node::Leaf(leaf) => replace(start, &leaf.value),
        Node::Inner(inner) => {
            let front = transform(&inner.front, start, skip, replace)?;
            let start = start + inner.front.size();
            let back = transform(&inner.back, start, skip, replace)?;
            Ok(match (front, back) {
                (None, None) => None,
                (front, back) => Some(Node::inner(
                    front.unwrap_or_else(|| inner.front.clone()),
                    back.unwrap_or_else(|| inner.back.clone()),
                )),
            })
        }
    }
}
