//! The sum that a residual norm normalises.

use crate::KernelError;
use crate::storage::Real;
use refeed_values::View;

fn spread<'a, T: Real>(
    operand: &'static str,
    view: &View<'a, T>,
    shape: &[usize],
) -> Result<View<'a, T>, KernelError> {
    view.broadcast(shape)
        .ok_or_else(|| KernelError::shape(operand, shape, view.shape()))
}

/// `out = x + skip (+ bias)`, rounded once; `skip` and `bias` broadcast to `x`, `out` is row-major.
///
/// # Errors
/// When an operand does not broadcast or `out` has another length.
pub fn residual_sum<T: Real>(
    x: &View<'_, T>,
    skip: &View<'_, T>,
    bias: Option<&View<'_, T>>,
    out: &mut [T],
) -> Result<(), KernelError> {
    let skip = spread("skip", skip, x.shape())?;
    let bias = bias
        .map(|bias| spread("bias", bias, x.shape()))
        .transpose()?;
    KernelError::check_len("sum", x.len(), out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let width = x.shape().last().copied().unwrap_or(1);
    let mut more = bias.as_ref().map(View::lanes);
    for ((row, x), skip) in out.chunks_exact_mut(width).zip(x.lanes()).zip(skip.lanes()) {
        let sums = x
            .iter()
            .zip(skip.iter())
            .map(|(x, skip)| x.to_acc() + skip.to_acc());
        match more.as_mut().and_then(Iterator::next) {
            Some(bias) => {
                for ((slot, sum), bias) in row.iter_mut().zip(sums).zip(bias.iter()) {
                    *slot = T::from_acc(sum + bias.to_acc());
                }
            }
            None => row
                .iter_mut()
                .zip(sums)
                .for_each(|(slot, sum)| *slot = T::from_acc(sum)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn operands_broadcast_and_halves_round_once() {
        let x: Vec<f64> = (0..12).map(|i| f64::from(i) / 3.0).collect();
        let skip: Vec<f64> = (0..6).map(|i| f64::from(i * i)).collect();
        let bias = [0.25, -1.0, 7.0];
        let view = View::from_slice(&x, &[3, 2, 2])
            .unwrap()
            .permute(&[1, 2, 0])
            .unwrap();
        let (s, b) = (
            View::from_slice(&skip, &[2, 3]).unwrap(),
            View::from_slice(&bias, &[3]).unwrap(),
        );
        for bias in [None, Some(&b)] {
            let mut out = vec![0.0; 12];
            residual_sum(&view, &s, bias, &mut out).unwrap();
            for (n, &got) in out.iter().enumerate() {
                let (i, j, k) = (n / 6, n / 3 % 2, n % 3);
                let want = x[k * 4 + i * 2 + j]
                    + skip[j * 3 + k]
                    + bias.map_or(0.0, |b| b.get(&[k]).unwrap());
                assert!((got - want).abs() < 1e-12);
            }
        }
        // 2048 + 1 rounds back to 2048 in FLOAT16; both summands together do not.
        let half = |x: f32| [f16::from_f32(x)];
        let (x, one) = (half(2048.0), half(1.0));
        let (x, one) = (
            View::from_slice(&x, &[1]).unwrap(),
            View::from_slice(&one, &[1]).unwrap(),
        );
        let mut out = half(0.0);
        residual_sum(&x, &one, Some(&one), &mut out).unwrap();
        assert_eq!(out[0].to_f32(), 2050.0);
        assert!(residual_sum(&x, &one, None, &mut []).is_err());
    }
}
