//! Layer and RMS normalisation over the last axes. Statistics are kept in f32 (f64 for DOUBLE), so squares of large
//! FLOAT16 values do not overflow; epsilon is added inside the root.

mod channel;
mod gated;
mod residual;

pub use channel::{BatchStatistics, batch_norm, lp_normalize, scale_channels};
pub use gated::{Gate, gated_rms_norm};
pub use residual::residual_sum;

use crate::matmul::micro::{narrow, widen};
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies;
use crate::{Compute, KernelError};
use refeed_values::View;

/// Elements that one task takes on.
const TASK: usize = 1 << 13;

/// Which normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// `(x - mean) / sqrt(variance + epsilon)`
    Layer,
    /// `x / sqrt(mean(x²) + epsilon)`
    Rms,
}

/// A normalisation and its operands.
#[derive(Debug, Clone)]
pub struct NormProblem<'a, T: Real> {
    /// Which normalisation.
    pub norm: Norm,
    /// Input, any strides.
    pub x: View<'a, T>,
    /// First of the axes that are normalised together, up to the last one.
    pub axis: usize,
    /// Factor, broadcast to the shape of `x`.
    pub scale: Option<View<'a, T>>,
    /// Summand, broadcast to the shape of `x`.
    pub bias: Option<View<'a, T>>,
    /// Added to the variance or mean square, inside the root.
    pub epsilon: f64,
}

/// Normalises into a row-major output. `mean` (zeros for [`Norm::Rms`]) and `inverse` (1 / the root) get one entry for
/// each position of the axes before `axis`, in row-major order.
///
/// Source: <https://onnx.ai/onnx/operators/onnx__LayerNormalization.html>,
/// <https://onnx.ai/onnx/operators/onnx__RMSNormalization.html>
///
/// # Errors
/// When `axis` is out of range, scale or bias do not broadcast to `x`, or an output has another length.
pub fn normalize<T: Real>(
    compute: &Compute<'_>,
    problem: &NormProblem<'_, T>,
    out: &mut [T],
    mean: Option<&mut [T::Acc]>,
    inverse: Option<&mut [T::Acc]>,
) -> Result<(), KernelError> {
    let x = &problem.x;
    let (shape, axis) = (x.shape(), problem.axis);
    if axis >= x.rank() {
        return Err(KernelError::Range {
            parameter: "axis",
            got: axis as i64,
            low: 0,
            high: x.rank() as i64 - 1,
        });
    }
    KernelError::check_len("normalised output", x.len(), out.len())?;
    let rows: usize = shape[..axis].iter().product();
    let width: usize = shape[axis..].iter().product();
    for (operand, slots) in [("mean", &mean), ("inverse deviation", &inverse)] {
        if let Some(slots) = slots {
            KernelError::check_len(operand, rows, slots.len())?;
        }
    }
    let scale = Affine::new("scale", problem.scale.as_ref(), x, axis, T::Acc::ONE)?;
    let bias = Affine::new("bias", problem.bias.as_ref(), x, axis, T::Acc::ZERO)?;
    if width == 0 {
        return Ok(());
    }
    // One entry a row for the two statistics, whether or not they are asked for.
    let mut statistics = T::Acc::scratch(2 * rows);
    let statistics = &mut statistics[..];
    x.copy_to(out);
    let group = (TASK / width).max(1);
    let parallel = compute.parallel(2 * out.len());
    let epsilon = T::Acc::from_f64(problem.epsilon);
    compute
        .pool
        .chunks(out, group * width, parallel, |index, part| {
            let op = NormRows {
                norm: problem.norm,
                part,
                width,
                first: index * group,
                scale: &scale,
                bias: &bias,
                epsilon,
            };
            T::Acc::dispatch(compute.isa, op);
        });
    if mean.is_some() || inverse.is_some() {
        // Rare outputs: computed again from the input, by the same code.
        let mut row = T::Acc::scratch(width);
        for (i, pair) in statistics.chunks_exact_mut(2).enumerate() {
            fill_row(x, axis, i, &mut row);
            let op = Statistics {
                norm: problem.norm,
                row: &row,
                epsilon,
            };
            (pair[0], pair[1]) = T::Acc::dispatch(compute.isa, op);
        }
    }
    for (slots, place) in [(mean, 0), (inverse, 1)] {
        for (slot, pair) in slots.into_iter().flatten().zip(statistics.chunks_exact(2)) {
            *slot = pair[place];
        }
    }
    Ok(())
}

