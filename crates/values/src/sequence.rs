//! Sequences of values.

use crate::runtime_value::{MAX_DEPTH, RuntimeValue, ValueError};
use std::sync::Arc;

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
#[derive(Debug, Clone, Default)]
pub struct RuntimeSequence {
    elements: Arc<Vec<RuntimeValue>>,
    depth: usize,
}

impl RuntimeSequence {
    /// Collects values.
    ///
    /// # Errors
    /// When the result nests too deep.
    pub fn from_values(
        values: impl IntoIterator<Item = RuntimeValue>,
    ) -> Result<RuntimeSequence, ValueError> {
        let mut sequence = RuntimeSequence::default();
        for value in values {
            sequence.push(value)?;
        }
        Ok(sequence)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// An element.
    pub fn get(&self, index: usize) -> Option<&RuntimeValue> {
        self.elements.get(index)
    }

    /// Adds an element at the end. Earlier clones keep their length.
    ///
    /// # Errors
    /// When the result nests too deep.
    pub fn push(&mut self, value: RuntimeValue) -> Result<(), ValueError> {
        self.deepen(&value)?;
        Arc::make_mut(&mut self.elements).push(value);
        Ok(())
    }

    /// Replaces an element. Earlier clones keep theirs.
    ///
    /// # Errors
    /// When there is no such element or the result nests too deep.
    pub fn set(&mut self, index: usize, value: RuntimeValue) -> Result<(), ValueError> {
        let len = self.len();
        if index >= len {
            return Err(ValueError::Index { index, len });
        }
        self.deepen(&value)?;
        Arc::make_mut(&mut self.elements)[index] = value;
        Ok(())
    }

    /// The elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = &RuntimeValue> {
        self.elements.iter()
    }

    /// How deep structs and sequences nest in it, itself included.
    pub fn depth(&self) -> usize {
        self.depth.max(1)
    }

    fn deepen(&mut self, value: &RuntimeValue) -> Result<(), ValueError> {
        let got = value.depth() + 1;
        if got > MAX_DEPTH {
            return Err(ValueError::Depth { got });
        }
        self.depth = self.depth.max(got);
        Ok(())
    }
}
