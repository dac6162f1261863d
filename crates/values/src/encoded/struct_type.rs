//! The layout of structured encodings: bits laid side by side, without padding.
//!
//! A tensor takes its elements, an array its elements, a bit packing its components from the least significant bit on, a
//! structure its typed fields in order; a constant takes none, because the type holds it. Sizes are added up once, when a
//! type is made, with checked arithmetic.

use super::{Declaration, EncodedError};
use crate::layout::Dims;
use crate::{DType, Extent, MAX_DEPTH, Tensor};
use std::sync::Arc;

/// The type of a part: elements, or a struct type, shared where a catalogue declares it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StorageType {
    /// Elements of a known number.
    Tensor {
        /// Their type.
        dtype: DType,
        /// Their extents.
        shape: Dims,
    },
    /// Parts of parts.
    Struct(Arc<StructType>),
}

impl StorageType {
    /// Size in bits.
    ///
    /// # Errors
    /// When the number of elements or their size cannot be counted in 64 bits.
    pub fn bits(&self) -> Result<u64, EncodedError> {
        match self {
            StorageType::Struct(declared) => Ok(declared.bits),
            StorageType::Tensor { dtype, shape } => {
                let elements = Extent::new(*dtype, shape)?.elements() as u64;
                let bits = elements.checked_mul(dtype.bits() as u64);
                bits.ok_or_else(too_large)
            }
        }
    }

    fn is_catalogued(&self) -> bool {
        match self {
            StorageType::Struct(declared) => declared.catalogued,
            StorageType::Tensor { .. } => false,
        }
    }

    fn height(&self) -> usize {
        match self {
            StorageType::Struct(declared) => declared.height,
            StorageType::Tensor { .. } => 0,
        }
    }
}

/// A field of a structure.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: Arc<str>,
    /// What it holds.
    pub content: FieldContent,
}

/// What a field holds.
#[derive(Debug, Clone)]
pub enum FieldContent {
    /// Bits of each record.
    Type(StorageType),
    /// A value of the type itself.
    Constant(Tensor),
}

/// A component of a bit packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name.
    pub name: Arc<str>,
    /// Its width, 1 to 64.
    pub bits: u32,
}

/// How parts make a struct type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StructKind {
    /// Elements of one type.
    Array {
        /// Their type.
        element: StorageType,
        /// Their number.
        dimension: u64,
    },
    /// Named fields, in order.
    Structure(Box<[Field]>),
    /// Components of a few bits, as often as `dimension` says.
    BitPacking {
        /// From the least significant bit on.
        components: Box<[Component]>,
        /// Repetitions.
        dimension: u64,
    },
}

/// A struct type of fixed size.
#[derive(Debug, Clone)]
pub struct StructType {
    kind: StructKind,
    name: Option<Arc<str>>,
    type_id: Option<u64>,
    bits: u64,
    height: usize,
    /// Whether it or a part of it stands in a catalogue.
    catalogued: bool,
    declaration: Option<Declaration>,
}

impl StructType {
    /// Joins parts.
    ///
    /// ```
    /// use refeed_values::encoded::{Component, StructKind, StructType};
    /// let part = |name: &str, bits| Component { name: name.into(), bits };
    /// let packed = StructType::new(StructKind::BitPacking {
    ///     components: [part("low", 3), part("high", 5)].into(),
    ///     dimension: 4,
    /// })?;
    /// assert_eq!((packed.bits(), packed.record_bytes()?), (32, 4));
    /// # Ok::<(), refeed_values::encoded::EncodedError>(())
    /// ```
    ///
    /// # Errors
    /// When the size does not fit in 64 bits, a component has no or more than 64 bits, or parts nest deeper than 64.
    pub fn new(kind: StructKind) -> Result<StructType, EncodedError> {
        let catalogued = match &kind {
            StructKind::Array { element, .. } => element.is_catalogued(),
            StructKind::BitPacking { .. } => false,
            StructKind::Structure(fields) => fields.iter().any(|field| match &field.content {
                FieldContent::Type(ty) => ty.is_catalogued(),
                FieldContent::Constant(_) => false,
            }),
        };
        let (bits, height) = match &kind {
            StructKind::Array { element, dimension } => {
                let bits = element.bits()?.checked_mul(*dimension);
                (bits.ok_or_else(too_large)?, element.height() + 1)
            }
            StructKind::BitPacking {
                components,
                dimension,
            } => {
                let mut record = 0u64;
                for Component { name, bits } in components {
                    if !(1..=64).contains(bits) {
                        let got = format!("{bits} bits of `{name}`");
                        return Err(EncodedError::part("bit_packing", "1 to 64 bits", got));
                    }
                    record = record.checked_add(u64::from(*bits)).ok_or_else(too_large)?;
                }
                (record.checked_mul(*dimension).ok_or_else(too_large)?, 1)
            }
            StructKind::Structure(fields) => {
                let (mut total, mut height) = (0u64, 0);
                for field in fields {
                    if let FieldContent::Type(ty) = &field.content {
                        total = total.checked_add(ty.bits()?).ok_or_else(too_large)?;
                        height = height.max(ty.height());
                    }
                }
                (total, height + 1)
            }
        };
        if height > MAX_DEPTH {
            return Err(EncodedError::part(
                "struct_type",
                format!("types nested at most {MAX_DEPTH} deep"),
                format!("{height} levels"),
            ));
        }
        Ok(StructType {
            kind,
            name: None,
            type_id: None,
            bits,
            height,
            catalogued,
            declaration: None,
        })
    }

