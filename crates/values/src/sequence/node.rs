//! The nodes of a sequence's tree.

use crate::paged_cache::Pages;
use crate::runtime_value::RuntimeValue;
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A tree of at least one element. Its height is at most 1.44 times the logarithm of its size, so dropping one, and
/// every walk over one, recurses little.
#[derive(Clone)]
pub(super) enum Node {
    Leaf(Arc<Leaf>),
    Inner(Arc<Inner>),
}

/// An element, and what is known of it: who joins it to others need not look at it again.
pub(super) struct Leaf {
    pub(super) value: RuntimeValue,
    known: Known,
}

/// What is known of elements without a look at them.
#[derive(Clone, Copy)]
struct Known {
    /// Depth of the deepest.
    depth: usize,
    bytes: usize,
    foreign: bool,
    strings: bool,
    /// What they are as pages of a cache.
    pages: Pages,
}

impl Known {
    fn of(value: &RuntimeValue) -> Known {
        Known {
            depth: value.depth(),
            bytes: value.bytes(),
            foreign: value.holds_foreign(),
            strings: value.holds_strings(),
            pages: Pages::of(value),
        }
    }

    fn join(&self, next: &Known) -> Known {
        Known {
            depth: self.depth.max(next.depth),
            bytes: self.bytes.saturating_add(next.bytes),
            foreign: self.foreign || next.foreign,
            strings: self.strings || next.strings,
            pages: self.pages.join(&next.pages),
        }
    }
}

/// What a reader made of elements.
pub(super) type Prepared = Arc<dyn Any + Send + Sync>;

/// Two parts, and what is known of both together.
// In this order, since a walk over many nodes reads the first four of each, and one of two lines of memory less.
#[repr(C)]
pub(super) struct Inner {
    pub(super) front: Node,
    pub(super) back: Node,
    size: usize,
    /// What a reader made of the elements, kept for as long as the node lives.
    pub(super) prepared: OnceLock<Prepared>,
    height: usize,
    known: Known,
    /// What a reader made of the first elements when they were a node of their own, with their number; until it made
    /// something of all. It is about no element that this node does not have.
    begun: Mutex<Option<(Prepared, usize)>>,
}

impl Inner {
    /// Takes what was made of the first elements, and how many these are.
    pub(super) fn take_begun(&self) -> Option<(Prepared, usize)> {
        // Either there or not, whatever panicked.
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.take()
    }

    /// What was made of all elements, or of the first ones.
    fn made(&self) -> Option<(Prepared, usize)> {
        if let Some(prepared) = self.prepared.get() {
            return Some((prepared.clone(), self.size));
        }
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.clone()
    }
}

impl Node {
    pub(super) fn leaf(value: RuntimeValue) -> Node {
        let known = Known::of(&value);
        Node::Leaf(Arc::new(Leaf { value, known }))
    }

    /// Joins two parts whose heights differ by at most one.
    pub(super) fn inner(front: Node, back: Node) -> Node {
        Node::Inner(Arc::new(Inner {
            size: front.size() + back.size(),
            height: front.height().max(back.height()) + 1,
            known: front.known().join(back.known()),
            prepared: OnceLock::new(),
            begun: Mutex::new(None),
            front,
            back,
        }))
    }

    /// This node, which was made just now, begins with the elements of an earlier one.
    pub(super) fn begins_with(mut self, earlier: &Inner) -> Node {
        if let Node::Inner(inner) = &mut self
            && let Some(inner) = Arc::get_mut(inner)
        {
            inner.begun = Mutex::new(earlier.made());
        }
        self
    }

    /// A tree of the least height over leaves, in O(n).
    pub(super) fn balanced(leaves: Vec<Node>) -> Option<Node> {
        let (count, mut leaves) = (leaves.len(), leaves.into_iter());
        Node::build(count, &mut leaves)
    }

