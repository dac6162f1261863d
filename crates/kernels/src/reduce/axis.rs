//! Along one axis: where the largest element is, and running sums.

use crate::cast::odd_f32;
use crate::elementwise::{Arithmetic, ElementwiseError, typed};
use half::{bf16, f16};
use refeed_values::{DType, Dims, Element, Tensor, TensorMut};

/// Position of the largest element along an axis, as INT64: the first NaN if there is one, and of equals the first,
/// or the last when the flag is set.
pub type ArgFn = fn(&Tensor, usize, bool, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that finds largest elements of `dtype`, when there is one.
pub fn arg_max(dtype: DType) -> Option<ArgFn> {
    typed!(numbers, dtype, arg_max_typed as ArgFn)
}

fn arg_max_typed<T: Arithmetic>(
    x: &Tensor,
    axis: usize,
    last: bool,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    let x = x.view::<T>()?;
    let out = out.as_mut_slice::<i64>()?;
    let mut order: Dims = (0..x.rank()).filter(|&other| other != axis).collect();
    order.push(axis);
    let outer: usize = order[..order.len() - 1]
        .iter()
        .map(|&axis| x.shape()[axis])
        .product();
    let shape = || ElementwiseError::Shape {
        expected: vec![out.len()],
        got: x.shape().to_vec(),
    };
    let turned = x.permute(&order).ok_or_else(shape)?;
    if outer != out.len() {
        return Err(shape());
    }
    if !out.is_empty() && x.is_empty() {
        return Err(ElementwiseError::Empty);
    }
    for (lane, slot) in turned.lanes().zip(out) {
        let (mut best, mut at) = (T::LOWEST, 0usize);
        for (index, x) in lane.iter().enumerate() {
            #[allow(clippy::eq_op)] // only NaN differs from itself
            if x != x {
                at = index;
                break;
            }
            if index == 0 || x > best || last && x == best {
                (best, at) = (x, index);
            }
        }
        *slot = at as i64;
    }
    Ok(())
}

/// Running sums along an axis: `exclusive` leaves the own element out, `reverse` sums from the end.
pub type CumSumFn = fn(&Tensor, usize, bool, bool, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that sums elements of `dtype`, when there is one.
pub fn cum_sum(dtype: DType) -> Option<CumSumFn> {
    typed!(numbers, dtype, cum_sum_typed as CumSumFn)
}

/// A type with a wider type to keep a running sum in.
trait Summand: Element {
    type Sum: Copy + Default;
    fn add(sum: Self::Sum, x: Self) -> Self::Sum;
    fn round(sum: Self::Sum) -> Self;
}
macro_rules! summand {
    ($($t:ident $sum:ident, |$a:ident, $b:ident| $add:expr, $round:expr;)*) => { $(
        impl Summand for $t {
            type Sum = $sum;
            #[inline(always)]
            fn add($a: $sum, $b: $t) -> $sum {
                $add
            }
            #[inline(always)]
            fn round(sum: $sum) -> $t {
                $round(sum)
            }
        }
    )* };
}
summand! {
    f32 f64, |a, b| a + f64::from(b), |sum| sum as f32;
    f64 f64, |a, b| a + b, |sum| sum;
    f16 f64, |a, b| a + f64::from(b), |sum| f16::from_f32(odd_f32(sum));
    bf16 f64, |a, b| a + f64::from(b), |sum| bf16::from_f32(odd_f32(sum));
    i8 i8, |a, b| a.wrapping_add(b), |sum| sum;
    i16 i16, |a, b| a.wrapping_add(b), |sum| sum;
    i32 i32, |a, b| a.wrapping_add(b), |sum| sum;
    i64 i64, |a, b| a.wrapping_add(b), |sum| sum;
    u8 u8, |a, b| a.wrapping_add(b), |sum| sum;
    u16 u16, |a, b| a.wrapping_add(b), |sum| sum;
    u32 u32, |a, b| a.wrapping_add(b), |sum| sum;
    u64 u64, |a, b| a.wrapping_add(b), |sum| sum;
}

fn cum_sum_typed<T: Summand>(
    x: &Tensor,
    axis: usize,
    exclusive: bool,
    reverse: bool,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    if x.shape() != out.shape() || axis >= x.rank() {
        return Err(ElementwiseError::Shape {
            expected: out.shape().to_vec(),
            got: x.shape().to_vec(),
        });
    }
    let count = x.shape()[axis];
    let inner: usize = x.shape()[axis + 1..].iter().product();
    let out = out.as_mut_slice::<T>()?;
    x.view::<T>()?.copy_to(out);
    if out.is_empty() {
        return Ok(());
    }
    for block in out.chunks_exact_mut(count * inner) {
        for column in 0..inner {
            let mut sum = T::Sum::default();
            for step in 0..count {
                let row = if reverse { count - 1 - step } else { step };
                let slot = &mut block[row * inner + column];
                let next = T::add(sum, *slot);
                *slot = T::round(if exclusive { sum } else { next });
                sum = next;
            }
        }
    }
    Ok(())
}
