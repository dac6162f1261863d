//! From payloads to FLOAT rows.

use super::{Parameters, QuantizeError};
use half::{bf16, f16};
use refeed_values::encoded::{Affine, Encoding, code, code_range};
use refeed_values::{DType, Element, RuntimeValue, View};

/// Keys or values of one page, ready to be decoded.
///
/// ```
/// use refeed_kernels::quantize::Payload;
/// use refeed_values::{RuntimeValue, Tensor};
/// let page = RuntimeValue::from(Tensor::from_slice(&[1, 1, 2, 2], &[1f32, 2.0, f32::NAN, 4.0])?);
/// let mut rows = [0.0; 2];
/// // One token is valid; the other row is not read.
/// Payload::of(&page)?.decode(1, &mut rows)?;
/// assert_eq!(rows, [1.0, 2.0]);
/// # Ok::<(), refeed_kernels::quantize::QuantizeError>(())
/// ```
#[derive(Debug)]
pub struct Payload<'a> {
    extents: [usize; 4],
    held: Held<'a>,
}

#[derive(Debug)]
enum Held<'a> {
    Float(View<'a, f32>),
    Float16(View<'a, f16>),
    Bfloat16(View<'a, bf16>),
    Affine {
        codes: &'a [u8],
        affine: &'a Affine,
        parameters: Parameters,
    },
}

impl<'a> Payload<'a> {
    /// The payload of a value.
    ///
    /// # Errors
    /// When it is no FLOAT, FLOAT16 or BFLOAT16 tensor and no affine encoding of FLOAT with FLOAT scales, has not four
    /// axes, or a scale is not positive and finite.
    pub fn of(value: &'a RuntimeValue) -> Result<Payload<'a>, QuantizeError> {
        match value {
            RuntimeValue::Tensor(tensor) => {
                let held = match tensor.dtype() {
                    DType::Float => Held::Float(tensor.view()?),
                    DType::Float16 => Held::Float16(tensor.view()?),
                    DType::Bfloat16 => Held::Bfloat16(tensor.view()?),
                    got => {
                        let expected = "FLOAT, FLOAT16 or BFLOAT16, or affine codes";
                        return Err(QuantizeError::part("payload", expected, got));
                    }
                };
                Ok(Payload {
                    extents: four(tensor.shape())?,
                    held,
                })
            }
            RuntimeValue::Encoded(encoded) => {
                let Encoding::Affine(affine) = encoded.encoding() else {
                    let expected = "an affine encoding, which alone can be decoded in a cache";
                    return Err(QuantizeError::part("payload", expected, "a structured one"));
                };
                let extents = match encoded.logical() {
                    Some((DType::Float, shape)) => four(shape)?,
                    other => {
                        let got = other.map_or("none".to_string(), |(dtype, _)| dtype.to_string());
                        return Err(QuantizeError::part("logical_type", "FLOAT", got));
                    }
                };
                if affine.scale.dtype() != DType::Float {
                    let got = affine.scale.dtype();
                    return Err(QuantizeError::part("scale", "elements of FLOAT", got));
                }
                if let Some((index, scale)) = affine.unfit_scale() {
                    let got = format!("{scale} at {index}");
                    return Err(QuantizeError::part("scale", "positive finite numbers", got));
                }
                Ok(Payload {
                    extents,
                    held: Held::Affine {
                        codes: encoded.payload().as_bytes().unwrap_or_default(),
                        affine,
                        parameters: Parameters::of(affine, extents),
                    },
                })
            }
            other => {
                let expected = "a tensor or an encoded value";
                Err(QuantizeError::part("payload", expected, other.kind()))
            }
        }
    }

    /// Batch, heads, capacity, width.
    pub fn extents(&self) -> [usize; 4] {
        self.extents
    }

    /// Whether it holds codes.
    pub fn is_affine(&self) -> bool {
        matches!(self.held, Held::Affine { .. })
    }

    /// Writes the first `length` rows of every slice, dense `[batch, heads, length, width]`. Rows past them are not read.
    ///
    /// # Errors
    /// When there are not as many rows, `out` is not of that size, or a number is not finite or not within FLOAT.
    pub fn decode(&self, length: usize, out: &mut [f32]) -> Result<(), QuantizeError> {
        let [batch, heads, capacity, width] = self.extents;
        if length > capacity {
            let expected = format!("at most {capacity} rows");
            return Err(QuantizeError::part("length", expected, length));
        }
        // The whole payload is in memory, so a part of it can be counted.
        let elements = batch * heads * length * width;
        if out.len() != elements {
            let expected = format!("{elements} elements");
            return Err(QuantizeError::part("output", expected, out.len()));
        }
        if elements == 0 {
            return Ok(());
        }
        for (at, row) in out.chunks_exact_mut(width).enumerate() {
            self.row(at / length, at % length, row)?;
        }
        Ok(())
    }

    /// Writes one row; `slice` counts batch rows and heads together, and the row is one of the capacity.
    ///
    /// # Errors
    /// When a number is not finite or not within FLOAT.
    pub fn row(&self, slice: usize, row: usize, out: &mut [f32]) -> Result<(), QuantizeError> {
        let [_, heads, capacity, width] = self.extents;
        let at = [slice / heads.max(1), slice % heads.max(1), row];
        match &self.held {
            Held::Float(view) => copy(view, at, out, |x| x),
            Held::Float16(view) => copy(view, at, out, f16::to_f32),
            Held::Bfloat16(view) => copy(view, at, out, bf16::to_f32),
            Held::Affine {
                codes,
                affine,
                parameters,
            } => {
                let first = (slice * capacity + row) * width;
                let base = parameters.row(slice, row);
                let mut parameter = base;
                let (mut zero, mut scale) = (affine.zero_point_at(base), affine.scale_at(base));
                for (column, slot) in out.iter_mut().enumerate().take(width) {
                    let own = base + parameters.column(column);
                    if own != parameter {
                        parameter = own;
                        (zero, scale) = (affine.zero_point_at(own), affine.scale_at(own));
                    }
                    let steps = code(codes, affine.storage, first + column) - zero;
                    *slot = (f64::from(steps) * scale) as f32;
                }
            }
        }
        match out.iter().position(|x| !x.is_finite()) {
            None => Ok(()),
            Some(column) => {
                let [batch, head, row] = at;
                let expected = format!("a finite number at [{batch}, {head}, {row}, {column}]");
                Err(QuantizeError::part("payload", expected, out[column]))
            }
        }
    }

    /// The range of the codes; `None` for dense payloads.
    pub fn code_range(&self) -> Option<(i32, i32)> {
        match &self.held {
            Held::Affine { affine, .. } => Some(code_range(affine.storage)),
            _ => None,
        }
    }
}

fn copy<T: Element>(view: &View<'_, T>, at: [usize; 3], out: &mut [f32], widen: fn(T) -> f32) {
    if let Some(lane) = view.lane(&at) {
        for (slot, x) in out.iter_mut().zip(lane.iter()) {
            *slot = widen(x);
        }
    }
}

fn four(shape: &[usize]) -> Result<[usize; 4], QuantizeError> {
    shape.try_into().map_err(|_| {
        let expected = "four axes: batch, heads, capacity, width";
        QuantizeError::part("payload", expected, format!("{shape:?}"))
    })
}
