//! Adapters of the operators that compute each output element from the elements at the same place.

use super::cast::converted;
use super::types::{FLOATS, NUMBERS, SIGNED};
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::elementwise::{
    self, Binary, BinaryFn, ElementwiseError, ScaleFn, Unary, UnaryFn,
};
use refeed_values::layout::broadcast_shape;
use refeed_values::{DType, Tensor, TensorMut};

impl From<ElementwiseError> for OpError {
    fn from(error: ElementwiseError) -> OpError {
        match error {
            ElementwiseError::Tensor(error) => OpError::Tensor(error),
            ElementwiseError::Division => OpError::Value {
                what: "divisor",
                expected: "a quotient within the range of the type".to_string(),
                got: "integer division by zero, or of the smallest integer by -1".to_string(),
            },
            ElementwiseError::Power => OpError::Value {
                what: "exponent",
                expected: "0 or above where the base is 0".to_string(),
                got: "a negative integer".to_string(),
            },
            other => OpError::Shape(other.to_string()),
        }
    }
}

/// A computation for one element type: chosen when the node is built if its types are known by then, else looked up
/// in every call.
pub(super) struct Chosen<F> {
    ready: Option<F>,
    find: fn(DType) -> Option<F>,
}

impl<F: Copy> Chosen<F> {
    /// # Errors
    /// When an input of known type is not computed with.
    pub(super) fn new(
        build: &Build<'_>,
        index: usize,
        find: fn(DType) -> Option<F>,
    ) -> Result<Chosen<F>, OpError> {
        let ready = match build.input(index).and_then(|ty| ty.dtype) {
            Some(dtype) => Some(find(dtype).ok_or_else(|| unsupported(index, dtype))?),
            None => None,
        };
        Ok(Chosen { ready, find })
    }

    /// # Errors
    /// When elements of this type are not computed with.
    pub(super) fn get(&self, index: usize, dtype: DType) -> Result<F, OpError> {
        match self.ready {
            Some(ready) => Ok(ready),
            None => (self.find)(dtype).ok_or_else(|| unsupported(index, dtype)),
        }
    }
}

/// The error for an element type that no kernel takes.
pub(super) fn unsupported(index: usize, got: DType) -> OpError {
    OpError::DType {
        index,
        expected: "a supported type".to_string(),
        got,
    }
}

/// Memory for the result of operands that broadcast.
///
/// # Errors
/// When they do not, or memory cannot be had.
pub(super) fn broadcast_output(
    call: &mut Invocation<'_>,
    dtype: DType,
    operands: &[&Tensor],
) -> Result<TensorMut, OpError> {
    if let [first, rest @ ..] = operands
        && rest.iter().all(|tensor| tensor.shape() == first.shape())
    {
        return call.allocate(dtype, first.shape());
    }
    let shape = broadcast_shape(operands.iter().map(|tensor| tensor.shape())).ok_or_else(|| {
        let shapes: Vec<String> = operands
            .iter()
            .map(|tensor| format!("{:?}", tensor.shape()))
            .collect();
        OpError::Shape(format!("shapes {} do not broadcast", shapes.join(" and ")))
    })?;
    call.allocate(dtype, &shape)
}

/// Two operands; the output has their type, or a fixed one.
struct Pair {
    chosen: Chosen<BinaryFn>,
    output: Option<DType>,
}

impl Kernel for Pair {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (a, b) = (call.require(0)?, call.require(1)?);
        let compute = self.chosen.get(0, a.dtype())?;
        let mut out = broadcast_output(call, self.output.unwrap_or(a.dtype()), &[a, b])?;
        compute(a, b, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

/// Builds an operator on two operands of one type. `output` is the output's type when it is not theirs.
pub(super) fn pair(
    build: &Build<'_>,
    find: fn(DType) -> Option<BinaryFn>,
    output: Option<DType>,
) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Pair {
        chosen: Chosen::new(build, 0, find)?,
        output,
    }))
}

