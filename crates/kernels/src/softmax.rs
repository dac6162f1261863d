//! Softmax and its logarithm along one axis.

use crate::matmul::micro::narrow;
use crate::scratch::Scratch;
use crate::simd::{Op, Simd};
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies;
use crate::{Compute, KernelError};
use refeed_values::View;

/// Elements that one task takes on.
const TASK: usize = 1 << 13;

/// `e^x / sum(e^x)` along `axis`, into a row-major output; FLOAT16 and BFLOAT16 are computed in f32.
///
/// Source: <https://onnx.ai/onnx/operators/onnx__Softmax.html>
///
/// # Errors
/// When `axis` is out of range or `out` has another length than `x`.
pub fn softmax<T: Real>(
    compute: &Compute<'_>,
    x: &View<'_, T>,
    axis: usize,
    out: &mut [T],
) -> Result<(), KernelError> {
    along(compute, x, axis, false, out)
}

/// `x - ln(sum(e^x))` along `axis`; otherwise as [`softmax`].
///
/// Source: <https://onnx.ai/onnx/operators/onnx__LogSoftmax.html>
///
/// # Errors
/// As [`softmax`].
pub fn log_softmax<T: Real>(
    compute: &Compute<'_>,
    x: &View<'_, T>,
    axis: usize,
    out: &mut [T],
) -> Result<(), KernelError> {
    along(compute, x, axis, true, out)
}

fn along<T: Real>(
    compute: &Compute<'_>,
    x: &View<'_, T>,
    axis: usize,
    log: bool,
    out: &mut [T],
) -> Result<(), KernelError> {
    if axis >= x.rank() {
        return Err(KernelError::Range {
            parameter: "axis",
            got: axis as i64,
            low: 0,
            high: x.rank() as i64 - 1,
        });
    }
    KernelError::check_len("softmax", x.len(), out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    x.copy_to(out);
    // The output is now [outer, width, inner].
    let width = x.shape()[axis];
    let inner: usize = x.shape()[axis + 1..].iter().product();
    let block = width * inner;
    let parallel = compute.parallel(4 * out.len());
    let group = (TASK / block).max(1);
    compute
        .pool
        .chunks(out, group * block, parallel, |_, part| {
            let op = Blocks {
                part,
                width,
                inner,
                log,
            };
            T::Acc::dispatch(compute.isa, op);
        });
    Ok(())
}

struct Blocks<'o, T> {
    part: &'o mut [T],
    width: usize,
    inner: usize,
    log: bool,
}

impl<T: Real> Op<T::Acc> for Blocks<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Acc>>(self, s: S) {
        let mut line = T::Acc::scratch(self.width);
        for block in self.part.chunks_exact_mut(self.width * self.inner) {
            for place in 0..self.inner {
                for (x, slot) in block[place..].iter().step_by(self.inner).zip(&mut *line) {
                    *slot = x.to_acc();
                }
                if self.log {
                    bodies::log_softmax(s, &mut line);
                } else {
                    bodies::softmax(s, &mut line);
                }
                if self.inner == 1 {
                    narrow(&line, block);
                    continue;
                }
                for (x, slot) in line
                    .iter()
                    .zip(block[place..].iter_mut().step_by(self.inner))
                {
                    *slot = T::from_acc(*x);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use half::f16;

    #[test]
    fn every_axis_of_a_transposed_view() {
        let compute = Compute::default();
        let data: Vec<f32> = (0..60).map(|i| ((i * 37) % 23) as f32 - 11.0).collect();
        for isa in Isa::available() {
            let compute = Compute { isa, ..compute };
            let view = View::from_slice(&data, &[3, 4, 5]).unwrap();
            let view = view.permute(&[2, 0, 1]).unwrap(); // [5, 3, 4]
            for axis in 0..3 {
                let (mut p, mut l) = (vec![0f32; 60], vec![0f32; 60]);
                softmax(&compute, &view, axis, &mut p).unwrap();
                log_softmax(&compute, &view, axis, &mut l).unwrap();
                for i in 0..60 {
                    let at = [i / 12, i / 4 % 3, i % 4];
                    let total: f64 = (0..view.shape()[axis])
                        .map(|j| {
                            let mut other = at;
                            other[axis] = j;
                            f64::from(view.get(&other).unwrap()).exp()
                        })
                        .sum();
                    let x = f64::from(view.get(&at).unwrap());
                    assert!((f64::from(p[i]) - x.exp() / total).abs() < 1e-6);
                    assert!((f64::from(l[i]) - (x - total.ln())).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn large_halves_do_not_overflow() {
        let x = [65504.0, 65504.0, 0.0].map(f16::from_f32);
        let mut out = [f16::ZERO; 3];
        let view = View::from_slice(&x, &[1, 3]).unwrap();
        softmax(&Compute::default(), &view, 1, &mut out).unwrap();
        assert_eq!(out.map(f16::to_f32), [0.5, 0.5, 0.0]);
        assert!(softmax(&Compute::default(), &view, 2, &mut out).is_err());
        assert!(softmax(&Compute::default(), &view, 0, &mut out[..2]).is_err());
    }
}
