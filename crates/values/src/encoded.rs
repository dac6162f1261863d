//! Values in an encoded form: quantised tensors with their scales, and records laid out bit by bit.
//!
//! An [`EncodedValue`] is a layout, the bytes, and what they decode to. Nothing here decodes to check: sizes follow from
//! the layout alone. The one thing that is read of a payload are the bits past its last code, which must be 0.
//!
//! Parameters (scales, zero points, permutations) stand in the layout or the bytes, or in a [`ParameterSet`] that several
//! values share; the value then keeps the set.

mod affine;
mod deep_copy;
mod parameters;
mod profile;
mod shared;
mod struct_type;

pub use affine::{
    Affine, CODES, SCALES, code, code_range, infer_storage, number_at, parameter_shape,
};
pub use parameters::{ParameterSet, Role};
pub use profile::{BlockRun, PROFILE, Plan};
pub use shared::{materialize, quantize_shared};
pub use struct_type::{Component, Field, FieldContent, StorageType, StructKind, StructType};

use crate::layout::Dims;
use crate::{Allocator, DType, Extent, ExtentError, Tensor, TensorError};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Why parts do not make an encoded value.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum EncodedError {
    /// A part is not as the layout asks for.
    #[error("{part}: expected {expected}, got {got}")]
    Part {
        /// The part: `payload`, `scale`, `zero_point`, `axis`, `struct_type`, ...
        part: &'static str,
        /// What the layout asks for.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A form that is known but not computed here.
    #[error("{what} cannot be decoded or encoded")]
    Unsupported {
        /// The form.
        what: String,
    },
    /// Dimensions have no size.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// Memory or layout of a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl EncodedError {
    pub(crate) fn part(
        part: &'static str,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> EncodedError {
        EncodedError::Part {
            part,
            expected: expected.into(),
            got: got.into(),
        }
    }
}

/// What a value or type was read from, kept for whoever reads and writes that form, so that writing it again loses
/// nothing. This crate knows no such form and never looks inside.
#[derive(Clone)]
pub struct Declaration(Arc<dyn Any + Send + Sync>);

impl Declaration {
    /// Keeps a declaration.
    pub fn new<T: Any + Send + Sync>(declared: T) -> Declaration {
        Declaration(Arc::new(declared))
    }

    /// The declaration, when it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Declaration")
    }
}

/// What a payload's bytes mean.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Encoding {
    /// Codes of a quantised tensor.
    Affine(Affine),
    /// Records of a struct type, one after the other.
    Struct(Arc<StructType>),
}

#[derive(Debug, Clone)]
struct Logical {
    dtype: DType,
    shape: Dims,
}

impl Logical {
    fn new((dtype, shape): (DType, &[usize])) -> Result<Logical, EncodedError> {
        Extent::new(dtype, shape)?;
        Ok(Logical {
            dtype,
            shape: Dims::from_slice(shape),
        })
    }
}

#[derive(Debug, Clone)]
struct Encoded {
    encoding: Encoding,
    logical: Option<Logical>,
    payload: Tensor,
    parameters: Option<Arc<ParameterSet>>,
    declaration: Option<Declaration>,
}

/// An immutable value in an encoded form. Cloning shares the payload and the parameters.
///
/// ```
/// use refeed_values::{Allocator, DType, EncodedValue, Tensor, encoded::Affine};
/// let affine = Affine::per_tensor(DType::Int4, Tensor::scalar(0.5f32)?);
/// // Element 0 in the low half of the byte: codes 1, -1, 7.
/// let payload = Tensor::from_slice(&[2], &[0xF1u8, 0x07])?;
/// let value = EncodedValue::affine(affine, (DType::Float, &[3]), payload)?;
/// let decoded = value.decode(&Allocator::default())?;
/// assert_eq!(decoded.view::<f32>()?.to_vec(), [0.5, -0.5, 3.5]);
/// # Ok::<(), refeed_values::encoded::EncodedError>(())
/// ```
#[derive(Debug, Clone)]
pub struct EncodedValue(Arc<Encoded>);

impl EncodedValue {
    /// Joins codes and the numbers that give them a meaning. `logical` is the decoded element type and shape.
    ///
    /// # Errors
    /// When the codes are not of 2, 4 or 8 bits, a scale or zero point is not of the type and shape that the axis and
    /// block size ask for, or the payload does not have exactly the bytes of the codes with zeros past the last one.
    pub fn affine(
        affine: Affine,
        logical: (DType, &[usize]),
        payload: Tensor,
    ) -> Result<EncodedValue, EncodedError> {
        let logical = Logical::new(logical)?;
        affine.check(&logical.shape, check_bytes(&payload)?)?;
        Ok(EncodedValue(Arc::new(Encoded {
            encoding: Encoding::Affine(affine),
            logical: Some(logical),
            payload,
            parameters: None,
            declaration: None,
        })))
    }

