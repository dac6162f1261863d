//! One call of a generation: steps until every sequence has ended.

use super::control::{Control, FinishReason, wish};
use super::decoder::Decoder;
use super::error::GenerationError;
use super::exponential::exp;
use super::filters::{Filters, History};
use super::logits::{LogitRow, Useless, argmax, largest};
use super::options::GenerationOptions;
use super::random::{fresh_seed, uniform};
use super::sample::{Restrictions, Sampler};
use crate::error::StateError;

/// A token that was generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratedToken {
    /// Which sequence it belongs to, in the order of the results.
    pub sequence: usize,
    /// The token.
    pub token: i64,
    /// Its log-probability, when it was asked for.
    pub log_probability: Option<f64>,
    /// Why the sequence ends with it, when it does.
    pub finish: Option<FinishReason>,
}

/// A sequence that was generated, without its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedSequence {
    /// The row of the prompts that it continues.
    pub row: usize,
    /// The new tokens; one that ended the sequence is among them.
    pub tokens: Vec<i64>,
    /// The log-probability of each token; empty unless it was asked for.
    pub log_probabilities: Vec<f64>,
    /// What the sequence was ranked by; beams only.
    pub score: Option<f64>,
    /// Why it ended.
    pub finish: FinishReason,
}

/// A sequence while it grows.
#[derive(Debug)]
struct Growing {
    row: usize,
    /// Which stream of random numbers it draws from.
    stream: u64,
    tokens: Vec<i64>,
    log_probabilities: Vec<f64>,
    history: History,
    finish: Option<FinishReason>,
}

/// Memory for the choice of one token, used again.
#[derive(Debug, Default)]
struct Scratch {
    wide: Vec<f64>,
    sampler: Sampler,
    /// The rows that a step has fed.
    fed: Vec<usize>,
}

/// A call that is going on.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) options: GenerationOptions,
    filters: Filters,
    how: Restrictions,
    seed: u64,
    sequences: Vec<Growing>,
    /// The sequence of each row of the decoder.
    slots: Vec<usize>,
    /// Whether the first logits were seen.
    begun: bool,
    /// Whether rows go when they have ended.
    drops: bool,
    /// Whether rows that go do not come back in later calls: those of a batch, each with one sequence.
    lasting: bool,
    /// Whether rows that have ended wait apart, so that nothing fills them until a later call goes on with them.
    parks: bool,
    events: Vec<GeneratedToken>,
    scratch: Scratch,
}

impl Turn {
    /// Begins a call on all rows of a decoder. With `keeps`, ended rows stay to the end.
    ///
    /// # Errors
    /// When an option means nothing or does not fit the rows.
    pub(super) fn new(
        decoder: &Decoder,
        options: &GenerationOptions,
        keeps: bool,
    ) -> Result<Turn, GenerationError> {
        options.check()?;
        options.check_length(decoder)?;
        options.check_count(decoder.rows.len())?;
        decoder.roles.check_padding(&decoder.rows)?;
        let filters = Filters::of(options);
        let mut sequences = Vec::new();
        let mut order: Vec<usize> = (0..decoder.rows.len()).collect();
        order.sort_by_key(|row| decoder.rows[*row].number);
        for row in order.iter().map(|row| &decoder.rows[*row]) {
            let history = filters.history(&row.visible_tokens());
            for copy in 0..options.num_return_sequences {
                let index = row.stream * options.num_return_sequences + copy;
                sequences.push(Growing {
                    row: row.number,
                    stream: options.first_row.wrapping_add(index as u64),
                    tokens: Vec::new(),
                    log_probabilities: Vec::new(),
                    history: history.clone(),
                    finish: (options.max_new_tokens == 0).then_some(FinishReason::Length),
                });
            }
        }
        if options.num_return_sequences > 1 {
            decoder.need_rows("num_return_sequences")?;
        }
        let may_drop = decoder.need_rows("drop_finished").is_ok();
        let drops = !keeps && options.drop_finished && may_drop;
        let lasting = options.num_return_sequences == 1 && decoder.count() > 1;
        Ok(Turn {
            how: Restrictions::of(options),
            seed: options.seed.unwrap_or_else(fresh_seed),
            filters,
            slots: Vec::new(),
            begun: false,
            drops,
            lasting,
            parks: !keeps && !drops && may_drop && lasting,
            sequences,
            events: Vec::new(),
            scratch: Scratch::default(),
            options: options.clone(),
        })
    }

