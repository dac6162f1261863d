//! Maps that a context keeps. No operator reads one; they are kept for kernels of the caller's own.

use super::ContextError;
use std::collections::HashSet;
use std::sync::Arc;

/// Keys of a map: all of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapKeys {
    /// INT64.
    Integers(Vec<i64>),
    /// STRING.
    Texts(Vec<Arc<str>>),
}

/// Values of a map: all of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum MapValues {
    /// INT64.
    Integers(Vec<i64>),
    /// DOUBLE.
    Reals(Vec<f64>),
    /// STRING.
    Texts(Vec<Arc<str>>),
}

impl MapKeys {
    fn len(&self) -> usize {
        match self {
            MapKeys::Integers(keys) => keys.len(),
            MapKeys::Texts(keys) => keys.len(),
        }
    }

    /// Whether no key stands twice.
    fn are_unique(&self) -> bool {
        fn unique<T: std::hash::Hash + Eq>(keys: &[T]) -> bool {
            keys.iter().collect::<HashSet<_>>().len() == keys.len()
        }
        match self {
            MapKeys::Integers(keys) => unique(keys),
            MapKeys::Texts(keys) => unique(keys),
        }
    }
}

impl MapValues {
    fn len(&self) -> usize {
        match self {
            MapValues::Integers(values) => values.len(),
            MapValues::Reals(values) => values.len(),
            MapValues::Texts(values) => values.len(),
        }
    }
}

/// A map: keys, and a value for each, in the order in which they were given. Cloning shares them.
///
/// ```
/// use refeed_runtime::{MapKeys, MapValue, MapValues};
/// let labels = MapValue::new(
///     MapKeys::Integers(vec![0, 1]),
///     MapValues::Texts(vec!["cat".into(), "dog".into()]),
/// )?;
/// assert_eq!(labels.len(), 2);
/// # Ok::<(), refeed_runtime::ContextError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MapValue(Arc<(MapKeys, MapValues)>);

impl MapValue {
    /// Joins keys and values.
    ///
    /// # Errors
    /// When there are not as many values as keys, or a key stands twice.
    pub fn new(keys: MapKeys, values: MapValues) -> Result<MapValue, ContextError> {
        if keys.len() != values.len() {
            return Err(ContextError::Map {
                expected: format!("{} values, one for each key", keys.len()),
                got: values.len().to_string(),
            });
        }
        if !keys.are_unique() {
            return Err(ContextError::Map {
                expected: "different keys".to_string(),
                got: "one that stands twice".to_string(),
            });
        }
        Ok(MapValue(Arc::new((keys, values))))
    }

    /// The keys, in order.
    pub fn keys(&self) -> &MapKeys {
        &self.0.0
    }

    /// The values, in the order of the keys.
    pub fn values(&self) -> &MapValues {
        &self.0.1
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.0.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
