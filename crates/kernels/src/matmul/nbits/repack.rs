//! From codes that lie row by row, as `DequantizeLinear` has them, to the layout of this module.

use super::{Layout, Numbers, Weights, Zeros};
use crate::{Compute, KernelError};
use refeed_values::encoded::{code, code_range};
use refeed_values::{DType, View};

/// A quantized matrix `[k, n]` whose codes are packed in row-major order.
#[derive(Debug, Clone)]
pub struct RowCodes<'a> {
    /// INT2, UINT2, INT4, UINT4, INT8 or UINT8.
    pub dtype: DType,
    /// Rows.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// The codes.
    pub codes: &'a [u8],
    /// Rows that share a scale.
    pub block: usize,
    /// Scales `[blocks, n]`; of any strides.
    pub scales: View<'a, f32>,
    /// Codes that stand for 0, packed in row-major order of `[blocks, n]`; without them it is the code 0.
    pub zeros: Option<&'a [u8]>,
}

/// Quantized weights in memory of their own.
#[derive(Debug, Clone)]
pub struct Repacked {
    layout: Layout,
    codes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<u8>,
}

impl Repacked {
    /// What products read.
    ///
    /// # Errors
    /// Never for what [`repack`] gives.
    pub fn weights(&self) -> Result<Weights<'_>, KernelError> {
        let zeros = Zeros::Codes(&self.zeros);
        Weights::new(
            self.layout,
            &self.codes,
            Numbers::Float(&self.scales),
            zeros,
        )
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.codes.len() + 4 * self.scales.len() + self.zeros.len()
    }
}

/// The largest block that products know whose multiple `block` is.
fn block_within(block: usize) -> Option<usize> {
    let twos = 1usize << block.trailing_zeros().min(8);
    (block > 0 && twos >= 16).then_some(twos)
}

fn memory<T: Clone + Default>(len: usize) -> Option<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(len).ok()?;
    made.resize(len, T::default());
    Some(made)
}

/// Columns that a task packs.
const COLUMNS: usize = 64;

/// The same weights, column by column. `None` when products do not know such a layout (the block has no power of two from
/// 16 on as a divisor, a part has another length) or memory cannot be had.
pub fn repack(compute: &Compute<'_>, rows: &RowCodes<'_>) -> Option<Repacked> {
    let &RowCodes { dtype, k, n, .. } = rows;
    let bits = dtype.bits();
    let known = [DType::Int2, DType::Int4, DType::Int8];
    let unsigned = [DType::Uint2, DType::Uint4, DType::Uint8];
    if !known.contains(&dtype) && !unsigned.contains(&dtype) {
        return None;
    }
    let block = block_within(rows.block)?;
    let layout = Layout::new(bits, k, n, block).ok()?;
    let held = k.div_ceil(rows.block);
    let packed = |count: usize| Some(count.checked_mul(bits)?.div_ceil(8));
    let zeros_fit = match rows.zeros {
        Some(zeros) => zeros.len() == packed(held.checked_mul(n)?)?,
        None => true,
    };
    if rows.codes.len() != packed(k.checked_mul(n)?)?
        || rows.scales.shape() != [held, n]
        || !zeros_fit
    {
        return None;
    }
    let mut codes = memory(layout.row_bytes() * n)?;
    let mut scales = memory(layout.blocks * n)?;
    let mut zeros = memory(layout.zero_bytes() * n)?;
    // Two's complement becomes a distance from the lowest code.
    let low = code_range(dtype).0;
    let (row_bytes, zero_bytes) = (layout.row_bytes(), layout.zero_bytes());
    let parallel = compute.parallel(k * n);
    let chunk = COLUMNS * row_bytes;
    compute
        .pool
        .chunks(&mut codes, chunk, parallel, |task, part| {
            let first = task * COLUMNS;
            for row in 0..k {
                for (i, column) in part.chunks_exact_mut(row_bytes).enumerate() {
                    let number = code(rows.codes, dtype, row * n + first + i) - low;
                    column[row * bits / 8] |= place(number, row, bits);
                }
            }
        });
    for column in 0..n {
        for which in 0..layout.blocks {
            // A block of the file may be several of ours.
            let from = which * block / rows.block;
            scales[column * layout.blocks + which] = rows.scales.get(&[from, column])?;
            let zero = rows
                .zeros
                .map_or(0, |zeros| code(zeros, dtype, from * n + column));
            zeros[column * zero_bytes + which * bits / 8] |= place(zero - low, which, bits);
        }
    }
    Some(Repacked {
        layout,
        codes,
        scales,
        zeros,
    })
}

/// A code at its place of the byte in which element `index` lies.
fn place(code: i32, index: usize, bits: usize) -> u8 {
    (code << (index * bits % 8)).to_le_bytes()[0]
}
