//! Values that a context keeps by name.

use refeed_values::{RuntimeValue, Tensor};
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
    /// No such kind.
    #[error("kind: expected unknown, initializer, input, intermediate or output, got `{0}`")]
    Kind(String),
}

#[derive(Debug, Clone)]
struct Entry {
    value: RuntimeValue,
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
}

impl ValueStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        // Each edit is one insertion or removal.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value under a name that has none.
    ///
    /// # Errors
    /// When the name has a value, of whatever kind.
    pub fn set(
        &self,
        name: &str,
        value: impl Into<RuntimeValue>,
        kind: ValueKind,
    ) -> Result<(), ContextError> {
        let value = value.into();
        let mut entries = self.lock();
        if entries.contains_key(name) {
            return Err(ContextError::Taken(name.to_string()));
        }
        entries.insert(Arc::from(name), Entry { value, kind });
        Ok(())
    }

    /// Keeps a value under a name; what was there goes. Says whether something was.
    pub fn put(&self, name: &str, value: impl Into<RuntimeValue>, kind: ValueKind) -> bool {
        let value = value.into();
        let old = self.lock().insert(Arc::from(name), Entry { value, kind });
        old.is_some()
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<RuntimeValue> {
        self.lock().get(name).map(|entry| entry.value.clone())
    }

    /// The value of a name, which must be a tensor.
    ///
    /// # Errors
    /// When the name has no value or one of another kind.
    pub fn tensor(&self, name: &str) -> Result<Tensor, ContextError> {
        match self.get(name) {
            Some(RuntimeValue::Tensor(tensor)) => Ok(tensor),
            Some(other) => Err(ContextError::Other {
                name: name.to_string(),
                expected: "a tensor",
                got: other.kind(),
            }),
            None => Err(ContextError::Missing(name.to_string())),
        }
    }

    /// What the value of a name is to its graph.
    pub fn kind(&self, name: &str) -> Option<ValueKind> {
        self.lock().get(name).map(|entry| entry.kind)
    }

    /// Forgets the value of a name; gives it back.
    pub fn remove(&self, name: &str) -> Option<RuntimeValue> {
        let removed = self.lock().remove(name);
        removed.map(|entry| entry.value)
    }

    /// The names that `wanted` picks, in the order of the alphabet.
    pub fn names(&self, wanted: impl Fn(&RuntimeValue) -> bool) -> Vec<Arc<str>> {
        let entries = self.lock();
        let names = entries.iter().filter(|(_, entry)| wanted(&entry.value));
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Forgets every value.
    pub fn clear(&self) {
        let entries = std::mem::take(&mut *self.lock());
        // Owners of memory may come back here, so they go without the lock.
        drop(entries);
    }
}
