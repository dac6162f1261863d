//! Enums of the schema: the wrapper that translates between names and numbers, and the constants.

use super::descriptor::EnumDescriptor as Described;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use refeed_proto::message::EnumDescriptor;

/// Names and numbers of an enum: `TensorProto.DataType`.
#[pyclass(name = "EnumTypeWrapper", module = "refeed.onnx", frozen)]
pub(crate) struct EnumTypeWrapper {
    descriptor: &'static EnumDescriptor,
}

/// Puts an enum and a constant for each of its values where `scope.name` finds them.
pub(crate) fn add_to(
    scope: &Bound<'_, PyAny>,
    descriptor: &'static EnumDescriptor,
) -> PyResult<()> {
    scope.setattr(descriptor.name, EnumTypeWrapper { descriptor })?;
    for value in descriptor.values {
        scope.setattr(value.name, value.number)?;
    }
    Ok(())
}

impl EnumTypeWrapper {
    fn no_name(&self, name: &str) -> String {
        format!(
            "Enum {} has no value defined for name '{name}'",
            self.descriptor.name
        )
    }
}

#[pymethods]
impl EnumTypeWrapper {
    // Names as in protobuf's interface.
    #![allow(non_snake_case)]

    #[getter]
    fn DESCRIPTOR(&self) -> Described {
        Described::new(self.descriptor)
    }

    fn Name(&self, number: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let enum_name = self.descriptor.name;
        if !number.is_instance_of::<PyInt>() {
            let (kind, shown) = (number.get_type(), number.repr()?);
            return Err(PyTypeError::new_err(format!(
                "Enum value for {enum_name} must be an int, but got {kind} {shown}."
            )));
        }
        let known = number.extract::<i32>().ok();
        let name = known.and_then(|number| self.descriptor.name_of(number));
        match name {
            Some(name) => Ok(name),
            None => Err(PyValueError::new_err(format!(
                "Enum {enum_name} has no name defined for value {}",
                number.str()?
            ))),
        }
    }

    fn Value(&self, name: &Bound<'_, PyAny>) -> PyResult<i32> {
        let Ok(text) = name.cast::<PyString>() else {
            let shown = name.repr()?;
            let enum_name = self.descriptor.name;
            return Err(PyValueError::new_err(format!(
                "Enum {enum_name} has no value defined for name {shown}"
            )));
        };
        let text = text.to_cow()?;
        let number = self.descriptor.number_of(&text);
        number.ok_or_else(|| PyValueError::new_err(self.no_name(&text)))
    }

    fn keys(&self) -> Vec<&'static str> {
        self.descriptor
            .values
            .iter()
            .map(|value| value.name)
            .collect()
    }

    fn values(&self) -> Vec<i32> {
        self.descriptor
            .values
            .iter()
            .map(|value| value.number)
            .collect()
    }

    fn items(&self) -> Vec<(&'static str, i32)> {
        let values = self.descriptor.values.iter();
        values.map(|value| (value.name, value.number)).collect()
    }

    fn __getattr__(&self, name: &str) -> PyResult<i32> {
        let number = self.descriptor.number_of(name);
        number.ok_or_else(|| PyAttributeError::new_err(self.no_name(name)))
    }

    fn __repr__(&self) -> String {
        format!("<EnumTypeWrapper of {}>", self.descriptor.full_name)
    }
}
