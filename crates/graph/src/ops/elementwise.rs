//! Arithmetic and functions of numbers: each output element from the elements at the same place.

use super::arithmetic;
use super::rules::{broadcast, operand_shape, same};
use super::{MANY, ONE, TWO, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::shape_inference::DimExpr;

fn add(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::binary(cx, DimExpr::plus));
    broadcast(cx)
}

fn sub(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::binary(cx, DimExpr::minus));
    broadcast(cx)
}

fn mul(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::binary(cx, DimExpr::times));
    broadcast(cx)
}

fn div(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::binary(cx, arithmetic::div));
    broadcast(cx)
}

/// The remainder of whole numbers has the sign of the divisor, or with `fmod` that of the dividend.
fn modulo(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if !cx.attributes.flag("fmod", false)? {
        cx.set_value(0, arithmetic::binary(cx, DimExpr::rem));
    }
    broadcast(cx)
}

fn neg(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::unary(cx, arithmetic::negated));
    same(cx)
}

fn abs(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::unary(cx, arithmetic::absolute));
    same(cx)
}

/// The exponent may have another type than the base and the result.
fn pow(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = operand_shape(cx, 7)?;
    cx.set(0, cx.dtype(0), shape);
    Ok(())
}

/// The slope broadcasts to the input, by channel before opset 7.
fn prelu(cx: &mut Inference<'_>) -> Result<(), InferError> {
    same(cx)
}

/// Operands of one shape before opset 8, that broadcast since.
fn variadic(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype(0..cx.input_count())?;
    let shape = operand_shape(cx, 8)?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn max(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::folded(cx, DimExpr::larger));
    variadic(cx)
}

fn min(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::folded(cx, DimExpr::smaller));
    variadic(cx)
}

fn sum(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::folded(cx, DimExpr::plus));
    variadic(cx)
}

const IN_PLACE: &[Attr] = &[Attr::ints("consumed_inputs")];
const OLD_BROADCAST: &[Attr] = &[Attr::int("axis"), Attr::int("broadcast")];
const OLD_OPERANDS: &[Attr] = &[
    Attr::int("axis"),
    Attr::int("broadcast"),
    Attr::ints("consumed_inputs"),
];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Add", &[1, 6, 7, 13, 14], TWO, add).attributes(OLD_OPERANDS),
    op("Sub", &[1, 6, 7, 13, 14], TWO, sub).attributes(OLD_OPERANDS),
    op("Mul", &[1, 6, 7, 13, 14], TWO, mul).attributes(OLD_OPERANDS),
    op("Div", &[1, 6, 7, 13, 14], TWO, div).attributes(OLD_OPERANDS),
    op("Mod", &[10, 13, 28], TWO, modulo).attributes(&[Attr::int("fmod")]),
    op("Pow", &[1, 7, 12, 13, 15], TWO, pow).attributes(OLD_BROADCAST),
    op("PRelu", &[1, 6, 7, 9, 16], TWO, prelu).attributes(IN_PLACE),
    op("Max", &[1, 6, 8, 12, 13], MANY, max).attributes(IN_PLACE),
    op("Min", &[1, 6, 8, 12, 13], MANY, min).attributes(IN_PLACE),
    op("Sum", &[1, 6, 8, 13], MANY, sum).attributes(IN_PLACE),
    op("Mean", &[1, 6, 8, 13], MANY, variadic).attributes(IN_PLACE),
    op("Neg", &[1, 6, 13], ONE, neg).attributes(IN_PLACE),
    op("Abs", &[1, 6, 13], ONE, abs).attributes(IN_PLACE),
    op("Sign", &[9, 13], ONE, same),
    op("Sqrt", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Exp", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Log", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Reciprocal", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Floor", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Ceil", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Round", &[11, 22], ONE, same),
    op("Erf", &[9, 13], ONE, same),
    op("Sin", &[7, 22], ONE, same),
    op("Cos", &[7, 22], ONE, same),
    op("Tan", &[7, 22], ONE, same),
    op("Asin", &[7, 22], ONE, same),
    op("Acos", &[7, 22], ONE, same),
    op("Atan", &[7, 22], ONE, same),
    op("Sinh", &[9, 22], ONE, same),
    op("Cosh", &[9, 22], ONE, same),
    op("Asinh", &[9, 22], ONE, same),
    op("Acosh", &[9, 22], ONE, same),
    op("Atanh", &[9, 22], ONE, same),
    op("Clip", &[1, 6, 11, 12, 13], Arity::between(1, 3), same).attributes(&[
        Attr::ints("consumed_inputs"),
        Attr::float("max"),
        Attr::float("min"),
    ]),
];
