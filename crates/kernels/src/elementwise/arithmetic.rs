//! Numbers with the arithmetic of ONNX.

use half::{bf16, f16};
use refeed_values::Element;

/// A number that ONNX operators compute on. Floating point types without arithmetic of their own compute in f32 and
/// round once; integers wrap.
pub trait Arithmetic: Element + PartialOrd {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// Nothing is smaller: negative infinity, or the smallest integer.
    const LOWEST: Self;
    /// Nothing is larger: infinity, or the largest integer.
    const HIGHEST: Self;

    /// `self + other`
    fn plus(self, other: Self) -> Self;
    /// `self - other`
    fn minus(self, other: Self) -> Self;
    /// `self * other`
    fn times(self, other: Self) -> Self;
    /// `self / other`; integers round toward zero, and have no quotient by zero or beyond their range.
    fn over(self, other: Self) -> Option<Self>;
    /// The remainder with the divisor's sign, as `numpy.mod`; integers have none by zero.
    fn floor_mod(self, other: Self) -> Option<Self>;
    /// The remainder with the dividend's sign, as C's `fmod`; integers have none by zero.
    fn trunc_mod(self, other: Self) -> Option<Self>;
    /// The larger one; NaN when either is.
    fn larger(self, other: Self) -> Self;
    /// The smaller one; NaN when either is.
    fn smaller(self, other: Self) -> Self;
    /// `-self`
    fn negated(self) -> Self;
    /// The absolute value.
    fn magnitude(self) -> Self;
    /// -1, 0 or 1; NaN for NaN.
    fn sign(self) -> Self;
}

macro_rules! integer {
    ($($t:ident, $magnitude:expr, $sign:expr;)*) => { $(
        impl Arithmetic for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = $t::MIN;
            const HIGHEST: $t = $t::MAX;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn over(self, other: $t) -> Option<$t> {
                self.checked_div(other)
            }
            #[inline(always)]
            fn floor_mod(self, other: $t) -> Option<$t> {
                let rest = self.trunc_mod(other)?;
                #[allow(unused_comparisons)] // one body for both signs
                let apart = rest != 0 && (rest < 0) != (other < 0);
                Some(if apart { rest.wrapping_add(other) } else { rest })
            }
            #[inline(always)]
            fn trunc_mod(self, other: $t) -> Option<$t> {
                // The remainder of the smallest integer by -1 is 0, though the quotient overflows.
                (other != 0).then(|| self.wrapping_rem(other))
            }
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                self.max(other)
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                self.min(other)
            }
            #[inline(always)]
            fn negated(self) -> $t {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                $magnitude(self)
            }
            #[inline(always)]
            fn sign(self) -> $t {
                $sign(self)
            }
        }
    )* };
}
integer! {
    i8, i8::wrapping_abs, i8::signum;
    i16, i16::wrapping_abs, i16::signum;
    i32, i32::wrapping_abs, i32::signum;
    i64, i64::wrapping_abs, i64::signum;
    u8, |x| x, |x: u8| x.min(1);
    u16, |x| x, |x: u16| x.min(1);
    u32, |x| x, |x: u32| x.min(1);
    u64, |x| x, |x: u64| x.min(1);
}

macro_rules! float {
    ($($t:ident)*) => { $(
        impl Arithmetic for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = $t::NEG_INFINITY;
            const HIGHEST: $t = $t::INFINITY;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self - other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn over(self, other: $t) -> Option<$t> {
                Some(self / other)
            }
            #[inline(always)]
            fn floor_mod(self, other: $t) -> Option<$t> {
                let rest = self % other;
                Some(if rest == 0.0 {
                    $t::copysign(0.0, other)
                } else if (rest < 0.0) != (other < 0.0) {
                    rest + other
                } else {
                    rest
                })
            }
            #[inline(always)]
            fn trunc_mod(self, other: $t) -> Option<$t> {
                Some(self % other)
            }
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn negated(self) -> $t {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn sign(self) -> $t {
                if self > 0.0 {
                    1.0
                } else if self < 0.0 {
                    -1.0
                } else {
                    // Zero, which keeps no sign, or NaN.
                    self + 0.0
                }
            }
        }
    )* };
}
float! { f32 f64 }

macro_rules! half_float {
    ($($t:ident)*) => { $(
        impl Arithmetic for $t {
            const ZERO: $t = $t::ZERO;
            const ONE: $t = $t::ONE;
            const LOWEST: $t = $t::NEG_INFINITY;
            const HIGHEST: $t = $t::INFINITY;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                $t::from_f32(self.to_f32() + other.to_f32())
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                $t::from_f32(self.to_f32() - other.to_f32())
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                $t::from_f32(self.to_f32() * other.to_f32())
            }
            #[inline(always)]
            fn over(self, other: $t) -> Option<$t> {
                Some($t::from_f32(self.to_f32() / other.to_f32()))
            }
            #[inline(always)]
            fn floor_mod(self, other: $t) -> Option<$t> {
                self.to_f32().floor_mod(other.to_f32()).map($t::from_f32)
            }
            #[inline(always)]
            fn trunc_mod(self, other: $t) -> Option<$t> {
                self.to_f32().trunc_mod(other.to_f32()).map($t::from_f32)
            }
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn negated(self) -> $t {
                $t::from_bits(self.to_bits() ^ 0x8000)
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                $t::from_bits(self.to_bits() & 0x7fff)
            }
            #[inline(always)]
            fn sign(self) -> $t {
                $t::from_f32(self.to_f32().sign())
            }
        }
    )* };
}
half_float! { f16 bf16 }
