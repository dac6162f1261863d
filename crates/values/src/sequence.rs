//! Sequences of values: persistent height-balanced trees.
//!
//! A sequence is a tree of immutable nodes: a leaf holds one value, an inner node the size, the height and the depth of
//! what is below it. The heights of an inner node's two sides differ by at most one. Pushing, replacing, inserting and
//! removing an element make new nodes along one path, O(log n) of them, and share all others with the sequence that was
//! there before, so earlier clones stay as they are and cost nothing.
//!
//! Because nodes never change, what was once found out about one holds for as long as it lives: [`RuntimeSequence::fold`]
//! keeps such results in a [`SequenceMemo`], and so looks at new nodes only.

mod edit;
mod groups;
mod memo;
mod node;
#[cfg(test)]
mod tests;

pub use groups::GROUP;
pub use memo::SequenceMemo;
pub use node::Iter;

use crate::paged_cache::Pages;
use crate::runtime_value::{MAX_DEPTH, RuntimeValue, ValueError};
use crate::{Tensor, TensorError};
use node::Node;

/// Most elements of a sequence. It bounds the height of a tree, and so every recursion over one.
pub const MAX_ELEMENTS: usize = (1 << 31) - 1;

/// An immutable sequence of values. Cloning shares it.
///
/// ```
/// use refeed_values::{RuntimeSequence, Tensor};
/// let mut frames = RuntimeSequence::default();
/// frames.push(Tensor::scalar(1f32).unwrap().into()).unwrap();
/// let earlier = frames.clone();
/// frames.push(Tensor::scalar(2f32).unwrap().into()).unwrap();
/// assert_eq!((earlier.len(), frames.len()), (1, 2));
/// ```
#[derive(Clone, Default)]
pub struct RuntimeSequence {
    root: Option<Node>,
}

impl std::fmt::Debug for RuntimeSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl RuntimeSequence {
    /// Collects values in O(n).
    ///
    /// # Errors
    /// When the result nests too deep or has more than [`MAX_ELEMENTS`] elements.
    pub fn from_values(
        values: impl IntoIterator<Item = RuntimeValue>,
    ) -> Result<RuntimeSequence, ValueError> {
        let mut leaves = Vec::new();
        for value in values {
            if leaves.len() == MAX_ELEMENTS {
                return Err(ValueError::Length);
            }
            leaves.push(leaf(value)?);
        }
        let root = Node::balanced(leaves);
        Ok(RuntimeSequence { root })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.root.as_ref().map_or(0, Node::size)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// An element.
    pub fn get(&self, index: usize) -> Option<&RuntimeValue> {
        self.root.as_ref()?.get(index)
    }

    /// An element that must be there.
    ///
    /// # Errors
    /// When there is no such element.
    pub fn at(&self, index: usize) -> Result<&RuntimeValue, ValueError> {
        let len = self.len();
        self.get(index).ok_or(ValueError::Index { index, len })
    }

    /// The first element.
    pub fn front(&self) -> Option<&RuntimeValue> {
        self.get(0)
    }

    /// The last element.
    pub fn back(&self) -> Option<&RuntimeValue> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Adds an element at the end, O(log n). Earlier clones keep their length.
    ///
    /// # Errors
    /// When the result nests too deep or grows too long.
    pub fn push(&mut self, value: RuntimeValue) -> Result<(), ValueError> {
        self.insert(self.len(), value)
    }

    /// Puts an element in front of the one at `index`, or at the end, O(log n). Earlier clones keep theirs.
    ///
    /// # Errors
    /// When `index` is beyond the end, or the result nests too deep or grows too long.
    pub fn insert(&mut self, index: usize, value: RuntimeValue) -> Result<(), ValueError> {
        let len = self.len();
        if index > len {
            return Err(ValueError::Index { index, len });
        }
        if len == MAX_ELEMENTS {
            return Err(ValueError::Length);
        }
        let leaf = leaf(value)?;
        self.root = Some(match &self.root {
            Some(root) => edit::insert(root, index, leaf),
            None => leaf,
        });
        Ok(())
    }

    /// Takes an element out, O(log n). Earlier clones keep theirs.
    ///
    /// # Errors
    /// When there is no such element.
    pub fn remove(&mut self, index: usize) -> Result<RuntimeValue, ValueError> {
        let removed = self.at(index)?.clone();
        self.root = self
            .root
            .as_ref()
            .and_then(|root| edit::remove(root, index));
        Ok(removed)
    }

    /// Takes all elements from `length` on out, O(log n). Earlier clones keep theirs. Nothing happens to a sequence that is
    /// not longer.
    ///
    /// ```
    /// use refeed_values::{RuntimeSequence, Tensor};
    /// let frames = (0..5).map(|n| Tensor::scalar(n as f32).map(Into::into));
    /// let mut frames = RuntimeSequence::from_values(frames.collect::<Result<Vec<_>, _>>()?)?;
    /// frames.truncate(3);
    /// assert_eq!(frames.len(), 3);
    /// # Ok::<(), refeed_values::ValueError>(())
    /// ```
    pub fn truncate(&mut self, length: usize) {
        self.root = self
            .root
            .as_ref()
            .and_then(|root| edit::first(root, length));
    }

    /// Replaces an element, O(log n). Earlier clones keep theirs.
    ///
    /// # Errors
    /// When there is no such element or the result nests too deep.
    pub fn set(&mut self, index: usize, value: RuntimeValue) -> Result<(), ValueError> {
        let len = self.len();
        match &self.root {
            Some(root) if index < len => self.root = Some(edit::set(root, index, leaf(value)?)),
            _ => return Err(ValueError::Index { index, len }),
        }
        Ok(())
    }

    /// The elements of both, those of `other` last: O(log n), sharing the nodes of both.
    ///
    /// # Errors
    /// When the result grows too long.
    pub fn concat(&self, other: &RuntimeSequence) -> Result<RuntimeSequence, ValueError> {
        let root = match (&self.root, &other.root) {
            (Some(front), Some(back)) => {
                if front.size() + back.size() > MAX_ELEMENTS {
                    return Err(ValueError::Length);
                }
                Some(edit::join(front, back))
            }
            (root, None) | (None, root) => root.clone(),
        };
        Ok(RuntimeSequence { root })
    }

    /// The elements, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self.root.as_ref())
    }

