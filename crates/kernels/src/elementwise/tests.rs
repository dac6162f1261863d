//! Every operator against its formula in f64, on every element type, over every way in which operands can lie.

use super::*;
use crate::Isa;
use half::{bf16, f16};
use refeed_values::{Allocator, DType, Element, Layout, Tensor, TensorMut};

/// A type whose values f64 holds.
trait Sample: Element {
    fn of(x: f64) -> Self;
    fn back(self) -> f64;
    /// Relative distance between neighbours; 0 for integers.
    const STEP: f64;
}
macro_rules! sample {
    ($($t:ident $of:expr, $back:expr, $step:expr;)*) => { $(
        impl Sample for $t {
            fn of(x: f64) -> $t { $of(x) }
            fn back(self) -> f64 { $back(self) }
            const STEP: f64 = $step;
        }
    )* };
}
sample! {
    f32 |x| x as f32, f64::from, 1.2e-7;
    f64 |x| x, |x| x, 2.3e-16;
    f16 f16::from_f64, f16::to_f64, 9.8e-4;
    bf16 bf16::from_f64, bf16::to_f64, 7.9e-3;
    i8 |x| x as i8, f64::from, 0.0;
    i16 |x| x as i16, f64::from, 0.0;
    i32 |x| x as i32, f64::from, 0.0;
    i64 |x| x as i64, |x| x as f64, 0.0;
    u8 |x| x as u8, f64::from, 0.0;
    u16 |x| x as u16, f64::from, 0.0;
    u32 |x| x as u32, f64::from, 0.0;
    u64 |x| x as u64, |x| x as f64, 0.0;
}

fn tensor<T: Sample>(shape: &[usize], values: impl Iterator<Item = f64>) -> Tensor {
    let count = shape.iter().product();
    let data: Vec<T> = values.take(count).map(T::of).collect();
    Tensor::from_slice(shape, &data).unwrap()
}

fn empty(dtype: DType, shape: &[usize]) -> TensorMut {
    TensorMut::new(&Allocator::default(), dtype, shape).unwrap()
}

fn values<T: Sample>(tensor: &Tensor) -> Vec<f64> {
    tensor.view::<T>().unwrap().iter().map(T::back).collect()
}

/// Small positive integers in no order: exact in every type, and sums and products of two fit i8.
fn small() -> impl Iterator<Item = f64> {
    (0u32..).map(|i| f64::from((i * 7 + 3) % 10 + 1))
}

/// The operand as it lies and turned inside out: the same values, other strides.
fn layouts(tensor: &Tensor) -> Vec<Tensor> {
    let turned: Vec<usize> = (0..tensor.rank()).rev().collect();
    let there = tensor
        .with_layout(tensor.layout().permute(&turned).unwrap(), 0)
        .unwrap();
    let dense = there.to_dense(&Allocator::default()).unwrap();
    let back = dense
        .with_layout(dense.layout().permute(&turned).unwrap(), 0)
        .unwrap();
    vec![tensor.clone(), back]
}

/// Element of an operand that broadcasts to `to`, by flat output index.
fn operand_at(data: &[f64], shape: &[usize], to: &[usize], flat: usize) -> f64 {
    let mut left = flat;
    let (mut offset, mut stride) = (0, 1);
    for back in 1..=to.len() {
        let position = left % to[to.len() - back];
        left /= to[to.len() - back];
        if back <= shape.len() {
            let dim = shape[shape.len() - back];
            offset += if dim == 1 { 0 } else { position * stride };
            stride *= dim;
        }
    }
    data[offset]
}

/// Pairs of operand shapes: every fast path, what falls between them, and nothing at all.
const PAIRS: &[(&[usize], &[usize], &[usize])] = &[
    (&[], &[], &[]),
    (&[1], &[], &[1]),
    (&[2], &[2], &[2]),
    (&[3, 5], &[3, 5], &[3, 5]),
    (&[3, 5], &[], &[3, 5]),
    (&[1, 1], &[7], &[1, 7]),
    (&[4, 3, 5], &[5], &[4, 3, 5]),
    (&[4, 3, 5], &[1, 3, 5], &[4, 3, 5]),
    (&[3, 5], &[4, 3, 5], &[4, 3, 5]),
    (&[4, 3, 5], &[4, 3, 1], &[4, 3, 5]),
    (&[4, 1, 5], &[4, 3, 5], &[4, 3, 5]),
    (&[3, 1], &[1, 7], &[3, 7]),
    (&[2, 1, 3, 1], &[5, 1, 4], &[2, 5, 3, 4]),
    (&[0], &[1], &[0]),
    (&[2, 0, 3], &[3], &[2, 0, 3]),
    (&[33], &[33], &[33]),
];

