//! Changing messages inside an immutable message.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::descriptor::FieldDescriptor;
use super::frozen::{FrozenMessage, NestingError};
use super::value::Value;

/// A message inside another, and where it lies.
struct Place {
    message: Arc<FrozenMessage>,
    changed: bool,
    /// The field that holds it; none for the outermost message.
    field: Option<&'static FieldDescriptor>,
    /// Index of the place of the message around it.
    around: usize,
    /// Index in the list, for lists.
    item: Option<usize>,
}

impl FrozenMessage {
    /// This message with other values in some slots.
    ///
    /// # Errors
    /// When messages are nested too deep.
    pub fn with_values(
        &self,
        changes: impl IntoIterator<Item = (u16, Value)>,
    ) -> Result<FrozenMessage, NestingError> {
        let mut values: Vec<Value> = self.values().cloned().collect();
        for (slot, value) in changes {
            values[usize::from(slot)] = value;
        }
        FrozenMessage::new(self.descriptor(), values, self.unknown().cloned())
    }

    /// Shows `visit` this message and every message inside it with the field that holds it (`None` for this message):
    /// messages before those inside them, lists in their order. What `visit` answers takes the message's place, and the
    /// messages inside the answer are visited in turn. Messages in which nothing changed are shared with this one.
    ///
    /// # Errors
    /// What `visit` says, or that messages are nested too deep afterwards.
    pub fn rewrite<E: From<NestingError>>(
        self: &Arc<Self>,
        mut visit: impl FnMut(
            Option<&'static FieldDescriptor>,
            &Arc<FrozenMessage>,
        ) -> Result<Option<FrozenMessage>, E>,
    ) -> Result<Arc<FrozenMessage>, E> {
        let mut places = vec![Place {
            message: self.clone(),
            changed: false,
            field: None,
            around: 0,
            item: None,
        }];
        let mut around = 0;
        while around < places.len() {
            let place = &mut places[around];
            if let Some(new) = visit(place.field, &place.message)? {
                place.message = Arc::new(new);
                place.changed = true;
            }
            let message = place.message.clone();
            let inner = |field, message: &Arc<FrozenMessage>, item| Place {
                message: message.clone(),
                changed: false,
                field: Some(field),
                around,
                item,
            };
            for field in message.descriptor().fields {
                match message.value(field.slot) {
                    Value::Message(message) => places.push(inner(field, message, None)),
                    Value::Messages(list) => {
                        let list = list.iter().enumerate();
                        places
                            .extend(list.map(|(item, message)| inner(field, message, Some(item))));
                    }
                    _ => {}
                }
            }
            around += 1;
        }
        // Messages lie behind those around them, so going backwards meets each with everything inside it done.
        let mut changed: HashMap<usize, Vec<usize>> = HashMap::new();
        for at in (0..places.len()).rev() {
            if let Some(inner) = changed.remove(&at) {
                let inner = inner.into_iter().map(|index| &places[index]);
                places[at].message = Arc::new(replaced(&places[at].message, inner)?);
                places[at].changed = true;
            }
            if places[at].changed {
                changed.entry(places[at].around).or_default().push(at);
            }
        }
        Ok(places.swap_remove(0).message)
    }
}

/// A message with other messages in some places.
fn replaced<'a>(
    message: &FrozenMessage,
    inner: impl Iterator<Item = &'a Place>,
) -> Result<FrozenMessage, NestingError> {
    let mut single = Vec::new();
    let mut lists: BTreeMap<u16, Vec<Arc<FrozenMessage>>> = BTreeMap::new();
    for place in inner {
        let Some(field) = place.field else {
            continue;
        };
        let new = place.message.clone();
        match place.item {
            None => single.push((field.slot, Value::Message(new))),
            Some(item) => {
                let list = lists.entry(field.slot);
                let list = list.or_insert_with(|| message.value(field.slot).messages().to_vec());
                list[item] = new;
            }
        }
    }
    let lists = lists.into_iter();
    let lists = lists.map(|(slot, list)| (slot, Value::Messages(list.into())));
    message.with_values(single.into_iter().chain(lists))
}
