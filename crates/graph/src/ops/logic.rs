//! Comparisons, boolean operators, tests of numbers, and choice.

use crate::schema::{Arity, Attr, InferError, InferFn, Inference, OpSchema};
use refeed_values::DType;

/// # Errors
/// When an input is known to be something else than BOOL.
fn expect_bool(cx: &Inference<'_>, index: usize) -> Result<(), InferError> {
    match cx.dtype(index) {
        Some(got) if got != DType::Bool => Err(InferError::DType {
            index,
            expected: DType::Bool.to_string(),
            got,
        }),
        _ => Ok(()),
    }
}

/// Two operands of one type, BOOL out.
fn compare(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 1])?;
    let shape = cx.broadcast([0, 1])?;
    cx.set(0, Some(DType::Bool), shape);
    Ok(())
}

/// BOOL operands, BOOL out.
fn boolean(cx: &mut Inference<'_>) -> Result<(), InferError> {
    for index in 0..cx.input_count() {
        expect_bool(cx, index)?;
    }
    let shape = cx.broadcast(0..cx.input_count())?;
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
    expect_bool(cx, 0)?;
    let dtype = cx.same_dtype([1, 2])?;
    let shape = cx.broadcast([0, 1, 2])?;
    cx.set(0, dtype, shape);
    Ok(())
}

const fn op(
    op_type: &'static str,
    since: &'static [i64],
    inputs: usize,
    attributes: &'static [Attr],
    infer: InferFn,
) -> OpSchema {
    let (inputs, outputs) = (Arity::exactly(inputs), Arity::exactly(1));
    OpSchema {
        domain: "",
        op_type,
        since,
        inputs,
        outputs,
        attributes,
        infer,
    }
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Not", &[1], 1, &[], boolean),
    op("And", &[7], 2, &[], boolean),
    op("Or", &[7], 2, &[], boolean),
    op("Xor", &[7], 2, &[], boolean),
    op("Equal", &[7, 11, 13, 19], 2, &[], compare),
    op("Less", &[7, 9, 13], 2, &[], compare),
    op("LessOrEqual", &[12, 16], 2, &[], compare),
    op("Greater", &[7, 9, 13], 2, &[], compare),
    op("GreaterOrEqual", &[12, 16], 2, &[], compare),
    op("IsNaN", &[9, 13, 20], 1, &[], test),
    op(
        "IsInf",
        &[10, 20],
        1,
        &[Attr::int("detect_negative"), Attr::int("detect_positive")],
        test,
    ),
    op("Where", &[9, 16], 3, &[], choose),
];
