//! Recurrent layers: RNN, GRU, LSTM.

use super::op;
use super::rules::ranked;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

/// Y, Y_h and, for LSTM, Y_c.
fn recurrent(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2, 3])?;
    let batch_first = cx.attributes.int_or("layout", 0)? == 1;
    let directions = match cx.attributes.string("direction")? {
        Some("bidirectional") => 2,
        _ => 1,
    };
    let hidden = match cx
        .attributes
        .int("hidden_size")?
        .and_then(|n| usize::try_from(n).ok())
    {
        Some(n) => Dim::Known(n),
        None => cx
            .shape(2)
            .and_then(|r| r.get(2))
            .cloned()
            .unwrap_or(Dim::Unknown),
    };
    let (first, second) = match ranked(cx, 0, 3)? {
        Some(x) => (x[0].clone(), x[1].clone()),
        None => (Dim::Unknown, Dim::Unknown),
    };
    let directions = Dim::Known(directions);
    let (all, last) = if batch_first {
        (
            vec![
                first.clone(),
                second.clone(),
                directions.clone(),
                hidden.clone(),
            ],
            [first.clone(), directions, hidden],
        )
    } else {
        (
            vec![
                first.clone(),
                directions.clone(),
                second.clone(),
                hidden.clone(),
            ],
            [directions, second.clone(), hidden],
        )
    };
    cx.set(0, dtype, Some(all));
    cx.set(1, dtype, Some(last.to_vec()));
    cx.set(2, dtype, Some(last.to_vec()));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("RNN", &[1, 7, 14, 22], Arity::between(3, 6), recurrent)
        .outputs(Arity::between(0, 2))
        .attributes(&[
            Attr::floats("activation_alpha"),
            Attr::floats("activation_beta"),
            Attr::strings("activations"),
            Attr::float("clip"),
            Attr::string("direction"),
            Attr::int("hidden_size"),
            Attr::int("layout"),
            Attr::int("output_sequence"),
        ]),
    op("GRU", &[1, 3, 7, 14, 22], Arity::between(3, 6), recurrent)
        .outputs(Arity::between(0, 2))
        .attributes(&[
            Attr::floats("activation_alpha"),
            Attr::floats("activation_beta"),
            Attr::strings("activations"),
            Attr::float("clip"),
            Attr::string("direction"),
            Attr::int("hidden_size"),
            Attr::int("layout"),
            Attr::int("linear_before_reset"),
            Attr::int("output_sequence"),
        ]),
    op("LSTM", &[1, 7, 14, 22], Arity::between(3, 8), recurrent)
        .outputs(Arity::between(0, 3))
        .attributes(&[
            Attr::floats("activation_alpha"),
            Attr::floats("activation_beta"),
            Attr::strings("activations"),
            Attr::float("clip"),
            Attr::string("direction"),
            Attr::int("hidden_size"),
            Attr::int("input_forget"),
            Attr::int("layout"),
            Attr::int("output_sequence"),
        ]),
];
