//! One run of the model a step: a state or a session, and what it has seen and said.

use super::control::FinishReason;
use super::engine::{Batch, Engine};
use super::error::GenerationError;
use super::feeds::StepFeeds;
use super::logits::Logits;
use super::prompt::Roles;
use super::row::Row;
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::interrupt::{Interrupt, RunControl};
use crate::kernel::OpError;
use refeed_values::RuntimeValue;

/// What all lanes of a decoder share.
pub(super) struct Step<'a> {
    pub(super) context: &'a RuntimeContext,
    pub(super) roles: &'a Roles,
    /// Most columns at a time.
    pub(super) chunk: Option<usize>,
    pub(super) control: RunControl<'a>,
    /// The clock between runs, each of which may be too short to look itself.
    pub(super) interrupt: Interrupt,
}

/// What runs the model on some rows.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) engine: Engine,
    feeds: StepFeeds,
    /// Columns that the initial values stand for.
    base: usize,
    /// Columns that the retained values stand for; 0 without bindings.
    fed: usize,
    /// How many of the decoder's rows it runs; those of one lane are equally long.
    pub(super) count: usize,
    /// Logits of the last column, once it is fed.
    pub(super) logits: Option<Logits>,
}

impl Lane {
    pub(super) fn new(engine: Engine, fixed: Vec<(usize, RuntimeValue)>, count: usize) -> Lane {
        Lane {
            engine,
            feeds: StepFeeds::new(fixed),
            base: 0,
            fed: 0,
            count,
            logits: None,
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

    /// Columns that the model has seen.
    pub(super) fn fed(&self) -> usize {
        self.fed
    }

    /// A second lane that goes its own way from here.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub(super) fn fork(&self) -> Result<Lane, StateError> {
        Ok(Lane {
            engine: self.engine.fork()?,
            feeds: self.feeds.fork(),
            base: self.base,
            fed: self.fed,
            count: self.count,
            logits: self.logits.clone(),
        })
    }

    /// A lane that runs one of the rows alone, from here on. The row's part of the retained values is copied.
    ///
    /// # Errors
    /// When rows of the retained values cannot be chosen, or nothing tells what of the feeds belongs to the row.
    pub(super) fn single(&self, row: usize, batch: &Batch) -> Result<Lane, GenerationError> {
        if self.count == 1 {
            return Ok(self.fork()?);
        }
        const WANTED: &str = "rows that are evaluated one by one";
        let refuse = |reason| GenerationError::Rows {
            wanted: WANTED,
            reason,
        };
        let feeds = self.feeds.of_row(batch, row, self.count).map_err(refuse)?;
        let engine = self.engine.fork()?;
        if let Engine::State(state) = &engine {
            state.select(&[row], batch.axes().map_err(refuse)?)?;
        }
        Ok(Lane {
            engine,
            feeds,
            base: self.base,
            fed: self.fed,
            count: 1,
            logits: match &self.logits {
                Some(logits) => Some(logits.select(&[row])?),
                None => None,
            },
        })
    }

    /// Forgets the logits of a column that is no longer the last one of `length`.
    pub(super) fn grown(&mut self, length: usize) {
        if self.fed != length {
            self.logits = None;
        }
    }

    /// Forgets what is known of rows that have changed. The model has seen `fed` of their columns.
    pub(super) fn rows_changed(&mut self, fed: usize) {
        self.fed = fed;
        self.logits = None;
        self.feeds.forget();
    }

    /// Feeds every column of `rows` that the model has not seen; afterwards there are logits. Does nothing when there are
    /// already.
    ///
    /// # Errors
    /// When the model cannot be run or its logits are not what they must be. Columns of earlier pieces stay fed.
    pub(super) fn feed(
        &mut self,
        rows: &[Row],
        step: &mut Step<'_>,
    ) -> Result<(), GenerationError> {
        if self.logits.is_some() {
            return Ok(());
        }
        let whole = matches!(self.engine, Engine::Session(_));
        let end = rows.first().map_or(0, |row| row.tokens.len());
        if self.fed >= end {
            // The step was made, but its logits were none.
            let reason = "the last step gave no logits: append a token, or go back";
            return Err(GenerationError::turn("generate", reason));
        }
        loop {
            if let Err(ended) = step.interrupt.check() {
                let reason = match ended {
                    OpError::Cancelled => FinishReason::Cancelled,
                    _ => FinishReason::Interrupted,
                };
                return Err(GenerationError::Stopped(reason));
            }
            let stop = match step.chunk {
                Some(chunk) if !whole => end.min(self.fed.saturating_add(chunk)),
                _ => end,
            };
            let first = whole || self.fed == self.base;
            let feeds = self
                .feeds
                .of_step(step.roles, rows, self.fed..stop, first)?;
            let outputs = self.engine.run(step.context, feeds, step.control)?;
            if !whole {
                self.fed = stop;
            }
            if stop == end {
                let value = outputs.values().get(step.roles.logits);
                self.logits = Some(Logits::read(&step.roles.logits_name, value, rows.len())?);
                return Ok(());
            }
        }
    }

    /// Makes the rows of the batch those of `chosen`.
    ///
    /// # Errors
    /// When rows of the retained values cannot be chosen; nothing has changed then.
    pub(super) fn select(
        &mut self,
        chosen: &[usize],
        axes: &crate::state::BatchAxes,
    ) -> Result<(), GenerationError> {
        let logits = match &self.logits {
            Some(logits) => Some(logits.select(chosen)?),
            None => None,
        };
        if let Engine::State(state) = &self.engine {
            state.select(chosen, axes)?;
        }
        self.logits = logits;
        self.count = chosen.len();
        self.feeds.forget();
        Ok(())
    }
}
