//! Convolution over one, two or three spatial axes.
//!
//! With several output channels a group, the windows of a tile of positions are laid out as a matrix and multiplied
//! with the weights; where there are few positions (a step of a streaming model) as rows, so that the weights are read
//! once, in place. With few output channels a group (depthwise), sums are taken directly over rows of the input.

mod causal;

pub use causal::{CausalProblem, causal_conv};

use crate::matmul::{MatMulElement, matmul};
use crate::scratch::Scratch;
use crate::storage::Real;
use crate::{Compute, KernelError, vecmath};
use refeed_values::View;

/// Spatial axes that are computed; fewer are led by axes of extent 1.
pub const AXES: usize = 3;

/// Up to this many positions are few.
const FEW: usize = 8;

/// Output channels of a group below which sums are taken directly.
const DIRECT: usize = 4;

/// Elements of a matrix of windows, unless [`LEAST`] positions need more.
const MOST: usize = 1 << 18;

/// Positions of a tile, at least.
const LEAST: usize = 64;

/// One spatial axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    input: usize,
    kernel: usize,
    output: usize,
    stride: usize,
    dilation: usize,
    /// Zeros before the first element.
    pad: usize,
}

impl Axis {
    /// An axis that is there for the form only.
    pub const SINGLE: Axis = Axis {
        input: 1,
        kernel: 1,
        output: 1,
        stride: 1,
        dilation: 1,
        pad: 0,
    };

    /// An axis of `input` elements and `pads` zeros before and after them, over which a kernel of `kernel` elements,
    /// `dilation` apart, goes in steps of `stride`.
    ///
    /// # Errors
    /// When a number is 0 that must not be, the numbers leave the range of `isize`, or the kernel reaches over more
    /// elements than there are.
    pub fn new(
        input: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pads: [usize; 2],
    ) -> Result<Axis, KernelError> {
        const HIGH: usize = isize::MAX as usize / 2;
        let range = |parameter, got: usize, low: i64| KernelError::Range {
            parameter,
            got: i64::try_from(got).unwrap_or(i64::MAX),
            low,
            high: HIGH as i64,
        };
        for (parameter, got) in [
            ("kernel extent", kernel),
            ("stride", stride),
            ("dilation", dilation),
        ] {
            if got == 0 || got > HIGH {
                return Err(range(parameter, got, 1));
            }
        }
        let padded = input
            .checked_add(pads[0])
            .and_then(|n| n.checked_add(pads[1]))
            .filter(|&n| n <= HIGH)
            .ok_or_else(|| range("padded extent", usize::MAX, 0))?;
        let reach = (kernel - 1)
            .checked_mul(dilation)
            .and_then(|n| n.checked_add(1))
            .unwrap_or(usize::MAX);
        if reach > padded {
            return Err(range(
                "padded extent",
                padded,
                i64::try_from(reach).unwrap_or(i64::MAX),
            ));
        }
        Ok(Axis {
            input,
            kernel,
            output: (padded - reach) / stride + 1,
            stride,
            dilation,
            pad: pads[0],
        })
    }

    /// Positions of the kernel.
    pub fn output(&self) -> usize {
        self.output
    }

    /// The input element under kernel element `k` at position `o`, when it is no padding.
    fn at(&self, o: usize, k: usize) -> Option<usize> {
        // Below twice the padded extent.
        (o * self.stride + k * self.dilation)
            .checked_sub(self.pad)
            .filter(|&i| i < self.input)
    }

    /// Positions at which kernel element `k` lies on the input, and the input element at the first of them.
    fn inside(&self, k: usize) -> (usize, usize, usize) {
        let offset = k * self.dilation;
        let start = self.pad.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.input + self.pad)
            .saturating_sub(offset)
            .div_ceil(self.stride)
            .min(self.output);
        if start >= end {
            return (0, 0, 0);
        }
        (start, end, start * self.stride + offset - self.pad)
    }
}

