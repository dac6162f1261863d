//! `RuntimeSessionOptions`: keyword only, read and write; copied when a session or state is made.

use crate::error::{Class, class_of};
use crate::runtime::tensor::size;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use refeed_graph::BindingUses;
use refeed_runtime::{AppendReuse, RuntimeSessionOptions};

/// Settings of a session or state. They are copied when one is made; later changes have no effect.
#[pyclass(name = "RuntimeSessionOptions", module = "refeed.runtime", eq)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PyRuntimeSessionOptions {
    pub(crate) inner: RuntimeSessionOptions,
}

/// Options as keywords of a constructor; what is `None` was not given.
#[derive(Default)]
pub(crate) struct Keywords<'a, 'py> {
    pub(crate) capacity: Option<&'a Bound<'py, PyAny>>,
    pub(crate) append_reuse: Option<&'a Bound<'py, PyAny>>,
    pub(crate) binding_uses: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_length: Option<&'a Bound<'py, PyAny>>,
    pub(crate) memory_limit: Option<&'a Bound<'py, PyAny>>,
    pub(crate) check_shapes: Option<&'a Bound<'py, PyAny>>,
    pub(crate) recognize_attention: Option<&'a Bound<'py, PyAny>>,
}

fn text<'a>(value: &'a Bound<'_, PyAny>, what: &str) -> PyResult<std::borrow::Cow<'a, str>> {
    value.extract().map_err(|_| {
        PyTypeError::new_err(format!("{what}: expected a str, got {}", class_of(value)))
    })
}

fn reuse(value: &Bound<'_, PyAny>) -> PyResult<AppendReuse> {
    match &*text(value, "append_reuse")? {
        "always" => Ok(AppendReuse::Always),
        "exclusive" => Ok(AppendReuse::Exclusive),
        other => {
            let message = format!("append_reuse: expected `always` or `exclusive`, got `{other}`");
            Err(Class::ValueType.error(value.py(), message))
        }
    }
}

fn uses(value: &Bound<'_, PyAny>) -> PyResult<BindingUses> {
    text(value, "binding_uses")?
        .parse()
        .map_err(|error: refeed_graph::UnknownPolicy| {
            Class::ValueType.error(value.py(), format_args!("binding_uses: {error}"))
        })
}

pub(crate) fn flag(value: &Bound<'_, PyAny>, what: &str) -> PyResult<bool> {
    match value.cast::<PyBool>() {
        Ok(flag) => Ok(flag.is_true()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{what}: expected a bool, got {}",
            class_of(value)
        ))),
    }
}

impl Keywords<'_, '_> {
    fn read(&self) -> PyResult<RuntimeSessionOptions> {
        let mut options = RuntimeSessionOptions::default();
        if let Some(value) = self.capacity {
            options.persistent_tensor_initial_capacity =
                size(value, "persistent_tensor_initial_capacity")?;
        }
        if let Some(value) = self.append_reuse {
            options.append_reuse = reuse(value)?;
        }
        options.binding_uses = self.binding_uses.map(uses).transpose()?;
        options.max_length = self
            .max_length
            .map(|value| size(value, "max_length"))
            .transpose()?;
        options.memory_limit = self
            .memory_limit
            .map(|value| size(value, "memory_limit"))
            .transpose()?;
        if let Some(value) = self.check_shapes {
            options.check_shapes = flag(value, "check_shapes")?;
        }
        if let Some(value) = self.recognize_attention {
            options.recognize_attention = flag(value, "recognize_attention")?;
        }
        Ok(options)
    }

    fn any(&self) -> bool {
        let given = [
            self.capacity,
            self.append_reuse,
            self.binding_uses,
            self.max_length,
            self.memory_limit,
            self.check_shapes,
            self.recognize_attention,
        ];
        given.iter().any(Option::is_some)
    }

    /// A copy of `options`, or the options that the keywords make.
    ///
    /// # Errors
    /// When both are given, or a keyword has a wrong value.
    pub(crate) fn or(
        &self,
        options: Option<&Bound<'_, PyRuntimeSessionOptions>>,
    ) -> PyResult<RuntimeSessionOptions> {
        match options {
            Some(_) if self.any() => Err(PyTypeError::new_err(
                "expected options or single keywords, got both",
            )),
            Some(options) => Ok(options.borrow().inner.clone()),
            None => self.read(),
        }
    }
}

