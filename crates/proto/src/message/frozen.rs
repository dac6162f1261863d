//! An immutable message.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use super::descriptor::{FieldDescriptor, MessageDescriptor};
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

/// An immutable message: the values of its fields, and what the schema does not know.
///
/// Made by [decoding](FrozenMessage::decode), by freezing an [`EditableMessage`](super::EditableMessage), or field by
/// field from values of the right kinds.
#[derive(Debug, Clone)]
pub struct FrozenMessage {
    descriptor: &'static MessageDescriptor,
    /// One bit for each field that is there, by its place in the order of numbers.
    present: u32,
    height: u32,
    /// The values of those fields in that order. Most messages of a model have few of their fields.
    values: Values,
    unknown: Option<Box<Arc<[Bytes]>>>,
}

/// Values of the fields that are there, in the order of numbers.
pub(super) type Values = SmallVec<[Value; 3]>;

/// Fields that the schema does not know, each with its key, as they stood on the wire.
pub(crate) type Unknown = Option<Arc<[Bytes]>>;

static ABSENT: Value = Value::Absent;

impl FrozenMessage {
    /// A message without any field.
    pub fn empty(descriptor: &'static MessageDescriptor) -> FrozenMessage {
        FrozenMessage::from_parts(descriptor, 0, Values::new(), 0, None)
    }

    /// A message of the given values, one per slot. Each must be of its field's kind; empty lists are absent.
    ///
    /// # Errors
    /// When messages are nested deeper than [`NESTING_LIMIT`].
    pub fn new(
        descriptor: &'static MessageDescriptor,
        values: impl IntoIterator<Item = Value>,
        unknown: Option<Arc<[Bytes]>>,
    ) -> Result<FrozenMessage, NestingError> {
        let values = values.into_iter();
        let mut fields = descriptor.fields.iter();
        let message = FrozenMessage::of(
            descriptor,
            values.map_while(|v| Some((fields.next()?, v))),
            unknown,
        );
        debug_assert_eq!(fields.len(), 0, "a value for each slot");
        message
    }

    /// A message of the given fields, in any order but each once. Each value must be of its field's kind; those that are
    /// absent are left out. Giving them in the order of numbers is fastest.
    ///
    /// # Errors
    /// When messages are nested deeper than [`NESTING_LIMIT`].
    pub fn of<'a>(
        descriptor: &'static MessageDescriptor,
        fields: impl IntoIterator<Item = (&'a FieldDescriptor, Value)>,
        unknown: Option<Arc<[Bytes]>>,
    ) -> Result<FrozenMessage, NestingError> {
        let mut present = 0u32;
        let mut held = Values::new();
        for (field, value) in fields {
            if !value.is_absent() {
                let bit = 1 << field.place;
                held.insert((present & (bit - 1)).count_ones() as usize, value);
                present |= bit;
            }
        }
        let below = below(&held);
        let message = FrozenMessage::from_parts(descriptor, present, held, below, unknown);
        if message.height() > NESTING_LIMIT {
            return Err(NestingError {
                message: descriptor.full_name,
                depth: message.height(),
            });
        }
        Ok(message)
    }

    /// `values` has one value for each bit of `present`; `below` is what [`below`] gives for them.
    #[inline]
    pub(super) fn from_parts(
        descriptor: &'static MessageDescriptor,
        present: u32,
        values: Values,
        below: u32,
        unknown: Unknown,
    ) -> FrozenMessage {
        debug_assert_eq!(present.count_ones() as usize, values.len());
        debug_assert_eq!(below, self::below(&values));
        FrozenMessage {
            descriptor,
            present,
            height: 1 + below,
            values,
            unknown: unknown.map(Box::new),
        }
    }

    /// What kind of message this is.
    pub fn descriptor(&self) -> &'static MessageDescriptor {
        self.descriptor
    }

    /// The value of a slot; `Absent` when the field is not there.
    pub fn value(&self, slot: u16) -> &Value {
        let bit = 1 << self.descriptor.fields[usize::from(slot)].place;
        if self.present & bit == 0 {
            return &ABSENT;
        }
        &self.values[(self.present & (bit - 1)).count_ones() as usize]
    }

    /// The values of all slots in their order, `Absent` where a field is not there.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        let fields = self.descriptor.fields.iter();
        fields.map(|field| self.value(field.slot))
    }

    /// The fields that are there, in the order of their numbers.
    pub fn fields(&self) -> impl Iterator<Item = (&'static FieldDescriptor, &Value)> {
        let descriptor = self.descriptor;
        let mut left = self.present;
        self.values.iter().map(move |value| {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (
                &descriptor.fields[usize::from(descriptor.by_number[place])],
                value,
            )
        })
    }

    /// Fields that the schema does not know, as they stood on the wire, keys included.
    pub fn unknown(&self) -> Option<&Arc<[Bytes]>> {
        self.unknown.as_deref()
    }

    /// Levels of messages: 1 for a message without messages inside.
    pub fn height(&self) -> usize {
        self.height as usize
    }

    /// Whether no field is present and nothing unknown is kept.
    pub fn is_empty(&self) -> bool {
        self.unknown.is_none() && self.present == 0
    }

    /// Slot of the member of a oneof that is present.
    pub fn which_oneof(&self, members: &[u16]) -> Option<u16> {
        let mut members = members.iter().copied();
        members.find(|&slot| !self.value(slot).is_absent())
    }

    /// One bit for each field that is there, by its place in the order of numbers.
    pub(super) fn present(&self) -> u32 {
        self.present
    }

    /// The values of the fields that are there, in the order of numbers.
    pub(super) fn held(&self) -> &[Value] {
        &self.values
    }
}

/// Levels of the messages in values.
pub(super) fn below(values: &[Value]) -> u32 {
    let heights = values.iter().map(|value| match value {
        Value::Message(message) => message.height,
        Value::Messages(messages) => messages.iter().map(|m| m.height).max().unwrap_or(0),
        _ => 0,
    });
    heights.max().unwrap_or(0)
}
