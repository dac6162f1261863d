//! Types of values: of tensors an element type and a shape of known, named or unknown dimensions; and of the other kinds.

use crate::load::shown;
use crate::shape_inference::same_text;
use refeed_proto::tensor_shape_proto::{Dimension, dimension};
use refeed_proto::{StructTypeProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto};
use refeed_values::DType;
use std::fmt;
use std::sync::Arc;

/// One declared dimension.
///
/// Dimensions are equal when they mean the same: `past + 1` and `1 + past` are.
#[derive(Debug, Clone)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// A name, or an expression over names ([`DimExpr`](crate::shape_inference::DimExpr)): equal ones mean equal
    /// extents.
    Symbol(Arc<str>),
    /// Nothing is said.
    Unknown,
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a == b,
            (Dim::Symbol(a), Dim::Symbol(b)) => same_text(a, b),
            (Dim::Unknown, Dim::Unknown) => true,
            _ => false,
        }
    }
}

impl Eq for Dim {}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(n) => write!(f, "{n}"),
            Dim::Symbol(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

impl Dim {
    /// Reads a declaration; a negative number counts as unknown.
    pub fn from_proto(proto: &Dimension) -> Dim {
        match &proto.value {
            Some(dimension::Value::DimValue(n)) => {
                usize::try_from(*n).map_or(Dim::Unknown, Dim::Known)
            }
            Some(dimension::Value::DimParam(name)) if !name.is_empty() => {
                Dim::Symbol(Arc::from(name.as_str()))
            }
            _ => Dim::Unknown,
        }
    }

    /// The declaration that says this dimension.
    pub fn to_proto(&self) -> Dimension {
        let value = match self {
            // A number that the wire cannot hold is not said.
            Dim::Known(n) => i64::try_from(*n).ok().map(dimension::Value::DimValue),
            Dim::Symbol(name) => Some(dimension::Value::DimParam(name.to_string())),
            Dim::Unknown => None,
        };
        Dimension {
            value,
            denotation: None,
        }
    }

    /// The number, when it is known.
    pub fn known(&self) -> Option<usize> {
        match self {
            Dim::Known(n) => Some(*n),
            _ => None,
        }
    }
}

/// What is known of a tensor before it exists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TensorType {
    /// Element type, when known.
    pub dtype: Option<DType>,
    /// Dimensions, when the rank is known.
    pub shape: Option<Vec<Dim>>,
}

impl TensorType {
    /// A type of which only the element type is known.
    pub fn of(dtype: DType) -> TensorType {
        TensorType {
            dtype: Some(dtype),
            shape: None,
        }
    }

    /// A type with every dimension known.
    pub fn concrete(dtype: DType, shape: &[usize]) -> TensorType {
        let shape = shape.iter().map(|&n| Dim::Known(n)).collect();
        TensorType {
            dtype: Some(dtype),
            shape: Some(shape),
        }
    }

    /// Number of axes, when known.
    pub fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    fn read(elem_type: Option<i32>, shape: Option<&TensorShapeProto>) -> TensorType {
        TensorType {
            dtype: elem_type.and_then(DType::from_onnx),
            shape: shape.map(|shape| shape.dim.iter().map(Dim::from_proto).collect()),
        }
    }

