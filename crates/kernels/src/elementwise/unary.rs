//! One operand.

use super::functions::*;
use super::{Arithmetic, ElementwiseError, map, typed};
use crate::Isa;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use refeed_values::{DType, Element, Tensor, TensorMut};

/// A computation on one operand of the output's shape.
pub type UnaryFn = fn(Isa, &Tensor, &mut TensorMut) -> Result<(), ElementwiseError>;

/// An operator on one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // ONNX's own names
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Relu,
    Sqrt,
    Exp,
    Log,
    Sigmoid,
    Tanh,
    Reciprocal,
    Softplus,
    Cos,
    Sin,
    Erf,
    /// Gelu by the error function.
    Gelu,
    /// Gelu by tanh.
    GeluTanh,
    Floor,
    Ceil,
    Round,
}

/// The function for an operator and element type, when there is one.
pub fn unary(op: Unary, dtype: DType) -> Option<UnaryFn> {
    match op {
        Unary::Neg => typed!(signed, dtype, neg as UnaryFn),
        Unary::Abs => typed!(numbers, dtype, abs as UnaryFn),
        Unary::Sign => typed!(numbers, dtype, sign as UnaryFn),
        Unary::Relu => typed!(signed, dtype, relu as UnaryFn),
        Unary::Sqrt => float::<Sqrt>(dtype),
        Unary::Exp => float::<Exp>(dtype),
        Unary::Log => float::<Log>(dtype),
        Unary::Sigmoid => float::<Sigmoid>(dtype),
        Unary::Tanh => float::<Tanh>(dtype),
        Unary::Reciprocal => float::<Reciprocal>(dtype),
        Unary::Softplus => float::<Softplus>(dtype),
        Unary::Cos => float::<Cos>(dtype),
        Unary::Sin => float::<Sin>(dtype),
        Unary::Erf => float::<Erf>(dtype),
        Unary::Gelu => float::<GeluErf>(dtype),
        Unary::GeluTanh => float::<GeluTanh>(dtype),
        Unary::Floor => float::<Floor>(dtype),
        Unary::Ceil => float::<Ceil>(dtype),
        Unary::Round => float::<Round>(dtype),
    }
}

#[inline(always)]
fn each<T: Element>(
    x: &Tensor,
    out: &mut TensorMut,
    f: impl Fn(T) -> T + Copy,
) -> Result<(), ElementwiseError> {
    map(&x.view::<T>()?, out.as_mut_slice::<T>()?, f)
}

fn neg<T: Arithmetic>(_: Isa, x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    each::<T>(x, out, T::negated)
}
fn abs<T: Arithmetic>(_: Isa, x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    each::<T>(x, out, T::magnitude)
}
fn sign<T: Arithmetic>(_: Isa, x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    each::<T>(x, out, T::sign)
}
fn relu<T: Arithmetic>(_: Isa, x: &Tensor, out: &mut TensorMut) -> Result<(), ElementwiseError> {
    each::<T>(x, out, |x| x.larger(T::ZERO))
}

/// A floating point type on which a [`Function`] runs in place.
trait Real: Element {
    fn apply<F: Function>(f: F, isa: Isa, x: &mut [Self]);
}
impl Real for f32 {
    fn apply<F: Function>(f: F, isa: Isa, x: &mut [f32]) {
        f.single(isa, x);
    }
}
impl Real for f64 {
    fn apply<F: Function>(f: F, _: Isa, x: &mut [f64]) {
        for x in x {
            *x = f.double(*x);
        }
    }
}
macro_rules! half_float {
    ($($t:ident)*) => { $(
        impl Real for $t {
            fn apply<F: Function>(f: F, isa: Isa, x: &mut [$t]) {
                let mut wide = [0f32; 256];
                for chunk in x.chunks_mut(wide.len()) {
                    let wide = &mut wide[..chunk.len()];
                    chunk.convert_to_f32_slice(wide);
                    f.single(isa, wide);
                    chunk.convert_from_f32_slice(wide);
                }
            }
        }
    )* };
}
half_float! { f16 bf16 }

/// A function that has one value, so that it can be named by its type alone.
trait Named: Function {
    const VALUE: Self;
}
macro_rules! named {
    ($($name:ident)*) => { $(impl Named for $name { const VALUE: $name = $name; })* };
}
named! { Sqrt Exp Log Sigmoid Tanh Reciprocal Softplus Cos Sin Erf GeluErf GeluTanh Floor Ceil Round }

fn float<F: Named>(dtype: DType) -> Option<UnaryFn> {
    fn run<F: Named, T: Real>(
        isa: Isa,
        x: &Tensor,
        out: &mut TensorMut,
    ) -> Result<(), ElementwiseError> {
        let x = x.view::<T>()?;
        let out = out.as_mut_slice::<T>()?;
        if x.len() != out.len() {
            return Err(ElementwiseError::Shape {
                expected: vec![out.len()],
                got: x.shape().to_vec(),
            });
        }
        x.copy_to(out);
        T::apply(F::VALUE, isa, out);
        Ok(())
    }
    Some(match dtype {
        DType::Float => run::<F, f32>,
        DType::Double => run::<F, f64>,
        DType::Float16 => run::<F, f16>,
        DType::Bfloat16 => run::<F, bf16>,
        _ => return None,
    })
}
