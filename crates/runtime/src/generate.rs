//! Generation: a model that predicts the next token, run on its own predictions.
//!
//! [`generate`] is the call that every runtime has: a prompt in, the prompt with its continuation out. [`Generator`] keeps
//! tokens and state over turns. Both run one loop:
//!
//! * `prompt` finds the graph inputs that the loop feeds and checks what the caller feeds to start with.
//! * `decoder` holds rows of tokens, of which its lanes have seen a part: `lane` is what runs the model on all rows or on one
//!   (`engine`: a state or a session), with `feeds` that makes the tensors of a step in memory that is used again.
//! * `turn` is one call: step by step, `logits` are changed by `filters`, a token is chosen by `sample` with numbers from
//!   `random`, and sequences end.

mod beam;
mod control;
mod decoder;
mod empty;
mod engine;
mod error;
mod exponential;
mod feeds;
mod filters;
mod generator;
mod lane;
mod logits;
mod options;
mod prompt;
mod random;
mod row;
mod sample;
mod turn;

pub use control::FinishReason;
pub use empty::empty_caches;
pub use error::GenerationError;
pub use generator::{Generator, GeneratorSettings};
pub use options::GenerationOptions;
pub use turn::{GeneratedSequence, GeneratedToken};

use crate::context::RuntimeContext;
use crate::interrupt::RunControl;
use crate::options::RuntimeSessionOptions;
use crate::session::RuntimeSession;
use crate::state::PersistentValueState;
use control::Control;
use decoder::Decoder;
use engine::{Batch, Engine};
use lane::Lane;
use prompt::{Makes, Prompt, Roles, check_distinct, find};
use refeed_graph::Model;
use refeed_values::{DType, RuntimeValue, Tensor, TensorMut};
use row::Row;
use std::sync::Arc;
use turn::Turn;

/// What [`generate_until`] returns.
#[derive(Debug, Clone)]
pub struct Generated {
    /// INT64 `[rows, prompt + generated]`, the prompt included.
    pub tokens: Tensor,
    /// Why it ended before its time, when it did: the tokens are then those that there were.
    pub stopped: Option<FinishReason>,
}

/// Continues prompts: INT64 `[batch, length]` under the name of the token input in `feeds`, INT64
/// `[batch, length + generated]` out.
///
/// Models without bindings see the whole growing prefix at every step. Models with bindings get a fresh state: feeds of
/// bound inputs are its initial values and must be an empty prefix; the prompt is evaluated once, then one token a step. A
/// declared mask and declared positions of INT64 are made when they are not fed, and extended; every other feed stays as it
/// is. Rows that have ended are filled with the padding token until all have, or there are
/// [`GenerationOptions::max_new_tokens`] new ones.
///
/// ```
/// use refeed_graph::{LoadOptions, Model, parser::parse_model};
/// use refeed_runtime::{GenerationOptions, RuntimeContext, RuntimeSessionOptions, generate};
/// use refeed_values::Tensor;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The logits favour the token after the last one.
/// let text = r#"<ir_version: 10, opset_import: ["" : 18]>
///     next (int64[b, n] input_ids) => (float[b, n, 8] logits)
///     <int64 one = {1}, int64[1] depth = {8}, float[2] values = {0, 1}>
///     { following = Add(input_ids, one)  logits = OneHot(following, depth, values) }"#;
/// let model = Model::from_proto(parse_model(text)?, &LoadOptions::default())?;
/// let prompt = Tensor::from_slice(&[1, 2], &[4i64, 2])?;
/// let options = GenerationOptions { max_new_tokens: 3, ..GenerationOptions::default() };
/// let (context, session) = (RuntimeContext::default(), RuntimeSessionOptions::default());
/// let tokens = generate(model, &context, [("input_ids", prompt)], &options, session)?;
/// assert_eq!(tokens.view::<i64>()?.to_vec(), [4, 2, 3, 4, 5]);
/// # Ok(()) }
/// ```
///
/// # Errors
/// When an option, a feed or the model is not what it must be (the first fault in the order of the options' checks, the
/// names, the feeds, the prompt, the mask, the positions), the model cannot be run, or its logits choose no token.
pub fn generate<'n, V: Into<RuntimeValue>>(
    model: Model,
    context: &RuntimeContext,
    feeds: impl IntoIterator<Item = (&'n str, V)>,
    options: &GenerationOptions,
    session_options: RuntimeSessionOptions,
) -> Result<Tensor, GenerationError> {
    let control = RunControl::default();
    let generated = generate_until(model, context, feeds, options, session_options, control)?;
    Ok(generated.tokens)
}

