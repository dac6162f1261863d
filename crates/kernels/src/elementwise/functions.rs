//! Functions of one real number, in single precision on vectors and in double precision one by one.

use super::erf::erf;
use crate::Isa;
use crate::simd::{Op, Simd};
use crate::vecmath::bodies::{sigmoid_vector, tanh_vector};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// A function applied in place: f32 as a slice, so that vectors can be used, and f64 one by one.
pub(super) trait Function: Copy {
    fn single(self, isa: Isa, x: &mut [f32]);
    fn double(self, x: f64) -> f64;
}

/// A function written over f32 vectors.
trait Lanes: Copy {
    fn lanes<S: Simd<f32>>(self, s: S, x: S::V) -> S::V;
}

struct InPlace<'a, F> {
    f: F,
    x: &'a mut [f32],
}

/// No instruction set has more lanes of f32.
const MOST_LANES: usize = 16;

impl<F: Lanes> Op<f32> for InPlace<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        let mut chunks = self.x.chunks_exact_mut(S::LANES);
        for chunk in &mut chunks {
            s.store(self.f.lanes(s, s.load(chunk)), chunk);
        }
        let rest = chunks.into_remainder();
        if !rest.is_empty() {
            let mut buffer = [0f32; MOST_LANES];
            buffer[..rest.len()].copy_from_slice(rest);
            s.store(self.f.lanes(s, s.load(&buffer)), &mut buffer);
            rest.copy_from_slice(&buffer[..rest.len()]);
        }
    }
}

/// `x * P(x^2) / Q(x^2)`, coefficients from the constant term up.
#[inline(always)]
fn odd_rational<S: Simd<f32>>(s: S, x: S::V, p: &[f32], q: &[f32]) -> S::V {
    let t = s.mul(x, x);
    let horner = |c: &[f32]| {
        let mut sum = s.splat(0.0);
        for &c in c.iter().rev() {
            sum = s.fma(sum, t, s.splat(c));
        }
        sum
    };
    s.div(s.mul(x, horner(p)), horner(q))
}

/// Keeps `x` within `-bound..=bound`; NaN stays.
#[inline(always)]
fn bounded<S: Simd<f32>>(s: S, x: S::V, bound: f32) -> S::V {
    s.max(s.splat(-bound), s.min(s.splat(bound), x))
}

/// The error function: a rational fit of our own (weighted least squares made equal-ripple, relative error 2e-9 before
/// rounding) up to where the result rounds to 1.
#[inline(always)]
fn erf_lanes<S: Simd<f32>>(s: S, x: S::V) -> S::V {
    const P: [f32; 7] = [
        std::f32::consts::FRAC_2_SQRT_PI,
        1.852_030_8e-1,
        5.431_69e-2,
        3.849_606_5e-3,
        3.796_089_4e-4,
        4.684_783e-6,
        -1.320_225_3e-8,
    ];
    const Q: [f32; 6] = [
        1.0,
        4.974_653_7e-1,
        1.139_583_6e-1,
        1.546_208e-2,
        1.307_568_9e-3,
        6.311_063e-5,
    ];
    const ONE_FROM: f32 = 4.0;
    let y = bounded(s, odd_rational(s, bounded(s, x, ONE_FROM), &P, &Q), 1.0);
    let y = s.select_lt(s.splat(ONE_FROM), x, s.splat(1.0), y);
    s.select_lt(x, s.splat(-ONE_FROM), s.splat(-1.0), y)
}

macro_rules! vector_function {
    ($($(#[$doc:meta])* $name:ident, |$s:ident, $v:ident| $lanes:expr, |$x:ident| $double:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;
        impl Lanes for $name {
            #[inline(always)]
            fn lanes<S: Simd<f32>>(self, $s: S, $v: S::V) -> S::V {
                $lanes
            }
        }
        impl Function for $name {
            fn single(self, isa: Isa, x: &mut [f32]) {
                isa.run_f32(InPlace { f: self, x });
            }
            fn double(self, $x: f64) -> f64 {
                $double
            }
        }
    )* };
}
vector_function! {
    /// e^x
    Exp, |s, x| s.exp(x), |x| x.exp();
    /// 1 / (1 + e^-x)
    Sigmoid, |s, x| sigmoid_vector(s, x), |x| 1.0 / (1.0 + (-x).exp());
    /// Hyperbolic tangent.
    Tanh, |s, x| tanh_vector(s, x), |x| x.tanh();
    /// Error function.
    Erf, |s, x| erf_lanes(s, x), |x| erf(x);
    /// x times the normal distribution function of x.
    GeluErf, |s, x| {
        let y = erf_lanes(s, s.mul(x, s.splat(FRAC_1_SQRT_2 as f32)));
        s.mul(s.mul(x, s.splat(0.5)), s.add(y, s.splat(1.0)))
    }, |x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2));
    /// [`GeluErf`] with tanh in place of the error function.
    GeluTanh, |s, x| {
        let cube = s.mul(s.mul(x, x), x);
        let inner = s.mul(s.splat((2.0 / PI).sqrt() as f32), s.fma(cube, s.splat(0.044_715), x));
        s.mul(s.mul(x, s.splat(0.5)), s.add(tanh_vector(s, inner), s.splat(1.0)))
    }, |x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh());
}

macro_rules! scalar_function {
    ($($(#[$doc:meta])* $name:ident, |$x:ident| $body:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;
        impl Function for $name {
            fn single(self, _: Isa, x: &mut [f32]) {
                for slot in x {
                    let $x = *slot;
                    *slot = $body;
                }
            }
            fn double(self, $x: f64) -> f64 {
                $body
            }
        }
    )* };
}
scalar_function! {
    /// Square root.
    Sqrt, |x| x.sqrt();
    /// Natural logarithm.
    Log, |x| x.ln();
    /// 1 / x
    Reciprocal, |x| x.recip();
    /// ln(1 + e^x), without overflow.
    Softplus, |x| if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() };
    /// Cosine.
    Cos, |x| x.cos();
    /// Sine.
    Sin, |x| x.sin();
    /// Toward negative infinity.
    Floor, |x| x.floor();
    /// Toward positive infinity.
    Ceil, |x| x.ceil();
    /// To the nearest integer, halves to the even one.
    Round, |x| x.round_ties_even();
}
