//! Choosing rows of a batch: beams, and requests that are done.

use super::commit::{Change, Next};
use super::rows_error::RowsError;
use super::{Inner, PersistentValueState, Retained};
use crate::error::StateError;
use crate::explain::Outcome;
use crate::persistent_value::PersistentValue;
use crate::session::Core;
use refeed_values::append::{AppendPolicy, PersistentTensor, Reserve};
use refeed_values::encoded::{Encoding, infer_storage};
use refeed_values::paged_cache;
use refeed_values::{Allocator, EncodedValue, RuntimeValue, Tensor, TensorMut};
use std::sync::Arc;

/// Which axis of each retained value is the batch.
///
/// ```
/// use refeed_runtime::BatchAxes;
/// let axes = BatchAxes::default().with("steps", None).with("h0", Some(1));
/// assert_eq!((axes.of("past"), axes.of("steps"), axes.of("h0")), (Some(0), None, Some(1)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchAxes {
    others: Vec<(Arc<str>, Option<usize>)>,
}

impl BatchAxes {
    /// Says which axis of the bound input `input` is the batch; `None`: it has none and stays as it is.
    #[must_use]
    pub fn with(mut self, input: impl Into<Arc<str>>, axis: Option<usize>) -> BatchAxes {
        self.others.push((input.into(), axis));
        self
    }

    /// The inputs of which something was said.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(|(name, _)| &**name)
    }

    /// Whether anything was said of an input.
    pub(crate) fn is_said(&self, input: &str) -> bool {
        self.others.iter().any(|(name, _)| &**name == input)
    }

    /// The batch axis of an input; 0 unless another was said.
    pub fn of(&self, input: &str) -> Option<usize> {
        let said = self.others.iter().rev().find(|(name, _)| &**name == input);
        said.map_or(Some(0), |(_, axis)| *axis)
    }
}

/// `tensor[.., index, ..]` with dense bytes.
fn row(
    tensor: &Tensor,
    axis: usize,
    index: usize,
    allocator: &Allocator,
) -> Result<Tensor, RowsError> {
    let unsliceable = || format!("{}: rows of it do not end at bytes", tensor.dtype());
    if !tensor.dtype().is_packed() {
        let (layout, delta) = tensor
            .layout()
            .slice(axis, index, 1, 1)
            .ok_or_else(unsliceable)?;
        let delta = if layout.elements() == 0 { 0 } else { delta };
        let part = tensor.with_layout(layout, delta)?;
        return Ok(match part.is_contiguous() {
            true => part,
            false => part.to_dense(allocator)?,
        });
    }
    // Packed elements are dense, so that a row of the first axis is a run of bytes if it is a whole number of them.
    let rows = tensor.shape()[axis];
    let bits = tensor.elements() / rows.max(1) * tensor.dtype().bits();
    if axis != 0 || !bits.is_multiple_of(8) {
        return Err(unsliceable().into());
    }
    let bytes = tensor.as_bytes().ok_or_else(unsliceable)?;
    let mut shape = tensor.shape().to_vec();
    shape[0] = 1;
    let mut part = TensorMut::new(allocator, tensor.dtype(), &shape)?;
    let width = bits / 8;
    part.as_mut_bytes()
        .copy_from_slice(&bytes[index * width..(index + 1) * width]);
    Ok(part.freeze())
}

/// The chosen rows of a tensor, in new dense memory.
fn gathered(
    tensor: &Tensor,
    axis: usize,
    rows: &[usize],
    allocator: &Allocator,
) -> Result<Tensor, RowsError> {
    let mut shape = tensor.shape().to_vec();
    shape[axis] = rows.len();
    let mut out = TensorMut::new(allocator, tensor.dtype(), &shape)?;
    let before: usize = shape[..axis].iter().product();
    let stride = out.as_mut_bytes().len() / before.max(1);
    for (to, &row) in rows.iter().enumerate() {
        let part = self::row(tensor, axis, row, allocator)?;
        let Some(bytes) = part.as_bytes().filter(|bytes| !bytes.is_empty()) else {
            continue;
        };
        let width = bytes.len() / before.max(1);
        for (outer, run) in bytes.chunks_exact(width).enumerate() {
            let start = outer * stride + to * width;
            out.as_mut_bytes()[start..start + width].copy_from_slice(run);
        }
    }
    Ok(out.freeze())
}