    /// Whether every sequence has ended.
    pub(super) fn is_done(&self) -> bool {
        self.sequences
            .iter()
            .all(|sequence| sequence.finish.is_some())
    }

    /// What the last step has generated.
    pub(super) fn events(&self) -> &[GeneratedToken] {
        &self.events
    }

    /// Ends every sequence that has not ended.
    pub(super) fn stop(&mut self, reason: FinishReason) {
        for sequence in &mut self.sequences {
            sequence.finish.get_or_insert(reason);
        }
    }

    /// What was generated.
    pub(super) fn into_sequences(self) -> Vec<GeneratedSequence> {
        let finished = |sequence: Growing| GeneratedSequence {
            row: sequence.row,
            tokens: sequence.tokens,
            log_probabilities: sequence.log_probabilities,
            score: None,
            finish: sequence.finish.unwrap_or(FinishReason::Stop),
        };
        self.sequences.into_iter().map(finished).collect()
    }

    /// One step: a token for every sequence that has not ended. False when there was nothing to do or it was stopped.
    ///
    /// # Errors
    /// When the model cannot be run, or no token can be chosen. No token was added then.
    pub(super) fn advance(
        &mut self,
        decoder: &mut Decoder,
        control: &mut Control<'_>,
    ) -> Result<bool, GenerationError> {
        self.events.clear();
        if self.is_done() {
            return Ok(false);
        }
        if let Some(reason) = control.look() {
            self.stop(reason);
            return Ok(false);
        }
        let goes_on = |row: usize| match self.slots.get(row) {
            Some(slot) => self.sequences[*slot].finish.is_none(),
            None => true,
        };
        if let Some(reason) = feed(decoder, &self.options, control, &goes_on)? {
            self.stop(reason);
            return Ok(false);
        }
        if !self.begun {
            self.begin(decoder)?;
        }
        self.choose(decoder)?;
        self.add(decoder)?;
        Ok(true)
    }

    /// What the first logits tell: the vocabulary. One row becomes as many as sequences are wanted.
    fn begin(&mut self, decoder: &mut Decoder) -> Result<(), GenerationError> {
        check_vocabulary(decoder, &self.options)?;
        let copies = self.options.num_return_sequences;
        if copies > 1 {
            let rows = 0..decoder.rows.len();
            let chosen: Vec<usize> = rows
                .flat_map(|row| std::iter::repeat_n(row, copies))
                .collect();
            decoder.reorder(&chosen, "num_return_sequences")?;
        }
        // Sequences are counted by the numbers of their rows, wherever those stand.
        let mut order: Vec<usize> = (0..decoder.rows.len()).collect();
        order.sort_by_key(|row| decoder.rows[*row].number);
        self.slots = vec![0; order.len()];
        for (sequence, row) in order.into_iter().enumerate() {
            self.slots[row] = sequence;
        }
        self.begun = true;
        Ok(())
    }

    /// Chooses a token for every sequence that has not ended.
    fn choose(&mut self, decoder: &Decoder) -> Result<(), GenerationError> {
        for (slot, row) in decoder.rows.iter().enumerate() {
            let sequence = &self.sequences[self.slots[slot]];
            if sequence.finish.is_some() {
                continue;
            }
            let Some(logits) = decoder.logits(slot) else {
                return Err(GenerationError::turn("generate", "there are no logits"));
            };
            let place = row.visible as u64;
            let chosen = Choice {
                filters: &self.filters,
                how: &self.how,
                greedy: self.options.temperature == 0.0,
                tells: self.options.log_probabilities,
                generated: sequence.tokens.len(),
                history: &sequence.history,
                seen: &row.seen(),
                random: || uniform(self.seed, sequence.stream, place),
            }
            .make(logits, &mut self.scratch);
            let (token, log_probability) = chosen.map_err(|reason| {
                self.events.clear();
                GenerationError::Row {
                    name: decoder.roles.logits_name.clone(),
                    row: slot,
                    reason: reason.to_string(),
                }
            })?;
            self.events.push(GeneratedToken {
                sequence: self.slots[slot],
                token: token as i64,
                log_probability,
                finish: None,
            });
        }
        Ok(())
    }

