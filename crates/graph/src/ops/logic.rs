//! Comparisons, boolean operators, tests of numbers, and choice.

use super::rules::{expect_dtype, operand_shape};
use super::{ONE, THREE, TWO, op};
use crate::schema::{Attr, InferError, Inference, OpSchema};
use refeed_values::DType;

/// Two operands of one type, BOOL out.
fn compare(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 1])?;
    let shape = operand_shape(cx, 7)?;
    cx.set(0, Some(DType::Bool), shape);
    Ok(())
}

/// BOOL operands, BOOL out.
fn boolean(cx: &mut Inference<'_>) -> Result<(), InferError> {
    for index in 0..cx.input_count() {
        expect_dtype(cx, index, &[DType::Bool])?;
    }
    let shape = operand_shape(cx, 7)?;
    cx.set(0, Some(DType::Bool), shape);
    Ok(())
}

/// One number, BOOL out.
fn test(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).map(<[_]>::to_vec);
    cx.set(0, Some(DType::Bool), shape);
    Ok(())
}

/// BOOL condition, two choices of one type.
fn choose(cx: &mut Inference<'_>) -> Result<(), InferError> {
    expect_dtype(cx, 0, &[DType::Bool])?;
    let dtype = cx.same_dtype([1, 2])?;
    let shape = cx.broadcast([0, 1, 2])?;
    cx.set(0, dtype, shape);
    Ok(())
}

const OLD_BROADCAST: &[Attr] = &[Attr::int("axis"), Attr::int("broadcast")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Not", &[1], ONE, boolean),
    op("And", &[1, 7], TWO, boolean).attributes(OLD_BROADCAST),
    op("Or", &[1, 7], TWO, boolean).attributes(OLD_BROADCAST),
    op("Xor", &[1, 7], TWO, boolean).attributes(OLD_BROADCAST),
    op("Equal", &[1, 7, 11, 13, 19], TWO, compare).attributes(OLD_BROADCAST),
    op("Less", &[1, 7, 9, 13], TWO, compare).attributes(OLD_BROADCAST),
    op("LessOrEqual", &[12, 16], TWO, compare),
    op("Greater", &[1, 7, 9, 13], TWO, compare).attributes(OLD_BROADCAST),
    op("GreaterOrEqual", &[12, 16], TWO, compare),
    op("IsNaN", &[9, 13, 20], ONE, test),
    op("IsInf", &[10, 20], ONE, test)
        .attributes(&[Attr::int("detect_negative"), Attr::int("detect_positive")]),
    op("Where", &[9, 16], THREE, choose),
];
