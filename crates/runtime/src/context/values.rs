//! Values that a context keeps by name.

use super::map::MapValue;
use crate::events::{Captured, EventKind, EventLog, Meter, RuntimeEventAction};
use refeed_values::{AllocError, Allocator, RuntimeValue, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// What a kept value is to the graph that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ValueKind {
    /// Nobody said.
    Unknown,
    /// A constant of the model.
    Initializer,
    /// A graph input.
    #[default]
    Input,
    /// Computed on the way.
    Intermediate,
    /// A graph output.
    Output,
}

impl ValueKind {
    const ALL: [ValueKind; 5] = [
        ValueKind::Unknown,
        ValueKind::Initializer,
        ValueKind::Input,
        ValueKind::Intermediate,
        ValueKind::Output,
    ];

    /// The name, as in Python.
    pub const fn as_str(self) -> &'static str {
        match self {
            ValueKind::Unknown => "unknown",
            ValueKind::Initializer => "initializer",
            ValueKind::Input => "input",
            ValueKind::Intermediate => "intermediate",
            ValueKind::Output => "output",
        }
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ValueKind {
    type Err = ContextError;

    fn from_str(text: &str) -> Result<ValueKind, ContextError> {
        ValueKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| ContextError::Kind(text.to_string()))
    }
}

/// A use of a context's values that is refused. The values stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The name has a value already.
    #[error("value `{0}` is there already: put replaces it")]
    Taken(String),
    /// The name has no value.
    #[error("the context has no value `{0}`")]
    Missing(String),
    /// The value is of another kind.
    #[error("value `{name}`: expected {expected}, got {got}")]
    Other {
        /// The name.
        name: String,
        /// What was asked for.
        expected: &'static str,
        /// What is there.
        got: &'static str,
    },
    /// Keys and values make no map.
    #[error("map: expected {expected}, got {got}")]
    Map {
        /// What a map asks for.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The report of an edit found no memory; the edit was not made.
    #[error(transparent)]
    Event(#[from] AllocError),
    /// No such kind.
    #[error("kind: expected unknown, initializer, input, intermediate or output, got `{0}`")]
    Kind(String),
}

#[derive(Debug)]
enum Content {
    Value(RuntimeValue),
    Map(MapValue),
}

impl Content {
    fn value(&self) -> Option<&RuntimeValue> {
        match self {
            Content::Value(value) => Some(value),
            Content::Map(_) => None,
        }
    }
}

#[derive(Debug)]
struct Entry {
    content: Content,
    kind: ValueKind,
}

/// Values by name, one a name, whatever its kind. All methods may be called from any thread; payloads are shared.
///
/// ```
/// use refeed_runtime::{RuntimeContext, ValueKind};
/// use refeed_values::Tensor;
/// let context = RuntimeContext::default();
/// context.values().set("x", Tensor::scalar(1f32)?, ValueKind::Input)?;
/// assert_eq!(context.values().tensor("x")?.elements(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ValueStore {
    entries: Mutex<BTreeMap<Arc<str>, Entry>>,
    reports: Option<Reports>,
}

/// Where edits are reported to, and the allocator whose bytes the reports tell.
#[derive(Debug)]
struct Reports {
    log: EventLog,
    memory: Allocator,
}

impl Reports {
    /// # Errors
    /// When there is no memory for the event.
    fn tell(
        &self,
        action: RuntimeEventAction,
        kind: ValueKind,
        name: &str,
        content: &Content,
    ) -> Result<(), AllocError> {
        let kind = match kind {
            ValueKind::Input => EventKind::Input,
            ValueKind::Initializer => EventKind::Initializer,
            ValueKind::Unknown | ValueKind::Intermediate | ValueKind::Output => EventKind::Result,
        };
        let meter = Meter::new(Some(self.log.clone()), self.memory.clone(), 1);
        let captured = match content {
            Content::Value(value) => Captured::of(value),
            Content::Map(map) => Captured {
                value_count: map.len(),
                ..Captured::default()
            },
        };
        meter.stored(action, kind, name, captured);
        meter.check()
    }
}