/// As [`generate`], with what can stop it: the tokens that there are by then are returned. A completion is taken for the
/// whole call and succeeded by its end.
///
/// # Errors
/// As [`generate`], and when the completion is cancelled already, or another call has or had it.
pub fn generate_until<'n, V: Into<RuntimeValue>>(
    model: Model,
    context: &RuntimeContext,
    feeds: impl IntoIterator<Item = (&'n str, V)>,
    options: &GenerationOptions,
    session_options: RuntimeSessionOptions,
    control: RunControl<'_>,
) -> Result<Generated, GenerationError> {
    options.check()?;
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let name = &options.input_ids_name;
    let ids = find(inputs, "input_ids_name", "input", name)?;
    find(outputs, "logits_name", "output", &options.logits_name)?;
    let mut fed: Vec<Option<RuntimeValue>> = vec![None; inputs.len()];
    for (name, value) in feeds {
        let at = inputs.iter().position(|info| &*info.name == name);
        let at = at.ok_or_else(|| GenerationError::UnknownFeed(name.to_string()))?;
        fed[at] = Some(value.into());
    }
    let more = options.max_new_tokens;
    let prompt = Prompt::read(name, fed[ids].as_ref(), more)?;
    check_distinct(&model, options)?;
    options.check_axes(&model)?;
    let roles = Roles::find(&model, options, Makes::Int64, |input| fed[input].is_some())?;
    let given = |made: Option<prompt::Made>| made.and_then(|made| fed[made.input].as_ref());
    let mask = prompt.mask(&options.attention_mask_name, given(roles.mask))?;
    let positions = given(roles.positions);
    let positions = prompt.positions(&options.position_ids_name, positions, &mask, more)?;
    let rows: Vec<Row> = (0..prompt.batch)
        .map(|number| {
            let columns = number * prompt.length..(number + 1) * prompt.length;
            let tokens = &prompt.tokens[columns.clone()];
            let mut row = Row::new(number);
            row.extend(tokens, &mask[columns.clone()], &positions[columns]);
            row
        })
        .collect();
    check_padding(options, rows.len())?;
    if more == 0 {
        let tokens = joined(&rows)?;
        return Ok(Generated {
            tokens,
            stopped: None,
        });
    }
    let (mut initial, mut fixed) = (Vec::new(), Vec::new());
    for (input, value) in fed.into_iter().enumerate() {
        let Some(value) = value.filter(|_| !roles.feeds(input)) else {
            continue;
        };
        match model.bindings().iter().any(|b| b.input_index == input) {
            true => initial.push((inputs[input].name.clone(), value)),
            false => fixed.push((input, value)),
        }
    }
    let batch = Batch::of(&model, options, &roles, &fixed);
    let engine = engine(model, context, initial, session_options)?;
    let lane = Lane::new(engine, fixed, rows.len());
    // What is returned has the prompts as they came; a model that would take padding for tokens sees each without.
    let apart = roles.blind.is_some() && rows.iter().any(Row::is_padded);
    let seen = match apart {
        true => rows.iter().map(Row::without_padding).collect(),
        false => rows.clone(),
    };
    let mut decoder = Decoder::new(vec![lane], context.clone(), roles, batch, seen);
    if apart {
        let parted = decoder.part();
        parted.map_err(|error| decoder.roles.padding_error(error))?;
    }
    let mut control = Control::begin(control)?;
    if options.num_beams > 1 {
        let found = beam::search(&mut decoder, options, &mut control)?;
        let stopped = found.iter().find_map(|sequence| early(sequence.finish));
        return Ok(Generated {
            tokens: joined(&continued(&rows, &found, options))?,
            stopped: stopped.or(control.end()),
        });
    }
    let mut turn = Turn::new(&decoder, options, true)?;
    while turn.advance(&mut decoder, &mut control)? {}
    let made = turn.into_sequences();
    let stopped = made.iter().find_map(|sequence| early(sequence.finish));
    let tokens = match apart {
        true => joined(&continued(&rows, &made, options))?,
        false => joined(&decoder.rows)?,
    };
    Ok(Generated {
        tokens,
        stopped: stopped.or(control.end()),
    })
}

/// The reason, when it ends a call before its time.
fn early(reason: FinishReason) -> Option<FinishReason> {
    let stops = [FinishReason::Interrupted, FinishReason::Cancelled];
    stops.contains(&reason).then_some(reason)
}

/// Prompts with what was found behind them, filled to one length.
fn continued(rows: &[Row], found: &[GeneratedSequence], options: &GenerationOptions) -> Vec<Row> {
    let filler = options.padding().unwrap_or(0);
    let longest = found.iter().map(|sequence| sequence.tokens.len()).max();
    let continued = found.iter().filter_map(|sequence| {
        let mut row = rows.iter().find(|row| row.number == sequence.row)?.clone();
        sequence
            .tokens
            .iter()
            .for_each(|token| row.push(*token, true));
        for _ in sequence.tokens.len()..longest.unwrap_or(0) {
            row.push(filler, false);
        }
        Some(row)
    });
    continued.collect()
}

/// Several rows end at different places only where something can fill them.
fn check_padding(options: &GenerationOptions, rows: usize) -> Result<(), GenerationError> {
    let several = rows > 1 || options.num_return_sequences > 1;
    let ends = !options.stop_sequences.is_empty() || options.max_length.is_some();
    if several && ends && options.padding().is_none() {
        let expected = "a token that fills rows which end before others";
        return Err(GenerationError::option("pad_token_id", expected, "none"));
    }
    Ok(())
}

/// A fresh state for a model with bindings, a session for others.
fn engine(
    model: Model,
    context: &RuntimeContext,
    initial: Vec<(Arc<str>, RuntimeValue)>,
    options: RuntimeSessionOptions,
) -> Result<Engine, GenerationError> {
    if model.bindings().is_empty() {
        let session = RuntimeSession::with_context(model, options, context)?;
        return Ok(Engine::Session(Arc::new(session)));
    }
    let initial = initial.iter().map(|(name, value)| (&**name, value.clone()));
    let state = PersistentValueState::with_context(model, initial, options, context)?;
    if let Some((name, rows)) = state.prefix()? {
        return Err(GenerationError::NotEmpty {
            name: name.to_string(),
            got: format!("{rows} rows"),
        });
    }
    Ok(Engine::State(state))
}

/// All columns of all rows.
fn joined(rows: &[Row]) -> Result<Tensor, GenerationError> {
    let length = rows.first().map_or(0, |row| row.tokens.len());
    let allocator = refeed_values::Allocator::default();
    let mut tensor = TensorMut::new(&allocator, DType::Int64, &[rows.len(), length])?;
    let all = tensor.as_mut_slice::<i64>()?;
    for (to, row) in all.chunks_exact_mut(length.max(1)).zip(rows) {
        to.copy_from_slice(&row.tokens);
    }
    Ok(tensor.freeze())
}
