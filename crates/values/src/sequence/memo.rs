//! What was found out about the nodes of sequences, kept by node.

use super::groups::GROUP;
use super::node::{Node, WeakNode};
use crate::runtime_value::RuntimeValue;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Addresses of nodes as keys: they are spread by one multiplication, since no one can choose them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // The golden ratio: neighbours end far apart, in the high bits as well as after the turn in the low ones.
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed.rotate_left(32);
    }
}

/// Results of [`RuntimeSequence::fold`](super::RuntimeSequence::fold) by node.
///
/// Entries hold nodes weakly: values go when the last sequence with them goes, whether or not a memo knows them. An
/// entry counts only while its node lives, and a node's address is not given to another one before the entry is gone.
/// The table keeps at most 128 entries or four an element of the sequence folded last: entries of dead nodes go first,
/// and if that is not enough, all.
pub struct SequenceMemo<T> {
    known: HashMap<usize, (WeakNode, T), BuildHasherDefault<AddressHasher>>,
    limit: usize,
}

const LEAST: usize = 128;
const PER_ELEMENT: usize = 4;

impl<T> Default for SequenceMemo<T> {
    fn default() -> SequenceMemo<T> {
        SequenceMemo {
            known: HashMap::default(),
            limit: LEAST,
        }
    }
}

impl<T> std::fmt::Debug for SequenceMemo<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SequenceMemo")
            .field("entries", &self.known.len())
            .finish_non_exhaustive()
    }
}

impl<T> SequenceMemo<T> {
    /// Number of entries, those of dead nodes included.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn get(&self, node: &Node) -> Option<&T> {
        let (held, result) = self.known.get(&node.address())?;
        held.lives().then_some(result)
    }

    /// Sets the bound for a sequence of this size, and makes room under it; `entries` are those of a sequence that is new as
    /// a whole.
    pub(super) fn bound(&mut self, size: usize, entries: usize) {
        self.limit = size.saturating_mul(PER_ELEMENT).max(LEAST);
        self.make_room();
        // A table that grows to all of them step by step moves every entry again and again. Without the memory for it, it
        // grows as it can.
        if self.known.is_empty() {
            let _ = self.known.try_reserve(entries);
        }
    }

    fn make_room(&mut self) {
        if self.known.len() < self.limit {
            return;
        }
        self.known.retain(|_, (node, _)| node.lives());
        if self.known.len() >= self.limit {
            self.known.clear();
        }
        self.known.shrink_to(self.limit);
    }

    fn keep(&mut self, node: &Node, result: T) {
        self.make_room();
        let entry = (node.downgrade(), result);
        self.known.insert(node.address(), entry);
    }
}

impl<T: Clone> SequenceMemo<T> {
    pub(super) fn fold<'s, E>(
        &mut self,
        node: &'s Node,
        start: usize,
        leaf: &mut impl FnMut(usize, &'s RuntimeValue) -> Result<T, E>,
        join: &mut impl FnMut(&T, &T) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(result) = self.get(node) {
            return Ok(result.clone());
        }
        let result = match node {
            Node::Leaf(held) => leaf(start, &held.value)?,
            Node::Inner(inner) => {
                let front = self.fold(&inner.front, start, leaf, join)?;
                let start = start + inner.front.size();
                let back = self.fold(&inner.back, start, leaf, join)?;
                join(&front, &back)?
            }
        };
        self.keep(node, result.clone());
        Ok(result)
    }
}

impl SequenceMemo<()> {
    /// Makes all elements known; gives the number of those that were not. Parts of a group or less have no entry of their
    /// own, as their elements have: that halves the table.
    pub(super) fn meet(&mut self, node: &Node) -> usize {
        match node {
            Node::Inner(inner) if node.size() <= GROUP => {
                self.meet(&inner.front) + self.meet(&inner.back)
            }
            _ if self.get(node).is_some() => 0,
            Node::Inner(inner) => {
                let new = self.meet(&inner.front) + self.meet(&inner.back);
                self.keep(node, ());
                new
            }
            Node::Leaf(_) => {
                self.keep(node, ());
                1
            }
        }
    }
}
