//! Activation functions: each output element from the input element at the same place.

use super::rules::{common_shape, same};
use super::{ONE, TWO, op};
use crate::schema::{Attr, InferError, Inference, OpSchema};

/// A gate and a value of one type and shape; neither broadcasts.
fn gated(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1])?;
    let shape = common_shape(cx, [0, 1])?;
    cx.set(0, dtype, shape);
    Ok(())
}

const IN_PLACE: &[Attr] = &[Attr::ints("consumed_inputs")];
const ALPHA: &[Attr] = &[Attr::float("alpha")];
const OLD_ALPHA: &[Attr] = &[Attr::float("alpha"), Attr::ints("consumed_inputs")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Relu", &[1, 6, 13, 14], ONE, same).attributes(IN_PLACE),
    op("Sigmoid", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Tanh", &[1, 6, 13], ONE, same).attributes(IN_PLACE),
    op("Softplus", &[1, 22], ONE, same),
    op("Softsign", &[1, 22], ONE, same),
    op("Gelu", &[20], ONE, same).attributes(&[Attr::string("approximate")]),
    op("Elu", &[1, 6, 22], ONE, same).attributes(OLD_ALPHA),
    op("LeakyRelu", &[1, 6, 16], ONE, same).attributes(OLD_ALPHA),
    op("Selu", &[1, 6, 22], ONE, same).attributes(&[
        Attr::float("alpha"),
        Attr::ints("consumed_inputs"),
        Attr::float("gamma"),
    ]),
    op("Celu", &[12, 28], ONE, same).attributes(ALPHA),
    op("ThresholdedRelu", &[10, 22], ONE, same).attributes(ALPHA),
    op("HardSigmoid", &[1, 6, 22], ONE, same).attributes(&[
        Attr::float("alpha"),
        Attr::float("beta"),
        Attr::ints("consumed_inputs"),
    ]),
    op("HardSwish", &[14, 22], ONE, same),
    op("Mish", &[18, 22], ONE, same),
    op("Swish", &[24], ONE, same).attributes(ALPHA),
    op("SwiGLU", &[28], TWO, gated).attributes(ALPHA),
    op("Shrink", &[9], ONE, same).attributes(&[Attr::float("bias"), Attr::float("lambd")]),
];
