//! `DESCRIPTOR`: the schema's tables as Python objects, as far as tools ask for them.

// Class attributes have the names that Python users write.
#![allow(non_upper_case_globals)]

use super::classes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use refeed_proto::message::{self as tables, Kind, Value, descriptors};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// The messages around messages and enums, by the address of the inner descriptor.
static AROUND: LazyLock<HashMap<usize, &'static tables::MessageDescriptor>> = LazyLock::new(|| {
    let mut around = HashMap::new();
    let mut open: Vec<&'static tables::MessageDescriptor> = descriptors::MESSAGES.to_vec();
    while let Some(outer) = open.pop() {
        for inner in outer.messages {
            around.insert(address(*inner), outer);
            open.push(inner);
        }
        for inner in outer.enums {
            around.insert(address(*inner), outer);
        }
    }
    around
});

fn address<T>(descriptor: &'static T) -> usize {
    std::ptr::from_ref(descriptor).addr()
}

fn hash_of(addresses: impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    addresses.hash(&mut hasher);
    hasher.finish()
}

fn around<T>(descriptor: &'static T) -> Option<Descriptor> {
    AROUND
        .get(&address(descriptor))
        .copied()
        .map(Descriptor::new)
}

/// The fields that users see: those of the schema without the retired ones.
pub(crate) fn fields(
    message: &'static tables::MessageDescriptor,
) -> impl Iterator<Item = &'static tables::FieldDescriptor> {
    message.fields.iter().filter(|field| !field.retired)
}

fn list<'py, T: IntoPyObjectExt<'py>>(
    py: Python<'py>,
    items: impl Iterator<Item = T>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    items
        .into_iter()
        .try_for_each(|item| list.append(item.into_py_any(py)?))?;
    Ok(list)
}

fn dict<'py, K: IntoPyObjectExt<'py>, T: IntoPyObjectExt<'py>>(
    py: Python<'py>,
    items: impl Iterator<Item = (K, T)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, item) in items {
        dict.set_item(key.into_py_any(py)?, item.into_py_any(py)?)?;
    }
    Ok(dict)
}

/// `some_name` as `someName`.
fn camel_case(name: &str) -> String {
    let mut upper = false;
    let mut camel = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            letter if upper => {
                camel.extend(letter.to_uppercase());
                upper = false;
            }
            letter => camel.push(letter),
        }
    }
    camel
}

/// A message of the schema.
#[pyclass(name = "Descriptor", module = "refeed.onnx.descriptor", frozen)]
pub(crate) struct Descriptor {
    inner: &'static tables::MessageDescriptor,
}

impl Descriptor {
    pub(crate) fn new(inner: &'static tables::MessageDescriptor) -> Descriptor {
        Descriptor { inner }
    }

    fn all(&self) -> impl Iterator<Item = FieldDescriptor> + use<> {
        let message = self.inner;
        fields(message).map(move |field| FieldDescriptor::new(message, field))
    }

    fn oneof_list(&self) -> impl Iterator<Item = OneofDescriptor> + use<> {
        let message = self.inner;
        (0..message.oneofs.len()).map(move |index| OneofDescriptor { message, index })
    }
}

#[pymethods]
impl Descriptor {
    #[classattr]
    const is_extendable: bool = false;
    #[classattr]
    const has_options: bool = false;

