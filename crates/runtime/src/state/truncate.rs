//! Going back to fewer rows.

use super::commit::{Change, Next};
use super::rows_error::RowsError;
use super::{Inner, PersistentValueState, Retained};
use crate::error::StateError;
use crate::explain::Outcome;
use crate::persistent_value::PersistentValue;
use crate::session::Core;
use refeed_graph::types::ValueType;
use refeed_graph::{Binding, Publish};
use refeed_values::append::PersistentTensor;
use refeed_values::paged_cache;
use refeed_values::{RuntimeValue, StructValue, Tensor, TensorError};
use std::sync::Arc;

/// How a retained value becomes longer.
enum Growth {
    /// By rows along an axis.
    Along(usize),
    /// By pages.
    Pages,
    /// Not at all, by declaration: it is the same in every step.
    Constant,
    /// Nothing says how.
    Unknown,
}

/// How a binding's value grows: as it did in the last call, as its append node does, or as the declarations say.
fn growth(core: &Core, index: usize, binding: &Binding, value: &PersistentValue) -> Growth {
    if binding.publish == Publish::Once || core.plan.usual.get(index) == Some(&Outcome::Kept) {
        return Growth::Constant;
    }
    let held = match value {
        PersistentValue::Tensor(held) => held,
        PersistentValue::Other(value) if paged_cache::blocks(value).is_some() => {
            return Growth::Pages;
        }
        PersistentValue::Other(_) => return Growth::Unknown,
    };
    let rank = held.tensor().rank();
    let axis = held
        .append_axis()
        .or_else(|| append_axis(core, index, rank))
        .or_else(|| declared_axis(core, binding));
    match axis {
        Some(axis) if axis < rank => Growth::Along(axis),
        _ => Growth::Unknown,
    }
}

/// The axis along which the value of a binding gets rows, as far as the graph tells.
fn growing_axis(core: &Core, index: usize, binding: &Binding, rank: usize) -> Option<usize> {
    if binding.publish == Publish::Once || core.plan.usual.get(index) == Some(&Outcome::Kept) {
        return None;
    }
    let axis = append_axis(core, index, rank).or_else(|| declared_axis(core, binding));
    axis.filter(|axis| *axis < rank)
}

/// The axis of the node that appends to the binding's value.
fn append_axis(core: &Core, index: usize, rank: usize) -> Option<usize> {
    let appends = |step: &&crate::plan::Step| step.sites.iter().any(|site| site.binding == index);
    let axis = core.plan.steps.iter().find(appends)?.kernel.append_axis()?;
    match axis {
        0.. => usize::try_from(axis).ok(),
        _ => rank.checked_sub(usize::try_from(axis.unsigned_abs()).ok()?),
    }
}

/// The one axis in which the declarations of input and output differ.
fn declared_axis(core: &Core, binding: &Binding) -> Option<usize> {
    let shape = |ty: &'_ ValueType| ty.tensor().and_then(|ty| ty.shape.clone());
    let past = shape(&core.model.inputs()[binding.input_index].ty)?;
    let next = shape(&core.model.outputs()[binding.output_index].ty)?;
    let mut differ = past.iter().zip(&next).enumerate();
    let differ: Vec<usize> = differ
        .by_ref()
        .filter(|(_, (past, next))| past != next)
        .map(|(axis, _)| axis)
        .collect();
    match differ[..] {
        [axis] if past.len() == next.len() => Some(axis),
        _ => None,
    }
}

/// The first `length` rows of a tensor: a view, with what capacity lies behind it.
fn shorter(
    held: &PersistentTensor,
    axis: usize,
    length: usize,
) -> Result<PersistentTensor, TensorError> {
    let tensor = held.tensor();
    if length == tensor.shape()[axis] {
        return Ok(held.fork());
    }
    if held.append_axis() == Some(axis)
        && let Some(rows) = held.slice_rows(0, length)
    {
        return Ok(rows);
    }
    let Some((layout, _)) = tensor.layout().slice(axis, 0, length, 1) else {
        return Ok(held.fork());
    };
    Ok(PersistentTensor::imported(tensor.with_layout(layout, 0)?))
}

/// The pages that hold the first `length` tokens of a cache that keeps the rules: O(log n). They are shared, with what is
/// known of them together; the last one says that it holds fewer.
fn fewer_pages(cache: &RuntimeValue, length: i64) -> Result<RuntimeValue, RowsError> {
    let mut pages = paged_cache::blocks(cache).ok_or("no paged cache")?.clone();
    if length < 1 {
        pages.truncate(0);
    } else if let Some((index, page)) = paged_cache::page_of_token(cache, length - 1) {
        pages.truncate(index + 1);
        let held = length - page.start;
        if held < page.length {
            let (start, count) = (Tensor::scalar(page.start)?, Tensor::scalar(held)?);
            let cut = paged_cache::page_of(start, count, page.key.clone(), page.value.clone());
            pages.set(index, cut?)?;
        }
    }
    let fields = [(paged_cache::BLOCKS, RuntimeValue::from(pages))];
    Ok(StructValue::new(fields)?.into())
}

