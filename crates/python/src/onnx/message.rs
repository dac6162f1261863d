//! `Message`: what every message can do.

use super::descriptor::FieldDescriptor;
use super::repeated::{self, too_deep};
use super::{classes, fields, scalar, tree, wire};
use crate::interop::{attributes, handle};
use crate::run;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyString, PyType};
use refeed_proto::message::{
    self, DecodeLimits, EditableMessage, FrozenMessage, Kind, MessageDescriptor, OneofDescriptor,
};
use std::borrow::Cow;
use std::sync::Arc;

/// The base of all messages.
#[pyclass(name = "Message", module = "refeed.onnx", subclass, frozen)]
pub(crate) struct Message {
    cell: Arc<EditableMessage>,
}

impl Drop for Message {
    fn drop(&mut self) {
        handle::forget(&self.cell);
    }
}

/// The object that stands for a message: always the same one, for as long as somebody holds it.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn wrap(py: Python<'_>, cell: Arc<EditableMessage>) -> PyResult<Bound<'_, PyAny>> {
    if let Some(object) = handle::object_of(py, &cell) {
        return Ok(object.into_any());
    }
    let object = classes::make(py, Message { cell })?;
    handle::put(&object);
    Ok(object.into_any())
}

/// The message behind a Python object.
///
/// # Errors
/// `TypeError` when it is not a message of this descriptor.
pub(crate) fn cell_of(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Arc<EditableMessage>> {
    match object.cast::<Message>() {
        Ok(message) if message.get().cell.descriptor() == descriptor => {
            Ok(message.get().cell.clone())
        }
        _ => Err(wrong_class("Parameter", object, descriptor)),
    }
}

fn wrong_class(
    what: &str,
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyErr {
    let expected = classes::class_of(object.py(), descriptor);
    let got = object.get_type();
    PyTypeError::new_err(format!(
        "{what} must be instance of same class: expected {expected} got {got}."
    ))
}

/// Sets fields from keywords: `None` leaves a field alone, messages may be dictionaries, enum values their names.
///
/// # Errors
/// `ValueError` for a name that is no field, `TypeError` and `ValueError` for values that do not fit.
pub(crate) fn fill(cell: &Arc<EditableMessage>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = fields.py();
    for (name, value) in fields {
        let field = field_named(cell.descriptor(), &name)?;
        if value.is_none() {
            continue;
        }
        match field.kind {
            _ if field.repeated => repeated::assign(cell, field, &value)?,
            Kind::Message(descriptor) => {
                let message = frozen_or_fields(&value, descriptor)?;
                tree::with(|lock| {
                    let child = cell.child(lock, field.slot)?;
                    child.replace(lock, message)
                })
                .map_err(|error| too_deep(py, error))?;
            }
            _ => {
                let value = scalar::to_value(field, &value)?;
                tree::with(|lock| cell.set(lock, field.slot, value))
                    .map_err(|error| too_deep(py, error))?;
            }
        }
    }
    Ok(())
}

/// A message, or a dictionary of its fields, as it is now.
fn frozen_or_fields(
    object: &Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<Arc<FrozenMessage>> {
    let cell = match object.cast::<PyDict>() {
        Ok(fields) => {
            let cell = EditableMessage::new(descriptor);
            fill(&cell, fields)?;
            cell
        }
        Err(_) => match object.cast::<Message>() {
            Ok(message) if message.get().cell.descriptor() == descriptor => {
                message.get().cell.clone()
            }
            _ => {
                let what = "Parameter to initialize message field must be dict or";
                let expected = classes::class_of(object.py(), descriptor);
                let got = object.get_type();
                return Err(PyTypeError::new_err(format!(
                    "{what} instance of same class: expected {expected} got {got}."
                )));
            }
        },
    };
    tree::with(|lock| cell.freeze(lock)).map_err(|error| too_deep(object.py(), error))
}

/// The field of a name given in Python.
fn field_named(
    descriptor: &'static MessageDescriptor,
    name: &Bound<'_, PyAny>,
) -> PyResult<&'static message::FieldDescriptor> {
    let text = name.cast::<PyString>()?.to_cow()?;
    match descriptor.field(&text) {
        Some(field) if !field.retired => Ok(field),
        _ if was_retired(descriptor, &text) => Err(PyTypeError::new_err(format!(
            "{}: the field \"{text}\" was retired: a binding covers a whole input and a whole output",
            descriptor.full_name
        ))),
        _ => Err(no_field(descriptor, &text)),
    }
}

/// Whether a message once had a field of this name; the schema keeps it as `retired_` and the name.
fn was_retired(descriptor: &MessageDescriptor, name: &str) -> bool {
    let mut retired = descriptor.fields.iter().filter(|field| field.retired);
    retired.any(|field| field.name.strip_prefix("retired_") == Some(name))
}

fn no_field(descriptor: &'static MessageDescriptor, name: &str) -> PyErr {
    PyValueError::new_err(format!(
        "Protocol message {} has no \"{name}\" field.",
        descriptor.name
    ))
}

impl Message {
    /// A message of the given fields.
    pub(crate) fn with_fields(
        descriptor: &'static MessageDescriptor,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Message> {
        let cell = EditableMessage::new(descriptor);
        if let Some(fields) = fields {
            fill(&cell, fields)?;
        }
        Ok(Message { cell })
    }

    /// The message itself.
    pub(crate) fn cell(&self) -> &Arc<EditableMessage> {
        &self.cell
    }

    /// The message as it is now.
    pub(crate) fn frozen(&self, py: Python<'_>) -> PyResult<Arc<FrozenMessage>> {
        tree::with(|lock| self.cell.freeze(lock)).map_err(|error| too_deep(py, error))
    }
}

/// What a name given in Python names.
enum Named {
    Field(&'static message::FieldDescriptor),
    Oneof(&'static OneofDescriptor),
}

impl Message {
    fn named(&self, name: &Bound<'_, PyAny>) -> PyResult<Named> {
        let text = field_name(name)?;
        let descriptor = self.cell.descriptor();
        match descriptor.field(&text) {
            Some(field) if !field.retired => Ok(Named::Field(field)),
            _ => match descriptor.oneof(&text) {
                Some(oneof) => Ok(Named::Oneof(oneof)),
                None => Err(no_field(descriptor, &text)),
            },
        }
    }

    /// The exception for an attribute that cannot be set.
    fn explain(&self, py: Python<'_>, name: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let is_field = match name.cast::<PyString>().map(|name| name.to_cow()) {
            Ok(Ok(name)) => {
                let field = self.cell.descriptor().field(&name);
                field.is_some_and(|field| !field.retired)
            }
            _ => return error,
        };
        if is_field || !error.is_instance_of::<PyAttributeError>(py) {
            return error;
        }
        let class = self.cell.descriptor().name;
        PyAttributeError::new_err(format!("Protocol message {class} has no \"{name}\" field."))
    }

    fn same_class(&self, function: &str, other: &Bound<'_, PyAny>) -> PyResult<Arc<FrozenMessage>> {
        let descriptor = self.cell.descriptor();
        match other.cast::<Message>() {
            Ok(other) if other.get().cell.descriptor() == descriptor => {
                other.get().frozen(other.py())
            }
            _ => Err(wrong_class(
                &format!("Parameter to {function}()"),
                other,
                descriptor,
            )),
        }
    }
}

/// A name as protobuf takes it: `str`, or `bytes` in UTF-8.
fn field_name<'a>(name: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = name.cast::<PyString>() {
        return text.to_cow();
    }
    if let Ok(bytes) = name.cast::<PyBytes>()
        && let Ok(text) = std::str::from_utf8(bytes.as_bytes())
    {
        return Ok(Cow::Borrowed(text));
    }
    let got = name.str()?;
    Err(PyValueError::new_err(format!(
        "Expected a field name, but got non-string argument {got}."
    )))
}

#[pymethods]
impl Message {
    // Names as in protobuf's interface.
    #![allow(non_snake_case)]

    fn HasField(&self, field_name: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.named(field_name)? {
            Named::Field(field) if field.repeated => Err(PyValueError::new_err(format!(
                "Field {}.{} does not have presence.",
                self.cell.descriptor().full_name,
                field.name
            ))),
            Named::Field(field) => Ok(tree::with(|lock| self.cell.has(lock, field.slot))),
            Named::Oneof(oneof) => {
                let member = tree::with(|lock| self.cell.which_oneof(lock, oneof.fields));
                Ok(member.is_some())
            }
        }
    }

    fn ClearField(&self, field_name: &Bound<'_, PyAny>) -> PyResult<()> {
        let named = self.named(field_name)?;
        tree::with(|lock| {
            let slot = match named {
                Named::Field(field) => Some(field.slot),
                Named::Oneof(oneof) => self.cell.which_oneof(lock, oneof.fields),
            };
            if let Some(slot) = slot {
                self.cell.clear_field(lock, slot);
            }
        });
        Ok(())
    }

    fn WhichOneof(&self, oneof_group: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
        let text = field_name(oneof_group)?;
        let descriptor = self.cell.descriptor();
        let oneof = descriptor.oneof(&text);
        let oneof = oneof.ok_or_else(|| no_field(descriptor, &text))?;
        let member = tree::with(|lock| self.cell.which_oneof(lock, oneof.fields));
        Ok(member.map(|slot| descriptor.fields[usize::from(slot)].name))
    }

    /// The fields that have a value, in the order of their numbers.
    fn ListFields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let descriptor = self.cell.descriptor();
        let slots = descriptor.by_number.iter().copied();
        let present: Vec<u16> =
            tree::with(|lock| slots.filter(|&slot| self.cell.has(lock, slot)).collect());
        let list = PyList::empty(py);
        for slot in present {
            let field = &descriptor.fields[usize::from(slot)];
            if !field.retired {
                let value = fields::get(py, &self.cell, field)?;
                list.append((FieldDescriptor::new(descriptor, field), value))?;
            }
        }
        Ok(list)
    }

    fn Clear(&self) {
        tree::with(|lock| self.cell.clear(lock));
    }

    fn CopyFrom(&self, other_msg: &Bound<'_, PyAny>) -> PyResult<()> {
        let other = self.same_class("CopyFrom", other_msg)?;
        tree::with(|lock| self.cell.replace(lock, other))
            .map_err(|error| too_deep(other_msg.py(), error))
    }

    fn MergeFrom(&self, other_msg: &Bound<'_, PyAny>) -> PyResult<()> {
        let other = self.same_class("MergeFrom", other_msg)?;
        tree::with(|lock| self.cell.merge(lock, &other))
            .map_err(|error| too_deep(other_msg.py(), error))
    }

    fn SetInParent(&self) {
        tree::with(|lock| self.cell.set_present(lock));
    }

    fn DiscardUnknownFields(&self) {
        tree::with(|lock| self.cell.clear_unknown(lock));
    }

    // No field of the schema is required.
    #[pyo3(signature = (errors = None))]
    #[allow(unused_variables)]
    fn IsInitialized(&self, errors: Option<&Bound<'_, PyAny>>) -> bool {
        true
    }

    fn FindInitializationErrors(&self) -> Vec<String> {
        Vec::new()
    }

    #[pyo3(signature = (options = None, *, deterministic = None))]
    fn SerializeToString<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyAny>>,
        deterministic: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        // There are no maps: what is written is always the same.
        let _ = (options, deterministic);
        wire::encode(py, &*self.frozen(py)?)
    }

    #[pyo3(signature = (options = None, *, deterministic = None))]
    fn SerializePartialToString<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyAny>>,
        deterministic: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.SerializeToString(py, options, deterministic)
    }

    fn ByteSize(&self, py: Python<'_>) -> PyResult<usize> {
        let frozen = self.frozen(py)?;
        run::attached(py, || frozen.encoded_len())
    }

    #[pyo3(signature = (data, options = None))]
    fn ParseFromString(
        &self,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let _ = options;
        let py = data.py();
        let wire = wire::bytes_of(data)?;
        let size = wire.len();
        let message = wire::decode(py, self.cell.descriptor(), wire, &DecodeLimits::default())?;
        tree::with(|lock| self.cell.replace(lock, message)).map_err(|error| too_deep(py, error))?;
        Ok(size)
    }

    fn MergeFromString(&self, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = data.py();
        let wire = wire::bytes_of(data)?;
        let size = wire.len();
        let message = wire::decode(py, self.cell.descriptor(), wire, &DecodeLimits::default())?;
        tree::with(|lock| self.cell.merge(lock, &message)).map_err(|error| too_deep(py, error))?;
        Ok(size)
    }

    #[classmethod]
    fn FromString<'py>(
        cls: &Bound<'py, PyType>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let descriptor = classes::descriptor_of(cls)?;
        let wire = wire::bytes_of(data)?;
        let message = wire::decode(cls.py(), descriptor, wire, &DecodeLimits::default())?;
        wrap(cls.py(), EditableMessage::from_frozen(message))
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let equal = match (op, other.cast::<Message>()) {
            (CompareOp::Eq | CompareOp::Ne, Ok(other))
                if other.get().cell.descriptor() == self.cell.descriptor() =>
            {
                *self.frozen(py)? == *other.get().frozen(py)?
            }
            _ => return Ok(py.NotImplemented().into_bound(py)),
        };
        let answer = equal == matches!(op, CompareOp::Eq);
        Ok(PyBool::new(py, answer).to_owned().into_any())
    }

    fn __setattr__(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        attributes::set(slf, name, value).map_err(|error| slf.get().explain(slf.py(), name, error))
    }

    fn __delattr__(&self, name: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = name;
        Err(PyAttributeError::new_err("Cannot delete field attribute"))
    }

    fn __copy__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        wrap(py, EditableMessage::from_frozen(self.frozen(py)?))
    }

    fn __deepcopy__<'py>(&self, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.__copy__(memo.py())
    }
}
