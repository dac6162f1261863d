//! Loops over operands that broadcast against each other, fast shapes first.
//!
//! Most calls are one of: same dense shape, or a scalar with anything. These are one plain loop over slices, which the
//! compiler vectorises. Everything else goes through strided views: axes that both operands let us merge are merged,
//! and the rest is done lane by lane, each lane being a slice, one element for all, or strided.

use super::ElementwiseError;
use refeed_values::{Dims, Element, Lane, View};

/// One operand over a stretch of the output.
enum Stretch<'a, T> {
    /// Neighbours in memory.
    Slice(&'a [T]),
    /// One element for all of it.
    Same(T),
    /// Elements at a distance.
    Strided(Lane<'a, T>),
}

impl<'a, T: Element> Stretch<'a, T> {
    #[inline(always)]
    fn of(lane: Lane<'a, T>) -> Stretch<'a, T> {
        match (lane.as_slice(), lane.get(0)) {
            (Some(slice), _) => Stretch::Slice(slice),
            (None, Some(all)) if lane.stride() == 0 => Stretch::Same(all),
            _ => Stretch::Strided(lane),
        }
    }
}

/// The loops over one stretch. One copy an operator and type, on purpose: they are what the crate spends its
/// compile time on.
#[inline(never)]
fn map_stretch<A: Element, O: Element>(
    a: Stretch<'_, A>,
    out: &mut [O],
    f: impl Fn(A) -> O + Copy,
) {
    match a {
        Stretch::Slice(a) => out.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a)),
        Stretch::Same(a) => out.fill(f(a)),
        Stretch::Strided(a) => out.iter_mut().zip(a.iter()).for_each(|(o, a)| *o = f(a)),
    }
}

/// As [`map_stretch`], for two operands.
#[inline(never)]
fn zip_stretch<A: Element, B: Element, O: Element>(
    a: Stretch<'_, A>,
    b: Stretch<'_, B>,
    out: &mut [O],
    f: impl Fn(A, B) -> O + Copy,
) {
    use Stretch::{Same, Slice, Strided};
    match (a, b) {
        (Slice(a), Slice(b)) => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = f(a, b);
            }
        }
        (Slice(a), Same(b)) => out.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, b)),
        (Same(a), Slice(b)) => out.iter_mut().zip(b).for_each(|(o, &b)| *o = f(a, b)),
        (a, b) => {
            for (index, o) in out.iter_mut().enumerate() {
                *o = f(at(&a, index), at(&b, index));
            }
        }
    }
    #[inline(always)]
    fn at<T: Element>(x: &Stretch<'_, T>, index: usize) -> T {
        match x {
            Slice(slice) => slice.get(index).copied().unwrap_or_default(),
            Same(all) => *all,
            Strided(lane) => lane.get(index).unwrap_or_default(),
        }
    }
}

/// `out[i] = f(a[i])`, in row-major order.
#[inline(always)]
pub(crate) fn map<A: Element, O: Element>(
    a: &View<'_, A>,
    out: &mut [O],
    f: impl Fn(A) -> O + Copy,
) -> Result<(), ElementwiseError> {
    if a.len() != out.len() {
        return Err(shape(a, &[out.len()]));
    }
    if let Some(a) = a.as_slice() {
        map_stretch(Stretch::Slice(a), out, f);
        return Ok(());
    }
    let width = a.shape().last().copied().unwrap_or(1).max(1);
    for (lane, out) in a.lanes().zip(out.chunks_exact_mut(width)) {
        map_stretch(Stretch::of(lane), out, f);
    }
    Ok(())
}

fn shape<A: Element>(a: &View<'_, A>, expected: &[usize]) -> ElementwiseError {
    ElementwiseError::Shape {
        expected: expected.to_vec(),
        got: a.shape().to_vec(),
    }
}

/// `out[i] = f(a[i], b[i])` with both operands broadcast to `to`, the shape of `out`.
#[inline(always)]
pub(crate) fn zip<A: Element, B: Element, O: Element>(
    a: &View<'_, A>,
    b: &View<'_, B>,
    to: &[usize],
    out: &mut [O],
    f: impl Fn(A, B) -> O + Copy,
) -> Result<(), ElementwiseError> {
    if out.is_empty() {
        return Ok(());
    }
    // A dense operand with as many elements as the output has the output's shape, but for leading ones.
    if let (Some(x), Some(y)) = (a.as_slice(), b.as_slice()) {
        let stretches = match (x, y) {
            _ if x.len() == out.len() && y.len() == out.len() => {
                Some((Stretch::Slice(x), Stretch::Slice(y)))
            }
            (_, &[y]) if x.len() == out.len() => Some((Stretch::Slice(x), Stretch::Same(y))),
            (&[x], _) if y.len() == out.len() => Some((Stretch::Same(x), Stretch::Slice(y))),
            _ => None,
        };
        if let Some((a, b)) = stretches {
            zip_stretch(a, b, out, f);
            return Ok(());
        }
    }
    let (a, b) = merged(a, b, to)?;
    let width = a.shape().last().copied().unwrap_or(1).max(1);
    for ((a, b), out) in a.lanes().zip(b.lanes()).zip(out.chunks_exact_mut(width)) {
        zip_stretch(Stretch::of(a), Stretch::of(b), out, f);
    }
    Ok(())
}

