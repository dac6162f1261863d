//! Small constants of a model as tensors that type rules read.

use crate::attributes::{AttributeError, Attributes};
use crate::load::{ExternalData, tensor_bytes};
use crate::ops::constant::ConstantValue;
use crate::types::{Dim, TensorType, ValueType};
use refeed_proto::TensorProto;
use refeed_values::{Allocator, DType, MAX_RANK, Tensor, TensorMut};

/// Larger constants are weights, not parameters of an operator.
const ELEMENTS: usize = 1024;

/// The element type and dimensions that a tensor states. Without valid dimensions only the element type.
pub(super) fn stated_type(tensor: &TensorProto) -> TensorType {
    TensorType {
        dtype: tensor.data_type.and_then(DType::from_onnx),
        shape: dims(&tensor.dims),
    }
}

/// Dimensions that a tensor states; `None` when one is negative or there are too many.
pub(super) fn dims(stated: &[i64]) -> Option<Vec<Dim>> {
    if stated.len() > MAX_RANK {
        return None;
    }
    let dim = |&dim: &i64| usize::try_from(dim).ok().map(Dim::Known);
    stated.iter().map(dim).collect()
}

/// The value of a `Constant` node, when it is small and numeric.
///
/// # Errors
/// When the node's attributes are not those of a `Constant`.
pub(super) fn of_node(attributes: &Attributes<'_>) -> Result<Option<Tensor>, AttributeError> {
    let made = match ConstantValue::read(attributes)? {
        ConstantValue::Tensor(tensor) => return Ok(small(tensor)),
        ConstantValue::Int(value) => Tensor::scalar(value),
        ConstantValue::Float(value) => Tensor::scalar(value),
        ConstantValue::Ints(values) if values.len() <= ELEMENTS => {
            Tensor::from_slice(&[values.len()], values)
        }
        ConstantValue::Floats(values) if values.len() <= ELEMENTS => {
            Tensor::from_slice(&[values.len()], values)
        }
        _ => return Ok(None),
    };
    Ok(made.ok())
}

/// A constant, when it is small, inside the model, and not broken.
pub(crate) fn small(proto: &TensorProto) -> Option<Tensor> {
    let dtype = DType::from_onnx(proto.data_type())?;
    let shape: Vec<usize> = proto
        .dims
        .iter()
        .map(|&dim| usize::try_from(dim).ok())
        .collect::<Option<_>>()?;
    let elements = shape
        .iter()
        .try_fold(1usize, |n, &dim| n.checked_mul(dim))?;
    if elements > ELEMENTS {
        return None;
    }
    let bytes = tensor_bytes(proto, &ExternalData::none()).ok()?;
    let mut memory = TensorMut::new(&Allocator::default(), dtype, &shape).ok()?;
    let room = memory.as_mut_bytes();
    if room.len() != bytes.len() {
        return None;
    }
    room.copy_from_slice(&bytes);
    Some(memory.freeze())
}

/// The type of an initializer.
pub(super) fn initializer_type(tensor: &TensorProto) -> ValueType {
    ValueType::Tensor(stated_type(tensor))
}
