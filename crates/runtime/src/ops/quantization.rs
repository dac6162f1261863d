//! `QuantizeLinear`, `DequantizeLinear`, `DynamicQuantizeLinear` and `MatMulInteger`.

use super::layout::refuse;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_graph::ops::layout::axis_of;
use refeed_kernels::matmul::{matmul, matmul_shape};
use refeed_kernels::quantize::{
    INTEGERS, ScaleAndZero, Spread, dequantize_linear, dynamic_parameters, quantize_linear,
};
use refeed_values::{DType, Element, Tensor, View};

const SCALES: &[DType] = &[DType::Float, DType::Float16, DType::Bfloat16];
/// What is quantized.
const REALS: &[DType] = &[
    DType::Float,
    DType::Float16,
    DType::Bfloat16,
    DType::Double,
    DType::Int32,
];
/// What is dequantized.
const CODES: &[DType] = &[
    DType::Int8,
    DType::Uint8,
    DType::Int16,
    DType::Uint16,
    DType::Int32,
    DType::Int4,
    DType::Uint4,
    DType::Int2,
    DType::Uint2,
];

/// Where scales and zero points belong.
struct Places {
    axis: i64,
    block: usize,
    /// Before opset 13 there is one scale for the whole tensor.
    one: bool,
}

impl Places {
    fn read(build: &Build<'_>) -> Result<Places, OpError> {
        let since = |opset| build.opset >= opset;
        let axis = match since(13) {
            true => build.attributes.int_or("axis", 1)?,
            false => 1,
        };
        let block = match since(21) {
            true => build.attributes.int_or("block_size", 0)?,
            false => 0,
        };
        let block = usize::try_from(block).map_err(|_| AttributeError::Value {
            name: "block_size",
            expected: "a number of at least 0",
            got: block.to_string(),
        })?;
        let one = !since(13);
        Ok(Places { axis, block, one })
    }

    fn spread(&self, x: &Tensor, scale: &Tensor) -> Result<Spread, OpError> {
        if self.one && scale.elements() != 1 {
            return Err(OpError::Shape(format!(
                "scale: expected one number before opset 13, got shape {:?}",
                scale.shape()
            )));
        }
        let axis = match scale.elements() {
            1 => 0,
            _ => axis_of(self.axis, x.rank()).map_err(refuse)?,
        };
        Ok(Spread::new(x.shape(), axis, self.block, scale.shape())?)
    }
}

/// The element type that an attribute names; 0 is as good as absent.
fn named(build: &Build<'_>, name: &'static str, since: i64) -> Result<Option<DType>, OpError> {
    if build.opset < since {
        return Ok(None);
    }
    let number = build.attributes.int_or(name, 0)?;
    if number == 0 {
        return Ok(None);
    }
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    let unknown = || AttributeError::Value {
        name,
        expected: "an element type",
        got: number.to_string(),
    };
    Ok(Some(dtype.ok_or_else(unknown)?))
}

/// One of the types that an operator computes.
fn among(what: &str, dtype: DType, types: &[DType]) -> Result<DType, OpError> {
    if types.contains(&dtype) {
        return Ok(dtype);
    }
    Err(OpError::Unsupported(format!("{what} {dtype}")))
}

/// Scale and zero point, dense.
fn operands(call: &mut Invocation<'_>) -> Result<(Tensor, Option<Tensor>), OpError> {
    let scale = call.dense(call.require(1)?)?;
    let zero = match call.input(2) {
        Some(zero) => Some(call.dense(zero)?),
        None => None,
    };
    Ok((scale, zero))
}

struct DequantizeLinear {
    places: Places,
    output: Option<DType>,
}

