//! Picking by index: gathers, the largest, what is not zero. Data may be strided; outputs are dense and row-major.

use crate::KernelError;
use crate::movement::{Index, advance, check_inside, place, position};
use half::{bf16, f16};
use refeed_values::layout::Dims;
use refeed_values::{Element, View};
use std::cmp::Ordering;

/// Takes the positions `indices` of `axis`; `out` has that axis replaced by the indices.
///
/// Source: ONNX operator `Gather`.
///
/// # Errors
/// When an index is out of range or `out` has another length.
pub fn gather<T: Element, I: Index>(
    data: &View<'_, T>,
    axis: usize,
    indices: &[I],
    out: &mut [T],
) -> Result<(), KernelError> {
    let shape = data.shape();
    let Some(&extent) = shape.get(axis) else {
        return Err(KernelError::Rank {
            operand: "data",
            expected: "more axes than `axis`",
            got: data.rank(),
        });
    };
    let outer: usize = shape[..axis].iter().product();
    let block: usize = shape[axis + 1..].iter().product();
    KernelError::check_len("output", outer * indices.len() * block, out.len())?;
    if let Some(dense) = data.as_slice() {
        for (number, index) in indices.iter().enumerate() {
            let from = position(index.number(), extent)?;
            for before in 0..outer {
                let target = (before * indices.len() + number) * block;
                let source = (before * extent + from) * block;
                out[target..target + block].copy_from_slice(&dense[source..source + block]);
            }
        }
        return Ok(());
    }
    let mut whole = Dims::from_slice(shape);
    whole[axis] = indices.len();
    for (number, index) in indices.iter().enumerate() {
        let from = position(index.number(), extent)?;
        let row = data
            .slice(axis, from, 1, 1)
            .ok_or_else(|| KernelError::shape("data", &whole, shape))?;
        place(&row, out, &whole, axis, number)?;
    }
    Ok(())
}

/// Takes for each place of `indices` (dense, of shape `extents`) the element of `data` at that place, but on `axis`
/// at the position that the index names.
///
/// Source: ONNX operator `GatherElements`.
///
/// # Errors
/// When shapes do not fit or an index is out of range.
pub fn gather_elements<T: Element, I: Index>(
    data: &View<'_, T>,
    axis: usize,
    indices: &[I],
    extents: &[usize],
    out: &mut [T],
) -> Result<(), KernelError> {
    check_inside("indices", extents, data.shape(), axis)?;
    KernelError::check_len("indices", extents.iter().product(), indices.len())?;
    KernelError::check_len("output", indices.len(), out.len())?;
    let mut place = Dims::from_elem(0, extents.len());
    for (index, slot) in indices.iter().zip(out) {
        let own = std::mem::replace(
            &mut place[axis],
            position(index.number(), data.shape()[axis])?,
        );
        // The place is inside: checked above, and `position` on `axis`.
        *slot = data.get(&place).unwrap_or_default();
        place[axis] = own;
        advance(&mut place, extents);
    }
    Ok(())
}

/// Takes the blocks of `data` that the tuples of `indices` name. The first `batch_dims` axes of `data` and of
/// `indices` (dense, of shape `extents`, tuples along its last axis) run together.
///
/// Source: ONNX operator `GatherND`.
///
/// # Errors
/// When shapes do not fit or an index is out of range.
pub fn gather_nd<T: Element, I: Index>(
    data: &View<'_, T>,
    batch_dims: usize,
    indices: &[I],
    extents: &[usize],
    out: &mut [T],
) -> Result<(), KernelError> {
    let shape = data.shape();
    let depth = extents.last().copied().unwrap_or(0);
    let fits = batch_dims < extents.len()
        && batch_dims
            .checked_add(depth)
            .is_some_and(|used| used <= shape.len())
        && extents[..batch_dims] == shape[..batch_dims];
    if !fits {
        return Err(KernelError::Mismatch {
            operation: "GatherND",
            left: shape.to_vec(),
            right: extents.to_vec(),
        });
    }
    let used = batch_dims + depth;
    let block: usize = shape[used..].iter().product();
    let tuples: usize = extents[..extents.len() - 1].iter().product();
    let batches: usize = extents[..batch_dims].iter().product();
    KernelError::check_len("indices", tuples * depth, indices.len())?;
    KernelError::check_len("output", tuples * block, out.len())?;
    if tuples == 0 {
        return Ok(());
    }
    let dense = data.as_slice();
    let mut batch = Dims::from_elem(0, batch_dims);
    for tuple in 0..tuples {
        let mut at = batch.clone();
        for (axis, index) in (batch_dims..used).zip(&indices[tuple * depth..][..depth]) {
            at.push(position(index.number(), shape[axis])?);
        }
        let target = &mut out[tuple * block..][..block];
        match dense {
            Some(dense) => {
                let from = at
                    .iter()
                    .zip(shape)
                    .fold(0, |from, (&i, &extent)| from * extent + i);
                target.copy_from_slice(&dense[from * block..][..block]);
            }
            None => {
                let mut view = data.clone();
                for &i in &at {
                    view = view
                        .index(0, i)
                        .ok_or_else(|| KernelError::shape("data", extents, shape))?;
                }
                view.copy_to(target);
            }
        }
        if (tuple + 1) % (tuples / batches) == 0 {
            advance(&mut batch, &extents[..batch_dims]);
        }
    }
    Ok(())
}

