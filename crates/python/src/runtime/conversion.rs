//! Tensors from messages and raw bytes, and back: `tensor_from_proto`, `tensor_to_proto`, `tensor_from_numpy`,
//! `tensor_to_numpy`.

use crate::error::{Class, IntoPyErr};
use crate::interop;
use crate::onnx::convert::{message_of, prost_of};
use crate::run;
use crate::runtime::strings::PyStringTensor;
use crate::runtime::tensor::{PyTensor, Warned};
use crate::runtime::value;
use pyo3::prelude::*;
use pyo3::types::PyString;
use refeed_graph::values;
use refeed_proto::TensorProto;
use refeed_values::{Allocator, DType, Extent, Layout, Tensor, TensorMut};

/// Return the tensor of a message: a `Tensor`, or a `StringTensor` of texts.
#[pyfunction]
#[pyo3(signature = (tensor, /))]
pub(crate) fn tensor_from_proto<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let proto: TensorProto = prost_of(tensor)?;
    let name = PyString::new(py, proto.name()).unbind();
    let read = run::detached(py, || values::value_from_proto(&proto))?;
    value::write(py, read, &name, &Warned::default())
}

/// Return the message of a tensor: its elements are `raw_data`, which shares the tensor's memory.
#[pyfunction]
#[pyo3(signature = (tensor, /))]
pub(crate) fn tensor_to_proto<'py>(
    py: Python<'py>,
    tensor: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (mut proto, name) = match tensor.cast::<PyStringTensor>() {
        Ok(strings) => {
            let strings = strings.get();
            let proto = values::strings_to_proto(strings.strings());
            (proto, strings.name_text(py)?)
        }
        Err(_) => {
            let tensor = tensor.cast::<PyTensor>()?.borrow();
            let held = tensor.tensor().clone();
            let proto = run::detached(py, || values::tensor_to_proto(&held))?;
            (proto, tensor.name_text(py)?)
        }
    };
    proto.name = (!name.is_empty()).then_some(name);
    message_of(py, &proto)
}

/// Return the bytes of a tensor as a read-only uint8 array of one axis, which shares the tensor's memory.
#[pyfunction]
#[pyo3(signature = (tensor, /, steal = false))]
pub(crate) fn tensor_to_numpy<'py>(
    py: Python<'py>,
    mut tensor: PyRefMut<'py, PyTensor>,
    steal: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let held = tensor.tensor().clone();
    let bytes = run::detached(py, || {
        let dense = match held.is_contiguous() {
            true => held,
            false => held.to_dense(&Allocator::default())?,
        };
        let layout = Layout::contiguous(&[dense.bytes()]);
        Tensor::from_parts(DType::Uint8, layout, dense.offset(), dense.buffer().clone())
    })?;
    let array = interop::numpy::export(py, &bytes)
        .map_err(|refused| refused.named(py, "tensor", "bytes"))?;
    if steal {
        tensor.let_go(py)?;
    }
    Ok(array)
}

/// Return a tensor of these bytes.
#[pyfunction]
#[pyo3(signature = (name, data_type, shape, raw, copy = true))]
pub(crate) fn tensor_from_numpy<'py>(
    name: Bound<'py, PyString>,
    data_type: i32,
    shape: Vec<i64>,
    raw: &Bound<'py, PyAny>,
    copy: bool,
) -> PyResult<PyTensor> {
    let py = raw.py();
    let text = name.to_string_lossy().into_owned();
    let refuse =
        |message: String| Class::ValueType.error(py, format_args!("tensor `{text}`: {message}"));
    let dtype = DType::from_onnx(data_type)
        .ok_or_else(|| refuse(format!("data type {data_type} is none that tensors have")))?;
    let (extent, dims) =
        Extent::from_dims(dtype, &shape).map_err(|error| refuse(error.to_string()))?;
    let bytes = interop::tensor(raw).map_err(|refused| refused.named(py, "tensor", &text))?;
    if bytes.dtype() != DType::Uint8 || bytes.rank() != 1 || !bytes.is_contiguous() {
        return Err(refuse(format!(
            "expected bytes as a contiguous uint8 array of one axis, got {} of shape {:?}",
            bytes.dtype(),
            bytes.shape()
        )));
    }
    if bytes.bytes() != extent.bytes() {
        return Err(refuse(format!(
            "{dtype} elements of shape {dims:?} take {} bytes, got {}",
            extent.bytes(),
            bytes.bytes()
        )));
    }
    let tensor = match copy {
        true => run::detached(py, || {
            let mut out = TensorMut::new(&Allocator::default(), dtype, &dims)?;
            out.as_mut_bytes()
                .copy_from_slice(bytes.as_bytes().unwrap_or_default());
            Ok::<_, refeed_values::TensorError>(out.freeze())
        })?,
        false => {
            let layout = Layout::contiguous(&dims);
            Tensor::from_parts(dtype, layout, bytes.offset(), bytes.buffer().clone())
                .map_err(|error| error.into_py(py))?
        }
    };
    if !tensor.is_aligned() {
        let align = dtype.align();
        return Err(refuse(format!(
            "memory of {dtype} elements must be aligned to {align} bytes; expected copy=True"
        )));
    }
    Ok(PyTensor::new(tensor, name.unbind(), Warned::default()))
}