impl Kernel for DequantizeLinear {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.dense(call.require(0)?)?;
        let (scale, zero) = operands(call)?;
        if let Some(zero) = &zero
            && zero.dtype() != x.dtype()
        {
            return Err(OpError::DType {
                index: 2,
                expected: x.dtype().to_string(),
                got: zero.dtype(),
            });
        }
        let spread = self.places.spread(&x, &scale)?;
        let mut out = call.allocate(self.output.unwrap_or(scale.dtype()), x.shape())?;
        let parameters = ScaleAndZero {
            scale: &scale,
            zero: zero.as_ref(),
        };
        dequantize_linear(&spread, &x, &parameters, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn build_dequantize(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let output = named(build, "output_dtype", 23)?;
    if let Some(dtype) = output {
        among("DequantizeLinear to", dtype, SCALES)?;
    }
    Ok(Box::new(DequantizeLinear {
        places: Places::read(build)?,
        output,
    }))
}

struct QuantizeLinear {
    places: Places,
    output: Option<DType>,
    precision: Option<DType>,
}

impl Kernel for QuantizeLinear {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.dense(call.require(0)?)?;
        let (scale, zero) = operands(call)?;
        let spread = self.places.spread(&x, &scale)?;
        let dtype = match (&zero, self.output) {
            (Some(zero), Some(expected)) if zero.dtype() != expected => {
                return Err(OpError::DType {
                    index: 2,
                    expected: expected.to_string(),
                    got: zero.dtype(),
                });
            }
            (Some(zero), _) => zero.dtype(),
            (None, output) => output.unwrap_or(DType::Uint8),
        };
        let precision = self.precision.unwrap_or(scale.dtype());
        let mut out = call.allocate(dtype, x.shape())?;
        let parameters = ScaleAndZero {
            scale: &scale,
            zero: zero.as_ref(),
        };
        quantize_linear(&spread, &x, &parameters, precision, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn build_quantize(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let output = named(build, "output_dtype", 21)?;
    if let Some(dtype) = output {
        among("QuantizeLinear to", dtype, INTEGERS)?;
    }
    let precision = named(build, "precision", 23)?;
    if let Some(dtype) = precision {
        let types = [SCALES, &[DType::Double]].concat();
        among("QuantizeLinear with precision", dtype, &types)?;
    }
    if build.opset >= 19 {
        // It is about floating point codes only.
        build.attributes.ignore("saturate");
    }
    Ok(Box::new(QuantizeLinear {
        places: Places::read(build)?,
        output,
        precision,
    }))
}

struct DynamicQuantizeLinear;

impl Kernel for DynamicQuantizeLinear {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.dense(call.require(0)?)?;
        let view = x.view::<f32>()?;
        let (scale, zero) = dynamic_parameters(view.as_slice().unwrap_or(&[]));
        let mut numbers = call.allocate(DType::Float, &[])?;
        numbers.as_mut_slice::<f32>()?.fill(scale);
        let mut codes = call.allocate(DType::Uint8, &[])?;
        codes.as_mut_slice::<u8>()?.fill(zero);
        let (scale, zero) = (numbers.freeze(), codes.freeze());
        let spread = Spread::new(x.shape(), 0, 0, &[])?;
        let mut out = call.allocate(DType::Uint8, x.shape())?;
        let parameters = ScaleAndZero {
            scale: &scale,
            zero: Some(&zero),
        };
        quantize_linear(&spread, &x, &parameters, DType::Float, &mut out)?;
        call.set(0, out.freeze());
        call.set(1, scale);
        call.set(2, zero);
        Ok(())
    }
}

fn build_dynamic(_: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(DynamicQuantizeLinear))
}

/// Products of bytes, less their zero points, in 32 bits.
struct MatMulInteger;

/// A matrix of bytes as INT32, less its zero points: one, or one for each place of `axis`, which counts from the last.
fn widened(
    call: &mut Invocation<'_>,
    index: usize,
    zero: usize,
    axis: usize,
) -> Result<Tensor, OpError> {
    let x = call.require(index)?;
    let zeros = call.input(zero);
    if let Some(zeros) = zeros
        && zeros.dtype() != x.dtype()
    {
        return Err(OpError::DType {
            index: zero,
            expected: x.dtype().to_string(),
            got: zeros.dtype(),
        });
    }
    let mut out = call.allocate(DType::Int32, x.shape())?;
    let slots = out.as_mut_slice::<i32>()?;
    match x.dtype() {
        DType::Uint8 => shifted::<u8>(x, zeros, axis, slots)?,
        _ => shifted::<i8>(x, zeros, axis, slots)?,
    }
    Ok(out.freeze())
}

fn shifted<T: Element + Into<i32>>(
    x: &Tensor,
    zeros: Option<&Tensor>,
    axis: usize,
    out: &mut [i32],
) -> Result<(), OpError> {
    // Places of the axis, and how far apart they are.
    let at = x.rank().checked_sub(axis);
    let places = at.map_or(1, |at| x.shape()[at]);
    let apart: usize = at.map_or(1, |at| x.shape()[at + 1..].iter().product());
    let zeros = match zeros {
        None => None,
        Some(zeros) => Some(zeros.view::<T>()?),
    };
    let count = zeros.as_ref().map_or(1, View::len);
    if count != 1 && (count != places || zeros.as_ref().is_some_and(|z| z.rank() != 1)) {
        return Err(OpError::Shape(format!(
            "zero points: expected 1 or {places} in one axis, got shape {:?}",
            zeros.as_ref().map_or(&[][..], |zeros| zeros.shape())
        )));
    }
    for (i, (slot, x)) in out.iter_mut().zip(x.view::<T>()?.iter()).enumerate() {
        let zero = zeros.as_ref().and_then(|zeros| match zeros.rank() {
            0 => zeros.get(&[]),
            _ if count == 1 => zeros.iter().next(),
            _ => zeros.get(&[i / apart.max(1) % places.max(1)]),
        });
        *slot = x.into() - zero.map_or(0, T::into);
    }
    Ok(())
}

impl Kernel for MatMulInteger {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        // Zero points of the left side are those of rows, of the right one those of columns.
        let (a, b) = (widened(call, 0, 2, 2)?, widened(call, 1, 3, 1)?);
        let shape = matmul_shape(a.shape(), b.shape())?;
        let mut out = call.allocate(DType::Int32, &shape)?;
        let (left, right): (View<'_, i32>, View<'_, i32>) = (a.view()?, b.view()?);
        matmul(call.compute(), &left, &right, out.as_mut_slice::<i32>()?)?;
        call.set(0, out.freeze());
        call.recycle(a);
        call.recycle(b);
        Ok(())
    }
}

fn build_matmul(_: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(MatMulInteger))
}

const BYTES: &[DType] = &[DType::Int8, DType::Uint8];

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "DequantizeLinear",
        types: &[(0, CODES), (1, SCALES)],
        build: build_dequantize,
    },
    KernelEntry {
        domain: "",
        op_type: "QuantizeLinear",
        types: &[(0, REALS), (1, SCALES), (2, INTEGERS)],
        build: build_quantize,
    },
    KernelEntry {
        domain: "",
        op_type: "DynamicQuantizeLinear",
        types: &[(0, &[DType::Float])],
        build: build_dynamic,
    },
    KernelEntry {
        domain: "",
        op_type: "MatMulInteger",
        types: &[(0, BYTES), (1, BYTES)],
        build: build_matmul,
    },
];
