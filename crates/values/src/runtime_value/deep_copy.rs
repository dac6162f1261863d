//! Copies that share no payload.

use super::{RuntimeValue, ValueError};
use crate::{Allocator, RuntimeSequence, StructValue};

impl RuntimeValue {
    /// A copy that shares no payload with this value: every tensor and every encoded payload lies in new, dense memory.
    /// What never changes and is no payload of the value stays shared: struct types, the message that an encoded value was
    /// read from, and its set of shared parameters.
    ///
    /// O(bytes of the value); an element that stands in a value several times is copied each time.
    ///
    /// ```
    /// use refeed_values::{Allocator, RuntimeValue, Tensor};
    /// let tensor = Tensor::from_slice(&[2], &[1f32, 2.0])?;
    /// let copy = RuntimeValue::from(tensor.clone()).deep_copy(&Allocator::default())?;
    /// let copied = copy.tensor().ok_or("a tensor")?;
    /// assert_eq!(copied.view::<f32>()?.to_vec(), [1.0, 2.0]);
    /// assert_ne!(copied.as_ptr(), tensor.as_ptr());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn deep_copy(&self, allocator: &Allocator) -> Result<RuntimeValue, ValueError> {
        // A value nests at most `MAX_DEPTH` deep, so this may recurse.
        Ok(match self {
            RuntimeValue::Tensor(tensor) => tensor.to_dense(allocator)?.into(),
            RuntimeValue::Encoded(encoded) => encoded.deep_copy(allocator)?.into(),
            RuntimeValue::Strings(strings) => strings.deep_copy().into(),
            RuntimeValue::Struct(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| {
                    let value = value.deep_copy(allocator)?;
                    Ok((name.clone(), value))
                });
                let fields: Vec<_> = fields.collect::<Result<_, ValueError>>()?;
                StructValue::new(fields)?.into()
            }
            RuntimeValue::Sequence(elements) => {
                let elements = elements.iter().map(|element| element.deep_copy(allocator));
                let elements: Vec<_> = elements.collect::<Result<_, ValueError>>()?;
                RuntimeSequence::from_values(elements)?.into()
            }
        })
    }
}
