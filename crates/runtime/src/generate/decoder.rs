//! Rows of tokens, and a model that has seen a part of them.

use super::engine::{Batch, Engine};
use super::error::GenerationError;
use super::lane::{Lane, Step};
use super::logits::{LogitRow, Logits};
use super::prompt::Roles;
use super::row::Row;
use crate::context::RuntimeContext;
use crate::interrupt::{Interrupt, RunControl};
use crate::state::Checkpoint;
use refeed_values::RuntimeValue;
use std::sync::Arc;

/// Rows of one length, of which the model has seen the first `fed` columns.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) context: RuntimeContext,
    pub(super) roles: Roles,
    pub(super) batch: Batch,
    pub(super) rows: Vec<Row>,
    /// One for all rows, or one for each.
    lanes: Vec<Lane>,
    /// Rows that have ended and were let go.
    gone: Vec<Row>,
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
            lanes: vec![Lane::new(engine, fixed)],
            context,
            roles,
            batch,
            rows,
            gone: Vec::new(),
            vocabulary: None,
        }
    }

    /// Says that the first `base` columns are in the initial values, and what is fed after the first step.
    pub(super) fn begin_behind(&mut self, base: usize, later: &[(usize, RuntimeValue)]) {
        for lane in &mut self.lanes {
            lane.begin_behind(base, later.to_vec());
        }
    }

    /// What runs the model on the first row.
    pub(super) fn engine(&self) -> Option<&Engine> {
        self.lanes.first().map(|lane| &lane.engine)
    }

    /// Starts again with a fresh engine, whose initial values stand for the same columns.
    pub(super) fn replace_engine(&mut self, engine: Engine) {
        if let Some(lane) = self.lanes.first_mut() {
            lane.engine = engine;
        }
    }

    /// Columns that the initial values stand for.
    pub(super) fn base(&self) -> usize {
        self.lanes.first().map_or(0, Lane::base)
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
        self.lanes.first().map_or(0, Lane::fed)
    }

    /// A second decoder that goes its own way from here.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub(super) fn fork(&self) -> Result<Decoder, GenerationError> {
        let lanes = self.lanes.iter().map(Lane::fork);
        Ok(Decoder {
            lanes: lanes.collect::<Result<_, _>>()?,
            context: self.context.clone(),
            roles: self.roles.clone(),
            batch: self.batch.clone(),
            rows: self.rows.clone(),
            gone: self.gone.clone(),
            vocabulary: self.vocabulary,
        })
    }

    /// Feeds every column that the model has not seen; afterwards there are logits. Does nothing when there are already.
    ///
    /// # Errors
    /// When the model cannot be run or its logits are not what they must be. What was fed before stays fed.
    pub(super) fn feed(
        &mut self,
        chunk: Option<usize>,
        control: RunControl<'_>,
    ) -> Result<(), GenerationError> {
        let mut step = Step {
            context: &self.context,
            roles: &self.roles,
            end: self.rows.first().map_or(0, |row| row.tokens.len()),
            chunk,
            control,
            interrupt: Interrupt::new(control),
        };
        let rows = match self.lanes.len() {
            0 | 1 => self.rows.len(),
            _ => 1,
        };
        for (lane, rows) in self.lanes.iter_mut().zip(self.rows.chunks(rows.max(1))) {
            lane.feed(rows, &mut step)?;
            let found = lane.logits.as_ref().map(|logits| logits.vocabulary);
            let known = *self.vocabulary.get_or_insert(found.unwrap_or(0));
            if let Some(found) = found.filter(|found| *found != known) {
                lane.logits = None;
                return Err(GenerationError::Logits {
                    name: self.roles.logits_name.clone(),
                    expected: format!("a vocabulary of {known}, as at the step before"),
                    got: found.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The logits of a row's last column, once it is fed.
    pub(super) fn logits(&self, row: usize) -> Option<LogitRow<'_>> {
        let (lane, row) = match self.lanes.len() {
            1 => (0, row),
            _ => (row, 0),
        };
        let logits = self.lanes.get(lane)?.logits.as_ref()?;
        Some(logits.row(row))
    }

    /// The size of the vocabulary; 0 before the first logits.
    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary.unwrap_or(0)
    }

    /// Says that columns were added.
    pub(super) fn grown(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.logits = None);
    }

    /// Whether rows come from forks of one row, each of which runs alone: their pages are shared, or rows cannot be chosen.
    fn forks(&self) -> Result<bool, GenerationError> {
        match (&*self.lanes, self.rows.len()) {
            ([lane], 1) => Ok(self.batch.need("").is_err() || lane.engine.holds_pages()?),
            (lanes, _) => Ok(lanes.len() > 1),
        }
    }

    /// Tells whether rows can be repeated for something that needs it.
    ///
    /// # Errors
    /// When they cannot.
    pub(super) fn need_rows(&self, wanted: &'static str) -> Result<(), GenerationError> {
        match self.forks()? {
            true => Ok(()),
            false => self.batch.need(wanted).map(drop),
        }
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
        if self.forks()? {
            let lanes = chosen.iter().map(|row| self.lanes[*row].fork());
            self.lanes = lanes.collect::<Result<_, _>>()?;
        } else {
            let axes = self.batch.need(wanted)?;
            for lane in &mut self.lanes {
                lane.select(chosen, axes)?;
            }
        }
        self.rows = chosen.iter().map(|row| self.rows[*row].clone()).collect();
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

    /// Takes over rows that were let go from a decoder that this one replaces.
    pub(super) fn inherit_gone(&mut self, from: &mut Decoder) {
        self.gone = std::mem::take(&mut from.gone);
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
        let Some(lane) = self.lanes.first() else {
            return Ok(None);
        };
        match &lane.engine {
            Engine::State(state) if !state.can_truncate(lane.fed())? => Ok(Some(Moment {
                fed: lane.fed(),
                values: Arc::new(state.checkpoint()?),
                logits: lane.logits.clone(),
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
        if let Some(Engine::State(state)) = self.engine() {
            state.restore(&moment.values)?;
        }
        self.keep_columns(columns, moment.fed);
        if let Some(lane) = self.lanes.first_mut() {
            lane.logits = moment.logits.clone().filter(|_| moment.fed == columns);
        }
        Ok(())
    }

    /// Cuts the retained values to what the first `columns` columns left there. False: that cannot be told.
    ///
    /// # Errors
    /// When the state is busy.
    pub(super) fn cut_state(&mut self, columns: usize) -> Result<bool, GenerationError> {
        let Some(Engine::State(state)) = self.engine() else {
            return Ok(true);
        };
        if columns == self.fed() {
            return Ok(true);
        }
        let can = state.can_truncate(self.fed())?;
        if can {
            state.truncate(columns)?;
        }
        Ok(can)
    }

    /// Keeps the first `columns` columns, of which the model has seen `fed`.
    pub(super) fn keep_columns(&mut self, columns: usize, fed: usize) {
        self.rows.iter_mut().for_each(|row| row.truncate(columns));
        self.lanes
            .iter_mut()
            .for_each(|lane| lane.rows_changed(fed));
    }
}

/// What a model had seen at some moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) fed: usize,
    values: Arc<Checkpoint>,
    logits: Option<Logits>,
}
