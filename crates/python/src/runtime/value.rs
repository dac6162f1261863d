//! Values of every kind between Python and the runtime: arrays and `Tensor`s, dictionaries, lists, messages.

use crate::error::{Class, class_of};
use crate::interop::{self, Refused};
use crate::runtime::message;
use crate::runtime::strings::{self, PyStringTensor};
use crate::runtime::tensor::{PyTensor, Warned};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use refeed_graph::Model;
use refeed_graph::values::Catalogues;
use refeed_values::{MAX_DEPTH, RuntimeSequence, RuntimeValue, StructValue};
use std::fmt::Display;

/// Most values that one dictionary of values may hold, all levels together. A few small dictionaries that hold each other
/// several times can stand for more values than any memory has.
const MAX_VALUES: usize = 1 << 22;

/// Reads the values of one dictionary of feeds or initial values: a dictionary is a struct, a list a sequence, messages
/// are encoded values and paged caches, anything else must be a tensor. Payloads are shared.
///
/// What messages refer to is looked up in the catalogues of the model, which are built once.
pub(crate) struct Reader<'m> {
    role: &'static str,
    model: Option<&'m Model>,
    left: usize,
}

impl<'m> Reader<'m> {
    /// A reader for values that are called `role` in messages. Without a model no reference can be followed.
    pub(crate) fn new(role: &'static str, model: Option<&'m Model>) -> Reader<'m> {
        Reader {
            role,
            model,
            left: MAX_VALUES,
        }
    }

    /// Reads a value. Errors say where in it they lie: ``feed `cache.blocks[3].key` ``.
    ///
    /// # Errors
    /// `TypeError` for objects that stand for no value, keys that are no text, arrays that are not contiguous or not on
    /// the CPU; `ValueTypeError` for values nested too deep, element types that the runtime has not, messages that break
    /// a rule or refer to nothing.
    pub(crate) fn read(
        &mut self,
        value: &Bound<'_, PyAny>,
        name: &Bound<'_, PyString>,
    ) -> PyResult<RuntimeValue> {
        let mut walk = Walk {
            reader: self,
            name,
            path: Vec::new(),
        };
        walk.value(value)
    }

    /// What messages of the model refer to.
    fn catalogues(&self, py: Python<'_>) -> PyResult<Catalogues> {
        match self.model {
            Some(model) => crate::run::detached(py, || model.catalogues().cloned()),
            None => Ok(Catalogues::default()),
        }
    }
}

enum Step {
    Field(String),
    Index(usize),
}

/// One value while it is read.
struct Walk<'w, 'm, 'py> {
    reader: &'w mut Reader<'m>,
    name: &'w Bound<'py, PyString>,
    path: Vec<Step>,
}

impl Walk<'_, '_, '_> {
    fn place(&self) -> String {
        let mut text = self.name.to_string_lossy().into_owned();
        for step in &self.path {
            match step {
                Step::Field(field) => {
                    text.push('.');
                    text.push_str(field);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    fn refuse(&self, py: Python<'_>, why: impl Display) -> PyErr {
        let text = format!("{} `{}`: {why}", self.reader.role, self.place());
        Class::ValueType.error(py, text)
    }

    fn value(&mut self, value: &Bound<'_, PyAny>) -> PyResult<RuntimeValue> {
        #[cfg(feature = "testing")]
        crate::testing::convert(refeed_runtime::testing::Site::FromPython)?;
        let py = value.py();
        self.reader.left = match self.reader.left.checked_sub(1) {
            Some(left) => left,
            None => {
                let why = format!("more than {MAX_VALUES} values in one dictionary");
                return Err(self.refuse(py, why));
            }
        };
        if let Ok(fields) = value.cast::<PyDict>() {
            return self.structure(fields);
        }
        if let Ok(elements) = value.cast::<PyList>() {
            return self.sequence(elements);
        }
        if let Some(unchanged) = message::unchanged(value) {
            return Ok(unchanged);
        }
        let refused = match interop::tensor(value) {
            Ok(tensor) => return Ok(tensor.into()),
            Err(refused) => refused,
        };
        if let Refused::Kind(_) = refused {
            let catalogues = self.reader.catalogues(py)?;
            let read = message::read(value, &catalogues);
            if let Some(read) = read.map_err(|error| self.named(py, error))? {
                return Ok(read);
            }
        }
        if let Refused::Kind(_) | Refused::Value(_) = refused
            && let Some(strings) = strings::read(value).map_err(|error| self.named(py, error))?
        {
            return Ok(strings.into());
        }
        match refused {
            // An exception of the object's own stays what it is, and is told where it happened.
            Refused::Python(error) => {
                let note = format!("while reading {} `{}`", self.reader.role, self.place());
                let value = error.value(py);
                if value.hasattr("add_note")? {
                    value.call_method1("add_note", (note,))?;
                }
                Err(error)
            }
            refused => Err(refused.named(py, self.reader.role, &self.place())),
        }
    }

    /// An error of a message, with its place in the value.
    fn named(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<PyValueError>(py) && !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        let text = format!(
            "{} `{}`: {}",
            self.reader.role,
            self.place(),
            error.value(py)
        );
        match error.is_instance_of::<PyTypeError>(py) {
            true => PyTypeError::new_err(text),
            false => Class::ValueType.error(py, text),
        }
    }

    fn below(&self, py: Python<'_>) -> PyResult<()> {
        if self.path.len() < MAX_DEPTH {
            return Ok(());
        }
        let why = format!("nested deeper than {MAX_DEPTH}, or it contains itself");
        Err(self.refuse(py, why))
    }

    fn structure(&mut self, fields: &Bound<'_, PyDict>) -> PyResult<RuntimeValue> {
        let py = fields.py();
        self.below(py)?;
        // A conversion may run Python code, which must not meet a dictionary that is being walked.
        let items: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = fields.iter().collect();
        let mut read = Vec::with_capacity(items.len());
        for (key, field) in items {
            let Ok(key) = key.cast::<PyString>() else {
                let kind = class_of(&key);
                let (role, place) = (self.reader.role, self.place());
                return Err(PyTypeError::new_err(format!(
                    "{role} `{place}`: expected names as keys, got {kind}"
                )));
            };
            let key = key.to_str()?.to_string();
            self.path.push(Step::Field(key.clone()));
            let field = self.value(&field)?;
            self.path.pop();
            read.push((key, field));
        }
        let read = StructValue::new(read).map_err(|error| self.refuse(py, error))?;
        Ok(read.into())
    }

    fn sequence(&mut self, elements: &Bound<'_, PyList>) -> PyResult<RuntimeValue> {
        let py = elements.py();
        self.below(py)?;
        let mut read = Vec::with_capacity(elements.len().min(self.reader.left));
        for (index, element) in elements.iter().enumerate() {
            self.path.push(Step::Index(index));
            read.push(self.value(&element)?);
            self.path.pop();
        }
        let read = RuntimeSequence::from_values(read).map_err(|error| self.refuse(py, error))?;
        Ok(read.into())
    }
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
    #[cfg(feature = "testing")]
    crate::testing::convert(refeed_runtime::testing::Site::ToPython)?;
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
        RuntimeValue::Strings(strings) => {
            let strings = PyStringTensor::new(strings, name.clone_ref(py));
            Ok(Bound::new(py, strings)?.into_any())
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
