//! A message whose end has not been reached.
//!
//! A singular message that comes a second time is opened again and then waits, open, until its parent ends: freezing it
//! each time would copy its lists each time, and a file may repeat a field as often as it likes. For the same reason a
//! list that goes on after another field stays open until the end of its message.

use std::sync::Arc;

use bytes::Bytes;

use super::gather::{Gather, Spares};
use crate::message::descriptor::{FieldDescriptor, MessageDescriptor, OneofDescriptor};
use crate::message::frozen::{self, FrozenMessage, Values};
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
    // Fields by their place in the order of numbers.
    /// One bit for each field with a value in `values`, in that order.
    present: u32,
    values: Values,
    /// Levels of the messages in it, or in it before.
    below: u32,
    /// Whether `below` may be too much, because a message left.
    lower: bool,
    /// The list that the last field belongs to.
    list: Option<(u16, Gather)>,
    /// Lists that went on after another field.
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
        if let Some(Value::Message(message)) = parent.take(field.place) {
            parent.lower = true;
            self.below = message.height() as u32 - 1;
            self.present = message.present();
            self.values.extend(message.held().iter().cloned());
            let unknown = message.unknown().into_iter().flat_map(|spans| spans.iter());
            self.unknown.extend(unknown.cloned());
            self.again = true;
        } else if let Some(index) = find(&parent.waiting, field.place) {
            let end = self.end;
            *self = *parent.waiting.swap_remove(index).1;
            self.end = end;
        }
    }

    pub(super) fn has(&self, field: &FieldDescriptor) -> bool {
        self.present & (1 << field.place) != 0
            || self
                .list
                .as_ref()
                .is_some_and(|(place, _)| *place == field.place)
            || find(&self.lists, field.place).is_some()
    }

    /// Sets a field.
    pub(super) fn set(
        &mut self,
        field: &'static FieldDescriptor,
        value: Value,
        spares: &mut Spares,
    ) {
        self.clear_other_members(field);
        self.end_list(spares);
        self.put(field.place, value);
    }

    fn put(&mut self, place: u16, value: Value) {
        let bit = 1 << place;
        if self.present < bit {
            // Beyond what lies in place, room for a node's fields rather than one more.
            if self.values.len() == self.values.inline_size() {
                self.values.reserve_exact(3);
            }
            self.values.push(value);
        } else {
            let index = (self.present & (bit - 1)).count_ones() as usize;
            if self.present & bit != 0 {
                self.values[index] = value;
            } else {
                self.values.insert(index, value);
            }
        }
        self.present |= bit;
    }

    fn take(&mut self, place: u16) -> Option<Value> {
        let bit = 1 << place;
        if self.present & bit == 0 {
            return None;
        }
        self.present &= !bit;
        let index = (self.present & (bit - 1)).count_ones() as usize;
        Some(self.values.remove(index))
    }

    #[inline(always)]
    fn clear_other_members(&mut self, field: &'static FieldDescriptor) {
        if let Some(oneof) = field.oneof {
            let others = self.present & !(1 << field.place);
            if others != 0 || !self.waiting.is_empty() {
                self.clear_members(&self.descriptor().oneofs[usize::from(oneof)], field);
            }
        }
    }

    fn clear_members(&mut self, oneof: &OneofDescriptor, except: &FieldDescriptor) {
        for &slot in oneof.fields {
            let place = self.descriptor().fields[usize::from(slot)].place;
            if place != except.place {
                self.take(place);
                self.lower = true;
                self.waiting.retain(|(waiting, _)| *waiting != place);
            }
        }
    }

    /// The list of a field, to be added to.
    pub(super) fn list(
        &mut self,
        field: &'static FieldDescriptor,
        spares: &mut Spares,
    ) -> &mut Gather {
        if self
            .list
            .as_ref()
            .is_none_or(|(place, _)| *place != field.place)
        {
            if let Some(index) = find(&self.lists, field.place) {
                return &mut self.lists[index].1;
            }
            if let Some(value) = self.take(field.place) {
                self.lists
                    .push((field.place, Gather::thaw(&value, field.kind, spares)));
                let last = self.lists.len() - 1;
                return &mut self.lists[last].1;
            }
            self.end_list(spares);
        }
        let list = self
            .list
            .get_or_insert_with(|| (field.place, spares.list(field.kind)));
        &mut list.1
    }

    fn end_list(&mut self, spares: &mut Spares) {
        if let Some((place, list)) = self.list.take() {
            self.put(place, list.finish(spares));
        }
    }

    /// Whether nothing has come.
    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
            && self.list.is_none()
            && self.lists.is_empty()
            && self.waiting.is_empty()
            && self.unknown.is_empty()
    }

    /// What it will take as a message in its parent, lists and unknown fields apart.
    pub(super) fn memory(&self) -> usize {
        /// Two counts beside what is shared, and the reference to it.
        const SHARED: usize = 2 * size_of::<usize>() + size_of::<Arc<FrozenMessage>>();
        let lists = self.lists.len() + usize::from(self.list.is_some());
        let values = self.values.len() + lists + self.waiting.len();
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
            parent.waiting.push((field.place, waiting));
            return;
        }
        let message = self.finish_shared(spares);
        parent.below = parent.below.max(message.height() as u32);
        if field.repeated {
            parent.list(field, spares).push_message(message);
        } else {
            parent.set(field, Value::Message(message), spares);
        }
    }

    fn finish_shared(&mut self, spares: &mut Spares) -> Arc<FrozenMessage> {
        if self.is_empty() {
            return spares.empty(self.descriptor());
        }
        Arc::new(self.finish(spares))
    }

    /// The message. Nothing is left here but room.
    #[inline]
    pub(super) fn finish(&mut self, spares: &mut Spares) -> FrozenMessage {
        self.end_list(spares);
        // As deep as messages were opened, which has a limit.
        while let Some((place, mut waiting)) = self.waiting.pop() {
            let message = waiting.finish_shared(spares);
            self.below = self.below.max(message.height() as u32);
            self.put(place, Value::Message(message));
        }
        while let Some((place, list)) = self.lists.pop() {
            self.put(place, list.finish(spares));
        }
        let present = std::mem::take(&mut self.present);
        let values = std::mem::take(&mut self.values);
        let mut below = std::mem::take(&mut self.below);
        if std::mem::take(&mut self.lower) {
            below = frozen::below(&values);
        }
        let unknown = (!self.unknown.is_empty()).then(|| self.unknown.drain(..).collect());
        FrozenMessage::from_parts(self.descriptor(), present, values, below, unknown)
    }
}

fn find<T>(list: &[(u16, T)], place: u16) -> Option<usize> {
    list.iter().position(|(held, _)| *held == place)
}
