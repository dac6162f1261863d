//! Copies to other places: joining, padding, triangles, scatters. Outputs are dense and row-major.
//!
//! Elements are only moved, so callers may pass any type of the right width. Everything that comes from a tensor
//! (positions, pads, diagonals) is checked before it becomes an address.

use crate::KernelError;
use half::{bf16, f16};
use refeed_values::layout::{Dims, Strides, row_major};
use refeed_values::{Element, Lane, View};

/// An index type: INT32 or INT64.
pub trait Index: Element {
    /// The number.
    fn number(self) -> i64;
}
impl Index for i32 {
    fn number(self) -> i64 {
        i64::from(self)
    }
}
impl Index for i64 {
    fn number(self) -> i64 {
        self
    }
}

/// An index that may count from the end, as a position below `extent`.
pub(crate) fn position(index: i64, extent: usize) -> Result<usize, KernelError> {
    // Extents never exceed `isize::MAX`.
    let limit = extent as i64;
    let at = if index < 0 {
        index.checked_add(limit)
    } else {
        Some(index)
    };
    match at {
        Some(at) if (0..limit).contains(&at) => Ok(at as usize),
        _ => Err(KernelError::Range {
            parameter: "index",
            got: index,
            low: -limit,
            high: limit - 1,
        }),
    }
}

/// The next index in row-major order; `false` after the last.
pub(crate) fn advance(index: &mut [usize], shape: &[usize]) -> bool {
    for axis in (0..shape.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return true;
        }
        index[axis] = 0;
    }
    false
}

fn copy_lane<T: Element>(lane: Lane<'_, T>, from: usize, out: &mut [T]) {
    if let Some(all) = lane.as_slice() {
        out.copy_from_slice(&all[from..from + out.len()]);
        return;
    }
    for (slot, value) in out.iter_mut().zip(lane.iter().skip(from)) {
        *slot = value;
    }
}

/// Writes `view` into positions `first..` of axis `axis` of `out`, a dense tensor of shape `shape`.
///
/// # Errors
/// When shapes differ elsewhere than on that axis, the positions are not there, or `out` has another length.
pub fn place<T: Element>(
    view: &View<'_, T>,
    out: &mut [T],
    shape: &[usize],
    axis: usize,
    first: usize,
) -> Result<(), KernelError> {
    let own = view.shape();
    let fits = own.len() == shape.len()
        && axis < shape.len()
        && own
            .iter()
            .zip(shape)
            .enumerate()
            .all(|(at, (a, b))| at == axis || a == b)
        && first
            .checked_add(own[axis])
            .is_some_and(|end| end <= shape[axis]);
    if !fits {
        return Err(KernelError::shape("part", shape, own));
    }
    KernelError::check_len("output", shape.iter().product(), out.len())?;
    if view.is_empty() {
        return Ok(());
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let (chunk, stride) = (own[axis] * inner, shape[axis] * inner);
    // `chunk` elements in a row belong together, then `stride` takes us to the next outer position. Runs and lanes
    // are products of trailing extents as `chunk` is, so one always divides the other.
    let (mut base, mut within) = (first * inner, 0);
    let mut target = |len: usize| {
        let at = base + within;
        within += len;
        if within == chunk {
            within = 0;
            base += stride;
        }
        at..at + len
    };
    if view.layout().contiguous_suffix() > 0 {
        for run in view.runs() {
            for piece in run.chunks(chunk) {
                out[target(piece.len())].copy_from_slice(piece);
            }
        }
    } else {
        for lane in view.lanes() {
            copy_lane(lane, 0, &mut out[target(lane.len())]);
        }
    }
    Ok(())
}

/// Writes `view` into the box of a dense `out` (shape `shape`) that starts at `start`. The box must lie inside.
fn place_box<T: Element>(view: &View<'_, T>, out: &mut [T], shape: &[usize], start: &[usize]) {
    if view.is_empty() {
        return;
    }
    let strides = row_major(shape);
    let at: usize = start
        .iter()
        .zip(&strides)
        .map(|(&s, &stride)| s * stride as usize)
        .sum();
    let outer = view.rank().saturating_sub(1);
    let mut index = Dims::from_elem(0, outer);
    for lane in view.lanes() {
        let offset: usize = index
            .iter()
            .zip(&strides)
            .map(|(&i, &stride)| i * stride as usize)
            .sum();
        copy_lane(lane, 0, &mut out[at + offset..][..lane.len()]);
        advance(&mut index, &view.shape()[..outer]);
    }
}

/// What padding writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PadFill<T> {
    /// One value.
    Constant(T),
    /// Mirrored at the first and last position, which are not repeated.
    Reflect,
    /// The nearest position.
    Edge,
    /// As on a ring.
    Wrap,
}

