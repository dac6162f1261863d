//! `PersistentValueState`: a model whose bound inputs are fed by its own outputs.

pub(crate) mod checkpoint;
mod select;

use crate::error::{Class, class_of};
use crate::model::{PyModel, source};
use crate::run;
use crate::runtime::completion::PyTaskCompletion;
use crate::runtime::context::PyRuntimeContext;
use crate::runtime::explain::PyExplanation;
use crate::runtime::feeds::{self, Feeds, Names};
use crate::runtime::options::{Keywords, PyRuntimeSessionOptions};
use crate::runtime::tensor::{Warned, size};
use crate::runtime::value::named;
use checkpoint::{PyCheckpoint, by_name};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use refeed_runtime::{
    PersistentValueState, RunControl, RuntimeContext, RuntimeSession, StateError,
};
use select::{read_axes, read_rows};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of one request: a model whose bound inputs are fed by its own outputs.
#[pyclass(name = "PersistentValueState", module = "refeed.runtime", frozen)]
pub(crate) struct PyPersistentValueState {
    inner: PersistentValueState,
    names: Arc<Names>,
    context: RuntimeContext,
    warned: Warned,
    /// Whether the first warning about symbols was issued.
    told: AtomicBool,
}

impl PyPersistentValueState {
    pub(crate) fn new_of(
        inner: PersistentValueState,
        names: Arc<Names>,
        context: RuntimeContext,
    ) -> PyPersistentValueState {
        PyPersistentValueState {
            inner,
            names,
            context,
            warned: Warned::default(),
            told: AtomicBool::new(false),
        }
    }

    /// Issues the first warning of earlier calls. A filter may make it an exception, so it comes before a call changes
    /// anything.
    #[cold]
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let Some(text) = run::attached(py, || self.inner.explain())?
            .warnings
            .into_iter()
            .next()
        else {
            return Ok(());
        };
        self.told.store(true, Ordering::Relaxed);
        let text = format!("{text}; explain().warnings lists more");
        PyErr::warn(py, Class::SymbolWarning.class(py)?, &CString::new(text)?, 1)
    }
}

