//! `Generator`: tokens and state that stay over turns.

use super::control::{Control, FinishReason};
use super::decoder::{Decoder, Moment};
use super::empty::empty_caches;
use super::engine::{Batch, Engine};
use super::error::GenerationError;
use super::lane::Lane;
use super::options::GenerationOptions;
use super::prompt::{Makes, Roles, check_distinct};
use super::row::Row;
use super::turn::{GeneratedSequence, GeneratedToken, Turn, feed};
use crate::context::RuntimeContext;
use crate::explain::Explanation;
use crate::interrupt::RunControl;
use crate::options::RuntimeSessionOptions;
use crate::session::RuntimeSession;
use crate::state::PersistentValueState;
use refeed_graph::Model;
use refeed_values::RuntimeValue;
use std::sync::Arc;

mod back;

/// What a [`Generator`] starts with.
#[derive(Debug, Clone, Default)]
pub struct GeneratorSettings {
    /// Options of its calls, and the names of the inputs.
    pub options: GenerationOptions,
    /// Initial values of bound inputs; those that are not given are made empty. Values that hold a prefix are continued.
    pub initial: Vec<(String, RuntimeValue)>,
    /// What else the model is fed, the same at every step.
    pub feeds: Vec<(String, RuntimeValue)>,
    /// What replaces `feeds` of the same names once the model has run: switches of merged decoders.
    pub later_feeds: Vec<(String, RuntimeValue)>,
    /// What the calls share.
    pub context: RuntimeContext,
    /// Settings of the session or state.
    pub session_options: RuntimeSessionOptions,
}

/// Tokens of a prompt that are evaluated at a time where no option says otherwise: enough for matrix products, few enough
/// that a call can be stopped soon and its intermediate values stay small.
const PIECE: usize = 512;

/// What needs rows that are evaluated one by one.
const UNEQUAL: &str = "a batch of prompts that are evaluated one by one";

/// Where a turn began, to go back to.
#[derive(Debug, Clone)]
struct Mark {
    /// Columns before the turn.
    columns: usize,
    /// What the model had seen; only for retained values that cannot be cut to fewer rows.
    seen: Option<Moment>,
}

/// A call that is going on.
#[derive(Debug)]
struct Current {
    turn: Turn,
    /// The decoder of a call that draws several sequences for a prompt: it goes its own way, and only the first sequence
    /// comes back.
    apart: Option<Decoder>,
}

/// Generates text in turns: append tokens, generate, append more, go back, fork.
///
/// It keeps the tokens of its rows and, for a model with bindings, the state that has seen them: each token is evaluated
/// once. A call that fails or is stopped leaves the tokens that it has generated, and the next call goes on from there.
///
/// ```no_run
/// use refeed_graph::{LoadOptions, Model};
/// use refeed_runtime::{GenerationOptions, Generator, GeneratorSettings};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Model::load("decoder.onnx", &LoadOptions::default())?;
/// let mut generator = Generator::new(model, GeneratorSettings::default())?;
/// let options = GenerationOptions { max_new_tokens: 100, ..GenerationOptions::default() };
/// generator.append(&[vec![1, 17, 42]])?;
/// let answer = generator.generate(&options)?;
/// println!("{:?}", answer[0].tokens);
/// generator.append(&[vec![99, 7]])?; // the next turn: only these two tokens are evaluated
/// generator.generate(&options)?;
/// generator.rewind(1)?; // as before the second turn
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Generator {
    session: Arc<RuntimeSession>,
    settings: GeneratorSettings,
    roles: Roles,
    /// Feeds by input position, of the first run and of later ones.
    fixed: Vec<(usize, RuntimeValue)>,
    later: Vec<(usize, RuntimeValue)>,
    batch: Batch,
    /// There from the first tokens on.
    decoder: Option<Decoder>,
    marks: Vec<Mark>,
    current: Option<Current>,
}

/// Refuses calls on rows that have all ended.
fn check_going(decoder: &Decoder) -> Result<(), GenerationError> {
    match decoder.rows.iter().all(|row| row.ended) {
        true => {
            let reason = "every row has ended: fork(row) makes a generator of one that goes on";
            Err(GenerationError::turn("generate", reason))
        }
        false => Ok(()),
    }
}