/// Widens row `index` (a position of the axes before `axis`) of a view.
fn fill_row<T: Real>(view: &View<'_, T>, axis: usize, mut index: usize, row: &mut [T::Acc]) {
    let mut part = view.clone();
    for at in (0..axis).rev() {
        let extent = part.shape()[at].max(1);
        match part.index(at, index % extent) {
            Some(next) => part = next,
            None => return, // the remainder is a position of the axis
        }
        index /= extent;
    }
    for (slot, x) in row.iter_mut().zip(part.iter()) {
        *slot = x.to_acc();
    }
}

/// Scale or bias: the same for all rows, or one of its own for each.
enum Affine<'a, T: Real> {
    Same(crate::scratch::Lent<T::Acc>),
    Each(View<'a, T>, usize),
    Missing,
}

impl<'a, T: Real> Affine<'a, T> {
    fn new(
        operand: &'static str,
        given: Option<&View<'a, T>>,
        x: &View<'_, T>,
        axis: usize,
        fill: T::Acc,
    ) -> Result<Self, KernelError> {
        let Some(given) = given else {
            return Ok(Affine::Missing);
        };
        let full = given
            .broadcast(x.shape())
            .ok_or_else(|| KernelError::shape(operand, x.shape(), given.shape()))?;
        let outer = full.shape()[..axis].iter().zip(full.strides());
        if outer
            .into_iter()
            .any(|(&dim, &stride)| dim > 1 && stride != 0)
        {
            return Ok(Affine::Each(full, axis));
        }
        let mut row = T::Acc::scratch(x.shape()[axis..].iter().product());
        row.fill(fill);
        if !x.is_empty() {
            fill_row(&full, axis, 0, &mut row);
        }
        Ok(Affine::Same(row))
    }

    /// The values for a row; `own` is room for them.
    fn row<'r>(&'r self, index: usize, own: &'r mut [T::Acc]) -> Option<&'r [T::Acc]> {
        match self {
            Affine::Missing => None,
            Affine::Same(row) => Some(row),
            Affine::Each(view, axis) => {
                fill_row(view, *axis, index, own);
                Some(own)
            }
        }
    }
}

struct Statistics<'r, E> {
    norm: Norm,
    row: &'r [E],
    epsilon: E,
}

impl<E: Accumulator> Op<E> for Statistics<'_, E> {
    type Output = (E, E);

    #[inline(always)]
    fn run<S: Simd<E>>(self, s: S) -> (E, E) {
        let count = E::from_f64(self.row.len() as f64);
        let mean = match self.norm {
            Norm::Layer => bodies::sum(s, self.row) / count,
            Norm::Rms => E::ZERO,
        };
        let spread = bodies::sum_squares(s, self.row, mean) / count;
        (mean, E::ONE / (spread + self.epsilon).sqrt())
    }
}

struct NormRows<'t, 'a, T: Real> {
    norm: Norm,
    part: &'t mut [T],
    width: usize,
    first: usize,
    scale: &'t Affine<'a, T>,
    bias: &'t Affine<'a, T>,
    epsilon: T::Acc,
}

