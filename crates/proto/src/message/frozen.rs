//! An immutable message.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::descriptor::MessageDescriptor;
use super::value::Value;

/// Messages nested deeper than this cannot be built. (The wire allows 100; the rest is room for building.)
pub const NESTING_LIMIT: usize = 1000;

/// A message that would lie too deep inside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{message}: nested {depth} deep, the limit is {NESTING_LIMIT}")]
pub struct NestingError {
    /// Name of the message that would be too deep.
    pub message: &'static str,
    /// The depth that it would have.
    pub depth: usize,
}

/// An immutable message: one value per field of its descriptor, and what the schema does not know.
///
/// Made by decoding, by freezing an [`EditableMessage`](super::EditableMessage), or field by field from values of the
/// right kinds.
#[derive(Debug, Clone)]
pub struct FrozenMessage {
    descriptor: &'static MessageDescriptor,
    values: Box<[Value]>,
    unknown: Unknown,
    height: usize,
}

/// Fields that the schema does not know, each with its key, as they stood on the wire.
pub(crate) type Unknown = Option<Arc<[Bytes]>>;

impl FrozenMessage {
    /// A message without any field.
    pub fn empty(descriptor: &'static MessageDescriptor) -> FrozenMessage {
        FrozenMessage {
            descriptor,
            values: vec![Value::Absent; descriptor.fields.len()].into(),
            unknown: None,
            height: 1,
        }
    }

    /// A message of the given values, one per slot. Each must be of its field's kind; empty lists are absent.
    ///
    /// # Errors
    /// When messages are nested deeper than [`NESTING_LIMIT`].
    pub fn new(
        descriptor: &'static MessageDescriptor,
        values: Box<[Value]>,
        unknown: Option<Arc<[Bytes]>>,
    ) -> Result<FrozenMessage, NestingError> {
        debug_assert_eq!(values.len(), descriptor.fields.len());
        let below = values.iter().map(|value| match value {
            Value::Message(message) => message.height,
            Value::Messages(messages) => messages.iter().map(|m| m.height).max().unwrap_or(0),
            _ => 0,
        });
        let height = 1 + below.max().unwrap_or(0);
        if height > NESTING_LIMIT {
            return Err(NestingError {
                message: descriptor.full_name,
                depth: height,
            });
        }
        Ok(FrozenMessage {
            descriptor,
            values,
            unknown,
            height,
        })
    }

    /// What kind of message this is.
    pub fn descriptor(&self) -> &'static MessageDescriptor {
        self.descriptor
    }

    /// The values in the order of slots.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value of a slot.
    pub fn value(&self, slot: u16) -> &Value {
        &self.values[usize::from(slot)]
    }

    /// Fields that the schema does not know, as they stood on the wire, keys included.
    pub fn unknown(&self) -> Option<&Arc<[Bytes]>> {
        self.unknown.as_ref()
    }

    /// Levels of messages: 1 for a message without messages inside.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Whether no field is present and nothing unknown is kept.
    pub fn is_empty(&self) -> bool {
        self.unknown.is_none() && self.values.iter().all(Value::is_absent)
    }

    /// Slot of the member of a oneof that is present.
    pub fn which_oneof(&self, members: &[u16]) -> Option<u16> {
        let mut members = members.iter().copied();
        members.find(|&slot| !self.value(slot).is_absent())
    }
}

/// Same descriptor, same fields, same unknown fields in the same order. Floats compare by value: a NaN equals nothing.
impl PartialEq for FrozenMessage {
    fn eq(&self, other: &FrozenMessage) -> bool {
        self.descriptor == other.descriptor
            && self.values == other.values
            && self.unknown == other.unknown
    }
}
