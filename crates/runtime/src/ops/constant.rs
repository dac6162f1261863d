//! Adapters of values that come from the model, from a shape, or from a few numbers.

use super::elementwise::Chosen;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, Kinds, OpError};
use refeed_graph::ops::constant::{ConstantValue, shape_bounds};
use refeed_kernels::constant::{self, FillFn, RangeError, RangeFns};
use refeed_values::{DType, Extent, RuntimeValue, Tensor, TensorError};

impl From<RangeError> for OpError {
    fn from(error: RangeError) -> OpError {
        match error {
            RangeError::Operand(error) => error.into(),
            RangeError::Bounds {
                start,
                limit,
                delta,
            } => OpError::Value {
                what: "range",
                expected: "finite numbers and a delta other than 0".to_string(),
                got: format!("start {start}, limit {limit}, delta {delta}"),
            },
            RangeError::Count { count } => OpError::Value {
                what: "range",
                expected: "a number of elements that fits in memory".to_string(),
                got: count.to_string(),
            },
            other => OpError::Shape(other.to_string()),
        }
    }
}

/// A value that is there before the first run.
struct Constant(RuntimeValue);

impl Kernel for Constant {
    fn reads(&self) -> Kinds {
        // It reads nothing, and may give texts.
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        call.set(0, self.0.clone());
        Ok(())
    }
}

fn constant_node(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let value = match ConstantValue::read(build.attributes)? {
        ConstantValue::Tensor(tensor) => build.constant_value(tensor)?,
        ConstantValue::Int(value) => Tensor::scalar(value)?.into(),
        ConstantValue::Ints(values) => Tensor::from_slice(&[values.len()], values)?.into(),
        ConstantValue::Float(value) => Tensor::scalar(value)?.into(),
        ConstantValue::Floats(values) => Tensor::from_slice(&[values.len()], values)?.into(),
        ConstantValue::Other(name) => {
            return Err(OpError::Unsupported(format!("attribute `{name}`")));
        }
        _ => return Err(OpError::Unsupported("this kind of value".to_string())),
    };
    Ok(Box::new(Constant(value)))
}

struct ConstantOfShape {
    /// One element.
    value: Tensor,
    fill: FillFn,
}

impl Kernel for ConstantOfShape {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let dims = call.ints(0)?;
        let dtype = self.value.dtype();
        let (_, shape) = Extent::from_dims(dtype, &dims).map_err(TensorError::from)?;
        let mut out = call.allocate(dtype, &shape)?;
        (self.fill)(&self.value, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn constant_of_shape(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let value = match build.attributes.tensor("value")? {
        Some(value) => build.tensor(value)?,
        None => Tensor::from_slice(&[1], &[0f32])?,
    };
    if value.elements() != 1 {
        let got = value.elements();
        return Err(OpError::Shape(format!(
            "value: expected one element, got {got}"
        )));
    }
    let dtype = value.dtype();
    let fill = constant::fill(dtype)
        .ok_or_else(|| OpError::Unsupported(format!("a value of type {dtype}")))?;
    Ok(Box::new(ConstantOfShape { value, fill }))
}

struct Range(Chosen<RangeFns>);

impl Kernel for Range {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (start, limit, delta) = (call.require(0)?, call.require(1)?, call.require(2)?);
        let range = self.0.get(0, start.dtype())?;
        let count = (range.count)(start, limit, delta)?;
        let mut out = call.allocate(start.dtype(), &[count])?;
        (range.fill)(start, delta, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn range(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    // FLOAT16 and BFLOAT16 are computed in f32, which is what the only meaningful value asks for.
    match build.attributes.int_or("stash_type", 1)? {
        1 => Ok(Box::new(Range(Chosen::new(build, 0, constant::range)?))),
        other => Err(OpError::Unsupported(format!("stash_type {other}"))),
    }
}

struct Shape<F>(F);

impl<F: Fn(usize) -> (usize, usize) + Send + Sync> Kernel for Shape<F> {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let (start, end) = (self.0)(x.rank());
        let mut out = call.allocate(DType::Int64, &[end - start])?;
        for (slot, &dim) in out
            .as_mut_slice::<i64>()?
            .iter_mut()
            .zip(&x.shape()[start..end])
        {
            *slot = dim as i64; // extents are at most isize::MAX
        }
        call.set(0, out.freeze());
        Ok(())
    }
}

struct Size;

impl Kernel for Size {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let elements = call.require(0)?.elements();
        let mut out = call.allocate(DType::Int64, &[])?;
        out.as_mut_slice::<i64>()?.fill(elements as i64);
        call.set(0, out.freeze());
        Ok(())
    }
}

struct Identity;

impl Kernel for Identity {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn may_leave_empty(&self) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        // An empty optional value stays one.
        if let Some(value) = call.value(0) {
            call.set(0, value.clone());
        }
        Ok(())
    }
}

const RANGES: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bfloat16,
    DType::Int16,
    DType::Int32,
    DType::Int64,
];

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "Constant",
        types: &[],
        build: constant_node,
    },
    KernelEntry {
        domain: "",
        op_type: "ConstantOfShape",
        types: &[(0, &[DType::Int64])],
        build: constant_of_shape,
    },
    KernelEntry {
        domain: "",
        op_type: "Range",
        types: &[(0, RANGES)],
        build: range,
    },
    KernelEntry {
        domain: "",
        op_type: "Shape",
        types: &[],
        build: |build| Ok(Box::new(Shape(shape_bounds(build.attributes)?))),
    },
    KernelEntry {
        domain: "",
        op_type: "Size",
        types: &[],
        build: |_| Ok(Box::new(Size)),
    },
    KernelEntry {
        domain: "",
        op_type: "Identity",
        types: &[],
        build: |_| Ok(Box::new(Identity)),
    },
];