    #[getter]
    fn name(&self) -> &'static str {
        self.inner.name
    }

    #[getter]
    fn full_name(&self) -> &'static str {
        self.inner.full_name
    }

    #[getter]
    fn file(&self) -> FileDescriptor {
        FileDescriptor
    }

    #[getter]
    fn containing_type(&self) -> Option<Descriptor> {
        around(self.inner)
    }

    #[getter]
    fn _concrete_class<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        classes::class_of(py, self.inner)
    }

    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list(py, self.all())
    }

    #[getter]
    fn fields_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, self.all().map(|field| (field.inner.name, field)))
    }

    #[getter]
    fn fields_by_number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, self.all().map(|field| (field.inner.number, field)))
    }

    #[getter]
    fn fields_by_camelcase_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(
            py,
            self.all()
                .map(|field| (camel_case(field.inner.name), field)),
        )
    }

    #[getter]
    fn oneofs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list(py, self.oneof_list())
    }

    #[getter]
    fn oneofs_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, self.oneof_list().map(|oneof| (oneof.name(), oneof)))
    }

    #[getter]
    fn nested_types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list(
            py,
            self.inner
                .messages
                .iter()
                .map(|inner| Descriptor::new(inner)),
        )
    }

    #[getter]
    fn nested_types_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner.messages.iter();
        dict(py, inner.map(|inner| (inner.name, Descriptor::new(inner))))
    }

    #[getter]
    fn enum_types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list(
            py,
            self.inner
                .enums
                .iter()
                .map(|inner| EnumDescriptor::new(inner)),
        )
    }

    #[getter]
    fn enum_types_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner.enums.iter();
        dict(
            py,
            inner.map(|inner| (inner.name, EnumDescriptor::new(inner))),
        )
    }

    #[getter]
    fn enum_values_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let enums = self
            .inner
            .enums
            .iter()
            .map(|inner| EnumDescriptor::new(inner));
        dict(
            py,
            enums
                .flat_map(|inner| inner.all())
                .map(|value| (value.name(), value)),
        )
    }

    #[getter]
    fn extensions<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        PyList::empty(py)
    }

    #[getter]
    fn extensions_by_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        PyDict::new(py)
    }

    #[getter]
    fn extension_ranges<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        PyList::empty(py)
    }

    fn __eq__(&self, other: &Descriptor) -> bool {
        self.inner == other.inner
    }

    fn __hash__(&self) -> u64 {
        hash_of(address(self.inner))
    }

    fn __repr__(&self) -> String {
        format!("<Descriptor {}>", self.inner.full_name)
    }
}

/// A field of a message.
#[pyclass(name = "FieldDescriptor", module = "refeed.onnx.descriptor", frozen)]
pub(crate) struct FieldDescriptor {
    message: &'static tables::MessageDescriptor,
    inner: &'static tables::FieldDescriptor,
}

impl FieldDescriptor {
    pub(crate) fn new(
        message: &'static tables::MessageDescriptor,
        inner: &'static tables::FieldDescriptor,
    ) -> FieldDescriptor {
        FieldDescriptor { message, inner }
    }
}

/// The constants of a class.
macro_rules! numbers {
    ($($name:ident = $number:literal),* $(,)?) => {
        /// Numbers of types and labels, as the schema language gives them.
        pub(crate) fn add_numbers(class: &Bound<'_, PyType>) -> PyResult<()> {
            $(class.setattr(stringify!($name), $number)?;)*
            Ok(())
        }
    };
}

numbers! {
    TYPE_DOUBLE = 1, TYPE_FLOAT = 2, TYPE_INT64 = 3, TYPE_UINT64 = 4, TYPE_INT32 = 5, TYPE_FIXED64 = 6,
    TYPE_FIXED32 = 7, TYPE_BOOL = 8, TYPE_STRING = 9, TYPE_GROUP = 10, TYPE_MESSAGE = 11, TYPE_BYTES = 12,
    TYPE_UINT32 = 13, TYPE_ENUM = 14, TYPE_SFIXED32 = 15, TYPE_SFIXED64 = 16, TYPE_SINT32 = 17, TYPE_SINT64 = 18,
    CPPTYPE_INT32 = 1, CPPTYPE_INT64 = 2, CPPTYPE_UINT32 = 3, CPPTYPE_UINT64 = 4, CPPTYPE_DOUBLE = 5,
    CPPTYPE_FLOAT = 6, CPPTYPE_BOOL = 7, CPPTYPE_ENUM = 8, CPPTYPE_STRING = 9, CPPTYPE_MESSAGE = 10,
    LABEL_OPTIONAL = 1, LABEL_REQUIRED = 2, LABEL_REPEATED = 3,
}

#[pymethods]
impl FieldDescriptor {
    #[classattr]
    const is_extension: bool = false;
    #[classattr]
    const is_required: bool = false;
    #[classattr]
    const has_default_value: bool = false;
    #[classattr]
    const has_options: bool = false;
    #[classattr]
    const extension_scope: Option<i32> = None;

