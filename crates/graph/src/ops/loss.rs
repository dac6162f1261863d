//! Losses of a classification.

use super::op;
use super::rules::{merge, ranked, ranked_from, refused};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

/// The shape of the loss of scores `[N, C, ...]` under labels `[N, ...]`: the labels' shape, or a number when reduced.
fn loss_shape(cx: &Inference<'_>) -> Result<Option<Vec<Dim>>, InferError> {
    let reduced = match cx.attributes.string("reduction")? {
        None | Some("mean" | "sum") => true,
        Some("none") => false,
        Some(other) => {
            return Err(AttributeError::Value {
                name: "reduction",
                expected: "none, mean or sum",
                got: other.to_string(),
            }
            .into());
        }
    };
    let (scores, labels) = (ranked_from(cx, 0, 2)?, ranked_from(cx, 1, 1)?);
    let weights = ranked(cx, 2, 1)?;
    if let (Some(scores), Some(weights)) = (scores, weights) {
        merge(&scores[1], &weights[0], "the number of classes")?;
    }
    let places = match (scores, labels) {
        (Some(scores), labels) => {
            let mut places = [&scores[..1], &scores[2..]].concat();
            if let Some(labels) = labels {
                if labels.len() != places.len() {
                    let (got, want) = (labels.len(), places.len());
                    return refused(format!("input 1: expected {want} axes, got {got}"));
                }
                for (axis, (held, label)) in places.iter_mut().zip(labels).enumerate() {
                    *held = merge(held, label, &format!("axis {axis} of the labels"))?;
                }
            }
            Some(places)
        }
        (None, labels) => labels.map(<[Dim]>::to_vec),
    };
    Ok(if reduced { Some(Vec::new()) } else { places })
}

fn negative_log_likelihood(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 2])?;
    let shape = loss_shape(cx)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The second output is the logarithm of the probability of each class.
fn softmax_cross_entropy(cx: &mut Inference<'_>) -> Result<(), InferError> {
    negative_log_likelihood(cx)?;
    let scores = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(1, cx.dtype(0), scores);
    Ok(())
}

const OPERANDS: Arity = Arity::between(2, 3);
const ATTRIBUTES: &[Attr] = &[Attr::int("ignore_index"), Attr::string("reduction")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op(
        "NegativeLogLikelihoodLoss",
        &[12, 13, 22],
        OPERANDS,
        negative_log_likelihood,
    )
    .attributes(ATTRIBUTES),
    op(
        "SoftmaxCrossEntropyLoss",
        &[12, 13],
        OPERANDS,
        softmax_cross_entropy,
    )
    .outputs(Arity::between(1, 2))
    .attributes(ATTRIBUTES),
];
