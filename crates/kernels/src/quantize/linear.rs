//! `QuantizeLinear`, `DequantizeLinear` and `DynamicQuantizeLinear` over whole tensors.
//!
//! `real = (code - zero_point) * scale`, computed in f64 and rounded once; `code = zero_point + real / scale`, the
//! quotient rounded to the type in which the operator divides, then to an integer with ties to even, then saturated.
//! (<https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>)

use super::{Division, QuantizeError, quantize};
use crate::cast::odd_f32;
use half::{bf16, f16};
use refeed_values::encoded::number_at;
use refeed_values::{DType, Tensor, TensorMut, View};

/// Integers that codes are of.
pub const INTEGERS: &[DType] = &[
    DType::Int8,
    DType::Uint8,
    DType::Int16,
    DType::Uint16,
    DType::Int4,
    DType::Uint4,
    DType::Int2,
    DType::Uint2,
];

/// Which scale and zero point an element of a tensor goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Elements before, along and after the axis.
    extents: [usize; 3],
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Tensor,
    Axis,
    /// So many elements along the axis share one; so many blocks are along it.
    Block(usize, usize),
}

impl Spread {
    /// One of a tensor of `shape`: for the whole tensor when the scale has one element, else one for each place of the
    /// axis, or, when `block` is not 0, for so many places of it.
    ///
    /// ```
    /// use refeed_kernels::quantize::Spread;
    /// assert!(Spread::new(&[2, 6, 5], 1, 0, &[6]).is_ok());
    /// assert!(Spread::new(&[2, 6, 5], 1, 4, &[2, 2, 5]).is_ok());
    /// assert!(Spread::new(&[2, 6, 5], 1, 4, &[2, 3, 5]).is_err());
    /// ```
    ///
    /// # Errors
    /// When the scale has another shape than that, or the tensor has no such axis.
    pub fn new(
        shape: &[usize],
        axis: usize,
        block: usize,
        scale: &[usize],
    ) -> Result<Spread, QuantizeError> {
        if scale.iter().all(|&extent| extent == 1) {
            return Ok(Spread {
                extents: [1, 1, shape.iter().product()],
                by: By::Tensor,
            });
        }
        let Some(&along) = shape.get(axis) else {
            let expected = format!("below the rank {}", shape.len());
            return Err(QuantizeError::part("axis", expected, axis));
        };
        let mut expected = shape.to_vec();
        let by = match block {
            0 => {
                expected = vec![along];
                By::Axis
            }
            block => {
                let blocks = along.div_ceil(block);
                if let Some(extent) = expected.get_mut(axis) {
                    *extent = blocks;
                }
                By::Block(block, blocks)
            }
        };
        if scale != expected {
            let (expected, got) = (format!("shape {expected:?}"), format!("{scale:?}"));
            return Err(QuantizeError::part("scale", expected, got));
        }
        let extents = [
            shape.iter().take(axis).product(),
            along,
            shape.iter().skip(axis + 1).product(),
        ];
        Ok(Spread { extents, by })
    }

    /// Index of the parameter of element `inner` of run `run`; all runs are of `extents[2]` elements.
    fn parameter(&self, run: usize, inner: usize) -> usize {
        let [_, along, width] = self.extents;
        match self.by {
            By::Tensor => 0,
            By::Axis => run % along,
            By::Block(block, blocks) => {
                (run / along * blocks + run % along / block) * width + inner
            }
        }
    }
}

/// Elements that are computed at a time.
const CHUNK: usize = 256;

/// Scales and zero points, dense.
#[derive(Debug, Clone, Copy)]
pub struct ScaleAndZero<'a> {
    /// One number for each parameter.
    pub scale: &'a Tensor,
    /// As many codes, or one; without them it is 0.
    pub zero: Option<&'a Tensor>,
}

impl ScaleAndZero<'_> {
    /// The scale and the zero point with an index.
    fn at(&self, index: usize) -> Result<(f64, f64), QuantizeError> {
        let scale = number_at(bytes("scale", self.scale)?, self.scale.dtype(), index);
        let zero = match self.zero {
            None => 0.0,
            Some(zero) => {
                let index = if zero.elements() == 1 { 0 } else { index };
                number_at(bytes("zero_point", zero)?, zero.dtype(), index)
            }
        };
        Ok((scale, zero))
    }

    fn check(&self) -> Result<(), QuantizeError> {
        match self.zero {
            Some(zero) if zero.elements() != 1 && zero.shape() != self.scale.shape() => {
                let expected = format!("shape {:?}", self.scale.shape());
                let got = format!("{:?}", zero.shape());
                Err(QuantizeError::part("zero_point", expected, got))
            }
            _ => Ok(()),
        }
    }
}

