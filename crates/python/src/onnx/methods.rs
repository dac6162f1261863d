//! The methods of one field: `has_name()`, `add_name()` for fields of one message, `raw_data_view()` for bytes.

use super::message::{self, Message};
use super::repeated::too_deep;
use super::tree;
use crate::interop::payload;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyType};
use refeed_proto::Bytes;
use refeed_proto::message::{FieldDescriptor, Kind, MessageDescriptor, Value};

/// What a method does.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    /// Tells whether the field has a value.
    Has,
    /// Gives the field an empty message.
    Add,
    /// Views the field's bytes where they are.
    View,
}

/// A method of a field, of a class or bound to a message.
#[pyclass(name = "FieldMethod", module = "refeed.onnx", frozen)]
pub(crate) struct FieldMethod {
    owner: &'static MessageDescriptor,
    field: &'static FieldDescriptor,
    op: Op,
    message: Option<Py<Message>>,
}

/// Adds the methods of a field to the class of its message.
pub(crate) fn add_to(
    class: &Bound<'_, PyType>,
    owner: &'static MessageDescriptor,
    field: &'static FieldDescriptor,
) -> PyResult<()> {
    let method = |op| FieldMethod {
        owner,
        field,
        op,
        message: None,
    };
    class.setattr(format!("has_{}", field.name), method(Op::Has))?;
    if field.kind.message().is_some() && !field.repeated {
        class.setattr(format!("add_{}", field.name), method(Op::Add))?;
    }
    if matches!(field.kind, Kind::Bytes) && !field.repeated {
        class.setattr(format!("{}_view", field.name), method(Op::View))?;
    }
    Ok(())
}

#[pymethods]
impl FieldMethod {
    fn __get__(
        slf: &Bound<'_, Self>,
        instance: &Bound<'_, PyAny>,
        owner: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<FieldMethod>> {
        let _ = owner;
        if instance.is_none() {
            return Ok(slf.clone().unbind());
        }
        let method = slf.get();
        let bound = FieldMethod {
            message: Some(instance.cast::<Message>()?.clone().unbind()),
            ..*method
        };
        Py::new(slf.py(), bound)
    }

    #[pyo3(signature = (message = None, /))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        message: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cell = match (&self.message, message) {
            (Some(message), None) => message.get().cell(py)?,
            (None, Some(message)) => message::cell_of(message, self.owner)?,
            (Some(_), Some(_)) => {
                let name = self.__name__();
                return Err(PyTypeError::new_err(format!("{name}() takes no arguments")));
            }
            (None, None) => {
                let (name, owner) = (self.__name__(), self.owner.name);
                return Err(PyTypeError::new_err(format!(
                    "{name}() needs a {owner} as its argument"
                )));
            }
        };
        let slot = self.field.slot;
        match self.op {
            Op::Has => {
                let has = tree::with(py, |lock| cell.has(lock, slot));
                Ok(PyBool::new(py, has).to_owned().into_any())
            }
            Op::Add => {
                let child = tree::with(py, |lock| {
                    cell.clear_field(lock, slot);
                    let child = cell.child(lock, slot)?;
                    child.set_present(lock);
                    Ok(child)
                });
                message::wrap(py, child.map_err(|error| too_deep(py, error))?)
            }
            Op::View => {
                let bytes = match tree::with(py, |lock| cell.get(lock, slot)) {
                    Value::Bytes(payload) => payload.bytes().clone(),
                    _ => Bytes::new(),
                };
                Ok(payload::view(py, bytes)?.into_any())
            }
        }
    }

    #[getter]
    fn __name__(&self) -> String {
        let field = self.field.name;
        match self.op {
            Op::Has => format!("has_{field}"),
            Op::Add => format!("add_{field}"),
            Op::View => format!("{field}_view"),
        }
    }

    /// What `inspect.signature` says.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inspect = py.import("inspect")?;
        let parameters = PyList::empty(py);
        if self.message.is_none() {
            let class = inspect.getattr("Parameter")?;
            let kind = class.getattr("POSITIONAL_OR_KEYWORD")?;
            parameters.append(class.call1(("self", kind))?)?;
        }
        inspect.getattr("Signature")?.call1((parameters,))
    }

    #[getter]
    fn __text_signature__(&self) -> &'static str {
        if self.message.is_none() {
            "(self)"
        } else {
            "()"
        }
    }

    #[getter]
    fn __doc__(&self) -> String {
        let field = self.field.name;
        match self.op {
            Op::Has => format!("Whether `{field}` has a value."),
            Op::Add => format!("Gives `{field}` an empty message and returns it."),
            Op::View => format!("A read-only view of `{field}` where it lies: nothing is copied."),
        }
    }

    fn __repr__(&self) -> String {
        format!("<method {} of {}>", self.__name__(), self.owner.full_name)
    }
}
