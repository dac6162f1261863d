//! Rotary position embedding.

use super::op;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};

/// The result is the input turned: same type, same shape.
fn same_as_rotated(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if let Some(rank) = cx.shape(0).map(<[_]>::len)
        && !(3..=4).contains(&rank)
    {
        return Err(InferError::Shape(format!(
            "input 0: expected 3 or 4 dimensions, got {rank}"
        )));
    }
    cx.same_as_input();
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    // Source: ONNX `RotaryEmbedding`: X, cos_cache, sin_cache, position_ids.
    op(
        "RotaryEmbedding",
        &[23],
        Arity::between(3, 4),
        same_as_rotated,
    )
    .attributes(&[
        Attr::int("interleaved"),
        Attr::int("num_heads"),
        Attr::int("rotary_embedding_dim"),
    ]),
    // Source: the contributed operators of onnxruntime: input, position_ids, cos_cache, sin_cache.
    op("RotaryEmbedding", &[1], Arity::exactly(4), same_as_rotated)
        .of("com.microsoft")
        .attributes(&[
            Attr::int("interleaved"),
            Attr::int("is_packed_batching"),
            Attr::int("num_heads"),
            Attr::int("rotary_embedding_dim"),
            Attr::float("scale"),
        ]),
];
