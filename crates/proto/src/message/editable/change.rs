//! Edits of a message.

use std::ops::Range;
use std::sync::Arc;

use super::slots::Slot;
use super::{EditableMessage, Look, Parent, TreeLock, detach};
use crate::message::descriptor::FieldDescriptor;
use crate::message::frozen::{FrozenMessage, NESTING_LIMIT, NestingError};
use crate::message::list::Child;
use crate::message::value::Value;

impl EditableMessage {
    /// Sets a singular field to a value of its kind; `Absent` clears it. Another member of its oneof is cleared.
    ///
    /// # Errors
    /// When a message would be nested too deep; nothing has changed then.
    pub fn set(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
        value: Value,
    ) -> Result<(), NestingError> {
        if value.is_absent() {
            self.clear_field(lock, slot);
            return Ok(());
        }
        let new = match value {
            Value::Message(message) => {
                self.check_height(&message)?;
                Slot::Message(Child::Frozen(message))
            }
            value => Slot::Value(value),
        };
        self.mark_changed(lock);
        self.clear_oneof_of(lock, slot);
        self.put(lock, slot, new);
        Ok(())
    }

    /// Makes this message present in its parent, empty or not.
    pub fn set_present(self: &Arc<Self>, lock: &mut TreeLock) {
        let parent = &self.state.ro(lock).parent;
        if parent.as_ref().is_some_and(|parent| !parent.present) {
            self.mark_changed(lock);
        }
    }

    /// Clears a field. A message or items that somebody holds live on by themselves.
    pub fn clear_field(self: &Arc<Self>, lock: &mut TreeLock, slot: u16) {
        self.mark_changed(lock);
        self.empty(lock, slot);
    }

    /// Clears every field and forgets unknown ones.
    pub fn clear(self: &Arc<Self>, lock: &mut TreeLock) {
        self.put_frozen(lock, Arc::new(FrozenMessage::empty(self.descriptor)));
    }

    /// Becomes a frozen message of the same descriptor.
    ///
    /// # Errors
    /// When messages would be nested too deep; nothing has changed then.
    pub fn replace(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        with: Arc<FrozenMessage>,
    ) -> Result<(), NestingError> {
        debug_assert_eq!(self.descriptor, with.descriptor());
        let depth = self.depth + with.height() - 1;
        if depth > NESTING_LIMIT {
            return Err(NestingError {
                message: self.descriptor.full_name,
                depth,
            });
        }
        self.put_frozen(lock, with);
        Ok(())
    }

    /// Becomes a frozen message of the same descriptor as [`replace`](EditableMessage::replace) does, but absent messages
    /// that somebody holds stay parts of this one: they become the messages in their places, or stay absent.
    ///
    /// # Errors
    /// When messages would be nested too deep; nothing has changed then.
    pub fn copy(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        from: Arc<FrozenMessage>,
    ) -> Result<(), NestingError> {
        let slots = self.state.ro(lock).edit.iter();
        let held: Vec<(&FieldDescriptor, Arc<EditableMessage>)> = slots
            .flat_map(|slots| slots.iter(self.descriptor))
            .filter_map(|(field, held)| match held {
                Slot::Stub(stub) if Arc::strong_count(stub) > 1 => Some((field, stub.clone())),
                _ => None,
            })
            .collect();
        self.replace(lock, from)?;
        for (field, stub) in held {
            let message = match self.look(lock, field.slot) {
                Look::Value(Value::Message(message))
                | Look::Slot(Slot::Message(Child::Frozen(message))) => Some(message.clone()),
                _ => None,
            };
            let state = stub.state.rw(lock);
            state.parent = Some(Parent {
                message: Arc::downgrade(self),
                slot: field.slot,
                present: message.is_some(),
            });
            let new = match message {
                None => Slot::Stub(stub),
                Some(message) => {
                    let old = state.become_frozen(message);
                    detach(lock, old);
                    Slot::Message(Child::Editable(stub))
                }
            };
            self.state.rw(lock).edit().put(field, new);
        }
        Ok(())
    }

