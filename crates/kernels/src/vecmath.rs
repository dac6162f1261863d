//! Vector arithmetic on dense slices: sums in a fixed order, exponentials, activations.
//!
//! `bodies` holds the algorithms, for kernels that are already compiled for an instruction set; the functions here
//! dispatch once a call.

use crate::Isa;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};

pub(crate) mod bodies;

macro_rules! operation {
    ($(#[$doc:meta])* fn $name:ident<$($life:lifetime,)? $t:ident : $bound:ident>
        ($($arg:ident : $ty:ty),*) -> $out:ty) => {
        $(#[$doc])*
        pub fn $name<$($life,)? $t: $bound>(isa: Isa, $($arg: $ty),*) -> $out {
            struct Run<$($life,)? $t: $bound> {
                $($arg: $ty,)*
                kind: std::marker::PhantomData<$t>,
            }
            impl<$($life,)? $t: $bound> Op<$t::Acc> for Run<$($life,)? $t> {
                type Output = $out;
                #[inline(always)]
                fn run<S: Simd<$t::Acc>>(self, s: S) -> $out {
                    bodies::$name(s, $(self.$arg),*)
                }
            }
            $t::Acc::dispatch(isa, Run { $($arg,)* kind: std::marker::PhantomData::<$t> })
        }
    };
}

operation! {
    /// Dot product of the common length of `a` and `b`.
    fn dot<'a, T: Real>(a: &'a [T::Acc], b: &'a [T]) -> T::Acc
}
operation! {
    /// `y += factor * x` over the common length.
    fn axpy<'a, T: Real>(factor: T::Acc, x: &'a [T], y: &'a mut [T::Acc]) -> ()
}
operation! {
    /// `x *= factor`
    fn scale<'a, T: Accumulator>(x: &'a mut [T], factor: T) -> ()
}
operation! {
    /// Sum; 0 of nothing.
    fn sum<'a, T: Real>(x: &'a [T]) -> T::Acc
}
operation! {
    /// Sum of the squared distances from `center`.
    fn sum_squares<'a, T: Real>(x: &'a [T], center: T::Acc) -> T::Acc
}
operation! {
    /// Largest element, NaN apart; negative infinity of nothing.
    fn max<'a, T: Real>(x: &'a [T]) -> T::Acc
}
operation! {
    /// e to the power of each element, within 2 units in the last place for f32.
    fn exp<'a, T: Accumulator>(x: &'a mut [T]) -> ()
}
operation! {
    /// Replaces `x` by e to the power of `x - shift` and returns the sum of the results.
    fn exp_sum<'a, T: Accumulator>(x: &'a mut [T], shift: T) -> T
}
operation! {
    /// 1 / (1 + e^-x)
    fn sigmoid<'a, T: Accumulator>(x: &'a mut [T]) -> ()
}
operation! {
    /// Hyperbolic tangent.
    fn tanh<'a, T: Accumulator>(x: &'a mut [T]) -> ()
}
operation! {
    /// Softmax in place: largest element subtracted, so finite input never overflows. All negative infinity gives
    /// NaN as the formula does; attention treats such rows itself.
    fn softmax<'a, T: Accumulator>(x: &'a mut [T]) -> ()
}
operation! {
    /// Logarithm of softmax, in place.
    fn log_softmax<'a, T: Accumulator>(x: &'a mut [T]) -> ()
}

#[cfg(test)]
mod tests;