    /// A tree over the next `count` leaves, halved at each level.
    fn build(count: usize, leaves: &mut impl Iterator<Item = Node>) -> Option<Node> {
        if count <= 1 {
            return if count == 1 { leaves.next() } else { None };
        }
        let front = Node::build(count.div_ceil(2), leaves)?;
        let back = Node::build(count / 2, leaves)?;
        Some(Node::inner(front, back))
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Node::Leaf(_) => 1,
            Node::Inner(inner) => inner.size,
        }
    }

    pub(super) fn height(&self) -> usize {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner(inner) => inner.height,
        }
    }

    fn known(&self) -> &Known {
        match self {
            Node::Leaf(leaf) => &leaf.known,
            Node::Inner(inner) => &inner.known,
        }
    }

    /// Depth of the deepest element.
    pub(super) fn depth(&self) -> usize {
        self.known().depth
    }

    pub(super) fn bytes(&self) -> usize {
        self.known().bytes
    }

    pub(super) fn holds_foreign(&self) -> bool {
        self.known().foreign
    }

    pub(super) fn holds_strings(&self) -> bool {
        self.known().strings
    }

    /// What the elements are as pages of a cache.
    pub(super) fn pages(&self) -> Pages {
        self.known().pages
    }

    pub(super) fn get(&self, mut index: usize) -> Option<&RuntimeValue> {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return (index == 0).then_some(&leaf.value),
                Node::Inner(inner) => {
                    let front = inner.front.size();
                    if index < front {
                        node = &inner.front;
                    } else {
                        index -= front;
                        node = &inner.back;
                    }
                }
            }
        }
    }

    /// The first element that is `wanted`, with its position. Descends only into parts that are wanted too.
    pub(super) fn locate(&self, wanted: impl Fn(&Node) -> bool) -> Option<(usize, &RuntimeValue)> {
        let (mut node, mut start) = (self, 0);
        if !wanted(node) {
            return None;
        }
        loop {
            match node {
                Node::Leaf(leaf) => return Some((start, &leaf.value)),
                Node::Inner(inner) if wanted(&inner.front) => {
                    node = &inner.front;
                }
                Node::Inner(inner) if wanted(&inner.back) => {
                    start += inner.front.size();
                    node = &inner.back;
                }
                Node::Inner(_) => return None,
            }
        }
    }

    /// Which node this is, among those that live.
    pub(super) fn address(&self) -> usize {
        match self {
            Node::Leaf(leaf) => Arc::as_ptr(leaf).addr(),
            Node::Inner(inner) => Arc::as_ptr(inner).addr(),
        }
    }

    pub(super) fn downgrade(&self) -> WeakNode {
        match self {
            Node::Leaf(leaf) => WeakNode::Leaf(Arc::downgrade(leaf)),
            Node::Inner(inner) => WeakNode::Inner(Arc::downgrade(inner)),
        }
    }
}

/// A node that somebody else keeps, or nobody any more.
pub(super) enum WeakNode {
    Leaf(Weak<Leaf>),
    Inner(Weak<Inner>),
}

impl WeakNode {
    pub(super) fn lives(&self) -> bool {
        match self {
            WeakNode::Leaf(leaf) => leaf.strong_count() > 0,
            WeakNode::Inner(inner) => inner.strong_count() > 0,
        }
    }
}

/// Elements of a sequence, in order. Keeps the path to the next one, not the recursion.
#[derive(Clone)]
pub struct Iter<'s> {
    /// Parts that are still to come, the next one last.
    parts: Vec<&'s Node>,
    left: usize,
}

impl std::fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("left", &self.left).finish()
    }
}

impl<'s> Iter<'s> {
    pub(super) fn new(root: Option<&'s Node>) -> Iter<'s> {
        let mut parts = Vec::with_capacity(root.map_or(0, |root| root.height() + 1));
        parts.extend(root);
        Iter {
            parts,
            left: root.map_or(0, Node::size),
        }
    }

    /// Passes by the next `count` elements, whole parts at once.
    pub(super) fn pass(&mut self, mut count: usize) {
        while count > 0
            && let Some(node) = self.parts.pop()
        {
            let size = node.size();
            if size <= count {
                count -= size;
                self.left -= size;
            } else if let Node::Inner(inner) = node {
                self.parts.push(&inner.back);
                self.parts.push(&inner.front);
            }
        }
    }
}

impl<'s> Iterator for Iter<'s> {
    type Item = &'s RuntimeValue;

    fn next(&mut self) -> Option<&'s RuntimeValue> {
        let mut node = self.parts.pop()?;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.left -= 1;
                    return Some(&leaf.value);
                }
                Node::Inner(inner) => {
                    self.parts.push(&inner.back);
                    node = &inner.front;
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl std::iter::FusedIterator for Iter<'_> {}
