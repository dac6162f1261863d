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

use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use qcell::{TCell, TCellOwner};

use super::descriptor::{FieldDescriptor, MessageDescriptor};
use super::frozen::{FrozenMessage, NESTING_LIMIT, NestingError};
use super::list::{Child, List, Removed};
use super::value::Value;

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

struct State {
    /// The message as it is, unless something changed since.
    frozen: Option<Arc<FrozenMessage>>,
    /// The fields, once one of them was edited or got an identity.
    edit: Option<Box<[Slot]>>,
    /// Fields that the schema does not know.
    unknown: Option<Arc<[Bytes]>>,
    parent: Option<Parent>,
}

/// Where a message lies.
struct Parent {
    message: Weak<EditableMessage>,
    slot: u16,
    /// Whether the parent has this message. An absent message that somebody asked for is there as soon as it is edited.
    present: bool,
}

enum Slot {
    /// As in the frozen form that the edit began with: a scalar, or a list that nobody edited.
    Value(Value),
    Message(Child),
    /// Absent, with an identity.
    Stub(Arc<EditableMessage>),
    List(List),
}

impl EditableMessage {
    /// An empty message.
    pub fn new(descriptor: &'static MessageDescriptor) -> Arc<EditableMessage> {
        EditableMessage::from_frozen(Arc::new(FrozenMessage::empty(descriptor)))
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
        Arc::new(EditableMessage {
            descriptor: frozen.descriptor(),
            depth,
            handle: AtomicUsize::new(0),
            state: TCell::new(State {
                unknown: frozen.unknown().cloned(),
                frozen: Some(frozen),
                edit: None,
                parent,
            }),
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
        match self.state.ro(lock).look(slot) {
            Look::Value(value) => !value.is_absent(),
            Look::Slot(Slot::Value(value)) => !value.is_absent(),
            Look::Slot(Slot::Message(_)) => true,
            Look::Slot(Slot::Stub(_)) => false,
            Look::Slot(Slot::List(list)) => list.len() > 0,
        }
    }

    /// The value of a singular field that is not a message; `Absent` when it is not set.
    pub fn get(&self, lock: &TreeLock, slot: u16) -> Value {
        match self.state.ro(lock).look(slot) {
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
        match self.state.ro(lock).look(slot) {
            Look::Value(value) | Look::Slot(Slot::Value(value)) => value.len(),
            Look::Slot(Slot::List(list)) => list.len(),
            Look::Slot(_) => 0,
        }
    }

    /// An item of a list that is not of messages; `Absent` beyond its end.
    pub fn item(&self, lock: &TreeLock, slot: u16, index: usize) -> Value {
        match self.state.ro(lock).look(slot) {
            Look::Value(value) | Look::Slot(Slot::Value(value)) => value.item(index),
            Look::Slot(Slot::List(list)) => list.item(index),
            Look::Slot(_) => Value::Absent,
        }
    }

    /// The items of a list of numbers in native byte order, with their NumPy type (`i8`); `None` for other lists.
    pub fn numbers(&self, lock: &TreeLock, slot: u16) -> Option<(Vec<u8>, &'static str)> {
        match self.state.ro(lock).look(slot) {
            Look::Slot(Slot::List(list)) => list.numbers(),
            Look::Value(value) | Look::Slot(Slot::Value(value)) => {
                List::thaw(self.field(slot).kind, value).numbers()
            }
            Look::Slot(_) => None,
        }
    }

    /// Fields that the schema does not know.
    pub fn unknown(&self, lock: &TreeLock) -> Option<Arc<[Bytes]>> {
        self.state.ro(lock).unknown.clone()
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
        let held = &mut self.state.rw(lock).edit(self.descriptor)[usize::from(slot)];
        let child = match held {
            Slot::Message(Child::Editable(child)) | Slot::Stub(child) => return Ok(child.clone()),
            Slot::Message(Child::Frozen(frozen)) => {
                EditableMessage::below(frozen.clone(), Some(parent(true)), depth)
            }
            Slot::Value(_) | Slot::List(_) => {
                let Some(descriptor) = field.kind.message() else {
                    unreachable!("{field:?} holds no message");
                };
                let empty = Arc::new(FrozenMessage::empty(descriptor));
                let stub = EditableMessage::below(empty, Some(parent(false)), depth);
                *held = Slot::Stub(stub.clone());
                return Ok(stub);
            }
        };
        *held = Slot::Message(Child::Editable(child.clone()));
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

    // ------------------------------------------------------------------------------------------------ editing

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
        self.put(lock, slot, Slot::Value(Value::Absent));
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
        let slots = self
            .state
            .ro(lock)
            .edit
            .iter()
            .flat_map(|slots| slots.iter());
        let held: Vec<(u16, Arc<EditableMessage>)> = (0..)
            .zip(slots)
            .filter_map(|(slot, held)| match held {
                Slot::Stub(stub) if Arc::strong_count(stub) > 1 => Some((slot, stub.clone())),
                _ => None,
            })
            .collect();
        self.replace(lock, from)?;
        for (slot, stub) in held {
            let message = match self.state.ro(lock).look(slot) {
                Look::Value(Value::Message(message))
                | Look::Slot(Slot::Message(Child::Frozen(message))) => Some(message.clone()),
                _ => None,
            };
            let state = stub.state.rw(lock);
            state.parent = Some(Parent {
                message: Arc::downgrade(self),
                slot,
                present: message.is_some(),
            });
            let new = match message {
                None => Slot::Stub(stub),
                Some(message) => {
                    let old = state.edit.take();
                    state.unknown = message.unknown().cloned();
                    state.frozen = Some(message);
                    let old = old.into_iter().flat_map(|slots| slots.into_vec());
                    detach(lock, old.flat_map(Slot::into_editable).collect());
                    Slot::Message(Child::Editable(stub))
                }
            };
            self.state.rw(lock).edit(self.descriptor)[usize::from(slot)] = new;
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
            *held = Some(all.cloned().collect());
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
        let empty = Arc::new(FrozenMessage::empty(descriptor));
        let child = EditableMessage::below(empty, Some(parent), depth);
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

    // ----------------------------------------------------------------------------------------------- freezing

    /// The message as it is now, immutable. What did not change since the last call is shared with what it gave.
    ///
    /// # Errors
    /// When messages are nested too deep.
    pub fn freeze(&self, lock: &mut TreeLock) -> Result<Arc<FrozenMessage>, NestingError> {
        let state = self.state.rw(lock);
        if let Some(frozen) = &state.frozen {
            return Ok(frozen.clone());
        }
        // The children first: their forms are then at hand when this one's values are collected.
        let children: Vec<Arc<EditableMessage>> =
            state
                .edit(self.descriptor)
                .iter()
                .fold(Vec::new(), |mut children, slot| {
                    match slot {
                        Slot::Message(Child::Editable(child)) => children.push(child.clone()),
                        Slot::List(list) => children.extend(list.editable().cloned()),
                        _ => {}
                    }
                    children
                });
        for child in &children {
            child.freeze(lock)?;
        }
        let held = self.state.ro(lock);
        let frozen_child = |child: &Child| match child {
            Child::Frozen(frozen) => frozen.clone(),
            Child::Editable(child) => match &child.state.ro(lock).frozen {
                Some(frozen) => frozen.clone(),
                None => unreachable!("a child was frozen just now under the same lock"),
            },
        };
        let values = held.edit.iter().flat_map(|slots| slots.iter());
        let values: Box<[Value]> = values
            .map(|slot| match slot {
                Slot::Value(value) => value.clone(),
                Slot::Message(child) => Value::Message(frozen_child(child)),
                Slot::Stub(_) => Value::Absent,
                Slot::List(list) => list.freeze(frozen_child),
            })
            .collect();
        let frozen = FrozenMessage::new(self.descriptor, values, held.unknown.clone())?;
        let frozen = Arc::new(frozen);
        self.state.rw(lock).frozen = Some(frozen.clone());
        Ok(frozen)
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

    /// Drops the frozen form here and above, and makes stubs on the way present.
    fn mark_changed(self: &Arc<Self>, lock: &mut TreeLock) {
        let mut message = self.clone();
        loop {
            let state = message.state.rw(lock);
            state.edit(message.descriptor);
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
                above.state.rw(lock).edit(above.descriptor);
                above.clear_oneof_of(lock, slot);
                let slots = above.state.rw(lock).edit(above.descriptor);
                slots[usize::from(slot)] = Slot::Message(Child::Editable(message));
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
                self.put(lock, member, Slot::Value(Value::Absent));
            }
        }
    }

    /// Puts something into a slot; what was there lives on by itself.
    fn put(&self, lock: &mut TreeLock, slot: u16, new: Slot) {
        let slots = self.state.rw(lock).edit(self.descriptor);
        let old = std::mem::replace(&mut slots[usize::from(slot)], new);
        detach(lock, old.into_editable());
    }

    fn put_frozen(self: &Arc<Self>, lock: &mut TreeLock, with: Arc<FrozenMessage>) {
        self.mark_changed(lock);
        let state = self.state.rw(lock);
        let old = state.edit.take();
        state.unknown = with.unknown().cloned();
        state.frozen = Some(with);
        let slots = old.into_iter().flat_map(|slots| slots.into_vec());
        detach(lock, slots.flat_map(Slot::into_editable).collect());
    }

    /// The list of a slot, ready to be edited.
    fn list<'a>(&'a self, lock: &'a mut TreeLock, slot: u16) -> &'a mut List {
        let field = self.field(slot);
        let held = &mut self.state.rw(lock).edit(self.descriptor)[usize::from(slot)];
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
    fn look(&self, slot: u16) -> Look<'_> {
        match (&self.edit, &self.frozen) {
            (Some(slots), _) => Look::Slot(&slots[usize::from(slot)]),
            (None, Some(frozen)) => Look::Value(frozen.value(slot)),
            (None, None) => unreachable!("a message is frozen or has its fields"),
        }
    }

    /// The fields, taken from the frozen form when they are not there yet.
    fn edit(&mut self, descriptor: &'static MessageDescriptor) -> &mut [Slot] {
        let frozen = &self.frozen;
        self.edit.get_or_insert_with(|| {
            let Some(frozen) = frozen else {
                unreachable!("a message is frozen or has its fields: {descriptor:?}");
            };
            let slot = |value: &Value| match value {
                Value::Message(message) => Slot::Message(Child::Frozen(message.clone())),
                value => Slot::Value(value.clone()),
            };
            frozen.values().map(slot).collect()
        })
    }
}

impl Slot {
    fn into_editable(self) -> Removed {
        match self {
            Slot::Message(Child::Editable(message)) | Slot::Stub(message) => vec![message],
            Slot::List(mut list) => {
                let removed = list.select(&[]);
                drop(list);
                removed
            }
            _ => Removed::new(),
        }
    }
}

/// Cuts messages from the parent that they left.
fn detach(lock: &mut TreeLock, messages: Removed) {
    for message in messages {
        message.state.rw(lock).parent = None;
    }
}
