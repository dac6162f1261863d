//! Steps of optimizers, and gradients.

use super::rules::{common_shape, refused};
use super::{MANY, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};

/// Learning rate and step count, then for each parameter its value, its gradient and `states` things that are kept from
/// step to step. The outputs are the new values and the new kept things.
fn step(cx: &mut Inference<'_>, states: usize) -> Result<(), InferError> {
    let groups = states + 2;
    let count = cx.input_count().saturating_sub(2);
    if count == 0 || !count.is_multiple_of(groups) {
        return refused(format!(
            "expected 2 inputs and {groups} for each parameter, got {}",
            cx.input_count()
        ));
    }
    let parameters = count / groups;
    for parameter in 0..parameters {
        let of = |group: usize| 2 + group * parameters + parameter;
        let dtype = cx.same_dtype((0..groups).map(of))?;
        let shape = common_shape(cx, (0..groups).map(of))?;
        for output in 0..=states {
            cx.set(output * parameters + parameter, dtype, shape.clone());
        }
    }
    Ok(())
}

fn one_state(cx: &mut Inference<'_>) -> Result<(), InferError> {
    step(cx, 1)
}

fn two_states(cx: &mut Inference<'_>) -> Result<(), InferError> {
    step(cx, 2)
}

/// Derivatives by the values that `xs` names, which the first inputs are: each has the shape of its value.
fn gradient(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let count = cx.attributes.strings("xs")?.map_or(0, |names| names.len());
    for index in 0..count.min(cx.output_count()) {
        let ty = cx.input(index).cloned().unwrap_or_default();
        cx.set(index, ty.dtype, ty.shape);
    }
    Ok(())
}

const DOMAIN: &str = "ai.onnx.preview.training";
const FROM_THREE: Arity = Arity::at_least(3);

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Adagrad", &[1], FROM_THREE, one_state)
        .of(DOMAIN)
        .outputs(MANY)
        .attributes(&[
            Attr::float("decay_factor"),
            Attr::float("epsilon"),
            Attr::float("norm_coefficient"),
        ]),
    op("Momentum", &[1], FROM_THREE, one_state)
        .of(DOMAIN)
        .outputs(MANY)
        .attributes(&[
            Attr::float("alpha").required(),
            Attr::float("beta").required(),
            Attr::string("mode").required(),
            Attr::float("norm_coefficient").required(),
        ]),
    op("Adam", &[1], FROM_THREE, two_states)
        .of(DOMAIN)
        .outputs(MANY)
        .attributes(&[
            Attr::float("alpha"),
            Attr::float("beta"),
            Attr::float("epsilon"),
            Attr::float("norm_coefficient"),
            Attr::float("norm_coefficient_post"),
        ]),
    op("Gradient", &[1], MANY, gradient)
        .of(DOMAIN)
        .outputs(MANY)
        .attributes(&[
            Attr::strings("xs").required(),
            Attr::string("y").required(),
            Attr::strings("zs"),
        ]),
];
