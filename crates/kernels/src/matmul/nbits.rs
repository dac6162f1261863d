//! Products with weights that are kept as codes of 2, 4 or 8 bits, a scale and a zero point for each block of the depth:
//! the weights of `com.microsoft.MatMulNBits`.
//!
//! `weight = (code - zero_point) * scale`. Column `n` of the weights is a run of blocks, each a whole number of bytes,
//! element 0 in the low bits of byte 0; the last block is filled up with codes of no meaning. The codes are never
//! widened as a whole. With few rows on the left (a decode step) each byte is read once and multiplied as it comes out
//! of its register: `few`. With more, tiles are decoded into the panels of the matrix product.
//!
//! Sums are in f32: of the codes as they are, for each block, times its scale; what the zero points take away is
//! `sum of (scale * zero_point * sum of the block's inputs)`. An element of the result is summed in an order that
//! depends on the depth, the block and the instruction set, never on the number of threads.

mod codes;
mod few;
mod layout;
mod repack;

pub use layout::{Layout, Numbers, Weights, Zeros};
pub use repack::{Repacked, RowCodes, repack};

use super::blocked::{self, ByColumn};
use crate::storage::Real;
use crate::{Compute, KernelError};
use codes::Decoded;
use few::FEW;
use refeed_values::View;

/// `out = a · weights + bias`, for `a` of shape `[.., k]` and `out` row-major of shape `[.., n]`.
///
/// Source: the contributed operators of onnxruntime, `com.microsoft.MatMulNBits`.
///
/// ```
/// use refeed_kernels::{Compute, matmul::nbits::{Layout, Numbers, Weights, Zeros, multiply}};
/// use refeed_values::View;
/// // One column of 16 weights: codes 9, 8, 8, .. of 4 bits, of which 8 stands for 0.
/// let mut codes = [0x88u8; 8];
/// codes[0] = 0x89;
/// let weights = Weights::new(Layout::new(4, 16, 1, 16)?, &codes, Numbers::Float(&[0.5]), Zeros::Middle)?;
/// let input: Vec<f32> = (1..=16).map(|x| x as f32).collect();
/// let mut out = [0f32];
/// if let Some(a) = View::from_slice(&input, &[1, 16]) {
///     multiply(&Compute::default(), &a, &weights, Some(&[2.0]), &mut out)?;
/// }
/// assert_eq!(out, [2.5]);
/// # Ok::<(), refeed_kernels::KernelError>(())
/// ```
///
/// # Errors
/// When the last extent of `a` is not the depth, or `bias` or `out` have another length.
pub fn multiply<T: Real<Acc = f32>>(
    compute: &Compute<'_>,
    a: &View<'_, T>,
    weights: &Weights<'_>,
    bias: Option<&[T]>,
    out: &mut [T],
) -> Result<(), KernelError> {
    let Layout { k, n, .. } = weights.layout;
    if a.shape().last() != Some(&k) {
        return Err(KernelError::Mismatch {
            operation: "product with quantized weights",
            left: a.shape().to_vec(),
            right: vec![k, n],
        });
    }
    let rows = a.len() / k;
    let elements = rows.checked_mul(n).unwrap_or(usize::MAX);
    KernelError::check_len("product with quantized weights", elements, out.len())?;
    if let Some(bias) = bias {
        KernelError::check_len("bias", n, bias.len())?;
    }
    if rows == 0 {
        return Ok(());
    }
    let dense;
    let matrix = match a.reshape(&[rows, k]) {
        Some(matrix) => matrix,
        None => {
            dense = a.to_vec();
            View::from_slice(&dense, &[rows, k]).ok_or_else(|| KernelError::Rank {
                operand: "left matrix",
                expected: "axes that make rows",
                got: a.rank(),
            })?
        }
    };
    if rows <= FEW {
        few::multiply(compute, &matrix, weights, out);
    } else {
        let columns = ByColumn(Decoded(weights));
        blocked::multiply_rows(compute, &matrix, &columns, [rows, k, n], out);
    }
    if let Some(bias) = bias {
        for row in out.chunks_exact_mut(n) {
            for (slot, more) in row.iter_mut().zip(bias) {
                *slot = T::from_acc(slot.to_acc() + more.to_acc());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
