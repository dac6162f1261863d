//! Lists of numbers, text and bytes.

use super::{Place, Repeated, too_deep};
use crate::onnx::scalar::to_value;
use crate::onnx::tree;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use refeed_proto::message::{FieldDescriptor, Kind, Text, Value};

/// A list of numbers, text or bytes.
#[pyclass(name = "RepeatedScalar", module = "refeed.onnx", extends = Repeated, frozen)]
pub(crate) struct RepeatedScalar;

/// The values of an iterable's items.
pub(super) fn values(
    field: &'static FieldDescriptor,
    items: &Bound<'_, PyAny>,
) -> PyResult<Vec<Value>> {
    let Ok(items) = items.try_iter() else {
        let got = items.get_type().fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!(
            "{}: must assign iterable, got {got}",
            field.name
        )));
    };
    items.map(|item| to_value(field, &item?)).collect()
}

/// Sets items.
fn assign(list: &Repeated, key: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = key.py();
    match list.place(key)? {
        Place::One(index) => {
            let value = to_value(list.field, item)?;
            list.splice(py, index..index + 1, vec![value])
        }
        Place::Run(run) => list.splice(py, run, values(list.field, item)?),
        Place::Steps(steps) => {
            let values = values(list.field, item)?;
            if values.len() != steps.len() {
                return Err(PyValueError::new_err(format!(
                    "attempt to assign sequence of size {} to extended slice of size {}",
                    values.len(),
                    steps.len()
                )));
            }
            for (index, value) in steps.into_iter().zip(values) {
                list.splice(py, index..index.saturating_add(1), vec![value])?;
            }
            Ok(())
        }
    }
}

#[pymethods]
impl RepeatedScalar {
    fn append(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, list) = (slf.py(), slf.as_super().get());
        if let (Kind::String, Ok(text)) = (list.field.kind, item.cast_exact::<PyString>())
            && let Ok(text) = text.to_str()
        {
            // Made where it stays: a value that is handed on is copied each time.
            let done = tree::with(py, |lock| {
                let value = Value::Text(Text::from(text));
                list.cell.append(lock, list.field.slot, value)
            });
            return done.map_err(|error| too_deep(py, error));
        }
        list.edited(py, || list.push(py, to_value(list.field, item)?))
    }

    fn extend(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<()> {
        let list = slf.as_super().get();
        list.edited(slf.py(), || {
            list.push_all(slf.py(), values(list.field, items)?)
        })
    }

    #[allow(non_snake_case)]
    fn MergeFrom(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<()> {
        RepeatedScalar::extend(slf, items)
    }

    fn insert(slf: &Bound<'_, Self>, index: isize, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let list = slf.as_super().get();
        list.edited(slf.py(), || {
            let value = to_value(list.field, item)?;
            let at = list.gap(slf.py(), index);
            list.splice(slf.py(), at..at, vec![value])
        })
    }

    // Beside `__setitem__`, whose slot it shares: the one of a base class would be hidden.
    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.as_super().get().delete(key)
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        item: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let list = slf.as_super().get();
        list.edited(slf.py(), || assign(list, key, item))
    }

    /// The numbers as a NumPy array of the field's own width.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let numpy = py.import("numpy")?;
        if copy == Some(false) {
            return Err(PyValueError::new_err(
                "a list of a message cannot become an array without a copy",
            ));
        }
        let list = slf.as_super().get();
        let numbers = tree::with(py, |lock| list.cell.numbers(lock, list.field.slot));
        let array = match numbers {
            Some((bytes, native)) => {
                let bytes = PyBytes::new(py, &bytes);
                numpy.call_method1("frombuffer", (bytes, native))?
            }
            None => {
                let options = PyDict::new(py);
                options.set_item("dtype", "object")?;
                numpy.call_method("array", (list.to_list(py)?,), Some(&options))?
            }
        };
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => array.call_method0("copy"),
        }
    }
}
