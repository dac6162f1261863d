//! Values of every kind that an edge of a graph can carry.

use crate::encoded::EncodedValue;
use crate::sequence::{MAX_ELEMENTS, RuntimeSequence};
use crate::string_tensor::StringTensor;
use crate::struct_value::StructValue;
use crate::{Provenance, Tensor, TensorError};
use thiserror::Error;

mod deep_copy;
#[cfg(test)]
mod tests;

/// How deep structs and sequences may nest. Compound values know their depth, so that walking one by recursion is safe.
pub const MAX_DEPTH: usize = 64;

/// Why a value cannot be made.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Structs and sequences nest too deep.
    #[error("a value nested {got} deep: expected at most {MAX_DEPTH}")]
    Depth {
        /// How deep it would be.
        got: usize,
    },
    /// Two fields of one struct have one name.
    #[error("field `{name}` stands twice")]
    DuplicateField {
        /// The name.
        name: String,
    },
    /// An element that a sequence does not have.
    #[error("element {index} of a sequence of {len}")]
    Index {
        /// Position asked for.
        index: usize,
        /// Length of the sequence.
        len: usize,
    },
    /// More elements than a sequence can have.
    #[error("a sequence of more than {MAX_ELEMENTS} elements")]
    Length,
    /// A tensor of STRING where a value is to be kept.
    #[error("String tensors cannot be persistent")]
    Strings,
    /// Memory or layout.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// A value: a tensor, named fields, a sequence, or a tensor in an encoded form. Cloning shares every payload.
///
/// ```
/// use refeed_values::{RuntimeSequence, RuntimeValue, StructValue, Tensor};
/// let page = RuntimeValue::from(Tensor::from_slice(&[2], &[1f32, 2.0]).unwrap());
/// let pages = RuntimeSequence::from_values([page.clone(), page]).unwrap();
/// let cache = StructValue::new([("blocks", RuntimeValue::from(pages))]).unwrap();
/// assert_eq!(RuntimeValue::from(cache).depth(), 2);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RuntimeValue {
    /// A dense tensor.
    Tensor(Tensor),
    /// Named fields.
    Struct(StructValue),
    /// Values in an order.
    Sequence(RuntimeSequence),
    /// A tensor or a structure in a quantised or packed form.
    Encoded(EncodedValue),
    /// A tensor of STRING. States do not keep them.
    Strings(StringTensor),
}

