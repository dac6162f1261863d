//! `StringTensor`: tensors of STRING, to and from arrays of texts.

use crate::error::IntoPyErr;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use refeed_values::{DType, StringTensor};

/// A tensor of STRING, as calls give it back.
#[pyclass(name = "StringTensor", module = "refeed.runtime", frozen)]
pub(crate) struct PyStringTensor {
    strings: StringTensor,
    name: Py<PyString>,
}

impl PyStringTensor {
    pub(crate) fn new(strings: StringTensor, name: Py<PyString>) -> PyStringTensor {
        PyStringTensor { strings, name }
    }

    pub(crate) fn strings(&self) -> &StringTensor {
        &self.strings
    }

    /// The tensor's name as text.
    pub(crate) fn name_text(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.name.bind(py).to_str()?.to_string())
    }

    /// The texts as a flat list: `str`, or `bytes` for one that is not UTF-8.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for text in self.strings.elements() {
            match std::str::from_utf8(text) {
                Ok(text) => list.append(PyString::new(py, text))?,
                Err(_) => list.append(PyBytes::new(py, text))?,
            }
        }
        Ok(list)
    }
}

/// Reads a `StringTensor` or a NumPy array of texts, of whatever layout, whose texts are copied; `None` for other objects.
///
/// # Errors
/// When NumPy fails.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<Option<StringTensor>> {
    if let Ok(held) = object.cast::<PyStringTensor>() {
        return Ok(Some(held.get().strings.clone()));
    }
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        return Ok(None);
    };
    if !matches!(array.dtype().kind(), b'U' | b'S' | b'T' | b'O') {
        return Ok(None);
    }
    let shape = array.shape().to_vec();
    let flat = object.call_method0("ravel")?.call_method0("tolist")?;
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for text in flat.try_iter()? {
        let text = text?;
        if let Ok(text) = text.cast::<PyString>() {
            texts.push(text.to_str()?.as_bytes().to_vec());
        } else if let Ok(text) = text.cast::<PyBytes>() {
            texts.push(text.as_bytes().to_vec());
        } else {
            return Ok(None);
        }
    }
    let made = StringTensor::new(&shape, texts);
    made.map(Some).map_err(|error| error.into_py(object.py()))
}

#[pymethods]
impl PyStringTensor {
    /// The name that the call gives it.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// Extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.strings.shape())
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.strings.shape().len()
    }

    /// `TensorProto.STRING`.
    #[getter]
    fn data_type(&self) -> i32 {
        DType::String.to_onnx()
    }

    /// Return a new array of `str` objects; of `bytes` where a text is not UTF-8.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("empty", (self.strings.elements().len(), "object"))?;
        array.set_item(pyo3::types::PySlice::full(py), self.list(py)?)?;
        array.call_method1("reshape", (self.shape(py)?,))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            let text = "texts are copied to become an array";
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        let array = self.numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    /// Return the texts as nested lists; of no axes, the text.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numpy(py)?.call_method0("tolist")
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = self.name.bind(py).to_string_lossy();
        format!(
            "StringTensor(name={name:?}, shape={:?})",
            self.strings.shape()
        )
    }
}
