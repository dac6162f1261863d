//! `Generator`: tokens and state that stay over turns, and what it gives out.

use crate::error::{Class, class_of};
use crate::model::{PyModel, source};
use crate::run;
use crate::runtime::completion::PyTaskCompletion;
use crate::runtime::context::PyRuntimeContext;
use crate::runtime::explain::PyExplanation;
use crate::runtime::feeds;
use crate::runtime::generation::{PyGenerationOptions, instance};
use crate::runtime::options::{Keywords, PyRuntimeSessionOptions};
use crate::runtime::state::checkpoint::by_name;
use crate::runtime::tensor::{Warned, size};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use refeed_graph::Model;
use refeed_runtime::{
    FinishReason, GeneratedSequence, GeneratedToken, GenerationOptions, Generator,
    GeneratorSettings, RunControl, RuntimeContext, TaskCompletion,
};
use refeed_values::RuntimeValue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A token that was generated. Made by a `Generator`.
#[pyclass(name = "GeneratedToken", module = "refeed.runtime", frozen)]
pub(crate) struct PyGeneratedToken {
    inner: GeneratedToken,
}

#[pymethods]
impl PyGeneratedToken {
    /// Which sequence it belongs to, in the order of the results.
    #[getter]
    fn sequence(&self) -> usize {
        self.inner.sequence
    }

    /// The token.
    #[getter]
    fn token(&self) -> i64 {
        self.inner.token
    }

    /// Its log-probability, when it was asked for.
    #[getter]
    fn log_probability(&self) -> Option<f64> {
        self.inner.log_probability
    }

    /// Why the sequence ends with it (`"eos"`, `"stop"`, `"length"`), when it does.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        self.inner.finish.map(FinishReason::as_str)
    }

    fn __repr__(&self) -> String {
        let finish = self.inner.finish.map_or(String::new(), |finish| {
            format!(", finish_reason={:?}", finish.as_str())
        });
        let (sequence, token) = (self.inner.sequence, self.inner.token);
        format!("GeneratedToken(sequence={sequence}, token={token}{finish})")
    }
}

/// What one call has generated, one entry a sequence: row by row, and of beams the best first.
#[pyclass(name = "Generation", module = "refeed.runtime", frozen)]
pub(crate) struct PyGeneration {
    sequences: Vec<GeneratedSequence>,
    tells: bool,
}

#[pymethods]
impl PyGeneration {
    /// The new tokens of each sequence; one that ended it is among them.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.sequences.iter().map(|sequence| &sequence.tokens))
    }

    /// The row of the prompts that each sequence continues.
    #[getter]
    fn rows(&self) -> Vec<usize> {
        self.sequences.iter().map(|sequence| sequence.row).collect()
    }

    /// `"eos"`, `"stop"`, `"length"`, `"interrupted"` (Ctrl-C) or `"cancelled"`, of each sequence.
    #[getter]
    fn finish_reasons(&self) -> Vec<&'static str> {
        let reasons = self.sequences.iter();
        reasons.map(|sequence| sequence.finish.as_str()).collect()
    }

    /// The log-probability of each token, when they were asked for.
    #[getter]
    fn log_probabilities<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let all = self
            .sequences
            .iter()
            .map(|sequence| &sequence.log_probabilities);
        self.tells.then(|| PyList::new(py, all)).transpose()
    }

    /// What each sequence was ranked by; beams only.
    #[getter]
    fn scores(&self) -> Option<Vec<f64>> {
        self.sequences
            .iter()
            .map(|sequence| sequence.score)
            .collect()
    }

    fn __len__(&self) -> usize {
        self.sequences.len()
    }

    fn __repr__(&self) -> String {
        let tokens: usize = self
            .sequences
            .iter()
            .map(|sequence| sequence.tokens.len())
            .sum();
        let reasons = self.finish_reasons().join(", ");
        format!(
            "<Generation of {} sequences, {tokens} tokens: {reasons}>",
            self.sequences.len()
        )
    }
}

/// Generates in turns: append tokens, generate, append more, go back, fork.
#[pyclass(name = "Generator", module = "refeed.runtime", frozen)]
pub(crate) struct PyGenerator {
    inner: Mutex<Generator>,
    options: PyGenerationOptions,
    model: Model,
    warned: Warned,
    /// The number of the call that is going on; a stream of an older one has ended.
    call: AtomicU64,
}