/// Feeds by input position.
fn placed(
    model: &Model,
    feeds: &[(String, RuntimeValue)],
) -> Result<Vec<(usize, RuntimeValue)>, GenerationError> {
    let placed = feeds.iter().map(|(name, value)| {
        let at = model.inputs().iter().position(|info| &*info.name == name);
        let at = at.ok_or_else(|| GenerationError::UnknownFeed(name.clone()))?;
        Ok((at, value.clone()))
    });
    placed.collect()
}

impl Generator {
    /// A generator without tokens. A model without bindings works too; it sees the whole prefix at every step.
    ///
    /// # Errors
    /// When the model cannot be compiled, has not the inputs and outputs that the options name, or a feed is unknown or one
    /// that the generator itself makes.
    pub fn new(model: Model, settings: GeneratorSettings) -> Result<Generator, GenerationError> {
        let options = &settings.options;
        options.check()?;
        check_distinct(&model, options)?;
        options.check_axes(&model)?;
        let mut fixed = placed(&model, &settings.feeds)?;
        let given = |input: usize| fixed.iter().any(|(fed, _)| *fed == input);
        let roles = Roles::find(&model, options, Makes::Integers, given)?;
        let mut later = fixed.clone();
        for (input, value) in placed(&model, &settings.later_feeds)? {
            match later.iter_mut().find(|(fed, _)| *fed == input) {
                Some((_, held)) => *held = value,
                None => later.push((input, value)),
            }
        }
        for (input, _) in fixed.iter().chain(&later) {
            if roles.feeds(*input) {
                let name = &model.inputs()[*input].name;
                let reason = format!("`{name}` is made by the generator itself, it cannot be fed");
                return Err(GenerationError::turn("feeds", reason));
            }
        }
        fixed.shrink_to_fit();
        let batch = Batch::of(&model, options, &roles, &later);
        let session = RuntimeSession::with_context(
            model,
            settings.session_options.clone(),
            &settings.context,
        )?;
        Ok(Generator {
            session: Arc::new(session),
            settings,
            roles,
            fixed,
            later,
            batch,
            decoder: None,
            marks: Vec::new(),
            current: None,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        self.session.model()
    }

    /// Options of calls that bring none.
    pub fn options(&self) -> &GenerationOptions {
        &self.settings.options
    }

    /// A decoder that has seen nothing but what its initial values hold, with these rows behind it: padded on the left, or
    /// evaluated one by one where the model would take padding for tokens, or is declared for one row.
    fn fresh(&self, rows: &[(usize, &[i64])]) -> Result<Decoder, GenerationError> {
        let count = rows.len();
        let longest = rows.iter().map(|(_, tokens)| tokens.len()).max();
        let longest = longest.unwrap_or(0);
        let unequal = rows.iter().any(|(_, tokens)| tokens.len() != longest);
        let padded = unequal && !self.roles.padding_shows(&self.batch);
        let single = count > 1 && self.batch.is_single();
        let apart = single || (unequal && !padded);
        // Values that the caller gives hold all rows, and are parted; those that are made are made for one row.
        let made_apart = apart && (single || self.settings.initial.is_empty());
        let (lanes, base) = match made_apart {
            true => self.single_lanes(count)?,
            false => {
                let (engine, base) = self.engine(count)?;
                let mut lane = Lane::new(engine, self.fixed.clone(), count);
                lane.begin_behind(base, self.later.clone());
                (vec![lane], base)
            }
        };
        let filler = self.settings.options.padding().unwrap_or(0);
        let rows = rows.iter().map(|(number, tokens)| {
            let mut row = Row::new(*number);
            let padding = if padded { longest - tokens.len() } else { 0 };
            row.begin(base, padding, filler, tokens);
            row
        });
        let mut decoder = Decoder::new(
            lanes,
            self.settings.context.clone(),
            self.roles.clone(),
            self.batch.clone(),
            rows.collect(),
        );
        if apart {
            decoder.part()?;
        }
        decoder.in_pieces(self.batch.columns().unwrap_or(PIECE));
        Ok(decoder)
    }

    /// A lane for each of `count` rows, and how many columns their initial values stand for.
    fn single_lanes(&self, count: usize) -> Result<(Vec<Lane>, usize), GenerationError> {
        let (mut lanes, mut base) = (Vec::new(), 0);
        for row in 0..count {
            let of_row = |feeds| {
                let feeds = self.batch.feeds_of_row(feeds, row, count);
                feeds.map_err(|reason| GenerationError::Rows {
                    wanted: UNEQUAL,
                    reason,
                })
            };
            let (engine, columns) = self.engine(1)?;
            let mut lane = Lane::new(engine, of_row(&self.fixed)?, 1);
            lane.begin_behind(columns, of_row(&self.later)?);
            lanes.push(lane);
            base = columns;
        }
        Ok((lanes, base))
    }

    /// What runs the model, and how many columns its initial values stand for.
    fn engine(&self, batch: usize) -> Result<(Engine, usize), GenerationError> {
        if self.model().bindings().is_empty() {
            if let Some((name, _)) = self.settings.initial.first() {
                return Err(GenerationError::State(
                    crate::error::StateError::NotRetained(name.clone()),
                ));
            }
            return Ok((Engine::Session(Arc::clone(&self.session)), 0));
        }
        let given = &self.settings.initial;
        let name = &self.settings.options.input_ids_name;
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        let all_given = self
            .model()
            .bindings()
            .iter()
            .all(|binding| is_given(&binding.input));
        let made = match all_given {
            true => Vec::new(),
            false => empty_caches(&self.session, batch, name)?,
        };
        let made = made.iter().filter(|(name, _)| !is_given(name));
        let made = made.map(|(name, value)| (&**name, value.clone()));
        let given = given
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        let state = PersistentValueState::of_session(&self.session, given.chain(made))?;
        let base = state
            .prefix()?
            .map_or(0, |(_, rows)| usize::try_from(rows).unwrap_or(0));
        Ok((Engine::State(state), base))
    }

    /// Adds tokens: the prompts of a batch at first, later the next turn of a single row. Nothing is evaluated yet.
    ///
    /// Prompts of unequal length are padded on the left where the model has a mask that tells so; where it has none, only
    /// counts it, or keeps values of a fixed shape, each row is evaluated by itself.
    ///
    /// # Errors
    /// When there is no token, one is negative, or rows cannot be added as they are.
    pub fn append(&mut self, rows: &[Vec<i64>]) -> Result<(), GenerationError> {
        const WHAT: &str = "append";
        for (number, row) in rows.iter().enumerate() {
            let name = format!("row {number}");
            if row.is_empty() {
                return Err(GenerationError::prompt(
                    &name,
                    "at least one token id",
                    "none",
                ));
            }
            let most = match self.roles.ids.dtype {
                refeed_values::DType::Int32 => i64::from(i32::MAX),
                _ => i64::MAX,
            };
            if let Some(id) = row.iter().find(|id| !(0..=most).contains(*id)) {
                let expected = format!("token ids from 0 to {most}");
                return Err(GenerationError::prompt(&name, expected, id));
            }
        }
        self.settle()?;
        let Some(first) = rows.first() else {
            return Err(GenerationError::turn(
                WHAT,
                "expected at least one row, got none",
            ));
        };
        if let Some(decoder) = &mut self.decoder {
            if rows.len() != 1 || decoder.count() != 1 {
                let reason = format!(
                    "expected one row on a generator of one row, got {} on {}: fork(row) makes a generator of one row",
                    rows.len(),
                    decoder.count()
                );
                return Err(GenerationError::turn(WHAT, reason));
            }
            let mark = Mark {
                columns: decoder.length(),
                seen: decoder.moment()?,
            };
            let Some(row) = decoder.rows.first_mut() else {
                return Err(GenerationError::turn(WHAT, "the row has ended"));
            };
            first.iter().for_each(|token| row.push(*token, true));
            decoder.grown();
            self.marks.push(mark);
            return Ok(());
        }
        let numbered: Vec<(usize, &[i64])> = rows.iter().map(Vec::as_slice).enumerate().collect();
        let decoder = self.fresh(&numbered)?;
        self.marks.push(Mark {
            columns: 0,
            seen: None,
        });
        self.decoder = Some(decoder);
        Ok(())
    }

    /// Moves what filled rows at their ends in front of them: behind it a model predicts nothing of theirs. The next call
    /// evaluates them again. Only rows that cannot be chosen are ever filled so; others wait apart.
    ///
    /// # Errors
    /// When it cannot, or there is no state for fresh rows.
    fn align(&mut self) -> Result<(), GenerationError> {
        let Some(decoder) = &self.decoder else {
            return Ok(());
        };
        if !decoder.rows.iter().any(Row::ends_in_padding) {
            return Ok(());
        }
        let tokens: Vec<Vec<i64>> = decoder.rows.iter().map(Row::visible_tokens).collect();
        let numbers = decoder.rows.iter().map(|row| row.number);
        let rows: Vec<(usize, &[i64])> = numbers.zip(tokens.iter().map(Vec::as_slice)).collect();
        let mut fresh = self.fresh(&rows)?;
        if let Some(decoder) = &mut self.decoder {
            for (row, before) in fresh.rows.iter_mut().zip(&decoder.rows) {
                row.stream = before.stream;
                row.ended = before.ended;
            }
            fresh.inherit_gone(decoder);
            *decoder = fresh;
        }
        Ok(())
    }

    /// Evaluates what was appended, so that the next call begins with a token at once.
    ///
    /// # Errors
    /// When there is nothing to evaluate, or the model cannot be run.
    pub fn prefill(&mut self, control: RunControl<'_>) -> Result<(), GenerationError> {
        self.settle()?;
        self.align()?;
        let chunk = self.settings.options.prefill_chunk;
        let control = Control::begin(control)?;
        let decoder = self.decoder_of("prefill")?;
        decoder.feed(chunk, control.of_run(), &|_| true)?;
        control.end();
        Ok(())
    }

    fn decoder_of(&mut self, what: &'static str) -> Result<&mut Decoder, GenerationError> {
        let none = || GenerationError::turn(what, "there are no tokens yet: append some first");
        self.decoder.as_mut().ok_or_else(none)
    }

    /// Begins a call; the names in `options` do not count, inputs are those that the generator was made with.
    /// [`Generator::advance`] makes its steps. A call that is going on ends where it is.
    ///
    /// # Errors
    /// When there are no tokens, or an option means nothing or does not fit.
    pub fn begin(&mut self, options: &GenerationOptions) -> Result<(), GenerationError> {
        const WHAT: &str = "generate";
        self.settle()?;
        if options.num_beams > 1 {
            let reason = "beams are no stream: their tokens are known at the end only";
            return Err(GenerationError::turn("stream", reason));
        }
        check_going(self.decoder_of(WHAT)?)?;
        self.align()?;
        let decoder = self.decoder_of(WHAT)?;
        let turn = Turn::new(decoder, options, false)?;
        self.current = Some(Current { turn, apart: None });
        Ok(())
    }

    /// Makes one step of the call that is going on; the tokens are those of the sequences that had not ended. None: it is
    /// over, or was stopped.
    ///
    /// # Errors
    /// When the model cannot be run, or its logits choose no token. The step may be tried again.
    pub fn advance(
        &mut self,
        control: RunControl<'_>,
    ) -> Result<&[GeneratedToken], GenerationError> {
        let mut control = Control::begin(control)?;
        let made = self.step(&mut control);
        control.end();
        made?;
        Ok(self.events())
    }

    fn events(&self) -> &[GeneratedToken] {
        self.current
            .as_ref()
            .map_or(&[], |current| current.turn.events())
    }

    fn step(&mut self, control: &mut Control<'_>) -> Result<bool, GenerationError> {
        let (Some(current), Some(decoder)) = (&mut self.current, &mut self.decoder) else {
            return Ok(false);
        };
        if current.turn.options.num_return_sequences > 1 && current.apart.is_none() {
            // The prompt is evaluated here, once; the sequences share it and go their own ways.
            if let Some(reason) = feed(decoder, &current.turn.options, control, &|_| true)? {
                current.turn.stop(reason);
                return Ok(false);
            }
            current.apart = Some(decoder.fork()?);
        }
        let decoder = current.apart.as_mut().unwrap_or(decoder);
        current.turn.advance(decoder, control)
    }

    /// Ends the call that is going on, and returns what it has generated.
    ///
    /// # Errors
    /// When no call is going on.
    pub fn finish(&mut self) -> Result<Vec<GeneratedSequence>, GenerationError> {
        let none = || GenerationError::turn("finish", "no call is going on");
        let current = self.current.take().ok_or_else(none)?;
        let apart = current.apart.is_some();
        let copies = current.turn.options.num_return_sequences;
        let sequences = current.turn.into_sequences();
        if apart {
            let first = sequences.iter().step_by(copies);
            self.adopt(first.map(|sequence| (sequence.row, &*sequence.tokens)));
        }
        Ok(sequences)
    }

    /// Adds tokens that were generated elsewhere to the rows. Where they are not equally many, rows go on one by one, or are
    /// filled where they cannot be chosen.
    fn adopt<'t>(&mut self, rows: impl Iterator<Item = (usize, &'t [i64])>) {
        let filler = self.settings.options.padding().unwrap_or(0);
        let Some(decoder) = &mut self.decoder else {
            return;
        };
        let rows: Vec<(usize, &[i64])> = rows.collect();
        let unequal = rows.windows(2).any(|two| two[0].1.len() != two[1].1.len());
        if unequal {
            // Where rows cannot be chosen, fillers do.
            decoder.part().ok();
        }
        for (number, tokens) in rows {
            if let Some(row) = decoder.rows.iter_mut().find(|row| row.number == number) {
                tokens.iter().for_each(|token| row.push(*token, true));
            }
        }
        let groups: Vec<_> = decoder.groups().collect();
        for group in groups {
            let rows = decoder.rows.get_mut(group).unwrap_or_default();
            let longest = rows.iter().map(|row| row.tokens.len()).max().unwrap_or(0);
            for row in rows {
                while row.tokens.len() < longest {
                    row.push(filler, false);
                }
            }
        }
        decoder.grown();
    }

