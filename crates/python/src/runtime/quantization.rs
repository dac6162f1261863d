//! Quantised tensors whose parameters a model shares: `quantize_tensor_shared`, `dequantize_tensor` and what belongs to
//! them.

use super::message::{
    catalogues_of, catalogues_or_none, encoded_form, encoded_message, is_message, read,
};
use crate::error::{Class, class_of};
use crate::interop;
use crate::onnx::convert::{message_of, prost_of};
use crate::run;
use crate::runtime::tensor::{PyTensor, Warned};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use refeed_graph::values;
use refeed_proto::message::descriptors;
use refeed_proto::{ModelProto, StructTypeProto, TensorProto, TypeProto};
use refeed_values::encoded::{self, Plan, Role};
use refeed_values::paged_cache::has_paged_cache_structure;
use refeed_values::{Allocator, DType, EncodedValue, Tensor};

/// A quantised tensor whose parameters a model shares; it keeps them, whatever becomes of the model.
#[pyclass(name = "SharedQuantizedValue", module = "refeed.runtime", frozen)]
pub(crate) struct PySharedQuantizedValue {
    value: EncodedValue,
}

impl PySharedQuantizedValue {
    pub(crate) fn new(value: EncodedValue) -> PySharedQuantizedValue {
        PySharedQuantizedValue { value }
    }

    pub(crate) fn value(&self) -> &EncodedValue {
        &self.value
    }
}

#[pymethods]
impl PySharedQuantizedValue {
    /// A message of the value, with `parameter_ref`; its payload is shared, the message is a new one each time.
    #[getter]
    fn encoded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        encoded_message(py, &self.value)
    }

    /// Name of the parameter set.
    #[getter]
    fn parameter_ref(&self) -> &str {
        self.value.parameters().map_or("", |set| set.name())
    }

    /// The payload: a reserved zero byte, the values of outliers, the codes.
    #[getter]
    fn raw_data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.value.payload().as_bytes().unwrap_or_default())
    }

    fn __repr__(&self) -> String {
        let logical = self.value.logical();
        let logical = logical.map_or(String::new(), |(dtype, shape)| format!("{dtype}{shape:?}"));
        format!(
            "<SharedQuantizedValue {logical} of `{}`>",
            self.parameter_ref()
        )
    }
}

/// The elements of a `TensorProto`, a `Tensor`, an array.
fn tensor_of(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Tensor> {
    let py = value.py();
    if is_message(value, &descriptors::TENSOR_PROTO) {
        let proto: TensorProto = prost_of(value)?;
        return run::detached(py, || values::tensor_from_proto(&proto));
    }
    interop::tensor(value).map_err(|refused| refused.named(py, "tensor", what))
}

/// An encoded value of whatever form.
fn encoded_of(
    value: &Bound<'_, PyAny>,
    model: Option<&Bound<'_, PyAny>>,
) -> PyResult<EncodedValue> {
    match read(value, &catalogues_or_none(model)?)? {
        Some(refeed_values::RuntimeValue::Encoded(value)) => Ok(value),
        _ => {
            let kind = class_of(value);
            Err(PyTypeError::new_err(format!(
                "value: expected an EncodedValueProto or a SharedQuantizedValue, got {kind}"
            )))
        }
    }
}

/// Holds the pages of a cache to their rules, without decoding them.
#[pyfunction]
#[pyo3(signature = (cache, model = None))]
pub(crate) fn check_paged_cache(
    cache: &Bound<'_, PyAny>,
    model: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    match read(cache, &catalogues_or_none(model)?)? {
        Some(value) if has_paged_cache_structure(&value) => Ok(()),
        _ => {
            let kind = class_of(cache);
            Err(PyTypeError::new_err(format!(
                "cache: expected a PagedCacheProto, got {kind}"
            )))
        }
    }
}

/// Encodes a tensor with a set of the model. Numbers outside the range of the shared scales saturate.
#[pyfunction]
#[pyo3(signature = (tensor, model, name))]
pub(crate) fn quantize_tensor_shared(
    tensor: &Bound<'_, PyAny>,
    model: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<PySharedQuantizedValue> {
    let py = tensor.py();
    let catalogues = catalogues_of(model)?;
    let tensor = tensor_of(tensor, "tensor")?;
    let set = run::attached(py, || catalogues.parameters().at(name).cloned())?;
    let value = run::detached(py, || encoded::quantize_shared(&tensor, &set))?;
    Ok(PySharedQuantizedValue { value })
}

/// Gives the value with its parameters inside, so that it needs no model.
#[pyfunction]
#[pyo3(signature = (value, model = None))]
pub(crate) fn materialize_quantized_value<'py>(
    value: &Bound<'py, PyAny>,
    model: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let value = encoded_of(value, model)?;
    let whole = run::detached(py, || encoded::materialize(&value))?;
    encoded_form(py, &whole)
}

/// Decodes a value: affine layouts to FLOAT, values of the affine profile to the type that they declare.
#[pyfunction]
#[pyo3(signature = (value, model = None))]
pub(crate) fn dequantize_tensor(
    value: &Bound<'_, PyAny>,
    model: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    let py = value.py();
    let value = encoded_of(value, model)?;
    let tensor = run::detached(py, || value.decode(&Allocator::default()))?;
    let name = PyString::new(py, "").unbind();
    Ok(PyTensor::new(tensor, name, Warned::default()))
}

/// Gives the struct type of values that refer to a set of the model: what they hold themselves.
#[pyfunction]
#[pyo3(signature = (model, name))]
pub(crate) fn make_shared_quantization_type<'py>(
    model: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = model.py();
    let catalogues = catalogues_of(model)?;
    let ty = run::attached(py, || {
        values::make_shared_quantization_type(catalogues.parameters().at(name)?)
    })?;
    message_of(py, &ty)
}

