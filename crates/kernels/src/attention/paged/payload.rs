//! How the keys or values of a page are read.

use crate::quantize::{Parameters, Payload, QuantizeError};
use half::{bf16, f16};
use refeed_values::encoded::{Affine, Encoding};
use refeed_values::{DType, EncodedValue, RuntimeValue, Slabs};

/// The keys or values of one page, `[batch, heads, capacity, width]`, ready to be attended to. Making it looks at the
/// layout and at no row; it keeps the memory of the rows.
#[derive(Debug, Clone)]
pub(super) struct PageRows {
    pub(super) width: usize,
    pub(super) held: Held,
}

/// Where the rows are, and what they are. A slab holds those of one batch row and head.
#[derive(Debug, Clone)]
pub(super) enum Held {
    /// Numbers.
    Float(Slabs<f32>),
    /// Numbers.
    Float16(Slabs<f16>),
    /// Numbers.
    Bfloat16(Slabs<bf16>),
    /// Codes whose rows begin with a byte.
    Codes(Codes),
    /// Rows that are decoded before they are used; whether they are of codes.
    Apart(Box<RuntimeValue>, bool),
}

/// Codes, and what makes numbers of them.
#[derive(Debug, Clone)]
pub(super) struct Codes {
    pub(super) bytes: Slabs<u8>,
    pub(super) storage: DType,
    pub(super) parameters: CodeParameters,
}

/// Scales and zero points.
#[derive(Debug, Clone)]
pub(super) enum CodeParameters {
    /// One of each for all.
    One(f32, f32),
    /// Several.
    Several(Box<Several>),
}

/// Scales and zero points that vary.
#[derive(Debug, Clone)]
pub(super) struct Several {
    encoded: EncodedValue,
    pub(super) places: Parameters,
    pub(super) along: Along,
}

/// What scales and zero points vary along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    /// Slices (batch rows and heads).
    Slices,
    /// Rows.
    Rows,
    /// Columns.
    Columns,
}

impl Several {
    /// Scale and zero point number `index`.
    pub(super) fn at(&self, index: usize) -> (f32, f32) {
        match self.encoded.encoding() {
            Encoding::Affine(affine) => parameter(affine, index),
            _ => (1.0, 0.0), // made of an affine encoding only
        }
    }
}

fn parameter(affine: &Affine, index: usize) -> (f32, f32) {
    (
        affine.scale_at(index) as f32,
        affine.zero_point_at(index) as f32,
    )
}

impl Codes {
    /// Codes in a byte.
    pub(super) fn parts(&self) -> usize {
        8 / self.storage.bits().clamp(2, 8)
    }

    /// Scale and zero point of all rows of a slice, where it has one of each.
    pub(super) fn of_slice(&self, slice: usize) -> Option<(f32, f32)> {
        match &self.parameters {
            CodeParameters::One(scale, zero) => Some((*scale, *zero)),
            CodeParameters::Several(several) if several.along == Along::Slices => {
                Some(several.at(several.places.row(slice, 0)))
            }
            CodeParameters::Several(_) => None,
        }
    }
}

impl PageRows {
    /// The rows of a payload that was checked, and its extents.
    ///
    /// # Errors
    /// As [`Payload::of`].
    pub(super) fn of(value: &RuntimeValue) -> Result<(PageRows, [usize; 4]), QuantizeError> {
        let (held, extents) = match PageRows::directly(value) {
            Some(found) => found,
            None => {
                let payload = Payload::of(value)?;
                let held = Held::Apart(Box::new(value.clone()), payload.is_affine());
                (held, payload.extents())
            }
        };
        let width = extents[3];
        Ok((PageRows { width, held }, extents))
    }

