//! Rows of tokens, and a model that has seen a part of them.

use super::engine::{Batch, Engine};
use super::error::GenerationError;
use super::feeds::StepFeeds;
use super::logits::Logits;
use super::prompt::Roles;
use super::row::Row;
use crate::context::RuntimeContext;
use crate::interrupt::RunControl;
use crate::state::Checkpoint;
use refeed_values::RuntimeValue;
use std::sync::Arc;

/// Rows of one length, of which the model has seen the first `fed` columns.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) engine: Engine,
    pub(super) context: RuntimeContext,
    pub(super) roles: Roles,
    pub(super) batch: Batch,
    pub(super) rows: Vec<Row>,
    feeds: StepFeeds,
    /// Rows that have ended and were let go.
    gone: Vec<Row>,
    /// Columns that the initial values stand for.
    base: usize,
    /// Columns that the retained values stand for; 0 without bindings.
    fed: usize,
    /// Logits of the last column, once it is fed.
    logits: Option<Logits>,
    /// The size of the vocabulary, once it is known.
    vocabulary: Option<usize>,
}

impl Decoder {
    pub(super) fn new(
        engine: Engine,
        context: RuntimeContext,
        roles: Roles,
        batch: Batch,
        fixed: Vec<(usize, RuntimeValue)>,
        rows: Vec<Row>,
    ) -> Decoder {
        Decoder {
            engine,
            context,
            roles,
            batch,
            rows,
            feeds: StepFeeds::new(fixed),
            gone: Vec::new(),
            base: 0,
            fed: 0,
            logits: None,
            vocabulary: None,
        }
    }

    /// Says that the first `base` columns are in the initial values, and what is fed after the first step.
    pub(super) fn begin_behind(&mut self, base: usize, later: Vec<(usize, RuntimeValue)>) {
        self.base = base;
        self.fed = base;
        self.feeds.change_later(later);
    }

    /// Columns that the initial values stand for.
    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// The number of rows, ended ones included.
    pub(super) fn count(&self) -> usize {
        self.rows.len() + self.gone.len()
    }

