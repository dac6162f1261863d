//! Two operands: arithmetic, extremes, remainders, slopes; and what bounds or divides one operand by scalars.

use super::{Arithmetic, ElementwiseError, map, typed, zip};
use crate::Real;
use refeed_values::{DType, Element, Tensor, TensorMut};
use std::cell::Cell;

/// A computation on two operands of one element type, which broadcast to the output's shape.
pub type BinaryFn = fn(&Tensor, &Tensor, &mut TensorMut) -> Result<(), ElementwiseError>;

/// An operator on two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, toward zero for integers.
    Div,
    /// The larger one, NaN when either is.
    Max,
    /// The smaller one, NaN when either is.
    Min,
    /// The remainder with the divisor's sign.
    FloorMod,
    /// The remainder with the dividend's sign.
    TruncMod,
    /// `a`, times `b` where `a` is negative.
    PRelu,
}

/// The function for an operator and element type, when there is one.
pub fn binary(op: Binary, dtype: DType) -> Option<BinaryFn> {
    Some(match op {
        Binary::Add => typed!(numbers, dtype, add as BinaryFn)?,
        Binary::Sub => typed!(numbers, dtype, sub as BinaryFn)?,
        Binary::Mul => typed!(numbers, dtype, mul as BinaryFn)?,
        Binary::Div => typed!(numbers, dtype, div as BinaryFn)?,
        Binary::Max => typed!(numbers, dtype, max as BinaryFn)?,
        Binary::Min => typed!(numbers, dtype, min as BinaryFn)?,
        Binary::FloorMod => typed!(numbers, dtype, floor_mod as BinaryFn)?,
        Binary::TruncMod => typed!(numbers, dtype, trunc_mod as BinaryFn)?,
        Binary::PRelu => typed!(numbers, dtype, prelu as BinaryFn)?,
    })
}

#[inline(always)]
fn both<T: Element>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
    f: impl Fn(T, T) -> T + Copy,
) -> Result<(), ElementwiseError> {
    let (a, b) = (a.view::<T>()?, b.view::<T>()?);
    let to = refeed_values::Dims::from_slice(out.shape());
    zip(&a, &b, &to, out.as_mut_slice::<T>()?, f)
}

/// As [`both`] for a function that may have no answer: then the whole has none.
#[inline(always)]
fn both_checked<T: Element>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
    f: impl Fn(T, T) -> Option<T> + Copy,
) -> Result<(), ElementwiseError> {
    let failed = Cell::new(false);
    both::<T>(a, b, out, |a, b| {
        f(a, b).unwrap_or_else(|| {
            failed.set(true);
            T::default()
        })
    })?;
    if failed.get() {
        Err(ElementwiseError::Division)
    } else {
        Ok(())
    }
}

fn add<T: Arithmetic>(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, T::plus)
}
fn sub<T: Arithmetic>(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, T::minus)
}
fn mul<T: Arithmetic>(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, T::times)
}
fn max<T: Arithmetic>(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, T::larger)
}
fn min<T: Arithmetic>(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, T::smaller)
}
fn div<T: Arithmetic>(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both_checked::<T>(a, b, out, T::over)
}
fn floor_mod<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both_checked::<T>(a, b, out, T::floor_mod)
}
fn trunc_mod<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both_checked::<T>(a, b, out, T::trunc_mod)
}
fn prelu<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T>(
        a,
        b,
        out,
        |x, slope| if x < T::ZERO { x.times(slope) } else { x },
    )
}

/// Bounds a tensor from below and above by scalars; the upper bound wins where they cross.
pub type ClipFn =
    fn(&Tensor, Option<&Tensor>, Option<&Tensor>, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that clips elements of `dtype`, when there is one.
pub fn clip(dtype: DType) -> Option<ClipFn> {
    typed!(numbers, dtype, clip_typed as ClipFn)
}

fn clip_typed<T: Arithmetic>(
    x: &Tensor,
    low: Option<&Tensor>,
    high: Option<&Tensor>,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    let low = low.map_or(Ok(T::LOWEST), |low| scalar("min", low))?;
    let high = high.map_or(Ok(T::HIGHEST), |high| scalar("max", high))?;
    map(&x.view::<T>()?, out.as_mut_slice::<T>()?, |x| {
        x.larger(low).smaller(high)
    })
}

/// The only element of a tensor.
pub(crate) fn scalar<T: Element>(
    operand: &'static str,
    tensor: &Tensor,
) -> Result<T, ElementwiseError> {
    let view = tensor.view::<T>()?;
    let mut elements = view.iter();
    match (elements.next(), elements.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(ElementwiseError::NotScalar {
            operand,
            got: view.len(),
        }),
    }
}

/// Divides a floating point tensor by a number.
pub type ScaleFn = fn(&Tensor, f64, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that divides elements of `dtype` by a number, when there is one.
pub fn scale(dtype: DType) -> Option<ScaleFn> {
    typed!(floats, dtype, scale_typed as ScaleFn)
}

fn scale_typed<T: Real>(x: &Tensor, by: f64, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    use crate::storage::Accumulator;
    let by = T::Acc::from_f64(by);
    map(&x.view::<T>()?, out.as_mut_slice::<T>()?, |x| {
        T::from_acc(x.to_acc() / by)
    })
}