/// Refuses numbers that are no token ids, by their place.
fn check_ids(list: &Bound<'_, PyList>) -> PyResult<()> {
    let check = |value: &Bound<'_, PyAny>, place: &dyn Fn() -> String| {
        let py = value.py();
        let Err(error) = value.extract::<i64>() else {
            return Ok(());
        };
        if error.is_instance_of::<PyOverflowError>(py) {
            let text = format!(
                "tokens: expected token ids from 0 to {}, got {value} at {}",
                i64::MAX,
                place()
            );
            return Err(Class::ValueType.error(py, text));
        }
        let text = format!(
            "tokens: expected token ids, got {} at {}",
            value.repr()?,
            place()
        );
        Err(PyTypeError::new_err(text))
    };
    let is_nested = list.iter().any(|item| item.is_instance_of::<PyList>());
    for (at, item) in list.iter().enumerate() {
        match item.cast::<PyList>() {
            Ok(row) => {
                for (column, id) in row.iter().enumerate() {
                    check(&id, &|| format!("row {at}, place {column}"))?;
                }
            }
            // Rows of other kinds are read as sequences.
            Err(_) if is_nested => {}
            Err(_) if item.hasattr("__len__")? => {}
            Err(_) => check(&item, &|| format!("place {at}"))?,
        }
    }
    Ok(())
}

