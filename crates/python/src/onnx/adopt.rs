//! Tensors whose `raw_data` is the memory of an array.

use super::message::Message;
use super::repeated::too_deep;
use super::tree;
use crate::interop::numpy;
use ::numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use refeed_proto::message::{Payload, Value, descriptors};

/// Makes the memory of a read-only, C-contiguous array the content of a tensor's `raw_data`.
///
/// # Errors
/// `TypeError` when the message is no tensor or the array has gaps, `ValueError` when the array can be written to.
#[pyfunction(name = "_adopt")]
pub(crate) fn adopt(
    tensor: &Bound<'_, Message>,
    array: &Bound<'_, PyUntypedArray>,
) -> PyResult<()> {
    let py = tensor.py();
    let cell = tensor.get().cell(py)?;
    let field = descriptors::TENSOR_PROTO.field("raw_data");
    let Some(field) = field.filter(|_| *cell.descriptor() == descriptors::TENSOR_PROTO) else {
        return Err(PyTypeError::new_err(format!(
            "expected a TensorProto, got a {}",
            cell.descriptor().name
        )));
    };
    let bytes = numpy::share(array).map_err(|refused| refused.named(py, "array", "copy=False"))?;
    let value = Value::bytes(Payload::new(bytes));
    tree::with(py, |lock| cell.set(lock, field.slot, value)).map_err(|error| too_deep(py, error))
}
