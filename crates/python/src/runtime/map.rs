//! Maps of a context as dictionaries.

use crate::error::{Class, IntoPyErr, class_of};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use refeed_runtime::{MapKeys, MapValue, MapValues};
use std::sync::Arc;

/// The types that keys and values of a map have.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    Integer,
    Real,
    Text,
}

impl Entry {
    /// The type of an object, when it is one of a map's.
    fn of(object: &Bound<'_, PyAny>) -> Option<Entry> {
        match object {
            truth if truth.is_instance_of::<PyBool>() => None,
            number if number.is_instance_of::<PyInt>() => Some(Entry::Integer),
            number if number.is_instance_of::<PyFloat>() => Some(Entry::Real),
            text if text.is_instance_of::<PyString>() => Some(Entry::Text),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Entry::Integer => "int",
            Entry::Real => "float",
            Entry::Text => "str",
        }
    }
}

fn text(object: &Bound<'_, PyAny>) -> PyResult<Arc<str>> {
    Ok(Arc::from(object.cast::<PyString>()?.to_str()?))
}

/// An INT64.
fn integer(object: &Bound<'_, PyAny>, what: &str) -> PyResult<i64> {
    object.extract().map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(object.py()) {
            true => {
                let text = format!("{what}: expected an int of 64 bits, got {object}");
                Class::ValueType.error(object.py(), text)
            }
            false => error,
        }
    })
}

/// The one type of `objects`, which the first of them tells.
fn one_type(
    objects: &[Bound<'_, PyAny>],
    accepted: &[Entry],
    what: &str,
) -> PyResult<Option<Entry>> {
    let Some(first) = objects.first() else {
        return Ok(None);
    };
    let py = first.py();
    let names: Vec<&str> = accepted.iter().map(|entry| entry.name()).collect();
    let known = Entry::of(first).filter(|entry| accepted.contains(entry));
    let expected = match known {
        Some(known) => known.name().to_string(),
        None => names.join(" or "),
    };
    for object in objects {
        if known.is_none() || Entry::of(object) != known {
            let got = class_of(object);
            let text = format!("{what}: expected {expected}, as the first says, got {got}");
            return Err(Class::ValueType.error(py, text));
        }
    }
    Ok(known)
}

/// Reads a dictionary. The first entry tells the types of all; an empty one is of integers.
///
/// # Errors
/// `ValueTypeError` when a key is not int or str, a value not int, float or str, or types are mixed.
pub(crate) fn read(name: &str, map: &Bound<'_, PyDict>) -> PyResult<MapValue> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (key, value) in map.iter() {
        keys.push(key);
        values.push(value);
    }
    let (of_keys, of_values) = (
        format!("keys of map `{name}`"),
        format!("values of map `{name}`"),
    );
    let numbers = |objects: &[Bound<'_, PyAny>], what: &str| {
        let numbers = objects.iter().map(|object| integer(object, what));
        numbers.collect::<PyResult<Vec<i64>>>()
    };
    let texts = |objects: &[Bound<'_, PyAny>]| {
        let texts = objects.iter().map(text);
        texts.collect::<PyResult<Vec<Arc<str>>>>()
    };
    let made_keys = match one_type(&keys, &[Entry::Integer, Entry::Text], &of_keys)? {
        Some(Entry::Text) => MapKeys::Texts(texts(&keys)?),
        _ => MapKeys::Integers(numbers(&keys, &of_keys)?),
    };
    let accepted = [Entry::Integer, Entry::Real, Entry::Text];
    let made_values = match one_type(&values, &accepted, &of_values)? {
        Some(Entry::Text) => MapValues::Texts(texts(&values)?),
        Some(Entry::Real) => {
            let reals = values.iter().map(|value| value.extract());
            MapValues::Reals(reals.collect::<PyResult<Vec<f64>>>()?)
        }
        _ => MapValues::Integers(numbers(&values, &of_values)?),
    };
    MapValue::new(made_keys, made_values).map_err(|error| error.into_py(map.py()))
}

/// The dictionary of a map, in the order in which it was given.
pub(crate) fn write<'py>(py: Python<'py>, map: &MapValue) -> PyResult<Bound<'py, PyDict>> {
    let keys: Vec<Bound<'py, PyAny>> = match map.keys() {
        MapKeys::Integers(keys) => keys
            .iter()
            .map(|key| Ok(key.into_pyobject(py)?.into_any()))
            .collect::<PyResult<_>>()?,
        MapKeys::Texts(keys) => keys
            .iter()
            .map(|key| PyString::new(py, key).into_any())
            .collect(),
    };
    let dict = PyDict::new(py);
    for (index, key) in keys.into_iter().enumerate() {
        match map.values() {
            MapValues::Integers(values) => dict.set_item(key, values[index])?,
            MapValues::Reals(values) => dict.set_item(key, values[index])?,
            MapValues::Texts(values) => dict.set_item(key, &*values[index])?,
        }
    }
    Ok(dict)
}
