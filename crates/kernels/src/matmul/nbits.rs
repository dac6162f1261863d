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
use super::micro::narrow;
use crate::scratch::Scratch;
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
    let elements = rows.saturating_mul(n);
    KernelError::check_len("product with quantized weights", elements, out.len())?;
    if let Some(bias) = bias {
        KernelError::check_len("bias", n, bias.len())?;
    }
    // Dense FLOAT rows are used where they lie.
    if let (Some(rows), Some(out)) = (a.as_slice().and_then(T::as_acc), T::as_acc_mut(out)) {
        product(compute, rows, weights, out)?;
        add(bias, out);
        return Ok(());
    }
    let strip = STRIP.min(rows);
    let (mut wide, mut sums) = (f32::scratch(strip * k), f32::scratch(strip * n));
    let mut lanes = a.lanes();
    for out in out.chunks_mut((STRIP * n).max(1)) {
        let taken = out.len() / n;
        let (wide, sums) = (&mut wide[..taken * k], &mut sums[..taken * n]);
        for (row, lane) in wide.chunks_exact_mut(k).zip(&mut lanes) {
            for (slot, x) in row.iter_mut().zip(lane.iter()) {
                *slot = x.to_acc();
            }
        }
        product(compute, wide, weights, sums)?;
        add(bias, sums);
        narrow(sums, out);
    }
    Ok(())
}

/// Rows that are widened at a time where they are not dense FLOAT.
const STRIP: usize = 384;

/// The product of dense rows.
fn product(
    compute: &Compute<'_>,
    rows: &[f32],
    weights: &Weights<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let Layout { k, n, .. } = weights.layout;
    let m = rows.len() / k;
    if m <= FEW {
        few::multiply(compute, rows, weights, out);
        return Ok(());
    }
    let matrix = View::from_slice(rows, &[m, k])
        .ok_or_else(|| KernelError::shape("left matrix", &[m, k], &[rows.len()]))?;
    let columns = ByColumn(Decoded(weights));
    blocked::multiply_rows(compute, &matrix, &columns, [m, k, n], out);
    Ok(())
}

fn add<T: Real<Acc = f32>>(bias: Option<&[T]>, out: &mut [f32]) {
    let Some(bias) = bias else { return };
    for row in out.chunks_exact_mut(bias.len().max(1)) {
        for (slot, more) in row.iter_mut().zip(bias) {
            *slot += more.to_acc();
        }
    }
}

#[cfg(test)]
mod tests;
