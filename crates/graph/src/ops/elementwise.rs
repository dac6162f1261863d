//! Operators that compute each output element from the elements at the same place.

use crate::schema::{Arity, Attr, InferError, InferFn, Inference, OpSchema};

/// Operands that broadcast, one output of their common type.
fn broadcast(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let operands = 0..cx.input_count();
    let dtype = cx.same_dtype(operands.clone())?;
    let shape = cx.broadcast(operands)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The exponent may have another type than the base and the result.
fn pow(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.broadcast([0, 1])?;
    cx.set(0, cx.dtype(0), shape);
    Ok(())
}

/// The output has the first input's type and shape; further inputs its element type.
fn same(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype(0..cx.input_count())?;
    cx.same_as_input();
    Ok(())
}

const fn op(
    op_type: &'static str,
    since: &'static [i64],
    inputs: Arity,
    attributes: &'static [Attr],
    infer: InferFn,
) -> OpSchema {
    OpSchema {
        domain: "",
        op_type,
        since,
        inputs,
        outputs: Arity::exactly(1),
        attributes,
        infer,
    }
}

const ONE: Arity = Arity::exactly(1);
const TWO: Arity = Arity::exactly(2);
const MANY: Arity = Arity::at_least(1);

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Add", &[7, 13, 14], TWO, &[], broadcast),
    op("Sub", &[7, 13, 14], TWO, &[], broadcast),
    op("Mul", &[7, 13, 14], TWO, &[], broadcast),
    op("Div", &[7, 13, 14], TWO, &[], broadcast),
    op("Mod", &[10, 13, 28], TWO, &[Attr::int("fmod")], broadcast),
    op("Pow", &[7, 12, 13, 15], TWO, &[], pow),
    op("PRelu", &[7, 9, 16], TWO, &[], broadcast),
    op("Max", &[6, 8, 12, 13], MANY, &[], broadcast),
    op("Min", &[6, 8, 12, 13], MANY, &[], broadcast),
    op("Sum", &[6, 8, 13], MANY, &[], broadcast),
    op("Mean", &[6, 8, 13], MANY, &[], broadcast),
    op("Neg", &[6, 13], ONE, &[], same),
    op("Abs", &[6, 13], ONE, &[], same),
    op("Sign", &[9, 13], ONE, &[], same),
    op("Relu", &[6, 13, 14], ONE, &[], same),
    op("Sqrt", &[6, 13], ONE, &[], same),
    op("Exp", &[6, 13], ONE, &[], same),
    op("Log", &[6, 13], ONE, &[], same),
    op("Sigmoid", &[6, 13], ONE, &[], same),
    op("Tanh", &[6, 13], ONE, &[], same),
    op("Reciprocal", &[6, 13], ONE, &[], same),
    op("Softplus", &[1, 22], ONE, &[], same),
    op("Cos", &[7, 22], ONE, &[], same),
    op("Sin", &[7, 22], ONE, &[], same),
    op("Erf", &[9, 13], ONE, &[], same),
    op("Gelu", &[20], ONE, &[Attr::string("approximate")], same),
    op("Floor", &[6, 13], ONE, &[], same),
    op("Ceil", &[6, 13], ONE, &[], same),
    op("Round", &[11, 22], ONE, &[], same),
    op(
        "Clip",
        &[6, 11, 12, 13],
        Arity::between(1, 3),
        &[Attr::float("max"), Attr::float("min")],
        same,
    ),
];