/// Rows of token ids: a list of numbers is one row.
fn read_rows(tokens: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<i64>>> {
    let py = tokens.py();
    // Arrays of NumPy and of others become lists.
    let listed = match tokens.hasattr("tolist")? {
        true => tokens.call_method0("tolist")?,
        false => tokens.clone(),
    };
    let wrong = || {
        let kind = class_of(tokens);
        PyTypeError::new_err(format!(
            "tokens: expected token ids, or a list of lists of them, got {kind}"
        ))
    };
    if listed.is_instance_of::<pyo3::types::PyString>() {
        return Err(wrong());
    }
    if let Ok(list) = listed.cast::<PyList>() {
        check_ids(list)?;
    }
    if let Ok(row) = listed.extract::<Vec<i64>>() {
        if row.is_empty() {
            return Err(
                Class::ValueType.error(py, "tokens: expected at least one token id, got none")
            );
        }
        return Ok(vec![row]);
    }
    listed.extract::<Vec<Vec<i64>>>().map_err(|_| wrong())
}

impl PyGenerator {
    fn take(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Generator>> {
        match self.inner.try_lock() {
            Ok(held) => Ok(held),
            // A panic is told as InternalError; what it left is checked by the state itself.
            Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => {
                let text = "generator is busy: its calls must not overlap";
                Err(Class::StateBusy.error(py, text))
            }
        }
    }

    /// Marks that streams of older calls are over.
    fn next_call(&self) -> u64 {
        self.call.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    fn is_current(&self, call: u64) -> bool {
        self.call.load(Ordering::Relaxed) == call
    }

    fn options<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyGenerationOptions>>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<GenerationOptions> {
        let options = match options {
            Some(options) => options.borrow().with(py, fields)?,
            None => self.options.with(py, fields)?,
        };
        let read = options.read(py)?;
        options.check_fixed(py, &self.options, fields)?;
        Ok(read)
    }

    fn forked(&self, inner: Generator) -> PyGenerator {
        PyGenerator {
            inner: Mutex::new(inner),
            options: self.options.clone(),
            model: self.model.clone(),
            warned: Warned::default(),
            call: AtomicU64::new(0),
        }
    }
}

fn owned(
    values: Option<&Bound<'_, PyAny>>,
    role: &'static str,
    model: &Model,
) -> PyResult<Vec<(String, RuntimeValue)>> {
    values.map_or(Ok(Vec::new()), |values| feeds::values(values, role, model))
}

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (model, options = None, *, initial = None, feeds = None, later_feeds = None, context = None,
        session_options = None))]
    fn new(
        model: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyGenerationOptions>>,
        initial: Option<&Bound<'_, PyAny>>,
        feeds: Option<&Bound<'_, PyAny>>,
        later_feeds: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyAny>>,
        session_options: Option<&Bound<'_, PyRuntimeSessionOptions>>,
    ) -> PyResult<PyGenerator> {
        let py = model.py();
        let options =
            options.map_or_else(PyGenerationOptions::default, |given| given.borrow().clone());
        let read = options.read(py)?;
        let session_options = Keywords::default().or(session_options)?;
        let model = source::model(model, true)?;
        let context = instance::<PyRuntimeContext>(context, "context")?;
        let context =
            context.map_or_else(RuntimeContext::default, |given| given.get().inner.clone());
        let settings = GeneratorSettings {
            options: read,
            initial: owned(initial, "initial value", &model)?,
            feeds: owned(feeds, "feed", &model)?,
            later_feeds: owned(later_feeds, "feed", &model)?,
            context,
            session_options,
        };
        let inner = run::detached(py, || Generator::new(model.clone(), settings))?;
        Ok(PyGenerator {
            inner: Mutex::new(inner),
            options,
            model,
            warned: Warned::default(),
            call: AtomicU64::new(0),
        })
    }

    /// Add tokens: the prompts of a batch at first, later the next turn of a single row.
    fn append(&self, tokens: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = tokens.py();
        let rows = read_rows(tokens)?;
        let inner = &mut *self.take(py)?;
        run::detached(py, || inner.append(&rows))?;
        self.next_call();
        Ok(())
    }

    /// Generate until every sequence has ended. After Ctrl-C, return what there is.
    #[pyo3(signature = (options = None, *, callback = None, completion = None, **fields))]
    fn generate<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyGenerationOptions>>,
        callback: Option<&Bound<'py, PyAny>>,
        completion: Option<&Bound<'py, PyAny>>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyGeneration> {
        let options = self.options(py, options, fields)?;
        let completion = instance::<PyTaskCompletion>(completion, "completion")?;
        if let Some(callback) = callback.filter(|callback| !callback.is_callable()) {
            let kind = class_of(callback);
            let text = format!("callback: expected a callable, got {kind}");
            return Err(PyTypeError::new_err(text));
        }
        let mut inner = self.take(py)?;
        self.next_call();
        let control = RunControl {
            poll: run::poll(py),
            completion: completion.map(|completion| &completion.get().inner),
            watched: None,
        };
        let callback = callback.map(|callback| callback.clone().unbind());
        let mut raised: Option<PyErr> = None;
        let mut each = |token: &GeneratedToken| -> bool {
            let Some(callback) = &callback else {
                return true;
            };
            if raised.is_some() {
                return false;
            }
            run::reattached(|py| {
                let token = PyGeneratedToken { inner: *token };
                let said = callback.call1(py, (token,));
                // Functions that return nothing go on.
                let goes_on = |said: Py<PyAny>| Ok(said.is_none(py) || said.bind(py).is_truthy()?);
                match said.and_then(goes_on) {
                    Ok(goes_on) => goes_on,
                    Err(error) => {
                        raised = Some(error);
                        false
                    }
                }
            })
        };
        let generator = &mut *inner;
        let sequences = run::detached(py, || {
            generator.generate_until(&options, control, &mut each)
        });
        drop(inner);
        if let Some(raised) = raised {
            return Err(raised);
        }
        let sequences = sequences?;
        let interrupted =
            |sequence: &GeneratedSequence| sequence.finish == FinishReason::Interrupted;
        if sequences.iter().any(interrupted) {
            run::stopped(py)?;
        }
        let tells = options.log_probabilities;
        Ok(PyGeneration { sequences, tells })
    }

    /// Return an iterator that makes a step whenever the next token is asked for. Arguments as for `generate`.
    #[pyo3(signature = (options = None, *, completion = None, **fields))]
    fn stream<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyGenerationOptions>>,
        completion: Option<&Bound<'py, PyAny>>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyTokenStream> {
        let (py, own) = (slf.py(), slf.get());
        let options = own.options(py, options, fields)?;
        let completion = instance::<PyTaskCompletion>(completion, "completion")?;
        let mut inner = own.take(py)?;
        run::attached(py, || inner.begin(&options))?;
        Ok(PyTokenStream {
            generator: slf.clone().unbind(),
            call: own.next_call(),
            completion: completion.map(|completion| completion.get().inner.clone()),
            ready: Mutex::default(),
        })
    }

    /// Evaluate what was appended, so that the next call begins with a token at once.
    #[pyo3(signature = (completion = None))]
    fn prefill(&self, py: Python<'_>, completion: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let completion = instance::<PyTaskCompletion>(completion, "completion")?;
        let inner = &mut *self.take(py)?;
        self.next_call();
        let control = RunControl {
            poll: run::poll(py),
            completion: completion.map(|completion| &completion.get().inner),
            watched: None,
        };
        run::detached(py, || inner.prefill(control))
    }

    /// All tokens of each row, without padding.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.take(py)?.tokens())
    }

    /// The number of tokens of the longest row, with the padding that it is fed with.
    #[getter]
    fn length(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.take(py)?.length())
    }

    /// The number of tokens before each `append`.
    #[getter]
    fn turns(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        Ok(self.take(py)?.turns())
    }

    /// Go back to before `append` number `turn`; negative numbers count from the end.
    fn rewind(&self, py: Python<'_>, turn: isize) -> PyResult<()> {
        let inner = &mut *self.take(py)?;
        let count = inner.turns().len();
        let at = match turn {
            0.. => Some(turn.unsigned_abs()),
            _ => count.checked_sub(turn.unsigned_abs()),
        };
        let Some(at) = at.filter(|at| *at < count) else {
            let text = format!("turn: expected one of {count} turns, got {turn}");
            return Err(PyIndexError::new_err(text));
        };
        run::detached(py, || inner.rewind(at))?;
        self.next_call();
        Ok(())
    }

    /// Keep the first `length` tokens of the one row that there is.
    fn truncate(&self, py: Python<'_>, length: &Bound<'_, PyAny>) -> PyResult<()> {
        let length = size(length, "length")?;
        let inner = &mut *self.take(py)?;
        run::detached(py, || inner.truncate(length))?;
        self.next_call();
        Ok(())
    }

    /// Return a second generator that goes its own way from here, with all rows or one, which is row 0 there.
    #[pyo3(signature = (row = None))]
    fn fork(&self, py: Python<'_>, row: Option<&Bound<'_, PyAny>>) -> PyResult<PyGenerator> {
        let row = row.map(|row| size(row, "row")).transpose()?;
        let inner = &mut *self.take(py)?;
        let forked = run::detached(py, || match row {
            Some(row) => inner.fork_row(row),
            None => inner.fork(),
        })?;
        self.next_call();
        Ok(self.forked(forked))
    }

    /// Forget all tokens.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let mut inner = self.take(py)?;
        self.next_call();
        inner.reset();
        Ok(())
    }

    /// Tell what the last step did for each binding; None without bindings or before the first tokens.
    fn explain(&self, py: Python<'_>) -> PyResult<Option<PyExplanation>> {
        let inner = self.take(py)?;
        let explanation = run::attached(py, || inner.explain())?;
        Ok(explanation.map(PyExplanation::new))
    }

    /// The retained values by input name: shared views. Where rows run one by one, those of the first.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.take(py)?;
        let values = run::attached(py, || inner.values())?;
        by_name(py, values, &self.warned)
    }

    /// Bytes that tensors of the model's runs have in use, those of forks included.
    #[getter]
    fn live_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.take(py)?.live_bytes())
    }

    /// The model.
    #[getter]
    fn model(&self) -> PyModel {
        PyModel::new(self.model.clone())
    }

    /// A copy of the options of calls that bring none.
    #[getter]
    #[pyo3(name = "options")]
    fn own_options(&self) -> PyGenerationOptions {
        self.options.clone()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let inner = self.take(py)?;
        let rows = inner.tokens().len();
        Ok(format!(
            "<Generator of {rows} rows, {} tokens, {} turns>",
            inner.length(),
            inner.turns().len()
        ))
    }
}

