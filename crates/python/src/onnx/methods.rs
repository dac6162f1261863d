//! The methods of one field: `has_name()` and, for fields of one message, `add_name()`.

use super::message::{self, Message};
use super::repeated::too_deep;
use super::tree;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};
use refeed_proto::message::{FieldDescriptor, MessageDescriptor};

/// What a method does.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    /// Tells whether the field has a value.
    Has,
    /// Gives the field an empty message.
    Add,
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
            (Some(message), None) => message.get().cell().clone(),
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
        if self.op == Op::Has {
            let has = tree::with(|lock| cell.has(lock, slot));
            return Ok(PyBool::new(py, has).to_owned().into_any());
        }
        let child = tree::with(|lock| {
            cell.clear_field(lock, slot);
            let child = cell.child(lock, slot)?;
            child.set_present(lock);
            Ok(child)
        });
        message::wrap(py, child.map_err(|error| too_deep(py, error))?)
    }

    #[getter]
    fn __name__(&self) -> String {
        let verb = match self.op {
            Op::Has => "has",
            Op::Add => "add",
        };
        format!("{verb}_{}", self.field.name)
    }

    #[getter]
    fn __doc__(&self) -> String {
        match self.op {
            Op::Has => format!("Whether `{}` has a value.", self.field.name),
            Op::Add => format!(
                "Gives `{}` an empty message and returns it.",
                self.field.name
            ),
        }
    }

    fn __repr__(&self) -> String {
        format!("<method {} of {}>", self.__name__(), self.owner.full_name)
    }
}
