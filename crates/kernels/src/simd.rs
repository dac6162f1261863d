//! The small vector layer that kernels are written over, and its portable implementation.
//!
//! A [`Simd`] token stands for an instruction set and one accumulator type (f32 or f64). Kernels implement [`Op`] with
//! a body generic over the token; [`crate::Isa`] calls it inside a function compiled for the instruction set.
//! Everything here and everything that a body calls is `#[inline(always)]`; see the crate head for why.

use crate::storage::Accumulator;
use half::{bf16, f16};

/// Vectors of `E` on one instruction set. Slices passed to loads and stores have at least `LANES` elements.
pub trait Simd<E: Accumulator>: Copy {
    /// A register of `LANES` elements.
    type V: Copy;
    /// Elements in a register.
    const LANES: usize;
    /// Rows of a matrix-product tile that is two registers wide and fits the register file.
    const TILE_ROWS: usize;

    /// All lanes `x`.
    fn splat(self, x: E) -> Self::V;
    /// The first `LANES` elements.
    fn load(self, x: &[E]) -> Self::V;
    /// The first `LANES` elements, widened.
    fn load_f16(self, x: &[f16]) -> Self::V;
    /// The first `LANES` elements, widened.
    fn load_bf16(self, x: &[bf16]) -> Self::V;
    /// The register as it is, but loaded before those that are handed in later: compilers, left alone, load the cache lines
    /// of a row in any order. Nothing where rows are read as fast in any order.
    #[inline(always)]
    fn in_turn(self, v: Self::V) -> Self::V {
        v
    }
    /// Runs a computation in a function of its own, where the compiler has the registers for it alone: a loop that streams rows
    /// must not wait for addresses that come from memory.
    #[inline(always)]
    fn apart<O: Op<E>>(self, op: O) -> O::Output {
        op.run(self)
    }
    /// Asks for elements that will be read soon, for the second cache; nothing happens where there is no such instruction.
    #[inline(always)]
    fn prefetch<T>(self, x: &[T]) {
        let _ = x;
    }
    /// Writes `LANES` elements.
    fn store(self, v: Self::V, out: &mut [E]);
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, fused where the instruction set has it.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of each pair; `b` where one is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of each pair; `b` where one is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `x` where `a < b`, else `y`.
    fn select_lt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// Sum of the lanes, in a fixed order.
    fn sum(self, v: Self::V) -> E;
    /// Sums of the lanes of four registers, each in a fixed order: cheaper than four sums.
    fn sum_four(self, v: [Self::V; 4]) -> [E; 4];
    /// Largest lane, NaN apart.
    fn largest(self, v: Self::V) -> E;
    /// e to the power of each lane, within 2 units in the last place; 0 for -inf, NaN for NaN.
    fn exp(self, v: Self::V) -> Self::V;

    /// `LANES` bytes, one a lane, widened to whole lanes: what codes are picked from.
    type Bytes: Copy;
    /// The first `LANES` bytes; their sign is kept or not.
    fn load_bytes<const SIGNED: bool>(self, x: &[u8]) -> Self::Bytes;
    /// The bytes as numbers.
    fn whole<const SIGNED: bool>(self, x: Self::Bytes) -> Self::V;
    /// The 4-bit codes number `part`, 0 or 1, of the bytes as numbers; those of the low halves are number 0.
    fn half<const SIGNED: bool>(self, x: Self::Bytes, part: usize) -> Self::V;
    /// The 2-bit codes number `part`, 0 to 3, of the bytes as numbers; those of the lowest bits are number 0.
    fn quarter<const SIGNED: bool>(self, x: Self::Bytes, part: usize) -> Self::V;
    /// The lanes of both in turn, `a0 b0 a1 b1 ..`, in two registers.
    fn interleave(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// The sum of the lanes of each register, each in a fixed order. `v` and `out` are of one length.
    #[inline(always)]
    fn sums(self, v: &[Self::V], out: &mut [E]) {
        for (v, slot) in v.iter().zip(out) {
            *slot = self.sum(*v);
        }
    }
}

/// A computation written over any [`Simd`]. Implementations mark `run` `#[inline(always)]`.
pub trait Op<E: Accumulator> {
    /// What it gives.
    type Output;
    /// Runs on the vectors of `s`.
    fn run<S: Simd<E>>(self, s: S) -> Self::Output;
}

/// Arrays of eight that the compiler turns into whatever vectors the enclosing function is compiled for.
/// `FUSED` says that a fused multiply-add is one instruction there.
#[derive(Debug, Clone, Copy)]
pub struct Portable<E, const FUSED: bool>(std::marker::PhantomData<E>);

impl<E, const FUSED: bool> Portable<E, FUSED> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Portable(std::marker::PhantomData)
    }
}

#[inline(always)]
fn zip<E: Copy>(a: [E; 8], b: [E; 8], f: impl Fn(E, E) -> E) -> [E; 8] {
    let mut out = a;
    for i in 0..8 {
        out[i] = f(a[i], b[i]);
    }
    out
}

/// The first eight elements.
#[inline(always)]
fn eight<T: Copy>(x: &[T]) -> [T; 8] {
    let x = &x[..8];
    [x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]]
}

impl<E: Accumulator, const FUSED: bool> Simd<E> for Portable<E, FUSED> {
    type V = [E; 8];
    const LANES: usize = 8;
    const TILE_ROWS: usize = if FUSED { 6 } else { 2 };

