//! NEON is the baseline of 64-bit Arm: the portable arrays already compile to its registers and fused multiply-adds,
//! so this token only chooses the fused form.

use crate::simd::{Op, Portable};

/// Proof that the CPU has NEON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    /// `None` when the CPU lacks it.
    pub(crate) fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }

    pub(crate) fn run_f32<O: Op<f32>>(self, op: O) -> O::Output {
        op.run(Portable::<f32, true>::new())
    }

    pub(crate) fn run_f64<O: Op<f64>>(self, op: O) -> O::Output {
        op.run(Portable::<f64, true>::new())
    }
}
