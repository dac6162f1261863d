//! Convolution.

use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

/// An attribute with one number for each of `count` places, all at least `low`; absent means `default` everywhere.
fn numbers(
    cx: &Inference<'_>,
    name: &'static str,
    count: usize,
    low: i64,
    default: i64,
) -> Result<Vec<i64>, InferError> {
    let Some(given) = cx.attributes.ints(name)? else {
        return Ok(vec![default; count]);
    };
    if given.len() != count || given.iter().any(|&n| n < low) {
        let expected = if low == 0 {
            "one non-negative number for each place"
        } else {
            "one positive number for each place"
        };
        let got = format!("{given:?}");
        return Err(AttributeError::Value {
            name,
            expected,
            got,
        }
        .into());
    }
    Ok(given.to_vec())
}

/// Source: ONNX `Conv`.
fn conv(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2])?;
    let (Some(x), Some(w)) = (cx.shape(0), cx.shape(1)) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    if x.len() < 3 || x.len() != w.len() {
        return Err(InferError::Shape(format!(
            "X and W: expected equal ranks of 3 or more, got {} and {}",
            x.len(),
            w.len()
        )));
    }
    let axes = x.len() - 2;
    let strides = numbers(cx, "strides", axes, 1, 1)?;
    let dilations = numbers(cx, "dilations", axes, 1, 1)?;
    let pads = numbers(cx, "pads", axes * 2, 0, 0)?;
    let mode = cx.attributes.string("auto_pad")?.unwrap_or("NOTSET");
    let (same, valid) = (mode.starts_with("SAME"), mode == "VALID");
    let mut shape = vec![x[0].clone(), w[0].clone()];
    for axis in 0..axes {
        let (Some(input), Some(kernel)) = (x[2 + axis].known(), w[2 + axis].known()) else {
            shape.push(Dim::Unknown);
            continue;
        };
        let (input, kernel) = (input as i128, kernel as i128);
        let stride = i128::from(strides[axis]);
        let extent = if same {
            (input + stride - 1) / stride
        } else {
            let (before, after) = if valid {
                (0, 0)
            } else {
                (i128::from(pads[axis]), i128::from(pads[axes + axis]))
            };
            let padded = input + before + after;
            let reach = i128::from(dilations[axis]) * (kernel - 1) + 1;
            if padded < reach {
                return Err(InferError::Shape(format!(
                    "spatial axis {axis}: the kernel reaches over {reach} elements, the padded input has {padded}"
                )));
            }
            (padded - reach) / stride + 1
        };
        shape.push(usize::try_from(extent).map_or(Dim::Unknown, Dim::Known));
    }
    cx.set(0, dtype, Some(shape));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[OpSchema {
    domain: "",
    op_type: "Conv",
    since: &[1, 11, 22],
    inputs: Arity::between(2, 3),
    outputs: Arity::exactly(1),
    attributes: &[
        Attr::string("auto_pad"),
        Attr::ints("dilations"),
        Attr::int("group"),
        Attr::ints("kernel_shape"),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ],
    infer: conv,
}];
