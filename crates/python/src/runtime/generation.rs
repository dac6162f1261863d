//! `GenerationOptions` and `generate`: a model run on its own predictions.

use crate::error::{Class, IntoPyErr, class_of};
use crate::model::source;
use crate::run;
use crate::runtime::completion::PyTaskCompletion;
use crate::runtime::context::PyRuntimeContext;
use crate::runtime::feeds;
use crate::runtime::options::{Keywords, PyRuntimeSessionOptions};
use crate::runtime::state::checkpoint::by_name;
use crate::runtime::tensor::{PyTensor, Warned, size};
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use refeed_runtime::{
    BatchAxes, FinishReason, GenerationError, GenerationOptions, RunControl, RuntimeSession,
    empty_caches as make_empty_caches, generate_until,
};
use std::collections::BTreeMap;

impl IntoPyErr for GenerationError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            GenerationError::State(source) => source.into_py(py),
            GenerationError::Tensor(source) => source.into_py(py),
            other => Class::ValueType.error(py, other),
        }
    }
}

/// Settings of a generation. Lists and dictionaries are copied: assign a whole one to change it.
// Counts are signed here, so that a negative one is told by the call that uses it, in the order of its checks.
#[pyclass(
    name = "GenerationOptions",
    module = "refeed.runtime",
    eq,
    from_py_object
)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyGenerationOptions {
    /// Most tokens that one call adds to a row.
    #[pyo3(get, set)]
    max_new_tokens: i64,
    /// 0: the most probable token. Positive: a draw from ``softmax(logits / temperature)``.
    #[pyo3(get, set)]
    temperature: f64,
    /// Makes draws repeatable; without one, each call draws differently.
    #[pyo3(get, set)]
    seed: Option<u64>,
    /// A token that ends its row.
    #[pyo3(get, set)]
    eos_token_id: Option<i64>,
    /// What rows that have ended are filled with; the end token when absent.
    #[pyo3(get, set)]
    pad_token_id: Option<i64>,
    /// The graph input of the token ids.
    #[pyo3(get, set)]
    input_ids_name: String,
    /// The graph output of the logits.
    #[pyo3(get, set)]
    logits_name: String,
    /// The graph input of the mask, when there is one of this name.
    #[pyo3(get, set)]
    attention_mask_name: String,
    /// The graph input of the positions, when there is one of this name.
    #[pyo3(get, set)]
    position_ids_name: String,
    /// Draws are among so many of the most probable tokens; equal ones count by their number.
    #[pyo3(get, set)]
    top_k: Option<i64>,
    /// Draws are among the most probable tokens that together have this probability, in (0, 1].
    #[pyo3(get, set)]
    top_p: Option<f64>,
    /// Draws are among tokens at least this many times as probable as the most probable one.
    #[pyo3(get, set)]
    min_p: Option<f64>,
    /// Divides positive and multiplies negative logits of tokens that stand in the row.
    #[pyo3(get, set)]
    repetition_penalty: f64,
    /// Subtracted from the logits of tokens that this call has generated in the row.
    #[pyo3(get, set)]
    presence_penalty: f64,
    /// The same, as many times as the token was generated.
    #[pyo3(get, set)]
    frequency_penalty: f64,
    /// Added to the logits of single tokens; negative infinity forbids one.
    #[pyo3(get, set)]
    logit_bias: BTreeMap<i64, f64>,
    /// Sequences of tokens that are not generated.
    #[pyo3(get, set)]
    bad_words: Vec<Vec<i64>>,
    /// More tokens that end their row.
    #[pyo3(get, set)]
    stop_token_ids: Vec<i64>,
    /// Sequences of generated tokens that end their row.
    #[pyo3(get, set)]
    stop_sequences: Vec<Vec<i64>>,
    /// Tokens that end a row are forbidden before so many were generated.
    #[pyo3(get, set)]
    min_new_tokens: i64,
    /// Most tokens that a row may have, prompt included.
    #[pyo3(get, set)]
    max_length: Option<i64>,
    /// Sequences for each prompt, from one evaluation of it; of beams, the best ones.
    #[pyo3(get, set)]
    num_return_sequences: i64,
    /// Width of a beam search; 1: none.
    #[pyo3(get, set)]
    num_beams: i64,
    /// Beams are ranked by log-probability over new length to this power.
    #[pyo3(get, set)]
    length_penalty: f64,
    /// Whether log-probabilities are told: of the model's own distribution.
    #[pyo3(get, set)]
    log_probabilities: bool,
    /// Prompts are evaluated in pieces of at most so many tokens (models with bindings).
    #[pyo3(get, set)]
    prefill_chunk: Option<i64>,
    /// Whether a `Generator` lets rows go that have ended, so that they cost nothing.
    #[pyo3(get, set)]
    drop_finished: bool,
    /// The number of the first row in the random stream, for parts of a batch.
    #[pyo3(get, set)]
    first_row: u64,
    /// Which axis of each retained value is the batch, where declarations do not tell.
    #[pyo3(get, set)]
    batch_axes: BTreeMap<String, Option<usize>>,
}

