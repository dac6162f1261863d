//! Adapters of reductions, and of sums, searches and normalised exponentials along one axis.

use super::elementwise::{Chosen, unsupported};
use super::types::{ALL, FLOATS, INDICES, NUMBERS};
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::ops::reduce::axes_input_since;
use refeed_graph::schema::normalize_axis;
use refeed_kernels::reduce::{self, ArgFn, CumSumFn, ReduceFn, Reduction};
use refeed_kernels::{Compute, KernelError, Real, softmax};
use refeed_values::{DType, Dims, Tensor, TensorMut, View};
use smallvec::SmallVec;

fn axis_of(axis: i64, rank: usize) -> Result<usize, OpError> {
    normalize_axis(axis, rank).ok_or_else(|| OpError::Value {
        what: "axis",
        expected: format!("a value in [-{rank}, {rank})"),
        got: axis.to_string(),
    })
}

/// The dimensions that reducing the flagged axes leaves.
fn without(shape: &[usize], reduced: &[bool], keep: bool) -> Dims {
    let all = shape.iter().zip(reduced);
    if keep {
        return all
            .map(|(&dim, &reduced)| if reduced { 1 } else { dim })
            .collect();
    }
    all.filter(|&(_, &reduced)| !reduced)
        .map(|(&dim, _)| dim)
        .collect()
}

struct Reduce {
    chosen: Chosen<ReduceFn>,
    /// Axes that an attribute gives; an input gives them otherwise.
    axes: SmallVec<[i64; 8]>,
    keep: bool,
    /// With no axes, nothing is reduced.
    noop: bool,
}

