//! A message with an identity, that can be edited while others hold it or a part of it.
//!
//! An editable message starts as a view of a frozen one, or empty. Asking for a child gives the child an identity: the
//! child and its parent then refer to each other, so that an edit of the child is an edit of the parent. All other parts
//! stay shared with the frozen message until they change. [`EditableMessage::freeze`] builds the messages that changed
//! since the last time, and only those.
//!
//! One [`TreeLock`] guards all trees of a process: an edit walks towards the root, freezing walks from it, and a lock
//! for each message would have the two meet. The holder passes it to every call, so that no call can forget it.
//!
//! Invariant: a message whose frozen form is at hand has nothing changed below it; a message that changed has all
//! messages above it marked as changed.

mod change;
mod freeze;
mod slots;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use qcell::{TCell, TCellOwner};

use super::descriptor::{FieldDescriptor, MessageDescriptor};
use super::frozen::{FrozenMessage, NESTING_LIMIT, NestingError};
use super::list::{Child, List, Removed};
use super::value::Value;
use slots::{Slot, Slots};

/// Marks what the [`TreeLock`] guards.
pub struct Tree;

/// The right to read and edit editable messages. There is one in a process.
pub type TreeLock = TCellOwner<Tree>;

/// A message with an identity. See the module's page.
pub struct EditableMessage {
    descriptor: &'static MessageDescriptor,
    /// Messages from the root to this one, itself included, when it was made.
    depth: usize,
    handle: AtomicUsize,
    state: TCell<Tree, State>,
}

#[derive(Default)]
struct State {
    /// The message as it is, unless something changed since.
    frozen: Option<Arc<FrozenMessage>>,
    /// The fields, once one of them was edited or got an identity. A message with neither form is empty.
    edit: Option<Slots>,
    /// Fields that the schema does not know. Few messages have some.
    unknown: Option<Box<Arc<[Bytes]>>>,
    parent: Option<Parent>,
}

/// Where a message lies.
struct Parent {
    message: Weak<EditableMessage>,
    slot: u16,
    /// Whether the parent has this message. An absent message that somebody asked for is there as soon as it is edited.
    present: bool,
}

impl EditableMessage {
    /// An empty message.
    pub fn new(descriptor: &'static MessageDescriptor) -> Arc<EditableMessage> {
        EditableMessage::of_state(descriptor, State::default(), 1)
    }

    /// A message that starts as a frozen one.
    pub fn from_frozen(frozen: Arc<FrozenMessage>) -> Arc<EditableMessage> {
        EditableMessage::below(frozen, None, 1)
    }

    fn below(
        frozen: Arc<FrozenMessage>,
        parent: Option<Parent>,
        depth: usize,
    ) -> Arc<EditableMessage> {
        let descriptor = frozen.descriptor();
        let state = State {
            unknown: frozen.unknown().cloned().map(Box::new),
            frozen: Some(frozen),
            edit: None,
            parent,
        };
        EditableMessage::of_state(descriptor, state, depth)
    }

    /// An empty message inside another one.
    fn empty_below(
        descriptor: &'static MessageDescriptor,
        parent: Parent,
        depth: usize,
    ) -> Arc<EditableMessage> {
        let state = State {
            parent: Some(parent),
            ..State::default()
        };
        EditableMessage::of_state(descriptor, state, depth)
    }

    fn of_state(
        descriptor: &'static MessageDescriptor,
        state: State,
        depth: usize,
    ) -> Arc<EditableMessage> {
        Arc::new(EditableMessage {
            descriptor,
            depth,
            handle: AtomicUsize::new(0),
            state: TCell::new(state),
        })
    }