    /// All rows, in no order.
    pub(super) fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(&self.gone)
    }

    /// The number of columns.
    pub(super) fn length(&self) -> usize {
        let columns = self.all_rows().map(|row| row.tokens.len());
        columns.max().unwrap_or(0)
    }

    /// Columns that the model has seen.
    pub(super) fn fed(&self) -> usize {
        self.fed
    }

    /// A second decoder that goes its own way from here.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub(super) fn fork(&self) -> Result<Decoder, GenerationError> {
        Ok(Decoder {
            engine: self.engine.fork()?,
            context: self.context.clone(),
            roles: self.roles.clone(),
            batch: self.batch.clone(),
            rows: self.rows.clone(),
            feeds: self.feeds.fork(),
            gone: self.gone.clone(),
            base: self.base,
            fed: self.fed,
            logits: self.logits.clone(),
            vocabulary: self.vocabulary,
        })
    }

    /// Feeds columns up to `end`, at most `chunk` at a time where a state consumes them. The logits of the last column are
    /// there afterwards.
    ///
    /// # Errors
    /// When the model cannot be run or its logits are not what they must be. Columns of earlier pieces stay fed.
    fn feed_to(
        &mut self,
        end: usize,
        chunk: Option<usize>,
        control: RunControl<'_>,
    ) -> Result<(), GenerationError> {
        let whole = matches!(self.engine, Engine::Session(_));
        loop {
            let start = if whole { 0 } else { self.fed };
            let stop = match chunk {
                Some(chunk) if !whole => end.min(start.saturating_add(chunk)),
                _ => end,
            };
            let feeds = {
                let first = whole || self.fed == self.base;
                self.feeds
                    .of_step(&self.roles, &self.rows, start..stop, first)?
            };
            let outputs = self.engine.run(&self.context, feeds, control)?;
            if !whole {
                self.fed = stop;
                self.logits = None;
            }
            if stop == end {
                let value = outputs.values().get(self.roles.logits);
                let logits = Logits::read(&self.roles.logits_name, value, self.rows.len())?;
                if let Some(known) = self.vocabulary.filter(|known| *known != logits.vocabulary) {
                    return Err(GenerationError::Logits {
                        name: self.roles.logits_name.clone(),
                        expected: format!("a vocabulary of {known}, as at the step before"),
                        got: logits.vocabulary.to_string(),
                    });
                }
                self.vocabulary = Some(logits.vocabulary);
                self.logits = Some(logits);
                return Ok(());
            }
        }
    }

    /// Feeds every column that the model has not seen; afterwards there are logits. Does nothing when there are already.
    ///
    /// # Errors
    /// As [`Decoder::feed_to`].
    pub(super) fn feed(
        &mut self,
        chunk: Option<usize>,
        control: RunControl<'_>,
    ) -> Result<(), GenerationError> {
        match &self.logits {
            Some(_) => Ok(()),
            None => self.feed_to(self.length(), chunk, control),
        }
    }

    /// Logits of the last column, once it is fed.
    pub(super) fn logits(&self) -> Option<&Logits> {
        self.logits.as_ref()
    }

    /// Says that columns were added.
    pub(super) fn grown(&mut self) {
        self.logits = None;
    }

    /// Makes the rows those of `chosen`: reordered, repeated, fewer or more. Logits, where there are any, follow.
    ///
    /// # Errors
    /// When rows of the retained values cannot be chosen; nothing has changed then.
    pub(super) fn reorder(
        &mut self,
        chosen: &[usize],
        wanted: &'static str,
    ) -> Result<(), GenerationError> {
        if chosen.iter().copied().eq(0..self.rows.len()) {
            return Ok(());
        }
        let axes = self.batch.need(wanted)?;
        let logits = match &self.logits {
            Some(logits) => Some(logits.select(chosen)?),
            None => None,
        };
        if let Engine::State(state) = &self.engine {
            state.select(chosen, axes)?;
        }
        self.logits = logits;
        self.rows = chosen.iter().map(|row| self.rows[*row].clone()).collect();
        self.feeds.forget();
        Ok(())
    }

    /// Lets all rows go but those of `kept`.
    ///
    /// # Errors
    /// As [`Decoder::reorder`].
    pub(super) fn keep_rows(&mut self, kept: &[usize]) -> Result<(), GenerationError> {
        let all = 0..self.rows.len();
        let ended = all.filter(|row| !kept.contains(row));
        let ended: Vec<Row> = ended.map(|row| self.rows[row].clone()).collect();
        self.reorder(kept, "drop_finished")?;
        self.gone.extend(ended);
        Ok(())
    }

    /// Forgets rows that were let go.
    pub(super) fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// The moment to go back to, for retained values that cannot be cut: what the model has seen, and what it held and
    /// predicted then.
    ///
    /// # Errors
    /// When the state is busy.
    pub(super) fn moment(&self) -> Result<Option<Moment>, GenerationError> {
        match &self.engine {
            Engine::State(state) if !state.can_truncate(self.fed)? => Ok(Some(Moment {
                fed: self.fed,
                values: Arc::new(state.checkpoint()?),
                logits: self.logits.clone(),
            })),
            _ => Ok(None),
        }
    }

    /// Goes back to a moment, with `columns` columns.
    ///
    /// # Errors
    /// When the state is busy.
    pub(super) fn return_to(
        &mut self,
        columns: usize,
        moment: &Moment,
    ) -> Result<(), GenerationError> {
        if let Engine::State(state) = &self.engine {
            state.restore(&moment.values)?;
        }
        self.keep_columns(columns, moment.fed);
        self.logits = moment.logits.clone().filter(|_| moment.fed == columns);
        Ok(())
    }

    /// Cuts the retained values to what the first `columns` columns left there. False: that cannot be told.
    ///
    /// # Errors
    /// When the state is busy.
    pub(super) fn cut_state(&mut self, columns: usize) -> Result<bool, GenerationError> {
        let Engine::State(state) = &self.engine else {
            return Ok(true);
        };
        if columns == self.fed {
            return Ok(true);
        }
        let can = state.can_truncate(self.fed)?;
        if can {
            state.truncate(columns)?;
        }
        Ok(can)
    }

    /// Keeps the first `columns` columns, of which the model has seen `fed`.
    pub(super) fn keep_columns(&mut self, columns: usize, fed: usize) {
        self.rows.iter_mut().for_each(|row| row.truncate(columns));
        self.fed = fed;
        self.logits = None;
        self.feeds.forget();
    }
}

/// What a model had seen at some moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) fed: usize,
    values: Arc<Checkpoint>,
    logits: Option<Logits>,
}
