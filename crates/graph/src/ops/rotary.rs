//! Rotary position embedding.

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
    OpSchema {
        domain: "",
        op_type: "RotaryEmbedding",
        since: &[23],
        inputs: Arity::between(3, 4),
        outputs: Arity::exactly(1),
        attributes: &[
            Attr::int("interleaved"),
            Attr::int("num_heads"),
            Attr::int("rotary_embedding_dim"),
        ],
        infer: same_as_rotated,
    },
    // Source: the contributed operators of onnxruntime: input, position_ids, cos_cache, sin_cache.
    OpSchema {
        domain: "com.microsoft",
        op_type: "RotaryEmbedding",
        since: &[1],
        inputs: Arity::exactly(4),
        outputs: Arity::exactly(1),
        attributes: &[
            Attr::int("interleaved"),
            Attr::int("is_packed_batching"),
            Attr::int("num_heads"),
            Attr::int("rotary_embedding_dim"),
            Attr::float("scale"),
        ],
        infer: same_as_rotated,
    },
];
