//! `Message`: what every message can do.

use super::deferred::Origin;
use super::descriptor::FieldDescriptor;
use super::options::{self, ParseOptions, SerializeOptions, SerializeSizeResult};
use super::repeated::too_deep;
use super::{classes, construct, fields, files, pickle, summary, tree, unknown, wire};
use crate::error::Class;
use crate::interop::handle::LastList;
use crate::interop::{attributes, handle};
use crate::run;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use refeed_proto::message::{
    self, DecodeLimits, EditableMessage, FrozenMessage, MessageDescriptor, OneofDescriptor,
};
use refeed_values::RuntimeValue;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The base of all messages.
#[pyclass(name = "Message", module = "refeed.onnx", subclass, frozen)]
pub(crate) struct Message {
    descriptor: &'static MessageDescriptor,
    cell: OnceLock<Arc<EditableMessage>>,
    /// What the message is made of when it is first looked at, for one that was handed out before it was made.
    origin: Option<Origin>,
    last_list: LastList,
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.get() {
            handle::forget(cell);
        }
    }
}

/// The object of a message that nobody has been given yet.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn wrap_new(py: Python<'_>, cell: Arc<EditableMessage>) -> PyResult<Bound<'_, PyAny>> {
    let object = classes::make(py, Message::of(cell))?;
    handle::put(&object);
    Ok(object.into_any())
}

/// The object that stands for a message: always the same one, for as long as somebody holds it.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn wrap(py: Python<'_>, cell: Arc<EditableMessage>) -> PyResult<Bound<'_, PyAny>> {
    if let Some(object) = handle::object_of(py, &cell) {
        return Ok(object.into_any());
    }
    wrap_new(py, cell)
}

/// The object of a message that is made of a value when it is first looked at. Nobody else has that message: it is not
/// a part of another one, so that the object is found by whoever holds it alone.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn wrap_deferred<'py>(
    py: Python<'py>,
    descriptor: &'static MessageDescriptor,
    origin: Origin,
) -> PyResult<Bound<'py, PyAny>> {
    let message = Message {
        descriptor,
        cell: OnceLock::new(),
        origin: Some(origin),
        last_list: LastList::default(),
    };
    Ok(classes::make(py, message)?.into_any())
}