/// A convolution and its operands.
#[derive(Debug, Clone)]
pub struct ConvProblem<'a, T> {
    /// `[batch, channels, d, h, w]`, any strides.
    pub x: View<'a, T>,
    /// `[out channels, channels / groups * kernel elements]`
    pub w: View<'a, T>,
    /// `[out channels]`
    pub bias: Option<View<'a, T>>,
    /// Groups of channels.
    pub groups: usize,
    /// Spatial axes, outermost first.
    pub axes: [Axis; AXES],
}

/// Extents that all ways share.
#[derive(Clone, Copy)]
struct Plan {
    batch: usize,
    groups: usize,
    /// Input channels of a group.
    inner: usize,
    /// Output channels of a group.
    outer: usize,
    /// Kernel elements of all channels of a group.
    depth: usize,
    positions: usize,
}

fn product(extents: &[usize]) -> Option<usize> {
    extents.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

impl<T: Real + MatMulElement> ConvProblem<'_, T> {
    fn plan(&self, out: usize) -> Result<Plan, KernelError> {
        let &[batch, channels, d, h, w] = self.x.shape() else {
            return Err(KernelError::Rank {
                operand: "X",
                expected: "5 axes",
                got: self.x.rank(),
            });
        };
        let spatial = self.axes.map(|axis| axis.input);
        if [d, h, w] != spatial {
            let expected = [batch, channels, spatial[0], spatial[1], spatial[2]];
            return Err(KernelError::shape("X", &expected, self.x.shape()));
        }
        let &[features, depth] = self.w.shape() else {
            return Err(KernelError::Rank {
                operand: "W",
                expected: "2 axes",
                got: self.w.rank(),
            });
        };
        let groups = self.groups;
        let divides = |n: usize| n.checked_rem(groups) == Some(0);
        if !divides(channels) || !divides(features) {
            return Err(KernelError::Range {
                parameter: "group",
                got: i64::try_from(groups).unwrap_or(i64::MAX),
                low: 1,
                high: i64::try_from(channels.min(features)).unwrap_or(i64::MAX),
            });
        }
        let kernel = self.axes.map(|axis| axis.kernel);
        let expected = product(&[channels / groups, kernel[0], kernel[1], kernel[2]]);
        if expected != Some(depth) {
            let expected = expected.unwrap_or(usize::MAX);
            return Err(KernelError::shape(
                "W",
                &[features, expected],
                self.w.shape(),
            ));
        }
        if let Some(bias) = &self.bias
            && bias.shape() != [features]
        {
            return Err(KernelError::shape("B", &[features], bias.shape()));
        }
        let outputs = self.axes.map(|axis| axis.output);
        let positions = product(&outputs).unwrap_or(usize::MAX);
        let elements = product(&[batch, features, positions]).unwrap_or(usize::MAX);
        KernelError::check_len("Y", elements, out)?;
        Ok(Plan {
            batch,
            groups,
            inner: channels / groups,
            outer: features / groups,
            depth,
            positions,
        })
    }

    /// Elements of working memory that [`conv`] needs.
    ///
    /// # Errors
    /// When operands do not fit, or `out` is not the number of elements of the output.
    pub fn working_memory(&self, out: usize) -> Result<usize, KernelError> {
        let plan = self.plan(out)?;
        let tile = plan.tile();
        if out == 0 || plan.direct() {
            return Ok(0);
        }
        let own = plan.depth.saturating_add(plan.outer);
        Ok(own.saturating_mul(tile))
    }
}

impl Plan {
    fn direct(&self) -> bool {
        self.outer < DIRECT
    }

    /// Positions whose windows are laid out together.
    fn tile(&self) -> usize {
        let most = MOST.checked_div(self.depth).unwrap_or(MOST);
        self.positions.min(most.max(LEAST))
    }
}

