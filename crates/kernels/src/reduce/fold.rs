//! What is kept while elements are reduced, and what becomes of it.

use crate::cast::odd_f32;
use crate::elementwise::{Arithmetic, ElementwiseError};
use half::{bf16, f16};
use refeed_values::Element;
use std::marker::PhantomData;

/// A reduction of elements of one type.
pub(super) trait Fold {
    type Value: Element;
    /// What is kept of the elements seen so far.
    type Running: Copy;
    /// Of no element.
    const START: Self::Running;
    fn push(running: Self::Running, x: Self::Value) -> Self::Running;
    fn merge(a: Self::Running, b: Self::Running) -> Self::Running;
    /// The result for `count` elements.
    fn end(running: Self::Running, count: usize) -> Result<Self::Value, ElementwiseError>;
}

pub(super) struct Sum<T>(PhantomData<T>);
pub(super) struct Mean<T>(PhantomData<T>);
pub(super) struct Prod<T>(PhantomData<T>);
pub(super) struct Max<T>(PhantomData<T>);
pub(super) struct Min<T>(PhantomData<T>);
/// Whether any element is true.
pub(super) struct BoolMax;
/// Whether all elements are true.
pub(super) struct BoolMin;

macro_rules! real {
    ($($t:ident, |$x:ident| $round:expr;)*) => { $(
        real!(@ $t, Sum, 0.0, +, |$x, _count| $round);
        real!(@ $t, Prod, 1.0, *, |$x, _count| $round);
        real!(@ $t, Mean, 0.0, +, |x, count| {
            let $x = x / count as f64;
            $round
        });
    )* };
    (@ $t:ident, $fold:ident, $start:expr, $op:tt, |$x:ident, $count:ident| $end:expr) => {
        impl Fold for $fold<$t> {
            type Value = $t;
            type Running = f64;
            const START: f64 = $start;
            #[inline(always)]
            fn push(running: f64, x: $t) -> f64 {
                running $op f64::from(x)
            }
            #[inline(always)]
            fn merge(a: f64, b: f64) -> f64 {
                a $op b
            }
            #[inline(always)]
            fn end($x: f64, $count: usize) -> Result<$t, ElementwiseError> {
                Ok($end)
            }
        }
    };
}
real! {
    f32, |x| x as f32;
    f64, |x| x;
    f16, |x| f16::from_f32(odd_f32(x));
    bf16, |x| bf16::from_f32(odd_f32(x));
}

macro_rules! integer {
    ($($t:ident)*) => { $(
        integer!(@ $t, Sum, 0, wrapping_add);
        integer!(@ $t, Prod, 1, wrapping_mul);
        impl Fold for Mean<$t> {
            type Value = $t;
            type Running = i128;
            const START: i128 = 0;
            #[inline(always)]
            fn push(running: i128, x: $t) -> i128 {
                running + i128::from(x)
            }
            #[inline(always)]
            fn merge(a: i128, b: i128) -> i128 {
                a + b
            }
            #[inline(always)]
            fn end(running: i128, count: usize) -> Result<$t, ElementwiseError> {
                // A mean lies within the range of its elements.
                running.checked_div(count as i128).map(|mean| mean as $t).ok_or(ElementwiseError::Empty)
            }
        }
    )* };
    (@ $t:ident, $fold:ident, $start:expr, $op:ident) => {
        impl Fold for $fold<$t> {
            type Value = $t;
            type Running = $t;
            const START: $t = $start;
            #[inline(always)]
            fn push(running: $t, x: $t) -> $t {
                running.$op(x)
            }
            #[inline(always)]
            fn merge(a: $t, b: $t) -> $t {
                a.$op(b)
            }
            #[inline(always)]
            fn end(running: $t, _: usize) -> Result<$t, ElementwiseError> {
                Ok(running)
            }
        }
    };
}
integer! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! extreme {
    ($fold:ident, $start:ident, $op:ident) => {
        impl<T: Arithmetic> Fold for $fold<T> {
            type Value = T;
            type Running = T;
            const START: T = T::$start;
            #[inline(always)]
            fn push(running: T, x: T) -> T {
                running.$op(x)
            }
            #[inline(always)]
            fn merge(a: T, b: T) -> T {
                a.$op(b)
            }
            #[inline(always)]
            fn end(running: T, _: usize) -> Result<T, ElementwiseError> {
                Ok(running)
            }
        }
    };
}
extreme!(Max, LOWEST, larger);
extreme!(Min, HIGHEST, smaller);

macro_rules! boolean {
    ($fold:ident, $start:expr, $op:tt) => {
        impl Fold for $fold {
            type Value = u8;
            type Running = bool;
            const START: bool = $start;
            #[inline(always)]
            fn push(running: bool, x: u8) -> bool {
                running $op (x != 0)
            }
            #[inline(always)]
            fn merge(a: bool, b: bool) -> bool {
                a $op b
            }
            #[inline(always)]
            fn end(running: bool, _: usize) -> Result<u8, ElementwiseError> {
                Ok(u8::from(running))
            }
        }
    };
}
boolean!(BoolMax, false, |);
boolean!(BoolMin, true, &);
