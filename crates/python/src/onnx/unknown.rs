//! Fields that the schema does not know, as Python sees them.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use refeed_proto::message::{UnknownField as Field, UnknownValue};

/// One unknown field: as much as the wire tells of it.
#[pyclass(name = "UnknownField", module = "refeed.onnx", frozen, get_all)]
pub(crate) struct UnknownField {
    field_number: u32,
    wire_type: u8,
    data: Py<PyAny>,
}

/// Unknown fields as a list. Groups, which nest at most as deep as messages do on the wire, are lists themselves.
pub(crate) fn list<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for field in fields {
        let data = match &field.value {
            UnknownValue::Varint(number) | UnknownValue::Fixed64(number) => {
                number.into_py_any(py)?
            }
            UnknownValue::Fixed32(number) => number.into_py_any(py)?,
            UnknownValue::Bytes(bytes) => PyBytes::new(py, bytes).into_py_any(py)?,
            UnknownValue::Group(fields) => self::list(py, fields)?.into_py_any(py)?,
        };
        list.append(UnknownField {
            field_number: field.number,
            wire_type: field.value.wire_type(),
            data,
        })?;
    }
    Ok(list)
}

#[pymethods]
impl UnknownField {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let data = self.data.bind(py).repr()?;
        Ok(format!(
            "UnknownField(field_number={}, wire_type={}, data={data})",
            self.field_number, self.wire_type
        ))
    }
}