impl<T: Real> Op<T::Acc> for NormRows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let width = self.width;
        let mut room = T::Acc::scratch(3 * width);
        let (row, room) = room.split_at_mut(width);
        let (own_scale, own_bias) = room.split_at_mut(width);
        for (i, part) in self.part.chunks_exact_mut(width).enumerate() {
            widen(s, part, row);
            let statistics = Statistics {
                norm: self.norm,
                row,
                epsilon: self.epsilon,
            };
            let (mean, inverse) = statistics.run(s);
            let scale = self.scale.row(self.first + i, own_scale);
            let bias = self.bias.row(self.first + i, own_bias);
            match scale {
                Some(scale) => {
                    for (x, f) in row.iter_mut().zip(scale) {
                        *x = (*x - mean) * inverse * *f;
                    }
                }
                None => {
                    for x in row.iter_mut() {
                        *x = (*x - mean) * inverse;
                    }
                }
            }
            for (x, b) in row.iter_mut().zip(bias.into_iter().flatten()) {
                *x += *b;
            }
            narrow(row, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use half::f16;

    fn problem<'a, T: Real>(
        norm: Norm,
        x: &'a [T],
        shape: &[usize],
        axis: usize,
    ) -> NormProblem<'a, T> {
        NormProblem {
            norm,
            x: View::from_slice(x, shape).unwrap(),
            axis,
            scale: None,
            bias: None,
            epsilon: 0.0,
        }
    }

    #[test]
    fn follows_the_formula_for_every_isa_and_width() {
        for isa in Isa::available() {
            let compute = Compute {
                isa,
                ..Compute::default()
            };
            for width in [1, 7, 8, 9, 15, 16, 17, 35, 100] {
                let x: Vec<f32> = (0..3 * width)
                    .map(|i| ((i * 31) % 17) as f32 / 4.0 + 10.0)
                    .collect();
                let scale: Vec<f32> = (0..width).map(|i| 1.0 + i as f32 / 8.0).collect();
                let bias: Vec<f32> = (0..3 * width).map(|i| i as f32 / 16.0).collect();
                for norm in [Norm::Layer, Norm::Rms] {
                    let mut p = problem(norm, &x, &[3, width], 1);
                    p.epsilon = 1e-3;
                    p.scale = View::from_slice(&scale, &[width]);
                    p.bias = View::from_slice(&bias, &[3, width]); // one of its own for each row
                    let mut out = vec![0f32; 3 * width];
                    let (mut mean, mut inverse) = ([0f32; 3], [0f32; 3]);
                    normalize(&compute, &p, &mut out, Some(&mut mean), Some(&mut inverse)).unwrap();
                    for r in 0..3 {
                        let row: Vec<f64> = x[r * width..][..width]
                            .iter()
                            .map(|x| f64::from(*x))
                            .collect();
                        let n = width as f64;
                        let m = if norm == Norm::Layer {
                            row.iter().sum::<f64>() / n
                        } else {
                            0.0
                        };
                        let v = row.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n;
                        let i = 1.0 / (v + 1e-3).sqrt();
                        assert!((f64::from(mean[r]) - m).abs() < 1e-4);
                        assert!((f64::from(inverse[r]) / i - 1.0).abs() < 1e-4);
                        for c in 0..width {
                            let want = (row[c] - m) * i * f64::from(scale[c])
                                + f64::from(bias[r * width + c]);
                            let got = f64::from(out[r * width + c]);
                            assert!(
                                (got - want).abs() < 1e-3 * (1.0 + want.abs()),
                                "{isa} {width} {norm:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn squares_of_halves_do_not_overflow() {
        for isa in Isa::available() {
            let compute = Compute {
                isa,
                ..Compute::default()
            };
            for (norm, x, want) in [
                (Norm::Rms, [256.0, 256.0], [1.0, 1.0]),
                (Norm::Layer, [256.0, -256.0], [1.0, -1.0]),
            ] {
                let x = x.map(f16::from_f32);
                let mut out = [f16::ZERO; 2];
                normalize(
                    &compute,
                    &problem(norm, &x, &[1, 2], 1),
                    &mut out,
                    None,
                    None,
                )
                .unwrap();
                assert_eq!(out.map(f16::to_f32), want);
            }
        }
    }

    #[test]
    fn epsilon_is_inside_the_root() {
        let mut p = problem(Norm::Rms, &[1e-3f64, 1e-3], &[2], 0);
        p.epsilon = 1e-5;
        let mut out = [0f64; 2];
        normalize(&Compute::default(), &p, &mut out, None, None).unwrap();
        assert!((out[0] - 0.301_511_34).abs() < 1e-8);
    }

    #[test]
    fn transposed_input_over_two_axes_and_wrong_operands() {
        let compute = Compute::default();
        let data: Vec<f64> = (0..24).map(|i| f64::from(i * i)).collect();
        let mut p = problem(Norm::Layer, &data, &[2, 3, 4], 1);
        p.x = p.x.permute(&[2, 0, 1]).unwrap(); // [4, 2, 3]
        let mut out = [0f64; 24];
        normalize(&compute, &p, &mut out, None, None).unwrap();
        let dense = p.x.to_vec();
        for r in 0..4 {
            let row = &dense[r * 6..][..6];
            let m = row.iter().sum::<f64>() / 6.0;
            let v = row.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / 6.0;
            for c in 0..6 {
                assert!((out[r * 6 + c] - (row[c] - m) / v.sqrt()).abs() < 1e-12);
            }
        }
        p.scale = View::from_slice(&data[..2], &[2]);
        assert!(matches!(
            normalize(&compute, &p, &mut out, None, None),
            Err(KernelError::Shape {
                operand: "scale",
                ..
            })
        ));
        p.scale = None;
        p.axis = 3;
        assert!(normalize(&compute, &p, &mut out, None, None).is_err());
        let none = problem::<f32>(Norm::Rms, &[], &[0, 5], 1);
        normalize(&compute, &none, &mut [], None, None).unwrap();
    }
}
