//! Lists of messages.

use super::{Repeated, too_deep};
use crate::onnx::{construct, message, tree};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use refeed_proto::message::{FieldDescriptor, FrozenMessage, MessageDescriptor, Value};
use std::sync::Arc;

/// A list of messages. An item that is added is copied: later edits of the original do not reach the list.
#[pyclass(name = "RepeatedComposite", module = "refeed.onnx", extends = Repeated, frozen)]
pub(crate) struct RepeatedComposite;

/// The message of an item, as it is now.
fn frozen(
    field: &'static FieldDescriptor,
    item: &Bound<'_, PyAny>,
) -> PyResult<Arc<FrozenMessage>> {
    let py = item.py();
    let cell = message::cell_of(item, kind_of(field)?)?;
    tree::with(py, |lock| cell.freeze(lock)).map_err(|error| too_deep(py, error))
}

fn kind_of(field: &'static FieldDescriptor) -> PyResult<&'static MessageDescriptor> {
    let message = field.kind.message();
    message.ok_or_else(|| PyTypeError::new_err(format!("{}: not a list of messages", field.name)))
}

/// The values of an iterable's items.
fn values(field: &'static FieldDescriptor, items: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
    let Ok(items) = items.try_iter() else {
        let got = items.get_type().fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!(
            "{}: expected an iterable of messages, got {got}",
            field.name
        )));
    };
    items
        .map(|item| frozen(field, &item?).map(Value::Message))
        .collect()
}

#[pymethods]
impl RepeatedComposite {
    #[pyo3(signature = (**fields))]
    fn add<'py>(
        slf: &Bound<'py, Self>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let list = slf.as_super().get();
        let slot = list.field.slot;
        let Some(fields) = fields else {
            let child = tree::with(py, |lock| list.cell.add(lock, slot));
            return message::wrap_new(py, child.map_err(|error| too_deep(py, error))?);
        };
        // Made before it joins the list, so that a wrong field adds nothing.
        let made = construct::message(kind_of(list.field)?, fields)?;
        list.push_message(py, made)
    }

    /// Gives the item in the list.
    fn append<'py>(
        slf: &Bound<'py, Self>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let list = slf.as_super().get();
        list.push_message(slf.py(), frozen(list.field, item)?)
    }

    fn extend(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<()> {
        let list = slf.as_super().get();
        list.edited(slf.py(), || {
            list.push_all(slf.py(), values(list.field, items)?)
        })
    }

    #[allow(non_snake_case)]
    fn MergeFrom(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<()> {
        RepeatedComposite::extend(slf, items)
    }

    fn insert(slf: &Bound<'_, Self>, index: isize, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let list = slf.as_super().get();
        list.edited(slf.py(), || {
            let value = Value::Message(frozen(list.field, item)?);
            let at = list.gap(slf.py(), index);
            list.splice(slf.py(), at..at, vec![value])
        })
    }

    // Beside `__setitem__`, whose slot it shares: the one of a base class would be hidden.
    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.as_super().get().delete(key)
    }

    #[allow(unused_variables)]
    fn __setitem__(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        item: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let list = slf.as_super().get();
        list.edited(slf.py(), || list.place(key))?;
        Err(PyTypeError::new_err(
            "a list of messages does not support assignment: use CopyFrom on the item, or del, insert and append",
        ))
    }
}