fn check_binary<T: Sample>(op: Binary, want: fn(f64, f64) -> f64) {
    let run = binary(op, T::DTYPE).unwrap();
    for &(left, right, to) in PAIRS {
        let (a, b) = (
            tensor::<T>(left, small()),
            tensor::<T>(right, small().skip(3)),
        );
        let (av, bv) = (values::<T>(&a), values::<T>(&b));
        for a in layouts(&a) {
            for b in layouts(&b) {
                let mut out = empty(T::DTYPE, to);
                run(&a, &b, &mut out).unwrap();
                for (flat, got) in values::<T>(&out.freeze()).into_iter().enumerate() {
                    let (x, y) = (
                        operand_at(&av, left, to, flat),
                        operand_at(&bv, right, to, flat),
                    );
                    let want = T::of(want(x, y)).back();
                    assert_eq!(
                        got,
                        want,
                        "{op:?} {} {left:?} {right:?} at {flat}",
                        T::DTYPE
                    );
                }
            }
        }
    }
}

macro_rules! for_numbers {
    ($check:ident($($arg:expr),*)) => {
        $check::<f32>($($arg),*); $check::<f64>($($arg),*); $check::<f16>($($arg),*); $check::<bf16>($($arg),*);
        $check::<i8>($($arg),*); $check::<i16>($($arg),*); $check::<i32>($($arg),*); $check::<i64>($($arg),*);
        $check::<u8>($($arg),*); $check::<u16>($($arg),*); $check::<u32>($($arg),*); $check::<u64>($($arg),*);
    };
}

#[test]
fn arithmetic_of_every_type_and_shape() {
    for_numbers!(check_binary(Binary::Add, |a, b| a + b));
    for_numbers!(check_binary(Binary::Mul, |a, b| a * b));
    for_numbers!(check_binary(Binary::Div, |a, b| a / b));
    for_numbers!(check_binary(Binary::Max, f64::max));
    for_numbers!(check_binary(Binary::Min, f64::min));
    for_numbers!(check_binary(Binary::FloorMod, |a, b| a - (a / b).floor() * b));
    for_numbers!(check_binary(Binary::TruncMod, |a, b| a % b));
    check_binary::<f32>(Binary::Sub, |a, b| a - b);
    check_binary::<i8>(Binary::Sub, |a, b| a - b);
    check_binary::<bf16>(Binary::Sub, |a, b| a - b);
}

fn two<T: Element>(op: Binary, a: &[T], b: &[T]) -> Result<Vec<T>, ElementwiseError> {
    let [a, b] = [a, b].map(|x| Tensor::from_slice(&[x.len()], x).unwrap());
    let mut out = empty(T::DTYPE, a.shape());
    binary(op, T::DTYPE).unwrap()(&a, &b, &mut out)?;
    Ok(out.freeze().view::<T>().unwrap().to_vec())
}

#[test]
fn signs_of_quotients_and_remainders() {
    let (a, b) = ([7i32, -7, 7, -7, i32::MIN], [3i32, 3, -3, -3, -1]);
    assert_eq!(two(Binary::Div, &a[..4], &b[..4]).unwrap(), [2, -2, -2, 2]);
    assert_eq!(two(Binary::FloorMod, &a, &b).unwrap(), [1, 2, -2, -1, 0]);
    assert_eq!(two(Binary::TruncMod, &a, &b).unwrap(), [1, -1, 1, -1, 0]);
    let real = two(
        Binary::FloorMod,
        &[-4.3f32, 7.2, -0.0, 1.0],
        &[2.1, -3.4, 3.0, f32::NEG_INFINITY],
    );
    let real = real.unwrap();
    assert!((real[0] - 2.0).abs() < 1e-6 && (real[1] + 3.0).abs() < 1e-6);
    assert!(real[2] == 0.0 && real[2].is_sign_positive());
    assert_eq!(real[3], f32::NEG_INFINITY);
    assert_eq!(
        two(Binary::PRelu, &[-2.0f32, 3.0, f32::NAN], &[0.5; 3]).unwrap()[..2],
        [-1.0, 3.0]
    );
}

