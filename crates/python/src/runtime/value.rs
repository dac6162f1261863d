//! Values of every kind between Python and the runtime: arrays and `Tensor`s, dictionaries, lists.

use crate::error::Class;
use crate::interop;
use crate::runtime::message;
use crate::runtime::tensor::{PyTensor, Warned};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use refeed_values::{MAX_DEPTH, RuntimeSequence, RuntimeValue, StructValue};

/// Reads a value: a dictionary is a struct, a list a sequence, anything else must be a tensor. Payloads are shared.
///
/// Errors say where in the value they lie: ``feed `cache.blocks[3].key` ``.
///
/// # Errors
/// When something in the value has no form in the runtime.
pub(crate) fn read(
    value: &Bound<'_, PyAny>,
    role: &str,
    name: &Bound<'_, PyString>,
) -> PyResult<RuntimeValue> {
    if value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>() {
        return nested(value, role, &name.to_string_lossy(), MAX_DEPTH);
    }
    match interop::tensor(value) {
        Ok(tensor) => Ok(tensor.into()),
        Err(refused) => Err(refused.named(value.py(), role, &name.to_string_lossy())),
    }
}

fn nested(
    value: &Bound<'_, PyAny>,
    role: &str,
    path: &str,
    depth: usize,
) -> PyResult<RuntimeValue> {
    let py = value.py();
    let below = || {
        depth.checked_sub(1).ok_or_else(|| {
            let text = format!("{role} `{path}`: nested deeper than {MAX_DEPTH}");
            Class::ValueType.error(py, text)
        })
    };
    let refused = |error| Class::ValueType.error(py, format_args!("{role} `{path}`: {error}"));
    if let Ok(fields) = value.cast::<PyDict>() {
        let below = below()?;
        let mut read = Vec::with_capacity(fields.len());
        for (key, field) in fields {
            let Ok(key) = key.cast::<PyString>() else {
                let kind = key.get_type();
                return Err(PyTypeError::new_err(format!(
                    "{role} `{path}`: expected names as keys, got {kind}"
                )));
            };
            let key = key.to_str()?.to_string();
            let field = nested(&field, role, &format!("{path}.{key}"), below)?;
            read.push((key, field));
        }
        return Ok(StructValue::new(read).map_err(refused)?.into());
    }
    if let Ok(elements) = value.cast::<PyList>() {
        let below = below()?;
        let mut read = RuntimeSequence::default();
        for (index, element) in elements.iter().enumerate() {
            let element = nested(&element, role, &format!("{path}[{index}]"), below)?;
            read.push(element).map_err(refused)?;
        }
        return Ok(read.into());
    }
    let tensor = interop::tensor(value).map_err(|refused| refused.named(py, role, path))?;
    Ok(tensor.into())
}

/// Makes the Python form of a value; payloads are shared. `name` is what tensors are called. Caches and encoded values
/// are messages, other structs dictionaries, sequences lists.
///
/// # Errors
/// When Python cannot make an object.
pub(crate) fn write<'py>(
    py: Python<'py>,
    value: RuntimeValue,
    name: &Py<PyString>,
    warned: &Warned,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(message) = message::write(py, &value)? {
        return Ok(message);
    }
    match value {
        RuntimeValue::Tensor(tensor) => {
            let tensor = PyTensor::new(tensor, name.clone_ref(py), warned.clone());
            Ok(Bound::new(py, tensor)?.into_any())
        }
        RuntimeValue::Struct(fields) => {
            let dict = PyDict::new(py);
            for (key, field) in fields.iter() {
                let key = PyString::new(py, key);
                let field = write(py, field.clone(), &key.clone().unbind(), warned)?;
                dict.set_item(key, field)?;
            }
            Ok(dict.into_any())
        }
        RuntimeValue::Sequence(elements) => {
            let list = PyList::empty(py);
            for element in elements.iter() {
                list.append(write(py, element.clone(), name, warned)?)?;
            }
            Ok(list.into_any())
        }
        other => {
            Err(Class::ValueType.error(py, format_args!("{} has no form in Python", other.kind())))
        }
    }
}

/// Values by name, as results are returned.
pub(crate) fn named<'py>(
    py: Python<'py>,
    names: &[Py<PyString>],
    values: Vec<RuntimeValue>,
    warned: &Warned,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in names.iter().zip(values) {
        dict.set_item(name.bind(py), write(py, value, name, warned)?)?;
    }
    Ok(dict)
}