fn bytes<'a>(part: &'static str, tensor: &'a Tensor) -> Result<&'a [u8], QuantizeError> {
    let strides = || QuantizeError::part(part, "a dense tensor", "a strided one");
    tensor.as_bytes().ok_or_else(strides)
}

/// Computes a tensor chunk by chunk: `work` is told where a chunk starts, its numbers, and for each the scale and the
/// zero point.
fn chunks(
    spread: &Spread,
    x: &Tensor,
    parameters: &ScaleAndZero<'_>,
    mut work: impl FnMut(usize, &[f64], &[(f64, f64)]),
) -> Result<(), QuantizeError> {
    parameters.check()?;
    let (from, dtype) = (bytes("input", x)?, x.dtype());
    let [outer, along, width] = spread.extents;
    let mut numbers = [0.0; CHUNK];
    let mut scales = [(0.0, 0.0); CHUNK];
    for run in 0..outer * along {
        let start = run * width;
        for inner in (0..width).step_by(CHUNK) {
            let taken = CHUNK.min(width - inner);
            let (numbers, scales) = (&mut numbers[..taken], &mut scales[..taken]);
            for (i, slot) in numbers.iter_mut().enumerate() {
                *slot = number_at(from, dtype, start + inner + i);
            }
            match spread.by {
                By::Block(..) => {
                    for (i, slot) in scales.iter_mut().enumerate() {
                        *slot = parameters.at(spread.parameter(run, inner + i))?;
                    }
                }
                _ => scales.fill(parameters.at(spread.parameter(run, inner))?),
            }
            work(start + inner, numbers, scales);
        }
    }
    Ok(())
}

/// Writes numbers from element `start` on, each rounded once to the type of `out`.
fn write(out: &mut [u8], dtype: DType, start: usize, numbers: &[f64]) {
    fn put<const N: usize>(
        out: &mut [u8],
        start: usize,
        numbers: &[f64],
        bytes: impl Fn(f64) -> [u8; N],
    ) {
        for (slot, x) in out.chunks_exact_mut(N).skip(start).zip(numbers) {
            slot.copy_from_slice(&bytes(*x));
        }
    }
    match dtype {
        DType::Float16 => put(out, start, numbers, |x| {
            f16::from_f32(odd_f32(x)).to_le_bytes()
        }),
        DType::Bfloat16 => put(out, start, numbers, |x| {
            bf16::from_f32(odd_f32(x)).to_le_bytes()
        }),
        DType::Double => put(out, start, numbers, f64::to_le_bytes),
        _ => put(out, start, numbers, |x| (x as f32).to_le_bytes()),
    }
}

/// Writes every element of `out`, of FLOAT, FLOAT16, BFLOAT16 or DOUBLE. `x` is dense, of [`INTEGERS`] or INT32.
///
/// # Errors
/// When a tensor is strided, the zero point is not of the scale's shape, or `out` has other elements than `x`.
pub fn dequantize_linear(
    spread: &Spread,
    x: &Tensor,
    parameters: &ScaleAndZero<'_>,
    out: &mut TensorMut,
) -> Result<(), QuantizeError> {
    check_elements(x, out)?;
    let dtype = out.dtype();
    if !dtype.is_float() {
        return Err(QuantizeError::part(
            "output",
            "a floating point type",
            dtype,
        ));
    }
    let out = out.as_mut_bytes();
    let mut reals = [0.0; CHUNK];
    chunks(spread, x, parameters, |start, codes, scales| {
        let reals = &mut reals[..codes.len()];
        for ((slot, code), (scale, zero)) in reals.iter_mut().zip(codes).zip(scales) {
            *slot = (code - zero) * scale;
        }
        write(out, dtype, start, reals);
    })
}

fn check_elements(x: &Tensor, out: &TensorMut) -> Result<(), QuantizeError> {
    let (expected, got) = (x.elements(), out.elements());
    if expected == got {
        return Ok(());
    }
    Err(QuantizeError::part(
        "output",
        format!("{expected} elements"),
        got,
    ))
}

/// The smallest and the largest code of a type of [`INTEGERS`]; `None` for others.
fn range(dtype: DType) -> Option<(f64, f64)> {
    let signed = match dtype {
        DType::Int8 | DType::Int16 | DType::Int4 | DType::Int2 => true,
        DType::Uint8 | DType::Uint16 | DType::Uint4 | DType::Uint2 => false,
        _ => return None,
    };
    let whole = f64::from(1u32 << dtype.bits());
    Some(match signed {
        true => (-whole / 2.0, whole / 2.0 - 1.0),
        false => (0.0, whole - 1.0),
    })
}