#[test]
fn integers_that_have_no_quotient_are_an_error() {
    for op in [Binary::Div, Binary::FloorMod, Binary::TruncMod] {
        assert_eq!(
            two(op, &[1i64, 2, 3], &[1, 0, 1]),
            Err(ElementwiseError::Division)
        );
        assert_eq!(two(op, &[1u8], &[0]), Err(ElementwiseError::Division));
    }
    assert_eq!(
        two(Binary::Div, &[i32::MIN], &[-1]),
        Err(ElementwiseError::Division)
    );
    assert_eq!(
        two(Binary::Div, &[1f32, 0.0], &[0.0, 0.0]).unwrap()[0],
        f32::INFINITY
    );
    assert_eq!(two(Binary::Add, &[i8::MAX], &[1]).unwrap(), [i8::MIN]);
}

#[test]
fn extremes_keep_nan() {
    let (a, b) = ([f32::NAN, 1.0, 2.0], [1.0, f32::NAN, 3.0]);
    for op in [Binary::Max, Binary::Min] {
        let got = two(op, &a, &b).unwrap();
        assert!(
            got[0].is_nan() && got[1].is_nan() && !got[2].is_nan(),
            "{op:?}"
        );
    }
}

#[test]
fn half_types_round_once() {
    // 1 + 2^-11 + 2^-20 in f16: nearest is 1 + 2^-10, though rounding the product first would lose the last part.
    let a = f16::from_f64(1.0 + 2f64.powi(-10));
    assert_eq!(
        two(Binary::Mul, &[a], &[a]).unwrap(),
        [f16::from_f64(a.to_f64() * a.to_f64())]
    );
    let (x, y) = (bf16::from_f64(256.0), bf16::from_f64(3.0));
    assert_eq!(two(Binary::Add, &[x], &[y]).unwrap()[0].to_f32(), 260.0);
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let (a, b) = (tensor::<f32>(&[2], small()), tensor::<f32>(&[3], small()));
    let mut out = empty(DType::Float, &[2]);
    let add = binary(Binary::Add, DType::Float).unwrap();
    assert!(matches!(
        add(&a, &b, &mut out),
        Err(ElementwiseError::Shape { .. })
    ));
    let wrong = tensor::<f64>(&[2], small());
    assert!(matches!(
        add(&a, &wrong, &mut out),
        Err(ElementwiseError::Tensor(_))
    ));
    assert!(binary(Binary::Add, DType::String).is_none());
    assert!(binary(Binary::Add, DType::Bool).is_none());
}

/// Arguments from tiny to large, of both signs, in an odd number.
fn arguments() -> Vec<f64> {
    let mut all: Vec<f64> = (-60..=60).map(|i| f64::from(i) * 0.173).collect();
    all.extend([1e-6, -1e-6, 1e-3, -1e-3, 30.0, -30.0]);
    all
}

fn check_unary<T: Sample>(op: Unary, positive: bool, slack: f64, want: fn(f64) -> f64) {
    let run = unary(op, T::DTYPE).unwrap();
    let arguments: Vec<f64> = arguments()
        .into_iter()
        .map(|x| if positive { x.abs() + 0.01 } else { x })
        .collect();
    let x = tensor::<T>(&[arguments.len()], arguments.iter().copied());
    let strided = {
        let doubled = tensor::<T>(
            &[arguments.len(), 2],
            arguments.iter().flat_map(|&x| [x, 0.0]),
        );
        let layout = Layout::strided(&[arguments.len()], &[2]).unwrap();
        doubled.with_layout(layout, 0).unwrap()
    };
    for isa in Isa::available() {
        for (count, source) in [(127, &x), (127, &strided), (1, &x), (0, &x), (17, &x)] {
            let (layout, _) = source.layout().slice(0, 0, count, 1).unwrap();
            let source = source.with_layout(layout, 0).unwrap();
            let mut out = empty(T::DTYPE, &[count]);
            run(isa, &source, &mut out).unwrap();
            let got = values::<T>(&out.freeze());
            for (x, got) in values::<T>(&source).into_iter().zip(got) {
                let want = want(x);
                let bound = T::STEP * (want.abs() * 0.51 + 1e-30)
                    + slack * f64::from(f32::EPSILON) * want.abs().max(0.05);
                let bound = if T::DTYPE == DType::Double {
                    1e-14 * want.abs().max(1e-6)
                } else {
                    bound
                };
                // The smallest steps of FLOAT16 are absolute.
                let bound = if T::DTYPE == DType::Float16 {
                    bound.max(3e-8)
                } else {
                    bound
                };
                let fits = (got - want).abs() <= bound || T::of(want).back() == got;
                assert!(
                    fits,
                    "{op:?} {} {isa}: f({x}) = {want}, got {got}",
                    T::DTYPE
                );
            }
        }
    }
}

