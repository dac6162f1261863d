//! Depthwise convolution over what a state keeps of the past and what is new.

use crate::scratch::Scratch;
use crate::storage::{Accumulator, Real};
use crate::{Compute, KernelError, vecmath};
use refeed_values::View;

/// Operands of a causal convolution of `[batch, channels, length]`.
#[derive(Debug, Clone)]
pub struct CausalProblem<'a, T> {
    /// Input, any strides.
    pub input: View<'a, T>,
    /// A kernel for each channel, `[channels, 1, kernel]`.
    pub weight: View<'a, T>,
    /// A summand for each channel.
    pub bias: Option<View<'a, T>>,
    /// What came before, `[batch, channels, carry]`; zeros where it is absent.
    pub past: Option<View<'a, T>>,
    /// Distance of the elements that the kernel reads.
    pub dilation: usize,
    /// Whether the result is `y / (1 + e^-y)`.
    pub silu: bool,
}

impl<T: Real> CausalProblem<'_, T> {
    /// Elements of the past that the state keeps: `(kernel - 1) * dilation`.
    ///
    /// # Errors
    /// When an operand does not fit the input.
    pub fn carry(&self) -> Result<usize, KernelError> {
        let &[batch, channels, _] = self.input.shape() else {
            return Err(KernelError::Rank {
                operand: "input",
                expected: "three axes: batch, channels, length",
                got: self.input.rank(),
            });
        };
        let kernel = self.weight.shape().last().copied().unwrap_or(0);
        let expected = [channels, 1, kernel.max(1)];
        if self.weight.shape() != expected {
            let got = self.weight.shape();
            return Err(KernelError::shape("weight", &expected, got));
        }
        if let Some(bias) = &self.bias
            && bias.shape() != [channels]
        {
            return Err(KernelError::shape("bias", &[channels], bias.shape()));
        }
        let carry = (kernel - 1).checked_mul(self.dilation);
        let carry = carry.filter(|_| self.dilation > 0);
        let carry = carry.ok_or_else(|| KernelError::Range {
            parameter: "dilation",
            got: i64::try_from(self.dilation).unwrap_or(i64::MAX),
            low: 1,
            high: i64::MAX,
        })?;
        if let Some(past) = &self.past {
            let expected = [batch, channels, carry];
            if past.shape() != expected {
                return Err(KernelError::shape("past_state", &expected, past.shape()));
            }
        }
        Ok(carry)
    }
}

/// Rows of channels that a task takes on.
const ROWS: usize = 64;

/// `out[t] = bias + sum of weight[j] * x[t + j * dilation - carry]`, `x` being the past and then the input; `present` is
/// the last `carry` elements of that. Both are row-major.
///
/// Source: <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>
///
/// # Errors
/// When operands or outputs do not fit.
pub fn causal_conv<T: Real>(
    compute: &Compute<'_>,
    problem: &CausalProblem<'_, T>,
    out: &mut [T],
    present: &mut [T],
) -> Result<(), KernelError> {
    let carry = problem.carry()?;
    let &[batch, channels, length] = problem.input.shape() else {
        return Ok(()); // `carry` looked at the axes
    };
    KernelError::check_len("output", problem.input.len(), out.len())?;
    let kept = (batch * channels).saturating_mul(carry);
    KernelError::check_len("present_state", kept, present.len())?;
    let kernel = problem.weight.shape()[2];
    if length > 0 {
        let parallel = compute.parallel(batch * channels * length * kernel);
        compute
            .pool
            .chunks(out, ROWS * length, parallel, |task, part| {
                let mut line = T::Acc::scratch(carry + 2 * length);
                let (line, sums) = line.split_at_mut(carry + length);
                for (i, row) in part.chunks_exact_mut(length).enumerate() {
                    let at = [(task * ROWS + i) / channels, (task * ROWS + i) % channels];
                    read(problem.past.as_ref(), at, &mut line[..carry]);
                    read(Some(&problem.input), at, &mut line[carry..]);
                    let bias = problem.bias.as_ref().and_then(|bias| bias.get(&[at[1]]));
                    sums.fill(bias.map_or(T::Acc::ZERO, T::to_acc));
                    for tap in 0..kernel {
                        let weight = problem.weight.get(&[at[1], 0, tap]);
                        let weight = weight.map_or(T::Acc::ZERO, T::to_acc);
                        for (sum, x) in sums.iter_mut().zip(&line[tap * problem.dilation..]) {
                            *sum += weight * *x;
                        }
                    }
                    if problem.silu {
                        // The input is needed no more.
                        let gates = &mut line[carry..];
                        gates.copy_from_slice(sums);
                        vecmath::sigmoid(compute.isa, gates);
                        for (sum, gate) in sums.iter_mut().zip(gates) {
                            *sum *= *gate;
                        }
                    }
                    for (slot, sum) in row.iter_mut().zip(&*sums) {
                        *slot = T::from_acc(*sum);
                    }
                }
            });
    }
    if carry > 0 {
        for (index, row) in present.chunks_exact_mut(carry).enumerate() {
            let at = [index / channels, index % channels];
            let new = carry.min(length);
            let (old, fresh) = row.split_at_mut(carry - new);
            let lane = problem.past.as_ref().and_then(|past| past.lane(&at));
            match lane {
                None => old.fill(T::default()),
                Some(lane) => {
                    for (slot, x) in old.iter_mut().zip(lane.iter().skip(new)) {
                        *slot = x;
                    }
                }
            }
            let lane = problem.input.lane(&at);
            let values = lane.iter().flat_map(|lane| lane.iter().skip(length - new));
            for (slot, x) in fresh.iter_mut().zip(values) {
                *slot = x;
            }
        }
    }
    Ok(())
}