    /// Adds what was chosen, says which sequences end with it, and lets their rows go.
    fn add(&mut self, decoder: &mut Decoder) -> Result<(), GenerationError> {
        let filler = self.options.padding().unwrap_or(0);
        let mut events = self.events.iter_mut();
        let mut ended = Vec::new();
        // Rows are filled while others of their lane go on.
        let goes_on = |slot: &usize| self.sequences[*slot].finish.is_none();
        let groups = decoder.groups().map(|group| {
            let slots = self.slots.get(group.clone()).unwrap_or_default();
            (group, slots.iter().any(goes_on))
        });
        let mut fed = std::mem::take(&mut self.scratch.fed);
        fed.clear();
        fed.extend(groups.filter(|(_, on)| *on).flat_map(|(group, _)| group));
        for at in fed.iter().copied() {
            let (row, slot) = (&mut decoder.rows[at], self.slots[at]);
            let sequence = &mut self.sequences[slot];
            if sequence.finish.is_some() {
                row.push(filler, false);
                continue;
            }
            let Some(event) = events.next() else { break };
            row.push(event.token, true);
            sequence.tokens.push(event.token);
            sequence.log_probabilities.extend(event.log_probability);
            self.filters.note(&mut sequence.history, event.token);
            event.finish = ending(&self.options, &sequence.tokens, event.token, row.visible);
            sequence.finish = event.finish;
            if event.finish.is_some() {
                ended.push(at);
            }
            // Whatever the other rows do: what ends a row of a batch for good is a token or the row's length, not the
            // call's.
            let full = self
                .options
                .max_length
                .is_some_and(|most| row.visible >= most);
            let for_good = full || !matches!(event.finish, None | Some(FinishReason::Length));
            row.ended = for_good && self.drops && self.lasting;
        }
        self.scratch.fed = fed;
        decoder.grown();
        if self.parks && !ended.is_empty() && !self.is_done() {
            match decoder.park(&ended) {
                Err(GenerationError::State(StateError::Select { .. })) => self.parks = false,
                order => self.slots = order?.into_iter().map(|row| self.slots[row]).collect(),
            }
        }
        if !ended.is_empty() && self.drops && (self.lasting || !self.is_done()) {
            let goes_on = |row: &usize| match self.lasting {
                true => !decoder.rows[*row].ended,
                false => self.sequences[self.slots[*row]].finish.is_none(),
            };
            let rows: Vec<usize> = (0..self.slots.len()).filter(goes_on).collect();
            if rows.is_empty() {
                return Ok(());
            }
            match decoder.keep_rows(&rows) {
                // Rows of some values cannot be chosen; they stay, as they do where declarations tell it.
                Err(GenerationError::State(StateError::Select { .. })) => {
                    self.drops = false;
                    decoder.rows.iter_mut().for_each(|row| row.ended = false);
                    return Ok(());
                }
                kept => kept?,
            }
            self.slots = rows.into_iter().map(|row| self.slots[row]).collect();
        }
        Ok(())
    }
}

