//! One Python class per message of the schema.

use super::message::Message;
use super::{enums, fields};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyType};
use refeed_proto::message::{MessageDescriptor, descriptors};
use std::sync::LazyLock;

/// A class and its message.
struct Class {
    descriptor: &'static MessageDescriptor,
    class: for<'py> fn(Python<'py>) -> Bound<'py, PyType>,
    make: for<'py> fn(Python<'py>, Message) -> PyResult<Bound<'py, Message>>,
}

/// Declares the classes and `CLASSES`, their list.
macro_rules! classes {
    ($($rust:ident $name:literal $descriptor:ident,)*) => {
        $(
            #[pyclass(name = $name, module = "refeed.onnx", extends = Message, frozen)]
            struct $rust;

            #[pymethods]
            impl $rust {
                #[new]
                #[pyo3(signature = (**fields))]
                fn new(
                    fields: Option<&Bound<'_, PyDict>>,
                ) -> PyResult<PyClassInitializer<$rust>> {
                    let message = Message::with_fields(&descriptors::$descriptor, fields)?;
                    Ok(PyClassInitializer::from(message).add_subclass($rust))
                }
            }
        )*

        static CLASSES: &[Class] = &[
            $(Class {
                descriptor: &descriptors::$descriptor,
                class: |py| py.get_type::<$rust>(),
                make: |py, message| {
                    let new = PyClassInitializer::from(message).add_subclass($rust);
                    Ok(Bound::new(py, new)?.into_super())
                },
            },)*
        ];
    };
}

classes! {
    ModelProto "ModelProto" MODEL_PROTO,
    OperatorSetIdProto "OperatorSetIdProto" OPERATOR_SET_ID_PROTO,
    GraphProto "GraphProto" GRAPH_PROTO,
    NodeProto "NodeProto" NODE_PROTO,
    AttributeProto "AttributeProto" ATTRIBUTE_PROTO,
    FunctionProto "FunctionProto" FUNCTION_PROTO,
    TrainingInfoProto "TrainingInfoProto" TRAINING_INFO_PROTO,
    StringStringEntryProto "StringStringEntryProto" STRING_STRING_ENTRY_PROTO,
    TensorAnnotation "TensorAnnotation" TENSOR_ANNOTATION,
    DeviceConfigurationProto "DeviceConfigurationProto" DEVICE_CONFIGURATION_PROTO,
    NodeDeviceConfigurationProto "NodeDeviceConfigurationProto" NODE_DEVICE_CONFIGURATION_PROTO,
    ShardingSpecProto "ShardingSpecProto" SHARDING_SPEC_PROTO,
    ShardedDimProto "ShardedDimProto" SHARDED_DIM_PROTO,
    SimpleShardedDimProto "SimpleShardedDimProto" SIMPLE_SHARDED_DIM_PROTO,
    IntIntListEntryProto "IntIntListEntryProto" INT_INT_LIST_ENTRY_PROTO,
    TensorProto "TensorProto" TENSOR_PROTO,
    TensorProtoSegment "Segment" TENSOR_PROTO_SEGMENT,
    SparseTensorProto "SparseTensorProto" SPARSE_TENSOR_PROTO,
    ValueInfoProto "ValueInfoProto" VALUE_INFO_PROTO,
    TensorShapeProto "TensorShapeProto" TENSOR_SHAPE_PROTO,
    TensorShapeProtoDimension "Dimension" TENSOR_SHAPE_PROTO_DIMENSION,
    TypeProto "TypeProto" TYPE_PROTO,
    TypeProtoTensor "Tensor" TYPE_PROTO_TENSOR,
    TypeProtoSequence "Sequence" TYPE_PROTO_SEQUENCE,
    TypeProtoMap "Map" TYPE_PROTO_MAP,
    TypeProtoOptional "Optional" TYPE_PROTO_OPTIONAL,
    TypeProtoSparseTensor "SparseTensor" TYPE_PROTO_SPARSE_TENSOR,
    TypeProtoOpaque "Opaque" TYPE_PROTO_OPAQUE,
    SequenceProto "SequenceProto" SEQUENCE_PROTO,
    MapProto "MapProto" MAP_PROTO,
    OptionalProto "OptionalProto" OPTIONAL_PROTO,
    OperatorProto "OperatorProto" OPERATOR_PROTO,
    OperatorSetProto "OperatorSetProto" OPERATOR_SET_PROTO,
    PersistentBindingProto "PersistentBindingProto" PERSISTENT_BINDING_PROTO,
    PagedCacheProto "PagedCacheProto" PAGED_CACHE_PROTO,
    PagedCacheBlockProto "PagedCacheBlockProto" PAGED_CACHE_BLOCK_PROTO,
    EncodedValueProto "EncodedValueProto" ENCODED_VALUE_PROTO,
    AffineLayoutProto "AffineLayoutProto" AFFINE_LAYOUT_PROTO,
    StructTypeProto "StructTypeProto" STRUCT_TYPE_PROTO,
    StructTypeProtoArray "Array" STRUCT_TYPE_PROTO_ARRAY,
    StructTypeProtoStructure "Structure" STRUCT_TYPE_PROTO_STRUCTURE,
    StructTypeProtoStructureField "Field" STRUCT_TYPE_PROTO_STRUCTURE_FIELD,
    StructTypeProtoBitPacking "BitPacking" STRUCT_TYPE_PROTO_BIT_PACKING,
    StructTypeProtoBitPackingComponent "Component" STRUCT_TYPE_PROTO_BIT_PACKING_COMPONENT,
}

