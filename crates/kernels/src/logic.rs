//! Comparisons, boolean operators, tests of numbers, and choice. BOOL elements are bytes; any nonzero byte is true,
//! and what is written is 0 or 1.

use crate::elementwise::{Arithmetic, BinaryFn, ElementwiseError, map, typed, zip, zip3};
use refeed_values::{DType, Dims, Element, Tensor, TensorMut};

/// A comparison of two operands of one element type, which broadcast; the output is BOOL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // ONNX's own names
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The function for a comparison and the element type of its operands, when there is one. Only [`Comparison::Equal`]
/// compares BOOL.
pub fn comparison(op: Comparison, dtype: DType) -> Option<BinaryFn> {
    match op {
        Comparison::Equal if dtype == DType::Bool => Some(equal_bool),
        Comparison::Equal => typed!(numbers, dtype, equal as BinaryFn),
        Comparison::Less => typed!(numbers, dtype, less as BinaryFn),
        Comparison::LessOrEqual => typed!(numbers, dtype, less_or_equal as BinaryFn),
        Comparison::Greater => typed!(numbers, dtype, greater as BinaryFn),
        Comparison::GreaterOrEqual => typed!(numbers, dtype, greater_or_equal as BinaryFn),
    }
}

#[inline(always)]
fn both<T: Element>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
    f: impl Fn(T, T) -> bool + Copy,
) -> Result<(), ElementwiseError> {
    let (a, b) = (a.view::<T>()?, b.view::<T>()?);
    let to = Dims::from_slice(out.shape());
    zip(&a, &b, &to, out.as_mut_slice::<u8>()?, |a, b| {
        u8::from(f(a, b))
    })
}

fn equal<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, |a, b| a == b)
}
fn less<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, |a, b| a < b)
}
fn less_or_equal<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, |a, b| a <= b)
}
fn greater<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, |a, b| a > b)
}
fn greater_or_equal<T: Arithmetic>(
    a: &Tensor,
    b: &Tensor,
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    both::<T>(a, b, out, |a, b| a >= b)
}
fn equal_bool(a: &Tensor, b: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    both::<u8>(a, b, out, |a, b| (a != 0) == (b != 0))
}

/// An operator on two BOOL operands, which broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // ONNX's own names
pub enum Boolean {
    And,
    Or,
    Xor,
}

/// The function for a boolean operator.
pub fn boolean(op: Boolean) -> BinaryFn {
    match op {
        Boolean::And => |a, b, out| both::<u8>(a, b, out, |a, b| a != 0 && b != 0),
        Boolean::Or => |a, b, out| both::<u8>(a, b, out, |a, b| a != 0 || b != 0),
        Boolean::Xor => |a, b, out| both::<u8>(a, b, out, |a, b| (a != 0) != (b != 0)),
    }
}

/// `!x`
///
/// # Errors
/// When an operand is not BOOL.
pub fn not(x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    map(&x.view::<u8>()?, out.as_mut_slice::<u8>()?, |x| {
        u8::from(x == 0)
    })
}

/// A test of each number of a tensor; the output is BOOL.
pub type TestFn = fn(&Tensor, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that finds NaN, when the element type has it.
pub fn is_nan(dtype: DType) -> Option<TestFn> {
    fn run<T: Arithmetic>(x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
        #[allow(clippy::eq_op)] // only NaN differs from itself
        map(&x.view::<T>()?, out.as_mut_slice::<u8>()?, |x| {
            u8::from(x != x)
        })
    }
    typed!(floats, dtype, run as TestFn)
}

/// Finds infinities: negative ones if the first flag is set, positive ones if the second is.
pub type IsInfFn = fn(&Tensor, bool, bool, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that finds infinities, when the element type has them.
pub fn is_inf(dtype: DType) -> Option<IsInfFn> {
    fn run<T: Arithmetic>(
        x: &Tensor,
        negative: bool,
        positive: bool,
        out: &mut TensorMut,
    ) -> Result<(), ElementwiseError> {
        map(&x.view::<T>()?, out.as_mut_slice::<u8>()?, |x| {
            u8::from(negative && x == T::LOWEST || positive && x == T::HIGHEST)
        })
    }
    typed!(floats, dtype, run as IsInfFn)
}

/// `condition ? x : y` with all three broadcast to the output's shape.
pub type WhereFn = fn(&Tensor, &Tensor, &Tensor, &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function that chooses between elements of `dtype`, when there is one.
pub fn choose(dtype: DType) -> Option<WhereFn> {
    fn run<T: Element>(
        condition: &Tensor,
        x: &Tensor,
        y: &Tensor,
        out: &mut TensorMut,
    ) -> Result<(), ElementwiseError> {
        let to = Dims::from_slice(out.shape());
        let (condition, x, y) = (condition.view::<u8>()?, x.view::<T>()?, y.view::<T>()?);
        zip3(
            &condition,
            &x,
            &y,
            &to,
            out.as_mut_slice::<T>()?,
            |c, x, y| {
                if c != 0 { x } else { y }
            },
        )
    }
    typed!(all, dtype, run as WhereFn)
}

#[cfg(test)]
mod tests;