    #[getter]
    fn name(&self) -> &'static str {
        self.inner.name
    }

    #[getter]
    fn full_name(&self) -> String {
        format!("{}.{}", self.message.full_name, self.inner.name)
    }

    #[getter]
    fn camelcase_name(&self) -> String {
        camel_case(self.inner.name)
    }

    #[getter]
    fn json_name(&self) -> String {
        camel_case(self.inner.name)
    }

    #[getter]
    fn file(&self) -> FileDescriptor {
        FileDescriptor
    }

    #[getter]
    fn number(&self) -> u32 {
        self.inner.number
    }

    #[getter]
    fn index(&self) -> u16 {
        self.inner.slot
    }

    #[getter]
    fn r#type(&self) -> i32 {
        match self.inner.kind {
            Kind::Double => 1,
            Kind::Float => 2,
            Kind::Int64 => 3,
            Kind::Uint64 => 4,
            Kind::Int32 => 5,
            Kind::Bool => 8,
            Kind::String => 9,
            Kind::Message(_) => 11,
            Kind::Bytes => 12,
            Kind::Uint32 => 13,
            Kind::Enum(_) => 14,
        }
    }

    #[getter]
    fn cpp_type(&self) -> i32 {
        match self.inner.kind {
            Kind::Int32 => 1,
            Kind::Int64 => 2,
            Kind::Uint32 => 3,
            Kind::Uint64 => 4,
            Kind::Double => 5,
            Kind::Float => 6,
            Kind::Bool => 7,
            Kind::Enum(_) => 8,
            Kind::String | Kind::Bytes => 9,
            Kind::Message(_) => 10,
        }
    }

    #[getter]
    fn label(&self) -> i32 {
        if self.inner.repeated { 3 } else { 1 }
    }

    #[getter]
    fn is_repeated(&self) -> bool {
        self.inner.repeated
    }

    #[getter]
    fn is_packed(&self) -> bool {
        self.inner.packed
    }

    #[getter]
    fn has_presence(&self) -> bool {
        !self.inner.repeated
    }

    #[getter]
    fn message_type(&self) -> Option<Descriptor> {
        self.inner.kind.message().map(Descriptor::new)
    }

    #[getter]
    fn enum_type(&self) -> Option<EnumDescriptor> {
        match self.inner.kind {
            Kind::Enum(descriptor) => Some(EnumDescriptor::new(descriptor)),
            _ => None,
        }
    }

    #[getter]
    fn containing_type(&self) -> Descriptor {
        Descriptor::new(self.message)
    }

    #[getter]
    fn containing_oneof(&self) -> Option<OneofDescriptor> {
        self.inner.oneof.map(|index| OneofDescriptor {
            message: self.message,
            index: index.into(),
        })
    }

    #[getter]
    fn default_value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.inner.repeated {
            return Ok(PyList::empty(py).into_any());
        }
        super::scalar::to_python(py, self.inner, &Value::Absent)
    }

    fn __eq__(&self, other: &FieldDescriptor) -> bool {
        std::ptr::eq(self.inner, other.inner)
    }

    fn __hash__(&self) -> u64 {
        hash_of(address(self.inner))
    }

    fn __repr__(&self) -> String {
        format!("<FieldDescriptor {}>", self.full_name())
    }
}

/// Fields of which at most one is present.
#[pyclass(name = "OneofDescriptor", module = "refeed.onnx.descriptor", frozen)]
pub(crate) struct OneofDescriptor {
    message: &'static tables::MessageDescriptor,
    index: usize,
}

#[pymethods]
impl OneofDescriptor {
    #[classattr]
    const has_options: bool = false;

    #[getter]
    fn name(&self) -> &'static str {
        self.message.oneofs[self.index].name
    }

    #[getter]
    fn full_name(&self) -> String {
        format!("{}.{}", self.message.full_name, self.name())
    }

    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    #[getter]
    fn containing_type(&self) -> Descriptor {
        Descriptor::new(self.message)
    }

    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let message = self.message;
        let members = message.oneofs[self.index].fields.iter();
        let members = members.map(|slot| &message.fields[usize::from(*slot)]);
        list(
            py,
            members.map(|field| FieldDescriptor::new(message, field)),
        )
    }

    fn __eq__(&self, other: &OneofDescriptor) -> bool {
        self.message == other.message && self.index == other.index
    }

    fn __hash__(&self) -> u64 {
        hash_of((address(self.message), self.index))
    }

    fn __repr__(&self) -> String {
        format!("<OneofDescriptor {}>", self.full_name())
    }
}