/// A quotient as the operator's division type has it.
fn divided(x: f64, scale: f64, precision: DType) -> f64 {
    match precision {
        DType::Double => x / scale,
        // A quotient of two numbers of half the width rounds to the same, whether rounded once or twice.
        DType::Float16 => f16::from_f32(x as f32 / scale as f32).to_f64(),
        DType::Bfloat16 => bf16::from_f32(x as f32 / scale as f32).to_f64(),
        _ => f64::from(x as f32 / scale as f32),
    }
}

/// Writes every element of `out`, of a type of [`INTEGERS`]. `x` is dense, a floating point tensor or INT32; quotients
/// are rounded to `precision` first. NaN gives the zero point.
///
/// # Errors
/// As [`dequantize_linear`].
pub fn quantize_linear(
    spread: &Spread,
    x: &Tensor,
    parameters: &ScaleAndZero<'_>,
    precision: DType,
    out: &mut TensorMut,
) -> Result<(), QuantizeError> {
    check_elements(x, out)?;
    let dtype = out.dtype();
    let Some((low, high)) = range(dtype) else {
        let expected = "an integer type of at most 16 bits";
        return Err(QuantizeError::part("output", expected, dtype));
    };
    let out = out.as_mut_bytes();
    // Codes of one byte are joined.
    out.fill(0);
    let bits = dtype.bits();
    chunks(spread, x, parameters, |start, reals, scales| {
        for (i, (x, (scale, zero))) in reals.iter().zip(scales).enumerate() {
            let steps = divided(*x, *scale, precision).round_ties_even();
            let steps = if steps.is_nan() { 0.0 } else { steps };
            let code = (steps + zero).clamp(low, high) as i32;
            let [first, second, ..] = code.to_le_bytes();
            let at = (start + i) * bits;
            match bits {
                16 => out[at / 8..][..2].copy_from_slice(&[first, second]),
                _ => out[at / 8] |= (first & (u8::MAX >> (8 - bits))) << (at % 8),
            }
        }
    })
}

/// Writes rows as INT8 codes without a zero point, by a scale for all or one for each place of `[heads, width]`. `rows`
/// are `[batch, heads, length, width]` of any strides, `out` is row-major.
///
/// ```
/// use refeed_kernels::quantize::quantize_rows;
/// use refeed_values::View;
/// let mut out = [0i8; 2];
/// if let Some(rows) = View::from_slice(&[1.0f32, -300.0], &[1, 1, 1, 2]) {
///     quantize_rows(&rows, &[0.4, 0.5], &mut out)?;
/// }
/// assert_eq!(out, [2, -128]);
/// # Ok::<(), refeed_kernels::quantize::QuantizeError>(())
/// ```
///
/// # Errors
/// When the rows have not four axes, or a length does not fit.
pub fn quantize_rows(
    rows: &View<'_, f32>,
    scales: &[f32],
    out: &mut [i8],
) -> Result<(), QuantizeError> {
    let &[_, heads, length, width] = rows.shape() else {
        return Err(QuantizeError::part("rows", "four axes", rows.rank()));
    };
    let own = heads.saturating_mul(width);
    if scales.len() != 1 && scales.len() != own {
        let expected = format!("1 or {own} numbers");
        return Err(QuantizeError::part("scale", expected, scales.len()));
    }
    if out.len() != rows.len() {
        let expected = format!("{} elements", rows.len());
        return Err(QuantizeError::part("output", expected, out.len()));
    }
    let range = (i32::from(i8::MIN), i32::from(i8::MAX));
    let slots = out.chunks_exact_mut(width.max(1));
    for (index, (slots, row)) in slots.zip(rows.lanes()).enumerate() {
        let head = index / length.max(1) % heads.max(1);
        let scales = match scales {
            [_] => scales,
            _ => &scales[head * width..][..width],
        };
        for ((slot, x), scale) in slots.iter_mut().zip(row.iter()).zip(scales.iter().cycle()) {
            // Within the range, so within i8.
            *slot = quantize(x, f64::from(*scale), 0, range, Division::Single) as i8;
        }
    }
    Ok(())
}

/// The scale and the zero point, of UINT8, that cover all numbers and 0.
///
/// ```
/// let (scale, zero) = refeed_kernels::quantize::dynamic_parameters(&[-1.0, 0.0, 1.55]);
/// assert_eq!((scale, zero), (0.01, 100));
/// ```
pub fn dynamic_parameters(x: &[f32]) -> (f32, u8) {
    let (mut low, mut high) = (0f32, 0f32);
    for x in x {
        low = low.min(*x);
        high = high.max(*x);
    }
    let scale = (high - low) / 255.0;
    if scale == 0.0 {
        // All numbers are 0, which any scale gives.
        return (0.0, 0);
    }
    let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
    (scale, zero as u8)
}