    /// The sequence with some elements replaced: `replace` is told each element and its position, and answers `None`
    /// to keep it. Parts without a replacement are shared.
    ///
    /// # Errors
    /// What `replace` fails with, or that the result nests too deep.
    pub fn transform<E: From<ValueError>>(
        &self,
        replace: impl FnMut(usize, &RuntimeValue) -> Result<Option<RuntimeValue>, E>,
    ) -> Result<RuntimeSequence, E> {
        self.transform_where(&SequenceMemo::<()>::default(), |()| true, replace)
    }

    /// As [`RuntimeSequence::transform`], looking only at parts for which the memo knows a result that is `wanted`, or
    /// knows none.
    ///
    /// # Errors
    /// As [`RuntimeSequence::transform`].
    pub fn transform_where<T, E: From<ValueError>>(
        &self,
        memo: &SequenceMemo<T>,
        wanted: impl Fn(&T) -> bool,
        mut replace: impl FnMut(usize, &RuntimeValue) -> Result<Option<RuntimeValue>, E>,
    ) -> Result<RuntimeSequence, E> {
        let Some(root) = &self.root else {
            return Ok(self.clone());
        };
        let mut replace = |index, value: &RuntimeValue| -> Result<Option<Node>, E> {
            let value = replace(index, value)?;
            Ok(value.map(leaf).transpose()?)
        };
        let skip = |node: &Node| memo.get(node).is_some_and(|known| !wanted(known));
        let root = match edit::transform(root, 0, &skip, &mut replace)? {
            Some(root) => root,
            None => root.clone(),
        };
        let root = Some(root);
        Ok(RuntimeSequence { root })
    }

    /// As [`RuntimeValue::replace_foreign`].
    pub(crate) fn replace_foreign(
        &self,
        replace: &mut dyn FnMut(&Tensor) -> Result<Tensor, TensorError>,
    ) -> Result<RuntimeSequence, ValueError> {
        let Some(root) = &self.root else {
            return Ok(self.clone());
        };
        let mut replace =
            |_, value: &RuntimeValue| value.replace_foreign(replace).map(leaf)?.map(Some);
        let replaced = edit::transform(root, 0, &|node| !node.holds_foreign(), &mut replace)?;
        let root = replaced.or_else(|| self.root.clone());
        Ok(RuntimeSequence { root })
    }

