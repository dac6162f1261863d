//! Feeds by name: a dictionary becomes tensors by input position, and results become a dictionary.

use crate::error::{Class, class_of};
use crate::runtime::value::Reader;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use refeed_graph::Model;
use refeed_graph::types::ValueInfo;
use refeed_values::RuntimeValue;
use smallvec::SmallVec;

/// Feeds of one call, by input position.
pub(crate) type Feeds = SmallVec<[(usize, RuntimeValue); 4]>;

/// The names of a graph's inputs and outputs as Python strings. They are interned, as literal keys are, so most names are
/// found by their address.
pub(crate) struct Names {
    pub(crate) inputs: Vec<Py<PyString>>,
    pub(crate) outputs: Vec<Py<PyString>>,
    /// What values that are fed refer to.
    model: Model,
}

impl Names {
    pub(crate) fn new(py: Python<'_>, model: &Model) -> Names {
        let list = |values: &[ValueInfo]| {
            values
                .iter()
                .map(|value| PyString::intern(py, &value.name).unbind())
                .collect()
        };
        Names {
            inputs: list(model.inputs()),
            outputs: list(model.outputs()),
            model: model.clone(),
        }
    }

    fn position(&self, name: &Bound<'_, PyString>) -> PyResult<Option<usize>> {
        let by_address = self
            .inputs
            .iter()
            .position(|held| held.as_ptr() == name.as_ptr());
        if by_address.is_some() {
            return Ok(by_address);
        }
        let text = name.to_str()?;
        for (position, held) in self.inputs.iter().enumerate() {
            if held.bind(name.py()).to_str()? == text {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Reads feeds into `read`, which is large and so stays where the caller has it.
    ///
    /// # Errors
    /// When `feeds` is no mapping from names to tensors, or a name is no graph input.
    pub(crate) fn read(&self, feeds: &Bound<'_, PyAny>, read: &mut Feeds) -> PyResult<()> {
        let mut reader = Reader::new("feed", Some(&self.model));
        each(feeds, "feeds", |key, value| {
            let Some(position) = self.position(&key)? else {
                let text = format!("unknown graph input `{}`", key.to_string_lossy());
                return Err(Class::ValueType.error(key.py(), text));
            };
            let value = reader.read(&value, &key)?;
            read.push((position, value));
            Ok(())
        })
    }
}

/// Values by name, for initial values of a model.
pub(crate) fn values(
    values: &Bound<'_, PyAny>,
    role: &'static str,
    model: &Model,
) -> PyResult<Vec<(String, RuntimeValue)>> {
    let mut reader = Reader::new(role, Some(model));
    let mut read = Vec::new();
    each(values, role, |key, value| {
        let name = key.to_str()?.to_string();
        let value = reader.read(&value, &key)?;
        read.push((name, value));
        Ok(())
    })?;
    Ok(read)
}

fn each<'py>(
    mapping: &Bound<'py, PyAny>,
    role: &str,
    mut visit: impl FnMut(Bound<'py, PyString>, Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let mut entry = |key: Bound<'py, PyAny>, value| match key.cast_into::<PyString>() {
        Ok(key) => visit(key, value),
        Err(error) => {
            let kind = class_of(&error.into_inner());
            Err(PyTypeError::new_err(format!(
                "{role}: expected names as keys, got {kind}"
            )))
        }
    };
    if let Ok(dict) = mapping.cast::<PyDict>() {
        // A conversion may run Python code, which must not meet a dictionary that is being walked.
        let items: SmallVec<[(Bound<'py, PyAny>, Bound<'py, PyAny>); 8]> = dict.iter().collect();
        return items
            .into_iter()
            .try_for_each(|(key, value)| entry(key, value));
    }
    let Ok(mapping) = mapping.cast::<PyMapping>() else {
        let kind = class_of(mapping);
        return Err(PyTypeError::new_err(format!(
            "{role}: expected a dict, got {kind}"
        )));
    };
    for item in mapping.items()?.iter() {
        let (key, value) = item.extract()?;
        entry(key, value)?;
    }
    Ok(())
}
