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
use std::ops::Range;
use std::sync::Arc;

/// Rows, and the lanes that run the model on them. The rows of one lane are equally long.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) context: RuntimeContext,
    pub(super) roles: Roles,
    pub(super) batch: Batch,
    pub(super) rows: Vec<Row>,
    /// One for all rows, one for each, or one for some and one for each of the others. Their rows follow one another.
    lanes: Vec<Lane>,
    /// Rows that have ended and were let go.
    gone: Vec<Row>,
    /// The size of the vocabulary, once it is known.
    vocabulary: Option<usize>,
    /// Most columns at a time where a call says nothing; all where nobody does.
    piece: Option<usize>,
}

impl Decoder {
    /// A decoder whose `lanes` run `rows`, in this order.
    pub(super) fn new(
        lanes: Vec<Lane>,
        context: RuntimeContext,
        roles: Roles,
        batch: Batch,
        rows: Vec<Row>,
    ) -> Decoder {
        Decoder {
            lanes,
            context,
            roles,
            batch,
            rows,
            gone: Vec::new(),
            vocabulary: None,
            piece: None,
        }
    }

    /// Says how many columns are evaluated at a time where a call says nothing.
    pub(super) fn in_pieces(&mut self, columns: usize) {
        self.piece = Some(columns);
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
            piece: self.piece,
        })
    }

    /// The range of the rows of each lane.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<'_> {
        self.lanes.iter().scan(0, |start, lane| {
            let group = *start..*start + lane.count;
            *start = group.end;
            Some(group)
        })
    }

    /// The lane of a row, and which of the lane's rows it is.
    fn place(&self, row: usize) -> Option<(&Lane, usize)> {
        if self.lanes.len() == self.rows.len() {
            return Some((self.lanes.get(row)?, 0));
        }
        let (at, group) = self
            .groups()
            .enumerate()
            .find(|(_, group)| group.contains(&row))?;
        Some((self.lanes.get(at)?, row - group.start))
    }

    /// Feeds what the model has not seen of every lane with a row that is `wanted`; afterwards those have logits. Does
    /// nothing where there are already.
    ///
    /// # Errors
    /// When the model cannot be run or its logits are not what they must be. What was fed before stays fed.
    pub(super) fn feed(
        &mut self,
        chunk: Option<usize>,
        control: RunControl<'_>,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<(), GenerationError> {
        let mut step = Step {
            context: &self.context,
            roles: &self.roles,
            chunk: chunk.or(self.piece),
            control,
            interrupt: Interrupt::new(control),
        };
        let mut start = 0;
        for lane in &mut self.lanes {
            let mut group = start..start + lane.count;
            start = group.end;
            let rows = self.rows.get(group.clone()).unwrap_or_default();
            if !group.any(wanted) {
                continue;
            }
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
        let (lane, row) = self.place(row)?;
        Some(lane.logits.as_ref()?.row(row))
    }

    /// The size of the vocabulary; 0 before the first logits.
    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary.unwrap_or(0)
    }

    /// Says that columns were added.
    pub(super) fn grown(&mut self) {
        let mut start = 0;
        for lane in &mut self.lanes {
            lane.grown(self.rows.get(start).map_or(0, |row| row.tokens.len()));
            start += lane.count;
        }
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
        let many = |_| GenerationError::Rows {
            wanted,
            reason: format!("memory does not hold {} of them", chosen.len()),
        };
        let mut rows = Vec::new();
        rows.try_reserve_exact(chosen.len()).map_err(many)?;
        for row in chosen {
            rows.push(self.rows[*row].copy().map_err(many)?);
        }
        if self.forks()? {
            let mut lanes = Vec::new();
            lanes.try_reserve_exact(chosen.len()).map_err(many)?;
            for row in chosen {
                lanes.push(self.single(*row)?);
            }
            self.lanes = lanes;
        } else {
            let axes = self.batch.need(wanted)?;
            for lane in &mut self.lanes {
                lane.select(chosen, axes)?;
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// A lane that runs a row alone.
    fn single(&self, row: usize) -> Result<Lane, GenerationError> {
        let none = || GenerationError::turn("generate", format!("there is no row {row}"));
        let (lane, row) = self.place(row).ok_or_else(none)?;
        lane.single(row, &self.batch)
    }

    /// Gives each row a lane of its own.
    ///
    /// # Errors
    /// When rows of the retained values cannot be chosen; nothing has changed then.
    pub(super) fn part(&mut self) -> Result<(), GenerationError> {
        if self.lanes.len() < self.rows.len() {
            let lanes = (0..self.rows.len()).map(|row| self.single(row));
            self.lanes = lanes.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Gives each of `rows`, which are in order, a lane of its own, behind the others, which stay as they are. Returns where each row was.
    ///
    /// # Errors
    /// When rows of the retained values cannot be chosen; nothing has changed then.
    pub(super) fn park(&mut self, rows: &[usize]) -> Result<Vec<usize>, GenerationError> {
        let parked = rows.iter().map(|row| self.single(*row));
        let parked = parked.collect::<Result<Vec<Lane>, _>>()?;
        let stays = |row: &usize| rows.binary_search(row).is_err();
        self.retain(&stays, "drop_finished")?;
        self.lanes.extend(parked);
        let mut order: Vec<usize> = (0..self.rows.len()).filter(stays).collect();
        order.extend(rows);
        let before = std::mem::take(&mut self.rows).into_iter().enumerate();
        let (apart, mut kept): (Vec<_>, Vec<_>) = before.partition(|(row, _)| !stays(row));
        kept.extend(apart);
        self.rows = kept.into_iter().map(|(_, row)| row).collect();
        Ok(order)
    }

    /// Lets rows go from their lanes. Only the one lane that has more rows than one can fail, and it comes first.
    fn retain(
        &mut self,
        stays: &dyn Fn(&usize) -> bool,
        wanted: &'static str,
    ) -> Result<(), GenerationError> {
        let groups: Vec<Range<usize>> = self.groups().collect();
        for (lane, group) in self.lanes.iter_mut().zip(&groups) {
            let left = group.clone().filter(stays).map(|row| row - group.start);
            let left: Vec<usize> = left.collect();
            if (1..lane.count).contains(&left.len()) {
                lane.select(&left, self.batch.need(wanted)?)?;
            }
        }
        let mut groups = groups.into_iter();
        self.lanes.retain(|_| {
            groups
                .next()
                .is_some_and(|mut group| group.any(|row| stays(&row)))
        });
        Ok(())
    }

    /// Lets all rows go but those of `kept`, which are in order.
    ///
    /// # Errors
    /// As [`Decoder::reorder`].
    pub(super) fn keep_rows(&mut self, kept: &[usize]) -> Result<(), GenerationError> {
        let stays = |row: &usize| kept.binary_search(row).is_ok();
        self.retain(&stays, "drop_finished")?;
        let rows = std::mem::take(&mut self.rows).into_iter().enumerate();
        let (kept, ended): (Vec<_>, Vec<_>) = rows.partition(|(row, _)| stays(row));
        self.rows = kept.into_iter().map(|(_, row)| row).collect();
        self.gone.extend(ended.into_iter().map(|(_, row)| row));
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