impl Default for PyGenerationOptions {
    fn default() -> Self {
        let options = GenerationOptions::default();
        PyGenerationOptions {
            max_new_tokens: options.max_new_tokens as i64,
            temperature: options.temperature,
            seed: options.seed,
            eos_token_id: options.eos_token_id,
            pad_token_id: options.pad_token_id,
            input_ids_name: options.input_ids_name,
            logits_name: options.logits_name,
            attention_mask_name: options.attention_mask_name,
            position_ids_name: options.position_ids_name,
            top_k: None,
            top_p: options.top_p,
            min_p: options.min_p,
            repetition_penalty: options.repetition_penalty,
            presence_penalty: options.presence_penalty,
            frequency_penalty: options.frequency_penalty,
            logit_bias: BTreeMap::new(),
            bad_words: options.bad_words,
            stop_token_ids: options.stop_token_ids,
            stop_sequences: options.stop_sequences,
            min_new_tokens: options.min_new_tokens as i64,
            max_length: None,
            num_return_sequences: options.num_return_sequences as i64,
            num_beams: options.num_beams as i64,
            length_penalty: options.length_penalty,
            log_probabilities: options.log_probabilities,
            prefill_chunk: None,
            drop_finished: options.drop_finished,
            first_row: options.first_row,
            batch_axes: BTreeMap::new(),
        }
    }
}

/// An optional argument of one class.
///
/// # Errors
/// When it is of another one; the error names the argument.
pub(crate) fn instance<'a, 'py, T: PyTypeInfo>(
    value: Option<&'a Bound<'py, PyAny>>,
    what: &str,
) -> PyResult<Option<&'a Bound<'py, T>>> {
    let Some(value) = value else { return Ok(None) };
    value.cast::<T>().map(Some).map_err(|_| {
        let (expected, got) = (T::type_object(value.py()), class_of(value));
        PyTypeError::new_err(format!("{what}: expected {expected}, got {got}"))
    })
}

/// A value in an error message, of bounded length.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value
        .repr()
        .map_or_else(|_| "?".to_string(), |text| text.to_string());
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A count that must not be negative.
fn count(py: Python<'_>, value: i64, what: &str) -> PyResult<usize> {
    usize::try_from(value).map_err(|_| {
        let text = format_args!("{what}: expected a nonnegative integer, got {value}");
        Class::ValueType.error(py, text)
    })
}

