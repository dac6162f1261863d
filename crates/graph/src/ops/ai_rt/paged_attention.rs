//! `ai.rt::PagedAttention`: attention to a cache in pages and to new keys and values, which become further pages.

use super::cache::{self, FLOATS};
use crate::attributes::AttributeError;
use crate::ops::op;
use crate::ops::rules::{merge, ranked};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::{Dim, TensorType};

/// Shape of one of Q, K, V: unknown dimensions when nothing is known.
///
/// # Errors
/// When it is no tensor of floats, has not 4 axes, or an extent is 0 that must not be.
fn operand(cx: &Inference<'_>, index: usize) -> Result<[Dim; 4], InferError> {
    let Some(ty) = cx.input_type(index) else {
        return Err(cx.unexpected_kind(index, "a tensor"));
    };
    if !matches!(ty, crate::types::ValueType::Unset) && ty.tensor().is_none() {
        return Err(cx.unexpected_kind(index, "a tensor"));
    }
    crate::ops::rules::expect_dtype(cx, index, &FLOATS)?;
    let Some(shape) = ranked(cx, index, 4)? else {
        return Ok([const { Dim::Unknown }; 4]);
    };
    // The length may be 0: nothing new.
    for axis in [0, 1, 3] {
        if shape[axis] == Dim::Known(0) {
            return Err(InferError::Shape(format!(
                "axis {axis} of input {index}: expected an extent of 1 or more, got 0"
            )));
        }
    }
    let mut dims = [const { Dim::Unknown }; 4];
    dims.clone_from_slice(shape);
    Ok(dims)
}

fn check_attributes(cx: &Inference<'_>) -> Result<(), InferError> {
    for (name, default, least, expected) in [
        ("block_size", 16, 1, "a number above 0"),
        ("max_tokens", 4096, 1, "a number above 0"),
        ("left_window_size", -1, -1, "-1 or more"),
    ] {
        let got = cx.attributes.int_or(name, default)?;
        if got < least {
            return Err(AttributeError::Value {
                name,
                expected,
                got: got.to_string(),
            }
            .into());
        }
    }
    cx.attributes.flag("is_causal", true)?;
    // Masks, scales, softcaps and formats of storage have no attribute here.
    Ok(cx.attributes.finish()?)
}

fn paged_attention(cx: &mut Inference<'_>) -> Result<(), InferError> {
    check_attributes(cx)?;
    let dtype = cx.same_dtype([0, 1, 2])?;
    let [q, k, v] = [operand(cx, 0)?, operand(cx, 1)?, operand(cx, 2)?];
    let all = |axis: usize, what: &str| {
        let held = merge(&q[axis], &k[axis], what)?;
        merge(&held, &v[axis], what)
    };
    let mut batch = all(0, "the batch")?;
    let length = all(2, "the length")?;
    let mut kv_heads = merge(&k[1], &v[1], "the number of key and value heads")?;
    let mut width = v[3].clone();
    merge(&q[3], &k[3], "the head size of Q and K")?;
    if let Some(page) = cache::page(cx, 3)? {
        for payload in [&page.key, &page.value] {
            batch = merge(&batch, &cache::dim(payload, 0), "the batch")?;
            let what = "the number of key and value heads";
            kv_heads = merge(&kv_heads, &cache::dim(payload, 1), what)?;
        }
        let key_width = merge(&q[3], &k[3], "the head size of Q and K")?;
        let held = |payload: &TensorType| cache::dim(payload, 3);
        merge(&key_width, &held(&page.key), "the head size of K")?;
        width = merge(&width, &held(&page.value), "the head size of V")?;
    }
    if let (Some(heads), Some(groups)) = (q[1].known(), kv_heads.known())
        && (groups == 0 || heads % groups != 0)
    {
        return Err(InferError::Shape(format!(
            "expected a number of query heads that {groups} key and value heads divide, got {heads}"
        )));
    }
    let [_, heads, _, _] = q;
    cx.set(0, dtype, Some(vec![batch, heads, length, width]));
    let past = cx.input_type(3).cloned().unwrap_or_default();
    cx.set_type(1, past);
    Ok(())
}

pub(in crate::ops) const SCHEMAS: &[OpSchema] =
    &[
        op("PagedAttention", &[1], Arity::exactly(4), paged_attention)
            .of(super::DOMAIN)
            .outputs(Arity::exactly(2))
            .attributes(&[
                Attr::int("block_size"),
                Attr::int("is_causal"),
                Attr::int("left_window_size"),
                Attr::int("max_tokens"),
            ]),
    ];
