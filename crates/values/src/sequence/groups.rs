//! What readers make of the elements of a sequence, kept beside them.

use super::RuntimeSequence;
use super::node::{Inner, Iter, Node, Prepared};
use std::sync::Arc;

/// Most elements of a group.
pub const GROUP: usize = 16;
/// Most elements of a part that keeps a list of its groups.
const LISTED: usize = GROUP * GROUP;

/// The groups of a part that no push goes to any more: who wants all of them need not look for each.
struct Listed<T>(Vec<Arc<T>>);

impl RuntimeSequence {
    /// The elements in groups of at most [`GROUP`], from the group that holds element `from` on, each as `prepare` made it of
    /// its elements, of which the first is told with its position. A group is a part of the tree; what was made of it stays
    /// with it, shared by all sequences that have the part, and goes with the last of them. So the elements of a group are
    /// prepared once, and after a push only those of the group that it went to. Positions are those at that time: what is
    /// made must not depend on them but in errors.
    ///
    /// Where a group grew at its end, `prepare` is also told what it made of the elements that were there before, and the
    /// iterator goes on behind them; the position is that of the group's first element all the same. When nobody else has
    /// the sequence of before any more, it has what it made for itself.
    ///
    /// One type of results is kept; another type is made anew each time.
    ///
    /// ```
    /// use refeed_values::{RuntimeSequence, Tensor};
    /// use std::sync::Arc;
    /// let mut rows = RuntimeSequence::default();
    /// let (mut looked, mut total) = (0, 0.0);
    /// for n in 0..100 {
    ///     rows.push(Tensor::scalar(n as f32)?.into())?;
    ///     let groups = rows.groups(0, &mut |_, begun: Option<Arc<Vec<f32>>>, elements| {
    ///         let mut numbers = begun.map(Arc::unwrap_or_clone).unwrap_or_default();
    ///         let elements = elements.inspect(|_| looked += 1);
    ///         numbers.extend(elements.filter_map(|row| row.tensor()?.view::<f32>().ok()?.get(&[])));
    ///         Ok::<_, ()>(numbers)
    ///     });
    ///     total = groups.iter().flatten().map(|group| group.iter().sum::<f32>()).sum();
    /// }
    /// assert_eq!(total, 4950.0);
    /// assert!(looked <= 100 * 4);
    /// # Ok::<(), refeed_values::ValueError>(())
    /// ```
    ///
    /// # Errors
    /// What `prepare` fails with; nothing is kept of that group.
    pub fn groups<'s, T: Send + Sync + 'static, E>(
        &'s self,
        from: usize,
        prepare: &mut impl FnMut(usize, Option<Arc<T>>, Iter<'s>) -> Result<T, E>,
    ) -> Result<Vec<Arc<T>>, E> {
        let left = self.len().saturating_sub(from);
        // A group is at least a quarter full, but for one at each end.
        let mut found = Vec::with_capacity(4 * left / GROUP + 2);
        if let Some(root) = &self.root
            && left > 0
        {
            walk(root, true, 0, from, prepare, &mut found)?;
        }
        Ok(found)
    }
}

fn walk<'s, T: Send + Sync + 'static, E>(
    node: &'s Node,
    last: bool,
    start: usize,
    from: usize,
    prepare: &mut impl FnMut(usize, Option<Arc<T>>, Iter<'s>) -> Result<T, E>,
    found: &mut Vec<Arc<T>>,
) -> Result<(), E> {
    match node {
        Node::Inner(inner) if node.size() > GROUP => {
            let lists = !last && from <= start && node.size() <= LISTED;
            if lists
                && let Some(held) = inner.prepared.get()
                && let Some(Listed(groups)) = held.downcast_ref::<Listed<T>>()
            {
                found.extend_from_slice(groups);
                return Ok(());
            }
            let (before, middle) = (found.len(), start + inner.front.size());
            if from < middle {
                walk(&inner.front, false, start, from, prepare, found)?;
            }
            walk(&inner.back, last, middle, from, prepare, found)?;
            if lists && let Some(groups) = found.get(before..) {
                // Another type of results may have been first.
                let _ = inner.prepared.set(Arc::new(Listed(groups.to_vec())));
            }
            Ok(())
        }
        Node::Inner(inner) => {
            let make = || {
                let mut elements = Iter::new(Some(node));
                let begun = inner.take_begun().and_then(|(made, count)| {
                    let made = made.downcast::<T>().ok()?;
                    elements.pass(count);
                    Some(made)
                });
                prepare(start, begun, elements)
            };
            found.push(kept(inner, make)?);
            Ok(())
        }
        Node::Leaf(_) => {
            found.push(Arc::new(prepare(start, None, Iter::new(Some(node)))?));
            Ok(())
        }
    }
}

/// What was made of a node before, or is made now.
fn kept<T: Send + Sync + 'static, E>(
    inner: &Inner,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<Arc<T>, E> {
    if let Some(held) = inner.prepared.get()
        && let Ok(held) = held.clone().downcast::<T>()
    {
        return Ok(held);
    }
    let made = Arc::new(make()?);
    // Of two that make it at once, both have theirs and one is kept.
    let _ = inner.prepared.set(made.clone() as Prepared);
    Ok(made)
}