impl PersistentValueState {
    /// The first retained value that grows and is not empty, and the rows that it holds.
    pub(crate) fn prefix(&self) -> Result<Option<(Arc<str>, i64)>, StateError> {
        let inner = self.take()?;
        for (index, (binding, held)) in self
            .core
            .model
            .bindings()
            .iter()
            .zip(&inner.retained)
            .enumerate()
        {
            let rows = match &held.value {
                PersistentValue::Tensor(held) => {
                    let shape = held.tensor().shape();
                    let axis = growing_axis(&self.core, index, binding, shape.len());
                    axis.map_or(0, |axis| shape[axis] as i64)
                }
                PersistentValue::Other(value) if paged_cache::blocks(value).is_some() => {
                    paged_cache::check(value).map_or(0, |cache| cache.tokens)
                }
                PersistentValue::Other(_) => 0,
            };
            if rows > 0 {
                return Ok(Some((binding.input.clone(), rows)));
            }
        }
        Ok(None)
    }

    /// Whether every value that grows has `rows` rows, and all can be cut to fewer.
    pub(crate) fn can_truncate(&self, rows: usize) -> Result<bool, StateError> {
        let mut inner = self.take()?;
        Ok(inner.truncated(&self.core, rows).is_ok()
            && inner.truncated(&self.core, rows.saturating_add(1)).is_err())
    }

    /// Keeps the first `length` rows of every value that grows, as if the later steps had not been. Values that
    /// publish once, and inputs handed straight through, stay.
    ///
    /// The axis of a tensor is that of its append, or, where no node appends, the one axis in which the declarations of
    /// input and output differ. Nothing is copied: tensors become views, of which the first append copies the rows once
    /// unless nobody else holds the block; paged caches share their pages.
    ///
    /// ```no_run
    /// # use refeed_runtime::{PersistentValueState, StateError};
    /// # fn example(state: &PersistentValueState, prompt: usize) -> Result<(), StateError> {
    /// state.truncate(prompt)?; // the same prompt, another answer
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the state is busy or closed, a value does not grow and so cannot go back (all of them are named), no value
    /// grows, one is shorter than `length`, or the rest contradicts what the model declares. Nothing has changed then.
    pub fn truncate(&self, length: usize) -> Result<(), StateError> {
        let mut inner = self.take()?;
        let next = inner.truncated(&self.core, length)?;
        self.note_warnings(&inner);
        inner.commit(next);
        Ok(())
    }
}

impl Inner {
    fn truncated(&mut self, core: &Core, length: usize) -> Result<Next, StateError> {
        let bindings = core.model.bindings();
        let mut next = Next::default();
        let (mut fixed, mut grows) = (Vec::new(), false);
        for (index, (binding, held)) in bindings.iter().zip(&self.retained).enumerate() {
            let refused = |name, reason| StateError::Truncate { name, reason };
            let fails = |error: RowsError| error.of(&binding.input, refused);
            let longer = |rows: &dyn std::fmt::Display| {
                fails(format!("expected at most its {rows} rows, got {length}").into())
            };
            let value = match (growth(core, index, binding, &held.value), &held.value) {
                (Growth::Constant, _) => {
                    next.0.push((Change::Keep, Outcome::NotRun));
                    continue;
                }
                (Growth::Along(axis), PersistentValue::Tensor(tensor)) => {
                    let rows = tensor.tensor().shape()[axis];
                    if length > rows {
                        return Err(longer(&rows));
                    }
                    let kept = shorter(tensor, axis, length);
                    PersistentValue::Tensor(kept.map_err(|error| fails(error.into()))?)
                }
                (Growth::Pages, PersistentValue::Other(cache)) => {
                    let held = paged_cache::check(cache);
                    let tokens = held.map_err(|error| fails(error.into()))?.tokens;
                    let length = i64::try_from(length).map_err(|_| longer(&tokens))?;
                    if length > tokens {
                        return Err(longer(&tokens));
                    }
                    PersistentValue::Other(fewer_pages(cache, length).map_err(fails)?)
                }
                _ => {
                    fixed.push(binding.input.clone());
                    continue;
                }
            };
            grows = true;
            let published = held.published;
            let change = Change::Replace(Retained { value, published });
            next.0.push((change, Outcome::NotRun));
        }
        match (grows, fixed.is_empty()) {
            (true, true) => self.check(core, &next).map(|()| next),
            (true, false) => Err(StateError::NotGrowing(fixed)),
            (false, _) => Err(StateError::NothingGrows),
        }
    }
}

#[cfg(test)]
mod tests;