/// An enum of the schema.
#[pyclass(name = "EnumDescriptor", module = "refeed.onnx.descriptor", frozen)]
pub(crate) struct EnumDescriptor {
    inner: &'static tables::EnumDescriptor,
}

impl EnumDescriptor {
    pub(crate) fn new(inner: &'static tables::EnumDescriptor) -> EnumDescriptor {
        EnumDescriptor { inner }
    }

    fn all(&self) -> impl Iterator<Item = EnumValueDescriptor> + use<> {
        let owner = self.inner;
        (0..owner.values.len()).map(move |index| EnumValueDescriptor { owner, index })
    }
}

#[pymethods]
impl EnumDescriptor {
    #[classattr]
    const has_options: bool = false;
    // Numbers without a name are kept: see the page on differences.
    #[classattr]
    const is_closed: bool = false;

    #[getter]
    fn name(&self) -> &'static str {
        self.inner.name
    }

    #[getter]
    fn full_name(&self) -> &'static str {
        self.inner.full_name
    }

    #[getter]
    fn file(&self) -> FileDescriptor {
        FileDescriptor
    }

    #[getter]
    fn containing_type(&self) -> Option<Descriptor> {
        around(self.inner)
    }

    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list(py, self.all())
    }

    #[getter]
    fn values_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, self.all().map(|value| (value.name(), value)))
    }

    #[getter]
    fn values_by_number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, self.all().map(|value| (value.number(), value)))
    }

    fn __eq__(&self, other: &EnumDescriptor) -> bool {
        std::ptr::eq(self.inner, other.inner)
    }

    fn __hash__(&self) -> u64 {
        hash_of(address(self.inner))
    }

    fn __repr__(&self) -> String {
        format!("<EnumDescriptor {}>", self.inner.full_name)
    }
}

/// One name of an enum.
#[pyclass(
    name = "EnumValueDescriptor",
    module = "refeed.onnx.descriptor",
    frozen
)]
pub(crate) struct EnumValueDescriptor {
    owner: &'static tables::EnumDescriptor,
    index: usize,
}

#[pymethods]
impl EnumValueDescriptor {
    #[classattr]
    const has_options: bool = false;

    #[getter]
    fn name(&self) -> &'static str {
        self.owner.values[self.index].name
    }

    #[getter]
    fn number(&self) -> i32 {
        self.owner.values[self.index].number
    }

    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    #[getter]
    fn r#type(&self) -> EnumDescriptor {
        EnumDescriptor::new(self.owner)
    }

    fn __eq__(&self, other: &EnumValueDescriptor) -> bool {
        std::ptr::eq(self.owner, other.owner) && self.index == other.index
    }

    fn __hash__(&self) -> u64 {
        hash_of((address(self.owner), self.index))
    }

    fn __repr__(&self) -> String {
        format!(
            "<EnumValueDescriptor {}.{}>",
            self.owner.full_name,
            self.name()
        )
    }
}

/// The file that the schema is written in.
#[pyclass(
    name = "FileDescriptor",
    module = "refeed.onnx.descriptor",
    frozen,
    eq,
    hash
)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct FileDescriptor;

#[pymethods]
impl FileDescriptor {
    #[classattr]
    const name: &str = "onnx.proto";
    #[classattr]
    const package: &str = "onnx";

    #[getter]
    fn message_types_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let messages = descriptors::MESSAGES.iter();
        dict(
            py,
            messages.map(|inner| (inner.name, Descriptor::new(inner))),
        )
    }

    #[getter]
    fn enum_types_by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let enums = descriptors::ENUMS.iter();
        dict(
            py,
            enums.map(|inner| (inner.name, EnumDescriptor::new(inner))),
        )
    }

    fn __repr__(&self) -> &'static str {
        "<FileDescriptor onnx.proto>"
    }
}

/// Adds the classes to a module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Descriptor>()?;
    module.add_class::<FieldDescriptor>()?;
    module.add_class::<OneofDescriptor>()?;
    module.add_class::<EnumDescriptor>()?;
    module.add_class::<EnumValueDescriptor>()?;
    module.add_class::<FileDescriptor>()?;
    add_numbers(&module.py().get_type::<FieldDescriptor>())
}