/// The convolution, `[batch, out channels, d, h, w]` in row-major order. `memory` has
/// [`ConvProblem::working_memory`] elements of any values.
///
/// Source: <https://onnx.ai/onnx/operators/onnx__Conv.html>
///
/// # Errors
/// When operands do not fit each other, or a slice has another length.
pub fn conv<T: Real + MatMulElement>(
    compute: &Compute<'_>,
    problem: &ConvProblem<'_, T>,
    memory: &mut [T],
    out: &mut [T],
) -> Result<(), KernelError> {
    let plan = problem.plan(out.len())?;
    let needed = problem.working_memory(out.len())?;
    KernelError::check_len("working memory", needed, memory.len())?;
    if out.is_empty() {
        return Ok(());
    }
    if plan.direct() {
        direct(compute, problem, plan, out);
        return Ok(());
    }
    let Plan {
        outer,
        depth,
        positions,
        ..
    } = plan;
    let tile = plan.tile();
    let (windows, products) = memory.split_at_mut(depth * tile);
    for (index, out) in out.chunks_exact_mut(outer * positions).enumerate() {
        let (n, g) = (index / plan.groups, index % plan.groups);
        let w = problem
            .w
            .slice(0, g * outer, outer, 1)
            .ok_or_else(|| KernelError::shape("W", &[outer, depth], problem.w.shape()))?;
        for first in (0..positions).step_by(tile) {
            let count = tile.min(positions - first);
            let windows = &mut windows[..depth * count];
            let source = Source {
                problem,
                n,
                channel: g * plan.inner,
            };
            let parallel = compute.parallel(windows.len());
            if count <= FEW {
                compute
                    .pool
                    .chunks(windows, depth.max(1), parallel, |at, row| {
                        source.window(first + at, row);
                    });
                let products = &mut products[..outer * count];
                let rows = matrix(windows, count, depth)?;
                let w = w
                    .swap(0, 1)
                    .ok_or_else(|| KernelError::shape("W", &[outer, depth], w.shape()))?;
                matmul(compute, &rows, &w, products)?;
                for (at, row) in products.chunks_exact(outer).enumerate() {
                    for (m, &value) in row.iter().enumerate() {
                        out[m * positions + first + at] = value;
                    }
                }
            } else {
                compute.pool.chunks(windows, count, parallel, |at, row| {
                    source.element(at, first, row);
                });
                let cols = matrix(windows, depth, count)?;
                if count == positions {
                    matmul(compute, &w, &cols, out)?;
                } else {
                    let products = &mut products[..outer * count];
                    matmul(compute, &w, &cols, products)?;
                    for (m, row) in products.chunks_exact(count).enumerate() {
                        out[m * positions + first..][..count].copy_from_slice(row);
                    }
                }
            }
        }
        if let Some(bias) = &problem.bias {
            for (m, row) in out.chunks_exact_mut(positions).enumerate() {
                // The bias has one element an output channel.
                let b = bias.get(&[g * outer + m]).unwrap_or_default().to_acc();
                for y in row {
                    *y = T::from_acc(y.to_acc() + b);
                }
            }
        }
    }
    Ok(())
}

fn matrix<T: Real>(data: &[T], rows: usize, cols: usize) -> Result<View<'_, T>, KernelError> {
    View::from_slice(data, &[rows, cols])
        .ok_or_else(|| KernelError::shape("windows", &[rows, cols], &[data.len()]))
}

/// The input channels of a group of one batch entry.
struct Source<'p, 'a, T> {
    problem: &'p ConvProblem<'a, T>,
    n: usize,
    /// First channel.
    channel: usize,
}

impl<T: Real> Source<'_, '_, T> {
    /// All elements under the kernel at one position, in the order of the weights.
    fn window(&self, position: usize, row: &mut [T]) {
        let [d, h, w] = self.problem.axes;
        let (ow, rest) = (position % w.output, position / w.output);
        let (oh, od) = (rest % h.output, rest / h.output);
        // A kernel has elements.
        for (at, part) in row.chunks_exact_mut(w.kernel).enumerate() {
            let (kh, rest) = (at % h.kernel, at / h.kernel);
            let (kd, c) = (rest % d.kernel, rest / d.kernel);
            let lane = d
                .at(od, kd)
                .zip(h.at(oh, kh))
                .and_then(|(id, ih)| self.problem.x.lane(&[self.n, self.channel + c, id, ih]));
            let Some(lane) = lane else {
                part.fill(T::default());
                continue;
            };
            for (kw, slot) in part.iter_mut().enumerate() {
                *slot = w.at(ow, kw).and_then(|iw| lane.get(iw)).unwrap_or_default();
            }
        }
    }