#[pymethods]
impl PyPersistentValueState {
    #[new]
    #[pyo3(signature = (model, initial, options = None, *, persistent_tensor_initial_capacity = None,
        append_reuse = None, binding_uses = None, max_length = None, memory_limit = None, check_shapes = None,
        recognize_attention = None, context = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        model: &Bound<'_, PyAny>,
        initial: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyRuntimeSessionOptions>>,
        persistent_tensor_initial_capacity: Option<&Bound<'_, PyAny>>,
        append_reuse: Option<&Bound<'_, PyAny>>,
        binding_uses: Option<&Bound<'_, PyAny>>,
        max_length: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
        check_shapes: Option<&Bound<'_, PyAny>>,
        recognize_attention: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyRuntimeContext>>,
    ) -> PyResult<PyPersistentValueState> {
        let keywords = Keywords {
            capacity: persistent_tensor_initial_capacity,
            append_reuse,
            binding_uses,
            max_length,
            memory_limit,
            check_shapes,
            recognize_attention,
        };
        let options = keywords.or(options)?;
        let py = model.py();
        let model = source::model(model, true)?;
        let context =
            context.map_or_else(RuntimeContext::default, |given| given.get().inner.clone());
        // Declarations are judged before any initial value is looked at.
        let session = run::detached(py, || match model.bindings().is_empty() {
            true => Err(StateError::NoBindings),
            false => Ok(RuntimeSession::with_context(model, options, &context)?),
        })?;
        let initial = feeds::values(initial, "initial value", session.model())?;
        let names = Arc::new(Names::new(py, session.model()));
        let inner = run::detached(py, || {
            let initial = initial
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()));
            PersistentValueState::of_session(&session, initial)
        })?;
        Ok(Self::new_of(inner, names, context))
    }

    /// Make a state that starts with the values of a file. Settings and context are as for the constructor.
    #[classmethod]
    #[pyo3(signature = (model, path, options = None, *, persistent_tensor_initial_capacity = None,
        append_reuse = None, binding_uses = None, max_length = None, memory_limit = None, check_shapes = None,
        recognize_attention = None, context = None))]
    #[allow(clippy::too_many_arguments)]
    fn from_file(
        _class: &Bound<'_, PyType>,
        model: &Bound<'_, PyAny>,
        path: PathBuf,
        options: Option<&Bound<'_, PyRuntimeSessionOptions>>,
        persistent_tensor_initial_capacity: Option<&Bound<'_, PyAny>>,
        append_reuse: Option<&Bound<'_, PyAny>>,
        binding_uses: Option<&Bound<'_, PyAny>>,
        max_length: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
        check_shapes: Option<&Bound<'_, PyAny>>,
        recognize_attention: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyRuntimeContext>>,
    ) -> PyResult<PyPersistentValueState> {
        let keywords = Keywords {
            capacity: persistent_tensor_initial_capacity,
            append_reuse,
            binding_uses,
            max_length,
            memory_limit,
            check_shapes,
            recognize_attention,
        };
        let options = keywords.or(options)?;
        let py = model.py();
        let model = source::model(model, true)?;
        let context =
            context.map_or_else(RuntimeContext::default, |given| given.get().inner.clone());
        let names = Arc::new(Names::new(py, &model));
        let inner = run::detached(py, || PersistentValueState::from_file(model, path, options))?;
        Ok(Self::new_of(inner, names, context))
    }

    /// Run one step: retained values and `feeds` in, all graph outputs out. Bound outputs are retained.
    #[pyo3(signature = (context = None, feeds = None, completion = None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        context: Option<&Bound<'py, PyAny>>,
        feeds: Option<&Bound<'py, PyAny>>,
        completion: Option<&Bound<'py, PyTaskCompletion>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (context, feeds) = match (context, feeds) {
            (Some(context), feeds) => match (context.cast::<PyRuntimeContext>(), feeds) {
                (Ok(context), Some(feeds)) => (&context.get().inner, feeds),
                (Ok(_), None) => return Err(PyTypeError::new_err("run() missing feeds")),
                (Err(_), None) => (&self.context, context),
                (Err(_), Some(_)) => {
                    let kind = class_of(context);
                    return Err(PyTypeError::new_err(format!(
                        "context: expected a RuntimeContext, got {kind}"
                    )));
                }
            },
            (None, Some(feeds)) => (&self.context, feeds),
            (None, None) => return Err(PyTypeError::new_err("run() missing feeds")),
        };
        run::attached(py, || self.inner.check_open())?;
        let mut read = Feeds::new();
        self.names.read(feeds, &mut read)?;
        if self.inner.warning_count() > 0 && !self.told.load(Ordering::Relaxed) {
            self.tell(py)?;
        }
        let control = RunControl {
            poll: run::poll(py),
            completion: completion.map(|completion| &completion.get().inner),
            watched: None,
        };
        let mut prepared = run::detached(py, || self.inner.prepare(context, &read, control))?;
        // Results that Python cannot be given are not published: the caller has nothing, so nothing has happened.
        let values = prepared.outputs().to_vec();
        let outputs = named(py, &self.names.outputs, values, &self.warned)?;
        // A loser's results go before its step does (in the order of their declarations), or its rows would be seen.
        run::attached(py, || prepared.decide())?;
        run::attached(py, || prepared.publish())?;
        Ok(outputs)
    }

    /// Replace every retained value, without a copy.
    fn reset(&self, initial: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = initial.py();
        run::attached(py, || self.inner.check_open())?;
        let initial = feeds::values(initial, "initial value", self.inner.model())?;
        run::detached(py, || {
            self.inner.reset(
                initial
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.clone())),
            )
        })
    }

    /// Release the retained values. Closing again does nothing; any other use is an error from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run::detached(py, || self.inner.close())
    }

    /// The retained values by input name: shared views, not copies.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = run::attached(py, || self.inner.values())?;
        by_name(py, values, &self.warned)
    }

    /// Make a second state with the same values, which goes its own way from here.
    fn fork(&self, py: Python<'_>) -> PyResult<PyPersistentValueState> {
        let inner = run::attached(py, || self.inner.fork())?;
        let names = Arc::clone(&self.names);
        Ok(Self::new_of(inner, names, self.context.clone()))
    }

    /// Keep the first `length` rows of every value that grows, as if the later steps had not been.
    fn truncate(&self, py: Python<'_>, length: &Bound<'_, PyAny>) -> PyResult<()> {
        let length = size(length, "length")?;
        run::detached(py, || self.inner.truncate(length))
    }

    /// Make every value's batch the rows `rows` of what it was: reordered, repeated, fewer or more.
    #[pyo3(signature = (rows, axes = None))]
    fn select(&self, rows: &Bound<'_, PyAny>, axes: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = rows.py();
        let (rows, axes) = (read_rows(rows)?, read_axes(axes)?);
        run::detached(py, || self.inner.select(&rows, &axes))
    }

    /// Return the values as they are now, to go back to: handles, not copies.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<PyCheckpoint> {
        let inner = run::attached(py, || self.inner.checkpoint())?;
        Ok(PyCheckpoint::new(inner, self.warned.clone()))
    }

    /// Go back to a checkpoint of this state, or of another one of the same model.
    fn restore(&self, py: Python<'_>, checkpoint: &Bound<'_, PyCheckpoint>) -> PyResult<()> {
        run::attached(py, || self.inner.restore(&checkpoint.get().inner))
    }

    /// Write the retained values to a file, whole or not at all (docs/state-files.md).
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run::detached(py, || self.inner.save(path))
    }

    /// Replace every retained value by those of a file.
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run::detached(py, || self.inner.load(path))
    }

    /// Return what the last call did for each binding, and why.
    fn explain(&self, py: Python<'_>) -> PyResult<PyExplanation> {
        Ok(PyExplanation::new(run::attached(py, || {
            self.inner.explain()
        })?))
    }

    /// The model.
    #[getter]
    fn model(&self) -> PyModel {
        PyModel::new(self.inner.model().clone())
    }

    /// Bytes that tensors of this state have in use.
    #[getter]
    fn live_bytes(&self) -> usize {
        self.inner.live_bytes()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!(
            "<PersistentValueState of {} bindings>",
            self.inner.model().bindings().len()
        )
    }
}