impl RuntimeValue {
    /// The kind, in words: `"a tensor"`, `"a structured value"`, `"a sequence"`, `"an encoded value"`, `"a tensor of texts"`.
    pub fn kind(&self) -> &'static str {
        match self {
            RuntimeValue::Tensor(_) => "a tensor",
            RuntimeValue::Struct(_) => "a structured value",
            RuntimeValue::Sequence(_) => "a sequence",
            RuntimeValue::Encoded(_) => "an encoded value",
            RuntimeValue::Strings(_) => "a tensor of texts",
        }
    }

    /// The tensor, when it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            RuntimeValue::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The named fields, when it is a struct.
    pub fn fields(&self) -> Option<&StructValue> {
        match self {
            RuntimeValue::Struct(fields) => Some(fields),
            _ => None,
        }
    }

    /// The elements, when it is a sequence.
    pub fn elements(&self) -> Option<&RuntimeSequence> {
        match self {
            RuntimeValue::Sequence(elements) => Some(elements),
            _ => None,
        }
    }

    /// The encoded form, when it has one.
    pub fn encoded(&self) -> Option<&EncodedValue> {
        match self {
            RuntimeValue::Encoded(encoded) => Some(encoded),
            _ => None,
        }
    }

    /// Whether two values of one kind are clones of each other; no two dense tensors are.
    pub fn same(&self, other: &RuntimeValue) -> bool {
        match (self, other) {
            (RuntimeValue::Struct(a), RuntimeValue::Struct(b)) => a.same(b),
            (RuntimeValue::Sequence(a), RuntimeValue::Sequence(b)) => a.same(b),
            (RuntimeValue::Encoded(a), RuntimeValue::Encoded(b)) => a.same(b),
            (RuntimeValue::Strings(a), RuntimeValue::Strings(b)) => a.same(b),
            _ => false,
        }
    }

    /// How deep structs and sequences nest: 0 for other values.
    pub fn depth(&self) -> usize {
        match self {
            RuntimeValue::Tensor(_) | RuntimeValue::Encoded(_) | RuntimeValue::Strings(_) => 0,
            RuntimeValue::Struct(fields) => fields.depth(),
            RuntimeValue::Sequence(elements) => elements.depth(),
        }
    }

    /// Bytes of the visible elements of every tensor and payload in it; a payload that stands twice counts twice.
    pub fn bytes(&self) -> usize {
        match self {
            RuntimeValue::Tensor(tensor) => tensor.bytes(),
            RuntimeValue::Encoded(encoded) => encoded.payload().bytes(),
            RuntimeValue::Strings(strings) => strings.bytes(),
            RuntimeValue::Struct(fields) => fields.bytes(),
            RuntimeValue::Sequence(elements) => elements.bytes(),
        }
    }

    /// Whether a dense tensor in it lies in memory that its owner may write to after the call
    /// ([`Provenance::Foreign`]). O(1): compound values know. Encoded payloads do not count: they come from messages,
    /// whose bytes never change.
    pub fn holds_foreign(&self) -> bool {
        match self {
            RuntimeValue::Tensor(tensor) => tensor.provenance() == Provenance::Foreign,
            RuntimeValue::Encoded(_) | RuntimeValue::Strings(_) => false,
            RuntimeValue::Struct(fields) => fields.holds_foreign(),
            RuntimeValue::Sequence(elements) => elements.holds_foreign(),
        }
    }

    /// Whether a tensor of STRING is in it. O(1).
    pub fn holds_strings(&self) -> bool {
        match self {
            RuntimeValue::Tensor(_) | RuntimeValue::Encoded(_) => false,
            RuntimeValue::Strings(_) => true,
            RuntimeValue::Struct(fields) => fields.holds_strings(),
            RuntimeValue::Sequence(elements) => elements.holds_strings(),
        }
    }

    /// The value with the dense tensors replaced that lie in memory which its owner may write to. Everything else is
    /// shared, and parts without such a tensor are not looked at: in a sequence the cost is that of the replaced elements
    /// and O(log n) for each.
    ///
    /// # Errors
    /// What `replace` fails with.
    pub fn replace_foreign(
        &self,
        replace: &mut dyn FnMut(&Tensor) -> Result<Tensor, TensorError>,
    ) -> Result<RuntimeValue, ValueError> {
        if !self.holds_foreign() {
            return Ok(self.clone());
        }
        Ok(match self {
            RuntimeValue::Tensor(tensor) => replace(tensor)?.into(),
            RuntimeValue::Encoded(_) | RuntimeValue::Strings(_) => self.clone(),
            RuntimeValue::Struct(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| {
                    let value = value.replace_foreign(replace)?;
                    Ok((name.clone(), value))
                });
                let fields: Vec<_> = fields.collect::<Result<_, ValueError>>()?;
                StructValue::new(fields)?.into()
            }
            RuntimeValue::Sequence(elements) => elements.replace_foreign(replace)?.into(),
        })
    }

    /// The value as one who keeps it holds it: nothing is copied, and memory that was lent counts as
    /// [`Provenance::Kept`] from now on, under the promise that who lent it does not write to it.
    ///
    /// Values own their memory through counted handles, so there is nothing to be promoted: reading a value never moves
    /// or copies a payload, before and after.
    ///
    /// ```
    /// use refeed_values::{RuntimeValue, Tensor};
    /// let tensor = Tensor::from_slice(&[2], &[1f32, 2.0])?;
    /// let address = tensor.as_ptr();
    /// let kept = RuntimeValue::from(tensor).retain_storage()?;
    /// let view = kept.borrow_view();
    /// assert_eq!(kept.tensor().map(Tensor::as_ptr), Some(address));
    /// assert_eq!(view.tensor().map(Tensor::as_ptr), Some(address));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When a tensor of STRING is in it.
    pub fn retain_storage(self) -> Result<RuntimeValue, ValueError> {
        if self.holds_strings() {
            return Err(ValueError::Strings);
        }
        if !self.holds_foreign() {
            return Ok(self);
        }
        self.replace_foreign(&mut |tensor| Ok(tensor.kept()))
    }

    /// Another handle to the value: every payload is shared. The same as a clone, where it matters that nothing is copied.
    #[must_use]
    pub fn borrow_view(&self) -> RuntimeValue {
        self.clone()
    }
}

impl From<Tensor> for RuntimeValue {
    fn from(tensor: Tensor) -> RuntimeValue {
        RuntimeValue::Tensor(tensor)
    }
}

impl From<StructValue> for RuntimeValue {
    fn from(fields: StructValue) -> RuntimeValue {
        RuntimeValue::Struct(fields)
    }
}

impl From<RuntimeSequence> for RuntimeValue {
    fn from(elements: RuntimeSequence) -> RuntimeValue {
        RuntimeValue::Sequence(elements)
    }
}

impl From<EncodedValue> for RuntimeValue {
    fn from(encoded: EncodedValue) -> RuntimeValue {
        RuntimeValue::Encoded(encoded)
    }
}

impl From<StringTensor> for RuntimeValue {
    fn from(strings: StringTensor) -> RuntimeValue {
        RuntimeValue::Strings(strings)
    }
}
