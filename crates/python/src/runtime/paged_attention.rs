//! `PagedAttention`, `PageFormat`, `PagedStatistics`: the opt-in kernel of `ai.rt::PagedAttention`.

use crate::error::{Class, IntoPyErr, class_of};
use crate::interop;
use crate::run;
use crate::runtime::context::PyRuntimeContext;
use crate::runtime::tensor::{PyTensor, Warned, size};
use crate::runtime::value::{self, Reader};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use refeed_runtime::kernel::OpError;
use refeed_runtime::paged_attention::{
    Format, FormatSelector, Formats, Options, PagedAttention, PartialBlocks, QueryPrecision,
    Statistics,
};
use refeed_values::{DType, Tensor};

/// How the keys or the values of new pages are kept.
#[pyclass(name = "PageFormat", module = "refeed.runtime", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyPageFormat {
    inner: Format,
}

#[pymethods]
impl PyPageFormat {
    #[new]
    #[pyo3(
        signature = (storage_type = None, scale = None, zero_point = None),
        text_signature = "(storage_type=1, scale=1.0, zero_point=0)"
    )]
    fn new(
        py: Python<'_>,
        storage_type: Option<&Bound<'_, PyAny>>,
        scale: Option<&Bound<'_, PyAny>>,
        zero_point: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyPageFormat> {
        let storage = match storage_type {
            None => DType::Float,
            Some(given) => element_type(given)?,
        };
        let scale = scale.map_or(Ok(1.0), page_scale)?;
        let zero_point = zero_point.map_or(Ok(0), |given| code(given, storage))?;
        let inner = Format {
            storage,
            scale,
            zero_point,
        };
        inner
            .check()
            .map_err(|error| OpError::from(error).into_py(py))?;
        Ok(PyPageFormat { inner })
    }

    /// The number of the element type.
    #[getter]
    fn storage_type(&self) -> i32 {
        self.inner.storage as i32
    }

    /// What one step of the codes is worth.
    #[getter]
    fn scale(&self) -> f32 {
        self.inner.scale
    }

    /// The code that stands for 0.
    #[getter]
    fn zero_point(&self) -> i32 {
        self.inner.zero_point
    }

    fn __repr__(&self) -> String {
        let Format {
            storage,
            scale,
            zero_point,
        } = self.inner;
        format!("PageFormat({storage}, scale={scale}, zero_point={zero_point})")
    }
}

/// What an argument of a format should have been.
fn wrong(name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let got = class_of(given);
    PyTypeError::new_err(format!("{name}: expected {expected}, got {got}"))
}

fn element_type(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let number = match given.extract::<i32>() {
        Ok(number) => Some(number),
        Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => None,
        Err(_) => {
            let expected = "the number of an element type";
            return Err(wrong("storage_type", expected, given));
        }
    };
    number.and_then(DType::from_onnx).ok_or_else(|| {
        let text = format!("storage_type: expected the number of an element type, got {given}");
        Class::ValueType.error(given.py(), text)
    })
}

/// A scale as FLOAT; one that FLOAT has no positive finite number for is told as it was given.
fn page_scale(given: &Bound<'_, PyAny>) -> PyResult<f32> {
    let wide: f64 = given
        .extract()
        .map_err(|_| wrong("scale", "a number", given))?;
    let scale = wide as f32;
    let held = scale > 0.0 && scale.is_finite();
    if wide > 0.0 && wide.is_finite() && !held {
        let text = format!("scale: expected a positive finite number within FLOAT, got {given}");
        return Err(Class::ValueType.error(given.py(), text));
    }
    Ok(scale)
}

fn code(given: &Bound<'_, PyAny>, storage: DType) -> PyResult<i32> {
    given.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            let text = format!("zero_point: expected a code of {storage}, got {given}");
            return Class::ValueType.error(given.py(), text);
        }
        wrong("zero_point", "an integer", given)
    })
}

/// The context to register with.
fn context_of<'a, 'py>(
    context: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<Option<&'a Bound<'py, PyRuntimeContext>>> {
    let cast = |given: &'a Bound<'py, PyAny>| {
        let cast = given.cast::<PyRuntimeContext>();
        cast.map_err(|_| wrong("context", "a RuntimeContext", given))
    };
    context.map(cast).transpose()
}

/// What an execution of ``ai.rt::PagedAttention`` cost, or several together.
#[pyclass(name = "PagedStatistics", module = "refeed.runtime", frozen, eq)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PyPagedStatistics {
    inner: Statistics,
}

impl PyPagedStatistics {
    fn named(&self) -> [(&'static str, u64); 6] {
        let all = &self.inner;
        [
            ("copied_bytes", all.copied_bytes),
            ("dequantized_bytes", all.dequantized_bytes),
            ("peak_workspace_bytes", all.peak_workspace_bytes),
            ("validated_pages", all.validated_pages),
            ("decoded_bytes", all.decoded_bytes),
            ("tile_bytes", all.tile_bytes),
        ]
    }
}

#[pymethods]
impl PyPagedStatistics {
    /// Payload bytes of new pages: what was copied or converted.
    #[getter]
    fn copied_bytes(&self) -> u64 {
        self.inner.copied_bytes
    }