impl ValueStore {
    /// A store whose edits are recorded.
    pub(super) fn reporting(log: EventLog, memory: Allocator) -> ValueStore {
        ValueStore {
            entries: Mutex::default(),
            reports: Some(Reports { log, memory }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        // Each edit is one insertion or removal.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value under a name that has none. With events on, records that it was added.
    ///
    /// # Errors
    /// When the name has a value, of whatever kind, or the event finds no memory; nothing has changed then.
    pub fn set(
        &self,
        name: &str,
        value: impl Into<RuntimeValue>,
        kind: ValueKind,
    ) -> Result<(), ContextError> {
        let content = Content::Value(value.into());
        let mut entries = self.lock();
        if entries.contains_key(name) {
            return Err(ContextError::Taken(name.to_string()));
        }
        if let Some(reports) = &self.reports {
            reports.tell(RuntimeEventAction::Add, kind, name, &content)?;
        }
        entries.insert(Arc::from(name), Entry { content, kind });
        Ok(())
    }

    /// Keeps a value under a name; what was there goes. Says whether something was. With events on, records that the
    /// value was added or replaced.
    ///
    /// # Errors
    /// When the event finds no memory; nothing has changed then.
    pub fn put(
        &self,
        name: &str,
        value: impl Into<RuntimeValue>,
        kind: ValueKind,
    ) -> Result<bool, ContextError> {
        self.replace(name, Content::Value(value.into()), kind)
    }

    /// Keeps a map under a name, as [`ValueStore::put`] does a value. No graph reads maps.
    ///
    /// # Errors
    /// As [`ValueStore::put`].
    pub fn put_map(&self, name: &str, map: MapValue) -> Result<bool, ContextError> {
        self.replace(name, Content::Map(map), ValueKind::Intermediate)
    }

    fn replace(&self, name: &str, content: Content, kind: ValueKind) -> Result<bool, ContextError> {
        let mut entries = self.lock();
        if let Some(reports) = &self.reports {
            let action = match entries.contains_key(name) {
                true => RuntimeEventAction::Replace,
                false => RuntimeEventAction::Add,
            };
            reports.tell(action, kind, name, &content)?;
        }
        let old = entries.insert(Arc::from(name), Entry { content, kind });
        // Owners of memory may come back here, so the old value goes without the lock.
        drop(entries);
        Ok(old.is_some())
    }

    /// Keeps what a call has computed. The call has recorded it already.
    pub(crate) fn keep(&self, name: &Arc<str>, value: RuntimeValue, kind: ValueKind) {
        let content = Content::Value(value);
        let old = self.lock().insert(name.clone(), Entry { content, kind });
        drop(old);
    }

    /// The value of a name; nothing where a map is.
    pub fn get(&self, name: &str) -> Option<RuntimeValue> {
        self.lock().get(name)?.content.value().cloned()
    }

    /// The value of a name, which must be one of a graph.
    ///
    /// # Errors
    /// When the name has no value or a map.
    pub fn value(&self, name: &str) -> Result<RuntimeValue, ContextError> {
        match self.lock().get(name).map(|entry| &entry.content) {
            Some(Content::Value(value)) => Ok(value.clone()),
            Some(Content::Map(_)) => Err(ContextError::Other {
                name: name.to_string(),
                expected: "a value of a graph",
                got: "a map",
            }),
            None => Err(ContextError::Missing(name.to_string())),
        }
    }

    /// The map of a name.
    ///
    /// # Errors
    /// When the name has no value or one that is no map.
    pub fn map(&self, name: &str) -> Result<MapValue, ContextError> {
        match self.lock().get(name).map(|entry| &entry.content) {
            Some(Content::Map(map)) => Ok(map.clone()),
            Some(Content::Value(value)) => Err(ContextError::Other {
                name: name.to_string(),
                expected: "a map",
                got: value.kind(),
            }),
            None => Err(ContextError::Missing(name.to_string())),
        }
    }

    /// The value of a name, which must be a tensor.
    ///
    /// # Errors
    /// When the name has no value or one of another kind.
    pub fn tensor(&self, name: &str) -> Result<Tensor, ContextError> {
        match self.value(name)? {
            RuntimeValue::Tensor(tensor) => Ok(tensor),
            other => Err(ContextError::Other {
                name: name.to_string(),
                expected: "a tensor",
                got: other.kind(),
            }),
        }
    }

    /// What the value of a name is to its graph.
    pub fn kind(&self, name: &str) -> Option<ValueKind> {
        self.lock().get(name).map(|entry| entry.kind)
    }

    /// Forgets what a name has; false when it has nothing. With events on, records that a tensor was removed.
    ///
    /// # Errors
    /// When the event finds no memory; nothing has changed then.
    pub fn remove(&self, name: &str) -> Result<bool, ContextError> {
        let mut entries = self.lock();
        if let (Some(reports), Some(Entry { content, kind })) = (&self.reports, entries.get(name))
            && content
                .value()
                .is_some_and(|value| value.tensor().is_some())
        {
            reports.tell(RuntimeEventAction::Remove, *kind, name, content)?;
        }
        let old = entries.remove(name);
        drop(entries);
        Ok(old.is_some())
    }

    /// The names of the values that `wanted` picks, in the order of the alphabet.
    pub fn names(&self, wanted: impl Fn(&RuntimeValue) -> bool) -> Vec<Arc<str>> {
        let entries = self.lock();
        let names = entries
            .iter()
            .filter(|(_, entry)| entry.content.value().is_some_and(&wanted));
        names.map(|(name, _)| name.clone()).collect()
    }

    /// The names of the maps, in the order of the alphabet.
    pub fn map_names(&self) -> Vec<Arc<str>> {
        let entries = self.lock();
        let names = entries
            .iter()
            .filter(|(_, entry)| entry.content.value().is_none());
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Forgets every value.
    pub fn clear(&self) {
        let entries = std::mem::take(&mut *self.lock());
        // Owners of memory may come back here, so they go without the lock.
        drop(entries);
    }
}