/// The class of a message; the schema and the list above are compared when the module is made.
fn of(descriptor: &'static MessageDescriptor) -> &'static Class {
    static BY_ORDINAL: LazyLock<Vec<&Class>> = LazyLock::new(|| {
        let mut classes: Vec<&Class> = CLASSES.iter().collect();
        classes.sort_by_key(|class| class.descriptor.ordinal);
        classes
    });
    match BY_ORDINAL.get(usize::from(descriptor.ordinal)) {
        Some(class) if class.descriptor == descriptor => class,
        _ => unreachable!("{descriptor:?} has no class"),
    }
}

/// The Python class of a message.
pub(crate) fn class_of<'py>(
    py: Python<'py>,
    descriptor: &'static MessageDescriptor,
) -> Bound<'py, PyType> {
    (of(descriptor).class)(py)
}

/// The message of a Python class.
///
/// # Errors
/// `TypeError` for classes that stand for no message.
pub(crate) fn descriptor_of(class: &Bound<'_, PyType>) -> PyResult<&'static MessageDescriptor> {
    let mut classes = CLASSES.iter();
    let found = classes.find(|each| (each.class)(class.py()).is(class));
    found.map(|found| found.descriptor).ok_or_else(|| {
        PyTypeError::new_err(format!("expected the class of a message, got {class}"))
    })
}

/// A new object of a message's class.
pub(crate) fn make(py: Python<'_>, message: Message) -> PyResult<Bound<'_, Message>> {
    (of(message.descriptor()).make)(py, message)
}

/// Adds the classes to a module, each with its fields and the classes declared inside it.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let mut open = Vec::new();
    for descriptor in descriptors::MESSAGES {
        let class = class_of(module.py(), descriptor);
        module.setattr(descriptor.name, &class)?;
        open.push((*descriptor, class));
    }
    while let Some((descriptor, class)) = open.pop() {
        fields::add_to(&class, descriptor)?;
        // `onnx.TypeProto.Tensor` is `TypeProto.Tensor` of its module.
        if let Some((_, scoped)) = descriptor.full_name.split_once('.') {
            class.setattr("__qualname__", scoped)?;
        }
        for inner in descriptor.enums {
            enums::add_to(&class, inner)?;
        }
        for inner in descriptor.messages {
            let inner_class = class_of(module.py(), inner);
            class.setattr(inner.name, &inner_class)?;
            open.push((*inner, inner_class));
        }
    }
    descriptors::ENUMS
        .iter()
        .try_for_each(|inner| enums::add_to(module, inner))
}