    /// FLOAT bytes of the quantised keys and values of every visible token, for each query row and query head.
    /// Defined, not measured.
    #[getter]
    fn dequantized_bytes(&self) -> u64 {
        self.inner.dequantized_bytes
    }

    /// Bytes of one double a value column. Defined, not measured; of several executions, the most.
    #[getter]
    fn peak_workspace_bytes(&self) -> u64 {
        self.inner.peak_workspace_bytes
    }

    /// Pages held to the rules for the first time; those that an earlier execution checked do not count.
    #[getter]
    fn validated_pages(&self) -> u64 {
        self.inner.validated_pages
    }

    /// FLOAT bytes of codes that were computed with, once for all query rows and heads that share them.
    #[getter]
    fn decoded_bytes(&self) -> u64 {
        self.inner.decoded_bytes
    }

    /// Bytes that one task of the computation works in; of several executions, the most.
    #[getter]
    fn tile_bytes(&self) -> u64 {
        self.inner.tile_bytes
    }

    /// All counts by name.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in self.named() {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let fields = self.named().map(|(name, count)| format!("{name}={count}"));
        format!("PagedStatistics({})", fields.join(", "))
    }
}

/// A function of Python that chooses formats.
struct Selector(Py<PyAny>);

impl FormatSelector for Selector {
    fn select(&self, key: &Tensor, value: &Tensor, retained: usize) -> Result<Formats, OpError> {
        let chosen = run::reattached(|py| -> PyResult<Formats> {
            let tensor = |tensor: &Tensor, name: &Bound<'_, PyString>| {
                let name = name.clone().unbind();
                Bound::new(py, PyTensor::new(tensor.clone(), name, Warned::default()))
            };
            let (k, v) = (intern!(py, "K"), intern!(py, "V"));
            let arguments = (tensor(key, k)?, tensor(value, v)?, retained);
            formats(&self.0.bind(py).call1(arguments)?)
        });
        chosen.map_err(|error| OpError::Custom(Box::new(error)))
    }
}

/// What a selector returned: nothing for FLOAT, one format for both, or one for keys and one for values.
fn formats(chosen: &Bound<'_, PyAny>) -> PyResult<Formats> {
    let refused = |got: String| {
        PyTypeError::new_err(format!(
            "format_selector: expected None, a PageFormat or a tuple of two, got {got}"
        ))
    };
    if chosen.is_none() {
        return Ok(Formats::default());
    }
    if let Ok(format) = chosen.cast::<PyPageFormat>() {
        return Ok(Formats::both(format.get().inner));
    }
    let pair = chosen
        .cast::<PyTuple>()
        .map_err(|_| refused(class_of(chosen).to_string()))?;
    if pair.len() != 2 {
        return Err(refused(format!("a tuple of {}", pair.len())));
    }
    let format = |at: usize, part: &str| -> PyResult<Format> {
        let given = pair.get_item(at)?;
        match given.cast::<PyPageFormat>() {
            Ok(format) => Ok(format.get().inner),
            Err(_) => {
                let kind = class_of(&given);
                Err(PyTypeError::new_err(format!(
                    "format_selector: expected a PageFormat for {part}, got {kind}"
                )))
            }
        }
    };
    Ok(Formats {
        key: format(0, "keys")?,
        value: format(1, "values")?,
    })
}

