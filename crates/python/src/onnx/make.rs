//! Nodes and attributes from Python values: what `refeed.onnx.helper.make_node` and `make_attribute` do.
//!
//! They make most of the messages of a model that is written in Python, so each is built in one piece, and no field is
//! set through Python.

use super::message::{self, Message};
use super::repeated::{self, too_deep};
use super::{convert, scalar};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyIterator, PyList, PyString, PyType};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::message::{
    EditableMessage, FieldDescriptor, FrozenMessage, MessageDescriptor, Payload, Text, Value,
    descriptors,
};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A field of the schema, looked up when the crate is compiled.
macro_rules! field {
    ($message:ident, $name:literal) => {
        const { field(&descriptors::$message, $name) }
    };
}

const fn field(message: &'static MessageDescriptor, name: &str) -> &'static FieldDescriptor {
    let mut slot = 0;
    while slot < message.fields.len() {
        if same(message.fields[slot].name.as_bytes(), name.as_bytes()) {
            return &message.fields[slot];
        }
        slot += 1;
    }
    panic!("the schema has no such field")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// A list as a value of a repeated field, which is absent when it is empty.
fn list<T>(items: Vec<T>, value: impl FnOnce(Arc<[T]>) -> Value) -> Value {
    if items.is_empty() {
        Value::Absent
    } else {
        value(items.into())
    }
}

/// Make a node.
///
/// Parameters
/// ----------
/// op_type : str
///     The operator.
/// inputs, outputs : sequence of str
///     Names of values; an empty name leaves an optional one out.
/// name, doc_string : str, optional
///     The node's name and documentation.
/// domain : str, optional
///     The operator's domain; ONNX's own when not given.
/// overload : str, optional
///     Which of a model's functions of one name is meant.
/// **kwargs : object
///     The attributes, in the order of their names: see `make_attribute`. One that is None is left out.
///
/// Returns
/// -------
/// NodeProto
///
/// Examples
/// --------
/// >>> node = make_node("Concat", ["a", "b"], ["c"], axis=1)
/// >>> node.attribute[0].i
/// 1
#[pyfunction]
#[pyo3(signature = (op_type, inputs, outputs, name = None, doc_string = None, domain = None, overload = None, **kwargs))]
#[allow(clippy::too_many_arguments)] // As Python's function has them.
pub(crate) fn make_node<'py>(
    py: Python<'py>,
    op_type: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
    outputs: &Bound<'py, PyAny>,
    name: Option<&Bound<'py, PyAny>>,
    doc_string: Option<&Bound<'py, PyAny>>,
    domain: Option<&Bound<'py, PyAny>>,
    overload: Option<&Bound<'py, PyAny>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let op_type = given(field!(NODE_PROTO, "op_type"), Some(op_type))?;
    let inputs = texts(field!(NODE_PROTO, "input"), inputs)?;
    let outputs = texts(field!(NODE_PROTO, "output"), outputs)?;
    let attributes = match kwargs {
        Some(kwargs) => attributes(py, kwargs)?,
        None => Value::Absent,
    };
    finish(
        py,
        &descriptors::NODE_PROTO,
        [
            (field!(NODE_PROTO, "input"), inputs),
            (field!(NODE_PROTO, "output"), outputs),
            given(field!(NODE_PROTO, "name"), truthy(name)?)?,
            op_type,
            (field!(NODE_PROTO, "attribute"), attributes),
            given(field!(NODE_PROTO, "doc_string"), truthy(doc_string)?)?,
            given(field!(NODE_PROTO, "domain"), domain)?,
            given(field!(NODE_PROTO, "overload"), overload)?,
        ],
    )
    .and_then(|node| message::wrap_new(py, EditableMessage::from_frozen(node)))
}

/// A field of one value, when one is given.
fn given(
    field: &'static FieldDescriptor,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<(&'static FieldDescriptor, Value)> {
    let value = object.map(|object| scalar::to_value(field, object));
    Ok((field, value.transpose()?.unwrap_or_default()))
}

fn truthy<'a, 'py>(
    object: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<Option<&'a Bound<'py, PyAny>>> {
    match object {
        Some(object) if object.is_truthy()? => Ok(Some(object)),
        _ => Ok(None),
    }
}

fn finish<const N: usize>(
    py: Python<'_>,
    descriptor: &'static MessageDescriptor,
    fields: [(&'static FieldDescriptor, Value); N],
) -> PyResult<Arc<FrozenMessage>> {
    let made = FrozenMessage::of(descriptor, fields, None);
    made.map(Arc::new).map_err(|error| too_deep(py, error))
}

fn attributes(py: Python<'_>, kwargs: &Bound<'_, PyDict>) -> PyResult<Value> {
    let mut named: SmallVec<[_; 8]> = SmallVec::with_capacity(kwargs.len());
    let key = field!(ATTRIBUTE_PROTO, "name");
    for (name, value) in kwargs {
        if !value.is_none() {
            named.push((scalar::text(key, &name)?, value));
        }
    }
    // UTF-8 sorts as its code points do.
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let made = named
        .into_iter()
        .map(|(name, value)| attribute(py, name, &value, None, None));
    Ok(list(made.collect::<PyResult<_>>()?, Value::Messages))
}

/// The texts of an iterable.
fn texts(field: &'static FieldDescriptor, items: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(items) = items.cast_exact::<PyList>() {
        return repeated::texts(field, items);
    }
    let mut texts: SmallVec<[Text; 4]> = SmallVec::new();
    for item in iterate(field, items)? {
        texts.push(scalar::text(field, &item?)?);
    }
    Ok(repeated::list_of(&texts))
}

/// Make an attribute; the Python value says of which type.
///
/// Parameters
/// ----------
/// key : str
///     The attribute's name.
/// value : object
///     A number, str, bytes, TensorProto, SparseTensorProto, GraphProto or TypeProto, or an iterable of values of one
///     such kind. Integers, bools among them, make `INT`, other real numbers `FLOAT`; a list of both makes `FLOATS`.
/// doc_string : str, optional
///     The attribute's documentation.
/// attr_type : int, optional
///     The `AttributeProto.AttributeType` that the value must make. An empty iterable needs it.
///
/// Returns
/// -------
/// AttributeProto
///
/// Raises
/// ------
/// TypeError
///     The value is no attribute's, or makes another type than `attr_type`.
/// ValueError
///     An iterable is empty or of mixed kinds, and no `attr_type` is given.
/// AssertionError
///     The value is an iterable, and `attr_type` is not a type of lists.
///
/// Examples
/// --------
/// >>> make_attribute("axes", [0, 2]).ints
/// [0, 2]
#[pyfunction]
#[pyo3(signature = (key, value, doc_string = None, attr_type = None))]
pub(crate) fn make_attribute<'py>(
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    doc_string: Option<&Bound<'py, PyAny>>,
    attr_type: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = scalar::text(field!(ATTRIBUTE_PROTO, "name"), key)?;
    let doc_string = truthy(doc_string)?;
    let made = attribute(py, name, value, doc_string, attr_type)?;
    message::wrap_new(py, EditableMessage::from_frozen(made))
}

fn attribute<'py>(
    py: Python<'py>,
    name: Text,
    value: &Bound<'py, PyAny>,
    doc_string: Option<&Bound<'py, PyAny>>,
    attr_type: Option<&Bound<'py, PyAny>>,
) -> PyResult<Arc<FrozenMessage>> {
    let made = match item(value)? {
        Item::Other if ITERABLE.has(value)? => many(&name, value, attr_type)?,
        Item::Other => {
            let got = value.repr()?;
            let kind = type_name(value)?;
            return Err(PyTypeError::new_err(format!(
                "attribute {name:?}: {got} of type {kind} is no attribute's value; expected a number, str, bytes, \
                 TensorProto, SparseTensorProto, GraphProto, TypeProto, or a list of one of them"
            )));
        }
        item => single(item, value)?,
    };
    if let Some(wanted) = attr_type
        && !wanted.eq(made.kind as i32)?
    {
        return Err(PyTypeError::new_err(format!(
            "attribute {name:?}: the value makes type {}, but attr_type is {}",
            made.kind.as_str_name(),
            type_shown(wanted)?
        )));
    }
    let kind = Value::Int((made.kind as i32).into());
    finish(
        py,
        &descriptors::ATTRIBUTE_PROTO,
        [
            (field!(ATTRIBUTE_PROTO, "name"), Value::Text(name)),
            (made.field, made.value),
            given(field!(ATTRIBUTE_PROTO, "doc_string"), doc_string)?,
            (field!(ATTRIBUTE_PROTO, "type"), kind),
        ],
    )
}

/// What a Python value makes.
struct Made {
    kind: AttributeType,
    field: &'static FieldDescriptor,
    value: Value,
}

/// A class of messages that attributes hold: what one of them makes, and what a list of them makes.
struct Held {
    one: (AttributeType, &'static FieldDescriptor),
    many: (AttributeType, &'static FieldDescriptor),
}

static HELD: [Held; 4] = [
    Held {
        one: (AttributeType::Tensor, field!(ATTRIBUTE_PROTO, "t")),
        many: (AttributeType::Tensors, field!(ATTRIBUTE_PROTO, "tensors")),
    },
    Held {
        one: (
            AttributeType::SparseTensor,
            field!(ATTRIBUTE_PROTO, "sparse_tensor"),
        ),
        many: (
            AttributeType::SparseTensors,
            field!(ATTRIBUTE_PROTO, "sparse_tensors"),
        ),
    },
    Held {
        one: (AttributeType::Graph, field!(ATTRIBUTE_PROTO, "g")),
        many: (AttributeType::Graphs, field!(ATTRIBUTE_PROTO, "graphs")),
    },
    Held {
        one: (AttributeType::TypeProto, field!(ATTRIBUTE_PROTO, "tp")),
        many: (
            AttributeType::TypeProtos,
            field!(ATTRIBUTE_PROTO, "type_protos"),
        ),
    },
];

/// Of what kind a Python value is. Booleans and the integers of NumPy are integers too; every integer is a real number.
#[derive(Clone, Copy)]
enum Item {
    Integer,
    Real,
    Text,
    Message(&'static Held),
    Other,
}

fn item(value: &Bound<'_, PyAny>) -> PyResult<Item> {
    if value.is_instance_of::<PyInt>() {
        return Ok(Item::Integer);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Item::Real);
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Ok(Item::Text);
    }
    if let Ok(message) = value.cast::<Message>() {
        let descriptor = message.get().descriptor();
        let held = HELD
            .iter()
            .find(|held| held.one.1.kind.message() == Some(descriptor));
        return Ok(held.map_or(Item::Other, Item::Message));
    }
    if INTEGRAL.has(value)? {
        return Ok(Item::Integer);
    }
    if REAL.has(value)? {
        return Ok(Item::Real);
    }
    let official = convert::official_name(value)?;
    let held = HELD.iter().find(|held| {
        let message = held.one.1.kind.message();
        message.map(|message| message.full_name) == official.as_deref()
    });
    Ok(held.map_or(Item::Other, Item::Message))
}

/// One value, which is no list.
fn single(item: Item, value: &Bound<'_, PyAny>) -> PyResult<Made> {
    let (kind, field) = match item {
        Item::Integer => (AttributeType::Int, field!(ATTRIBUTE_PROTO, "i")),
        Item::Real => (AttributeType::Float, field!(ATTRIBUTE_PROTO, "f")),
        Item::Text | Item::Other => (AttributeType::String, field!(ATTRIBUTE_PROTO, "s")),
        Item::Message(held) => held.one,
    };
    let value = match item {
        // A field takes no boolean and no `Integral` without an index.
        Item::Integer if !value.is_exact_instance_of::<PyInt>() => {
            let number = value.py().get_type::<PyInt>().call1((value,))?;
            scalar::to_value(field, &number)?
        }
        Item::Integer | Item::Real => scalar::to_value(field, value)?,
        Item::Text | Item::Other => Value::bytes(bytes(field, value)?),
        Item::Message(_) => Value::Message(frozen(field, value)?),
    };
    Ok(Made { kind, field, value })
}

/// An iterable.
fn many(
    name: &Text,
    value: &Bound<'_, PyAny>,
    attr_type: Option<&Bound<'_, PyAny>>,
) -> PyResult<Made> {
    let values = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let (kind, field) = match attr_type {
        Some(wanted) => asked_for(name, wanted)?,
        None => inferred(name, &values)?,
    };
    let values = values.iter();
    let value = match kind {
        AttributeType::Ints => {
            let numbers = values.map(|value| scalar::integer(field, value));
            list(numbers.collect::<PyResult<_>>()?, Value::Ints)
        }
        AttributeType::Floats => {
            // Beyond the range of `float` the sign is what is left.
            let numbers = values.map(|value| Ok(scalar::real(field, value)? as f32));
            list(numbers.collect::<PyResult<_>>()?, Value::Floats)
        }
        AttributeType::Strings => {
            let strings = values.map(|value| bytes(field, value));
            list(strings.collect::<PyResult<_>>()?, Value::Payloads)
        }
        _ => {
            let messages = values.map(|value| frozen(field, value));
            list(messages.collect::<PyResult<_>>()?, Value::Messages)
        }
    };
    Ok(Made { kind, field, value })
}

/// The types of lists, each with its field.
fn lists() -> impl Iterator<Item = (AttributeType, &'static FieldDescriptor)> {
    [
        (AttributeType::Ints, field!(ATTRIBUTE_PROTO, "ints")),
        (AttributeType::Floats, field!(ATTRIBUTE_PROTO, "floats")),
        (AttributeType::Strings, field!(ATTRIBUTE_PROTO, "strings")),
    ]
    .into_iter()
    .chain(HELD.iter().map(|held| held.many))
}

fn asked_for(
    name: &Text,
    wanted: &Bound<'_, PyAny>,
) -> PyResult<(AttributeType, &'static FieldDescriptor)> {
    for (kind, field) in lists() {
        if wanted.eq(kind as i32)? {
            return Ok((kind, field));
        }
    }
    // The class that onnx raises here.
    Err(PyAssertionError::new_err(format!(
        "attribute {name:?}: the value is a list, but attr_type is {}",
        type_shown(wanted)?
    )))
}

fn inferred(
    name: &Text,
    values: &[Bound<'_, PyAny>],
) -> PyResult<(AttributeType, &'static FieldDescriptor)> {
    let mut common: Option<Item> = None;
    for value in values {
        common = Some(match (common, item(value)?) {
            (None, item) => item,
            (Some(Item::Integer), Item::Integer) => Item::Integer,
            (Some(Item::Integer | Item::Real), Item::Integer | Item::Real) => Item::Real,
            (Some(Item::Text), Item::Text) => Item::Text,
            (Some(Item::Message(a)), Item::Message(b)) if std::ptr::eq(a, b) => Item::Message(a),
            _ => Item::Other,
        });
    }
    Ok(match common {
        Some(Item::Integer) => (AttributeType::Ints, field!(ATTRIBUTE_PROTO, "ints")),
        Some(Item::Real) => (AttributeType::Floats, field!(ATTRIBUTE_PROTO, "floats")),
        Some(Item::Text) => (AttributeType::Strings, field!(ATTRIBUTE_PROTO, "strings")),
        Some(Item::Message(held)) => held.many,
        None => {
            return Err(PyValueError::new_err(format!(
                "attribute {name:?}: an empty list does not say its type; give attr_type"
            )));
        }
        Some(Item::Other) => {
            let kinds = values.iter().map(type_name);
            let kinds: Vec<_> = kinds
                .collect::<PyResult<BTreeSet<_>>>()?
                .into_iter()
                .collect();
            return Err(PyValueError::new_err(format!(
                "attribute {name:?}: no attribute holds a list of {}; expected all numbers, all str or bytes, or \
                 messages of one class",
                kinds.join(", ")
            )));
        }
    })
}

fn bytes(field: &'static FieldDescriptor, value: &Bound<'_, PyAny>) -> PyResult<Payload> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(Payload::new(text.to_cow()?.into_owned().into())),
        Err(_) => scalar::payload(field, value),
    }
}

fn frozen(
    field: &'static FieldDescriptor,
    value: &Bound<'_, PyAny>,
) -> PyResult<Arc<FrozenMessage>> {
    let Some(descriptor) = field.kind.message() else {
        return Err(PyTypeError::new_err(format!(
            "{}: holds no message",
            field.name
        )));
    };
    convert::frozen_of(value, descriptor).map_err(|error| {
        if !error.is_instance_of::<PyTypeError>(value.py()) {
            return error;
        }
        let (name, expected) = (field.name, descriptor.name);
        let got = type_name(value).unwrap_or_else(|_| "an object".to_string());
        PyTypeError::new_err(format!("{name}: expected a {expected}, got {got}"))
    })
}

/// The items of an iterable.
fn iterate<'py>(
    field: &FieldDescriptor,
    items: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyIterator>> {
    items.try_iter().map_err(|_| {
        let got = type_name(items).unwrap_or_else(|_| "an object".to_string());
        PyTypeError::new_err(format!(
            "{}: expected an iterable of str, got {got}",
            field.name
        ))
    })
}

fn type_name(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.get_type().name()?.to_string())
}

/// A type asked for, with its name when it has one.
fn type_shown(wanted: &Bound<'_, PyAny>) -> PyResult<String> {
    let number = wanted.extract::<i32>().ok();
    Ok(match number.and_then(|n| AttributeType::try_from(n).ok()) {
        Some(kind) => kind.as_str_name().to_string(),
        None => format!("{}, which is no type of attributes", wanted.repr()?),
    })
}

/// An abstract base class of Python's library.
struct AbstractClass {
    module: &'static str,
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl AbstractClass {
    const fn new(module: &'static str, name: &'static str) -> AbstractClass {
        AbstractClass {
            module,
            name,
            class: PyOnceLock::new(),
        }
    }

    fn has(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        object.is_instance(self.class.import(object.py(), self.module, self.name)?)
    }
}

static INTEGRAL: AbstractClass = AbstractClass::new("numbers", "Integral");
static REAL: AbstractClass = AbstractClass::new("numbers", "Real");
static ITERABLE: AbstractClass = AbstractClass::new("collections.abc", "Iterable");