    /// Merges a message of the same descriptor: its scalars replace, its lists are appended, its messages merge.
    ///
    /// # Errors
    /// When messages would be nested too deep; this message may have changed in part.
    pub fn merge(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        from: &FrozenMessage,
    ) -> Result<(), NestingError> {
        debug_assert_eq!(self.descriptor, from.descriptor());
        self.mark_changed(lock);
        for field in self.descriptor.fields {
            let slot = field.slot;
            match from.value(slot) {
                Value::Absent => {}
                list if field.repeated => {
                    let values = (0..list.len()).map(|index| list.item(index)).collect();
                    let end = self.len(lock, slot);
                    self.splice(lock, slot, end..end, values)?;
                }
                Value::Message(message) if self.has(lock, slot) => {
                    self.child(lock, slot)?.merge(lock, message)?;
                }
                // A stub that somebody holds becomes the message.
                Value::Message(message) => {
                    self.child(lock, slot)?.replace(lock, message.clone())?;
                }
                value => self.set(lock, slot, value.clone())?,
            }
        }
        if let Some(more) = from.unknown() {
            let held = &mut self.state.rw(lock).unknown;
            let all = held.iter().flat_map(|held| held.iter()).chain(more.iter());
            *held = Some(Box::new(all.cloned().collect()));
        }
        Ok(())
    }

    /// Appends a value of the field's kind to a list.
    ///
    /// # Errors
    /// When a message would be nested too deep; nothing has changed then.
    pub fn append(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
        value: Value,
    ) -> Result<(), NestingError> {
        if let Value::Message(message) = &value {
            self.check_height(message)?;
        }
        self.mark_changed(lock);
        self.list(lock, slot).push_value(value);
        Ok(())
    }

    /// Appends a message of the field's kind to a list and gives it its identity.
    ///
    /// # Errors
    /// When it would be nested too deep; nothing has changed then.
    pub fn append_message(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
        message: Arc<FrozenMessage>,
    ) -> Result<Arc<EditableMessage>, NestingError> {
        self.check_height(&message)?;
        let parent = Parent {
            message: Arc::downgrade(self),
            slot,
            present: true,
        };
        let child = EditableMessage::below(message, Some(parent), self.depth + 1);
        self.mark_changed(lock);
        self.list(lock, slot).push(Child::Editable(child.clone()));
        Ok(child)
    }

    /// Appends an empty message to a list and gives it.
    ///
    /// # Errors
    /// When it would be nested too deep.
    pub fn add(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
    ) -> Result<Arc<EditableMessage>, NestingError> {
        let field = self.field(slot);
        let depth = self.depth_below(field)?;
        let Some(descriptor) = field.kind.message() else {
            unreachable!("{field:?} holds no messages");
        };
        let parent = Parent {
            message: Arc::downgrade(self),
            slot,
            present: true,
        };
        let child = EditableMessage::empty_below(descriptor, parent, depth);
        self.mark_changed(lock);
        self.list(lock, slot).push(Child::Editable(child.clone()));
        Ok(child)
    }

    /// Puts values of the field's kind where `range` of a list was. The range lies within the list.
    ///
    /// # Errors
    /// When a message would be nested too deep; nothing has changed then.
    pub fn splice(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
        range: Range<usize>,
        values: Vec<Value>,
    ) -> Result<(), NestingError> {
        for value in &values {
            if let Value::Message(message) = value {
                self.check_height(message)?;
            }
        }
        self.mark_changed(lock);
        let removed = self.list(lock, slot).splice(range, values);
        detach(lock, removed);
        Ok(())
    }

    /// Keeps the items of a list at the given indices, in that order. Each is below the length and occurs at most once.
    pub fn select(self: &Arc<Self>, lock: &mut TreeLock, slot: u16, order: &[usize]) {
        self.mark_changed(lock);
        let removed = self.list(lock, slot).select(order);
        detach(lock, removed);
    }

    /// Forgets the fields that the schema does not know, here only.
    pub fn clear_unknown(self: &Arc<Self>, lock: &mut TreeLock) {
        self.mark_changed(lock);
        self.state.rw(lock).unknown = None;
    }
}
