//! Matrix products as NumPy's `matmul` defines them, over views of any strides.
//!
//! One product goes one of two ways. With few rows on the left (a decode step) it is bound by reading the right
//! operand, which is read once, in place, whichever of its axes is dense: `rows`. Otherwise tiles of both operands are
//! packed, so that a transposed operand is never copied whole, and multiplied in registers: `blocked`.
//! FLOAT16 and BFLOAT16 are widened as they are loaded, summed in f32, and rounded once.
//!
//! Every element of the result is summed in an order that depends on the depth alone, so tiles may follow the number of
//! threads without changing a bit.

mod blocked;
mod integer;
pub(crate) mod micro;
pub mod nbits;
mod rows;

use crate::storage::Real;
use crate::{Compute, KernelError};
use half::{bf16, f16};
use refeed_values::layout::{Dims, broadcast_shape};
use refeed_values::{Element, View};

/// Element types that matrices may have.
pub trait MatMulElement: Element {
    #[doc(hidden)]
    fn multiply(compute: &Compute<'_>, operands: &Operands<'_, Self>, out: &mut [Self]);
}

macro_rules! element {
    ($module:path: $($t:ty),*) => {
        $(impl MatMulElement for $t {
            fn multiply(compute: &Compute<'_>, operands: &Operands<'_, $t>, out: &mut [$t]) {
                use $module as way;
                way(compute, operands, out);
            }
        })*
    };
}
element!(multiply_real: f32, f64, f16, bf16);
element!(integer::multiply: i32, i64, u32, u64);

/// Two matrices, or equally many pairs of them, `[.., m, k]` and `[.., k, n]` with the same leading axes.
#[doc(hidden)]
#[derive(Debug)]
pub struct Operands<'a, T> {
    a: View<'a, T>,
    b: View<'a, T>,
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
}

impl<'a, T: Element> Operands<'a, T> {
    /// The two matrices of one pair.
    fn pair(&self, index: usize) -> (View<'a, T>, View<'a, T>) {
        (pick(&self.a, index), pick(&self.b, index))
    }
}

/// Matrix `index` of a view, in row-major order of its leading axes.
fn pick<'a, T: Element>(view: &View<'a, T>, mut index: usize) -> View<'a, T> {
    let mut view = view.clone();
    while view.rank() > 2 {
        let axis = view.rank() - 3;
        let extent = view.shape()[axis].max(1);
        // The remainder is a position of the axis.
        view = match view.index(axis, index % extent) {
            Some(view) => view,
            None => return view,
        };
        index /= extent;
    }
    view
}

/// The view with an axis of extent 1 added at `axis` when it is a vector.
fn as_matrix<'a, T: Element>(view: &View<'a, T>, axis: usize) -> Option<View<'a, T>> {
    match view.rank() {
        1 => view.unsqueeze(axis),
        _ => Some(view.clone()),
    }
}

/// The shape of a product by NumPy's rules: a vector on the left is one row, on the right one column, and the axis so
/// added is not in the result; leading axes broadcast.
///
/// # Errors
/// When a shape has no axes, the inner extents differ, or leading axes do not broadcast.
pub fn matmul_shape(a: &[usize], b: &[usize]) -> Result<Dims, KernelError> {
    for (operand, shape) in [("left matrix", a), ("right matrix", b)] {
        if shape.is_empty() {
            return Err(KernelError::Rank {
                operand,
                expected: "at least one axis",
                got: 0,
            });
        }
    }
    let mismatch = || KernelError::Mismatch {
        operation: "matrix product",
        left: a.to_vec(),
        right: b.to_vec(),
    };
    let depth = b[b.len().saturating_sub(2)];
    if a[a.len() - 1] != depth {
        return Err(mismatch());
    }
    let (lead_a, lead_b) = (
        &a[..a.len().saturating_sub(2)],
        &b[..b.len().saturating_sub(2)],
    );
    let mut shape = broadcast_shape([lead_a, lead_b]).ok_or_else(mismatch)?;
    if a.len() > 1 {
        shape.push(a[a.len() - 2]);
    }
    if b.len() > 1 {
        shape.push(b[b.len() - 1]);
    }
    Ok(shape)
}

/// `out = a · b`, `out` being row-major with the shape that [`matmul_shape`] gives.
///
/// Source: <https://onnx.ai/onnx/operators/onnx__MatMul.html>. Integer products wrap around.
///
/// # Errors
/// As [`matmul_shape`], and when `out` has another length.
pub fn matmul<T: MatMulElement>(
    compute: &Compute<'_>,
    a: &View<'_, T>,
    b: &View<'_, T>,
    out: &mut [T],
) -> Result<(), KernelError> {
    let shape = matmul_shape(a.shape(), b.shape())?;
    let elements = shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .unwrap_or(usize::MAX);
    KernelError::check_len("matrix product", elements, out.len())?;
    let mismatch = || KernelError::Mismatch {
        operation: "matrix product",
        left: a.shape().to_vec(),
        right: b.shape().to_vec(),
    };
    let a = as_matrix(a, 0).ok_or_else(mismatch)?;
    let b = as_matrix(b, 1).ok_or_else(mismatch)?;
    let (m, k) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]);
    let n = b.shape()[b.rank() - 1];
    if out.is_empty() {
        return Ok(());
    }
    if k == 0 {
        out.fill(T::default());
        return Ok(());
    }
    // One matrix on the right: all rows on the left are one matrix, where strides allow.
    if b.shape()[..b.rank() - 2].iter().all(|&d| d == 1) {
        let rows = a.len() / k;
        let single = b.reshape(&[k, n]).or_else(|| Some(pick(&b, 0)));
        if let (Some(a), Some(b)) = (a.reshape(&[rows, k]), single) {
            let operands = Operands {
                a,
                b,
                batch: 1,
                m: rows,
                k,
                n,
            };
            T::multiply(compute, &operands, out);
            return Ok(());
        }
    }
    let lead = broadcast_shape([&a.shape()[..a.rank() - 2], &b.shape()[..b.rank() - 2]])
        .ok_or_else(mismatch)?;
    let full = |rows, cols| {
        let mut shape = lead.clone();
        shape.extend([rows, cols]);
        shape
    };
    let a = a.broadcast(&full(m, k)).ok_or_else(mismatch)?;
    let b = b.broadcast(&full(k, n)).ok_or_else(mismatch)?;
    let operands = Operands {
        a,
        b,
        batch: lead.iter().product(),
        m,
        k,
        n,
    };
    T::multiply(compute, &operands, out);
    Ok(())
}

/// Products of floating point matrices; the extents are not 0.
fn multiply_real<T: Real + MatMulElement>(
    compute: &Compute<'_>,
    operands: &Operands<'_, T>,
    out: &mut [T],
) {
    let Operands {
        a,
        b,
        batch,
        m,
        k,
        n,
        ..
    } = operands;
    if *n == 1 && *m > 1 {
        // A column is the row of the transposed product, and lies in memory the same way.
        let (last_a, last_b) = (a.rank() - 1, b.rank() - 1);
        if let (Some(at), Some(bt)) = (a.swap(last_a - 1, last_a), b.swap(last_b - 1, last_b)) {
            let turned = Operands {
                a: bt,
                b: at,
                batch: *batch,
                m: 1,
                k: *k,
                n: *m,
            };
            return multiply_real(compute, &turned, out);
        }
    }
    if *m <= rows::FEW && rows::multiply(compute, operands, out) {
        return;
    }
    blocked::multiply(compute, operands, out);
}

#[cfg(test)]
mod tests;
