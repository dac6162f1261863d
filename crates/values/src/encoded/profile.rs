//! The portable affine profile: a struct type that holds a quantised tensor with all its parameters, block after block.
//!
//! The root is a structure named `onnx_light.quantization.v1/` and a name of its own. Its fields, by position:
//!
//! | field | type |
//! |---|---|
//! | `reserved` | UINT8\[1\], 0 |
//! | `permutation` | INT64, one an element, or none |
//! | `forward`, `inverse` | DOUBLE\[side, side\], or none |
//! | `outlier_indices`, `outlier_values` | INT64 and DOUBLE, one an outlier |
//! | `blocks` | a structure: the constant number of blocks, then arrays `run_<first block>` of equal blocks |
//!
//! A block is a structure: a constant of nine INT64 (elements, method, bits, signed, books, entries, vector size, base 3,
//! cast type), then DOUBLE `scale`, `zero_point` and `offset`, a DOUBLE `codebook`, and UINT8 `codes`, packed from the low
//! bits on. Everything is little-endian. Of the three methods the affine one is computed; codebooks, casts and base 3 are
//! recognised and refused.
//!
//! The *local* form leaves out what a [`ParameterSet`](super::ParameterSet) holds: the reserved byte, the values of
//! outliers and the codes remain.

mod numbers;
mod read;

pub(super) use numbers::{Local, Numbers};

use super::struct_type::{Field, FieldContent, StorageType, StructKind, StructType};
use super::{CODES, EncodedError};
use crate::layout::Dims;
use crate::{DType, Tensor};
use std::sync::Arc;

/// What the names of all profiles start with.
pub const PROFILE: &str = "onnx_light.quantization.v1/";

/// More blocks are refused: each has a scale of its own.
const BLOCK_LIMIT: u64 = 1 << 28;

const AFFINE: i64 = 0;

/// Blocks of one kind, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRun {
    /// Number of blocks.
    pub blocks: u64,
    /// Elements of a block.
    pub count: usize,
    /// Bits of a code, 1 to 8.
    pub bits: u32,
    /// Whether codes are two's complement.
    pub signed: bool,
}

impl BlockRun {
    /// Bytes of the codes of a block.
    pub(super) fn code_bytes(&self) -> usize {
        // Checked when the plan was made.
        (self.count * self.bits as usize).div_ceil(8)
    }

    /// The smallest and the largest code.
    pub(super) fn range(&self) -> (f64, f64) {
        let half = f64::from(1u32 << (self.bits - 1));
        if self.signed {
            (-half, half - 1.0)
        } else {
            (0.0, 2.0 * half - 1.0)
        }
    }
}

/// What a struct type of the affine profile holds, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    name: Arc<str>,
    count: usize,
    permuted: bool,
    matrix: usize,
    outliers: usize,
    runs: Box<[BlockRun]>,
}

impl Plan {
    /// Blocks of `block_size` elements, the last one of what is left, with codes of 2, 4 or 8 bits.
    ///
    /// ```
    /// use refeed_values::{DType, encoded::Plan};
    /// let plan = Plan::affine(DType::Int4, 10, 4)?;
    /// assert_eq!((plan.count(), plan.blocks()), (10, 3));
    /// // The reserved byte, and 2 + 2 + 1 bytes of codes.
    /// assert_eq!(plan.local_type()?.record_bytes()?, 6);
    /// # Ok::<(), refeed_values::encoded::EncodedError>(())
    /// ```
    ///
    /// # Errors
    /// When the codes are of another type, there is no element, or blocks are empty.
    pub fn affine(codes: DType, count: usize, block_size: usize) -> Result<Plan, EncodedError> {
        if !CODES.contains(&codes) {
            let expected = "an integer type of 2, 4 or 8 bits";
            return Err(EncodedError::part("codes", expected, codes.name()));
        }
        if count == 0 || block_size == 0 {
            let got = format!("{count} elements in blocks of {block_size}");
            return Err(EncodedError::part("blocks", "at least one element", got));
        }
        let run = |blocks: usize, count| BlockRun {
            blocks: blocks as u64,
            count,
            bits: codes.bits() as u32,
            signed: matches!(codes, DType::Int8 | DType::Int4 | DType::Int2),
        };
        let (whole, rest) = (count / block_size, count % block_size);
        let runs = [run(whole, block_size), run(1, rest)];
        let runs = runs
            .into_iter()
            .filter(|run| run.blocks * run.count as u64 != 0);
        Plan {
            name: format!("{PROFILE}affine").into(),
            count,
            permuted: false,
            matrix: 0,
            outliers: 0,
            runs: runs.collect(),
        }
        .checked()
    }

    /// The plan with a permutation of the elements.
    #[must_use]
    pub fn with_permutation(mut self) -> Plan {
        self.permuted = true;
        self
    }

    /// The plan with matrices that are applied to every `side` elements.
    ///
    /// # Errors
    /// When the elements are no whole number of sides.
    pub fn with_matrix(mut self, side: usize) -> Result<Plan, EncodedError> {
        self.matrix = side;
        self.checked()
    }

