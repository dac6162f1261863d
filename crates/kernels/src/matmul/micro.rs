//! The inner loops of matrix products and attention, and the packing of tiles.
//!
//! A panel holds a strip of a matrix so that the inner loop reads straight on: of the left operand `TILE_ROWS` rows, of
//! the right one two registers of columns; the elements of one depth lie together, the next depth follows. Strips at
//! an edge are filled up with zeros, so the inner loop has no edges.

use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies::{load_part, store_part};
use refeed_values::View;

/// Depth that is multiplied at a time: both panels stay in the caches.
pub(crate) const DEPTH: usize = 256;

/// The rows of a matrix whose rows are dense, without computing an offset by axes each time.
#[derive(Debug, Clone)]
pub(crate) struct Lines<'a, T> {
    view: View<'a, T>,
    /// All rows, where they follow one another.
    whole: Option<&'a [T]>,
    width: usize,
}

impl<'a, T: Real> Lines<'a, T> {
    /// `None` unless the view has two axes and the last one is dense.
    pub(crate) fn new(view: View<'a, T>) -> Option<Self> {
        let &[_, width] = view.shape() else {
            return None;
        };
        let dense = width <= 1 || view.strides()[1] == 1;
        dense.then(|| Lines {
            whole: view.as_slice(),
            view,
            width,
        })
    }

    /// Row `i`.
    #[inline(always)]
    pub(crate) fn line(&self, i: usize) -> &'a [T] {
        match self.whole {
            Some(all) => &all[i * self.width..][..self.width],
            None => self
                .view
                .lane(&[i])
                .and_then(|lane| lane.as_slice())
                .unwrap_or(&[]),
        }
    }
}

/// Widens a slice.
#[inline(always)]
pub(crate) fn widen<T: Real, S: Simd<T::Acc>>(s: S, from: &[T], to: &mut [T::Acc]) {
    let mut source = from.chunks_exact(S::LANES);
    let mut target = to[..from.len()].chunks_exact_mut(S::LANES);
    for (x, y) in (&mut source).zip(&mut target) {
        s.store(T::load(s, x), y);
    }
    let rest = target.into_remainder();
    if !rest.is_empty() {
        store_part(s, load_part(s, source.remainder(), T::default()), rest);
    }
}

/// Rounds a slice to its storage type.
#[inline(always)]
pub(crate) fn narrow<T: Real>(from: &[T::Acc], to: &mut [T]) {
    match T::as_acc_mut(to) {
        Some(to) => to.copy_from_slice(from),
        None => {
            for (x, y) in from.iter().zip(to) {
                *y = T::from_acc(*x);
            }
        }
    }
}

/// `y += factors[0] * x[0] + factors[1] * x[1] + ..`, all of one length, in that order.
#[inline(always)]
pub(crate) fn axpys<T: Real, S: Simd<T::Acc>, const N: usize>(
    s: S,
    factors: [T::Acc; N],
    x: [&[T]; N],
    y: &mut [T::Acc],
) {
    let l = S::LANES;
    let n = y.len();
    let mut f = [s.splat(T::Acc::ZERO); N];
    let mut x = x;
    for i in 0..N {
        f[i] = s.splat(factors[i]);
        x[i] = &x[i][..n];
    }
    let mut at = 0;
    while at + 2 * l <= n {
        let (mut a, mut b) = (s.load(&y[at..]), s.load(&y[at + l..]));
        for i in 0..N {
            a = s.fma(f[i], T::load(s, &x[i][at..]), a);
            b = s.fma(f[i], T::load(s, &x[i][at + l..]), b);
        }
        s.store(a, &mut y[at..]);
        s.store(b, &mut y[at + l..]);
        at += 2 * l;
    }
    while at < n {
        let end = (at + l).min(n);
        let whole = end - at == l;
        let mut a = if whole {
            s.load(&y[at..])
        } else {
            load_part(s, &y[at..end], T::Acc::ZERO)
        };
        for i in 0..N {
            let v = if whole {
                T::load(s, &x[i][at..])
            } else {
                load_part(s, &x[i][at..end], T::default())
            };
            a = s.fma(f[i], v, a);
        }
        if whole {
            s.store(a, &mut y[at..]);
        } else {
            store_part(s, a, &mut y[at..end]);
        }
        at = end;
    }
}