    fn shape_proto(&self) -> Option<TensorShapeProto> {
        let dim = self.shape.as_ref()?.iter().map(Dim::to_proto).collect();
        Some(TensorShapeProto { dim })
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}")?,
            None => f.write_str("?")?,
        }
        let Some(shape) = &self.shape else {
            return f.write_str("[...]");
        };
        f.write_str("[")?;
        for (axis, dim) in shape.iter().enumerate() {
            write!(f, "{}{dim}", if axis == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// Types nested deeper than this are not followed; validation refuses them.
pub const TYPE_DEPTH_LIMIT: usize = 64;

/// The type of a value of any kind.
///
/// Nesting is at most [`TYPE_DEPTH_LIMIT`] deep: readers of declarations and the writers of type rules cut what is
/// deeper down to [`ValueType::Unset`], so that walking a type by recursion is safe.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum ValueType {
    /// A dense tensor.
    Tensor(TensorType),
    /// A sparse tensor, with the element type of its values and the dense shape that it stands for.
    SparseTensor(TensorType),
    /// A sequence of values of one type.
    Sequence(Box<ValueType>),
    /// A value or none.
    Optional(Box<ValueType>),
    /// Keys of an integer type or STRING, and values of one type.
    Map {
        /// Type of the keys, when known.
        key: Option<DType>,
        /// Type of the values.
        value: Box<ValueType>,
    },
    /// A structured type, as it is declared: inline, a reference into the model's catalogue, or without a kind.
    Struct(Arc<StructTypeProto>),
    /// A type that only its domain understands.
    Opaque {
        /// Domain of the type's name.
        domain: Arc<str>,
        /// Name of the type.
        name: Arc<str>,
    },
    /// Nothing is known.
    #[default]
    Unset,
}

impl From<TensorType> for ValueType {
    fn from(tensor: TensorType) -> ValueType {
        ValueType::Tensor(tensor)
    }
}

impl ValueType {
    /// Reads a declaration. Dimensions that are negative count as unknown here; validation refuses them.
    pub fn from_proto(proto: Option<&TypeProto>) -> ValueType {
        ValueType::read(proto, TYPE_DEPTH_LIMIT)
    }

    fn read(proto: Option<&TypeProto>, depth: usize) -> ValueType {
        let (Some(value), Some(depth)) = (
            proto.and_then(|proto| proto.value.as_ref()),
            depth.checked_sub(1),
        ) else {
            return ValueType::Unset;
        };
        let inner =
            |proto: &Option<Box<TypeProto>>| Box::new(ValueType::read(proto.as_deref(), depth));
        match value {
            type_proto::Value::TensorType(tensor) => {
                ValueType::Tensor(TensorType::read(tensor.elem_type, tensor.shape.as_ref()))
            }
            type_proto::Value::SparseTensorType(tensor) => {
                ValueType::SparseTensor(TensorType::read(tensor.elem_type, tensor.shape.as_ref()))
            }
            type_proto::Value::SequenceType(sequence) => {
                ValueType::Sequence(inner(&sequence.elem_type))
            }
            type_proto::Value::OptionalType(optional) => {
                ValueType::Optional(inner(&optional.elem_type))
            }
            type_proto::Value::MapType(map) => ValueType::Map {
                key: map.key_type.and_then(DType::from_onnx),
                value: inner(&map.value_type),
            },
            type_proto::Value::OpaqueType(opaque) => ValueType::Opaque {
                domain: Arc::from(opaque.domain()),
                name: Arc::from(opaque.name()),
            },
            type_proto::Value::StructType(declared) => {
                ValueType::Struct(Arc::new((**declared).clone()))
            }
        }
    }

    /// The declaration that says this type; an unset type gives a message without a kind.
    pub fn to_proto(&self) -> TypeProto {
        let inner = |ty: &ValueType| Some(Box::new(ty.to_proto()));
        let value = match self {
            ValueType::Tensor(tensor) => Some(type_proto::Value::TensorType(type_proto::Tensor {
                elem_type: tensor.dtype.map(DType::to_onnx),
                shape: tensor.shape_proto(),
            })),
            ValueType::SparseTensor(tensor) => Some(type_proto::Value::SparseTensorType(
                type_proto::SparseTensor {
                    elem_type: tensor.dtype.map(DType::to_onnx),
                    shape: tensor.shape_proto(),
                },
            )),
            ValueType::Sequence(element) => Some(type_proto::Value::SequenceType(Box::new(
                type_proto::Sequence {
                    elem_type: inner(element),
                },
            ))),
            ValueType::Optional(element) => Some(type_proto::Value::OptionalType(Box::new(
                type_proto::Optional {
                    elem_type: inner(element),
                },
            ))),
            ValueType::Map { key, value } => {
                Some(type_proto::Value::MapType(Box::new(type_proto::Map {
                    key_type: key.map(DType::to_onnx),
                    value_type: inner(value),
                })))
            }
            ValueType::Struct(declared) => Some(type_proto::Value::StructType(Box::new(
                (**declared).clone(),
            ))),
            ValueType::Opaque { domain, name } => {
                let text = |text: &Arc<str>| (!text.is_empty()).then(|| text.to_string());
                Some(type_proto::Value::OpaqueType(type_proto::Opaque {
                    domain: text(domain),
                    name: text(name),
                }))
            }
            ValueType::Unset => None,
        };
        TypeProto {
            denotation: None,
            value,
        }
    }

    /// The tensor type, when this is a dense tensor.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            ValueType::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The type of the elements, when this is a sequence.
    pub fn element(&self) -> Option<&ValueType> {
        match self {
            ValueType::Sequence(element) => Some(element),
            _ => None,
        }
    }

    /// A sequence of values of this type.
    pub fn sequence_of(element: impl Into<ValueType>) -> ValueType {
        ValueType::Sequence(Box::new(element.into()))
    }

    /// An optional value of this type.
    pub fn optional_of(element: impl Into<ValueType>) -> ValueType {
        ValueType::Optional(Box::new(element.into()))
    }

    /// The name that ONNX has for this kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            ValueType::Tensor(_) => "tensor",
            ValueType::SparseTensor(_) => "sparse tensor",
            ValueType::Sequence(_) => "sequence",
            ValueType::Optional(_) => "optional",
            ValueType::Map { .. } => "map",
            ValueType::Struct(_) => "struct",
            ValueType::Opaque { .. } => "opaque",
            ValueType::Unset => "no type",
        }
    }

    /// How many types stand inside one another, this one included.
    pub fn depth(&self) -> usize {
        let (mut depth, mut ty) = (1, self);
        while let ValueType::Sequence(inner)
        | ValueType::Optional(inner)
        | ValueType::Map { value: inner, .. } = ty
        {
            depth += 1;
            ty = inner;
        }
        depth
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Tensor(tensor) => tensor.fmt(f),
            ValueType::SparseTensor(tensor) => write!(f, "sparse {tensor}"),
            ValueType::Sequence(element) => write!(f, "sequence of {element}"),
            ValueType::Optional(element) => write!(f, "optional {element}"),
            ValueType::Map { key, value } => match key {
                Some(key) => write!(f, "map of {key} to {value}"),
                None => write!(f, "map of ? to {value}"),
            },
            ValueType::Struct(declared) => match declared.name() {
                "" => f.write_str("struct"),
                name => write!(f, "struct {}", shown(name)),
            },
            ValueType::Opaque { domain, name } => {
                write!(f, "opaque {}::{}", shown(domain), shown(name))
            }
            ValueType::Unset => f.write_str("no type"),
        }
    }
}

/// A named, typed graph input or output.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueInfo {
    /// The value's name, taken literally.
    pub name: Arc<str>,
    /// Its declared type.
    pub ty: ValueType,
}

impl ValueInfo {
    /// Reads a declaration.
    pub fn from_proto(proto: &ValueInfoProto) -> ValueInfo {
        let name = Arc::from(proto.name.as_deref().unwrap_or_default());
        ValueInfo {
            name,
            ty: ValueType::from_proto(proto.r#type.as_ref()),
        }
    }
}