/// Refuses tokens that the vocabulary does not have.
///
/// # Errors
/// When a token that an option names is none of it.
pub(super) fn check_vocabulary(
    decoder: &Decoder,
    options: &GenerationOptions,
) -> Result<(), GenerationError> {
    let vocabulary = decoder.vocabulary();
    let biased = options.logit_bias.iter().map(|(id, _)| id);
    let stops = options.stop_token_ids.iter();
    let all = [
        ("eos_token_id", options.eos_token_id.as_slice()),
        ("pad_token_id", options.pad_token_id.as_slice()),
    ];
    let all = all
        .into_iter()
        .flat_map(|(option, ids)| ids.iter().map(move |id| (option, id)));
    let all = all
        .chain(biased.map(|id| ("logit_bias", id)))
        .chain(
            options
                .bad_words
                .iter()
                .flatten()
                .map(|id| ("bad_words", id)),
        )
        .chain(stops.map(|id| ("stop_token_ids", id)))
        .chain(
            options
                .stop_sequences
                .iter()
                .flatten()
                .map(|id| ("stop_sequences", id)),
        );
    for (option, id) in all {
        if usize::try_from(*id).is_ok_and(|id| id >= vocabulary) {
            let expected = format!("a token of the vocabulary, below {vocabulary}");
            return Err(GenerationError::option(option, expected, id));
        }
    }
    Ok(())
}

/// Feeds what the model has not seen of rows that are `wanted`; the reason when that was stopped.
///
/// # Errors
/// When the model cannot be run.
pub(super) fn feed(
    decoder: &mut Decoder,
    options: &GenerationOptions,
    control: &Control<'_>,
    wanted: &dyn Fn(usize) -> bool,
) -> Result<Option<FinishReason>, GenerationError> {
    match decoder.feed(options.prefill_chunk, control.of_run(), wanted) {
        Ok(()) => Ok(None),
        Err(GenerationError::State(error)) => match wish(&error) {
            Some(reason) => Ok(Some(reason)),
            None => Err(error.into()),
        },
        Err(GenerationError::Stopped(reason)) => Ok(Some(reason)),
        Err(error) => Err(error),
    }
}

/// Why a sequence ends with a token, when it does.
pub(super) fn ending(
    options: &GenerationOptions,
    tokens: &[i64],
    token: i64,
    visible: usize,
) -> Option<FinishReason> {
    let long = || {
        let limit = options.max_length.is_some_and(|most| visible >= most);
        limit || tokens.len() >= options.max_new_tokens
    };
    if options.eos_token_id == Some(token) {
        Some(FinishReason::Eos)
    } else if options.stop_token_ids.contains(&token)
        || options
            .stop_sequences
            .iter()
            .any(|stop| tokens.ends_with(stop))
    {
        Some(FinishReason::Stop)
    } else {
        long().then_some(FinishReason::Length)
    }
}

/// What the choice of one token depends on.
struct Choice<'a, R: Fn() -> f64> {
    filters: &'a Filters,
    how: &'a Restrictions,
    greedy: bool,
    /// Whether the log-probability is told.
    tells: bool,
    generated: usize,
    history: &'a History,
    seen: &'a [i64],
    random: R,
}

impl<R: Fn() -> f64> Choice<'_, R> {
    fn make(
        &self,
        row: LogitRow<'_>,
        scratch: &mut Scratch,
    ) -> Result<(usize, Option<f64>), Useless> {
        let plain = self.filters.change_nothing(self.generated);
        if plain && self.greedy && !self.tells {
            return Ok((row.argmax()?, None));
        }
        let wide = &mut scratch.wide;
        let mut most = row.widen(wide)?;
        let whole = self.tells.then(|| log_sum(wide, most));
        if !plain {
            self.filters
                .apply(wide, self.seen, self.generated, self.history);
            most = largest(wide)?;
        }
        let token = match self.greedy {
            true => argmax(wide)?,
            false => scratch.sampler.draw(wide, most, self.how, (self.random)()),
        };
        let log_probability = whole.map(|whole| row.get(token) - whole);
        Ok((token, log_probability))
    }
}

/// The logarithm of the sum of the exponentials of numbers, of which `most` is the largest.
pub(super) fn log_sum(numbers: &[f64], most: f64) -> f64 {
    most + numbers.iter().map(|x| exp(x - most)).sum::<f64>().ln()
}
