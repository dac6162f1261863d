//! Comparisons, boolean operators, tests of numbers, and choice.

use super::arithmetic;
use super::rules::{expect_dtype, operand_shape};
use super::{ONE, THREE, TWO, op};
use crate::schema::{Attr, InferError, Inference, OpSchema};
use refeed_values::DType;
use std::cmp::Ordering;

fn equal(cx: &mut Inference<'_>) -> Result<(), InferError> {
    compare(cx, Ordering::is_eq)
}

fn less(cx: &mut Inference<'_>) -> Result<(), InferError> {
    compare(cx, Ordering::is_lt)
}

fn less_or_equal(cx: &mut Inference<'_>) -> Result<(), InferError> {
    compare(cx, Ordering::is_le)
}

fn greater(cx: &mut Inference<'_>) -> Result<(), InferError> {
    compare(cx, Ordering::is_gt)
}

fn greater_or_equal(cx: &mut Inference<'_>) -> Result<(), InferError> {
    compare(cx, Ordering::is_ge)
}

/// Two operands of one type, BOOL out.
fn compare(cx: &mut Inference<'_>, holds: fn(Ordering) -> bool) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::compare(cx, holds));
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

fn not(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::unary(cx, arithmetic::inverted));
    boolean(cx)
}

fn and(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::binary(cx, arithmetic::both));
    boolean(cx)
}

fn or(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::binary(cx, arithmetic::either));
    boolean(cx)
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
    cx.set_value(0, arithmetic::chosen(cx));
    let dtype = cx.same_dtype([1, 2])?;
    let shape = cx.broadcast([0, 1, 2])?;
    cx.set(0, dtype, shape);
    Ok(())
}

const OLD_BROADCAST: &[Attr] = &[Attr::int("axis"), Attr::int("broadcast")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Not", &[1], ONE, not),
    op("And", &[1, 7], TWO, and).attributes(OLD_BROADCAST),
    op("Or", &[1, 7], TWO, or).attributes(OLD_BROADCAST),
    op("Xor", &[1, 7], TWO, boolean).attributes(OLD_BROADCAST),
    op("Equal", &[1, 7, 11, 13, 19], TWO, equal).attributes(OLD_BROADCAST),
    op("Less", &[1, 7, 9, 13], TWO, less).attributes(OLD_BROADCAST),
    op("LessOrEqual", &[12, 16], TWO, less_or_equal),
    op("Greater", &[1, 7, 9, 13], TWO, greater).attributes(OLD_BROADCAST),
    op("GreaterOrEqual", &[12, 16], TWO, greater_or_equal),
    op("IsNaN", &[9, 13, 20], ONE, test),
    op("IsInf", &[10, 20], ONE, test)
        .attributes(&[Attr::int("detect_negative"), Attr::int("detect_positive")]),
    op("Where", &[9, 16], THREE, choose),
];
