//! Scaling by channel, and division by a length: what the norms of convolutional networks need beside [`super`].

use crate::KernelError;
use crate::storage::{Accumulator, Real};
use refeed_values::View;
use refeed_values::layout::Dims;

fn channel<T: Real>(
    operand: &'static str,
    view: &View<'_, T>,
    channels: usize,
) -> Result<(), KernelError> {
    if view.shape() == [channels] {
        return Ok(());
    }
    Err(KernelError::shape(operand, &[channels], view.shape()))
}

/// `data = data * scale[c] + bias[c]` in place, `data` being a dense `[outer, channels, inner]`.
///
/// # Errors
/// When an operand is not one value a channel or `data` has another length.
pub fn scale_channels<T: Real>(
    data: &mut [T],
    [outer, channels, inner]: [usize; 3],
    scale: &View<'_, T>,
    bias: &View<'_, T>,
) -> Result<(), KernelError> {
    channel("scale", scale, channels)?;
    channel("bias", bias, channels)?;
    KernelError::check_len("data", outer * channels * inner, data.len())?;
    if data.is_empty() {
        return Ok(());
    }
    for image in data.chunks_exact_mut(channels * inner) {
        for ((plane, scale), bias) in image
            .chunks_exact_mut(inner)
            .zip(scale.iter())
            .zip(bias.iter())
        {
            let (scale, bias) = (scale.to_acc(), bias.to_acc());
            for x in plane {
                *x = T::from_acc(x.to_acc() * scale + bias);
            }
        }
    }
    Ok(())
}

/// The four operands of a batch norm, one value a channel each.
#[derive(Debug, Clone)]
pub struct BatchStatistics<'a, T: Real> {
    /// Factor.
    pub scale: View<'a, T>,
    /// Summand.
    pub bias: View<'a, T>,
    /// Mean.
    pub mean: View<'a, T>,
    /// Variance.
    pub variance: View<'a, T>,
    /// Added to the variance.
    pub epsilon: f64,
}

