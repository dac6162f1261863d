//! The fields of a message that is being edited.

use std::sync::Arc;

use super::EditableMessage;
use crate::message::descriptor::{FieldDescriptor, MessageDescriptor};
use crate::message::frozen::FrozenMessage;
use crate::message::list::{Child, List, Removed};
use crate::message::value::Value;

/// What a field holds that is there, or that somebody asked for.
pub(super) enum Slot {
    /// One value that is no message, or a list as it was frozen. Never `Absent`.
    Value(Value),
    Message(Child),
    /// Absent, with an identity.
    Stub(Arc<EditableMessage>),
    List(List),
}

/// The slots of a message in the order of numbers. Most messages of a model have few of their fields, so a field that is
/// absent takes no room.
#[derive(Default)]
pub(super) struct Slots {
    /// One bit for each slot that is held, by its field's place.
    present: u32,
    held: Vec<Slot>,
}

impl Slots {
    /// The fields of a frozen message; what they hold stays shared.
    pub(super) fn thaw(frozen: &FrozenMessage) -> Slots {
        let slot = |value: &Value| match value {
            Value::Message(message) => Slot::Message(Child::Frozen(message.clone())),
            value => Slot::Value(value.clone()),
        };
        Slots {
            present: frozen.present(),
            held: frozen.held().iter().map(slot).collect(),
        }
    }

    fn index(&self, field: &FieldDescriptor) -> Result<usize, usize> {
        let bit = 1u32 << field.place;
        let below = (self.present & (bit - 1)).count_ones() as usize;
        if self.present & bit == 0 {
            Err(below)
        } else {
            Ok(below)
        }
    }

    /// What a field holds, when it holds something.
    pub(super) fn get(&self, field: &FieldDescriptor) -> Option<&Slot> {
        let index = self.index(field).ok()?;
        self.held.get(index)
    }

    /// The slot of a field, made by `new` when there is none.
    pub(super) fn get_or_insert(
        &mut self,
        field: &FieldDescriptor,
        new: impl FnOnce() -> Slot,
    ) -> &mut Slot {
        let index = match self.index(field) {
            Ok(index) => index,
            Err(index) => {
                self.held.insert(index, new());
                self.present |= 1 << field.place;
                index
            }
        };
        &mut self.held[index]
    }

    /// Fills a slot, and gives what it held.
    pub(super) fn put(&mut self, field: &FieldDescriptor, new: Slot) -> Option<Slot> {
        match self.index(field) {
            Ok(index) => Some(std::mem::replace(&mut self.held[index], new)),
            Err(index) => {
                self.held.insert(index, new);
                self.present |= 1 << field.place;
                None
            }
        }
    }

    /// Empties a slot, and gives what it held.
    pub(super) fn take(&mut self, field: &FieldDescriptor) -> Option<Slot> {
        let index = self.index(field).ok()?;
        self.present &= !(1 << field.place);
        Some(self.held.remove(index))
    }

    /// The slots that are held, each with its field, in the order of numbers.
    pub(super) fn iter(
        &self,
        descriptor: &'static MessageDescriptor,
    ) -> impl Iterator<Item = (&'static FieldDescriptor, &Slot)> {
        let mut left = self.present;
        self.held.iter().map(move |slot| {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            let number = usize::from(descriptor.by_number[place]);
            (&descriptor.fields[number], slot)
        })
    }

    /// The messages with an identity in all slots, which leave them.
    pub(super) fn into_editable(self) -> Removed {
        let slots = self.held.into_iter();
        slots.flat_map(Slot::into_editable).collect()
    }
}

impl Slot {
    /// The messages with an identity, which leave the slot.
    pub(super) fn into_editable(self) -> Removed {
        match self {
            Slot::Message(Child::Editable(message)) | Slot::Stub(message) => vec![message],
            Slot::List(mut list) => list.select(&[]),
            _ => Removed::new(),
        }
    }
}