/// A line of a view, widened; zeros where there is none.
fn read<T: Real>(view: Option<&View<'_, T>>, at: [usize; 2], out: &mut [T::Acc]) {
    match view.and_then(|view| view.lane(&at)) {
        None => out.fill(T::Acc::ZERO),
        Some(lane) => {
            for (slot, x) in out.iter_mut().zip(lane.iter()) {
                *slot = x.to_acc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, ThreadPool};

    fn values(count: usize, seed: usize) -> Vec<f32> {
        let spread = |i: usize| (i * 7919 + seed * 104_729 + 13) % 65_521;
        (0..count)
            .map(|i| spread(i) as f32 / 32_760.0 - 1.0)
            .collect()
    }

    #[test]
    fn the_sum_over_past_and_input() {
        let pool = ThreadPool::new(2);
        for (batch, channels, length, kernel, dilation) in [
            (1, 1, 1, 1, 1),
            (2, 3, 7, 4, 1),
            (2, 70, 2, 4, 1),
            (1, 5, 33, 3, 2),
            (3, 2, 0, 4, 1),
        ] {
            let carry = (kernel - 1) * dilation;
            // The input is turned, as models have it.
            let turned = values(batch * length * channels, 1);
            let (weight, bias) = (values(channels * kernel, 2), values(channels, 3));
            let past = values(batch * channels * carry, 4);
            for (isa, silu, full) in Isa::available()
                .flat_map(|isa| [(isa, false, true), (isa, true, true), (isa, true, false)])
            {
                let problem = CausalProblem {
                    input: View::from_slice(&turned, &[batch, length, channels])
                        .unwrap()
                        .swap(1, 2)
                        .unwrap(),
                    weight: View::from_slice(&weight, &[channels, 1, kernel]).unwrap(),
                    bias: full.then(|| View::from_slice(&bias, &[channels]).unwrap()),
                    past: full.then(|| View::from_slice(&past, &[batch, channels, carry]).unwrap()),
                    dilation,
                    silu,
                };
                let compute = Compute::new(isa, &pool);
                let mut out = vec![9f32; batch * channels * length];
                let mut present = vec![9f32; batch * channels * carry];
                causal_conv(&compute, &problem, &mut out, &mut present).unwrap();
                for b in 0..batch {
                    for c in 0..channels {
                        let at = |i: usize| match i.checked_sub(carry) {
                            Some(t) => turned[(b * length + t) * channels + c],
                            None if full => past[(b * channels + c) * carry + i],
                            None => 0.0,
                        };
                        for t in 0..length {
                            let mut want = if full { f64::from(bias[c]) } else { 0.0 };
                            for j in 0..kernel {
                                let x = f64::from(at(t + j * dilation));
                                want += f64::from(weight[c * kernel + j]) * x;
                            }
                            if silu {
                                want /= 1.0 + (-want).exp();
                            }
                            let got = out[(b * channels + c) * length + t];
                            assert!((f64::from(got) - want).abs() < 1e-6, "{isa}");
                        }
                        for i in 0..carry {
                            let got = present[(b * channels + c) * carry + i];
                            assert_eq!(got, at(length + i));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn operands_that_do_not_fit_are_errors() {
        let data = [0f32; 24];
        let three =
            |shape: [usize; 3]| View::from_slice(&data[..shape.iter().product()], &shape).unwrap();
        let good = CausalProblem {
            input: three([1, 4, 3]),
            weight: three([4, 1, 3]),
            bias: None,
            past: Some(three([1, 4, 2])),
            dilation: 1,
            silu: false,
        };
        assert_eq!(good.carry().unwrap(), 2);
        let with = |change: &dyn Fn(&mut CausalProblem<'_, f32>)| {
            let mut problem = good.clone();
            change(&mut problem);
            problem.carry().is_err()
        };
        assert!(with(
            &|p| p.weight = View::from_slice(&[0f32; 9], &[3, 1, 3]).unwrap()
        ));
        assert!(with(
            &|p| p.weight = View::from_slice(&[], &[4, 1, 0]).unwrap()
        ));
        assert!(with(&|p| p.bias = View::from_slice(&[0f32; 3], &[3])));
        assert!(with(&|p| p.past = View::from_slice(&[0f32; 12], &[1, 4, 3])));
        assert!(with(&|p| p.dilation = 0));
        assert!(with(
            &|p| p.input = View::from_slice(&[0f32; 12], &[4, 3]).unwrap()
        ));
        let (mut out, mut present) = ([0f32; 12], [0f32; 7]);
        let compute = Compute::default();
        assert!(causal_conv(&compute, &good, &mut out, &mut present).is_err());
    }
}
