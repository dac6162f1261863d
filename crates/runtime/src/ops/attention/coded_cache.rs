//! Keys and values that `com.microsoft.GroupQueryAttention` keeps as INT8 codes, with a scale for all or one for each
//! channel of a head.

use super::group_query::{Lengths, rewritten};
use super::{Cache, grow};
use crate::kernel::{Build, Invocation, OpError};
use crate::ops::heads::fused_rows;
use refeed_kernels::attention::{CodedProblem, CodedRows, Visibility, coded_attention};
use refeed_kernels::quantize::quantize_rows;
use refeed_values::{DType, Tensor, View};

/// Positions of the scales in the node: of keys and of values.
const SCALES: [usize; 2] = [12, 13];

/// Whether the caches are codes.
///
/// # Errors
/// When they are of a form that is not computed.
pub(super) fn is_coded(build: &Build<'_>) -> Result<bool, OpError> {
    let refuse = |what: String| OpError::Unsupported(format!("GroupQueryAttention with {what}"));
    let width = build.attributes.int_or("kv_cache_bit_width", 0)?;
    let mut coded = [false; 2];
    for (name, coded) in ["k_quant_type", "v_quant_type"].into_iter().zip(&mut coded) {
        *coded = match build.attributes.string(name)? {
            None | Some("NONE") => false,
            Some("PER_TENSOR" | "PER_CHANNEL") => true,
            Some(kind) => return Err(refuse(format!("{name} {kind}"))),
        };
    }
    match coded {
        [false, false] if width == 0 => Ok(false),
        [false, false] => Err(refuse(format!("kv_cache_bit_width {width}"))),
        [true, true] => {
            // Where it is not said, the element type of the cache says it.
            if ![0, 8].contains(&width) {
                return Err(refuse(format!("kv_cache_bit_width {width}")));
            }
            for index in SCALES {
                if !build.has(index) {
                    return Err(OpError::MissingInput { index });
                }
            }
            for index in [3, 4] {
                match build.input(index).and_then(|ty| ty.dtype) {
                    None | Some(DType::Int8) => {}
                    Some(got) => {
                        return Err(OpError::DType {
                            index,
                            expected: DType::Int8.to_string(),
                            got,
                        });
                    }
                }
            }
            Ok(true)
        }
        _ => Err(refuse("codes in one of two caches".to_string())),
    }
}

/// The scales of keys or values: one, or one for each `[heads, width]`.
fn scales<'a>(
    call: &Invocation<'a>,
    index: usize,
    [heads, width]: [usize; 2],
) -> Result<View<'a, f32>, OpError> {
    let scale = call.view::<f32>(index)?;
    let by_channel = [1, heads, 1, width];
    // Leading axes of 1 may be left out.
    let tail = by_channel.get(4usize.saturating_sub(scale.rank())..);
    if scale.len() == 1 || tail == Some(scale.shape()) || scale.shape() == [heads, width] {
        return Ok(scale);
    }
    Err(OpError::Shape(format!(
        "input {index}: expected one scale, or shape {by_channel:?}, got {:?}",
        scale.shape()
    )))
}

fn dense<'a>(scale: &View<'a, f32>) -> Result<&'a [f32], OpError> {
    let strided = || OpError::Shape("scales: expected a dense tensor".to_string());
    scale.as_slice().ok_or_else(strided)
}

/// Heads and width of `[batch, heads, length, width]`.
fn of_head(rows: &Tensor) -> [usize; 2] {
    match rows.shape() {
        &[_, heads, _, width] => [heads, width],
        _ => [0, 0],
    }
}

/// Both caches with the new rows in them, encoded; in place where that may be.
pub(super) fn grown(
    call: &mut Invocation<'_>,
    new: [&Tensor; 2],
    lengths: &Lengths,
) -> Result<[Tensor; 2], OpError> {
    let mut encode = |index: usize, rows: &Tensor| -> Result<Tensor, OpError> {
        let scale = scales(call, index, of_head(rows))?;
        let mut codes = call.allocate(DType::Int8, rows.shape())?;
        let slots = codes.as_mut_slice::<i8>()?;
        quantize_rows(&rows.view::<f32>()?, dense(&scale)?, slots)?;
        Ok(codes.freeze())
    };
    let caches = [
        Cache {
            input: 3,
            output: 1,
            new: encode(SCALES[0], new[0])?,
        },
        Cache {
            input: 4,
            output: 2,
            new: encode(SCALES[1], new[1])?,
        },
    ];
    let whole = match &lengths.scattered {
        None => grow::<i8, i8>(call, &caches)?,
        Some(reason) => {
            for cache in &caches {
                call.copied_because(cache.output, reason.clone());
            }
            [
                rewritten::<i8>(call, &caches[0], lengths)?,
                rewritten::<i8>(call, &caches[1], lengths)?,
            ]
        }
    };
    for Cache { new, .. } in caches {
        call.recycle(new);
    }
    Ok(whole)
}

/// Attention of `[batch, heads, length, width]` queries to the codes, as `[batch, length, heads * width]`.
pub(super) fn attend(
    call: &mut Invocation<'_>,
    query: View<'_, f32>,
    caches: &[Tensor; 2],
    (scale, softcap): (f64, f64),
    visibility: Visibility<'_, f32>,
) -> Result<Tensor, OpError> {
    let &[batch, heads, length, width] = query.shape() else {
        return Err(OpError::Shape("query: expected 4 dimensions".to_string()));
    };
    let layout = fused_rows([batch, heads, length], width)?;
    let bytes = |cache: &Tensor| {
        let other = || OpError::Shape("a cache of another type than INT8".to_string());
        cache.reinterpret(DType::Uint8).ok_or_else(other)
    };
    // A cache that came with strides of another kind is copied.
    let whole = |call: &mut Invocation<'_>, cache: &Tensor| -> Result<Tensor, OpError> {
        let cache = bytes(cache)?;
        let empty = cache.elements() == 0;
        let dense = empty || cache.view::<u8>()?.block(&[0, 0]).is_some();
        match dense {
            true => Ok(cache),
            false => call.dense(&cache),
        }
    };
    let (keys, values) = (whole(call, &caches[0])?, whole(call, &caches[1])?);
    let (key_scale, value_scale) = (
        scales(call, SCALES[0], of_head(&keys))?,
        scales(call, SCALES[1], of_head(&values))?,
    );
    let mut out = call.allocate(DType::Float, &[batch, length, layout.strides[2]])?;
    let problem = CodedProblem {
        query,
        key: CodedRows {
            codes: keys.view()?,
            scale: dense(&key_scale)?,
        },
        value: CodedRows {
            codes: values.view()?,
            scale: dense(&value_scale)?,
        },
        scale,
        softcap,
        visibility,
    };
    let slots = out.as_mut_slice::<f32>()?;
    // However large its extents are, a result without elements takes no work.
    if !slots.is_empty() {
        coded_attention(call.compute(), &problem, slots, &layout)?;
    }
    Ok(out.freeze())
}