#[pymethods]
impl PyRuntimeSessionOptions {
    #[new]
    #[pyo3(signature = (*, persistent_tensor_initial_capacity = None, append_reuse = None, binding_uses = None,
        max_length = None, memory_limit = None, check_shapes = None, recognize_attention = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        persistent_tensor_initial_capacity: Option<&Bound<'_, PyAny>>,
        append_reuse: Option<&Bound<'_, PyAny>>,
        binding_uses: Option<&Bound<'_, PyAny>>,
        max_length: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
        check_shapes: Option<&Bound<'_, PyAny>>,
        recognize_attention: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyRuntimeSessionOptions> {
        let keywords = Keywords {
            capacity: persistent_tensor_initial_capacity,
            append_reuse,
            binding_uses,
            max_length,
            memory_limit,
            check_shapes,
            recognize_attention,
        };
        Ok(PyRuntimeSessionOptions {
            inner: keywords.read()?,
        })
    }

    /// Rows that the first append reserves.
    #[getter]
    fn persistent_tensor_initial_capacity(&self) -> usize {
        self.inner.persistent_tensor_initial_capacity
    }

    #[setter]
    fn set_persistent_tensor_initial_capacity(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.persistent_tensor_initial_capacity =
            size(value, "persistent_tensor_initial_capacity")?;
        Ok(())
    }

    /// When an append may happen in place.
    #[getter]
    fn append_reuse(&self) -> &'static str {
        match self.inner.append_reuse {
            AppendReuse::Exclusive => "exclusive",
            _ => "always",
        }
    }

    #[setter]
    fn set_append_reuse(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.append_reuse = reuse(value)?;
        Ok(())
    }

    /// How often a bound input may be used; None for what the model says.
    #[getter]
    fn binding_uses(&self) -> Option<&'static str> {
        self.inner.binding_uses.map(BindingUses::as_str)
    }

    #[setter]
    fn set_binding_uses(&mut self, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.inner.binding_uses = value.map(uses).transpose()?;
        Ok(())
    }

    /// The expected length of growing axes; a reservation, not a limit.
    #[getter]
    fn max_length(&self) -> Option<usize> {
        self.inner.max_length
    }

    #[setter]
    fn set_max_length(&mut self, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.inner.max_length = value.map(|value| size(value, "max_length")).transpose()?;
        Ok(())
    }

    /// Most bytes in use at once.
    #[getter]
    fn memory_limit(&self) -> Option<usize> {
        self.inner.memory_limit
    }

    #[setter]
    fn set_memory_limit(&mut self, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.inner.memory_limit = value.map(|value| size(value, "memory_limit")).transpose()?;
        Ok(())
    }

    /// Whether a session checks its outputs.
    #[getter]
    fn check_shapes(&self) -> bool {
        self.inner.check_shapes
    }

    #[setter]
    fn set_check_shapes(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.check_shapes = flag(value, "check_shapes")?;
        Ok(())
    }

    /// Whether attention in single nodes runs through the attention kernel.
    #[getter]
    fn recognize_attention(&self) -> bool {
        self.inner.recognize_attention
    }

    #[setter]
    fn set_recognize_attention(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.recognize_attention = flag(value, "recognize_attention")?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        let options = &self.inner;
        let truth = |flag| if flag { "True" } else { "False" };
        let optional =
            |value: Option<usize>| value.map_or("None".to_string(), |value| value.to_string());
        format!(
            "RuntimeSessionOptions(persistent_tensor_initial_capacity={}, append_reuse={:?}, binding_uses={}, \
             max_length={}, memory_limit={}, check_shapes={}, recognize_attention={})",
            options.persistent_tensor_initial_capacity,
            self.append_reuse(),
            self.binding_uses()
                .map_or("None".to_string(), |uses| format!("{uses:?}")),
            optional(options.max_length),
            optional(options.memory_limit),
            truth(options.check_shapes),
            truth(options.recognize_attention),
        )
    }
}
