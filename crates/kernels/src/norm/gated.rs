//! RMS normalisation whose result is multiplied with a gate.

use crate::scratch::Scratch;
use crate::storage::{Accumulator, Real};
use crate::{Compute, KernelError, vecmath};
use refeed_values::View;

/// What is made of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `z / (1 + e^-z)`
    Silu,
    /// `1 / (1 + e^-z)`
    Sigmoid,
}

/// `out = x / sqrt(mean(x²) + epsilon) * scale * gate(z)`, over runs of as many elements as `scale` has; rounded once.
/// `gate` has the shape of `x`, whose last extent is a multiple of that; `out` is row-major.
///
/// Source: the contributed operators of onnxruntime, `com.microsoft.GatedRMSNorm`.
///
/// # Errors
/// When shapes or lengths do not fit.
pub fn gated_rms_norm<T: Real>(
    compute: &Compute<'_>,
    x: &View<'_, T>,
    scale: &View<'_, T>,
    (gate, kind): (&View<'_, T>, Gate),
    epsilon: f64,
    out: &mut [T],
) -> Result<(), KernelError> {
    let run = scale.len();
    let width = x.shape().last().copied().unwrap_or(0);
    if run == 0 || !width.is_multiple_of(run) || scale.rank() != 1 {
        return Err(KernelError::shape("scale", &[width], scale.shape()));
    }
    if gate.shape() != x.shape() {
        return Err(KernelError::shape("gate", x.shape(), gate.shape()));
    }
    KernelError::check_len("output", x.len(), out.len())?;
    let count = T::Acc::from_f64(run as f64);
    let epsilon = T::Acc::from_f64(epsilon);
    let mut values = T::Acc::scratch(2 * width + run);
    let (values, rest) = values.split_at_mut(width);
    let (gates, scales) = rest.split_at_mut(width);
    for (slot, x) in scales.iter_mut().zip(scale.iter()) {
        *slot = x.to_acc();
    }
    let rows = out.chunks_exact_mut(width.max(1));
    for ((row, x), z) in rows.zip(x.lanes()).zip(gate.lanes()) {
        for ((value, slot), (x, z)) in values
            .iter_mut()
            .zip(&mut *gates)
            .zip(x.iter().zip(z.iter()))
        {
            (*value, *slot) = (x.to_acc(), z.to_acc());
        }
        vecmath::sigmoid(compute.isa, gates);
        if kind == Gate::Silu {
            for (slot, z) in gates.iter_mut().zip(z.iter()) {
                *slot *= z.to_acc();
            }
        }
        for ((row, values), gates) in row
            .chunks_exact_mut(run)
            .zip(values.chunks_exact(run))
            .zip(gates.chunks_exact(run))
        {
            let squares = vecmath::sum_squares(compute.isa, values, T::Acc::ZERO);
            let inverse = T::Acc::ONE / (squares / count + epsilon).sqrt();
            for (i, slot) in row.iter_mut().enumerate() {
                *slot = T::from_acc(values[i] * inverse * scales[i] * gates[i]);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn runs_are_normalised_and_gated() {
        let x: Vec<f32> = (0..2 * 3 * 15)
            .map(|i| ((i * 37) % 101) as f32 / 25.0 - 2.0)
            .collect();
        let z: Vec<f32> = (0..2 * 3 * 15)
            .map(|i| ((i * 53) % 97) as f32 / 12.0 - 4.0)
            .collect();
        let scale: Vec<f32> = (0..5).map(|i| 0.5 + i as f32 / 7.0).collect();
        let shape = [2, 3, 15];
        let xs = View::from_slice(&x, &shape).unwrap();
        let zs = View::from_slice(&z, &shape).unwrap();
        let scales = View::from_slice(&scale, &[5]).unwrap();
        for isa in Isa::available() {
            let compute = Compute {
                isa,
                ..Compute::default()
            };
            for kind in [Gate::Silu, Gate::Sigmoid] {
                let mut out = vec![9f32; x.len()];
                gated_rms_norm(&compute, &xs, &scales, (&zs, kind), 0.25, &mut out).unwrap();
                for (run, got) in out.chunks(5).enumerate() {
                    let squares: f64 = (0..5).map(|i| f64::from(x[run * 5 + i]).powi(2)).sum();
                    for (i, got) in got.iter().enumerate() {
                        let gate = f64::from(z[run * 5 + i]);
                        let mut want = 1.0 / (1.0 + (-gate).exp());
                        if kind == Gate::Silu {
                            want *= gate;
                        }
                        want *= f64::from(x[run * 5 + i]) / (squares / 5.0 + 0.25).sqrt();
                        want *= f64::from(scale[i]);
                        assert!((f64::from(*got) - want).abs() < 2e-6, "{isa} {kind:?}");
                    }
                }
            }
        }
        let compute = Compute::default();
        let gate = (&zs, Gate::Silu);
        let mut out = vec![0f32; x.len()];
        let long = View::from_slice(&scale[..4], &[4]).unwrap();
        assert!(gated_rms_norm(&compute, &xs, &long, gate, 0.0, &mut out).is_err());
        assert!(gated_rms_norm(&compute, &xs, &scales, gate, 0.0, &mut out[1..]).is_err());
        let other = View::from_slice(&z, &[3, 2, 15]).unwrap();
        let gate = (&other, Gate::Silu);
        assert!(gated_rms_norm(&compute, &xs, &scales, gate, 0.0, &mut out).is_err());
    }
}
