//! `refeed.runtime.Tensor`: a handle to a value, with metadata of its own.

use crate::error::{Class, IntoPyErr, class_of};
use crate::interop::dlpack::{self, Wanted};
use crate::interop::{self, Refused};
use crate::run;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use refeed_values::{Allocator, DType, Extent, Tensor, TensorMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the consumers of one owner's tensors were warned of a copy.
pub(crate) type Warned = Arc<AtomicBool>;

/// A handle to a value. Its memory is shared and never written; its metadata is its own.
#[pyclass(name = "Tensor", module = "refeed.runtime")]
pub(crate) struct PyTensor {
    tensor: Tensor,
    name: Py<PyString>,
    warned: Warned,
}

impl PyTensor {
    pub(crate) fn new(tensor: Tensor, name: Py<PyString>, warned: Warned) -> PyTensor {
        PyTensor {
            tensor,
            name,
            warned,
        }
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The tensor's name as text.
    pub(crate) fn name_text(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.name.bind(py).to_str()?.to_string())
    }

    /// Lets the memory go: what is left has no elements.
    pub(crate) fn let_go(&mut self, py: Python<'_>) -> PyResult<()> {
        self.tensor = TensorMut::new(&Allocator::default(), self.tensor.dtype(), &[0])
            .map_err(|error| error.into_py(py))?
            .freeze();
        Ok(())
    }

    fn refuse(&self, py: Python<'_>, refused: Refused) -> PyErr {
        refused.named(py, "tensor", &self.name.bind(py).to_string_lossy())
    }

    fn dense_copy(&self, py: Python<'_>) -> PyResult<Tensor> {
        let tensor = self.tensor.clone();
        run::detached(py, move || tensor.to_dense(&Allocator::default()))
    }

    fn warn_of_copy(&self, py: Python<'_>) -> PyResult<()> {
        if self.warned.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let text = "a DLPack consumer that does not ask for version 1.0 or later cannot be told that memory is read \
                    only, so it gets a copy";
        let text = std::ffi::CString::new(text)?;
        PyErr::warn(py, Class::CopyWarning.class(py)?, &text, 1)
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (value, *, name = None))]
    fn py_new(value: &Bound<'_, PyAny>, name: Option<Bound<'_, PyString>>) -> PyResult<PyTensor> {
        let py = value.py();
        let name = name.unwrap_or_else(|| PyString::new(py, ""));
        let tensor = interop::tensor(value)
            .map_err(|refused| refused.named(py, "tensor", &name.to_string_lossy()))?;
        Ok(PyTensor {
            tensor,
            name: name.unbind(),
            warned: Warned::default(),
        })
    }

    /// The value's name.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    #[setter]
    fn set_name(&mut self, name: Bound<'_, PyString>) {
        self.name = name.unbind();
    }

    /// Extents, outermost first. Assigning another shape of as many elements changes this handle only.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    #[setter]
    fn set_shape(&mut self, py: Python<'_>, shape: Vec<i64>) -> PyResult<()> {
        let (extent, dims) = Extent::from_dims(self.tensor.dtype(), &shape)
            .map_err(|error| Class::ValueType.error(py, error))?;
        let layout = (extent.elements() == self.tensor.elements())
            .then(|| self.tensor.layout().reshape(&dims))
            .flatten()
            .ok_or_else(|| {
                let held = self.tensor.shape();
                Class::ValueType.error(
                    py,
                    format_args!("shape {held:?} cannot become {shape:?} without a copy"),
                )
            })?;
        self.tensor = self
            .tensor
            .with_layout(layout, 0)
            .map_err(|error| error.into_py(py))?;
        Ok(())
    }

    /// The element type's number in `onnx.TensorProto`. Assigning one of the same width changes this handle only.
    #[getter]
    fn data_type(&self) -> i32 {
        self.tensor.dtype().to_onnx()
    }

    #[setter]
    fn set_data_type(&mut self, py: Python<'_>, number: i32) -> PyResult<()> {
        let held = self.tensor.dtype();
        let other = DType::from_onnx(number).filter(|dtype| *dtype != DType::String);
        let tensor = other.and_then(|dtype| self.tensor.reinterpret(dtype));
        let Some(tensor) = tensor.filter(Tensor::is_aligned) else {
            let text = format!(
                "data type {number} cannot describe {held} elements: expected a type of the same width"
            );
            return Err(Class::ValueType.error(py, text));
        };
        self.tensor = tensor;
        Ok(())
    }

    /// The NumPy element type; `ml_dtypes` for BFLOAT16 and FLOAT8.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let descr = interop::numpy::descr(py, self.tensor.dtype())
            .map_err(|refused| self.refuse(py, refused))?;
        Ok(descr.into_any())
    }

    /// Strides in elements, outermost first.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.strides())
    }

    /// Bytes that the elements take when dense.
    #[getter]
    fn nbytes(&self) -> usize {
        self.tensor.bytes()
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.rank()
    }

    /// Return a read-only view as an array, strides included. Nothing is copied.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        interop::numpy::export(py, &self.tensor).map_err(|refused| self.refuse(py, refused))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.numpy(py)?;
        if let Some(dtype) = dtype {
            let wanted = py.import("numpy")?.call_method1("dtype", (dtype,))?;
            if !wanted.eq(array.getattr("dtype")?)? {
                if copy == Some(false) {
                    return Err(PyValueError::new_err(format!(
                        "a tensor of other elements than {wanted} needs a copy"
                    )));
                }
                return array.call_method1("astype", (wanted,));
            }
        }
        if copy == Some(true) {
            array.call_method0("copy")
        } else {
            Ok(array)
        }
    }

    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match dlpack::wanted(stream, max_version, dl_device, copy)? {
            Wanted::Shared => dlpack::export(py, self.tensor.clone(), true, false),
            Wanted::Copy { versioned, asked } => {
                if !asked {
                    self.warn_of_copy(py)?;
                }
                dlpack::export(py, self.dense_copy(py)?, versioned, true)
            }
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let shape = self.tensor.shape();
        shape.first().copied().ok_or_else(|| {
            let text = "a tensor without axes has no length";
            PyErr::from_type(py.get_type::<pyo3::exceptions::PyTypeError>(), text)
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = self.name.bind(py).to_string_lossy();
        format!(
            "Tensor(name={name:?}, data_type={}, shape={:?})",
            self.tensor.dtype(),
            self.tensor.shape()
        )
    }
}

/// An index or count from Python: an integer, not a bool, that fits a size.
pub(crate) fn size(value: &Bound<'_, PyAny>, what: &str) -> PyResult<usize> {
    let py = value.py();
    let wrong = || {
        let got = class_of(value);
        let text = format!("{what}: expected a nonnegative integer, got {got}");
        pyo3::exceptions::PyTypeError::new_err(text)
    };
    if value.is_instance_of::<pyo3::types::PyBool>() {
        return Err(wrong());
    }
    value.extract::<usize>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(py) {
            return PyOverflowError::new_err(format!(
                "{what}: expected a nonnegative integer that fits 64 bits, got {value}"
            ));
        }
        if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) {
            return wrong();
        }
        error
    })
}
