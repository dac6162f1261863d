//! The feeds of a step: token ids, mask and positions, in memory that is used again.

use super::engine::Batch;
use super::prompt::{Made, Roles};
use super::row::Row;
use refeed_values::{Allocator, DType, Pool, RuntimeValue, Tensor, TensorError, TensorMut};
use std::ops::Range;

/// The least number of columns that a mask has room for.
const LEAST: usize = 64;

/// Feeds by graph input. A warm step allocates nothing.
#[derive(Debug)]
pub(super) struct StepFeeds {
    pool: Pool,
    list: Vec<(usize, RuntimeValue)>,
    /// What the caller feeds at the first step, and at later ones where that differs.
    fixed: Vec<(usize, RuntimeValue)>,
    later: Option<Vec<(usize, RuntimeValue)>>,
    mask: Option<WideMask>,
}

/// A mask with columns to spare, filled with what they will hold if every row goes on as it does. A step's mask is a view
/// of the first columns, so that a longer sequence costs nothing.
#[derive(Debug)]
struct WideMask {
    /// `[batch, room]`.
    tensor: Tensor,
    /// What the spare columns of each row hold.
    ahead: Vec<bool>,
    /// Columns that are known to be right.
    checked: usize,
}

impl WideMask {
    fn new(
        pool: &mut Pool,
        made: Made,
        rows: &[Row],
        columns: usize,
    ) -> Result<WideMask, TensorError> {
        let room = columns.next_power_of_two().max(LEAST);
        let last = |row: &Row| row.mask[..columns].last().copied().unwrap_or(true);
        let ahead: Vec<bool> = rows.iter().map(last).collect();
        let values = rows.iter().zip(&ahead).flat_map(|(row, ahead)| {
            let spare = std::iter::repeat_n(*ahead, room - columns);
            let held = row.mask[..columns].iter().copied();
            held.chain(spare).map(i64::from)
        });
        Ok(WideMask {
            tensor: integers(pool, made, &[rows.len(), room], values)?,
            ahead,
            checked: columns,
        })
    }

    /// Whether there is room for `columns` columns, and the new ones of every row hold what was expected.
    fn goes_on(&mut self, rows: &[Row], columns: usize) -> bool {
        let checked = self.checked.min(columns);
        let as_expected = |(row, ahead): (&Row, &bool)| {
            let new = &row.mask[checked..columns];
            new.iter().all(|seen| seen == ahead)
        };
        self.checked = columns;
        self.tensor.shape()[1] >= columns && rows.iter().zip(&self.ahead).all(as_expected)
    }
}

/// Writes integers of one of the two types that are made.
fn fill(tensor: &mut TensorMut, values: impl Iterator<Item = i64>) -> Result<(), TensorError> {
    if tensor.dtype() == DType::Int32 {
        for (to, value) in tensor.as_mut_slice::<i32>()?.iter_mut().zip(values) {
            // Token ids and positions are checked to fit before they come here.
            *to = value as i32;
        }
    } else {
        for (to, value) in tensor.as_mut_slice::<i64>()?.iter_mut().zip(values) {
            *to = value;
        }
    }
    Ok(())
}

impl StepFeeds {
    pub(super) fn new(fixed: Vec<(usize, RuntimeValue)>) -> StepFeeds {
        StepFeeds {
            pool: Pool::new(Allocator::default()),
            list: Vec::new(),
            fixed,
            later: None,
            mask: None,
        }
    }

    /// The same feeds, with memory of their own.
    pub(super) fn fork(&self) -> StepFeeds {
        StepFeeds {
            later: self.later.clone(),
            ..StepFeeds::new(self.fixed.clone())
        }
    }

    /// The feeds of one row of `count`, with memory of their own.
    ///
    /// # Errors
    /// When nothing tells which part of a feed belongs to the row.
    pub(super) fn of_row(
        &self,
        batch: &Batch,
        row: usize,
        count: usize,
    ) -> Result<StepFeeds, String> {
        let later = self.later.as_deref();
        Ok(StepFeeds {
            later: later
                .map(|later| batch.feeds_of_row(later, row, count))
                .transpose()?,
            ..StepFeeds::new(batch.feeds_of_row(&self.fixed, row, count)?)
        })
    }

    /// Says what is fed in place of the caller's feeds after the first step.
    pub(super) fn change_later(&mut self, later: Vec<(usize, RuntimeValue)>) {
        self.later = Some(later);
    }

    /// Forgets the mask: rows or earlier columns have changed.
    pub(super) fn forget(&mut self) {
        if let Some(mask) = self.mask.take() {
            // The last step's feeds hold a view of it.
            self.take_back();
            self.pool.give(mask.tensor);
        }
    }

    /// Takes back what the last step was fed.
    fn take_back(&mut self) {
        for (_, value) in self.list.drain(..) {
            if let RuntimeValue::Tensor(tensor) = value {
                self.pool.give(tensor);
            }
        }
    }

    /// The feeds of a step that adds the columns `new`. The mask covers all columns up to their end.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub(super) fn of_step(
        &mut self,
        roles: &Roles,
        rows: &[Row],
        new: Range<usize>,
        first: bool,
    ) -> Result<&[(usize, RuntimeValue)], TensorError> {
        self.take_back();
        let shape = [rows.len(), new.len()];
        let ids = rows.iter().flat_map(|row| &row.tokens[new.clone()]);
        let tensor = integers(&mut self.pool, roles.ids, &shape, ids.copied())?;
        self.list.push((roles.ids.input, tensor.into()));
        if let Some(made) = roles.positions {
            let positions = rows.iter().flat_map(|row| &row.positions[new.clone()]);
            let tensor = integers(&mut self.pool, made, &shape, positions.copied())?;
            self.list.push((made.input, tensor.into()));
        }
        if let Some(made) = roles.mask {
            let mask = self.mask_of(made, rows, new.end)?;
            self.list.push((made.input, mask.into()));
        }
        let later = self.later.as_ref().filter(|_| !first);
        self.list.extend_from_slice(later.unwrap_or(&self.fixed));
        Ok(&self.list)
    }

    /// The mask of the first `columns` columns.
    fn mask_of(&mut self, made: Made, rows: &[Row], columns: usize) -> Result<Tensor, TensorError> {
        let right = |mask: &mut WideMask| mask.goes_on(rows, columns);
        let right = self.mask.as_mut().is_some_and(right);
        let mask = match (right, self.mask.take()) {
            (true, Some(mask)) => mask,
            (_, old) => {
                if let Some(old) = old {
                    self.pool.give(old.tensor);
                }
                WideMask::new(&mut self.pool, made, rows, columns)?
            }
        };
        let wide = &self.mask.insert(mask).tensor;
        match wide.layout().slice(1, 0, columns, 1) {
            Some((layout, _)) => wide.with_layout(layout, 0),
            None => Ok(wide.clone()),
        }
    }
}

fn integers(
    pool: &mut Pool,
    made: Made,
    shape: &[usize],
    values: impl Iterator<Item = i64>,
) -> Result<Tensor, TensorError> {
    let mut tensor = pool.tensor(made.dtype, shape)?;
    fill(&mut tensor, values)?;
    Ok(tensor.freeze())
}

#[cfg(test)]
mod tests;