    /// Ends a call that somebody left.
    fn settle(&mut self) -> Result<(), GenerationError> {
        match self.current {
            Some(_) => self.finish().map(drop),
            None => Ok(()),
        }
    }

    /// Generates until every sequence has ended.
    ///
    /// # Errors
    /// As [`Generator::begin`] and [`Generator::advance`]. Tokens of earlier steps stay.
    pub fn generate(
        &mut self,
        options: &GenerationOptions,
    ) -> Result<Vec<GeneratedSequence>, GenerationError> {
        self.generate_until(options, RunControl::default(), &mut |_| true)
    }

    /// As [`Generator::generate`], with what can stop it and a function that sees each token and stops it by `false`. A
    /// completion is taken for the whole call and succeeded by its end.
    ///
    /// # Errors
    /// As [`Generator::generate`], and when another call has or had the completion. One that is cancelled already is no
    /// error: nothing is generated, for that reason.
    pub fn generate_until(
        &mut self,
        options: &GenerationOptions,
        control: RunControl<'_>,
        each: &mut dyn FnMut(&GeneratedToken) -> bool,
    ) -> Result<Vec<GeneratedSequence>, GenerationError> {
        options.check()?;
        let mut control = match Control::begin(control) {
            Err(error) if error.is_cancelled() => return self.cancelled(options),
            begun => begun?,
        };
        if options.num_beams > 1 {
            return self.search(options, control);
        }
        self.begin(options)?;
        let run = self.run(&mut control, each);
        let sequences = self.finish();
        run?;
        control.end();
        sequences
    }