/// Tokens one by one, as `Generator.stream` makes them. The next call of the generator ends it.
#[pyclass(name = "TokenStream", module = "refeed.runtime", frozen)]
pub(crate) struct PyTokenStream {
    generator: Py<PyGenerator>,
    call: u64,
    completion: Option<TaskCompletion>,
    /// Tokens of the last step that nobody has taken.
    ready: Mutex<VecDeque<GeneratedToken>>,
}

#[pymethods]
impl PyTokenStream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyGeneratedToken>> {
        let Ok(mut ready) = self.ready.try_lock() else {
            return Err(Class::StateBusy.error(py, "stream is busy: its calls must not overlap"));
        };
        let ready = &mut *ready;
        if let Some(inner) = ready.pop_front() {
            return Ok(Some(PyGeneratedToken { inner }));
        }
        let generator = self.generator.get();
        if !generator.is_current(self.call) {
            return Ok(None);
        }
        let inner = &mut *generator.take(py)?;
        let control = RunControl {
            poll: run::poll(py),
            completion: None,
            watched: self.completion.as_ref(),
        };
        let made = run::detached(py, || {
            let events = inner.advance(control)?;
            ready.extend(events);
            Ok::<_, refeed_runtime::GenerationError>(())
        });
        made?;
        run::raised(py)?;
        Ok(ready.pop_front().map(|inner| PyGeneratedToken { inner }))
    }

    /// End the call where it is; the generator keeps what was generated.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let generator = self.generator.get();
        if generator.is_current(self.call) {
            let mut inner = generator.take(py)?;
            generator.next_call();
            run::attached(py, || inner.finish())?;
        }
        Ok(())
    }
}
