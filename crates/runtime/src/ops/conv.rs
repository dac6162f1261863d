//! `Conv`.

use super::layout::reshaped;
use super::types::FLOATS;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::attributes::{AttributeError, Attributes};
use refeed_kernels::Real;
use refeed_kernels::conv::{AXES, Axis, ConvProblem, conv as convolve};
use refeed_kernels::matmul::MatMulElement;
use refeed_values::Tensor;
use refeed_values::layout::Dims;
use smallvec::SmallVec;

/// Where zeros stand when the model does not count them.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Given,
    None,
    /// As many as make the output `ceil(input / stride)`; an odd one after the input, or before it.
    Same {
        odd_before: bool,
    },
}

struct Conv {
    padding: Padding,
    groups: usize,
    kernel: Option<SmallVec<[usize; 3]>>,
    strides: Option<SmallVec<[usize; 3]>>,
    dilations: Option<SmallVec<[usize; 3]>>,
    pads: Option<SmallVec<[usize; 6]>>,
}

/// A number for each spatial axis, or the default.
fn each(given: Option<&[usize]>, name: &str, axes: usize) -> Result<[usize; AXES], OpError> {
    let mut out = [1; AXES];
    let Some(given) = given else {
        return Ok(out);
    };
    if given.len() != axes || axes > AXES {
        return Err(OpError::Shape(format!(
            "attribute `{name}`: expected {axes} numbers, got {}",
            given.len()
        )));
    }
    out[..axes].copy_from_slice(given);
    Ok(out)
}

impl Conv {
    /// Padding of an axis whose kernel reaches over `reach` elements.
    fn pads(
        &self,
        axis: usize,
        axes: usize,
        (input, reach, stride): (usize, usize, usize),
    ) -> Result<[usize; 2], OpError> {
        match (self.padding, &self.pads) {
            (Padding::None, _) | (Padding::Given, None) => Ok([0, 0]),
            (Padding::Given, Some(pads)) => {
                if Some(pads.len()) != axes.checked_mul(2) {
                    return Err(OpError::Shape(format!(
                        "attribute `pads`: expected {} numbers, got {}",
                        2 * axes,
                        pads.len()
                    )));
                }
                Ok([pads[axis], pads[axes + axis]])
            }
            (Padding::Same { odd_before }, _) => {
                let last = input.div_ceil(stride.max(1)).saturating_sub(1);
                let total = last
                    .saturating_mul(stride)
                    .saturating_add(reach)
                    .saturating_sub(input);
                let (less, more) = (total / 2, total.div_ceil(2));
                Ok(if odd_before {
                    [more, less]
                } else {
                    [less, more]
                })
            }
        }
    }

    fn typed<T: Real + MatMulElement>(
        &self,
        call: &mut Invocation<'_>,
        x: &Tensor,
        w: &Tensor,
    ) -> Result<(), OpError> {
        let (&[batch, channels, ref spatial @ ..], &[features, inner, ref kernel @ ..]) =
            (x.shape(), w.shape())
        else {
            return Err(OpError::Shape(format!(
                "expected X and W of 3 to 5 axes, got shapes {:?} and {:?}",
                x.shape(),
                w.shape()
            )));
        };
        let axes = spatial.len();
        if axes == 0 || axes != kernel.len() {
            return Err(OpError::Shape(format!(
                "expected X and W of equally many axes, 3 to 5, got shapes {:?} and {:?}",
                x.shape(),
                w.shape()
            )));
        }
        if axes > AXES {
            return Err(OpError::Unsupported(format!(
                "convolution over {axes} spatial axes"
            )));
        }
        if inner.checked_mul(self.groups) != Some(channels) || features % self.groups != 0 {
            return Err(OpError::Shape(format!(
                "{channels} channels and weights of shape {:?} do not fit {} groups",
                w.shape(),
                self.groups
            )));
        }
        if let Some(given) = &self.kernel
            && given[..] != *kernel
        {
            return Err(OpError::Shape(format!(
                "attribute `kernel_shape`: expected {kernel:?}, the shape of W, got {given:?}"
            )));
        }
        let strides = each(self.strides.as_deref(), "strides", axes)?;
        let dilations = each(self.dilations.as_deref(), "dilations", axes)?;
        let mut windows = [Axis::SINGLE; AXES];
        let mut shape = Dims::from_slice(&[batch, features]);
        let lead = AXES - axes;
        for axis in 0..axes {
            let (input, stride, dilation) = (spatial[axis], strides[axis], dilations[axis]);
            let reach = kernel[axis]
                .saturating_sub(1)
                .saturating_mul(dilation)
                .saturating_add(1);
            let pads = self.pads(axis, axes, (input, reach, stride))?;
            let window = Axis::new(input, kernel[axis], stride, dilation, pads)?;
            shape.push(window.output());
            windows[lead + axis] = window;
        }
        // Channels and kernel elements of W are one axis of the matrix of weights.
        let depth = kernel.iter().try_fold(inner, |n, &k| n.checked_mul(k));
        let depth = depth
            .ok_or_else(|| OpError::Shape(format!("W: shape {:?} is too large", w.shape())))?;
        let w = reshaped(call, w, &[features, depth])?;
        let mut view = x.view::<T>()?;
        for _ in 0..lead {
            view = view.unsqueeze(2).ok_or_else(|| {
                OpError::Shape(format!("X: shape {:?} has too many axes", x.shape()))
            })?;
        }
        let problem = ConvProblem {
            x: view,
            w: w.view::<T>()?,
            bias: match call.input(2) {
                Some(_) => Some(call.view::<T>(2)?),
                None => None,
            },
            groups: self.groups,
            axes: windows,
        };
        let mut out = call.allocate(T::DTYPE, &shape)?;
        let mut memory = call.allocate(T::DTYPE, &[problem.working_memory(out.elements())?])?;
        convolve(
            call.compute(),
            &problem,
            memory.as_mut_slice::<T>()?,
            out.as_mut_slice::<T>()?,
        )?;
        call.recycle(memory.freeze());
        call.set(0, out.freeze());
        Ok(())
    }
}