/// A type with a total order: NaN is above everything.
pub trait Ordered: Element {
    /// Compares.
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! ordered_integers {
    ($($t:ty),*) => { $(impl Ordered for $t {
        fn order(&self, other: &$t) -> Ordering { self.cmp(other) }
    })* };
}
ordered_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! ordered_floats {
    ($($t:ty),*) => { $(impl Ordered for $t {
        fn order(&self, other: &$t) -> Ordering {
            self.partial_cmp(other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
        }
    })* };
}
ordered_floats!(f32, f64, f16, bf16);

/// The `k` largest (or smallest) elements along `axis` with their positions, best first; of equal ones the one that
/// comes first. Both outputs have the shape of `data` with `k` on that axis.
///
/// Source: ONNX operator `TopK`.
///
/// # Errors
/// When `k` exceeds the axis or an output has another length.
pub fn top_k<T: Ordered>(
    data: &View<'_, T>,
    axis: usize,
    k: usize,
    largest: bool,
    values: &mut [T],
    positions: &mut [i64],
) -> Result<(), KernelError> {
    let shape = data.shape();
    let Some(&extent) = shape.get(axis) else {
        return Err(KernelError::Rank {
            operand: "data",
            expected: "more axes than `axis`",
            got: data.rank(),
        });
    };
    if k > extent {
        let got = i64::try_from(k).unwrap_or(i64::MAX);
        return Err(KernelError::Range {
            parameter: "k",
            got,
            low: 0,
            high: extent as i64,
        });
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    KernelError::check_len("values", outer * k * inner, values.len())?;
    KernelError::check_len("positions", outer * k * inner, positions.len())?;
    if values.is_empty() {
        return Ok(());
    }
    let order: Dims = (0..shape.len())
        .filter(|&a| a != axis)
        .chain([axis])
        .collect();
    let lines = data
        .permute(&order)
        .ok_or_else(|| KernelError::shape("data", shape, shape))?;
    let mut line: Vec<(T, usize)> = Vec::with_capacity(extent);
    let better = |a: &(T, usize), b: &(T, usize)| {
        let by_value = if largest {
            b.0.order(&a.0)
        } else {
            a.0.order(&b.0)
        };
        by_value.then(a.1.cmp(&b.1))
    };
    for (number, lane) in lines.lanes().enumerate() {
        line.clear();
        line.extend(lane.iter().enumerate().map(|(at, value)| (value, at)));
        if k < extent {
            line.select_nth_unstable_by(k, better);
        }
        line[..k].sort_unstable_by(better);
        let base = number / inner * k * inner + number % inner;
        for (rank, &(value, at)) in line[..k].iter().enumerate() {
            values[base + rank * inner] = value;
            positions[base + rank * inner] = at as i64;
        }
    }
    Ok(())
}

/// How many elements are not zero. NaN is not zero, -0.0 is.
pub fn count_non_zero<T: Element>(data: &View<'_, T>) -> usize {
    data.iter().filter(|value| *value != T::default()).count()
}

/// The indices of the elements that are not zero, in row-major order; `out` has one row an axis.
///
/// Source: ONNX operator `NonZero`.
///
/// # Errors
/// When `out` does not have `rank * count_non_zero(data)` elements.
pub fn non_zero<T: Element>(data: &View<'_, T>, out: &mut [i64]) -> Result<(), KernelError> {
    let count = count_non_zero(data);
    KernelError::check_len("output", data.rank() * count, out.len())?;
    let mut index = Dims::from_elem(0, data.rank());
    let mut found = 0;
    for value in data.iter() {
        if value != T::default() {
            for (axis, &i) in index.iter().enumerate() {
                out[axis * count + found] = i as i64;
            }
            found += 1;
        }
        advance(&mut index, data.shape());
    }
    Ok(())
}

/// Writes `on` where the new axis (of extent `depth`, before the last `inner` elements of each index) equals the
/// index, `off` elsewhere. Indices outside `-depth..depth` write nothing.
///
/// Source: ONNX operator `OneHot`.
///
/// # Errors
/// When `out` does not have `indices.len() * depth` elements or `inner` does not divide the indices.
pub fn one_hot<T: Element>(
    indices: &[i64],
    depth: usize,
    inner: usize,
    (off, on): (T, T),
    out: &mut [T],
) -> Result<(), KernelError> {
    let elements = indices.len().saturating_mul(depth);
    KernelError::check_len("output", elements, out.len())?;
    out.fill(off);
    if indices.is_empty() {
        return Ok(());
    }
    if inner == 0 || !indices.len().is_multiple_of(inner) {
        return Err(KernelError::Length {
            operand: "indices",
            expected: inner,
            got: indices.len(),
        });
    }
    for (number, &index) in indices.iter().enumerate() {
        if let Ok(at) = position(index, depth) {
            out[(number / inner * depth + at) * inner + number % inner] = on;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<i32> {
        (0..n as i32).map(|i| i * 7 % 101 + 1).collect()
    }

    /// A strided and a dense view of the same shape.
    fn views<'a>(data: &'a [i32], shape: &[usize]) -> [View<'a, i32>; 2] {
        let back: Vec<usize> = shape.iter().rev().copied().collect();
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        let turned = View::from_slice(data, &back)
            .unwrap()
            .permute(&order)
            .unwrap();
        [turned, View::from_slice(data, shape).unwrap()]
    }

    #[test]
    fn gather_takes_positions_of_every_axis() {
        let data = numbers(2 * 3 * 5);
        for view in views(&data, &[2, 3, 5]) {
            for axis in 0..3 {
                let extent = view.shape()[axis];
                let indices = [0i64, -1, 1, -(extent as i64), 1];
                let mut shape = view.shape().to_vec();
                shape[axis] = indices.len();
                let mut out = vec![0; shape.iter().product()];
                gather(&view, axis, &indices, &mut out).unwrap();
                let got = View::from_slice(&out, &shape).unwrap();
                for a in 0..shape[0] {
                    for b in 0..shape[1] {
                        for c in 0..shape[2] {
                            let mut from = [a, b, c];
                            from[axis] = indices[from[axis]].rem_euclid(extent as i64) as usize;
                            assert_eq!(got.get(&[a, b, c]), view.get(&from), "axis {axis}");
                        }
                    }
                }
                for bad in [extent as i64, -(extent as i64) - 1, i64::MIN, i64::MAX] {
                    let mut out = vec![0; 30 / extent];
                    assert!(gather(&view, axis, &[bad], &mut out).is_err(), "{bad}");
                }
            }
        }
        let none = View::<i32>::from_slice(&[], &[0, 3]).unwrap();
        assert!(gather(&none, 0, &[0i32], &mut [0; 3]).is_err());
        gather(&none, 1, &[2i32], &mut []).unwrap();
    }

    #[test]
    fn gather_elements_reads_along_its_axis() {
        let data = numbers(24);
        for view in views(&data, &[4, 3, 2]) {
            let extents = [2, 3, 2];
            let indices: Vec<i64> = (0..12)
                .map(|i| (i * 5) % 4 - if i % 3 == 0 { 4 } else { 0 })
                .collect();
            let mut out = vec![0; 12];
            gather_elements(&view, 0, &indices, &extents, &mut out).unwrap();
            for (n, &got) in out.iter().enumerate() {
                let from = [indices[n].rem_euclid(4) as usize, n / 2 % 3, n % 2];
                assert_eq!(Some(got), view.get(&from));
            }
            assert!(gather_elements(&view, 1, &[0i64; 30], &[5, 3, 2], &mut [0; 30]).is_err());
            assert!(gather_elements(&view, 1, &[3i64], &[1, 1, 1], &mut [0]).is_err());
        }
    }

    #[test]
    fn gather_nd_with_and_without_batches() {
        let data = numbers(2 * 3 * 4);
        for view in views(&data, &[2, 3, 4]) {
            let mut out = vec![0; 8];
            gather_nd(&view, 0, &[1i32, -1, 0, 1], &[2, 2], &mut out).unwrap();
            for c in 0..4 {
                assert_eq!(Some(out[c]), view.get(&[1, 2, c]));
                assert_eq!(Some(out[4 + c]), view.get(&[0, 1, c]));
            }
            // Batches of three single indices into axis 1 of the same batch entry.
            let indices = [2i64, 0, 1, -1, -2, 2];
            let mut out = vec![0; 2 * 3 * 4];
            gather_nd(&view, 1, &indices, &[2, 3, 1], &mut out).unwrap();
            for b in 0..2 {
                for n in 0..3 {
                    for c in 0..4 {
                        let at = indices[b * 3 + n].rem_euclid(3) as usize;
                        assert_eq!(Some(out[(b * 3 + n) * 4 + c]), view.get(&[b, at, c]));
                    }
                }
            }
            assert!(gather_nd(&view, 0, &[0i64, 3], &[1, 2], &mut [0; 4]).is_err());
            assert!(gather_nd(&view, 2, &[0i64; 6], &[2, 2, 1], &mut [0; 4]).is_err());
            assert!(gather_nd(&view, 0, &[0i64; 4], &[1, 4], &mut [0]).is_err());
        }
    }

    #[test]
    fn top_k_orders_and_breaks_ties_by_position() {
        let data = [3f32, 1., 3., f32::NAN, -2., 3.];
        let view = View::from_slice(&data, &[6]).unwrap();
        let (mut values, mut at) = ([0f32; 4], [0i64; 4]);
        top_k(&view, 0, 4, true, &mut values, &mut at).unwrap();
        assert!(values[0].is_nan());
        assert_eq!((at, &values[1..]), ([3, 0, 2, 5], &[3., 3., 3.][..]));
        top_k(&view, 0, 4, false, &mut values, &mut at).unwrap();
        assert_eq!((at, values), ([4, 1, 0, 2], [-2., 1., 3., 3.]));
        assert!(top_k(&view, 0, 7, true, &mut [0.; 7], &mut [0; 7]).is_err());
        // Along an outer axis: a full sort of each column is the reference.
        let data = numbers(4 * 3);
        for view in views(&data, &[4, 3]) {
            let (mut values, mut at) = ([0; 6], [0i64; 6]);
            top_k(&view, 0, 2, true, &mut values, &mut at).unwrap();
            for column in 0..3 {
                let mut all: Vec<(i32, i64)> = (0..4)
                    .map(|row| (view.get(&[row, column]).unwrap(), row as i64))
                    .collect();
                all.sort_by_key(|&(value, row)| (-value, row));
                for rank in 0..2 {
                    assert_eq!(
                        (values[rank * 3 + column], at[rank * 3 + column]),
                        all[rank]
                    );
                }
            }
        }
    }

    #[test]
    fn non_zero_and_one_hot() {
        let data = [0., -0., f32::NAN, 4., 0., -1.];
        let view = View::from_slice(&data, &[2, 3]).unwrap();
        let mut out = [9; 6];
        non_zero(&view, &mut out).unwrap();
        assert_eq!(out, [0, 1, 1, 2, 0, 2]);
        assert!(non_zero(&view, &mut [0; 5]).is_err());
        let scalar = View::from_slice(&[1u8], &[]).unwrap();
        assert_eq!(count_non_zero(&scalar), 1);
        non_zero(&scalar, &mut []).unwrap();

        let mut out = [0u8; 12];
        one_hot(&[1, -1, 3, -4], 3, 2, (5, 7), &mut out).unwrap();
        // [2 outer, 3 deep, 2 inner]
        assert_eq!(out, [5, 5, 7, 5, 5, 7, 5, 5, 5, 5, 5, 5]);
        assert!(one_hot(&[i64::MIN, 0], 0, 1, (0, 1), &mut []).is_ok());
    }
}