    /// Reduces the elements: `leaf` gives the result of one element, told with its position, `join` that of two
    /// neighbouring parts. Results of parts that the memo knows are taken from there, so the cost is that of the nodes
    /// that are new since the last fold with this memo: O(log n) after a push. `None` for an empty sequence.
    ///
    /// ```
    /// use refeed_values::{RuntimeSequence, RuntimeValue, SequenceMemo, Tensor};
    /// let rows = |n| RuntimeValue::from(Tensor::from_slice(&[n], &vec![0f32; n]).unwrap());
    /// let mut pages = RuntimeSequence::from_values([rows(2), rows(3)]).unwrap();
    /// let (mut memo, mut looked) = (SequenceMemo::default(), 0);
    /// let mut total = |pages: &RuntimeSequence| {
    ///     let mut rows = |_, page: &RuntimeValue| {
    ///         looked += 1;
    ///         Ok::<_, ()>(page.tensor().map_or(0, |page| page.shape()[0]))
    ///     };
    ///     pages.fold(&mut memo, &mut rows, &mut |front, back| Ok(front + back))
    /// };
    /// assert_eq!(total(&pages), Ok(Some(5)));
    /// pages.push(rows(4)).unwrap();
    /// assert_eq!(total(&pages), Ok(Some(9)));
    /// assert_eq!(looked, 3);
    /// ```
    ///
    /// # Errors
    /// What `leaf` or `join` fails with; the memo keeps what was found before.
    pub fn fold<'s, T: Clone, E>(
        &'s self,
        memo: &mut SequenceMemo<T>,
        leaf: &mut impl FnMut(usize, &'s RuntimeValue) -> Result<T, E>,
        join: &mut impl FnMut(&T, &T) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        // An inner node a leaf.
        memo.bound(self.len(), self.len().saturating_mul(2));
        let root = self.root.as_ref();
        root.map(|root| memo.fold(root, 0, leaf, join)).transpose()
    }

    /// The first element whose result in the memo is `wanted`, with its position. Descends only into parts whose result
    /// is wanted too, so `wanted` must hold for a part that has such an element; O(log n). Parts that the memo does not
    /// know are passed by.
    pub fn locate<T>(
        &self,
        memo: &SequenceMemo<T>,
        wanted: impl Fn(&T) -> bool,
    ) -> Option<(usize, &RuntimeValue)> {
        let known = |node: &Node| memo.get(node).is_some_and(&wanted);
        self.root.as_ref()?.locate(known)
    }

    /// Makes all elements known to the memo; gives the number of those that were not, each once. O(log n) after a push.
    pub(crate) fn meet(&self, memo: &mut SequenceMemo<()>) -> usize {
        // Groups are at least half full where a sequence was made as a whole.
        let parts = self.len() / (GROUP / 2);
        memo.bound(self.len(), self.len().saturating_add(parts));
        self.root.as_ref().map_or(0, |root| memo.meet(root))
    }

    /// The first element that is `wanted` as a page, with its position: O(log n). Descends only into parts that are wanted
    /// too.
    pub(crate) fn locate_pages(
        &self,
        wanted: impl Fn(&Pages) -> bool,
    ) -> Option<(usize, &RuntimeValue)> {
        self.root.as_ref()?.locate(|node| wanted(&node.pages()))
    }

    /// How deep structs and sequences nest in it, itself included.
    pub fn depth(&self) -> usize {
        self.root.as_ref().map_or(0, Node::depth) + 1
    }

    /// Bytes of the visible elements of every payload in it, as [`RuntimeValue::bytes`] counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.root.as_ref().map_or(0, Node::bytes)
    }

    /// Whether a dense tensor in it lies in memory that its owner may write to.
    pub(crate) fn holds_foreign(&self) -> bool {
        self.root.as_ref().is_some_and(Node::holds_foreign)
    }

    /// Whether a tensor of STRING is in it.
    pub(crate) fn holds_strings(&self) -> bool {
        self.root.as_ref().is_some_and(Node::holds_strings)
    }

    /// What the elements are as pages of a cache, all together. O(1): parts know. `None` for an empty sequence.
    pub(crate) fn pages(&self) -> Option<Pages> {
        self.root.as_ref().map(Node::pages)
    }

    /// Whether both are one sequence: clones of each other, or both empty.
    pub fn same(&self, other: &RuntimeSequence) -> bool {
        match (&self.root, &other.root) {
            (Some(a), Some(b)) => a.address() == b.address(),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

fn leaf(value: RuntimeValue) -> Result<Node, ValueError> {
    let got = value.depth() + 1;
    if got > MAX_DEPTH {
        return Err(ValueError::Depth { got });
    }
    Ok(Node::leaf(value))
}
