//! A message whose end has not been reached.
//!
//! A singular message that comes a second time is opened again and then waits, open, until its parent ends: freezing it
//! each time would copy its lists each time, and a file may repeat a field as often as it likes.

use std::sync::Arc;

use bytes::Bytes;

use super::gather::{Gather, Spares};
use crate::message::descriptor::{FieldDescriptor, MessageDescriptor};
use crate::message::frozen::{FrozenMessage, Values};
use crate::message::value::Value;

#[derive(Default)]
pub(super) struct Open {
    descriptor: Option<&'static MessageDescriptor>,
    /// Where it ends on the wire.
    pub(super) end: usize,
    /// The field of its parent that it goes to.
    field: Option<&'static FieldDescriptor>,
    /// Whether it was closed before.
    again: bool,
    /// Place, in the order of numbers, of the field that came last.
    place: usize,
    /// One bit for each slot with a value in `values`.
    present: u32,
    values: Vec<Value>,
    lists: Vec<(u16, Gather)>,
    waiting: Vec<(u16, Box<Open>)>,
    pub(super) unknown: Vec<Bytes>,
}

impl Open {
    /// Becomes an empty message. Everything was taken from it when it was closed.
    pub(super) fn start(&mut self, descriptor: &'static MessageDescriptor, end: usize) {
        self.descriptor = Some(descriptor);
        self.end = end;
        self.again = false;
        self.place = 0;
        let slots = descriptor.fields.len();
        if self.values.len() < slots {
            self.values.resize(slots, Value::Absent);
        }
    }

    pub(super) fn descriptor(&self) -> &'static MessageDescriptor {
        match self.descriptor {
            Some(descriptor) => descriptor,
            None => unreachable!("an open message was started"),
        }
    }

    /// Goes to `field` of `parent`, with what came for that field before.
    pub(super) fn place_in(&mut self, field: &'static FieldDescriptor, parent: &mut Open) {
        self.field = Some(field);
        if field.repeated {
            return;
        }
        parent.clear_other_members(field);
        let bit = 1 << field.slot;
        if parent.present & bit != 0 {
            parent.present &= !bit;
            if let Value::Message(message) =
                std::mem::take(&mut parent.values[usize::from(field.slot)])
            {
                self.thaw(&message);
            }
            self.again = true;
        } else if let Some(index) = parent
            .waiting
            .iter()
            .position(|(slot, _)| *slot == field.slot)
        {
            let end = self.end;
            *self = *parent.waiting.swap_remove(index).1;
            self.end = end;
        }
    }

    fn thaw(&mut self, message: &FrozenMessage) {
        self.present = message.present();
        for (slot, value) in message.values().enumerate() {
            self.values[slot] = value.clone();
        }
        self.unknown.extend(
            message
                .unknown()
                .into_iter()
                .flat_map(|spans| spans.iter().cloned()),
        );
    }

    /// The field of a number. Fields mostly come in the order of their numbers.
    pub(super) fn find(&mut self, number: u32) -> Option<&'static FieldDescriptor> {
        let descriptor = self.descriptor();
        let fields: &'static [FieldDescriptor] = descriptor.fields;
        let order = &descriptor.by_number[self.place.min(descriptor.by_number.len())..];
        for (step, &slot) in order.iter().enumerate() {
            let field = &fields[usize::from(slot)];
            if field.number == number {
                self.place += step;
                return Some(field);
            }
            if field.number > number {
                break;
            }
        }
        let field = descriptor.field_by_number(number)?;
        self.place = descriptor
            .by_number
            .iter()
            .position(|&slot| slot == field.slot)?;
        Some(field)
    }

    pub(super) fn has(&self, field: &FieldDescriptor) -> bool {
        self.present & (1 << field.slot) != 0
            || self.lists.iter().any(|(slot, _)| *slot == field.slot)
    }

    /// Sets a field.
    pub(super) fn set(&mut self, field: &'static FieldDescriptor, value: Value) {
        self.clear_other_members(field);
        self.present |= 1 << field.slot;
        self.values[usize::from(field.slot)] = value;
    }

    fn clear_other_members(&mut self, field: &'static FieldDescriptor) {
        let Some(oneof) = field.oneof else {
            return;
        };
        for &member in self.descriptor().oneofs[usize::from(oneof)].fields {
            if member != field.slot {
                self.present &= !(1 << member);
                self.values[usize::from(member)] = Value::Absent;
                self.waiting.retain(|(slot, _)| *slot != member);
            }
        }
    }

    /// The list of a field, to be added to.
    pub(super) fn list(
        &mut self,
        field: &'static FieldDescriptor,
        spares: &mut Spares,
    ) -> &mut Gather {
        let held = self.lists.iter().rposition(|(slot, _)| *slot == field.slot);
        let index = held.unwrap_or_else(|| {
            let bit = 1 << field.slot;
            let list = if self.present & bit == 0 {
                spares.list(field.kind)
            } else {
                self.present &= !bit;
                let value = std::mem::take(&mut self.values[usize::from(field.slot)]);
                Gather::thaw(&value, field.kind, spares)
            };
            self.lists.push((field.slot, list));
            self.lists.len() - 1
        });
        &mut self.lists[index].1
    }

    /// Whether nothing has come.
    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
            && self.lists.is_empty()
            && self.waiting.is_empty()
            && self.unknown.is_empty()
    }

    /// What it will take as a message in its parent, lists and unknown fields apart.
    pub(super) fn memory(&self) -> usize {
        /// Two counts beside what is shared, and the reference to it.
        const SHARED: usize = 2 * size_of::<usize>() + size_of::<Arc<FrozenMessage>>();
        let values = self.present.count_ones() as usize + self.lists.len() + self.waiting.len();
        let spilled = if values > Values::new().inline_size() {
            values * size_of::<Value>()
        } else {
            0
        };
        size_of::<FrozenMessage>() + SHARED + spilled
    }

    /// Ends, and goes to its parent.
    pub(super) fn close_into(&mut self, parent: &mut Open, spares: &mut Spares) {
        let Some(field) = self.field else {
            unreachable!("a message inside another was placed there");
        };
        if self.again {
            let waiting = Box::new(std::mem::take(self));
            parent.waiting.push((field.slot, waiting));
            return;
        }
        let message = Value::Message(self.finish_shared(spares));
        if field.repeated {
            parent.list(field, spares).push(message);
        } else {
            parent.set(field, message);
        }
    }

    fn finish_shared(&mut self, spares: &mut Spares) -> Arc<FrozenMessage> {
        if self.is_empty() {
            return spares.empty(self.descriptor());
        }
        Arc::new(self.finish(spares))
    }

    /// The message. Nothing is left here but room.
    pub(super) fn finish(&mut self, spares: &mut Spares) -> FrozenMessage {
        // As deep as messages were opened, which has a limit.
        while let Some((slot, mut waiting)) = self.waiting.pop() {
            self.present |= 1 << slot;
            self.values[usize::from(slot)] = Value::Message(waiting.finish_shared(spares));
        }
        for (slot, list) in self.lists.drain(..) {
            self.present |= 1 << slot;
            self.values[usize::from(slot)] = list.finish(spares);
        }
        let present = std::mem::take(&mut self.present);
        let mut values = Values::with_capacity(present.count_ones() as usize);
        let mut slots = present;
        while slots != 0 {
            values.push(std::mem::take(
                &mut self.values[slots.trailing_zeros() as usize],
            ));
            slots &= slots - 1;
        }
        let unknown = (!self.unknown.is_empty()).then(|| self.unknown.drain(..).collect());
        FrozenMessage::from_parts(self.descriptor(), present, values, unknown)
    }
}