/// The chosen rows of a value that grows, in a new block with room behind them: the next append is in place.
fn gathered_block(
    held: &PersistentTensor,
    axis: usize,
    rows: &[usize],
    policy: &AppendPolicy,
    allocator: &Allocator,
) -> Result<PersistentTensor, RowsError> {
    let tensor = held.tensor();
    let dense = || gathered(tensor, axis, rows, allocator).map(PersistentTensor::imported);
    let Some(growing) = held.append_axis().filter(|growing| *growing > axis) else {
        return dense();
    };
    let mut shape = tensor.shape().to_vec();
    shape[axis] = rows.len();
    let whole = shape.clone();
    shape[growing] = 0;
    let empty = TensorMut::new(allocator, tensor.dtype(), &shape)?;
    let lease = PersistentTensor::imported(empty.freeze()).lease(policy);
    let reserve = lease.reserve(&whole, growing, allocator);
    let Reserve::Ready(mut block) = reserve? else {
        return dense();
    };
    // Outer slices of the block run over all axes before the growing one; the batch axis is one of them.
    let inner: usize = whole[axis + 1..growing].iter().product();
    let before: usize = whole[..axis].iter().product();
    for (to, &row) in rows.iter().enumerate() {
        let part = self::row(tensor, axis, row, allocator)?;
        let Some(bytes) = part.as_bytes().filter(|bytes| !bytes.is_empty()) else {
            continue;
        };
        let width = bytes.len() / (before * inner).max(1);
        for (index, run) in bytes.chunks_exact(width).enumerate() {
            let (outer, within) = (index / inner, index % inner);
            let slice = (outer * rows.len() + to) * inner + within;
            let span = block.span_mut(slice).filter(|span| span.len() == width);
            span.ok_or("the block has another shape")?
                .copy_from_slice(run);
        }
    }
    Ok(block.seal().publish())
}

/// The chosen rows of one payload of a page.
fn payload(
    value: &RuntimeValue,
    rows: &[usize],
    allocator: &Allocator,
) -> Result<RuntimeValue, RowsError> {
    match value {
        RuntimeValue::Tensor(tensor) => Ok(gathered(tensor, 0, rows, allocator)?.into()),
        RuntimeValue::Encoded(encoded) => {
            let (Encoding::Affine(affine), Some((dtype, shape))) =
                (encoded.encoding(), encoded.logical())
            else {
                return Err("rows of a structured encoding cannot be chosen".into());
            };
            let mut affine = affine.clone();
            let by_row = match (affine.axis, affine.block_size) {
                (None, _) => false,
                (Some(axis), None) => axis == 0,
                (Some(0), Some(_)) => return Err("its rows share scales in blocks".into()),
                // Blocked parameters have the extents of the payload, except along their own axis.
                (Some(_), Some(_)) => true,
            };
            if by_row {
                affine.scale = gathered(&affine.scale, 0, rows, allocator)?;
                affine.zero_point = match affine.zero_point {
                    Some(zero) => Some(gathered(&zero, 0, rows, allocator)?),
                    None => None,
                };
            }
            let codes = codes(
                encoded.payload(),
                affine.storage.bits(),
                shape,
                rows,
                allocator,
            )?;
            let mut shape = shape.to_vec();
            shape[0] = rows.len();
            // The width of the codes is said where the size of fewer rows no longer tells it.
            affine.inferred = affine.inferred
                && infer_storage(affine.storage_is_signed(), &shape, codes.bytes()).is_ok();
            let made = EncodedValue::affine(affine, (dtype, &shape), codes);
            Ok(made?.into())
        }
        other => {
            let kind = other.kind();
            Err(format!("expected a tensor or an encoded value, got {kind}").into())
        }
    }
}

/// The codes of the chosen rows; a row of codes must be whole bytes.
fn codes(
    payload: &Tensor,
    bits: usize,
    shape: &[usize],
    rows: &[usize],
    allocator: &Allocator,
) -> Result<Tensor, RowsError> {
    let bytes = payload.as_bytes().ok_or("its payload is not dense")?;
    let row_bits = shape[1..].iter().product::<usize>() * bits;
    if !row_bits.is_multiple_of(8) {
        return Err(format!("a row of {row_bits} bits is not whole bytes").into());
    }
    let width = row_bits / 8;
    let mut out = TensorMut::new(allocator, payload.dtype(), &[rows.len() * width])?;
    for (slot, &row) in out.as_mut_bytes().chunks_exact_mut(width.max(1)).zip(rows) {
        let run = bytes.get(row * width..(row + 1) * width);
        slot.copy_from_slice(run.ok_or("its payload is shorter than its shape")?);
    }
    Ok(out.freeze())
}

/// The chosen rows of every page.
fn pages(
    cache: &RuntimeValue,
    rows: &[usize],
    allocator: &Allocator,
) -> Result<RuntimeValue, RowsError> {
    let blocks = paged_cache::blocks(cache).ok_or("no paged cache")?;
    let mut kept = Vec::with_capacity(blocks.len());
    for block in blocks.iter() {
        let page = paged_cache::page(block)?;
        let scalar = |value| Tensor::scalar(value);
        let (key, value) = (
            payload(page.key, rows, allocator)?,
            payload(page.value, rows, allocator)?,
        );
        let made = paged_cache::page_of(scalar(page.start)?, scalar(page.length)?, key, value);
        kept.push(made?);
    }
    Ok(paged_cache::cache_of(kept)?)
}

