//! `RuntimeContextOptions`: what a context is made with.

use crate::error::{Class, class_of};
use crate::runtime::allocators::PyRawBufferAllocator;
use crate::runtime::options::flag;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use refeed_runtime::RuntimeContextOptions;

/// What a `RuntimeContext` is made with. Every field may be read and written; a context copies them when it is made.
#[pyclass(name = "RuntimeContextOptions", module = "refeed.runtime")]
#[derive(Default)]
pub(crate) struct PyRuntimeContextOptions {
    pub(crate) allocator: Option<Py<PyRawBufferAllocator>>,
    pub(crate) io_allocator: Option<Py<PyRawBufferAllocator>>,
    events_enabled: bool,
    release_intermediates: bool,
}

/// Options as keywords; what is `None` was not given.
#[derive(Default)]
pub(crate) struct Keywords<'a, 'py> {
    pub(crate) allocator: Option<&'a Bound<'py, PyRawBufferAllocator>>,
    pub(crate) io_allocator: Option<&'a Bound<'py, PyRawBufferAllocator>>,
    pub(crate) events_enabled: Option<&'a Bound<'py, PyAny>>,
    pub(crate) verbose: Option<i64>,
    pub(crate) release_intermediates: Option<&'a Bound<'py, PyAny>>,
    pub(crate) device: Option<&'a Bound<'py, PyAny>>,
}

/// There is nothing to say yet.
fn check_verbose(py: Python<'_>, verbose: i64) -> PyResult<()> {
    match verbose {
        0 => Ok(()),
        other => Err(Class::ValueType.error(py, format_args!("verbose: expected 0, got {other}"))),
    }
}

/// The one device, `"cpu"`, by its name.
fn check_device(device: &Bound<'_, PyAny>) -> PyResult<()> {
    let Ok(name) = device.cast::<PyString>() else {
        let got = class_of(device);
        return Err(PyTypeError::new_err(format!(
            "device: expected a str, got {got}"
        )));
    };
    match name.to_str()? {
        "cpu" => Ok(()),
        other => {
            let text = format!("device: expected `cpu`, got `{other}`");
            Err(Class::ValueType.error(device.py(), text))
        }
    }
}

impl Keywords<'_, '_> {
    /// The options that the keywords make.
    ///
    /// # Errors
    /// When a keyword has a wrong value.
    fn read(&self, py: Python<'_>) -> PyResult<PyRuntimeContextOptions> {
        check_verbose(py, self.verbose.unwrap_or(0))?;
        self.device.map(check_device).transpose()?;
        let handle = |held: &Bound<'_, PyRawBufferAllocator>| held.clone().unbind();
        let switch = |value: Option<&Bound<'_, PyAny>>, name| match value {
            Some(value) => flag(value, name),
            None => Ok(false),
        };
        Ok(PyRuntimeContextOptions {
            allocator: self.allocator.map(handle),
            io_allocator: self.io_allocator.map(handle),
            events_enabled: switch(self.events_enabled, "events_enabled")?,
            release_intermediates: switch(self.release_intermediates, "release_intermediates")?,
        })
    }

    fn any(&self) -> bool {
        let objects = [self.events_enabled, self.release_intermediates, self.device];
        let allocators = [self.allocator, self.io_allocator];
        objects.iter().any(Option::is_some)
            || allocators.iter().any(Option::is_some)
            || self.verbose.is_some()
    }

    /// A copy of `options`, or the options that the keywords make.
    ///
    /// # Errors
    /// When both are given, or a keyword has a wrong value.
    pub(crate) fn or(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyRuntimeContextOptions>>,
    ) -> PyResult<PyRuntimeContextOptions> {
        match options {
            Some(_) if self.any() => Err(PyTypeError::new_err(
                "expected options or single keywords, got both",
            )),
            Some(options) => Ok(options.borrow().copy(py)),
            None => self.read(py),
        }
    }
}

impl PyRuntimeContextOptions {
    fn copy(&self, py: Python<'_>) -> PyRuntimeContextOptions {
        let handle = |held: &Py<PyRawBufferAllocator>| held.clone_ref(py);
        PyRuntimeContextOptions {
            allocator: self.allocator.as_ref().map(handle),
            io_allocator: self.io_allocator.as_ref().map(handle),
            ..*self
        }
    }

    /// The options as the runtime takes them.
    pub(crate) fn to_runtime(&self) -> RuntimeContextOptions {
        let handle = |held: &Py<PyRawBufferAllocator>| held.get().inner.clone();
        RuntimeContextOptions {
            events_enabled: self.events_enabled,
            allocator: self.allocator.as_ref().map(handle),
            io_allocator: self.io_allocator.as_ref().map(handle),
            release_intermediates: self.release_intermediates,
        }
    }
}

#[pymethods]
impl PyRuntimeContextOptions {
    #[new]
    #[pyo3(signature = (*, allocator = None, io_allocator = None, events_enabled = None, verbose = None,
        release_intermediates = None, device = None))]
    fn new(
        py: Python<'_>,
        allocator: Option<&Bound<'_, PyRawBufferAllocator>>,
        io_allocator: Option<&Bound<'_, PyRawBufferAllocator>>,
        events_enabled: Option<&Bound<'_, PyAny>>,
        verbose: Option<i64>,
        release_intermediates: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyRuntimeContextOptions> {
        let keywords = Keywords {
            allocator,
            io_allocator,
            events_enabled,
            verbose,
            release_intermediates,
            device,
        };
        keywords.read(py)
    }

    #[getter]
    fn allocator(&self, py: Python<'_>) -> Option<Py<PyRawBufferAllocator>> {
        self.allocator.as_ref().map(|held| held.clone_ref(py))
    }

    #[setter]
    fn set_allocator(&mut self, allocator: Option<Py<PyRawBufferAllocator>>) {
        self.allocator = allocator;
    }

    #[getter]
    fn io_allocator(&self, py: Python<'_>) -> Option<Py<PyRawBufferAllocator>> {
        self.io_allocator.as_ref().map(|held| held.clone_ref(py))
    }

    #[setter]
    fn set_io_allocator(&mut self, allocator: Option<Py<PyRawBufferAllocator>>) {
        self.io_allocator = allocator;
    }

    #[getter]
    fn events_enabled(&self) -> bool {
        self.events_enabled
    }

    #[setter]
    fn set_events_enabled(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.events_enabled = flag(value, "events_enabled")?;
        Ok(())
    }

    #[getter]
    fn verbose(&self) -> i64 {
        0
    }

    #[setter]
    fn set_verbose(&mut self, py: Python<'_>, value: i64) -> PyResult<()> {
        check_verbose(py, value)
    }

    #[getter]
    fn release_intermediates(&self) -> bool {
        self.release_intermediates
    }

    #[setter]
    fn set_release_intermediates(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.release_intermediates = flag(value, "release_intermediates")?;
        Ok(())
    }

    #[getter]
    fn device(&self) -> &'static str {
        "cpu"
    }

    #[setter]
    fn set_device(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        check_device(value)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |held: &Option<Py<PyRawBufferAllocator>>| match held {
            Some(held) => Ok(held.bind(py).repr()?.to_string()),
            None => PyResult::Ok("None".to_string()),
        };
        let truth = |value| if value { "True" } else { "False" };
        Ok(format!(
            "RuntimeContextOptions(allocator={}, io_allocator={}, events_enabled={}, verbose=0, \
             release_intermediates={}, device='cpu')",
            shown(&self.allocator)?,
            shown(&self.io_allocator)?,
            truth(self.events_enabled),
            truth(self.release_intermediates),
        ))
    }
}
