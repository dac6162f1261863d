//! The algorithms of [`crate::vecmath`], generic over the vector type.

use crate::simd::Simd;
use crate::storage::{Accumulator, Real};

/// Loads fewer than `LANES` elements; the rest is `fill`.
#[inline(always)]
pub(crate) fn load_part<E: Accumulator, S: Simd<E>, T: Real<Acc = E>>(
    s: S,
    x: &[T],
    fill: T,
) -> S::V {
    let mut padded = [fill; 16];
    padded[..x.len()].copy_from_slice(x);
    T::load(s, &padded[..S::LANES])
}

/// Writes the first `out.len()` lanes, fewer than `LANES`.
#[inline(always)]
pub(crate) fn store_part<E: Accumulator, S: Simd<E>>(s: S, v: S::V, out: &mut [E]) {
    let mut padded = [E::ZERO; 16];
    s.store(v, &mut padded[..S::LANES]);
    out.copy_from_slice(&padded[..out.len()]);
}

#[inline(always)]
pub(crate) fn dot<T: Real, S: Simd<T::Acc>>(s: S, a: &[T::Acc], b: &[T]) -> T::Acc {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let l = S::LANES;
    let mut acc = [s.splat(T::Acc::ZERO); 4];
    let (mut a4, mut b4) = (a.chunks_exact(4 * l), b.chunks_exact(4 * l));
    for (a, b) in (&mut a4).zip(&mut b4) {
        for i in 0..4 {
            acc[i] = s.fma(s.load(&a[i * l..]), T::load(s, &b[i * l..]), acc[i]);
        }
    }
    let (mut a1, mut b1) = (
        a4.remainder().chunks_exact(l),
        b4.remainder().chunks_exact(l),
    );
    for (a, b) in (&mut a1).zip(&mut b1) {
        acc[0] = s.fma(s.load(a), T::load(s, b), acc[0]);
    }
    if !a1.remainder().is_empty() {
        let a = load_part(s, a1.remainder(), T::Acc::ZERO);
        acc[1] = s.fma(a, load_part(s, b1.remainder(), T::default()), acc[1]);
    }
    s.sum(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
}

#[inline(always)]
pub(crate) fn axpy<T: Real, S: Simd<T::Acc>>(s: S, factor: T::Acc, x: &[T], y: &mut [T::Acc]) {
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &mut y[..n]);
    let f = s.splat(factor);
    let mut xs = x.chunks_exact(S::LANES);
    let mut ys = y.chunks_exact_mut(S::LANES);
    for (x, y) in (&mut xs).zip(&mut ys) {
        s.store(s.fma(f, T::load(s, x), s.load(y)), y);
    }
    let y = ys.into_remainder();
    if !y.is_empty() {
        let x = load_part(s, xs.remainder(), T::default());
        store_part(s, s.fma(f, x, load_part(s, y, T::Acc::ZERO)), y);
    }
}

/// `x = f(x)` for every element.
#[inline(always)]
fn map<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E], f: impl Fn(S::V) -> S::V) {
    let mut chunks = x.chunks_exact_mut(S::LANES);
    for x in &mut chunks {
        s.store(f(s.load(x)), x);
    }
    let x = chunks.into_remainder();
    if !x.is_empty() {
        store_part(s, f(load_part(s, x, E::ZERO)), x);
    }
}

#[inline(always)]
pub(crate) fn scale<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E], factor: E) {
    let f = s.splat(factor);
    map(s, x, |v| s.mul(v, f));
}

/// Folds all elements into two registers with `f`, then those into one; `fill` does not change a result.
#[inline(always)]
fn fold<T: Real, S: Simd<T::Acc>>(
    s: S,
    x: &[T],
    start: T::Acc,
    fill: T,
    f: impl Fn(S::V, S::V) -> S::V,
) -> [S::V; 2] {
    let l = S::LANES;
    let mut acc = [s.splat(start); 2];
    let mut pairs = x.chunks_exact(2 * l);
    for x in &mut pairs {
        acc[0] = f(T::load(s, x), acc[0]);
        acc[1] = f(T::load(s, &x[l..]), acc[1]);
    }
    let mut single = pairs.remainder().chunks_exact(l);
    for x in &mut single {
        acc[0] = f(T::load(s, x), acc[0]);
    }
    if !single.remainder().is_empty() {
        acc[1] = f(load_part(s, single.remainder(), fill), acc[1]);
    }
    acc
}

