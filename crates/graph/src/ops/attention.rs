//! Attention and its key/value caches.

use super::op;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::shape_inference::DimExpr;
use crate::types::Dim;

/// `a + b`, unknown when one is absent.
fn sum(a: Option<&Dim>, b: Option<&Dim>) -> Dim {
    match (a, b) {
        (Some(a), Some(b)) => a.plus(b),
        _ => Dim::Unknown,
    }
}

/// `whole / parts` when it is exact.
fn divided(whole: &Dim, parts: i64) -> Dim {
    if parts < 1 {
        return Dim::Unknown;
    }
    let exact = |whole: DimExpr| whole.div_exact(&DimExpr::from(parts));
    let exact = whole.expr().and_then(exact);
    exact.map_or(Dim::Unknown, |exact| Dim::from_expr(&exact))
}

/// Head count from an attribute.
fn heads(count: Option<i64>) -> Dim {
    count
        .and_then(|n| usize::try_from(n).ok())
        .map_or(Dim::Unknown, Dim::Known)
}

/// `[batch, heads, length, width]` of one of Q, K, V, whichever way it is written.
fn as_rank_4(shape: &[Dim], count: Option<i64>) -> Option<[Dim; 4]> {
    match shape {
        [batch, heads, length, width] => {
            Some([batch.clone(), heads.clone(), length.clone(), width.clone()])
        }
        [batch, length, hidden] => Some([
            batch.clone(),
            heads(count),
            length.clone(),
            divided(hidden, count.unwrap_or(0)),
        ]),
        _ => None,
    }
}

/// The same, with a shape error for a rank that the operator does not have.
fn split_heads(
    cx: &Inference<'_>,
    index: usize,
    count: Option<i64>,
) -> Result<Option<[Dim; 4]>, InferError> {
    let Some(shape) = cx.shape(index) else {
        return Ok(None);
    };
    as_rank_4(shape, count).map(Some).ok_or_else(|| {
        InferError::Shape(format!(
            "input {index}: expected 3 or 4 dimensions, got {}",
            shape.len()
        ))
    })
}

