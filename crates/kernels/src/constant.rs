//! Tensors made from few numbers: ranges and fills.

use crate::elementwise::{ElementwiseError, typed};
use half::{bf16, f16};
use refeed_values::{DType, Element, Tensor, TensorMut};
use thiserror::Error;

/// Why a range has no elements that can be counted.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// The step is zero or NaN, or a bound is not finite.
    #[error(
        "start {start}, limit {limit}, delta {delta}: expected finite numbers and a delta other than 0"
    )]
    Bounds {
        /// First element.
        start: f64,
        /// Where the range ends, exclusive.
        limit: f64,
        /// Distance between elements.
        delta: f64,
    },
    /// More elements than can be indexed.
    #[error("a range of {count} elements does not fit in memory")]
    Count {
        /// Elements the bounds ask for, about.
        count: f64,
    },
    /// A bound is no scalar of the expected type.
    #[error(transparent)]
    Operand(#[from] ElementwiseError),
}

/// `start, start + delta, ...` up to `limit`, exclusive: how many elements, and the elements.
#[derive(Debug, Clone, Copy)]
pub struct RangeFns {
    /// Number of elements; three scalars of one type.
    pub count: fn(&Tensor, &Tensor, &Tensor) -> Result<usize, RangeError>,
    /// Writes the elements from start and delta.
    pub fill: fn(&Tensor, &Tensor, &mut TensorMut) -> Result<(), ElementwiseError>,
}

/// The functions that make ranges of `dtype`, when there are some.
pub fn range(dtype: DType) -> Option<RangeFns> {
    fn fns<T: Step>() -> RangeFns {
        RangeFns {
            count: count::<T>,
            fill: fill_range::<T>,
        }
    }
    let made = typed!(@ dtype, fns as fn() -> RangeFns, Float f32, Double f64, Float16 f16, Bfloat16 bf16, Int16 i16, Int32 i32, Int64 i64);
    made.map(|fns| fns())
}

/// A type that ranges are made of.
trait Step: Element {
    /// Elements from `self` to `limit` in steps of `delta`.
    fn count(self, limit: Self, delta: Self) -> Result<usize, RangeError>;
    /// Element `index` of the range that starts here.
    fn at(self, delta: Self, index: usize) -> Self;
}

macro_rules! integer {
    ($($t:ident)*) => { $(
        impl Step for $t {
            fn count(self, limit: $t, delta: $t) -> Result<usize, RangeError> {
                // The span of two i64 fits i128.
                let (span, step) = (i128::from(limit) - i128::from(self), i128::from(delta));
                if step == 0 {
                    let (start, limit, delta) = (self as f64, limit as f64, 0.0);
                    return Err(RangeError::Bounds { start, limit, delta });
                }
                if span == 0 || (span < 0) != (step < 0) {
                    return Ok(0);
                }
                let count = (span.abs() + step.abs() - 1) / step.abs();
                usize::try_from(count).map_err(|_| RangeError::Count { count: count as f64 })
            }
            #[inline(always)]
            fn at(self, delta: $t, index: usize) -> $t {
                // Every element lies between start and limit, so the low bits are the element.
                self.wrapping_add((index as $t).wrapping_mul(delta))
            }
        }
    )* };
}
integer! { i16 i32 i64 }

/// Elements of a real range; `count` is `(limit - start) / delta` in the precision that elements are computed in.
fn real_count(start: f64, limit: f64, delta: f64, count: f64) -> Result<usize, RangeError> {
    if delta == 0.0 || ![start, limit, delta].iter().all(|x| x.is_finite()) {
        return Err(RangeError::Bounds {
            start,
            limit,
            delta,
        });
    }
    let count = count.ceil().max(0.0);
    // 2^53: beyond it counts are not exact, and no memory holds so many elements.
    if count > 9_007_199_254_740_992.0 {
        return Err(RangeError::Count { count });
    }
    Ok(count as usize)
}

macro_rules! real {
    ($($t:ident, |$x:ident| $wide:expr, $narrow:expr, $w:ty;)*) => { $(
        impl Step for $t {
            fn count(self, limit: $t, delta: $t) -> Result<usize, RangeError> {
                let wide = |$x: $t| $wide;
                let (start, limit, delta) = (wide(self), wide(limit), wide(delta));
                let count = f64::from((limit - start) / delta);
                real_count(f64::from(start), f64::from(limit), f64::from(delta), count)
            }
            #[inline(always)]
            fn at(self, delta: $t, index: usize) -> $t {
                let wide = |$x: $t| $wide;
                $narrow(wide(self) + index as $w * wide(delta))
            }
        }
    )* };
}
real! {
    f32, |x| x, |x| x, f32;
    f64, |x| x, |x| x, f64;
    f16, |x| x.to_f32(), f16::from_f32, f32;
    bf16, |x| x.to_f32(), bf16::from_f32, f32;
}

