//! The one place where dimensions are multiplied.

use crate::DType;
use thiserror::Error;

/// Why dimensions have no extent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExtentError {
    /// The element count or byte size does not fit in memory.
    #[error("{dtype} tensor of shape {shape:?} does not fit in memory")]
    Overflow {
        /// Element type.
        dtype: DType,
        /// The shape that was asked for.
        shape: Vec<usize>,
    },
    /// More axes than any operator or array package handles.
    #[error("expected at most {most} axes, got {rank}")]
    Rank {
        /// Axes asked for.
        rank: usize,
        /// The limit.
        most: usize,
    },
    /// A dimension from a file or tensor is negative.
    #[error("dimension {axis} of shape {shape:?} is negative")]
    Negative {
        /// Which dimension.
        axis: usize,
        /// The dimensions as given.
        shape: Vec<i64>,
    },
    /// STRING elements have no byte size.
    #[error("STRING tensors have no byte extent")]
    NoFixedWidth,
}

/// The most axes that a tensor may have, as in NumPy.
pub const MAX_RANK: usize = 64;

/// Element count and byte size of a dense tensor, checked.
///
/// ```
/// use refeed_values::{DType, Extent};
/// let packed = Extent::new(DType::Int4, &[3]).unwrap();
/// assert_eq!((packed.elements(), packed.bytes()), (3, 2));
/// assert!(Extent::new(DType::Float, &[usize::MAX, 2]).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    elements: usize,
    bytes: usize,
}

impl Extent {
    /// The extent of `shape` elements of `dtype`.
    ///
    /// # Errors
    /// When there are more than [`MAX_RANK`] axes, the count or the size exceeds `isize::MAX`, also where another dimension is 0, or the type is STRING.
    pub fn new(dtype: DType, shape: &[usize]) -> Result<Extent, ExtentError> {
        if dtype == DType::String {
            return Err(ExtentError::NoFixedWidth);
        }
        if shape.len() > MAX_RANK {
            let (rank, most) = (shape.len(), MAX_RANK);
            return Err(ExtentError::Rank { rank, most });
        }
        let overflow = || ExtentError::Overflow {
            dtype,
            shape: shape.to_vec(),
        };
        let mut elements = 1usize;
        let mut empty = false;
        for &dim in shape {
            if dim == 0 {
                empty = true;
            } else {
                elements = elements.checked_mul(dim).ok_or_else(overflow)?;
            }
        }
        let bits = (elements as u128) * (dtype.bits() as u128);
        let bytes = bits.div_ceil(8);
        if bytes > isize::MAX as u128 {
            return Err(overflow());
        }
        if empty {
            return Ok(Extent {
                elements: 0,
                bytes: 0,
            });
        }
        Ok(Extent {
            elements,
            bytes: bytes as usize,
        })
    }

    /// The extent of dimensions as a file or tensor states them.
    ///
    /// # Errors
    /// As [`Extent::new`]; also for a negative dimension.
    pub fn from_dims(dtype: DType, dims: &[i64]) -> Result<(Extent, crate::Dims), ExtentError> {
        let mut shape = crate::Dims::with_capacity(dims.len());
        for (axis, &dim) in dims.iter().enumerate() {
            match usize::try_from(dim) {
                Ok(dim) => shape.push(dim),
                Err(_) => {
                    return Err(ExtentError::Negative {
                        axis,
                        shape: dims.to_vec(),
                    });
                }
            }
        }
        Ok((Extent::new(dtype, &shape)?, shape))
    }

    /// Number of elements.
    pub const fn elements(self) -> usize {
        self.elements
    }

    /// Number of bytes, the last one rounded up for packed types.
    pub const fn bytes(self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_edge_dimensions_agrees_with_u128() {
        const EDGES: [usize; 9] = [
            0,
            1,
            2,
            3,
            (1 << 31) - 1,
            1 << 31,
            1 << 32,
            1 << 62,
            (1 << 63) - 1,
        ];
        for dtype in [
            DType::Int2,
            DType::Int4,
            DType::Uint8,
            DType::Float,
            DType::Complex128,
        ] {
            for a in EDGES {
                for b in EDGES {
                    for c in EDGES {
                        for d in EDGES {
                            let shape = [a, b, c, d];
                            let nonzero: Option<u128> = shape
                                .iter()
                                .filter(|&&x| x != 0)
                                .try_fold(1u128, |p, &x| p.checked_mul(x as u128));
                            let bytes = nonzero.and_then(|n| {
                                n.checked_mul(dtype.bits() as u128)
                                    .map(|bits| bits.div_ceil(8))
                            });
                            let fits = bytes.is_some_and(|n| n <= isize::MAX as u128)
                                && nonzero.is_some_and(|n| n <= usize::MAX as u128);
                            let got = Extent::new(dtype, &shape);
                            assert_eq!(got.is_ok(), fits, "{dtype} {shape:?}");
                            if let Ok(extent) = got {
                                let empty = shape.contains(&0);
                                let want = if empty { 0 } else { bytes.unwrap() as usize };
                                assert_eq!(extent.bytes(), want);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn negative_dimension_is_named() {
        let error = Extent::from_dims(DType::Float, &[2, -1]).unwrap_err();
        assert_eq!(
            error,
            ExtentError::Negative {
                axis: 1,
                shape: vec![2, -1]
            }
        );
    }

    #[test]
    fn more_axes_than_the_limit_are_refused() {
        assert!(Extent::new(DType::Bool, &[1; MAX_RANK]).is_ok());
        let error = Extent::new(DType::Bool, &[1; MAX_RANK + 1]).unwrap_err();
        assert_eq!(error.to_string(), "expected at most 64 axes, got 65");
    }
}
