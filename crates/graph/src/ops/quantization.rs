//! Quantization to integers and small floats, and back.

use super::layout::axis_of;
use super::rules::{common_shape, merge, named_dtype, refused};
use super::{ONE, THREE, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// `output_dtype`, where 0 is as good as absent.
fn output_dtype(cx: &Inference<'_>) -> Result<Option<DType>, InferError> {
    match cx.attributes.int_or("output_dtype", 0)? {
        0 => Ok(None),
        number => named_dtype("output_dtype", number).map(Some),
    }
}

/// Whether a shape is known to be that of one element.
fn single(shape: &[Dim]) -> bool {
    shape.iter().all(|dim| *dim == Dim::Known(1))
}

/// Checks the shape of the scale against the input's: one number, one for each place of an axis, or one for each block
/// along it. The zero point has the scale's shape, as far as it has more than one element.
fn check_scale(cx: &Inference<'_>) -> Result<(), InferError> {
    let block = cx.attributes.int_or("block_size", 0)?;
    if block < 0 {
        return Err(AttributeError::Value {
            name: "block_size",
            expected: "a number of at least 0",
            got: block.to_string(),
        }
        .into());
    }
    let (Some(x), Some(scale)) = (cx.shape(0), cx.shape(1)) else {
        return Ok(());
    };
    // A scale of one element serves the whole tensor, whatever the axis says.
    if single(scale) {
        return Ok(());
    }
    if cx.shape(2).is_some_and(|zero_point| !single(zero_point)) {
        common_shape(cx, [1, 2])?;
    }
    let given = cx.attributes.int_or("axis", 1)?;
    if block == 0 {
        let [places] = scale else {
            return Ok(());
        };
        // Before opset 13 there was no axis: a list belongs to no place that could be checked.
        if cx.opset >= 13 {
            let axis = axis_of(given, x.len())?;
            merge(&x[axis], places, "the extent of the quantized axis")?;
        }
        return Ok(());
    }
    if scale.len() != x.len() {
        let (got, want) = (scale.len(), x.len());
        return refused(format!("input 1: expected {want} axes, got {got}"));
    }
    let axis = axis_of(given, x.len())?;
    for (at, (x, scale)) in x.iter().zip(scale).enumerate() {
        if at != axis {
            merge(x, scale, &format!("axis {at} of the input and the scale"))?;
        } else if let (Some(x), Some(blocks)) = (x.known(), scale.known()) {
            let want = (x as u64).div_ceil(block.unsigned_abs());
            if want != blocks as u64 {
                return refused(format!(
                    "axis {at}: {x} elements in blocks of {block} need {want} scales, got {blocks}"
                ));
            }
        }
    }
    Ok(())
}

/// The type of the output is said by the attribute or by the zero point.
fn quantize_linear(cx: &mut Inference<'_>) -> Result<(), InferError> {
    check_scale(cx)?;
    let named = output_dtype(cx)?;
    let dtype = match (named, cx.dtype(2)) {
        (Some(expected), Some(got)) if expected != got => {
            return Err(InferError::DType {
                index: 2,
                expected: expected.to_string(),
                got,
            });
        }
        (None, None) if cx.has(2) => None,
        (named, zero_point) => named.or(zero_point).or(Some(DType::Uint8)),
    };
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, dtype, shape);
    Ok(())
}

/// The type of the output is said by the attribute or by the scale.
fn dequantize_linear(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 2])?;
    check_scale(cx)?;
    let dtype = output_dtype(cx)?.or(cx.dtype(1));
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, dtype, shape);
    Ok(())
}

/// The quantized tensor, its scale and its zero point.
fn dynamic_quantize_linear(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, Some(DType::Uint8), shape);
    cx.set(1, Some(DType::Float), Some(Vec::new()));
    cx.set(2, Some(DType::Uint8), Some(Vec::new()));
    Ok(())
}

const LINEAR: &[i64] = &[10, 13, 19, 21, 23, 24, 25, 28];
const OPERANDS: Arity = Arity::between(2, 3);

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("QuantizeLinear", LINEAR, OPERANDS, quantize_linear).attributes(&[
        Attr::int("axis"),
        Attr::int("block_size"),
        Attr::int("output_dtype"),
        Attr::int("precision"),
        Attr::int("saturate"),
    ]),
    op("DequantizeLinear", LINEAR, OPERANDS, dequantize_linear).attributes(&[
        Attr::int("axis"),
        Attr::int("block_size"),
        Attr::int("output_dtype"),
    ]),
    op("DynamicQuantizeLinear", &[11], ONE, dynamic_quantize_linear).outputs(THREE),
];
