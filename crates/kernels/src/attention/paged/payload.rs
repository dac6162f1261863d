//! How the keys or values of a page are read.

use crate::quantize::{Parameters, Payload, QuantizeError};
use half::{bf16, f16};
use refeed_values::encoded::{Affine, Encoding};
use refeed_values::{DType, Element, RuntimeValue, Tensor};

/// The keys or values of one page, `[batch, heads, capacity, width]`, ready to be attended to. Making it looks at the
/// layout and at no row.
#[derive(Debug)]
pub struct PageRows<'a> {
    pub(super) value: &'a RuntimeValue,
    pub(super) extents: [usize; 4],
    pub(super) held: Held<'a>,
}

/// Where the rows are, and what they are.
#[derive(Debug)]
pub(super) enum Held<'a> {
    /// Dense rows.
    Float(&'a [f32]),
    /// Dense rows.
    Float16(&'a [f16]),
    /// Dense rows.
    Bfloat16(&'a [bf16]),
    /// Codes whose rows begin with a byte.
    Codes(Codes<'a>),
    /// Rows that are decoded before they are used.
    Apart(Box<Payload<'a>>),
}

/// Codes, and what makes numbers of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codes<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) storage: DType,
    pub(super) affine: &'a Affine,
    pub(super) parameters: Parameters,
    pub(super) along: Along,
}

/// What scales and zero points vary along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    /// One for a slice (a batch row and head), or for all.
    Slices,
    /// One for each row.
    Rows,
    /// One for each column.
    Columns,
}

impl Codes<'_> {
    /// Scale and zero point number `index`.
    pub(super) fn parameter(&self, index: usize) -> (f32, f32) {
        let zero = self.affine.zero_point_at(index);
        (self.affine.scale_at(index) as f32, zero as f32)
    }

    /// Codes in a byte.
    pub(super) fn parts(&self) -> usize {
        8 / self.storage.bits().clamp(2, 8)
    }
}

impl<'a> PageRows<'a> {
    /// The rows of a payload that was checked.
    ///
    /// # Errors
    /// As [`Payload::of`].
    pub fn of(value: &'a RuntimeValue) -> Result<PageRows<'a>, QuantizeError> {
        if let Some(rows) = PageRows::directly(value) {
            return Ok(rows);
        }
        let payload = Payload::of(value)?;
        Ok(PageRows {
            value,
            extents: payload.extents(),
            held: Held::Apart(Box::new(payload)),
        })
    }

    /// The rows of a payload that can be used where they lie.
    fn directly(value: &'a RuntimeValue) -> Option<PageRows<'a>> {
        match value {
            RuntimeValue::Tensor(tensor) => {
                let extents = <[usize; 4]>::try_from(tensor.shape()).ok()?;
                let held = match tensor.dtype() {
                    DType::Float => Held::Float(dense(tensor)?),
                    DType::Float16 => Held::Float16(dense(tensor)?),
                    DType::Bfloat16 => Held::Bfloat16(dense(tensor)?),
                    _ => return None,
                };
                Some(PageRows {
                    value,
                    extents,
                    held,
                })
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
                    (None | Some(0 | 1), None) => Along::Slices,
                    (Some(2), None) => Along::Rows,
                    (Some(3), None) => Along::Columns,
                    _ => return None,
                };
                let fits = affine.scale.dtype() == DType::Float && affine.unfit_scale().is_none();
                let codes = Codes {
                    bytes: encoded.payload().as_bytes()?,
                    storage: affine.storage,
                    affine,
                    parameters: Parameters::of(affine, extents),
                    along,
                };
                let aligned = extents[3].is_multiple_of(codes.parts());
                (fits && aligned).then_some(PageRows {
                    value,
                    extents,
                    held: Held::Codes(codes),
                })
            }
            _ => None,
        }
    }

    /// Batch, heads, capacity, width.
    pub fn extents(&self) -> [usize; 4] {
        self.extents
    }

    /// Whether it holds codes.
    pub fn is_affine(&self) -> bool {
        match &self.held {
            Held::Codes(_) => true,
            Held::Apart(payload) => payload.is_affine(),
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

    /// Whether rows of both can be joined to one run.
    pub(super) fn joins(&self, other: &PageRows<'_>) -> bool {
        match (&self.held, &other.held) {
            (Held::Float(_), Held::Float(_))
            | (Held::Float16(_), Held::Float16(_))
            | (Held::Bfloat16(_), Held::Bfloat16(_)) => true,
            (Held::Codes(a), Held::Codes(b)) => {
                a.storage == b.storage && a.along == Along::Slices && b.along == Along::Slices
            }
            _ => false,
        }
    }
}

fn dense<T: Element>(tensor: &Tensor) -> Option<&[T]> {
    tensor.view::<T>().ok()?.as_slice()
}
