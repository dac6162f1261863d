//! Products of matrices in batches, of numbers and of quantized integers, and determinants.

use super::rules::{broadcast_shapes, merge, ranked_from, refused};
use super::{ONE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// The axes before those of a matrix.
fn lead(shape: &[Dim]) -> &[Dim] {
    &shape[..shape.len().saturating_sub(2)]
}

/// The shape of the product of inputs `a` and `b`.
fn product(cx: &Inference<'_>, a: usize, b: usize) -> Result<Option<Vec<Dim>>, InferError> {
    let (Some(a), Some(b)) = (cx.shape(a), cx.shape(b)) else {
        return Ok(None);
    };
    if a.is_empty() || b.is_empty() {
        return refused("a scalar is no matrix".to_string());
    }
    let inner = (&a[a.len() - 1], &b[b.len().saturating_sub(2)]);
    if let (Dim::Known(left), Dim::Known(right)) = inner
        && left != right
    {
        return refused(format!("rows of {left} elements meet columns of {right}"));
    }
    let mut out = broadcast_shapes(lead(a), lead(b))?;
    if a.len() > 1 {
        out.push(a[a.len() - 2].clone());
    }
    if b.len() > 1 {
        out.push(b[b.len() - 1].clone());
    }
    Ok(Some(out))
}

fn matmul(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1])?;
    let shape = product(cx, 0, 1)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// Two integers with their zero points, 32-bit sums out.
fn matmul_integer(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 2])?;
    cx.same_dtype([1, 3])?;
    let shape = product(cx, 0, 1)?;
    cx.set(0, Some(DType::Int32), shape);
    Ok(())
}

/// a, b and the output, each with its scale and its zero point.
fn qlinear_matmul(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 2])?;
    cx.same_dtype([3, 5])?;
    let shape = product(cx, 0, 3)?;
    cx.set(0, cx.dtype(7), shape);
    Ok(())
}

/// Rows of `K` elements become rows of `N`. The packed weights are read by nobody but the kernel.
///
/// Source: the contributed operators of onnxruntime, `com.microsoft.MatMulNBits`.
fn matmul_nbits(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 5])?;
    let [k, n] = [extent(cx, "K")?, extent(cx, "N")?];
    let shape = match ranked_from(cx, 0, 1)? {
        None => None,
        Some(shape) => {
            let mut shape = shape.to_vec();
            if let Some(depth) = shape.last_mut() {
                merge(depth, &Dim::Known(k), "the depth K")?;
                *depth = Dim::Known(n);
            }
            Some(shape)
        }
    };
    cx.set(0, dtype, shape);
    Ok(())
}

/// An extent that an attribute says.
fn extent(cx: &Inference<'_>, name: &'static str) -> Result<usize, InferError> {
    let given = cx.attributes.required_int(name)?;
    match usize::try_from(given) {
        Ok(extent) if extent > 0 => Ok(extent),
        _ => Err(AttributeError::Value {
            name,
            expected: "a number above 0",
            got: given.to_string(),
        }
        .into()),
    }
}

/// One number for each square matrix.
fn det(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = match ranked_from(cx, 0, 2)? {
        None => None,
        Some(shape) => {
            let (lead, matrix) = shape.split_at(shape.len() - 2);
            merge(&matrix[0], &matrix[1], "the side of a square matrix")?;
            Some(lead.to_vec())
        }
    };
    cx.set(0, cx.dtype(0), shape);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("MatMul", &[1, 9, 13], TWO, matmul),
    op("MatMulInteger", &[10], Arity::between(2, 4), matmul_integer),
    op(
        "QLinearMatMul",
        &[10, 21],
        Arity::exactly(8),
        qlinear_matmul,
    ),
    op("MatMulNBits", &[1], Arity::between(3, 6), matmul_nbits)
        .of("com.microsoft")
        .attributes(&[
            Attr::int("K").required(),
            Attr::int("N").required(),
            Attr::int("accuracy_level"),
            Attr::int("bits"),
            Attr::int("block_size").required(),
            Attr::int("weight_prepacked"),
        ]),
    op("Det", &[11, 22], ONE, det),
];
