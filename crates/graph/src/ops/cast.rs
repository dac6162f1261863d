//! Conversion between element types.

use crate::attributes::{AttributeError, Attributes};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
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

fn cast(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = target(cx.attributes)?;
    let shape = cx.shape(0).map(<[_]>::to_vec);
    cx.set(0, Some(dtype), shape);
    Ok(())
}

fn cast_like(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).map(<[_]>::to_vec);
    cx.set(0, cx.dtype(1), shape);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    OpSchema {
        domain: "",
        op_type: "Cast",
        since: &[6, 9, 13, 19, 21, 23, 24, 25, 28],
        inputs: Arity::exactly(1),
        outputs: Arity::exactly(1),
        attributes: &[
            Attr::string("round_mode"),
            Attr::int("saturate"),
            Attr::int("to").required(),
        ],
        infer: cast,
    },
    OpSchema {
        domain: "",
        op_type: "CastLike",
        since: &[15, 19, 21, 23, 24, 25],
        inputs: Arity::exactly(2),
        outputs: Arity::exactly(1),
        attributes: &[Attr::string("round_mode"), Attr::int("saturate")],
        infer: cast_like,
    },
];