impl<T> PadFill<T> {
    /// The position below `extent` that stands at `at`, which may lie outside. Not for constants.
    fn source(&self, at: i128, extent: usize) -> usize {
        let n = extent as i128;
        let place = match self {
            PadFill::Constant(_) | PadFill::Edge => at.clamp(0, n - 1),
            PadFill::Wrap => at.rem_euclid(n),
            PadFill::Reflect if n == 1 => 0,
            PadFill::Reflect => {
                let period = 2 * (n - 1);
                let place = at.rem_euclid(period);
                if place < n { place } else { period - place }
            }
        };
        place as usize
    }
}

/// Pads `view` by `pads` (before and after each axis; negative ones cut) into a dense `out` of shape `shape`.
/// Modes other than a constant see what cutting has left.
///
/// Source: ONNX operator `Pad`; `numpy.pad`.
///
/// # Errors
/// When `shape` is not the padded shape, `out` has another length, or an axis without positions is to be extended by
/// something else than a constant.
pub fn pad<T: Element>(
    view: &View<'_, T>,
    pads: &[(i64, i64)],
    fill: PadFill<T>,
    out: &mut [T],
    shape: &[usize],
) -> Result<(), KernelError> {
    let rank = view.rank();
    if pads.len() != rank || shape.len() != rank {
        return Err(KernelError::shape("output", view.shape(), shape));
    }
    // Cut first: `from` and `count` say what stays of each axis, `start` where it stands in the output.
    let mut kept = view.clone();
    let mut start = Dims::new();
    for axis in 0..rank {
        let (before, after) = (i128::from(pads[axis].0), i128::from(pads[axis].1));
        let dim = view.shape()[axis] as i128;
        if dim + before + after != shape[axis] as i128 {
            return Err(KernelError::shape("output", view.shape(), shape));
        }
        let from = (-before).clamp(0, dim);
        let until = (dim + after.min(0)).clamp(from, dim);
        let count = (until - from) as usize;
        kept = kept
            .slice(axis, from as usize, count, 1)
            .ok_or_else(|| KernelError::shape("output", view.shape(), shape))?;
        // Where an axis is cut away whole, the box is empty and its place does not matter.
        start.push(before.clamp(0, shape[axis] as i128) as usize);
    }
    KernelError::check_len("output", shape.iter().product(), out.len())?;
    if let PadFill::Constant(value) = fill {
        out.fill(value);
        place_box(&kept, out, shape, &start);
        return Ok(());
    }
    if out.is_empty() {
        return Ok(());
    }
    if kept.is_empty() {
        return Err(KernelError::shape("data", shape, kept.shape()));
    }
    let Some(last) = rank.checked_sub(1) else {
        out[0] = view.get(&[]).unwrap_or_default();
        return Ok(());
    };
    let (width, extent) = (shape[last], kept.shape()[last]);
    let mut index = Dims::from_elem(0, last);
    let mut source = Dims::from_elem(0, last);
    for row in out.chunks_exact_mut(width) {
        for axis in 0..last {
            source[axis] = fill.source(
                index[axis] as i128 - start[axis] as i128,
                kept.shape()[axis],
            );
        }
        // Sources are below the extents of `kept`, so the lane is there.
        if let Some(lane) = kept.lane(&source) {
            let first = start[last];
            copy_lane(lane, 0, &mut row[first..first + extent]);
            for at in (0..first).chain(first + extent..width) {
                let from = fill.source(at as i128 - first as i128, extent);
                row[at] = lane.get(from).unwrap_or_default();
            }
        }
        advance(&mut index, &shape[..last]);
    }
    Ok(())
}

