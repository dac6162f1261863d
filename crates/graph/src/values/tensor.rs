//! Dense tensors.

use crate::error::ModelError;
use crate::load::{ExternalData, LoadError, tensor_bytes};
use refeed_proto::{Bytes, TensorProto};
use refeed_values::{
    Allocator, Buffer, DType, Dims, Extent, Provenance, Tensor, TensorError, TensorMut,
};

/// What a dense message holds.
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    pub(crate) shape: Dims,
    pub(crate) bytes: Bytes,
    /// Whether the bytes are the file's or message's own, and not made from typed fields.
    pub(crate) shared: bool,
}

impl Elements {
    pub(crate) fn of(proto: &TensorProto, external: &ExternalData) -> Result<Elements, LoadError> {
        let name = || proto.name().to_string();
        let bytes = tensor_bytes(proto, external)?;
        let number = proto.data_type();
        let dtype = DType::from_onnx(number).ok_or_else(|| LoadError::DataType {
            tensor: name(),
            number,
        })?;
        let (_, shape) =
            Extent::from_dims(dtype, &proto.dims).map_err(|source| LoadError::Dims {
                tensor: name(),
                source,
            })?;
        Ok(Elements {
            dtype,
            shape,
            bytes,
            shared: proto.raw_data.is_some() || proto.is_external(),
        })
    }

    pub(crate) fn is_aligned(&self) -> bool {
        self.bytes.is_empty()
            || self
                .bytes
                .as_ptr()
                .addr()
                .is_multiple_of(self.dtype.align())
    }
}

/// A heap tensor as the owner of bytes.
struct MovedBytes(Tensor);

impl AsRef<[u8]> for MovedBytes {
    fn as_ref(&self) -> &[u8] {
        // The tensor is dense: it was made from bytes.
        self.0.as_bytes().unwrap_or_default()
    }
}

/// Copies bytes to memory that is aligned for every type.
pub(crate) fn moved(bytes: &[u8], provenance: Provenance) -> Result<Buffer, TensorError> {
    let mut memory = TensorMut::new(&Allocator::default(), DType::Uint8, &[bytes.len()])?;
    memory.as_mut_bytes().copy_from_slice(bytes);
    Ok(match provenance {
        Provenance::Heap => memory.freeze().into_buffer(),
        other => Buffer::from_owner(MovedBytes(memory.freeze()), other),
    })
}

/// A tensor over bytes of its own type; bytes that are not aligned for it are moved.
pub(crate) fn adopt(elements: Elements, provenance: Provenance) -> Result<Tensor, TensorError> {
    let buffer = match (elements.is_aligned(), elements.shared) {
        (true, true) => Buffer::from_owner(elements.bytes, provenance),
        // Made here, so nobody else refills them.
        (true, false) => Buffer::from_owner(elements.bytes, Provenance::Model),
        (false, _) => moved(&elements.bytes, Provenance::Heap)?,
    };
    Tensor::dense(elements.dtype, &elements.shape, buffer)
}

/// A message as a tensor. `raw_data` is shared when it is aligned for its type; typed fields are converted.
///
/// ```
/// use refeed_graph::values::{tensor_from_proto, tensor_to_proto};
/// use refeed_values::Tensor;
/// let tensor = Tensor::from_slice(&[2], &[1.5f32, 2.5])?;
/// let proto = tensor_to_proto(&tensor)?;
/// let again = tensor_from_proto(&proto)?;
/// assert_eq!(again.as_ptr(), tensor.as_ptr());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the tensor is broken, is of type STRING or in another file, or memory cannot be had.
pub fn tensor_from_proto(proto: &TensorProto) -> Result<Tensor, ModelError> {
    let elements = Elements::of(proto, &ExternalData::none())?;
    adopt(elements, Provenance::Foreign).map_err(|source| ModelError::Tensor {
        tensor: proto.name().to_string(),
        source,
    })
}

/// A tensor as a message without a name, whose `raw_data` is the tensor's memory. A strided tensor is copied.
///
/// # Errors
/// When memory for a copy cannot be had, or an extent does not fit the wire.
pub fn tensor_to_proto(tensor: &Tensor) -> Result<TensorProto, ModelError> {
    let broken = |source| ModelError::Tensor {
        tensor: String::new(),
        source,
    };
    let bytes = match tensor.to_bytes() {
        Some(bytes) => bytes,
        None => {
            let dense = tensor.to_dense(&Allocator::default()).map_err(broken)?;
            dense.to_bytes().unwrap_or_default()
        }
    };
    Ok(TensorProto {
        data_type: Some(tensor.dtype().to_onnx()),
        dims: wire_dims(tensor.shape()),
        raw_data: Some(bytes),
        ..TensorProto::default()
    })
}

/// Extents as the wire has them: sizes of tensors fit.
pub(crate) fn wire_dims(shape: &[usize]) -> Vec<i64> {
    let dims = shape.iter().map(|&extent| extent.try_into());
    dims.map(|dim| dim.unwrap_or(i64::MAX)).collect()
}