    #[inline(always)]
    fn splat(self, x: E) -> [E; 8] {
        [x; 8]
    }
    #[inline(always)]
    fn load(self, x: &[E]) -> [E; 8] {
        eight(x)
    }
    #[inline(always)]
    fn load_f16(self, x: &[f16]) -> [E; 8] {
        eight(x).map(|x| E::from_f32(x.to_f32()))
    }
    #[inline(always)]
    fn load_bf16(self, x: &[bf16]) -> [E; 8] {
        eight(x).map(|x| E::from_f32(f32::from_bits(u32::from(x.to_bits()) << 16)))
    }
    #[inline(always)]
    fn store(self, v: [E; 8], out: &mut [E]) {
        out[..8].copy_from_slice(&v);
    }
    #[inline(always)]
    fn add(self, a: [E; 8], b: [E; 8]) -> [E; 8] {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: [E; 8], b: [E; 8]) -> [E; 8] {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: [E; 8], b: [E; 8]) -> [E; 8] {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: [E; 8], b: [E; 8]) -> [E; 8] {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: [E; 8], b: [E; 8], c: [E; 8]) -> [E; 8] {
        let mut out = c;
        for i in 0..8 {
            out[i] = if FUSED {
                a[i].fused(b[i], c[i])
            } else {
                a[i] * b[i] + c[i]
            };
        }
        out
    }
    #[inline(always)]
    fn max(self, a: [E; 8], b: [E; 8]) -> [E; 8] {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: [E; 8], b: [E; 8]) -> [E; 8] {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn select_lt(self, a: [E; 8], b: [E; 8], x: [E; 8], y: [E; 8]) -> [E; 8] {
        let mut out = y;
        for i in 0..8 {
            out[i] = if a[i] < b[i] { x[i] } else { y[i] };
        }
        out
    }
    #[inline(always)]
    fn sum(self, v: [E; 8]) -> E {
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
    #[inline(always)]
    fn sum_four(self, v: [[E; 8]; 4]) -> [E; 4] {
        v.map(|v| self.sum(v))
    }
    #[inline(always)]
    fn largest(self, v: [E; 8]) -> E {
        let mut best = v[0];
        for x in v {
            best = if x > best || best.is_nan() { x } else { best };
        }
        best
    }
    #[inline(always)]
    fn exp(self, v: [E; 8]) -> [E; 8] {
        E::exp_lanes(v, FUSED)
    }

    type Bytes = [i32; 8];
    #[inline(always)]
    fn load_bytes<const SIGNED: bool>(self, x: &[u8]) -> [i32; 8] {
        eight(x).map(|x| match SIGNED {
            true => i32::from(x.cast_signed()),
            false => i32::from(x),
        })
    }
    #[inline(always)]
    fn whole<const SIGNED: bool>(self, x: [i32; 8]) -> [E; 8] {
        x.map(|x| E::from_f32(x as f32))
    }
    #[inline(always)]
    fn half<const SIGNED: bool>(self, x: [i32; 8], part: usize) -> [E; 8] {
        codes::<E, SIGNED, 4>(x, part)
    }
    #[inline(always)]
    fn quarter<const SIGNED: bool>(self, x: [i32; 8], part: usize) -> [E; 8] {
        codes::<E, SIGNED, 2>(x, part)
    }
    #[inline(always)]
    fn interleave(self, a: [E; 8], b: [E; 8]) -> [[E; 8]; 2] {
        [
            [a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]],
            [a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]],
        ]
    }
}

/// Codes of `BITS` bits, number `part` of each byte.
#[inline(always)]
fn codes<E: Accumulator, const SIGNED: bool, const BITS: u32>(x: [i32; 8], part: usize) -> [E; 8] {
    // The code is moved to the top of the word, then down with or without its sign.
    let up = 32 - BITS * (part as u32 + 1);
    let down = 32 - BITS;
    x.map(|x| {
        let top = x << up;
        let code = match SIGNED {
            true => top >> down,
            false => (top.cast_unsigned() >> down).cast_signed(),
        };
        E::from_f32(code as f32)
    })
}

/// Constants of e^x for f32: range reduction by n·ln 2 with ln 2 in two parts (the first has few bits, so that n times
/// it is exact), then a polynomial in the remainder; e^x = 2^n · (1 + r + r²·P(r)).
///
/// Source: S. Moshier, Cephes Math Library, expf.
pub(crate) mod exp_f32 {
    /// Results below the smallest subnormal start here.
    pub(crate) const LOW: f32 = -104.0;
    /// Results above the largest finite number start below this.
    pub(crate) const HIGH: f32 = 89.0;
    pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
    pub(crate) const LN2_HIGH: f32 = 0.693_359_4;
    pub(crate) const LN2_LOW: f32 = -2.121_944_4e-4;
    pub(crate) const P: [f32; 6] = [
        1.987_569_2e-4,
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        5e-1,
    ];
}

/// [`Simd::exp`] for eight portable f32 lanes.
#[inline(always)]
pub(crate) fn exp_lanes_f32(v: [f32; 8], fused: bool) -> [f32; 8] {
    use exp_f32::*;
    let fma = |a: f32, b: f32, c: f32| if fused { a.mul_add(b, c) } else { a * b + c };
    let mut out = v;
    for x in &mut out {
        // Both comparisons let NaN through.
        let t = if *x < LOW { LOW } else { *x };
        let t = if t > HIGH { HIGH } else { t };
        // Adding and subtracting 1.5·2^23 rounds to the nearest integer.
        let magic = 12_582_912.0f32;
        let n = (t * LOG2_E + magic) - magic;
        let r = fma(n, -LN2_HIGH, t);
        let r = fma(n, -LN2_LOW, r);
        let mut p = P[0];
        for c in &P[1..] {
            p = fma(p, r, *c);
        }
        let y = fma(p, r * r, r) + 1.0;
        // 2^n in two factors, so that results may be subnormal or infinite. NaN converts to 0 and stays in `y`.
        let n = n as i32;
        let half = n >> 1;
        let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
        *x = y * power(half) * power(n - half);
    }
    out
}