impl Kernel for Conv {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        use refeed_values::DType;
        let (x, w) = (call.require(0)?, call.require(1)?);
        if w.dtype() != x.dtype() {
            return Err(OpError::DType {
                index: 1,
                expected: x.dtype().to_string(),
                got: w.dtype(),
            });
        }
        match x.dtype() {
            DType::Float => self.typed::<f32>(call, x, w),
            DType::Double => self.typed::<f64>(call, x, w),
            DType::Float16 => self.typed::<f16>(call, x, w),
            DType::Bfloat16 => self.typed::<bf16>(call, x, w),
            got => Err(OpError::DType {
                index: 0,
                expected: "a floating point type".to_string(),
                got,
            }),
        }
    }
}

/// A list of numbers that are at least `low`.
fn numbers<const N: usize>(
    attributes: &Attributes<'_>,
    name: &'static str,
    low: usize,
) -> Result<Option<SmallVec<[usize; N]>>, OpError>
where
    [usize; N]: smallvec::Array<Item = usize>,
{
    let Some(given) = attributes.ints(name)? else {
        return Ok(None);
    };
    let checked = given
        .iter()
        .map(|&n| usize::try_from(n).ok().filter(|&n| n >= low))
        .collect::<Option<_>>();
    match checked {
        Some(numbers) => Ok(Some(numbers)),
        None => Err(AttributeError::Value {
            name,
            expected: if low == 0 {
                "non-negative numbers"
            } else {
                "positive numbers"
            },
            got: format!("{given:?}"),
        }
        .into()),
    }
}

fn conv(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let padding = match attributes.string("auto_pad")? {
        None | Some("NOTSET") => Padding::Given,
        Some("VALID") => Padding::None,
        Some("SAME_UPPER") => Padding::Same { odd_before: false },
        Some("SAME_LOWER") => Padding::Same { odd_before: true },
        Some(other) => {
            return Err(AttributeError::Value {
                name: "auto_pad",
                expected: "NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                got: other.to_string(),
            }
            .into());
        }
    };
    let number = attributes.int_or("group", 1)?;
    let groups = usize::try_from(number).ok().filter(|&groups| groups > 0);
    let groups = groups.ok_or_else(|| AttributeError::Value {
        name: "group",
        expected: "at least 1",
        got: number.to_string(),
    })?;
    Ok(Box::new(Conv {
        padding,
        groups,
        kernel: numbers(attributes, "kernel_shape", 1)?,
        strides: numbers(attributes, "strides", 1)?,
        dilations: numbers(attributes, "dilations", 1)?,
        pads: numbers(attributes, "pads", 0)?,
    }))
}

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "",
    op_type: "Conv",
    types: &[(0, FLOATS)],
    build: conv,
}];
