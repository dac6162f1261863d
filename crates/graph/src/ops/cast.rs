//! Conversion between element types.

use super::arithmetic;
use super::rules::{named_dtype, refused};
use super::{ONE, TWO, op};
use crate::attributes::{AttributeError, Attributes};
use crate::schema::{Attr, InferError, Inference, OpSchema};
use refeed_values::DType;

/// The element type that `Cast` converts to.
///
/// # Errors
/// When the attribute is missing or names no element type.
pub fn target(attributes: &Attributes<'_>) -> Result<DType, AttributeError> {
    let number = attributes.required_int("to")?;
    i32::try_from(number)
        .ok()
        .and_then(DType::from_onnx)
        .ok_or_else(|| AttributeError::Value {
            name: "to",
            expected: "the number of an element type",
            got: number.to_string(),
        })
}

/// The target of `Cast`: in its first version a name, a number since.
fn cast_target(cx: &Inference<'_>) -> Result<DType, InferError> {
    if cx.opset >= 6 {
        return Ok(target(cx.attributes)?);
    }
    let missing = AttributeError::Missing { name: "to" };
    let name = cx.attributes.string("to")?.ok_or(missing)?;
    let named = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
    named.ok_or_else(|| {
        InferError::from(AttributeError::Value {
            name: "to",
            expected: "the name of an element type",
            got: name.to_string(),
        })
    })
}

fn cast(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cast_target(cx)?;
    cx.set_value(0, arithmetic::cast(cx, dtype));
    let shape = cx.shape(0).map(<[_]>::to_vec);
    cx.set(0, Some(dtype), shape);
    Ok(())
}

/// The same bits as elements of another type of the same width.
fn bit_cast(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let number = cx.attributes.required_int("to")?;
    let dtype = named_dtype("to", number)?;
    if let Some(from) = cx.dtype(0)
        && (from.bits() != dtype.bits() || from == DType::String || dtype == DType::String)
    {
        return refused(format!(
            "the bits of {from} cannot be read as elements of {dtype}"
        ));
    }
    let shape = cx.shape(0).map(<[_]>::to_vec);
    cx.set(0, Some(dtype), shape);
    Ok(())
}

fn cast_like(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).map(<[_]>::to_vec);
    let value = cx.dtype(1).and_then(|to| arithmetic::cast(cx, to));
    cx.set_value(0, value);
    cx.set(0, cx.dtype(1), shape);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Cast", &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28], ONE, cast).attributes(&[
        Attr::string("round_mode"),
        Attr::int("saturate"),
        Attr::int("to").required(),
        Attr::string("to").required(),
    ]),
    op("CastLike", &[15, 19, 21, 23, 24, 25], TWO, cast_like)
        .attributes(&[Attr::string("round_mode"), Attr::int("saturate")]),
    op("BitCast", &[26], ONE, bit_cast).attributes(&[Attr::int("to").required()]),
];