    /// What a call gives that was cancelled before it began.
    fn cancelled(
        &mut self,
        options: &GenerationOptions,
    ) -> Result<Vec<GeneratedSequence>, GenerationError> {
        let one = GenerationOptions {
            num_beams: 1,
            num_return_sequences: 1,
            ..options.clone()
        };
        self.begin(if options.num_beams > 1 { &one } else { options })?;
        if let Some(current) = &mut self.current {
            current.turn.stop(FinishReason::Cancelled);
        }
        let mut sequences = self.finish()?;
        for sequence in sequences.iter_mut().filter(|_| options.num_beams > 1) {
            sequence.score = Some(0.0);
        }
        Ok(sequences)
    }

    fn run(
        &mut self,
        control: &mut Control<'_>,
        each: &mut dyn FnMut(&GeneratedToken) -> bool,
    ) -> Result<(), GenerationError> {
        while self.step(control)? {
            let goes_on = self
                .events()
                .iter()
                .fold(true, |goes_on, token| goes_on & each(token));
            if let Some(current) = self.current.as_mut().filter(|_| !goes_on) {
                current.turn.stop(FinishReason::Stop);
            }
        }
        Ok(())
    }

    /// A beam search; the best sequence of each row comes back into the rows.
    fn search(
        &mut self,
        options: &GenerationOptions,
        mut control: Control<'_>,
    ) -> Result<Vec<GeneratedSequence>, GenerationError> {
        self.settle()?;
        check_going(self.decoder_of("generate")?)?;
        self.align()?;
        let decoder = self.decoder_of("generate")?;
        let sequences = super::beam::search(decoder, options, &mut control)?;
        // A row may have fewer continuations than were asked for.
        let first = |at: &usize| *at == 0 || sequences[*at - 1].row != sequences[*at].row;
        let best = (0..sequences.len()).filter(first);
        let best: Vec<(usize, Vec<i64>)> = best
            .map(|at| &sequences[at])
            .map(|sequence| (sequence.row, sequence.tokens.clone()))
            .collect();
        self.adopt(best.iter().map(|(row, tokens)| (*row, tokens.as_slice())));
        control.end();
        Ok(sequences)
    }