impl PyGenerationOptions {
    /// The options as the runtime has them.
    ///
    /// # Errors
    /// The first one, in the order of the checks, that means nothing.
    pub(crate) fn read(&self, py: Python<'_>) -> PyResult<GenerationOptions> {
        let optional = |value: Option<i64>, what| value.map(|value| count(py, value, what));
        let axes = self.batch_axes.iter();
        let options = GenerationOptions {
            max_new_tokens: count(py, self.max_new_tokens, "max_new_tokens")?,
            temperature: self.temperature,
            seed: self.seed,
            eos_token_id: self.eos_token_id,
            pad_token_id: self.pad_token_id,
            input_ids_name: self.input_ids_name.clone(),
            logits_name: self.logits_name.clone(),
            attention_mask_name: self.attention_mask_name.clone(),
            position_ids_name: self.position_ids_name.clone(),
            top_k: optional(self.top_k, "top_k").transpose()?,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.iter().map(|(id, by)| (*id, *by)).collect(),
            bad_words: self.bad_words.clone(),
            stop_token_ids: self.stop_token_ids.clone(),
            stop_sequences: self.stop_sequences.clone(),
            min_new_tokens: count(py, self.min_new_tokens, "min_new_tokens")?,
            max_length: optional(self.max_length, "max_length").transpose()?,
            num_return_sequences: count(py, self.num_return_sequences, "num_return_sequences")?,
            num_beams: count(py, self.num_beams, "num_beams")?,
            length_penalty: self.length_penalty,
            log_probabilities: self.log_probabilities,
            prefill_chunk: optional(self.prefill_chunk, "prefill_chunk").transpose()?,
            drop_finished: self.drop_finished,
            first_row: self.first_row,
            batch_axes: axes.fold(BatchAxes::default(), |axes, (name, axis)| {
                axes.with(name.as_str(), *axis)
            }),
        };
        run::attached(py, || options.check())?;
        Ok(options)
    }

    /// Refuses what only the making of a generator can say, and this call says otherwise: in `fields`, or in options in which
    /// it is not the usual value.
    ///
    /// # Errors
    /// When the names of inputs and outputs or the batch axes are others than those of `own`.
    pub(crate) fn check_fixed(
        &self,
        py: Python<'_>,
        own: &PyGenerationOptions,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let usual = PyGenerationOptions::default();
        let names = |options: &PyGenerationOptions| {
            [
                options.input_ids_name.clone(),
                options.logits_name.clone(),
                options.attention_mask_name.clone(),
                options.position_ids_name.clone(),
                format!("{:?}", options.batch_axes),
            ]
        };
        let all = names(self).into_iter().zip(names(own)).zip(names(&usual));
        let options = [
            "input_ids_name",
            "logits_name",
            "attention_mask_name",
            "position_ids_name",
            "batch_axes",
        ];
        for (option, ((got, own), usual)) in options.into_iter().zip(all) {
            let said = match fields {
                Some(fields) => fields.contains(option)?,
                None => false,
            };
            if got != own && (said || got != usual) {
                let text = format_args!(
                    "{option}: expected {own}, which the generator was made with, got {got}"
                );
                return Err(Class::ValueType.error(py, text));
            }
        }
        Ok(())
    }

    /// A copy with some fields replaced.
    ///
    /// # Errors
    /// When a field is unknown or its value of another type.
    pub(crate) fn with<'py>(
        &self,
        py: Python<'py>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyGenerationOptions> {
        let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
            return Ok(self.clone());
        };
        let made = Bound::new(py, self.clone())?;
        for (name, value) in fields {
            let name = name.cast_into::<PyString>()?;
            made.setattr(&name, &value).map_err(|error| {
                if error.is_instance_of::<PyAttributeError>(py) {
                    let text = format!("unknown option `{}`", name.to_string_lossy());
                    return PyTypeError::new_err(text);
                }
                if error.is_instance_of::<PyOverflowError>(py) {
                    let expected = match name.to_str() {
                        Ok("seed" | "first_row") => "an integer from 0 to 18446744073709551615",
                        Ok("batch_axes") => "axes from 0 to 18446744073709551615",
                        _ => "integers from -9223372036854775808 to 9223372036854775807",
                    };
                    let got = shown(&value);
                    let text =
                        format!("{}: expected {expected}, got {got}", name.to_string_lossy());
                    return PyOverflowError::new_err(text);
                }
                if error.is_instance_of::<PyTypeError>(py) {
                    let text = format!("{}: {}", name.to_string_lossy(), error.value(py));
                    return PyTypeError::new_err(text);
                }
                error
            })?;
        }
        let read = made.borrow().clone();
        Ok(read)
    }
}