impl PersistentValueState {
    /// Makes every value's batch the rows `rows` of what it was: reordered, repeated, fewer or more.
    ///
    /// Copies what it keeps, once; values that grow get room behind their rows, so that the next append is in place.
    /// The same rows in the same order copy nothing. Paged caches are chosen from page by page.
    ///
    /// ```no_run
    /// # use refeed_runtime::{BatchAxes, PersistentValueState, StateError};
    /// # fn example(state: &PersistentValueState) -> Result<(), StateError> {
    /// state.select(&[2, 0, 0], &BatchAxes::default())?; // beam 2 goes on, beam 0 goes on twice
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the state is busy or closed, `axes` names no bound input, a value has no such axis or no such row, is of a
    /// kind that has no rows, the chosen rows contradict what the model declares, or memory cannot be had. Nothing has
    /// changed then.
    pub fn select(&self, rows: &[usize], axes: &BatchAxes) -> Result<(), StateError> {
        let mut inner = self.take()?;
        let bindings = self.core.model.bindings();
        let bound = |name: &str| bindings.iter().any(|binding| &*binding.input == name);
        if let Some((unknown, _)) = axes.others.iter().find(|(name, _)| !bound(name)) {
            return Err(StateError::NoSuchAxis(unknown.to_string()));
        }
        let next = inner.selected(&self.core, rows, axes)?;
        self.note_warnings(&inner);
        inner.commit(next);
        Ok(())
    }
}

impl Inner {
    fn selected(
        &mut self,
        core: &Core,
        rows: &[usize],
        axes: &BatchAxes,
    ) -> Result<Next, StateError> {
        let (policy, allocator) = (core.append_policy(), self.workspace.output_allocator());
        let mut next = Next::default();
        for (binding, held) in core.model.bindings().iter().zip(&self.retained) {
            let input = &binding.input;
            let refused = |name, reason| StateError::Select { name, reason };
            let fails = |error: RowsError| error.of(input, refused);
            let (Some(axis), false) = (axes.of(input), is_empty_cache(&held.value)) else {
                next.0.push((Change::Keep, Outcome::NotRun));
                continue;
            };
            let batch = batch(&held.value, axis).map_err(fails)?;
            if let Some(row) = rows.iter().find(|row| **row >= batch) {
                let expected = format!("expected rows below {batch}, its extent along axis {axis}");
                return Err(fails(format!("{expected}, got {row}").into()));
            }
            if rows.len() == batch && rows.iter().enumerate().all(|(at, row)| at == *row) {
                next.0.push((Change::Keep, Outcome::NotRun));
                continue;
            }
            let value = match &held.value {
                PersistentValue::Tensor(tensor) => PersistentValue::Tensor(
                    gathered_block(tensor, axis, rows, &policy, allocator).map_err(fails)?,
                ),
                PersistentValue::Other(cache) => {
                    if rows.is_empty() {
                        return Err(fails("a paged cache keeps at least one row".into()));
                    }
                    PersistentValue::Other(pages(cache, rows, allocator).map_err(fails)?)
                }
            };
            let published = held.published;
            let change = Change::Replace(Retained { value, published });
            let chosen = format!("{} of its {batch} rows were selected", rows.len());
            next.0.push((change, Outcome::Copied(chosen)));
        }
        self.check(core, &next)?;
        Ok(next)
    }
}

/// A paged cache without pages has no batch yet.
fn is_empty_cache(value: &PersistentValue) -> bool {
    match value {
        PersistentValue::Tensor(_) => false,
        PersistentValue::Other(value) => {
            paged_cache::blocks(value).is_some_and(|blocks| blocks.is_empty())
        }
    }
}

/// The number of rows that a value has.
fn batch(value: &PersistentValue, axis: usize) -> Result<usize, RowsError> {
    match value {
        PersistentValue::Tensor(held) => {
            let shape = held.tensor().shape();
            let extent = shape.get(axis).copied();
            extent.ok_or_else(|| format!("expected an axis {axis}, got shape {shape:?}").into())
        }
        PersistentValue::Other(value) if paged_cache::blocks(value).is_some() => {
            if axis != 0 {
                let text = format!("the batch of a paged cache is axis 0, got axis {axis}");
                return Err(text.into());
            }
            let checked = paged_cache::check(value)?;
            Ok(checked.dims.map_or(0, |dims| dims.batch))
        }
        PersistentValue::Other(value) => {
            let kind = value.kind();
            Err(format!("expected a tensor or a paged cache, got {kind}").into())
        }
    }
}

#[cfg(test)]
mod tests;