/// Makes the struct type of values with affine codes in blocks, which carry all their parameters.
#[pyfunction]
#[pyo3(signature = (data_type, count, block_size = 128, *, permutation = false, matrix_size = 0, outliers = 0))]
pub(crate) fn make_affine_quantization_type(
    py: Python<'_>,
    data_type: i32,
    count: usize,
    block_size: usize,
    permutation: bool,
    matrix_size: usize,
    outliers: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let codes = DType::from_onnx(data_type).ok_or_else(|| {
        let text = format!("data type {data_type} is none that tensors have");
        Class::ValueType.error(py, text)
    })?;
    let storage = run::attached(py, || {
        let mut plan = Plan::affine(codes, count, block_size)?;
        if permutation {
            plan = plan.with_permutation();
        }
        plan.with_matrix(matrix_size)?
            .with_outliers(outliers)?
            .storage_type()
    })?;
    let ty = run::attached(py, || values::struct_type_to_proto(&storage))?;
    message_of(py, &ty)
}

/// Adds a set of quantisation parameters that values of the model share.
#[pyfunction]
#[pyo3(signature = (
    model, name, storage_type, logical_type, *, scales, zero_points = None, offsets = None, codebooks = None,
    permutation = None, forward = None, inverse = None, outliers = None
))]
#[allow(clippy::too_many_arguments)] // one argument a role
pub(crate) fn add_quantization_parameters<'py>(
    model: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    storage_type: &Bound<'py, PyAny>,
    logical_type: &Bound<'py, PyAny>,
    scales: Option<Bound<'py, PyAny>>,
    zero_points: Option<Bound<'py, PyAny>>,
    offsets: Option<Bound<'py, PyAny>>,
    codebooks: Option<Bound<'py, PyAny>>,
    permutation: Option<Bound<'py, PyAny>>,
    forward: Option<Bound<'py, PyAny>>,
    inverse: Option<Bound<'py, PyAny>>,
    outliers: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = model.py();
    let refuse = |text: String| Class::ValueType.error(py, text);
    let Ok(name) = name.extract::<String>() else {
        let kind = class_of(name);
        return Err(refuse(format!("name: expected a str, got {kind}")));
    };
    let given = [
        scales,
        zero_points,
        offsets,
        codebooks,
        permutation,
        forward,
        inverse,
        outliers,
    ];
    if given[0].is_none() {
        return Err(refuse("scales: expected a tensor, got None".to_string()));
    }
    let mut roles = Vec::new();
    for (role, value) in Role::ALL.into_iter().zip(given) {
        if let Some(value) = value {
            let tensor = tensor_of(&value, role.name())?;
            let proto = run::attached(py, || values::tensor_to_proto(&tensor))?;
            roles.push((role, proto));
        }
    }
    let proto: ModelProto = prost_of(model)?;
    let storage: StructTypeProto = prost_of(storage_type)?;
    let logical: TypeProto = prost_of(logical_type)?;
    let added = run::detached(py, || {
        values::add_quantization_parameters(&proto, &name, &storage, &logical, &roles)
    })?;
    let tensors = added.initializers.iter();
    let tensors: Vec<_> = tensors
        .map(|tensor| message_of(py, tensor))
        .collect::<PyResult<_>>()?;
    let annotation = message_of(py, &added.annotation)?;
    let local_type = message_of(py, &added.local_type)?;
    let graph = model.getattr("graph")?;
    graph
        .getattr("initializer")?
        .call_method1("extend", (tensors,))?;
    let sets = graph.getattr("quantization_annotation")?;
    sets.call_method1("append", (annotation,))?;
    Ok(local_type)
}
