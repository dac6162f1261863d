//! Values that may be absent.

use super::{ONE, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::ValueType;
use refeed_values::DType;

/// The input, or nothing of the type that the attribute names.
fn make(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let element = match cx.input_type(0) {
        Some(ty) => ty.clone(),
        None => ValueType::from_proto(cx.attributes.type_proto("type")?),
    };
    cx.set_type(0, ValueType::optional_of(element));
    Ok(())
}

/// Since opset 18 a value that is no optional is always there.
fn has_element(cx: &mut Inference<'_>) -> Result<(), InferError> {
    check(cx)?;
    cx.set(0, Some(DType::Bool), Some(Vec::new()));
    Ok(())
}

fn get_element(cx: &mut Inference<'_>) -> Result<(), InferError> {
    check(cx)?;
    let ty = match cx.input_type(0) {
        Some(ValueType::Optional(element)) => (**element).clone(),
        Some(other) => other.clone(),
        None => ValueType::Unset,
    };
    cx.set_type(0, ty);
    Ok(())
}

/// # Errors
/// When the input is no optional, in the versions that take nothing else.
fn check(cx: &Inference<'_>) -> Result<(), InferError> {
    match cx.input_type(0) {
        Some(ValueType::Optional(_) | ValueType::Unset) | None => Ok(()),
        Some(_) if cx.opset >= 18 => Ok(()),
        Some(_) => Err(cx.unexpected_kind(0, "an optional value")),
    }
}

const AT_MOST_ONE: Arity = Arity::between(0, 1);

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Optional", &[15, 28], AT_MOST_ONE, make).attributes(&[Attr::type_proto("type")]),
    op(
        "OptionalHasElement",
        &[15, 18, 28],
        AT_MOST_ONE,
        has_element,
    ),
    op("OptionalGetElement", &[15, 18, 28], ONE, get_element),
];