    /// The type with a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> StructType {
        self.name = Some(name.into());
        self
    }

    /// The type with the identity that a catalogue gives it.
    #[must_use]
    pub fn identified(mut self, type_id: u64) -> StructType {
        self.type_id = Some(type_id);
        self.catalogued = true;
        self
    }

    /// The type with a note of what it was read from.
    #[must_use]
    pub fn with_declaration(mut self, declaration: Declaration) -> StructType {
        self.declaration = Some(declaration);
        self
    }

    /// How its parts make it.
    pub fn kind(&self) -> &StructKind {
        &self.kind
    }

    /// Its name, when it has one.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Its identity in a catalogue, when it stands in one.
    pub fn type_id(&self) -> Option<u64> {
        self.type_id
    }

    /// Whether it, or a part of it, stands in a catalogue, so that it is written as a reference.
    pub fn is_catalogued(&self) -> bool {
        self.catalogued
    }

    /// What it was read from, when it was.
    pub fn declaration(&self) -> Option<&Declaration> {
        self.declaration.as_ref()
    }

    /// Size of a value in bits.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Size of a record in bytes.
    ///
    /// # Errors
    /// When a record is empty or not of whole bytes.
    pub fn record_bytes(&self) -> Result<u64, EncodedError> {
        if self.bits == 0 || !self.bits.is_multiple_of(8) {
            return Err(EncodedError::part(
                "struct_type",
                "records of whole bytes, at least one",
                format!("records of {} bits", self.bits),
            ));
        }
        Ok(self.bits / 8)
    }

    /// The fields, when it is a structure.
    pub fn fields(&self) -> Option<&[Field]> {
        match &self.kind {
            StructKind::Structure(fields) => Some(fields),
            _ => None,
        }
    }
}

impl StructType {
    /// Whether both lay out the same bits with the same constants; names are not compared. The walk is as long as `self` is
    /// when shared parts count each time, so `self` must be a type without shared parts.
    pub(super) fn has_layout_of(&self, other: &StructType) -> bool {
        if self.bits != other.bits || self.height != other.height {
            return false;
        }
        match (&self.kind, &other.kind) {
            (
                StructKind::Array { element, dimension },
                StructKind::Array {
                    element: other,
                    dimension: times,
                },
            ) => dimension == times && element.has_layout_of(other),
            (
                StructKind::BitPacking {
                    components,
                    dimension,
                },
                StructKind::BitPacking {
                    components: other,
                    dimension: times,
                },
            ) => dimension == times && components == other,
            (StructKind::Structure(fields), StructKind::Structure(other)) => {
                fields.len() == other.len()
                    && fields
                        .iter()
                        .zip(other)
                        .all(|(a, b)| match (&a.content, &b.content) {
                            (FieldContent::Type(a), FieldContent::Type(b)) => a.has_layout_of(b),
                            (FieldContent::Constant(a), FieldContent::Constant(b)) => {
                                a.dtype() == b.dtype()
                                    && a.shape() == b.shape()
                                    && a.as_bytes() == b.as_bytes()
                            }
                            _ => false,
                        })
            }
            _ => false,
        }
    }
}

impl StorageType {
    fn has_layout_of(&self, other: &StorageType) -> bool {
        match (self, other) {
            (StorageType::Struct(a), StorageType::Struct(b)) => {
                Arc::ptr_eq(a, b) || a.has_layout_of(b)
            }
            (
                StorageType::Tensor { dtype, shape },
                StorageType::Tensor {
                    dtype: other,
                    shape: extents,
                },
            ) => dtype == other && shape == extents,
            _ => false,
        }
    }
}

fn too_large() -> EncodedError {
    EncodedError::part("struct_type", "a size that fits in 64 bits", "a larger one")
}
