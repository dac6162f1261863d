//! The immutable form of a message that was edited.

use std::sync::Arc;

use super::slots::Slot;
use super::{EditableMessage, TreeLock};
use crate::message::frozen::{FrozenMessage, NestingError};
use crate::message::list::Child;
use crate::message::value::Value;

impl EditableMessage {
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
        let slots = state.edit().iter(self.descriptor);
        let children = slots.fold(Vec::new(), |mut children, (_, slot)| {
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
        let slots = held.edit.iter();
        let values = slots.flat_map(|slots| slots.iter(self.descriptor));
        let values = values.map(|(field, slot)| {
            let value = match slot {
                Slot::Value(value) => value.clone(),
                Slot::Message(child) => Value::Message(frozen_child(child)),
                Slot::Stub(_) => Value::Absent,
                Slot::List(list) => list.freeze(frozen_child),
            };
            (field, value)
        });
        let unknown = held.unknown.as_deref().cloned();
        let frozen = Arc::new(FrozenMessage::of(self.descriptor, values, unknown)?);
        self.state.rw(lock).frozen = Some(frozen.clone());
        Ok(frozen)
    }
}
