//! Declared types of values: element type and a shape of known, named or unknown dimensions.

use refeed_proto::{TypeProto, ValueInfoProto, tensor_shape_proto, type_proto};
use refeed_values::DType;
use std::fmt;
use std::sync::Arc;

/// One declared dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// A name: equal names mean equal extents.
    Symbol(Arc<str>),
    /// Nothing is said.
    Unknown,
}

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

/// The declared type of a graph value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ValueType {
    /// A dense tensor.
    Tensor(TensorType),
    /// A kind of value that is described but not executed here, by its ONNX name.
    Other(&'static str),
    /// No type is declared.
    Unset,
}

impl ValueType {
    /// Reads a declaration. Dimensions that are negative count as unknown here; validation refuses them.
    pub fn from_proto(proto: Option<&TypeProto>) -> ValueType {
        match proto.and_then(|proto| proto.value.as_ref()) {
            None => ValueType::Unset,
            Some(type_proto::Value::TensorType(tensor)) => {
                let shape = tensor.shape.as_ref().map(|shape| {
                    shape.dim.iter().map(|dim| match &dim.value {
                        Some(tensor_shape_proto::dimension::Value::DimValue(n)) => {
                            usize::try_from(*n).map_or(Dim::Unknown, Dim::Known)
                        }
                        Some(tensor_shape_proto::dimension::Value::DimParam(name))
                            if !name.is_empty() =>
                        {
                            Dim::Symbol(Arc::from(name.as_str()))
                        }
                        _ => Dim::Unknown,
                    })
                });
                let dtype = tensor.elem_type.and_then(DType::from_onnx);
                ValueType::Tensor(TensorType {
                    dtype,
                    shape: shape.map(Iterator::collect),
                })
            }
            Some(type_proto::Value::SequenceType(_)) => ValueType::Other("sequence"),
            Some(type_proto::Value::MapType(_)) => ValueType::Other("map"),
            Some(type_proto::Value::OptionalType(_)) => ValueType::Other("optional"),
            Some(type_proto::Value::SparseTensorType(_)) => ValueType::Other("sparse tensor"),
            Some(type_proto::Value::OpaqueType(_)) => ValueType::Other("opaque"),
            Some(type_proto::Value::StructType(_)) => ValueType::Other("struct"),
        }
    }

    /// The tensor type, when this is one.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            ValueType::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Tensor(tensor) => tensor.fmt(f),
            ValueType::Other(kind) => f.write_str(kind),
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