    /// Joins records and their type, and optionally the decoded element type and shape.
    ///
    /// # Errors
    /// When a record is empty or not of whole bytes, or the payload is no whole number of them.
    pub fn records(
        declared: Arc<StructType>,
        logical: Option<(DType, &[usize])>,
        payload: Tensor,
    ) -> Result<EncodedValue, EncodedError> {
        let logical = logical.map(Logical::new).transpose()?;
        let bytes = check_bytes(&payload)?.len() as u64;
        let record = declared.record_bytes()?;
        if !bytes.is_multiple_of(record) {
            return Err(EncodedError::part(
                "payload",
                format!("whole records of {record} bytes"),
                format!("{bytes} bytes"),
            ));
        }
        Ok(EncodedValue(Arc::new(Encoded {
            encoding: Encoding::Struct(declared),
            logical,
            payload,
            parameters: None,
            declaration: None,
        })))
    }

    /// Records whose parameters stand in a shared set.
    ///
    /// # Errors
    /// As [`EncodedValue::records`]; also when the set decodes to another type, its values have another size, or the
    /// first byte, which is reserved, is not 0.
    pub fn shared(
        declared: Arc<StructType>,
        logical: (DType, &[usize]),
        payload: Tensor,
        parameters: Arc<ParameterSet>,
    ) -> Result<EncodedValue, EncodedError> {
        let value = EncodedValue::records(declared, Some(logical), payload)?;
        parameters.check(&value)?;
        let mut inner = Arc::unwrap_or_clone(value.0);
        inner.parameters = Some(parameters);
        Ok(EncodedValue(Arc::new(inner)))
    }

    /// The value with a note of what it was read from.
    #[must_use]
    pub fn with_declaration(self, declaration: Declaration) -> EncodedValue {
        let mut inner = Arc::unwrap_or_clone(self.0);
        inner.declaration = Some(declaration);
        EncodedValue(Arc::new(inner))
    }

    /// What it was read from, when it was.
    pub fn declaration(&self) -> Option<&Declaration> {
        self.0.declaration.as_ref()
    }

    /// What the bytes mean.
    pub fn encoding(&self) -> &Encoding {
        &self.0.encoding
    }

    /// The affine layout, when it is one.
    pub fn affine_layout(&self) -> Option<&Affine> {
        match &self.0.encoding {
            Encoding::Affine(affine) => Some(affine),
            Encoding::Struct(_) => None,
        }
    }

    /// The type of the records, when it is a structured encoding.
    pub fn struct_type(&self) -> Option<&Arc<StructType>> {
        match &self.0.encoding {
            Encoding::Struct(declared) => Some(declared),
            Encoding::Affine(_) => None,
        }
    }

    /// Element type and extents after decoding; structured encodings may not say.
    pub fn logical(&self) -> Option<(DType, &[usize])> {
        let logical = self.0.logical.as_ref()?;
        Some((logical.dtype, &logical.shape))
    }

    /// Extents after decoding; without one when the value does not say.
    pub fn shape(&self) -> &[usize] {
        self.logical().map_or(&[], |(_, shape)| shape)
    }

    /// The bytes: UINT8, one axis, dense.
    pub fn payload(&self) -> &Tensor {
        &self.0.payload
    }

    /// The shared parameters, when the value refers to a set.
    pub fn parameters(&self) -> Option<&Arc<ParameterSet>> {
        self.0.parameters.as_ref()
    }

    /// Number of records; `None` for affine encodings.
    pub fn record_count(&self) -> Option<u64> {
        let record = self.struct_type()?.record_bytes().ok()?;
        (self.0.payload.bytes() as u64).checked_div(record)
    }

    /// Whether two handles are one value.
    pub fn same(&self, other: &EncodedValue) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The elements. Affine layouts give FLOAT: `(code - zero point) * scale` in double, then narrowed. Values of the affine
    /// profile, shared or not, give the element type that they declare.
    ///
    /// # Errors
    /// [`EncodedError::Unsupported`] for other structured encodings; a number that the element type cannot hold; when
    /// memory cannot be had.
    pub fn decode(&self, allocator: &Allocator) -> Result<Tensor, EncodedError> {
        match (&self.0.encoding, &self.0.logical) {
            (Encoding::Affine(affine), Some(logical)) => {
                let codes = self.0.payload.as_bytes().unwrap_or_default();
                affine.decode(&logical.shape, codes, allocator)
            }
            _ => shared::decode(self, allocator),
        }
    }
}

/// A payload is one run of bytes.
fn check_bytes(payload: &Tensor) -> Result<&[u8], EncodedError> {
    match payload.as_bytes() {
        Some(bytes) if payload.dtype() == DType::Uint8 && payload.rank() == 1 => Ok(bytes),
        _ => Err(EncodedError::part(
            "payload",
            "dense UINT8 with one axis",
            format!("{} of shape {:?}", payload.dtype(), payload.shape()),
        )),
    }
}

#[cfg(test)]
mod tests;
