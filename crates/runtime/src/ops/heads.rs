//! Heads of attention: fused `[batch, length, heads * width]` tensors seen as `[batch, heads, length, width]`, and back.

use crate::kernel::OpError;
use refeed_kernels::pool::RowLayout;
use refeed_values::{Layout, Tensor};

/// Runs `$body` with `$t` standing for the floating point type `$dtype`, that of input `$index`.
macro_rules! by_real {
    ($dtype:expr, $index:expr, $t:ident => $body:expr) => {
        match $dtype {
            refeed_values::DType::Float => {
                type $t = f32;
                $body
            }
            refeed_values::DType::Double => {
                type $t = f64;
                $body
            }
            refeed_values::DType::Float16 => {
                type $t = half::f16;
                $body
            }
            refeed_values::DType::Bfloat16 => {
                type $t = half::bf16;
                $body
            }
            got => Err($crate::kernel::OpError::DType {
                index: $index,
                expected: "FLOAT, DOUBLE, FLOAT16 or BFLOAT16".to_string(),
                got,
            }),
        }
    };
}
pub(super) use by_real;

/// A head count from an attribute: a positive number.
///
/// # Errors
/// When it is not positive.
pub(super) fn head_count(what: &'static str, count: i64) -> Result<usize, OpError> {
    usize::try_from(count)
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| OpError::Value {
            what,
            expected: "a positive number".to_string(),
            got: count.to_string(),
        })
}

/// Heads `first..first + heads`, each `width` wide, of a fused tensor, as a `[batch, heads, length, width]` view of the
/// same memory.
///
/// # Errors
/// When the tensor has not 3 axes or fewer columns.
pub(super) fn heads_of(
    fused: &Tensor,
    first: usize,
    heads: usize,
    width: usize,
) -> Result<Tensor, OpError> {
    let (&[batch, length, columns], &[outer, middle, inner]) = (fused.shape(), fused.strides())
    else {
        return Err(OpError::Shape(format!(
            "expected 3 dimensions, got {:?}",
            fused.shape()
        )));
    };
    let end = first
        .checked_add(heads)
        .and_then(|end| end.checked_mul(width));
    if end.is_none_or(|end| end > columns) {
        return Err(OpError::Shape(format!(
            "{} heads of width {width} do not fit in {:?}",
            first.saturating_add(heads),
            fused.shape()
        )));
    }
    let shape = [batch, heads, length, width];
    // Both numbers are at most `columns`, which is an extent of a tensor.
    let head = inner.saturating_mul(width as isize);
    let layout = Layout::strided(&shape, &[outer, head, middle, inner]);
    let empty = shape.contains(&0);
    let delta = if empty {
        0
    } else {
        head.saturating_mul(first as isize)
    };
    let layout = layout.ok_or_else(|| OpError::Shape("layout of heads".to_string()))?;
    Ok(fused.with_layout(layout, delta)?)
}

/// The tensor as `[batch, heads, length, width]`: itself when it has 4 axes, else its fused last axis cut into `heads`.
///
/// # Errors
/// When the rank is another one, or the last axis is not a multiple of the heads.
pub(super) fn split(
    what: &'static str,
    tensor: &Tensor,
    heads: Option<usize>,
) -> Result<Tensor, OpError> {
    match (tensor.shape(), heads) {
        (&[_, own, _, _], None) if own > 0 || tensor.elements() == 0 => Ok(tensor.clone()),
        (&[_, own, _, _], Some(heads)) if own == heads => Ok(tensor.clone()),
        (&[_, own, _, _], heads) => Err(OpError::Shape(format!(
            "{what}: expected {heads:?} heads, got {own}"
        ))),
        (&[_, _, columns], Some(heads)) if heads > 0 && columns.is_multiple_of(heads) => {
            heads_of(tensor, 0, heads, columns / heads)
        }
        (&[_, _, columns], heads) => Err(OpError::Shape(format!(
            "{what}: {columns} columns do not divide into {} heads",
            heads.map_or_else(|| "an unknown number of".to_string(), |n| n.to_string())
        ))),
        (shape, _) => Err(OpError::Shape(format!(
            "{what}: expected 3 or 4 dimensions, got {shape:?}"
        ))),
    }
}

/// Where the rows `[batch, head, position]` of a dense `[batch, length, heads * width]` tensor lie.
///
/// # Errors
/// When the extent overflows.
pub(super) fn fused_rows(
    [batch, heads, length]: [usize; 3],
    width: usize,
) -> Result<RowLayout, OpError> {
    let extents = || {
        let row = heads.checked_mul(width)?;
        Some((row, row.checked_mul(length)?))
    };
    let (row, outer) = extents().ok_or_else(|| {
        OpError::Shape(format!(
            "{heads} heads of width {width} over {length} positions overflow"
        ))
    })?;
    Ok(RowLayout {
        shape: [batch, heads, length],
        strides: [outer, width, row],
        len: width,
    })
}

/// Where the rows of a dense `[batch, heads, length, width]` tensor lie.
///
/// # Errors
/// When the extent overflows.
pub(super) fn split_rows(shape: [usize; 3], width: usize) -> Result<RowLayout, OpError> {
    RowLayout::contiguous(shape, width)
        .ok_or_else(|| OpError::Shape(format!("rows {shape:?} of {width} elements overflow")))
}