fn scalar<T: Element>(operand: &'static str, tensor: &Tensor) -> Result<T, ElementwiseError> {
    crate::elementwise::scalar(operand, tensor)
}

fn count<T: Step>(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<usize, RangeError> {
    scalar::<T>("start", start)?.count(scalar("limit", limit)?, scalar("delta", delta)?)
}

fn fill_range<T: Step>(
    start: &Tensor,
    delta: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    let (start, delta) = (scalar::<T>("start", start)?, scalar::<T>("delta", delta)?);
    for (index, slot) in out.as_mut_slice::<T>()?.iter_mut().enumerate() {
        *slot = start.at(delta, index);
    }
    Ok(())
}

/// Writes one value everywhere.
pub type FillFn = fn(&Tensor, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that fills with the single element of a tensor of `dtype`, when there is one.
pub fn fill(dtype: DType) -> Option<FillFn> {
    fn run<T: Element>(value: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
        let value = scalar::<T>("value", value)?;
        out.as_mut_slice::<T>()?.fill(value);
        Ok(())
    }
    typed!(all, dtype, run as FillFn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refeed_values::Allocator;

    fn made<T: Element>(start: T, limit: T, delta: T) -> Result<Vec<T>, RangeError> {
        let [start, limit, delta] = [start, limit, delta].map(|x| Tensor::scalar(x).unwrap());
        let fns = range(T::DTYPE).unwrap();
        let count = (fns.count)(&start, &limit, &delta)?;
        let mut out = TensorMut::new(&Allocator::default(), T::DTYPE, &[count]).unwrap();
        (fns.fill)(&start, &delta, &mut out)?;
        Ok(out.freeze().view::<T>().unwrap().to_vec())
    }

    #[test]
    fn ranges_end_before_their_limit() {
        assert_eq!(made(3i64, 9, 3).unwrap(), [3, 6]);
        assert_eq!(made(10i32, 4, -2).unwrap(), [10, 8, 6]);
        assert_eq!(made(10i32, 3, -2).unwrap(), [10, 8, 6, 4]);
        assert!(made(4i16, 4, 1).unwrap().is_empty());
        assert!(made(4i16, 9, -1).unwrap().is_empty());
        assert_eq!(
            made(1f32, 2.0, 0.3).unwrap(),
            [1.0, 1.3, 1.6, 1.0 + 3.0 * 0.3]
        );
        assert_eq!(made(2f64, -1.0, -1.5).unwrap(), [2.0, 0.5]);
        assert_eq!(
            made(i16::MIN, i16::MAX, 32767).unwrap(),
            [-32768, -1, 32766]
        );
        let long = made(
            f16::from_f32(0.0),
            f16::from_f32(2052.0),
            f16::from_f32(1.0),
        )
        .unwrap();
        assert_eq!((long.len(), long[2051]), (2052, f16::from_f32(2052.0)));
    }

    #[test]
    fn ranges_that_cannot_be_are_errors() {
        assert!(matches!(made(1i64, 5, 0), Err(RangeError::Bounds { .. })));
        assert!(matches!(
            made(0f32, f32::INFINITY, 1.0),
            Err(RangeError::Bounds { .. })
        ));
        assert!(matches!(
            made(0f64, 1.0, f64::NAN),
            Err(RangeError::Bounds { .. })
        ));
        assert!(matches!(
            made(0f64, 1e300, 1e-300),
            Err(RangeError::Count { .. })
        ));
        let huge = [i64::MIN, i64::MAX, 1].map(|x| Tensor::scalar(x).unwrap());
        let count = range(DType::Int64).unwrap().count;
        assert_eq!(count(&huge[0], &huge[1], &huge[2]), Ok(usize::MAX));
        let pair = Tensor::from_slice(&[2], &[1i64, 2]).unwrap();
        let refused = count(&pair, &huge[1], &huge[2]).unwrap_err();
        assert_eq!(refused.to_string(), "start: expected one element, got 2");
        assert!(range(DType::Uint8).is_none());
    }

    #[test]
    fn fills_every_element() {
        let value = Tensor::from_slice(&[1], &[7i8]).unwrap();
        let mut out = TensorMut::new(&Allocator::default(), DType::Int8, &[3, 2]).unwrap();
        fill(DType::Int8).unwrap()(&value, &mut out).unwrap();
        assert_eq!(out.freeze().view::<i8>().unwrap().to_vec(), [7; 6]);
        assert!(fill(DType::String).is_none());
    }
}