/// The message behind a Python object.
///
/// # Errors
/// `TypeError` when it is not a message of this descriptor; why a deferred message cannot be made.
pub(crate) fn cell_of<'a>(
    object: &'a Bound<'_, PyAny>,
    descriptor: &'static MessageDescriptor,
) -> PyResult<&'a Arc<EditableMessage>> {
    match object.cast::<Message>() {
        Ok(message) if message.get().descriptor == descriptor => message.get().cell(object.py()),
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

impl Message {
    /// A message of the given fields.
    pub(crate) fn with_fields(
        descriptor: &'static MessageDescriptor,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Message> {
        let cell = match fields {
            Some(fields) => EditableMessage::from_frozen(construct::message(descriptor, fields)?),
            None => EditableMessage::new(descriptor),
        };
        Ok(Message::of(cell))
    }

    fn of(cell: Arc<EditableMessage>) -> Message {
        Message {
            descriptor: cell.descriptor(),
            cell: OnceLock::from(cell),
            origin: None,
            last_list: LastList::default(),
        }
    }

    /// What kind of message this is.
    pub(crate) fn descriptor(&self) -> &'static MessageDescriptor {
        self.descriptor
    }

    /// The value that the message was handed out for, when nothing of it has changed since.
    pub(crate) fn unchanged_value(&self, py: Python<'_>) -> Option<&RuntimeValue> {
        let origin = self.origin.as_ref()?;
        let Some(cell) = self.cell.get() else {
            return Some(origin.value());
        };
        let now = tree::with(py, |lock| cell.freeze(lock)).ok()?;
        origin.made(&now).then(|| origin.value())
    }

    /// The list that was asked for last.
    pub(crate) fn last_list(&self) -> &LastList {
        &self.last_list
    }

    /// The message itself, when it has been made.
    pub(crate) fn made_cell(&self) -> Option<&Arc<EditableMessage>> {
        self.cell.get()
    }

    /// The message itself; a deferred one is made now.
    ///
    /// # Errors
    /// Why it cannot be made.
    #[inline]
    pub(crate) fn cell(&self, py: Python<'_>) -> PyResult<&Arc<EditableMessage>> {
        match self.cell.get() {
            Some(cell) => Ok(cell),
            None => self.make(py),
        }
    }

    #[cold]
    fn make(&self, py: Python<'_>) -> PyResult<&Arc<EditableMessage>> {
        let made = match &self.origin {
            Some(origin) => EditableMessage::from_frozen(origin.make(py)?),
            None => EditableMessage::new(self.descriptor), // such a message has its cell
        };
        // Another thread may have been here meanwhile: the first one's message stays, of the same immutable form.
        Ok(self.cell.get_or_init(|| made))
    }

    /// The message as it is now.
    pub(crate) fn frozen(&self, py: Python<'_>) -> PyResult<Arc<FrozenMessage>> {
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.freeze(lock)).map_err(|error| too_deep(py, error))
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
        let descriptor = self.descriptor;
        match descriptor.field(&text) {
            Some(field) if !field.retired => Ok(Named::Field(field)),
            _ => match descriptor.oneof(&text) {
                Some(oneof) => Ok(Named::Oneof(oneof)),
                None => Err(construct::no_field(descriptor, &text)),
            },
        }
    }

    /// The exception for an attribute that cannot be set.
    fn explain(&self, py: Python<'_>, name: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let is_field = match name.cast::<PyString>().map(|name| name.to_cow()) {
            Ok(Ok(name)) => {
                let field = self.descriptor.field(&name);
                field.is_some_and(|field| !field.retired)
            }
            _ => return error,
        };
        if is_field || !error.is_instance_of::<PyAttributeError>(py) {
            return error;
        }
        let class = self.descriptor.name;
        PyAttributeError::new_err(format!("Protocol message {class} has no \"{name}\" field."))
    }

    fn same_class(&self, function: &str, other: &Bound<'_, PyAny>) -> PyResult<Arc<FrozenMessage>> {
        let descriptor = self.descriptor;
        match other.cast::<Message>() {
            Ok(other) if other.get().descriptor == descriptor => other.get().frozen(other.py()),
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
        let py = field_name.py();
        match self.named(field_name)? {
            Named::Field(field) if field.repeated => Err(PyValueError::new_err(format!(
                "Field {}.{} does not have presence.",
                self.descriptor.full_name, field.name
            ))),
            Named::Field(field) => {
                let cell = self.cell(py)?;
                Ok(tree::with(py, |lock| cell.has(lock, field.slot)))
            }
            Named::Oneof(oneof) => {
                let cell = self.cell(py)?;
                let member = tree::with(py, |lock| cell.which_oneof(lock, oneof.fields));
                Ok(member.is_some())
            }
        }
    }

    fn ClearField(&self, field_name: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = field_name.py();
        let cell = self.cell(py)?;
        let named = self
            .named(field_name)
            .inspect_err(|_| tree::with(py, |lock| cell.set_present(lock)))?;
        tree::with(py, |lock| {
            let slot = match named {
                Named::Field(field) => Some(field.slot),
                Named::Oneof(oneof) => cell.which_oneof(lock, oneof.fields),
            };
            if let Some(slot) = slot {
                cell.clear_field(lock, slot);
            }
        });
        Ok(())
    }

    fn WhichOneof(&self, oneof_group: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
        let py = oneof_group.py();
        let text = field_name(oneof_group)?;
        let descriptor = self.descriptor;
        let oneof = descriptor.oneof(&text);
        let oneof = oneof.ok_or_else(|| construct::no_field(descriptor, &text))?;
        let cell = self.cell(py)?;
        let member = tree::with(py, |lock| cell.which_oneof(lock, oneof.fields));
        Ok(member.map(|slot| descriptor.fields[usize::from(slot)].name))
    }

    /// The fields that have a value, in the order of their numbers.
    fn ListFields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let descriptor = self.descriptor;
        let slots = descriptor.by_number.iter().copied();
        let cell = self.cell(py)?;
        let present: Vec<u16> = tree::with(py, |lock| {
            slots.filter(|&slot| cell.has(lock, slot)).collect()
        });
        let list = PyList::empty(py);
        for slot in present {
            let field = &descriptor.fields[usize::from(slot)];
            if !field.retired {
                let value = fields::get(py, cell, field)?;
                list.append((FieldDescriptor::new(descriptor, field), value))?;
            }
        }
        Ok(list)
    }

    fn Clear(&self, py: Python<'_>) -> PyResult<()> {
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.clear(lock));
        Ok(())
    }

    fn CopyFrom(&self, other_msg: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = other_msg.py();
        let frozen = self.same_class("CopyFrom", other_msg)?;
        let itself = other_msg.cast::<Message>();
        if itself.is_ok_and(|other| std::ptr::eq(other.get(), self)) {
            return Ok(());
        }
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.copy(lock, frozen)).map_err(|error| too_deep(py, error))
    }

    fn MergeFrom(&self, other_msg: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = other_msg.py();
        let other = self.same_class("MergeFrom", other_msg)?;
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.merge(lock, &other)).map_err(|error| too_deep(py, error))
    }

    fn SetInParent(&self, py: Python<'_>) -> PyResult<()> {
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.set_present(lock));
        Ok(())
    }

    fn DiscardUnknownFields(&self, py: Python<'_>) -> PyResult<()> {
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.clear_unknown(lock));
        Ok(())
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

    // There are no maps in the schema: what is written is always the same.
    #[pyo3(signature = (options = None, *, deterministic = None))]
    #[allow(unused_variables)]
    fn SerializeToString<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyAny>>,
        deterministic: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let options = SerializeOptions::given(options)?;
        wire::encode(py, &*options.apply(py, self.frozen(py)?)?)
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

    #[pyo3(signature = (options = None))]
    fn SerializeSize(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SerializeSizeResult> {
        let options = SerializeOptions::given(options)?;
        let frozen = options.apply(py, self.frozen(py)?)?;
        let size = run::attached(py, || frozen.encoded_len())?;
        let raw_data_size = options::large_bytes(py, &frozen, options.threshold())?;
        Ok(SerializeSizeResult {
            size,
            raw_data_size,
        })
    }

    #[pyo3(signature = (name, options = None, external_data_file = None))]
    fn SerializeToFile(
        slf: &Bound<'_, Self>,
        name: PathBuf,
        options: Option<&Bound<'_, PyAny>>,
        external_data_file: Option<PathBuf>,
    ) -> PyResult<()> {
        let options = SerializeOptions::given(options)?;
        files::serialize(slf, name, &options, external_data_file)
    }

    #[pyo3(signature = (fd, options = None))]
    fn SerializeToFileDescriptor(
        slf: &Bound<'_, Self>,
        fd: i32,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        files::serialize_to_descriptor(slf, fd, &SerializeOptions::given(options)?)
    }

    fn SerializeToOstream(&self, output: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = output.py();
        let wire = wire::encode(py, &*self.frozen(py)?)?;
        files::serialize_to_stream(output, &wire)
    }

    fn SerializeToOStream(&self, output: &Bound<'_, PyAny>) -> PyResult<()> {
        self.SerializeToOstream(output)
    }

    #[pyo3(signature = (data, options = None))]
    fn ParseFromString(
        &self,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let py = data.py();
        let options = ParseOptions::given(options)?;
        let wire = wire::bytes_of(data)?;
        let size = wire.len();
        let message = wire::decode(py, self.descriptor, wire, &options.limits())?;
        let message = options.apply(py, message)?;
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.replace(lock, message)).map_err(|error| too_deep(py, error))?;
        Ok(size)
    }

    #[pyo3(signature = (name, options = None, external_data_file = None))]
    fn ParseFromFile(
        slf: &Bound<'_, Self>,
        name: PathBuf,
        options: Option<&Bound<'_, PyAny>>,
        external_data_file: Option<PathBuf>,
    ) -> PyResult<()> {
        files::parse(
            slf,
            name,
            &ParseOptions::given(options)?,
            external_data_file,
        )
    }

    fn MergeFromString(&self, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = data.py();
        let wire = wire::bytes_of(data)?;
        let size = wire.len();
        let message = wire::decode(py, self.descriptor, wire, &DecodeLimits::default())?;
        let cell = self.cell(py)?;
        tree::with(py, |lock| cell.merge(lock, &message)).map_err(|error| too_deep(py, error))?;
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
                if other.get().descriptor == self.descriptor =>
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

    #[classmethod]
    fn _join<'py>(
        cls: &Bound<'py, PyType>,
        structure: &Bound<'py, PyBytes>,
        places: Vec<usize>,
        buffers: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        pickle::join(cls, structure, places, buffers)
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> PyResult<Bound<'py, PyTuple>> {
        pickle::reduce(slf, protocol)
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.frozen(py)?.to_string())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match summary::of(py, self.cell(py)?)? {
            Some(short) => Ok(short),
            None => self.__str__(py),
        }
    }

    /// The fields that the schema does not know.
    fn UnknownFields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let fields = self.frozen(py)?.unknown_fields();
        let fields = fields.map_err(|fault| Class::Decode.error(py, fault))?;
        unknown::list(py, &fields)
    }

    fn __copy__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        wrap(py, EditableMessage::from_frozen(self.frozen(py)?))
    }

    fn __deepcopy__<'py>(&self, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.__copy__(memo.py())
    }
}