    /// The plan with elements that are kept as they are.
    ///
    /// # Errors
    /// When they are more than there are.
    pub fn with_outliers(mut self, outliers: usize) -> Result<Plan, EncodedError> {
        self.outliers = outliers;
        self.checked()
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of blocks, each with a scale.
    pub fn blocks(&self) -> u64 {
        self.runs.iter().map(|run| run.blocks).sum()
    }

    /// The blocks, in order.
    pub fn runs(&self) -> &[BlockRun] {
        &self.runs
    }

    /// Whether elements are permuted.
    pub fn is_permuted(&self) -> bool {
        self.permuted
    }

    /// Side of the matrices; 0 without.
    pub fn matrix(&self) -> usize {
        self.matrix
    }

    /// Number of elements that are kept as they are.
    pub fn outliers(&self) -> usize {
        self.outliers
    }

    fn checked(self) -> Result<Plan, EncodedError> {
        let (mut blocks, mut elements) = (0u64, 0u64);
        for run in &self.runs {
            let covered = run.blocks.checked_mul(run.count as u64);
            let more = covered.and_then(|covered| elements.checked_add(covered));
            let bits = run.count.checked_mul(run.bits as usize);
            match (blocks.checked_add(run.blocks), more, bits) {
                (Some(all), Some(more), Some(_)) if all <= BLOCK_LIMIT => {
                    (blocks, elements) = (all, more);
                }
                _ => {
                    let expected = format!("at most {BLOCK_LIMIT} blocks");
                    return Err(EncodedError::part("blocks", expected, "more"));
                }
            }
        }
        if elements != self.count as u64 || self.count > isize::MAX as usize / 8 {
            let expected = format!("blocks of {} elements in all", self.count);
            return Err(EncodedError::part("blocks", expected, elements.to_string()));
        }
        if self.matrix != 0 && !self.count.is_multiple_of(self.matrix) {
            return Err(EncodedError::part(
                "forward",
                format!("a side that divides {} elements", self.count),
                self.matrix.to_string(),
            ));
        }
        if self.outliers > self.count {
            return Err(EncodedError::part(
                "outlier_indices",
                format!("at most {}", self.count),
                self.outliers.to_string(),
            ));
        }
        Ok(self)
    }

    /// The struct type of a value that carries its parameters itself.
    ///
    /// # Errors
    /// When its size cannot be counted, or memory for constants cannot be had.
    pub fn storage_type(&self) -> Result<StructType, EncodedError> {
        let permutation = if self.permuted { self.count } else { 0 };
        let square = if self.matrix == 0 {
            vec![0]
        } else {
            vec![self.matrix; 2]
        };
        let fields = [
            typed("reserved", DType::Uint8, &[1]),
            typed("permutation", DType::Int64, &[permutation]),
            typed("forward", DType::Double, &square),
            typed("inverse", DType::Double, &square),
            typed("outlier_indices", DType::Int64, &[self.outliers]),
            typed("outlier_values", DType::Double, &[self.outliers]),
            self.block_runs(|run| {
                vec![
                    typed("scale", DType::Double, &[1]),
                    typed("zero_point", DType::Double, &[1]),
                    typed("offset", DType::Double, &[1]),
                    typed("codebook", DType::Double, &[0]),
                    typed("codes", DType::Uint8, &[run.code_bytes()]),
                ]
            })?,
        ];
        Ok(StructType::new(StructKind::Structure(fields.into()))?.named(Arc::clone(&self.name)))
    }

    /// The struct type of a value whose parameters stand in a shared set.
    ///
    /// # Errors
    /// As [`Plan::storage_type`].
    pub fn local_type(&self) -> Result<StructType, EncodedError> {
        let mut fields = vec![typed("reserved", DType::Uint8, &[1])];
        if self.outliers != 0 {
            fields.push(typed("outlier_values", DType::Double, &[self.outliers]));
        }
        let codes = |run: &BlockRun| vec![typed("codes", DType::Uint8, &[run.code_bytes()])];
        fields.push(self.block_runs(codes)?);
        let made = StructType::new(StructKind::Structure(fields.into()))?;
        let profile = self.name.strip_prefix(PROFILE).unwrap_or_default();
        Ok(made.named(format!("{PROFILE}shared/{profile}")))
    }

    /// The `blocks` of a type, with the given fields after the constant of each block.
    fn block_runs(&self, of: impl Fn(&BlockRun) -> Vec<Field>) -> Result<Field, EncodedError> {
        let mut first = 0;
        let mut fields = vec![constant("block_count", &[], &[self.blocks() as i64])?];
        for run in &self.runs {
            let layout = [
                run.count as i64,
                AFFINE,
                i64::from(run.bits),
                i64::from(run.signed),
                0,
                0,
                0,
                0,
                0,
            ];
            let mut block = vec![constant("layout", &[9], &layout)?];
            block.extend(of(run));
            let block = StructType::new(StructKind::Structure(block.into()))?;
            let array = StructType::new(StructKind::Array {
                element: StorageType::Struct(Arc::new(block)),
                dimension: run.blocks,
            })?;
            fields.push(nested(&format!("run_{first}"), array));
            first += run.blocks;
        }
        let blocks = StructType::new(StructKind::Structure(fields.into()))?;
        Ok(nested("blocks", blocks))
    }
}

fn typed(name: &str, dtype: DType, shape: &[usize]) -> Field {
    let shape = Dims::from_slice(shape);
    Field {
        name: name.into(),
        content: FieldContent::Type(StorageType::Tensor { dtype, shape }),
    }
}

fn nested(name: &str, ty: StructType) -> Field {
    Field {
        name: name.into(),
        content: FieldContent::Type(StorageType::Struct(Arc::new(ty))),
    }
}

fn constant(name: &str, shape: &[usize], values: &[i64]) -> Result<Field, EncodedError> {
    Ok(Field {
        name: name.into(),
        content: FieldContent::Constant(Tensor::from_slice(shape, values)?),
    })
}

#[cfg(test)]
mod tests;
