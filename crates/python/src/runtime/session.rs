//! `RuntimeSession`: a compiled model whose runs remember nothing.

use crate::model::{PyModel, PyValueInfo, source};
use crate::run;
use crate::runtime::context::PyRuntimeContext;
use crate::runtime::explain::PyAttentionForm;
use crate::runtime::feeds::{self, Feeds, Names};
use crate::runtime::options::{Keywords, PyRuntimeSessionOptions};
use crate::runtime::state::PyPersistentValueState;
use crate::runtime::tensor::Warned;
use crate::runtime::value::named;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use refeed_graph::Model;
use refeed_graph::types::ValueInfo;
use refeed_runtime::{PersistentValueState, RuntimeContext, RuntimeSession, RuntimeSessionOptions};
use std::sync::Arc;

/// A compiled model whose runs remember nothing. Threads may run one session at the same time.
#[pyclass(name = "RuntimeSession", module = "refeed.runtime", frozen)]
pub(crate) struct PyRuntimeSession {
    inner: RuntimeSession,
    names: Arc<Names>,
    context: RuntimeContext,
    warned: Warned,
}

impl PyRuntimeSession {
    pub(crate) fn make(
        py: Python<'_>,
        model: Model,
        options: RuntimeSessionOptions,
        context: Option<&PyRuntimeContext>,
    ) -> PyResult<PyRuntimeSession> {
        let names = Arc::new(Names::new(py, &model));
        let context = context.map_or_else(RuntimeContext::default, |given| given.inner.clone());
        let inner = run::detached(py, || {
            RuntimeSession::with_context(model, options, &context)
        })?;
        Ok(PyRuntimeSession {
            inner,
            names,
            context,
            warned: Warned::default(),
        })
    }

    pub(crate) fn run_feeds<'py>(
        &self,
        feeds: &Bound<'py, PyAny>,
        context: Option<&PyRuntimeContext>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let py = feeds.py();
        let mut read = Feeds::new();
        self.names.read(feeds, &mut read)?;
        let context = context.map_or(&self.context, |context| &context.inner);
        let poll = run::poll(py);
        let outputs = run::detached(py, || self.inner.run_positions(context, &read, poll))?;
        named(py, &self.names.outputs, outputs.into_values(), &self.warned)
    }
}

#[pymethods]
impl PyRuntimeSession {
    #[new]
    #[pyo3(signature = (model, options = None, *, persistent_tensor_initial_capacity = None, append_reuse = None,
        binding_uses = None, max_length = None, memory_limit = None, check_shapes = None,
        recognize_attention = None, context = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        model: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyRuntimeSessionOptions>>,
        persistent_tensor_initial_capacity: Option<&Bound<'_, PyAny>>,
        append_reuse: Option<&Bound<'_, PyAny>>,
        binding_uses: Option<&Bound<'_, PyAny>>,
        max_length: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
        check_shapes: Option<&Bound<'_, PyAny>>,
        recognize_attention: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyRuntimeContext>>,
    ) -> PyResult<PyRuntimeSession> {
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
        let context = context.map(Bound::get);
        PyRuntimeSession::make(model.py(), source::model(model, true)?, options, context)
    }

    /// Run the graph once. Every input that no initializer gives must be fed, bound ones too.
    #[pyo3(signature = (feeds, context = None))]
    fn run<'py>(
        &self,
        feeds: &Bound<'py, PyAny>,
        context: Option<&Bound<'py, PyRuntimeContext>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Ok(kept) = feeds.cast::<PyRuntimeContext>() {
            if context.is_some() {
                let text = "feeds: expected a dict, got a second RuntimeContext";
                return Err(PyTypeError::new_err(text));
            }
            let (py, kept) = (feeds.py(), &kept.get().inner);
            let poll = run::poll(py);
            run::detached(py, || self.inner.run_context(kept, poll))?;
            return Ok(None);
        }
        self.run_feeds(feeds, context.map(Bound::get)).map(Some)
    }

    /// Make a state that shares plan and weights with this session, which costs a few microseconds.
    fn new_state(&self, initial: &Bound<'_, PyAny>) -> PyResult<PyPersistentValueState> {
        let py = initial.py();
        let initial = feeds::values(initial, "initial value", self.inner.model())?;
        let state = run::attached(py, || {
            let initial = initial
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()));
            PersistentValueState::of_session(&self.inner, initial)
        })?;
        Ok(PyPersistentValueState::new_of(
            state,
            Arc::clone(&self.names),
            self.context.clone(),
        ))
    }

    /// The model.
    #[getter]
    fn model(&self) -> PyModel {
        PyModel::new(self.inner.model().clone())
    }

    /// The attention that the graph writes out in single nodes; empty with ``recognize_attention=False``.
    #[getter]
    fn attention(&self) -> Vec<PyAttentionForm> {
        PyAttentionForm::all(self.inner.attention())
    }

    /// Return what a state's calls will do for each binding, as far as the graph tells.
    fn forecast(&self) -> Vec<String> {
        self.inner
            .forecast()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// What the operators' rules say of the graph outputs: often more than their declarations do.
    #[getter]
    fn output_types(&self) -> Vec<PyValueInfo> {
        let outputs = self.inner.model().outputs().iter();
        let types = self.inner.output_types().iter();
        outputs
            .zip(types)
            .map(|(info, ty)| {
                PyValueInfo::new(ValueInfo {
                    name: info.name.clone(),
                    ty: ty.clone(),
                })
            })
            .collect()
    }

    /// Bytes that tensors of this session have in use.
    #[getter]
    fn live_bytes(&self) -> usize {
        self.inner.live_bytes()
    }

    fn __repr__(&self) -> String {
        let model = self.inner.model();
        format!(
            "<RuntimeSession of {} inputs, {} outputs>",
            model.inputs().len(),
            model.outputs().len()
        )
    }
}