/// What one of two words stands for; without a word, what the first one does.
fn one_of<T: Copy>(
    py: Python<'_>,
    name: &str,
    words: [(&str, T); 2],
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<T> {
    let [(first, default), (second, other)] = words;
    let Some(given) = given else {
        return Ok(default);
    };
    let expected = format!("'{first}' or '{second}'");
    match given.extract::<String>() {
        Err(_) => Err(wrong(name, &expected, given)),
        Ok(got) if got == first => Ok(default),
        Ok(got) if got == second => Ok(other),
        Ok(got) => {
            let text = format!("{name}: expected {expected}, got {got:?}");
            Err(Class::ValueType.error(py, text))
        }
    }
}

/// The kernel of ``ai.rt::PagedAttention``: attention to a cache in pages and to new tokens, which become further
/// pages.
#[pyclass(name = "PagedAttention", module = "refeed.runtime", frozen)]
pub(crate) struct PyPagedAttention {
    inner: PagedAttention,
}

#[pymethods]
impl PyPagedAttention {
    #[new]
    #[pyo3(
        signature = (*, format_selector = None, partial_blocks = None, query_precision = None),
        text_signature = "(*, format_selector=None, partial_blocks='sealed', query_precision='full')"
    )]
    fn new(
        py: Python<'_>,
        format_selector: Option<Bound<'_, PyAny>>,
        partial_blocks: Option<&Bound<'_, PyAny>>,
        query_precision: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyPagedAttention> {
        let words = [
            ("sealed", PartialBlocks::Sealed),
            ("fill", PartialBlocks::Fill),
        ];
        let partial_blocks = one_of(py, "partial_blocks", words, partial_blocks)?;
        let words = [
            ("full", QueryPrecision::Full),
            ("int8", QueryPrecision::Int8),
        ];
        let query_precision = one_of(py, "query_precision", words, query_precision)?;
        let inner = match format_selector {
            None => PagedAttention::default(),
            Some(function) if function.is_callable() => {
                PagedAttention::with_selector(Selector(function.unbind()))
            }
            Some(other) => {
                let kind = class_of(&other);
                return Err(PyTypeError::new_err(format!(
                    "format_selector: expected a function of K, V and the number of retained tokens, got {kind}"
                )));
            }
        };
        let inner = inner
            .partial_blocks(partial_blocks)
            .query_precision(query_precision);
        Ok(PyPagedAttention { inner })
    }

    /// Make it the kernel of the operator, for the calls with a context or for the whole process.
    #[pyo3(signature = (context = None))]
    fn register(&self, py: Python<'_>, context: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let registered = match context_of(context)? {
            Some(context) => self.inner.register_in(&context.get().inner),
            None => self.inner.register(),
        };
        registered.map_err(|error| error.into_py(py))
    }

    #[pyo3(signature = (q, k, v, past, *, block_size = None, max_tokens = None, is_causal = true, left_window_size = -1))]
    #[allow(clippy::too_many_arguments)] // the operator's inputs and attributes
    fn __call__<'py>(
        &self,
        q: &Bound<'py, PyAny>,
        k: &Bound<'py, PyAny>,
        v: &Bound<'py, PyAny>,
        past: &Bound<'py, PyAny>,
        block_size: Option<&Bound<'py, PyAny>>,
        max_tokens: Option<&Bound<'py, PyAny>>,
        is_causal: bool,
        left_window_size: i64,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = q.py();
        let tensor = |value: &Bound<'py, PyAny>, name: &str| {
            interop::tensor(value).map_err(|refused| refused.named(py, "tensor", name))
        };
        let count = |given: Option<&Bound<'py, PyAny>>, what: &str, default: usize| match given {
            Some(given) => size(given, what),
            None => Ok(default),
        };
        let defaults = Options::default();
        let options = Options {
            block_size: count(block_size, "block_size", defaults.block_size)?,
            max_tokens: count(max_tokens, "max_tokens", defaults.max_tokens)?,
            is_causal,
            left_window_size: match left_window_size {
                -1 => None,
                window => Some(u64::try_from(window).map_err(|_| {
                    let text = format!("left_window_size: expected -1 or more, got {window}");
                    Class::ValueType.error(py, text)
                })?),
            },
        };
        let (q, k, v) = (tensor(q, "Q")?, tensor(k, "K")?, tensor(v, "V")?);
        let past = Reader::new("input", None).read(past, &PyString::new(py, "past"))?;
        let kernel = self.inner.clone();
        let outcome = run::detached(py, move || kernel.call(&q, &k, &v, &past, &options));
        let result = outcome?;
        let warned = Warned::default();
        let written =
            |value, name: &str| value::write(py, value, &PyString::new(py, name).unbind(), &warned);
        let statistics = PyPagedStatistics {
            inner: result.statistics,
        };
        (
            written(result.y.into(), "Y")?,
            written(result.present, "present")?,
            Bound::new(py, statistics)?,
        )
            .into_pyobject(py)
    }

    /// Those of the last execution that succeeded, by any kernel of this registration.
    fn statistics(&self) -> PyPagedStatistics {
        PyPagedStatistics {
            inner: self.inner.statistics(),
        }
    }

    /// Those of all executions together.
    fn total_statistics(&self) -> PyPagedStatistics {
        PyPagedStatistics {
            inner: self.inner.total_statistics(),
        }
    }

    fn __repr__(&self) -> String {
        format!("<PagedAttention {:?}>", self.statistics().__repr__())
    }
}

/// Make `PagedAttention` the kernel of ``ai.rt::PagedAttention``, for the calls with a context or for the whole
/// process.
#[pyfunction]
#[pyo3(
    signature = (context = None, *, format_selector = None, partial_blocks = None, query_precision = None),
    text_signature = "(context=None, *, format_selector=None, partial_blocks='sealed', query_precision='full')"
)]
pub(crate) fn register_paged_attention<'py>(
    py: Python<'py>,
    context: Option<&Bound<'py, PyAny>>,
    format_selector: Option<Bound<'py, PyAny>>,
    partial_blocks: Option<&Bound<'py, PyAny>>,
    query_precision: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyPagedAttention>> {
    let kernel = PyPagedAttention::new(py, format_selector, partial_blocks, query_precision)?;
    kernel.register(py, context)?;
    Bound::new(py, kernel)
}