/// `Max`, `Min`, `Sum`, `Mean`: any number of operands, two at a time.
struct Many {
    chosen: Chosen<BinaryFn>,
    /// Divides the result by the number of operands.
    mean: Option<Chosen<ScaleFn>>,
}

impl Kernel for Many {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let mut held = call.require(0)?.clone();
        let dtype = held.dtype();
        let compute = self.chosen.get(0, dtype)?;
        for index in 1..call.input_count() {
            let next = call.require(index)?;
            let mut out = broadcast_output(call, dtype, &[&held, next])?;
            compute(&held, next, &mut out)?;
            let spent = std::mem::replace(&mut held, out.freeze());
            call.recycle(spent);
        }
        if let Some(mean) = &self.mean {
            let mut out = call.allocate(dtype, held.shape())?;
            mean.get(0, dtype)?(&held, call.input_count() as f64, &mut out)?;
            let spent = std::mem::replace(&mut held, out.freeze());
            call.recycle(spent);
        }
        call.set(0, held);
        Ok(())
    }
}

fn many(build: &Build<'_>, op: fn(DType) -> Option<BinaryFn>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Many {
        chosen: Chosen::new(build, 0, op)?,
        mean: None,
    }))
}

fn mean(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let chosen = Chosen::new(build, 0, |dtype| elementwise::binary(Binary::Add, dtype))?;
    let mean = Some(Chosen::new(build, 0, elementwise::scale)?);
    Ok(Box::new(Many { chosen, mean }))
}

/// One operand.
struct Single(Chosen<UnaryFn>);

impl Kernel for Single {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let compute = self.0.get(0, x.dtype())?;
        let mut out = call.allocate(x.dtype(), x.shape())?;
        compute(call.compute().isa, x, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn single(
    build: &Build<'_>,
    find: fn(DType) -> Option<UnaryFn>,
) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Single(Chosen::new(build, 0, find)?)))
}

fn gelu(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match build.attributes.string("approximate")? {
        None | Some("none") => single(build, |dtype| elementwise::unary(Unary::Gelu, dtype)),
        Some("tanh") => single(build, |dtype| elementwise::unary(Unary::GeluTanh, dtype)),
        Some(other) => Err(OpError::Attribute(AttributeError::Value {
            name: "approximate",
            expected: "none or tanh",
            got: other.to_string(),
        })),
    }
}

fn modulo(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if build.attributes.flag("fmod", false)? {
        pair(
            build,
            |dtype| elementwise::binary(Binary::TruncMod, dtype),
            None,
        )
    } else {
        pair(
            build,
            |dtype| elementwise::binary(Binary::FloorMod, dtype),
            None,
        )
    }
}

/// `Pow`: the result has the base's type.
struct Pow;

impl Kernel for Pow {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (base, exponent) = (call.require(0)?, call.require(1)?);
        let wide = elementwise::exponent_dtype(base.dtype(), exponent.dtype())
            .ok_or_else(|| unsupported(1, exponent.dtype()))?;
        let compute =
            elementwise::power(base.dtype(), wide).ok_or_else(|| unsupported(0, base.dtype()))?;
        let wider = converted(call, exponent, wide)?;
        let mut out = broadcast_output(call, base.dtype(), &[base, &wider])?;
        compute(base, &wider, &mut out)?;
        call.recycle(wider);
        call.set(0, out.freeze());
        Ok(())
    }
}

/// `Clip`: bounds are inputs, or attributes before opset 11.
struct Clip {
    chosen: Chosen<elementwise::ClipFn>,
    low: Option<Tensor>,
    high: Option<Tensor>,
}