/// Source: ONNX `Attention`, opsets 23 to 25.
fn attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 4])?;
    let value_dtype = cx.same_dtype([2, 5])?;
    let q_heads = cx.attributes.int("q_num_heads")?;
    let kv_heads = cx.attributes.int("kv_num_heads")?;
    let q = split_heads(cx, 0, q_heads)?;
    let k = split_heads(cx, 1, kv_heads)?;
    let v = split_heads(cx, 2, kv_heads)?;
    let fused = cx.shape(0).map(<[Dim]>::len) == Some(3);
    let y = match (&q, &v) {
        (Some([batch, heads, length, _]), Some([.., width])) if fused => {
            Some(vec![batch.clone(), length.clone(), heads.times(width)])
        }
        (Some([batch, heads, length, _]), Some([.., width])) => Some(vec![
            batch.clone(),
            heads.clone(),
            length.clone(),
            width.clone(),
        ]),
        _ => None,
    };
    cx.set(0, dtype, y);
    let grown = |new: &Option<[Dim; 4]>, past: usize| {
        let [batch, heads, length, width] = new.as_ref()?;
        let total = if cx.has(past) {
            sum(cx.shape(past).and_then(|shape| shape.get(2)), Some(length))
        } else {
            length.clone()
        };
        Some(vec![batch.clone(), heads.clone(), total, width.clone()])
    };
    let (keys, values) = (grown(&k, 4), grown(&v, 5));
    let scores = match (&q, &keys) {
        (Some([batch, heads, length, _]), Some(keys)) => Some(vec![
            batch.clone(),
            heads.clone(),
            length.clone(),
            keys[2].clone(),
        ]),
        _ => None,
    };
    cx.set(1, dtype, keys);
    cx.set(2, value_dtype, values);
    cx.set(3, dtype, scores);
    Ok(())
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.GroupQueryAttention`.
fn group_query_attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2])?;
    let q_heads = cx.attributes.int("num_heads")?;
    let kv_heads = cx.attributes.int("kv_num_heads")?;
    let packed = !cx.has(1);
    if let Some(shape) = cx.shape(0) {
        let [batch, length, hidden] = shape else {
            return Err(InferError::Shape(format!(
                "input 0: expected 3 dimensions, got {}",
                shape.len()
            )));
        };
        let all = match (q_heads, kv_heads) {
            (Some(q), Some(kv)) if packed => kv.checked_mul(2).and_then(|kv| kv.checked_add(q)),
            (q, _) => q,
        };
        let width = divided(hidden, all.unwrap_or(0));
        let out = if packed {
            heads(q_heads).times(&width)
        } else {
            hidden.clone()
        };
        cx.set(0, dtype, Some(vec![batch.clone(), length.clone(), out]));
        for (output, past) in [(1, 3), (2, 4)] {
            let held = cx.dtype(past).or(dtype);
            // A past that is not empty may be a cache of fixed extent, which stays as long as it is.
            let total = match cx.shape(past).map(|past| past.get(2)) {
                Some(Some(Dim::Known(0))) => length.clone(),
                None if !cx.has(past) => length.clone(),
                _ => Dim::Unknown,
            };
            let shape = vec![batch.clone(), heads(kv_heads), total, width.clone()];
            cx.set(output, held, Some(shape));
        }
        return Ok(());
    }
    cx.set(0, dtype, None);
    for (output, past) in [(1, 3), (2, 4)] {
        let held = cx.dtype(past).or(dtype);
        cx.set(output, held, None);
    }
    Ok(())
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.MultiHeadAttention`.
fn multi_head_attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2, 6, 7])?;
    let count = cx.attributes.int("num_heads")?;
    let out = match (cx.shape(0), cx.shape(2)) {
        (Some([batch, length, _]), Some([_, _, hidden])) => {
            Some(vec![batch.clone(), length.clone(), hidden.clone()])
        }
        (Some([batch, length, _]), Some([_, heads, _, width])) => {
            Some(vec![batch.clone(), length.clone(), heads.times(width)])
        }
        _ => None,
    };
    cx.set(0, dtype, out);
    for (output, new, past) in [(1, 1, 6), (2, 2, 7)] {
        let shape = cx.shape(new).and_then(|shape| as_rank_4(shape, count));
        let shape = shape.map(|[batch, heads, length, width]| {
            let total = if cx.has(past) {
                sum(cx.shape(past).and_then(|p| p.get(2)), Some(&length))
            } else {
                length
            };
            vec![batch, heads, total, width]
        });
        cx.set(output, dtype, shape);
    }
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Attention", &[23, 24, 25], Arity::between(3, 7), attention)
        .outputs(Arity::between(1, 4))
        .attributes(&[
            Attr::int("is_causal"),
            Attr::int("kv_num_heads"),
            Attr::int("left_window_size"),
            Attr::int("q_num_heads"),
            Attr::int("qk_matmul_output_mode"),
            Attr::int("right_window_size"),
            Attr::float("scale"),
            Attr::float("softcap"),
            Attr::int("softmax_precision"),
        ]),
    op(
        "GroupQueryAttention",
        &[1],
        Arity::between(1, 14),
        group_query_attention,
    )
    .of("com.microsoft")
    .outputs(Arity::between(1, 4))
    .attributes(&[
        Attr::int("do_rotary"),
        Attr::string("k_quant_type"),
        Attr::int("kv_cache_bit_width"),
        Attr::int("kv_num_heads").required(),
        Attr::int("local_window_size"),
        Attr::int("num_heads").required(),
        Attr::int("qk_output"),
        Attr::int("rotary_interleaved"),
        Attr::float("scale"),
        Attr::int("sliding_window_cache"),
        Attr::int("smooth_softmax"),
        Attr::float("softcap"),
        Attr::string("v_quant_type"),
    ]),
    op(
        "MultiHeadAttention",
        &[1],
        Arity::between(1, 10),
        multi_head_attention,
    )
    .of("com.microsoft")
    .outputs(Arity::between(1, 4))
    .attributes(&[
        Attr::float("mask_filter_value"),
        Attr::int("num_heads").required(),
        Attr::float("scale"),
        Attr::int("unidirectional"),
    ]),
];
