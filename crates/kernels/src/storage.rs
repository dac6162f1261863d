//! Element types that kernels compute with, and the type they accumulate in.

use crate::attention::AttentionProblem;
use crate::pool::RowLayout;
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::{Compute, Isa, KernelError};
use half::{bf16, f16};
use refeed_values::Element;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub};

/// A type that sums are kept in: f32 or f64.
pub trait Accumulator:
    Real<Acc = Self>
    + Scratch
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + MulAssign
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Negative infinity.
    const NEG_INFINITY: Self;
    /// Converts, rounding to nearest.
    fn from_f64(x: f64) -> Self;
    /// Converts exactly.
    fn from_f32(x: f32) -> Self;
    /// Converts exactly.
    fn to_f64(self) -> f64;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// Whether it is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// `self * b + c` rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// e to the power of eight lanes; `fused` says that a fused multiply-add is one instruction.
    #[doc(hidden)]
    fn exp_lanes(v: [Self; 8], fused: bool) -> [Self; 8];
    /// Runs `op` on an instruction set.
    fn dispatch<O: Op<Self>>(isa: Isa, op: O) -> O::Output;
}

macro_rules! accumulator {
    ($t:ident, $run:ident, $exp_lanes:expr) => {
        impl Accumulator for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const NEG_INFINITY: $t = $t::NEG_INFINITY;
            #[inline(always)]
            fn from_f64(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn from_f32(x: f32) -> $t {
                $t::from(x)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn fused(self, b: $t, c: $t) -> $t {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn exp(self) -> $t {
                self.exp()
            }
            #[inline(always)]
            fn ln(self) -> $t {
                self.ln()
            }
            #[inline(always)]
            fn exp_lanes(v: [$t; 8], fused: bool) -> [$t; 8] {
                $exp_lanes(v, fused)
            }
            #[inline]
            fn dispatch<O: Op<$t>>(isa: Isa, op: O) -> O::Output {
                isa.$run(op)
            }
        }
    };
}
accumulator!(f32, run_f32, crate::simd::exp_lanes_f32);
accumulator!(f64, run_f64, |v: [f64; 8], _| v.map(f64::exp));

/// FLOAT, DOUBLE, FLOAT16 or BFLOAT16 storage, computed in [`Real::Acc`] and rounded once.
pub trait Real: Element + Scratch {
    /// f64 for f64, else f32.
    type Acc: Accumulator;
    /// Widens exactly.
    fn to_acc(self) -> Self::Acc;
    /// Rounds to nearest even.
    fn from_acc(x: Self::Acc) -> Self;
    /// Loads `LANES` elements, widened.
    fn load<S: Simd<Self::Acc>>(s: S, x: &[Self]) -> S::V;
    /// The slice itself when storage and accumulator are one type.
    fn as_acc(x: &[Self]) -> Option<&[Self::Acc]>;
    /// The slice itself when storage and accumulator are one type.
    fn as_acc_mut(x: &mut [Self]) -> Option<&mut [Self::Acc]>;
    /// [`crate::attention::attention`], compiled in this crate once for each type.
    #[doc(hidden)]
    fn attention(
        compute: &Compute<'_>,
        problem: &AttentionProblem<'_, Self>,
        out: &mut [Self],
        layout: &RowLayout,
    ) -> Result<(), KernelError>;
}

macro_rules! attention_of_type {
    () => {
        fn attention(
            compute: &Compute<'_>,
            problem: &AttentionProblem<'_, Self>,
            out: &mut [Self],
            layout: &RowLayout,
        ) -> Result<(), KernelError> {
            crate::attention::dense_attention(compute, problem, out, layout)
        }
    };
}

macro_rules! own_accumulator {
    ($t:ident) => {
        impl Real for $t {
            type Acc = $t;
            #[inline(always)]
            fn to_acc(self) -> $t {
                self
            }
            #[inline(always)]
            fn from_acc(x: $t) -> $t {
                x
            }
            #[inline(always)]
            fn load<S: Simd<$t>>(s: S, x: &[$t]) -> S::V {
                s.load(x)
            }
            #[inline(always)]
            fn as_acc(x: &[$t]) -> Option<&[$t]> {
                Some(x)
            }
            #[inline(always)]
            fn as_acc_mut(x: &mut [$t]) -> Option<&mut [$t]> {
                Some(x)
            }
            attention_of_type!();
        }
    };
}
own_accumulator!(f32);
own_accumulator!(f64);

macro_rules! widened {
    ($t:ident, $load:ident) => {
        impl Real for $t {
            type Acc = f32;
            #[inline(always)]
            fn to_acc(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_acc(x: f32) -> $t {
                $t::from_f32(x)
            }
            #[inline(always)]
            fn load<S: Simd<f32>>(s: S, x: &[$t]) -> S::V {
                s.$load(x)
            }
            #[inline(always)]
            fn as_acc(_: &[$t]) -> Option<&[f32]> {
                None
            }
            #[inline(always)]
            fn as_acc_mut(_: &mut [$t]) -> Option<&mut [f32]> {
                None
            }
            attention_of_type!();
        }
    };
}
widened!(f16, load_f16);
widened!(bf16, load_bf16);