/// Both views, broadcast, under the shape with the fewest axes that needs no copy of either.
fn merged<'a, A: Element, B: Element>(
    a: &View<'a, A>,
    b: &View<'a, B>,
    to: &[usize],
) -> Result<(View<'a, A>, View<'a, B>), ElementwiseError> {
    let a = a.broadcast(to).ok_or_else(|| shape(a, to))?;
    let b = b.broadcast(to).ok_or_else(|| shape(b, to))?;
    let mut dims = Dims::new();
    let mut last: Option<usize> = None;
    for (axis, &dim) in to.iter().enumerate() {
        if dim == 1 {
            continue;
        }
        let nested = |strides: &[isize], outer: usize| {
            strides[outer] == strides[axis].saturating_mul(dim as isize)
        };
        match (last, dims.last_mut()) {
            (Some(outer), Some(held))
                if nested(a.strides(), outer) && nested(b.strides(), outer) =>
            {
                *held *= dim;
            }
            _ => dims.push(dim),
        }
        last = Some(axis);
    }
    match (a.reshape(&dims), b.reshape(&dims)) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Ok((a, b)),
    }
}

/// `out[i] = f(a[i], b[i], c[i])` with all operands broadcast to `to`, the shape of `out`.
#[inline(always)]
pub(crate) fn zip3<A: Element, B: Element, C: Element, O: Element>(
    a: &View<'_, A>,
    b: &View<'_, B>,
    c: &View<'_, C>,
    to: &[usize],
    out: &mut [O],
    f: impl Fn(A, B, C) -> O + Copy,
) -> Result<(), ElementwiseError> {
    if out.is_empty() {
        return Ok(());
    }
    let a = a.broadcast(to).ok_or_else(|| shape(a, to))?;
    let b = b.broadcast(to).ok_or_else(|| shape(b, to))?;
    let c = c.broadcast(to).ok_or_else(|| shape(c, to))?;
    // One lane when nothing stands against it: all operands dense, or one element for all.
    let line = [out.len()];
    let (a, b, c) = match (a.reshape(&line), b.reshape(&line), c.reshape(&line)) {
        (Some(a), Some(b), Some(c)) => (a, b, c),
        _ => (a, b, c),
    };
    let width = a.shape().last().copied().unwrap_or(1).max(1);
    let lanes = a.lanes().zip(b.lanes()).zip(c.lanes());
    for (((a, b), c), out) in lanes.zip(out.chunks_exact_mut(width)) {
        zip3_stretch(a, b, c, out, f);
    }
    Ok(())
}

/// As [`map_stretch`], for three operands; the dense loops are those of masks: a choice between an operand and a
/// number, or between two operands.
#[inline(never)]
fn zip3_stretch<A: Element, B: Element, C: Element, O: Element>(
    a: Lane<'_, A>,
    b: Lane<'_, B>,
    c: Lane<'_, C>,
    out: &mut [O],
    f: impl Fn(A, B, C) -> O + Copy,
) {
    use Stretch::{Same, Slice};
    match (Stretch::of(a), Stretch::of(b), Stretch::of(c)) {
        (Slice(a), Slice(b), Slice(c)) => {
            for (((o, &a), &b), &c) in out.iter_mut().zip(a).zip(b).zip(c) {
                *o = f(a, b, c);
            }
        }
        (Slice(a), Slice(b), Same(c)) => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = f(a, b, c);
            }
        }
        (Slice(a), Same(b), Slice(c)) => {
            for ((o, &a), &c) in out.iter_mut().zip(a).zip(c) {
                *o = f(a, b, c);
            }
        }
        _ => {
            let lanes = a.iter().zip(b.iter()).zip(c.iter());
            for (o, ((a, b), c)) in out.iter_mut().zip(lanes) {
                *o = f(a, b, c);
            }
        }
    }
}