/// Keeps the part of each matrix (the last two axes) on and above, or on and below, diagonal `k`; the rest is zero.
///
/// Source: ONNX operator `Trilu`.
///
/// # Errors
/// When the view has fewer than two axes or `out` another length.
pub fn trilu<T: Element>(
    view: &View<'_, T>,
    k: i64,
    upper: bool,
    out: &mut [T],
) -> Result<(), KernelError> {
    let &[.., rows, columns] = view.shape() else {
        return Err(KernelError::Rank {
            operand: "input",
            expected: "at least 2",
            got: view.rank(),
        });
    };
    KernelError::check_len("output", view.len(), out.len())?;
    if view.is_empty() {
        return Ok(());
    }
    for (at, (lane, row)) in view.lanes().zip(out.chunks_exact_mut(columns)).enumerate() {
        let diagonal = (at % rows) as i128 + i128::from(k);
        let edge = if upper { diagonal } else { diagonal + 1 };
        let edge = edge.clamp(0, columns as i128) as usize;
        let (left, right) = row.split_at_mut(edge);
        if upper {
            left.fill(T::default());
            copy_lane(lane, edge, right);
        } else {
            copy_lane(lane, 0, left);
            right.fill(T::default());
        }
    }
    Ok(())
}

/// How a scatter joins an update with what stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The update replaces it.
    None,
    /// Sum; integers wrap around.
    Add,
    /// Product; integers wrap around.
    Mul,
    /// The larger; NaN wins.
    Max,
    /// The smaller; NaN wins.
    Min,
}

/// A type that scatters can combine.
pub trait Combine: Element {
    /// Sum.
    fn plus(self, other: Self) -> Self;
    /// Product.
    fn times(self, other: Self) -> Self;
    /// The larger; NaN wins.
    fn larger(self, other: Self) -> Self;
    /// The smaller; NaN wins.
    fn smaller(self, other: Self) -> Self;
}

macro_rules! combine_integers {
    ($($t:ty),*) => { $(impl Combine for $t {
        fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
        fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
        fn larger(self, other: $t) -> $t { Ord::max(self, other) }
        fn smaller(self, other: $t) -> $t { Ord::min(self, other) }
    })* };
}
combine_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! combine_floats {
    ($($t:ty),*) => { $(impl Combine for $t {
        fn plus(self, other: $t) -> $t { self + other }
        fn times(self, other: $t) -> $t { self * other }
        fn larger(self, other: $t) -> $t { if self > other || self.is_nan() { self } else { other } }
        fn smaller(self, other: $t) -> $t { if self < other || self.is_nan() { self } else { other } }
    })* };
}
combine_floats!(f32, f64, f16, bf16);

fn combine<T: Combine>(reduction: Reduction, slot: &mut T, update: T) {
    *slot = match reduction {
        Reduction::None => update,
        Reduction::Add => slot.plus(update),
        Reduction::Mul => slot.times(update),
        Reduction::Max => slot.larger(update),
        Reduction::Min => slot.smaller(update),
    };
}

/// Joins `updates` into `out`, a dense tensor of shape `shape` that already holds the data. `indices` holds `count`
/// tuples of `depth` positions; each names a block of the axes behind them.
///
/// Source: ONNX operator `ScatterND`.
///
/// # Errors
/// When lengths do not fit or an index is out of range; `out` is then partly written.
pub fn scatter_nd<T: Combine, I: Index>(
    out: &mut [T],
    shape: &[usize],
    indices: &[I],
    (count, depth): (usize, usize),
    updates: &[T],
    reduction: Reduction,
) -> Result<(), KernelError> {
    if depth > shape.len() {
        return Err(KernelError::Rank {
            operand: "indices",
            expected: "no more indices than axes",
            got: depth,
        });
    }
    KernelError::check_len("output", shape.iter().product(), out.len())?;
    KernelError::check_len("indices", count * depth, indices.len())?;
    let block: usize = shape[depth..].iter().product();
    KernelError::check_len("updates", count * block, updates.len())?;
    for tuple in 0..count {
        let mut at = 0;
        for (axis, index) in indices[tuple * depth..][..depth].iter().enumerate() {
            at = at * shape[axis] + position(index.number(), shape[axis])?;
        }
        let slots = &mut out[at * block..][..block];
        let updates = &updates[tuple * block..][..block];
        if reduction == Reduction::None {
            slots.copy_from_slice(updates);
            continue;
        }
        for (slot, &update) in slots.iter_mut().zip(updates) {
            combine(reduction, slot, update);
        }
    }
    Ok(())
}

