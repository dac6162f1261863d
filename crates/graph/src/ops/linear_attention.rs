//! Attention with a state of fixed size, and attention with graphs for its scores.

use super::rules::{expect_dtype, merge, ranked, refused};
use super::{THREE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// A number of heads, which must be there.
fn heads(cx: &Inference<'_>, name: &'static str) -> Result<usize, InferError> {
    let count = cx.attributes.required_int(name)?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(AttributeError::Value {
            name,
            expected: "a number above 0",
            got: count.to_string(),
        }
        .into()),
    }
}

/// The width of one head of a packed axis.
fn width(packed: &Dim, heads: usize, index: usize) -> Result<Dim, InferError> {
    match packed.known() {
        None => Ok(packed.div_floor(&Dim::Known(heads))),
        Some(n) if n.is_multiple_of(heads) => Ok(Dim::Known(n / heads)),
        Some(n) => refused(format!(
            "input {index}: a last axis of {n} cannot be split into {heads} heads"
        )),
    }
}

/// Query, key and value packed `[batch, length, heads x width]`; the state is `[batch, heads, key width, value width]`.
fn linear_attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    with_heads(cx, false)
}

/// The same, where the state may have more heads than query and key.
///
/// Source: the contributed operators of onnxruntime, `com.microsoft.LinearAttention`.
fn contributed_linear_attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    if cx.attributes.int_or("state_window", 0)? != 0 {
        // States of several tokens: no kernel computes them.
        return Ok(());
    }
    with_heads(cx, true)
}

fn with_heads(cx: &mut Inference<'_>, inverse: bool) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2, 4, 5])?;
    let (q_heads, kv_heads) = (heads(cx, "q_num_heads")?, heads(cx, "kv_num_heads")?);
    let fewer = inverse && kv_heads.is_multiple_of(q_heads);
    if !q_heads.is_multiple_of(kv_heads) && !fewer {
        return Err(AttributeError::Value {
            name: "q_num_heads",
            expected: "a multiple of kv_num_heads",
            got: q_heads.to_string(),
        }
        .into());
    }
    let (mut batch, mut length) = (Dim::Unknown, Dim::Unknown);
    for index in [0, 1, 2, 4, 5] {
        if let Some(shape) = ranked(cx, index, 3)? {
            batch = merge(&batch, &shape[0], "the batch size")?;
            length = merge(&length, &shape[1], "the length")?;
        }
    }
    let mut key_width = Dim::Unknown;
    for (index, heads) in [(0, q_heads), (1, kv_heads)] {
        // A key of fewer heads than the state does not say how many.
        if index == 1 && inverse {
            continue;
        }
        if let Some(shape) = ranked(cx, index, 3)? {
            key_width = merge(
                &key_width,
                &width(&shape[2], heads, index)?,
                "the width of a head of query and key",
            )?;
        }
    }
    let mut value_width = match ranked(cx, 2, 3)? {
        Some(shape) => width(&shape[2], kv_heads, 2)?,
        None => Dim::Unknown,
    };
    if let Some(past) = ranked(cx, 3, 4)? {
        batch = merge(&batch, &past[0], "the batch size")?;
        merge(&Dim::Known(kv_heads), &past[1], "the heads of past_state")?;
        key_width = merge(&key_width, &past[2], "the key width of past_state")?;
        value_width = merge(&value_width, &past[3], "the value width of past_state")?;
    }
    let out = value_width.times(&Dim::Known(q_heads.max(kv_heads)));
    cx.set(0, dtype, Some(vec![batch.clone(), length, out]));
    // Without a past the state has the type of the other inputs.
    let state = if cx.has(3) { cx.dtype(3) } else { dtype };
    let shape = vec![batch, Dim::Known(kv_heads), key_width, value_width];
    cx.set(1, state, Some(shape));
    Ok(())
}

/// Decays and rates of each head, `[batch, length, heads]` as the projections that they are made of.
fn linear_attention_gate(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 3])?;
    let shape = ranked(cx, 0, 3)?.map(<[Dim]>::to_vec);
    let rates = ranked(cx, 3, 3)?.map(<[Dim]>::to_vec);
    for index in [1, 2] {
        if let (Some(places), Some(shape)) = (ranked(cx, index, 1)?, &shape) {
            merge(&shape[2], &places[0], "the number of heads")?;
        }
    }
    cx.set(0, dtype, shape);
    cx.set(1, dtype, rates);
    Ok(())
}

/// Query, key and value `[batch, heads, length, width]`.
fn flex_attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    const FLOATS: &[DType] = &[DType::Float, DType::Float16, DType::Bfloat16, DType::Double];
    let dtype = cx.same_dtype([0, 1, 2])?;
    expect_dtype(cx, 0, FLOATS)?;
    let (q, k, v) = (ranked(cx, 0, 4)?, ranked(cx, 1, 4)?, ranked(cx, 2, 4)?);
    let mut out = vec![Dim::Unknown; 4];
    if let Some(q) = q {
        out[..3].clone_from_slice(&q[..3]);
    }
    for other in [k, v].into_iter().flatten() {
        out[0] = merge(&out[0], &other[0], "the batch size")?;
        if let (Some(q), Some(kv)) = (out[1].known(), other[1].known())
            && (kv == 0 || !q.is_multiple_of(kv))
        {
            return refused(format!(
                "{q} heads of the query cannot share {kv} heads of key and value"
            ));
        }
    }
    if let (Some(k), Some(v)) = (k, v) {
        merge(&k[1], &v[1], "the heads of key and value")?;
        merge(&k[2], &v[2], "the length of key and value")?;
    }
    if let (Some(q), Some(k)) = (q, k) {
        merge(&q[3], &k[3], "the width of query and key")?;
    }
    if let Some(v) = v {
        out[3] = v[3].clone();
    }
    cx.set(0, dtype, Some(out));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op(
        "LinearAttention",
        &[27],
        Arity::between(3, 6),
        linear_attention,
    )
    .outputs(TWO)
    .attributes(&[
        Attr::int("chunk_size"),
        Attr::int("kv_num_heads").required(),
        Attr::int("q_num_heads").required(),
        Attr::float("scale"),
        Attr::string("update_rule"),
    ]),
    op(
        "LinearAttention",
        &[1],
        Arity::between(3, 6),
        contributed_linear_attention,
    )
    .of("com.microsoft")
    .outputs(TWO)
    .attributes(&[
        Attr::int("chunk_size"),
        Attr::int("kv_num_heads").required(),
        Attr::int("q_num_heads").required(),
        Attr::float("scale"),
        Attr::int("state_window"),
        Attr::string("update_rule"),
    ]),
    op(
        "LinearAttentionGate",
        &[1],
        Arity::between(3, 4),
        linear_attention_gate,
    )
    .of("com.microsoft")
    .outputs(Arity::between(1, 2)),
    op("FlexAttention", &[1], THREE, flex_attention)
        .of("ai.onnx.preview")
        .attributes(&[
            Attr::graph("prob_mod"),
            Attr::float("scale"),
            Attr::graph("score_mod"),
            Attr::int("softmax_precision"),
        ]),
];