    /// The elements under kernel element `at` of all channels, at the positions from `first`.
    fn element(&self, at: usize, first: usize, row: &mut [T]) {
        let [d, h, w] = self.problem.axes;
        let (kw, rest) = (at % w.kernel, at / w.kernel);
        let (kh, rest) = (rest % h.kernel, rest / h.kernel);
        let (kd, c) = (rest % d.kernel, rest / d.kernel);
        let (start, end, from) = w.inside(kw);
        let mut position = first;
        let mut row = row;
        while !row.is_empty() {
            let (ow, rest) = (position % w.output, position / w.output);
            let (oh, od) = (rest % h.output, rest / h.output);
            let count = (w.output - ow).min(row.len());
            let (part, next) = row.split_at_mut(count);
            row = next;
            position += count;
            let lane = d
                .at(od, kd)
                .zip(h.at(oh, kh))
                .and_then(|(id, ih)| self.problem.x.lane(&[self.n, self.channel + c, id, ih]));
            // Positions of this part that lie on the input.
            let (low, high) = (start.max(ow), end.min(ow + count));
            let Some(lane) = lane.filter(|_| low < high) else {
                part.fill(T::default());
                continue;
            };
            part[..low - ow].fill(T::default());
            part[high - ow..].fill(T::default());
            let from = from + (low - start) * w.stride;
            let part = &mut part[low - ow..high - ow];
            match lane.as_slice() {
                Some(lane) if w.stride == 1 => part.copy_from_slice(&lane[from..][..part.len()]),
                _ => {
                    for (at, slot) in part.iter_mut().enumerate() {
                        *slot = lane.get(from + at * w.stride).unwrap_or_default();
                    }
                }
            }
        }
    }
}

/// Sums over rows of the input, each output channel by itself.
fn direct<T: Real>(compute: &Compute<'_>, problem: &ConvProblem<'_, T>, plan: Plan, out: &mut [T]) {
    let features = plan.groups * plan.outer;
    let [d, h, w] = problem.axes;
    let work = out.len().saturating_mul(plan.depth);
    let parallel = compute.parallel(work);
    compute
        .pool
        .chunks(out, plan.positions, parallel, |index, out| {
            let (n, m) = (index / features, index % features);
            debug_assert!(n < plan.batch);
            let channel = m / plan.outer * plan.inner;
            let bias = problem.bias.as_ref().and_then(|bias| bias.get(&[m]));
            let bias = bias.unwrap_or_default().to_acc();
            let Some(weights) = problem.w.lane(&[m]) else {
                return; // the weights have one row an output channel
            };
            let mut sums = T::Acc::scratch(w.output);
            for (at, out) in out.chunks_exact_mut(w.output).enumerate() {
                let (oh, od) = (at % h.output, at / h.output);
                sums.fill(bias);
                for (at, k) in (0..plan.depth).step_by(w.kernel).enumerate() {
                    let (kh, rest) = (at % h.kernel, at / h.kernel);
                    let (kd, c) = (rest % d.kernel, rest / d.kernel);
                    let lane = d.at(od, kd).zip(h.at(oh, kh));
                    let Some(lane) =
                        lane.and_then(|(id, ih)| problem.x.lane(&[n, channel + c, id, ih]))
                    else {
                        continue;
                    };
                    let dense = lane.as_slice().filter(|_| w.stride == 1);
                    for kw in 0..w.kernel {
                        let factor = weights.get(k + kw).unwrap_or_default().to_acc();
                        let (start, end, from) = w.inside(kw);
                        let sums = &mut sums[start..end];
                        match dense {
                            Some(lane) if sums.len() >= 16 => {
                                let x = &lane[from..][..sums.len()];
                                vecmath::axpy(compute.isa, factor, x, sums);
                            }
                            _ => {
                                for (at, sum) in sums.iter_mut().enumerate() {
                                    let x = lane.get(from + at * w.stride).unwrap_or_default();
                                    *sum += factor * x.to_acc();
                                }
                            }
                        }
                    }
                }
                for (slot, &sum) in out.iter_mut().zip(&*sums) {
                    *slot = T::from_acc(sum);
                }
            }
        });
}

#[cfg(test)]
mod tests;