macro_rules! for_floats {
    ($check:ident($($arg:expr),*)) => {
        $check::<f32>($($arg),*); $check::<f64>($($arg),*); $check::<f16>($($arg),*); $check::<bf16>($($arg),*);
    };
}

fn erf(x: f64) -> f64 {
    // Simpson's rule on the definition, for tests only.
    let steps = 4000;
    let h = x / f64::from(steps);
    let f = |t: f64| (-t * t).exp();
    let inner: f64 = (1..steps)
        .map(|i| f(f64::from(i) * h) * if i % 2 == 1 { 4.0 } else { 2.0 })
        .sum();
    (f(0.0) + inner + f(x)) * h / 3.0 * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn functions_of_one_number() {
    for_floats!(check_unary(Unary::Sqrt, true, 1.0, f64::sqrt));
    for_floats!(check_unary(Unary::Exp, false, 4.0, f64::exp));
    for_floats!(check_unary(Unary::Log, true, 2.0, f64::ln));
    for_floats!(check_unary(Unary::Sigmoid, false, 4.0, |x| 1.0 / (1.0 + (-x).exp())));
    for_floats!(check_unary(Unary::Tanh, false, 6.0, f64::tanh));
    for_floats!(check_unary(Unary::Reciprocal, true, 1.0, f64::recip));
    for_floats!(check_unary(Unary::Softplus, false, 4.0, |x| x.max(0.0)
        + (-x.abs()).exp().ln_1p()));
    for_floats!(check_unary(Unary::Cos, false, 4.0, f64::cos));
    for_floats!(check_unary(Unary::Sin, false, 4.0, f64::sin));
    for_floats!(check_unary(Unary::Floor, false, 0.0, f64::floor));
    for_floats!(check_unary(Unary::Ceil, false, 0.0, f64::ceil));
    for_floats!(check_unary(Unary::Round, false, 0.0, f64::round_ties_even));
    for_floats!(check_unary(Unary::Neg, false, 0.0, |x| -x));
    for_floats!(check_unary(Unary::Abs, false, 0.0, f64::abs));
    for_floats!(check_unary(Unary::Relu, false, 0.0, |x| x.max(0.0)));
    for_floats!(check_unary(Unary::Sign, false, 0.0, |x| if x == 0.0 {
        0.0
    } else {
        x.signum()
    }));
    check_unary::<i32>(Unary::Neg, false, 0.0, |x| -x);
    check_unary::<i8>(Unary::Abs, false, 0.0, f64::abs);
    check_unary::<u8>(Unary::Sign, true, 0.0, |x| if x == 0.0 { 0.0 } else { 1.0 });
    check_unary::<i64>(Unary::Relu, false, 0.0, |x| x.max(0.0));
}

#[test]
fn error_functions() {
    check_unary::<f32>(Unary::Erf, false, 6.0, |x| erf(x.clamp(-6.0, 6.0)));
    check_unary::<f16>(Unary::Erf, false, 6.0, |x| erf(x.clamp(-6.0, 6.0)));
    for op in [Unary::Gelu, Unary::GeluTanh] {
        let want: fn(f64) -> f64 = match op {
            Unary::Gelu => |x| 0.5 * x * (1.0 + erf((x / 2f64.sqrt()).clamp(-6.0, 6.0))),
            _ => |x| {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            },
        };
        // 1 + erf cancels on the left: the error is one of 1, times x.
        check_unary::<f32>(op, false, 120.0, want);
        check_unary::<bf16>(op, false, 120.0, want);
    }
}

#[test]
fn special_values_of_functions() {
    let run = |op, x: f32| {
        let x = Tensor::from_slice(&[1], &[x]).unwrap();
        let mut out = empty(DType::Float, &[1]);
        unary(op, DType::Float).unwrap()(Isa::best(), &x, &mut out).unwrap();
        out.freeze().view::<f32>().unwrap().to_vec()[0]
    };
    let inf = f32::INFINITY;
    for op in [
        Unary::Exp,
        Unary::Sigmoid,
        Unary::Tanh,
        Unary::Erf,
        Unary::Gelu,
        Unary::Softplus,
        Unary::Relu,
        Unary::Sign,
    ] {
        assert!(run(op, f32::NAN).is_nan(), "{op:?}");
    }
    for (op, low, high) in [
        (Unary::Exp, 0.0, inf),
        (Unary::Sigmoid, 0.0, 1.0),
        (Unary::Tanh, -1.0, 1.0),
        (Unary::Erf, -1.0, 1.0),
        (Unary::Softplus, 0.0, inf),
    ] {
        assert_eq!((run(op, -inf), run(op, inf)), (low, high), "{op:?}");
    }
    assert_eq!(
        (run(Unary::Softplus, 500.0), run(Unary::Softplus, -500.0)),
        (500.0, 0.0)
    );
    assert_eq!(
        (run(Unary::Round, 2.5), run(Unary::Round, -4.5)),
        (2.0, -4.0)
    );
    assert!(unary(Unary::Exp, DType::Int32).is_none() && unary(Unary::Neg, DType::Uint8).is_none());
}

#[test]
fn powers_of_mixed_types() {
    fn pow<T: Sample, E: Sample>(
        base: &[f64],
        exponent: &[f64],
    ) -> Result<Vec<f64>, ElementwiseError> {
        let base = tensor::<T>(&[base.len()], base.iter().copied());
        let wide = exponent_dtype(T::DTYPE, E::DTYPE).unwrap();
        let exponent = tensor::<E>(&[exponent.len()], exponent.iter().copied());
        let mut widened = empty(wide, exponent.shape());
        crate::cast::cast(E::DTYPE, wide).unwrap()(&exponent, &mut widened).unwrap();
        let mut out = empty(T::DTYPE, base.shape());
        power(T::DTYPE, wide).unwrap()(&base, &widened.freeze(), &mut out)?;
        Ok(values::<T>(&out.freeze()))
    }
    assert_eq!(
        pow::<f32, f32>(&[1.5, -2.0, 3.0], &[2.0]).unwrap(),
        [2.25, 4.0, 9.0]
    );
    assert_eq!(
        pow::<f32, i64>(&[1.5, -2.0, 3.0], &[3.0]).unwrap(),
        [3.375, -8.0, 27.0]
    );
    assert_eq!(
        pow::<f16, i32>(&[2.0, 4.0], &[3.0, -1.0]).unwrap(),
        [8.0, 0.25]
    );
    assert_eq!(pow::<bf16, f32>(&[4.0, 9.0], &[0.5]).unwrap(), [2.0, 3.0]);
    assert_eq!(
        pow::<f64, u8>(&[1.25, 10.0], &[2.0, 3.0]).unwrap(),
        [1.5625, 1000.0]
    );
    assert_eq!(
        pow::<i32, f32>(&[4.0, 10.0], &[0.5, 2.0]).unwrap(),
        [2.0, 100.0]
    );
    assert_eq!(
        pow::<i64, i32>(&[3.0, -2.0, 5.0], &[4.0, 3.0, 0.0]).unwrap(),
        [81.0, -8.0, 1.0]
    );
    assert_eq!(
        pow::<i32, i64>(&[0.0], &[-1.0]),
        Err(ElementwiseError::Power)
    );
    assert_eq!(exponent_dtype(DType::Uint8, DType::Float), None);
    assert_eq!(exponent_dtype(DType::Float, DType::Bool), None);
}

#[test]
fn clipping_and_scaling() {
    let x = Tensor::from_slice(&[4], &[-3f32, 0.5, f32::NAN, 9.0]).unwrap();
    let [low, high] = [-1f32, 2.0].map(|x| Tensor::scalar(x).unwrap());
    let run = |low: Option<&Tensor>, high: Option<&Tensor>| {
        let mut out = empty(DType::Float, &[4]);
        clip(DType::Float).unwrap()(&x, low, high, &mut out).unwrap();
        out.freeze().view::<f32>().unwrap().to_vec()
    };
    let both = run(Some(&low), Some(&high));
    assert!(both[2].is_nan() && both[0] == -1.0 && both[1] == 0.5 && both[3] == 2.0);
    assert_eq!(run(None, Some(&high))[0], -3.0);
    assert_eq!(run(Some(&low), None)[3], 9.0);
    assert_eq!(run(Some(&high), Some(&low))[1], -1.0);
    let pair = Tensor::from_slice(&[2], &[1f32, 2.0]).unwrap();
    let mut out = empty(DType::Float, &[4]);
    let refused = clip(DType::Float).unwrap()(&x, Some(&pair), None, &mut out).unwrap_err();
    assert_eq!(refused.to_string(), "min: expected one element, got 2");
    let sum = Tensor::from_slice(&[2], &[bf16::from_f32(7.0), bf16::from_f32(1.0)]).unwrap();
    let mut out = empty(DType::Bfloat16, &[2]);
    scale(DType::Bfloat16).unwrap()(&sum, 2.0, &mut out).unwrap();
    assert_eq!(values::<bf16>(&out.freeze()), [3.5, 0.5]);
}
