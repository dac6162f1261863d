//! Named fields: one value a name, in the order given.

use crate::runtime_value::{MAX_DEPTH, RuntimeValue, ValueError};
use std::sync::Arc;

#[derive(Debug)]
struct Fields {
    fields: Box<[(Arc<str>, RuntimeValue)]>,
    depth: usize,
    bytes: usize,
    foreign: bool,
    strings: bool,
}

/// An immutable structured value. Cloning shares the fields.
///
/// ```
/// use refeed_values::{StructValue, Tensor};
/// let state = StructValue::new([("gain", Tensor::scalar(2f32).unwrap().into())]).unwrap();
/// assert!(state.get("gain").is_some() && state.get("loss").is_none());
/// ```
#[derive(Debug, Clone)]
pub struct StructValue(Arc<Fields>);

impl StructValue {
    /// Joins names and values.
    ///
    /// # Errors
    /// When a name stands twice or the result nests too deep.
    pub fn new<N: Into<Arc<str>>>(
        fields: impl IntoIterator<Item = (N, RuntimeValue)>,
    ) -> Result<StructValue, ValueError> {
        let fields: Box<[(Arc<str>, RuntimeValue)]> = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = twice[0].to_string();
            return Err(ValueError::DuplicateField { name });
        }
        let deepest = fields.iter().map(|(_, value)| value.depth()).max();
        let depth = deepest.unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(ValueError::Depth { got: depth });
        }
        let values = || fields.iter().map(|(_, value)| value);
        let bytes = values().fold(0usize, |sum, value| sum.saturating_add(value.bytes()));
        let foreign = values().any(RuntimeValue::holds_foreign);
        let strings = values().any(RuntimeValue::holds_strings);
        Ok(StructValue(Arc::new(Fields {
            fields,
            depth,
            bytes,
            foreign,
            strings,
        })))
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&RuntimeValue> {
        let found = self.0.fields.iter().find(|(held, _)| &**held == name);
        found.map(|(_, value)| value)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.0.fields.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.fields.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &RuntimeValue)> {
        self.0.fields.iter().map(|(name, value)| (name, value))
    }

    /// How deep structs and sequences nest in it, itself included.
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// Bytes of the visible elements of every payload in it, as [`RuntimeValue::bytes`] counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Whether a dense tensor in it lies in memory that its owner may write to.
    pub(crate) fn holds_foreign(&self) -> bool {
        self.0.foreign
    }

    /// Whether a tensor of STRING is in it.
    pub(crate) fn holds_strings(&self) -> bool {
        self.0.strings
    }

    /// Whether both are one struct: clones of each other.
    pub fn same(&self, other: &StructValue) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