/// Dot products of `M` vectors with `N` others, all of one length.
#[inline(always)]
pub(crate) fn dots<T: Real, S: Simd<T::Acc>, const M: usize, const N: usize>(
    s: S,
    a: [&[T::Acc]; M],
    b: [&[T]; N],
) -> [[T::Acc; N]; M] {
    let l = S::LANES;
    let n = a[0].len();
    let (mut a, mut b) = (a, b);
    for x in &mut a {
        *x = &x[..n];
    }
    for x in &mut b {
        *x = &x[..n];
    }
    let mut acc = [[s.splat(T::Acc::ZERO); N]; M];
    let mut at = 0;
    while at + l <= n {
        let mut y = [s.splat(T::Acc::ZERO); N];
        for j in 0..N {
            y[j] = T::load(s, &b[j][at..]);
        }
        for i in 0..M {
            let x = s.load(&a[i][at..]);
            for j in 0..N {
                acc[i][j] = s.fma(x, y[j], acc[i][j]);
            }
        }
        at += l;
    }
    if at < n {
        let mut y = [s.splat(T::Acc::ZERO); N];
        for j in 0..N {
            y[j] = load_part(s, &b[j][at..], T::default());
        }
        for i in 0..M {
            let x = load_part(s, &a[i][at..], T::Acc::ZERO);
            for j in 0..N {
                acc[i][j] = s.fma(x, y[j], acc[i][j]);
            }
        }
    }
    let mut out = [[T::Acc::ZERO; N]; M];
    for i in 0..M {
        for j in 0..N {
            out[i][j] = s.sum(acc[i][j]);
        }
    }
    out
}

/// Adds the product of a left panel and a right panel to a tile of `c`, whose rows are `stride` apart.
#[inline(always)]
pub(crate) fn tile<E: Accumulator, S: Simd<E>>(s: S, a: &[E], b: &[E], c: &mut [E], stride: usize) {
    match S::TILE_ROWS {
        12 => tile_of::<E, S, 12>(s, a, b, c, stride),
        6 => tile_of::<E, S, 6>(s, a, b, c, stride),
        _ => tile_of::<E, S, 2>(s, a, b, c, stride),
    }
}

#[inline(always)]
fn tile_of<E: Accumulator, S: Simd<E>, const R: usize>(
    s: S,
    a: &[E],
    b: &[E],
    c: &mut [E],
    stride: usize,
) {
    let l = S::LANES;
    let mut acc = [[s.splat(E::ZERO); 2]; R];
    for (a, b) in a.chunks_exact(R).zip(b.chunks_exact(2 * l)) {
        let (b0, b1) = (s.load(b), s.load(&b[l..]));
        for i in 0..R {
            let x = s.splat(a[i]);
            acc[i][0] = s.fma(x, b0, acc[i][0]);
            acc[i][1] = s.fma(x, b1, acc[i][1]);
        }
    }
    for (i, acc) in acc.iter().enumerate() {
        let c = &mut c[i * stride..][..2 * l];
        for (j, v) in acc.iter().enumerate() {
            let c = &mut c[j * l..];
            s.store(s.add(s.load(c), *v), c);
        }
    }
}

/// Rows that are read piece by piece.
pub(crate) trait Pieces<E: Accumulator> {
    /// Fills `out` with the elements of row `row` from `start` on; the row has as many.
    fn piece<S: Simd<E>>(&self, s: S, row: usize, start: usize, out: &mut [E]);
}

impl<T: Real> Pieces<T::Acc> for View<'_, T> {
    #[inline(always)]
    fn piece<S: Simd<T::Acc>>(&self, s: S, row: usize, start: usize, out: &mut [T::Acc]) {
        let Some(lane) = self.lane(&[row]) else {
            return out.fill(T::Acc::ZERO);
        };
        match lane.as_slice() {
            Some(dense) => widen(s, &dense[start..start + out.len()], out),
            None => {
                for (x, slot) in lane.iter().skip(start).zip(out) {
                    *slot = x.to_acc();
                }
            }
        }
    }
}

/// Copies rows `first..first + count` and depths `start..start + depth` of a matrix `[rows, depth]` into panels of
/// `width` rows each.
#[inline(always)]
pub(crate) fn pack_transposed<E: Accumulator, S: Simd<E>>(
    s: S,
    matrix: &impl Pieces<E>,
    (first, count): (usize, usize),
    (start, depth): (usize, usize),
    width: usize,
    out: &mut [E],
) {
    let mut line = [E::ZERO; DEPTH];
    for (panel, out) in out.chunks_exact_mut(width * depth).enumerate() {
        for place in 0..width {
            let row = panel * width + place;
            let line = &mut line[..depth];
            if row < count {
                matrix.piece(s, first + row, start, line);
            } else {
                line.fill(E::ZERO);
            }
            for (x, slot) in line.iter().zip(out[place..].iter_mut().step_by(width)) {
                *slot = *x;
            }
        }
    }
}

/// Copies depths `start..start + depth` and columns `first..first + count` of a matrix `[depth, columns]` into panels
/// of `width` columns each, `width` being a multiple of the register.
#[inline(always)]
pub(crate) fn pack_columns<T: Real, S: Simd<T::Acc>>(
    s: S,
    lines: &Lines<'_, T>,
    (first, count): (usize, usize),
    (start, depth): (usize, usize),
    width: usize,
    out: &mut [T::Acc],
) {
    for d in 0..depth {
        let line = &lines.line(start + d)[first..first + count];
        for (panel, part) in line.chunks(width).enumerate() {
            let slot = &mut out[(panel * depth + d) * width..][..width];
            widen(s, part, slot);
            slot[part.len()..].fill(T::Acc::ZERO);
        }
    }
}