    /// What kind of message this is.
    pub fn descriptor(&self) -> &'static MessageDescriptor {
        self.descriptor
    }

    /// A number that starts as 0, for whoever hands messages out: the address of the object that stands for this one.
    pub fn handle(&self) -> &AtomicUsize {
        &self.handle
    }

    // ------------------------------------------------------------------------------------------------ reading

    /// Whether a field is there: a singular one that is set, or a list with items.
    pub fn has(&self, lock: &TreeLock, slot: u16) -> bool {
        match self.look(lock, slot) {
            Look::Value(value) => !value.is_absent(),
            Look::Slot(Slot::Value(_) | Slot::Message(_)) => true,
            Look::Slot(Slot::Stub(_)) => false,
            Look::Slot(Slot::List(list)) => list.len() > 0,
        }
    }

    /// The value of a singular field that is not a message; `Absent` when it is not set.
    pub fn get(&self, lock: &TreeLock, slot: u16) -> Value {
        match self.look(lock, slot) {
            Look::Value(value) | Look::Slot(Slot::Value(value)) => value.clone(),
            Look::Slot(_) => Value::Absent,
        }
    }

    /// Slot of the member of a oneof that is present.
    pub fn which_oneof(&self, lock: &TreeLock, members: &[u16]) -> Option<u16> {
        let mut members = members.iter().copied();
        members.find(|&slot| self.has(lock, slot))
    }

    /// Number of items of a list.
    pub fn len(&self, lock: &TreeLock, slot: u16) -> usize {
        match self.look(lock, slot) {
            Look::Value(value) | Look::Slot(Slot::Value(value)) => value.len(),
            Look::Slot(Slot::List(list)) => list.len(),
            Look::Slot(_) => 0,
        }
    }

    /// An item of a list that is not of messages; `Absent` beyond its end.
    pub fn item(&self, lock: &TreeLock, slot: u16, index: usize) -> Value {
        match self.look(lock, slot) {
            Look::Value(value) | Look::Slot(Slot::Value(value)) => value.item(index),
            Look::Slot(Slot::List(list)) => list.item(index),
            Look::Slot(_) => Value::Absent,
        }
    }

    /// The items of a list of numbers in native byte order, with their NumPy type (`i8`); `None` for other lists.
    pub fn numbers(&self, lock: &TreeLock, slot: u16) -> Option<(Vec<u8>, &'static str)> {
        match self.look(lock, slot) {
            Look::Slot(Slot::List(list)) => list.numbers(),
            Look::Value(value) | Look::Slot(Slot::Value(value)) => {
                List::thaw(self.field(slot).kind, value).numbers()
            }
            Look::Slot(_) => None,
        }
    }

    /// Fields that the schema does not know.
    pub fn unknown(&self, lock: &TreeLock) -> Option<Arc<[Bytes]>> {
        self.state.ro(lock).unknown.as_deref().cloned()
    }

    // ----------------------------------------------------------------------------------------------- children

    /// The message of a singular field, with its identity. When the field is absent it stays absent until the message
    /// is edited.
    ///
    /// # Errors
    /// When it would be nested too deep.
    pub fn child(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
    ) -> Result<Arc<EditableMessage>, NestingError> {
        let field = self.field(slot);
        let depth = self.depth_below(field)?;
        let parent = |present| Parent {
            message: Arc::downgrade(self),
            slot,
            present,
        };
        let slots = self.state.rw(lock).edit();
        let child = match slots.get(field) {
            Some(Slot::Message(Child::Editable(child)) | Slot::Stub(child)) => {
                return Ok(child.clone());
            }
            Some(Slot::Message(Child::Frozen(frozen))) => {
                EditableMessage::below(frozen.clone(), Some(parent(true)), depth)
            }
            Some(Slot::Value(_) | Slot::List(_)) | None => {
                let Some(descriptor) = field.kind.message() else {
                    unreachable!("{field:?} holds no message");
                };
                let stub = EditableMessage::empty_below(descriptor, parent(false), depth);
                slots.put(field, Slot::Stub(stub.clone()));
                return Ok(stub);
            }
        };
        slots.put(field, Slot::Message(Child::Editable(child.clone())));
        Ok(child)
    }

    /// A message of a list, with its identity; `None` beyond the list's end.
    ///
    /// # Errors
    /// When it would be nested too deep.
    pub fn child_at(
        self: &Arc<Self>,
        lock: &mut TreeLock,
        slot: u16,
        index: usize,
    ) -> Result<Option<Arc<EditableMessage>>, NestingError> {
        let depth = self.depth_below(self.field(slot))?;
        let list = self.list(lock, slot);
        let Some(held) = list.child(index) else {
            return Ok(None);
        };
        let frozen = match held {
            Child::Editable(child) => return Ok(Some(child.clone())),
            Child::Frozen(frozen) => frozen.clone(),
        };
        let parent = Parent {
            message: Arc::downgrade(self),
            slot,
            present: true,
        };
        let child = EditableMessage::below(frozen, Some(parent), depth);
        *held = Child::Editable(child.clone());
        Ok(Some(child))
    }

    // ---------------------------------------------------------------------------------------------- machinery

    fn field(&self, slot: u16) -> &'static FieldDescriptor {
        &self.descriptor.fields[usize::from(slot)]
    }

    fn depth_below(&self, field: &FieldDescriptor) -> Result<usize, NestingError> {
        let depth = self.depth + 1;
        match field.kind.message() {
            Some(message) if depth > NESTING_LIMIT => Err(NestingError {
                message: message.full_name,
                depth,
            }),
            _ => Ok(depth),
        }
    }

    fn check_height(&self, message: &FrozenMessage) -> Result<(), NestingError> {
        let depth = self.depth + message.height();
        if depth > NESTING_LIMIT {
            return Err(NestingError {
                message: message.descriptor().full_name,
                depth,
            });
        }
        Ok(())
    }

    fn look<'a>(&'a self, lock: &'a TreeLock, slot: u16) -> Look<'a> {
        let state = self.state.ro(lock);
        match (&state.edit, &state.frozen) {
            (Some(slots), _) => match slots.get(self.field(slot)) {
                Some(held) => Look::Slot(held),
                None => Look::Value(&Value::Absent),
            },
            (None, Some(frozen)) => Look::Value(frozen.value(slot)),
            (None, None) => Look::Value(&Value::Absent),
        }
    }

    /// Drops the frozen form here and above, and makes stubs on the way present.
    fn mark_changed(self: &Arc<Self>, lock: &mut TreeLock) {
        let state = self.state.rw(lock);
        if state.frozen.is_none() && state.parent.as_ref().is_none_or(|above| above.present) {
            return;
        }
        let mut message = self.clone();
        loop {
            let state = message.state.rw(lock);
            state.edit();
            let changed_before = state.frozen.take().is_none();
            let Some(parent) = &mut state.parent else {
                return;
            };
            let was_present = std::mem::replace(&mut parent.present, true);
            if changed_before && was_present {
                return;
            }
            let slot = parent.slot;
            let Some(above) = parent.message.upgrade() else {
                return;
            };
            if !was_present {
                above.clear_oneof_of(lock, slot);
                let slots = above.state.rw(lock).edit();
                slots.put(above.field(slot), Slot::Message(Child::Editable(message)));
            }
            message = above;
        }
    }

    /// Clears the other members of a field's oneof.
    fn clear_oneof_of(&self, lock: &mut TreeLock, slot: u16) {
        let Some(oneof) = self.field(slot).oneof else {
            return;
        };
        for &member in self.descriptor.oneofs[usize::from(oneof)].fields {
            if member != slot && self.has(lock, member) {
                self.empty(lock, member);
            }
        }
    }

    /// Puts something into a slot; what was there lives on by itself.
    fn put(&self, lock: &mut TreeLock, slot: u16, new: Slot) {
        let slots = self.state.rw(lock).edit();
        if let Some(old) = slots.put(self.field(slot), new) {
            detach(lock, old.into_editable());
        }
    }

    /// Empties a slot; what was there lives on by itself.
    fn empty(&self, lock: &mut TreeLock, slot: u16) {
        let slots = self.state.rw(lock).edit();
        if let Some(old) = slots.take(self.field(slot)) {
            detach(lock, old.into_editable());
        }
    }

    fn put_frozen(self: &Arc<Self>, lock: &mut TreeLock, with: Arc<FrozenMessage>) {
        self.mark_changed(lock);
        let state = self.state.rw(lock);
        let old = state.become_frozen(with);
        detach(lock, old);
    }

    /// The list of a slot, ready to be edited.
    fn list<'a>(&'a self, lock: &'a mut TreeLock, slot: u16) -> &'a mut List {
        let field = self.field(slot);
        let new = || Slot::List(List::new(field.kind));
        let held = self.state.rw(lock).edit().get_or_insert(field, new);
        if let Slot::Value(value) = held {
            *held = Slot::List(List::thaw(field.kind, value));
        }
        match held {
            Slot::List(list) => list,
            _ => unreachable!("{field:?} holds no list"),
        }
    }
}

/// What a slot holds, wherever it is kept.
enum Look<'a> {
    Value(&'a Value),
    Slot(&'a Slot),
}

impl State {
    /// The fields, taken from the frozen form when they are not there yet.
    fn edit(&mut self) -> &mut Slots {
        let frozen = self.frozen.as_deref();
        self.edit
            .get_or_insert_with(|| frozen.map_or_else(Slots::default, Slots::thaw))
    }

    /// Takes the content of a frozen message. Gives the messages with an identity that were here.
    fn become_frozen(&mut self, with: Arc<FrozenMessage>) -> Removed {
        let old = self.edit.take();
        self.unknown = with.unknown().cloned().map(Box::new);
        self.frozen = Some(with);
        old.map_or_else(Removed::new, Slots::into_editable)
    }
}

/// Cuts messages from the parent that they left.
fn detach(lock: &mut TreeLock, messages: Removed) {
    for message in messages {
        message.state.rw(lock).parent = None;
    }
}