/// Whether `inner` lies inside `outer` on every axis but `axis`.
pub(crate) fn check_inside(
    operand: &'static str,
    inner: &[usize],
    outer: &[usize],
    axis: usize,
) -> Result<(), KernelError> {
    let inside = inner.len() == outer.len()
        && axis < outer.len()
        && inner
            .iter()
            .zip(outer)
            .enumerate()
            .all(|(at, (a, b))| at == axis || a <= b);
    if inside {
        Ok(())
    } else {
        Err(KernelError::shape(operand, outer, inner))
    }
}

/// Joins each update into `out` (dense, shape `shape`, already holding the data) at its own place, but on `axis` at
/// the place that its index names. `extents` is the shape of `indices` and `updates`.
///
/// Source: ONNX operator `ScatterElements`.
///
/// # Errors
/// When shapes do not fit or an index is out of range; `out` is then partly written.
pub fn scatter_elements<T: Combine, I: Index>(
    out: &mut [T],
    shape: &[usize],
    axis: usize,
    indices: &[I],
    updates: &[T],
    extents: &[usize],
    reduction: Reduction,
) -> Result<(), KernelError> {
    check_inside("indices", extents, shape, axis)?;
    let elements = extents.iter().product();
    KernelError::check_len("output", shape.iter().product(), out.len())?;
    KernelError::check_len("indices", elements, indices.len())?;
    KernelError::check_len("updates", elements, updates.len())?;
    let strides: Strides = row_major(shape);
    let mut place = Dims::from_elem(0, extents.len());
    for (index, &update) in indices.iter().zip(updates) {
        let target = position(index.number(), shape[axis])?;
        let at: usize = (0..shape.len())
            .map(|a| if a == axis { target } else { place[a] } * strides[a] as usize)
            .sum();
        combine(reduction, &mut out[at], update);
        advance(&mut place, extents);
    }
    Ok(())
}

/// Writes each batch entry of `update` into `out` (dense, shape `shape`, already holding the past) along `axis`, from
/// the entry's write index on; on a ring when `circular`.
///
/// Source: ONNX operator `TensorScatter`.
///
/// # Errors
/// When shapes do not fit, or a linear write would leave the axis.
pub fn tensor_scatter<T: Element>(
    out: &mut [T],
    shape: &[usize],
    axis: usize,
    update: &View<'_, T>,
    write_indices: Option<&[i64]>,
    circular: bool,
) -> Result<(), KernelError> {
    check_inside("update", update.shape(), shape, axis)?;
    let fits = axis > 0
        && update.shape()[axis] <= shape[axis]
        && update
            .shape()
            .iter()
            .zip(shape)
            .enumerate()
            .all(|(at, (a, b))| at == axis || a == b);
    if !fits {
        return Err(KernelError::shape("update", shape, update.shape()));
    }
    KernelError::check_len("output", shape.iter().product(), out.len())?;
    let batch = shape[0];
    KernelError::check_len(
        "write_indices",
        batch,
        write_indices.map_or(batch, <[i64]>::len),
    )?;
    let (rows, limit) = (update.shape()[axis], shape[axis]);
    let slice: usize = shape[1..].iter().product();
    if rows == 0 || slice == 0 {
        return Ok(());
    }
    let refuse = || KernelError::shape("update", shape, update.shape());
    for (entry, out) in out.chunks_exact_mut(slice).enumerate() {
        let index = write_indices.map_or(0, |indices| indices[entry]);
        let first = if circular {
            index.rem_euclid(limit as i64) as usize
        } else {
            let high = (limit - rows) as i64;
            let ok = (0..=high).contains(&index);
            let range = KernelError::Range {
                parameter: "write index",
                got: index,
                low: 0,
                high,
            };
            ok.then_some(index as usize).ok_or(range)?
        };
        let own = update.index(0, entry).ok_or_else(refuse)?;
        let head = rows.min(limit - first);
        let part = own.slice(axis - 1, 0, head, 1).ok_or_else(refuse)?;
        place(&part, out, &shape[1..], axis - 1, first)?;
        if head < rows {
            let rest = own
                .slice(axis - 1, head, rows - head, 1)
                .ok_or_else(refuse)?;
            place(&rest, out, &shape[1..], axis - 1, 0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
