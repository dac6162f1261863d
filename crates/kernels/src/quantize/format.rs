//! What a page's keys or values are kept as.

use super::QuantizeError;
use refeed_values::encoded::{Affine, CODES, code_range};
use refeed_values::paged_cache::DENSE;
use refeed_values::{Allocator, DType, Tensor, TensorMut};

/// A format with one scale and zero point a page. FLOAT, FLOAT16 and BFLOAT16 have scale 1 and zero point 0.
///
/// ```
/// use refeed_kernels::quantize::Format;
/// use refeed_values::DType;
/// assert!(Format::default().check().is_ok());
/// assert!(Format::affine(DType::Uint4, 0.125, 8).check().is_ok());
/// assert!(Format::affine(DType::Uint4, 0.125, 16).check().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Format {
    /// FLOAT, FLOAT16, BFLOAT16, INT8, UINT8, INT4, UINT4, INT2 or UINT2.
    pub storage: DType,
    /// What one step of the codes is worth: positive and finite.
    pub scale: f32,
    /// The code that stands for 0.
    pub zero_point: i32,
}

impl Default for Format {
    fn default() -> Format {
        Format::dense(DType::Float)
    }
}

impl Format {
    /// Numbers as they are, of FLOAT, FLOAT16 or BFLOAT16.
    pub const fn dense(storage: DType) -> Format {
        Format {
            storage,
            scale: 1.0,
            zero_point: 0,
        }
    }

    /// Codes.
    pub const fn affine(storage: DType, scale: f32, zero_point: i32) -> Format {
        Format {
            storage,
            scale,
            zero_point,
        }
    }

    /// Whether codes are kept.
    pub fn is_affine(&self) -> bool {
        CODES.contains(&self.storage)
    }

    /// Holds the format to its rules.
    ///
    /// # Errors
    /// When the type is none of the nine, the scale is not positive and finite, the zero point is no code, or a dense
    /// format has a scale or zero point of its own.
    pub fn check(&self) -> Result<(), QuantizeError> {
        let refuse = |part, expected: String, got: String| {
            Err(QuantizeError::Part {
                part,
                expected,
                got,
            })
        };
        if !(self.scale > 0.0 && self.scale.is_finite()) {
            let expected = "a positive finite number".to_string();
            return refuse("scale", expected, self.scale.to_string());
        }
        if DENSE.contains(&self.storage) {
            if self.scale != 1.0 {
                let expected = format!("1, as {} pages have", self.storage);
                return refuse("scale", expected, self.scale.to_string());
            }
            if self.zero_point != 0 {
                let expected = format!("0, as {} pages have", self.storage);
                return refuse("zero_point", expected, self.zero_point.to_string());
            }
            return Ok(());
        }
        if !CODES.contains(&self.storage) {
            let names = DENSE.iter().chain(&CODES).map(|dtype| dtype.name());
            let expected = names.collect::<Vec<_>>().join(", ");
            return refuse("storage_type", expected, self.storage.to_string());
        }
        let (low, high) = code_range(self.storage);
        if !(low..=high).contains(&self.zero_point) {
            let expected = format!("a code of {}, {low} to {high}", self.storage);
            return refuse("zero_point", expected, self.zero_point.to_string());
        }
        Ok(())
    }

    /// What [`encode`](super::encode) takes: made once, and shared by all pages of the format.
    ///
    /// # Errors
    /// As [`Format::check`], or when memory cannot be had.
    pub fn storage(&self) -> Result<Storage, QuantizeError> {
        self.check()?;
        if !self.is_affine() {
            return Ok(Storage::Dense(self.storage));
        }
        let mut zero = TensorMut::new(&Allocator::default(), self.storage, &[])?;
        let mask = u8::MAX >> (8 - self.storage.bits().clamp(1, 8));
        if let [byte] = zero.as_mut_bytes() {
            // The low bits of two's complement are the code.
            *byte = self.zero_point.to_le_bytes()[0] & mask;
        }
        Ok(Storage::Affine(Affine {
            zero_point: Some(zero.freeze()),
            ..Affine::per_tensor(self.storage, Tensor::scalar(self.scale)?)
        }))
    }
}

/// What rows are encoded to.
#[derive(Debug, Clone)]
pub enum Storage {
    /// FLOAT, FLOAT16 or BFLOAT16.
    Dense(DType),
    /// Codes with FLOAT scales: one a payload, one a slice along an axis, or one a block.
    Affine(Affine),
}