#[pymethods]
impl PyGenerationOptions {
    #[new]
    #[pyo3(signature = (**fields))]
    fn new<'py>(
        py: Python<'py>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyGenerationOptions> {
        PyGenerationOptions::default().with(py, fields)
    }

    /// Return a copy with other values of some fields.
    #[pyo3(signature = (**fields))]
    fn replace<'py>(
        &self,
        py: Python<'py>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyGenerationOptions> {
        self.with(py, fields)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (own, plain) = (
            Bound::new(py, self.clone())?,
            PyGenerationOptions::default(),
        );
        let plain = Bound::new(py, plain)?;
        let mut shown = Vec::new();
        for name in FIELDS {
            let value = own.getattr(*name)?;
            if !value.eq(plain.getattr(*name)?)? {
                shown.push(format!("{name}={}", value.repr()?));
            }
        }
        Ok(format!("GenerationOptions({})", shown.join(", ")))
    }
}

const FIELDS: &[&str] = &[
    "max_new_tokens",
    "temperature",
    "seed",
    "eos_token_id",
    "pad_token_id",
    "input_ids_name",
    "logits_name",
    "attention_mask_name",
    "position_ids_name",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "bad_words",
    "stop_token_ids",
    "stop_sequences",
    "min_new_tokens",
    "max_length",
    "num_return_sequences",
    "num_beams",
    "length_penalty",
    "log_probabilities",
    "prefill_chunk",
    "drop_finished",
    "first_row",
    "batch_axes",
];

/// The options of a call: given ones, or the usual ones.
pub(crate) fn options_or(
    py: Python<'_>,
    options: Option<&Bound<'_, PyGenerationOptions>>,
) -> PyResult<GenerationOptions> {
    match options {
        Some(options) => options.borrow().read(py),
        None => Ok(GenerationOptions::default()),
    }
}

/// Continue prompts with the tokens that a model predicts.
#[pyfunction]
#[pyo3(signature = (model, context, feeds, options = None, session_options = None, *, completion = None))]
pub(crate) fn generate<'py>(
    model: &Bound<'py, PyAny>,
    context: &Bound<'py, PyRuntimeContext>,
    feeds: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyGenerationOptions>>,
    session_options: Option<&Bound<'py, PyRuntimeSessionOptions>>,
    completion: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyTensor> {
    let py = model.py();
    let options = options_or(py, options)?;
    let completion = instance::<PyTaskCompletion>(completion, "completion")?;
    let session_options = Keywords::default().or(session_options)?;
    let model = source::model(model, true)?;
    let feeds = feeds::values(feeds, "feed", &model)?;
    let context = &context.get().inner;
    let control = RunControl {
        poll: run::poll(py),
        completion: completion.map(|completion| &completion.get().inner),
        watched: None,
    };
    let generated = run::detached(py, || {
        let feeds = feeds
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        generate_until(model, context, feeds, &options, session_options, control)
    })?;
    if generated.stopped == Some(FinishReason::Interrupted) {
        run::stopped(py)?;
    }
    let name = PyString::new(py, &options.input_ids_name).unbind();
    Ok(PyTensor::new(generated.tokens, name, Warned::default()))
}

/// Make the initial values of all bound inputs from their declared types: zeros, with nothing in what grows.
#[pyfunction]
#[pyo3(signature = (model, batch = None, input_ids_name = "input_ids"))]
pub(crate) fn empty_caches<'py>(
    model: &Bound<'py, PyAny>,
    batch: Option<&Bound<'py, PyAny>>,
    input_ids_name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let py = model.py();
    let batch = batch.map_or(Ok(1), |batch| size(batch, "batch"))?;
    let options = Keywords::default().or(None)?;
    let model = source::model(model, true)?;
    let values = run::detached(py, || {
        let session = RuntimeSession::new(model, options).map_err(GenerationError::from)?;
        make_empty_caches(&session, batch, input_ids_name)
    })?;
    by_name(py, values, &Warned::default())
}
