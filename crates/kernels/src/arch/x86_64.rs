//! x86-64 beyond its baseline.
//!
//! # The argument for the unsafe code below this module
//! Tokens have a private field and are only made by `new`, after the CPU was asked for every feature that the `run_*`
//! functions and the intrinsics of the file are compiled with; the three lists must stay the same. So calling the
//! feature functions is sound wherever a token is. Loads and stores go through slices that were first cut to the
//! number of elements moved, so the pointers are valid for that many.

mod avx2;
mod avx512;
mod vnni;
pub(crate) use avx2::Avx2;
pub(crate) use avx512::Avx512;
pub(crate) use vnni::{ByteOp, Bytes, Vnni};

/// Makes a token type with its detection and its entry points.
macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $list:literal, [$($feature:tt),*]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $name(());

        impl $name {
            /// `None` when the CPU lacks a feature.
            pub(crate) fn new() -> Option<Self> {
                ($(std::arch::is_x86_feature_detected!($feature))&&*).then_some($name(()))
            }

            /// Runs `op` compiled for these features.
            pub(crate) fn run_f32<O: crate::simd::Op<f32>>(self, op: O) -> O::Output {
                #[target_feature(enable = $list)]
                fn inner<O: crate::simd::Op<f32>>(token: $name, op: O) -> O::Output {
                    op.run(token)
                }
                // SAFETY: the token proves the features.
                unsafe { inner(self, op) }
            }

            /// As `run_f32`, in a function of its own.
            pub(crate) fn apart_f32<O: crate::simd::Op<f32>>(self, op: O) -> O::Output {
                #[inline(never)]
                #[target_feature(enable = $list)]
                fn inner<O: crate::simd::Op<f32>>(token: $name, op: O) -> O::Output {
                    op.run(token)
                }
                // SAFETY: the token proves the features.
                unsafe { inner(self, op) }
            }

            /// Runs `op` compiled for these features.
            pub(crate) fn run_f64<O: crate::simd::Op<f64>>(self, op: O) -> O::Output {
                #[target_feature(enable = $list)]
                fn inner<O: crate::simd::Op<f64>>(op: O) -> O::Output {
                    op.run(crate::simd::Portable::<f64, true>::new())
                }
                // SAFETY: the token proves the features.
                unsafe { inner(op) }
            }
        }
    };
}
use token;