/// `out = (x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c]`; the channel is axis 1 of `x`, or there is
/// one when `x` has one axis.
///
/// Source: ONNX operator `BatchNormalization`, inference.
///
/// # Errors
/// When `x` has no axis, an operand is not one value a channel, or `out` has another length.
pub fn batch_norm<T: Real>(
    x: &View<'_, T>,
    statistics: &BatchStatistics<'_, T>,
    out: &mut [T],
) -> Result<(), KernelError> {
    if x.rank() == 0 {
        return Err(KernelError::Rank {
            operand: "x",
            expected: "at least 1",
            got: 0,
        });
    }
    let channels = x.shape().get(1).copied().unwrap_or(1);
    let BatchStatistics {
        scale,
        bias,
        mean,
        variance,
        epsilon,
    } = statistics;
    for (operand, view) in [
        ("scale", scale),
        ("bias", bias),
        ("mean", mean),
        ("variance", variance),
    ] {
        channel(operand, view, channels)?;
    }
    KernelError::check_len("output", x.len(), out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let inner: usize = x.shape().get(2..).unwrap_or_default().iter().product();
    x.copy_to(out);
    let epsilon = T::Acc::from_f64(*epsilon);
    for image in out.chunks_exact_mut(channels * inner) {
        let factors = scale
            .iter()
            .zip(bias.iter())
            .zip(mean.iter().zip(variance.iter()));
        for (plane, ((scale, bias), (mean, variance))) in image.chunks_exact_mut(inner).zip(factors)
        {
            let factor = scale.to_acc() / (variance.to_acc() + epsilon).sqrt();
            let (bias, mean) = (bias.to_acc(), mean.to_acc());
            for x in plane {
                *x = T::from_acc((x.to_acc() - mean) * factor + bias);
            }
        }
    }
    Ok(())
}

/// Divides each line along `axis` by its length: the sum of magnitudes, or (`euclidean`) the root of the sum of
/// squares. A line of length 0 stays 0.
///
/// Source: ONNX operator `LpNormalization`.
///
/// # Errors
/// When there is no such axis or `out` has another length.
pub fn lp_normalize<T: Real>(
    x: &View<'_, T>,
    axis: usize,
    euclidean: bool,
    out: &mut [T],
) -> Result<(), KernelError> {
    let shape = x.shape();
    if axis >= shape.len() {
        return Err(KernelError::Rank {
            operand: "x",
            expected: "more axes than `axis`",
            got: shape.len(),
        });
    }
    KernelError::check_len("output", x.len(), out.len())?;
    let order: Dims = (0..shape.len())
        .filter(|&a| a != axis)
        .chain([axis])
        .collect();
    let lines = x
        .permute(&order)
        .ok_or_else(|| KernelError::shape("x", shape, shape))?;
    let inner: usize = shape[axis + 1..].iter().product();
    for (number, line) in lines.lanes().enumerate() {
        let mut sum = T::Acc::ZERO;
        for x in line.iter() {
            let x = x.to_acc();
            sum += match euclidean {
                true => x * x,
                false if x < T::Acc::ZERO => -x,
                false => x,
            };
        }
        let length = if euclidean { sum.sqrt() } else { sum };
        let base = number / inner * inner * line.len() + number % inner;
        for (at, x) in line.iter().enumerate() {
            let value = if length == T::Acc::ZERO {
                T::Acc::ZERO
            } else {
                x.to_acc() / length
            };
            out[base + at * inner] = T::from_acc(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| (i * 7 % 13) as f64 / 2.0 - 2.0).collect()
    }

    #[test]
    fn batch_norm_follows_the_formula() {
        let x = numbers(2 * 3 * 5);
        let view = View::from_slice(&x, &[5, 3, 2])
            .unwrap()
            .permute(&[2, 1, 0])
            .unwrap();
        let (scale, bias, mean, variance) = (
            [1.5, -2.0, 0.5],
            [0.0, 1.0, -3.0],
            [0.1, 0.2, 0.3],
            [4.0, 0.25, 9.0],
        );
        let make = |data| View::from_slice(data, &[3]).unwrap();
        let statistics = BatchStatistics {
            scale: make(&scale),
            bias: make(&bias),
            mean: make(&mean),
            variance: make(&variance),
            epsilon: 0.5,
        };
        let mut out = vec![0.0; 30];
        batch_norm(&view, &statistics, &mut out).unwrap();
        for (n, &got) in out.iter().enumerate() {
            let (i, c, k) = (n / 15, n / 5 % 3, n % 5);
            let want = (x[k * 6 + c * 2 + i] - mean[c]) / f64::sqrt(variance[c] + 0.5) * scale[c]
                + bias[c];
            assert!((got - want).abs() < 1e-12);
        }
        let wrong = View::from_slice(&x, &[3, 2, 5]).unwrap();
        assert!(batch_norm(&wrong, &statistics, &mut out).is_err());
    }

    #[test]
    fn channels_are_scaled_in_place() {
        let mut data = numbers(2 * 3 * 4);
        let before = data.clone();
        let (scale, bias) = ([2.0, 3.0, -1.0], [0.5, 0.0, 1.0]);
        let (s, b) = (
            View::from_slice(&scale, &[3]).unwrap(),
            View::from_slice(&bias, &[3]).unwrap(),
        );
        scale_channels(&mut data, [2, 3, 4], &s, &b).unwrap();
        for (n, (&got, &x)) in data.iter().zip(&before).enumerate() {
            assert_eq!(got, x * scale[n / 4 % 3] + bias[n / 4 % 3]);
        }
        assert!(scale_channels(&mut data, [2, 4, 3], &s, &b).is_err());
        scale_channels(&mut [], [0, 3, 4], &s, &b).unwrap();
    }

    #[test]
    fn lines_have_length_one_or_are_zero() {
        let mut x = numbers(2 * 3 * 5);
        for k in 0..5 {
            x[5 + k] = 0.0; // line [0, 1, :]
        }
        let view = View::from_slice(&x, &[2, 3, 5]).unwrap();
        for axis in 0..3 {
            for euclidean in [false, true] {
                let mut out = vec![0.0; 30];
                lp_normalize(&view, axis, euclidean, &mut out).unwrap();
                for (n, &got) in out.iter().enumerate() {
                    let index = [n / 15, n / 5 % 3, n % 5];
                    let line = (0..view.shape()[axis]).map(|i| {
                        let mut at = index;
                        at[axis] = i;
                        view.get(&at).unwrap()
                    });
                    let length = match euclidean {
                        true => line.map(|x| x * x).sum::<f64>().sqrt(),
                        false => line.map(f64::abs).sum(),
                    };
                    let want = if length == 0.0 { 0.0 } else { x[n] / length };
                    assert!((got - want).abs() < 1e-12, "{axis} {euclidean} {n}");
                }
            }
        }
        assert!(lp_normalize(&view, 3, true, &mut [0.0; 30]).is_err());
    }
}