#[inline(always)]
pub(crate) fn sum<T: Real, S: Simd<T::Acc>>(s: S, x: &[T]) -> T::Acc {
    let [a, b] = fold(s, x, T::Acc::ZERO, T::default(), |v, acc| s.add(acc, v));
    s.sum(s.add(a, b))
}

#[inline(always)]
pub(crate) fn sum_squares<T: Real, S: Simd<T::Acc>>(s: S, x: &[T], center: T::Acc) -> T::Acc {
    let c = s.splat(center);
    let whole = x.len() / S::LANES * S::LANES;
    let [a, b] = fold(s, &x[..whole], T::Acc::ZERO, T::default(), |v, acc| {
        let d = s.sub(v, c);
        s.fma(d, d, acc)
    });
    let mut total = s.sum(s.add(a, b));
    for x in &x[whole..] {
        let d = x.to_acc() - center;
        total += d * d;
    }
    total
}

#[inline(always)]
pub(crate) fn max<T: Real, S: Simd<T::Acc>>(s: S, x: &[T]) -> T::Acc {
    let low = T::Acc::NEG_INFINITY;
    let [a, b] = fold(s, x, low, T::from_acc(low), |v, acc| s.max(v, acc));
    s.largest(s.max(a, b))
}

#[inline(always)]
pub(crate) fn exp<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E]) {
    map(s, x, |v| s.exp(v));
}

#[inline(always)]
pub(crate) fn exp_sum<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E], shift: E) -> E {
    let m = s.splat(shift);
    let mut acc = s.splat(E::ZERO);
    let mut chunks = x.chunks_exact_mut(S::LANES);
    for x in &mut chunks {
        let e = s.exp(s.sub(s.load(x), m));
        s.store(e, x);
        acc = s.add(acc, e);
    }
    let mut total = s.sum(acc);
    let x = chunks.into_remainder();
    if !x.is_empty() {
        store_part(s, s.exp(s.sub(load_part(s, x, shift), m)), x);
        for x in x {
            total += *x;
        }
    }
    total
}

#[inline(always)]
pub(crate) fn sigmoid_vector<E: Accumulator, S: Simd<E>>(s: S, v: S::V) -> S::V {
    let one = s.splat(E::ONE);
    let e = s.exp(s.sub(s.splat(E::ZERO), v));
    s.div(one, s.add(one, e))
}

#[inline(always)]
pub(crate) fn sigmoid<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E]) {
    map(s, x, |v| sigmoid_vector(s, v));
}

/// Near zero, where the quotient of the other branch would cancel, x + x³·P(x²)/Q(x²); else (1 - t) / (1 + t) with
/// t = e^(-2|x|).
///
/// Source: S. Moshier, Cephes Math Library, tanh.
#[inline(always)]
pub(crate) fn tanh_vector<E: Accumulator, S: Simd<E>>(s: S, v: S::V) -> S::V {
    let c = |x: f64| s.splat(E::from_f64(x));
    let (zero, one) = (s.splat(E::ZERO), s.splat(E::ONE));
    let z = s.mul(v, v);
    let p = s.fma(z, c(-0.964_399_179_425_052_2), c(-99.287_723_100_191_86));
    let p = s.fma(z, p, c(-1_614.687_684_417_084_5));
    let q = s.add(z, c(112.811_678_491_632_93));
    let q = s.fma(z, q, c(2_235.488_390_601_004_5));
    let q = s.fma(z, q, c(4_844.063_053_251_255));
    let near = s.fma(s.mul(v, z), s.div(p, q), v);
    let magnitude = s.max(s.sub(zero, v), v);
    let t = s.exp(s.mul(magnitude, c(-2.0)));
    let far = s.div(s.sub(one, t), s.add(one, t));
    let far = s.select_lt(v, zero, s.sub(zero, far), far);
    s.select_lt(magnitude, c(0.625), near, far)
}

#[inline(always)]
pub(crate) fn tanh<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E]) {
    map(s, x, |v| tanh_vector(s, v));
}

#[inline(always)]
pub(crate) fn softmax<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E]) {
    let top = max(s, x);
    let total = exp_sum(s, x, top);
    scale(s, x, E::ONE / total);
}

#[inline(always)]
pub(crate) fn log_softmax<E: Accumulator, S: Simd<E>>(s: S, x: &mut [E]) {
    let top = max(s, x);
    let mut copy = E::scratch(x.len());
    copy.copy_from_slice(x);
    let total = exp_sum(s, &mut copy, top);
    let shift = s.splat(top + total.ln());
    map(s, x, |v| s.sub(v, shift));
}