    /// The rows of a payload that can be used where they lie.
    fn directly(value: &RuntimeValue) -> Option<(Held, [usize; 4])> {
        match value {
            RuntimeValue::Tensor(tensor) => {
                let extents = <[usize; 4]>::try_from(tensor.shape()).ok()?;
                let held = match tensor.dtype() {
                    DType::Float => Held::Float(Slabs::of(tensor)?),
                    DType::Float16 => Held::Float16(Slabs::of(tensor)?),
                    DType::Bfloat16 => Held::Bfloat16(Slabs::of(tensor)?),
                    _ => return None,
                };
                Some((held, extents))
            }
            RuntimeValue::Encoded(encoded) => {
                let Encoding::Affine(affine) = encoded.encoding() else {
                    return None;
                };
                let (DType::Float, shape) = encoded.logical()? else {
                    return None;
                };
                let extents = <[usize; 4]>::try_from(shape).ok()?;
                let along = match (affine.axis, affine.block_size) {
                    (None, None) => None,
                    (Some(0 | 1), None) => Some(Along::Slices),
                    (Some(2), None) => Some(Along::Rows),
                    (Some(3), None) => Some(Along::Columns),
                    _ => return None,
                };
                // Codes that may stand for numbers beyond FLOAT are decoded, which finds those that do.
                let widest = f64::from(f32::MAX) / f64::from(1u32 << affine.storage.bits().min(8));
                let held = |index| affine.scale_at(index) <= widest;
                let fits = affine.scale.dtype() == DType::Float
                    && affine.unfit_scale().is_none()
                    && (0..affine.parameters()).all(held);
                let parts = 8 / affine.storage.bits().clamp(2, 8);
                if !fits || !extents[3].is_multiple_of(parts) {
                    return None;
                }
                let parameters = match along {
                    None => {
                        let (scale, zero) = parameter(affine, 0);
                        CodeParameters::One(scale, zero)
                    }
                    Some(along) => CodeParameters::Several(Box::new(Several {
                        encoded: encoded.clone(),
                        places: Parameters::of(affine, extents),
                        along,
                    })),
                };
                let codes = Codes {
                    bytes: Slabs::cut(encoded.payload(), extents[0].checked_mul(extents[1])?)?,
                    storage: affine.storage,
                    parameters,
                };
                Some((Held::Codes(codes), extents))
            }
            _ => None,
        }
    }

    /// Whether it holds codes.
    pub(super) fn is_affine(&self) -> bool {
        match &self.held {
            Held::Codes(_) => true,
            Held::Apart(_, codes) => *codes,
            _ => false,
        }
    }

    /// Codes in a byte, 1 for numbers.
    pub(super) fn parts(&self) -> usize {
        match &self.held {
            Held::Codes(codes) => codes.parts(),
            _ => 1,
        }
    }

    /// The FLOAT rows, where it holds such.
    pub(super) fn float(&self) -> Option<&Slabs<f32>> {
        match &self.held {
            Held::Float(rows) => Some(rows),
            _ => None,
        }
    }

    /// The FLOAT16 rows, where it holds such.
    pub(super) fn float16(&self) -> Option<&Slabs<f16>> {
        match &self.held {
            Held::Float16(rows) => Some(rows),
            _ => None,
        }
    }

    /// The BFLOAT16 rows, where it holds such.
    pub(super) fn bfloat16(&self) -> Option<&Slabs<bf16>> {
        match &self.held {
            Held::Bfloat16(rows) => Some(rows),
            _ => None,
        }
    }

    /// The codes, where it holds such.
    pub(super) fn codes(&self) -> Option<&Slabs<u8>> {
        match &self.held {
            Held::Codes(codes) => Some(&codes.bytes),
            _ => None,
        }
    }

    /// Whether both are codes of one type under one scale.
    pub(super) fn goes_on(&self, next: &PageRows) -> bool {
        let (Held::Codes(own), Held::Codes(next)) = (&self.held, &next.held) else {
            return false;
        };
        match (&own.parameters, &next.parameters) {
            (CodeParameters::One(scale, zero), CodeParameters::One(other, other_zero)) => {
                own.storage == next.storage && (scale, zero) == (other, other_zero)
            }
            _ => false,
        }
    }

    /// Whether rows of both can be joined to one list.
    pub(super) fn joins(&self, other: &PageRows) -> bool {
        match (&self.held, &other.held) {
            (Held::Float(_), Held::Float(_))
            | (Held::Float16(_), Held::Float16(_))
            | (Held::Bfloat16(_), Held::Bfloat16(_)) => true,
            (Held::Codes(a), Held::Codes(b)) => {
                a.storage == b.storage && a.one_a_slice() && b.one_a_slice()
            }
            _ => false,
        }
    }
}

impl Codes {
    fn one_a_slice(&self) -> bool {
        match &self.parameters {
            CodeParameters::One(..) => true,
            CodeParameters::Several(several) => several.along == Along::Slices,
        }
    }
}