impl Kernel for Clip {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let compute = self.chosen.get(0, x.dtype())?;
        let mut bound = |index: usize, fixed: &Option<Tensor>| match (call.input(index), fixed) {
            (Some(bound), _) => Ok(Some(bound.clone())),
            (None, Some(fixed)) => converted(call, fixed, x.dtype()).map(Some),
            (None, None) => Ok(None),
        };
        let (low, high) = (bound(1, &self.low)?, bound(2, &self.high)?);
        let mut out = call.allocate(x.dtype(), x.shape())?;
        compute(x, low.as_ref(), high.as_ref(), &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn clip(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let chosen = Chosen::new(build, 0, elementwise::clip)?;
    let (mut low, mut high) = (None, None);
    if build.opset < 11 {
        low = build
            .attributes
            .float("min")?
            .map(Tensor::scalar)
            .transpose()?;
        high = build
            .attributes
            .float("max")?
            .map(Tensor::scalar)
            .transpose()?;
    }
    Ok(Box::new(Clip { chosen, low, high }))
}

macro_rules! binary {
    ($op_type:literal, $op:ident) => {
        KernelEntry {
            domain: "",
            op_type: $op_type,
            types: &[(0, NUMBERS), (1, NUMBERS)],
            build: |build| pair(build, |dtype| elementwise::binary(Binary::$op, dtype), None),
        }
    };
}

macro_rules! variadic {
    ($op_type:literal, $op:ident, $types:expr) => {
        KernelEntry {
            domain: "",
            op_type: $op_type,
            types: &[(0, $types)],
            build: |build| many(build, |dtype| elementwise::binary(Binary::$op, dtype)),
        }
    };
}

macro_rules! unary {
    ($op_type:literal, $op:ident, $types:expr) => {
        KernelEntry {
            domain: "",
            op_type: $op_type,
            types: &[(0, $types)],
            build: |build| single(build, |dtype| elementwise::unary(Unary::$op, dtype)),
        }
    };
}

/// Types of the base of `Pow`.
const BASES: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bfloat16,
    DType::Int32,
    DType::Int64,
];

/// Types of the exponent of `Pow`: numbers that are converted to a wider type without loss.
const EXPONENTS: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bfloat16,
    DType::Int8,
    DType::Int16,
    DType::Int32,
    DType::Int64,
    DType::Uint8,
    DType::Uint16,
    DType::Uint32,
];

pub(super) const KERNELS: &[KernelEntry] = &[
    binary!("Add", Add),
    binary!("Sub", Sub),
    binary!("Mul", Mul),
    binary!("Div", Div),
    binary!("PRelu", PRelu),
    variadic!("Max", Max, NUMBERS),
    variadic!("Min", Min, NUMBERS),
    variadic!("Sum", Add, FLOATS),
    KernelEntry {
        domain: "",
        op_type: "Mean",
        types: &[(0, FLOATS)],
        build: mean,
    },
    unary!("Neg", Neg, SIGNED),
    unary!("Abs", Abs, NUMBERS),
    unary!("Sign", Sign, NUMBERS),
    unary!("Relu", Relu, SIGNED),
    unary!("Sqrt", Sqrt, FLOATS),
    unary!("Exp", Exp, FLOATS),
    unary!("Log", Log, FLOATS),
    unary!("Sigmoid", Sigmoid, FLOATS),
    unary!("Tanh", Tanh, FLOATS),
    unary!("Reciprocal", Reciprocal, FLOATS),
    unary!("Softplus", Softplus, FLOATS),
    unary!("Cos", Cos, FLOATS),
    unary!("Sin", Sin, FLOATS),
    unary!("Erf", Erf, FLOATS),
    unary!("Floor", Floor, FLOATS),
    unary!("Ceil", Ceil, FLOATS),
    unary!("Round", Round, FLOATS),
    KernelEntry {
        domain: "",
        op_type: "Gelu",
        types: &[(0, FLOATS)],
        build: gelu,
    },
    KernelEntry {
        domain: "",
        op_type: "Mod",
        types: &[(0, NUMBERS), (1, NUMBERS)],
        build: modulo,
    },
    KernelEntry {
        domain: "",
        op_type: "Pow",
        types: &[(0, BASES), (1, EXPONENTS)],
        build: |_| Ok(Box::new(Pow)),
    },
    KernelEntry {
        domain: "",
        op_type: "Clip",
        types: &[(0, NUMBERS), (1, NUMBERS), (2, NUMBERS)],
        build: clip,
    },
];