    /// The tokens of each row, without padding.
    pub fn tokens(&self) -> Vec<Vec<i64>> {
        let Some(decoder) = &self.decoder else {
            return Vec::new();
        };
        let mut rows: Vec<&Row> = decoder.all_rows().collect();
        rows.sort_by_key(|row| row.number);
        rows.into_iter().map(Row::visible_tokens).collect()
    }

    /// The number of tokens of the longest row, padding included.
    pub fn length(&self) -> usize {
        let decoder = self.decoder.as_ref();
        decoder.map_or(0, |decoder| decoder.length() - decoder.base())
    }

    /// The number of tokens before each [`Generator::append`].
    pub fn turns(&self) -> Vec<usize> {
        let base = self.decoder.as_ref().map_or(0, Decoder::base);
        self.marks
            .iter()
            .map(|mark| mark.columns.saturating_sub(base))
            .collect()
    }

    /// What the last step did for each binding, and why; `None` without bindings or before the first tokens.
    ///
    /// # Errors
    /// When the state is busy.
    pub fn explain(&self) -> Result<Option<Explanation>, GenerationError> {
        match self.decoder.as_ref().and_then(Decoder::engine) {
            Some(Engine::State(state)) => Ok(Some(state.explain()?)),
            _ => Ok(None),
        }
    }

    /// Bytes that tensors of the model's runs have in use, those of forks included.
    pub fn live_bytes(&self) -> usize {
        self.session.live_bytes()
    }

    /// The retained values by input name: shared views, not copies. Empty without bindings or before the first tokens.
    ///
    /// # Errors
    /// When the state is busy.
    pub fn values(&self) -> Result<Vec<(Arc<str>, RuntimeValue)>, GenerationError> {
        match self.decoder.as_ref().and_then(Decoder::engine) {
            Some(Engine::State(state)) => Ok(state.values()?),
            _ => Ok(Vec::new()),
        }
    }
}
