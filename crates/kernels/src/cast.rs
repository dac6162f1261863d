//! Conversion between element types.
//!
//! Rounding: to a floating point type, once, to nearest even (a conversion through an intermediate rounds the
//! intermediate to odd, so that the second rounding is the only one); to an integer, toward zero, clamped to its range
//! with NaN as 0 (ONNX leaves both undefined); between integers, the low bits, as ONNX says. To BOOL, everything but
//! zero is true.

use crate::elementwise::{ElementwiseError, map, typed};
use half::{bf16, f16};
use refeed_values::{DType, Element, Tensor, TensorMut};

/// Converts every element.
pub type CastFn = fn(&Tensor, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that converts between two element types, when there is one.
pub fn cast(from: DType, to: DType) -> Option<CastFn> {
    if from == DType::Bool {
        return to_any_from_bool(to);
    }
    typed!(numbers, from, to_any as fn(DType) -> Option<CastFn>)?(to)
}

fn to_any<S: Number>(to: DType) -> Option<CastFn> {
    fn number<S: Number, D: Number>(
        x: &Tensor,
        out: &mut TensorMut,
    ) -> Result<(), ElementwiseError> {
        map(&x.view::<S>()?, out.as_mut_slice::<D>()?, D::from_number)
    }
    fn boolean<S: Number>(x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
        map(&x.view::<S>()?, out.as_mut_slice::<u8>()?, |x| {
            u8::from(x != S::default())
        })
    }
    macro_rules! table {
        ($($d:ident $t:ty),*) => {
            Some(match to {
                DType::Bool => boolean::<S>,
                $(DType::$d => number::<S, $t>,)*
                _ => return None,
            })
        };
    }
    table!(
        Float f32, Double f64, Float16 f16, Bfloat16 bf16, Int8 i8, Int16 i16, Int32 i32, Int64 i64,
        Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64
    )
}

fn to_any_from_bool(to: DType) -> Option<CastFn> {
    fn number<D: Number>(x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
        map(&x.view::<u8>()?, out.as_mut_slice::<D>()?, |x| {
            D::from_number(u8::from(x != 0))
        })
    }
    typed!(all, to, number as CastFn)
}

/// A number with the conversions that casts are made of.
trait Number: Element {
    /// Converts from any number.
    fn from_number<S: Number>(x: S) -> Self;
    fn to_i8(self) -> i8;
    fn to_i16(self) -> i16;
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_u8(self) -> u8;
    fn to_u16(self) -> u16;
    fn to_u32(self) -> u32;
    fn to_u64(self) -> u64;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    /// As f32, rounded to odd: good for one more rounding.
    fn to_odd_f32(self) -> f32;
}

/// `x` as f32, rounded to odd when inexact: of the two neighbours, the one whose last bit is set. Rounding that to a
/// type with at most 22 bits gives what rounding `x` itself would.
pub(crate) fn odd_f32(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    // `near` is even and off: the neighbour on the side of `x` is odd. An overflow to infinity goes back to the
    // largest finite number, which is odd.
    let bits = near.to_bits();
    let away = x.abs() > back.abs();
    f32::from_bits(if away { bits + 1 } else { bits - 1 })
}

macro_rules! conversions {
    ($($name:ident $t:ty),* ; |$x:ident| $from:expr) => { $(
        #[inline(always)]
        fn $name(self) -> $t {
            let $x = self;
            $from as $t
        }
    )* };
}

macro_rules! primitive {
    ($($t:ident $to:ident, |$x:ident| $odd:expr;)*) => { $(
        impl Number for $t {
            #[inline(always)]
            fn from_number<S: Number>(x: S) -> $t {
                x.$to()
            }
            conversions! {
                to_i8 i8, to_i16 i16, to_i32 i32, to_i64 i64, to_u8 u8, to_u16 u16, to_u32 u32, to_u64 u64,
                to_f32 f32, to_f64 f64; |x| x
            }
            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                let $x = self;
                $odd
            }
        }
    )* };
}
primitive! {
    i8 to_i8, |x| f32::from(x);
    i16 to_i16, |x| f32::from(x);
    i32 to_i32, |x| odd_f32(f64::from(x));
    i64 to_i64, |x| odd_f32(sticky(x.unsigned_abs()) * if x < 0 { -1.0 } else { 1.0 });
    u8 to_u8, |x| f32::from(x);
    u16 to_u16, |x| f32::from(x);
    u32 to_u32, |x| odd_f32(f64::from(x));
    u64 to_u64, |x| odd_f32(sticky(x));
    f32 to_f32, |x| x;
    f64 to_f64, |x| odd_f32(x);
}

/// A large integer as f64 with its low bits gathered into one, so that it is exact and rounds to fewer bits alike.
fn sticky(x: u64) -> f64 {
    if x < 1 << 53 {
        return x as f64;
    }
    let low = x & 0xfff;
    ((x - low) | (u64::from(low != 0) << 12)) as f64
}

macro_rules! half_float {
    ($($t:ident)*) => { $(
        impl Number for $t {
            #[inline(always)]
            fn from_number<S: Number>(x: S) -> $t {
                $t::from_f32(x.to_odd_f32())
            }
            conversions! {
                to_i8 i8, to_i16 i16, to_i32 i32, to_i64 i64, to_u8 u8, to_u16 u16, to_u32 u32, to_u64 u64,
                to_f32 f32, to_f64 f64; |x| $t::to_f32(x)
            }
            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                $t::to_f32(self)
            }
        }
    )* };
}
half_float! { f16 bf16 }

#[cfg(test)]
mod tests;
