//! Powers, whose base and exponent may have different element types.

use super::{Arithmetic, BinaryFn, ElementwiseError, typed, zip};
use crate::Real;
use refeed_values::{DType, Dims, Element, Tensor, TensorMut};
use std::cell::Cell;

/// The element type that exponents are converted to before [`power`] gets them: wide enough that the result is
/// rounded once, to the base's type. `None` when exponents of this type are not computed with.
pub fn exponent_dtype(base: DType, exponent: DType) -> Option<DType> {
    let integer = matches!(
        exponent,
        DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::Uint8
            | DType::Uint16
            | DType::Uint32
    );
    match base {
        DType::Double if exponent.is_float() || integer => Some(DType::Double),
        DType::Float | DType::Float16 | DType::Bfloat16 => match exponent {
            DType::Double | DType::Int64 | DType::Int32 | DType::Uint32 => Some(DType::Double),
            _ if exponent.is_float() || integer => Some(DType::Float),
            _ => None,
        },
        DType::Int32 | DType::Int64 if integer => Some(DType::Int64),
        DType::Int32 | DType::Int64 if exponent.is_float() => Some(DType::Double),
        _ => None,
    }
}

/// `base ^ exponent` in the base's type; the exponent has the type that [`exponent_dtype`] names.
pub fn power(base: DType, exponent: DType) -> Option<BinaryFn> {
    match exponent {
        DType::Float => {
            typed!(@ base, power_single as BinaryFn, Float f32, Float16 half::f16, Bfloat16 half::bf16)
        }
        DType::Double => match base {
            DType::Int32 => Some(power_integer_real::<i32>),
            DType::Int64 => Some(power_integer_real::<i64>),
            _ => typed!(floats, base, power_double as BinaryFn),
        },
        DType::Int64 => typed!(@ base, power_integer as BinaryFn, Int32 i32, Int64 i64),
        _ => None,
    }
}

#[inline(always)]
fn both<T: Element, E: Element>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
    f: impl Fn(T, E) -> T + Copy,
) -> Result<(), ElementwiseError> {
    let (a, b) = (a.view::<T>()?, b.view::<E>()?);
    let to = Dims::from_slice(out.shape());
    zip(&a, &b, &to, out.as_mut_slice::<T>()?, f)
}

fn power_single<T: Real<Acc = f32>>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    // Squares and roots are most powers of exported models, and exact where `powf` costs fifty times as much.
    if b.elements() == 1 {
        let exponent = super::binary::scalar::<f32>("exponent", b)?;
        if exponent == 2.0 {
            return both::<T, f32>(a, b, out, |x, _| T::from_acc(x.to_acc() * x.to_acc()));
        }
        if exponent == 1.0 {
            return both::<T, f32>(a, b, out, |x, _| x);
        }
    }
    both::<T, f32>(a, b, out, |x, y| T::from_acc(x.to_acc().powf(y)))
}

fn power_double<T: Real>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    use crate::storage::Accumulator;
    if b.elements() == 1 && super::binary::scalar::<f64>("exponent", b)? == 2.0 {
        return both::<T, f64>(a, b, out, |x, _| T::from_acc(x.to_acc() * x.to_acc()));
    }
    both::<T, f64>(a, b, out, |x, y| {
        T::from_acc(T::Acc::from_f64(x.to_acc().to_f64().powf(y)))
    })
}

/// Integers with the conversions that powers need.
trait Integer: Arithmetic {
    fn wide(self) -> i64;
    /// The low bits.
    fn narrow(wide: i64) -> Self;
    /// Toward zero; the nearest integer there is when out of range.
    fn from_real(real: f64) -> Self;
}
macro_rules! integer {
    ($($t:ident)*) => { $(
        impl Integer for $t {
            fn wide(self) -> i64 {
                i64::from(self)
            }
            fn narrow(wide: i64) -> $t {
                wide as $t
            }
            fn from_real(real: f64) -> $t {
                real as $t
            }
        }
    )* };
}
integer! { i32 i64 }

fn power_integer_real<T: Integer>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T, f64>(a, b, out, |x, y| T::from_real((x.wide() as f64).powf(y)))
}

fn power_integer<T: Integer>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    let failed = Cell::new(false);
    both::<T, i64>(a, b, out, |x, y| {
        let power = integer_power(x.wide(), y).unwrap_or_else(|| {
            failed.set(true);
            0
        });
        T::narrow(power)
    })?;
    if failed.get() {
        Err(ElementwiseError::Power)
    } else {
        Ok(())
    }
}

/// `base ^ exponent`, wrapping; fractions round toward zero; zero has no negative power.
fn integer_power(base: i64, exponent: i64) -> Option<i64> {
    if exponent < 0 {
        return match base {
            0 => None,
            1 => Some(1),
            -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
            _ => Some(0),
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_powers_wrap_and_truncate() {
        for base in -5i64..=5 {
            for exponent in 0..=30u32 {
                let want = base.wrapping_pow(exponent);
                assert_eq!(integer_power(base, i64::from(exponent)), Some(want));
            }
        }
        assert_eq!(integer_power(-1, i64::MIN), Some(1));
        assert_eq!(integer_power(-1, -3), Some(-1));
        assert_eq!(integer_power(7, -1), Some(0));
        assert_eq!(integer_power(0, -1), None);
        // Powers of an odd base repeat after 2^62, so this one is the inverse of 3.
        assert_eq!(
            integer_power(3, i64::MAX).map(|x| x.wrapping_mul(3)),
            Some(1)
        );
    }
}
