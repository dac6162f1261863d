//! The decays and rates that feed the gated delta rule.

use crate::scratch::Scratch;
use crate::storage::Real;
use crate::{Isa, KernelError, vecmath};
use refeed_values::View;

/// `out = factor * ln(1 + e^(x + bias))`: the decay of each head, in f64 and rounded once. `bias` and `factor` have a
/// number for each place of the last axis.
///
/// Source: the contributed operators of onnxruntime, `com.microsoft.LinearAttentionGate`.
///
/// ```
/// use refeed_kernels::linear_attention::decay_gate;
/// use refeed_values::View;
/// let x = [0.0f32, 50.0];
/// let mut out = [0.0; 2];
/// if let Some(x) = View::from_slice(&x, &[1, 2]) {
///     decay_gate(&x, &[0.0, 0.0], &[-1.0, -2.0], &mut out)?;
/// }
/// assert_eq!(out, [-0.6931472, -100.0]);
/// # Ok::<(), refeed_kernels::KernelError>(())
/// ```
///
/// # Errors
/// When a length does not fit.
pub fn decay_gate<T: Real<Acc = f32>>(
    x: &View<'_, T>,
    bias: &[f32],
    factor: &[f32],
    out: &mut [T],
) -> Result<(), KernelError> {
    let width = x.shape().last().copied().unwrap_or(1);
    KernelError::check_len("dt_bias", width, bias.len())?;
    KernelError::check_len("decay_scale", width, factor.len())?;
    KernelError::check_len("decay", x.len(), out.len())?;
    for (i, (slot, x)) in out.iter_mut().zip(x.iter()).enumerate() {
        let (bias, factor) = (f64::from(bias[i % width]), f64::from(factor[i % width]));
        let x = f64::from(x.to_acc()) + bias;
        // Where e^x would overflow, the logarithm is x.
        let soft = x.max(0.0) + (-x.abs()).exp().ln_1p();
        *slot = T::from_acc((factor * soft) as f32);
    }
    Ok(())
}

/// `out = 1 / (1 + e^-x)`: the rate of each head.
///
/// # Errors
/// When `out` has another length.
pub fn rate_gate<T: Real<Acc = f32>>(
    isa: Isa,
    x: &View<'_, T>,
    out: &mut [T],
) -> Result<(), KernelError> {
    KernelError::check_len("beta", x.len(), out.len())?;
    let mut rates = f32::scratch(x.len());
    for (slot, x) in rates.iter_mut().zip(x.iter()) {
        *slot = x.to_acc();
    }
    vecmath::sigmoid(isa, &mut rates[..]);
    for (slot, rate) in out.iter_mut().zip(rates.iter()) {
        *slot = T::from_acc(*rate);
    }
    Ok(())
}