impl Kernel for Reduce {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let given;
        let axes = if call.input(1).is_some() {
            given = call.ints(1)?;
            &given
        } else {
            &self.axes
        };
        if axes.is_empty() && self.noop {
            call.set(0, x.clone());
            return Ok(());
        }
        let mut reduced: SmallVec<[bool; 6]> = SmallVec::from_elem(axes.is_empty(), x.rank());
        for &axis in axes {
            reduced[axis_of(axis, x.rank())?] = true;
        }
        let reduce = self.chosen.get(0, x.dtype())?;
        let mut out = call.allocate(x.dtype(), &without(x.shape(), &reduced, self.keep))?;
        reduce(x, &reduced, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn reduction(
    build: &mut Build<'_>,
    since: i64,
    find: fn(DType) -> Option<ReduceFn>,
) -> Result<Box<dyn Kernel>, OpError> {
    let chosen = Chosen::new(build, 0, find)?;
    let keep = build.attributes.flag("keepdims", true)?;
    let (mut axes, mut noop) = (SmallVec::new(), false);
    if build.opset >= since {
        noop = build.attributes.flag("noop_with_empty_axes", false)?;
    } else if let Some(given) = build.attributes.ints("axes")? {
        axes = SmallVec::from_slice(given);
    }
    Ok(Box::new(Reduce {
        chosen,
        axes,
        keep,
        noop,
    }))
}

struct ArgMax {
    chosen: Chosen<ArgFn>,
    axis: i64,
    keep: bool,
    last: bool,
}

impl Kernel for ArgMax {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axis = axis_of(self.axis, x.rank())?;
        let mut reduced: SmallVec<[bool; 6]> = SmallVec::from_elem(false, x.rank());
        reduced[axis] = true;
        let search = self.chosen.get(0, x.dtype())?;
        let mut out = call.allocate(DType::Int64, &without(x.shape(), &reduced, self.keep))?;
        search(x, axis, self.last, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn arg_max(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(ArgMax {
        chosen: Chosen::new(build, 0, reduce::arg_max)?,
        axis: build.attributes.int_or("axis", 0)?,
        keep: build.attributes.flag("keepdims", true)?,
        last: build.attributes.flag("select_last_index", false)?,
    }))
}

struct CumSum {
    chosen: Chosen<CumSumFn>,
    exclusive: bool,
    reverse: bool,
}

impl Kernel for CumSum {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axis = match call.ints(1)?[..] {
            [axis] => axis_of(axis, x.rank())?,
            ref other => {
                let got = other.len();
                return Err(OpError::Shape(format!(
                    "axis: expected one element, got {got}"
                )));
            }
        };
        let sum = self.chosen.get(0, x.dtype())?;
        let mut out = call.allocate(x.dtype(), x.shape())?;
        sum(x, axis, self.exclusive, self.reverse, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn cum_sum(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(CumSum {
        chosen: Chosen::new(build, 0, reduce::cum_sum)?,
        exclusive: build.attributes.flag("exclusive", false)?,
        reverse: build.attributes.flag("reverse", false)?,
    }))
}

/// `Softmax` and `LogSoftmax`.
struct Softmax {
    axis: i64,
    /// Before opset 13: all axes from this one on together.
    flatten: bool,
    log: bool,
}

impl Softmax {
    fn compute<T: Real>(
        &self,
        compute: &Compute<'_>,
        x: &Tensor,
        shape: &[usize],
        axis: usize,
        out: &mut TensorMut,
    ) -> Result<(), OpError> {
        let x: View<'_, T> = x.view()?;
        let x = x.reshape(shape).ok_or_else(|| {
            OpError::Kernel(KernelError::Length {
                operand: "input",
                expected: shape.iter().product(),
                got: x.len(),
            })
        })?;
        let out = out.as_mut_slice::<T>()?;
        if self.log {
            softmax::log_softmax(compute, &x, axis, out)?;
        } else {
            softmax::softmax(compute, &x, axis, out)?;
        }
        Ok(())
    }
}

impl Kernel for Softmax {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let rank = x.rank();
        // What is normalised together lies along `axis` of `shape`.
        let (shape, axis);
        let mut dense = None;
        if self.flatten {
            // The axis may stand at the end: then each element is a row of its own.
            let at = if usize::try_from(self.axis) == Ok(rank) {
                rank
            } else {
                axis_of(self.axis, rank)?
            };
            let (outer, inner) = x.shape().split_at(at);
            shape = Dims::from_slice(&[outer.iter().product(), inner.iter().product()]);
            axis = 1;
            dense = Some(call.dense(x)?);
        } else if rank == 0 {
            (shape, axis) = (Dims::from_slice(&[1]), 0);
        } else {
            (shape, axis) = (Dims::from_slice(x.shape()), axis_of(self.axis, rank)?);
        }
        let mut out = call.allocate(x.dtype(), x.shape())?;
        let compute = &call.compute();
        let source = dense.as_ref().unwrap_or(x);
        match x.dtype() {
            DType::Float => self.compute::<f32>(compute, source, &shape, axis, &mut out),
            DType::Double => self.compute::<f64>(compute, source, &shape, axis, &mut out),
            DType::Float16 => self.compute::<f16>(compute, source, &shape, axis, &mut out),
            DType::Bfloat16 => self.compute::<bf16>(compute, source, &shape, axis, &mut out),
            got => Err(unsupported(0, got)),
        }?;
        call.set(0, out.freeze());
        if let Some(dense) = dense {
            call.recycle(dense);
        }
        Ok(())
    }
}

fn soft_max(build: &mut Build<'_>, log: bool) -> Result<Box<dyn Kernel>, OpError> {
    let flatten = build.opset < 13;
    let axis = build
        .attributes
        .int_or("axis", if flatten { 1 } else { -1 })?;
    Ok(Box::new(Softmax { axis, flatten, log }))
}

macro_rules! reduction {
    ($op_type:literal, $op:ident, $types:expr) => {
        KernelEntry {
            domain: "",
            op_type: $op_type,
            types: &[(0, $types), (1, INDICES)],
            build: |build| {
                reduction(build, axes_input_since($op_type), |dtype| {
                    reduce::reduce(Reduction::$op, dtype)
                })
            },
        }
    };
}

pub(super) const KERNELS: &[KernelEntry] = &[
    reduction!("ReduceSum", Sum, NUMBERS),
    reduction!("ReduceMean", Mean, NUMBERS),
    reduction!("ReduceMax", Max, ALL),
    reduction!("ReduceMin", Min, ALL),
    reduction!("ReduceProd", Prod, NUMBERS),
    KernelEntry {
        domain: "",
        op_type: "ArgMax",
        types: &[(0, NUMBERS)],
        build: arg_max,
    },
    KernelEntry {
        domain: "",
        op_type: "CumSum",
        types: &[(0, NUMBERS), (1, INDICES)],
        build: cum_sum,
    },
    KernelEntry {
        domain: "",
        op_type: "Softmax",
        types: &[(0, FLOATS)],
        build: |build| soft_max(build, false),
    },
    KernelEntry {
        domain: "",
        op_type: "LogSoftmax",
        types: &[(0, FLOATS)],
        build: |build| soft_max(build, true),
    },
];
