//! Convolution, dense, quantized, deformed and causal.

use super::rules::{expect_dtype, merge, ranked, refused};
use super::window::{AutoPad, Sliding, dim, linear, numbers};
use super::{THREE, TWO, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// The shape of a convolution of input `x` with the weights at input `w`: `[N, M, ...]`.
fn convolved(cx: &Inference<'_>, x: usize, w: usize) -> Result<Option<Vec<Dim>>, InferError> {
    let group = cx.attributes.int_or("group", 1)?;
    let (Some(x), Some(w)) = (cx.shape(x), cx.shape(w)) else {
        return Ok(None);
    };
    if x.len() < 3 || x.len() != w.len() {
        return refused(format!(
            "X and W: expected equal ranks of 3 or more, got {} and {}",
            x.len(),
            w.len()
        ));
    }
    let axes = x.len() - 2;
    if let (Some(channels), Some(part)) = (x[1].known(), w[1].known())
        && Some(channels)
            != usize::try_from(group)
                .ok()
                .and_then(|g| part.checked_mul(g))
    {
        return refused(format!(
            "X has {channels} channels, W takes {part} in each of {group} groups"
        ));
    }
    let sliding = Sliding::read(cx, axes)?;
    let kernel = kernel(cx, &w[2..])?;
    let mut shape = vec![x[0].clone(), w[0].clone()];
    for (axis, kernel) in kernel.iter().enumerate() {
        shape.push(sliding.positions(axis, &x[2 + axis], kernel)?);
    }
    Ok(Some(shape))
}

/// The kernel's extents, which the weights have and the attribute `kernel_shape` may repeat.
fn kernel(cx: &Inference<'_>, weights: &[Dim]) -> Result<Vec<Dim>, InferError> {
    if !cx.attributes.has("kernel_shape") {
        return Ok(weights.to_vec());
    }
    let given = numbers(cx, "kernel_shape", weights.len(), 1, 1)?;
    weights
        .iter()
        .zip(given)
        .map(|(held, given)| {
            merge(
                held,
                &dim(i128::from(given)),
                "an extent of W and `kernel_shape`",
            )
        })
        .collect()
}

/// Source: ONNX `Conv`.
fn conv(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2])?;
    let shape = convolved(cx, 0, 1)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// Integers in, 32-bit sums out.
fn conv_integer(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 2])?;
    cx.same_dtype([1, 3])?;
    let shape = convolved(cx, 0, 1)?;
    cx.set(0, Some(DType::Int32), shape);
    Ok(())
}

/// x, its scale and zero point, w with its own, the output's own, and a bias of 32-bit sums.
fn qlinear_conv(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype([0, 2])?;
    cx.same_dtype([3, 5])?;
    expect_dtype(cx, 8, &[DType::Int32])?;
    let shape = convolved(cx, 0, 3)?;
    cx.set(0, cx.dtype(7), shape);
    Ok(())
}

/// Offsets move each sampling place; their spatial extents are those of the output.
fn deform_conv(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype(0..5)?;
    let mut shape = convolved(cx, 0, 1)?;
    if let (Some(shape), Some(offset)) = (&mut shape, cx.shape(2)) {
        if offset.len() != shape.len() {
            let (got, want) = (offset.len(), shape.len());
            return refused(format!("input 2: expected {want} axes, got {got}"));
        }
        for (axis, held) in shape.iter_mut().enumerate().skip(2) {
            *held = merge(held, &offset[axis], "a spatial extent of the offsets")?;
        }
    }
    cx.set(0, dtype, shape);
    Ok(())
}

/// Source: ONNX `ConvTranspose`.
fn conv_transpose(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2])?;
    let group = cx.attributes.int_or("group", 1)?;
    let (Some(x), Some(w)) = (cx.shape(0), cx.shape(1)) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    if x.len() < 3 || x.len() != w.len() {
        return refused(format!(
            "X and W: expected equal ranks of 3 or more, got {} and {}",
            x.len(),
            w.len()
        ));
    }
    merge(&x[1], &w[0], "the number of channels of X and W")?;
    let axes = x.len() - 2;
    let sliding = Sliding::read(cx, axes)?;
    let kernel = kernel(cx, &w[2..])?;
    let extra = numbers(cx, "output_padding", axes, 0, 0)?;
    let wanted = match cx.attributes.ints("output_shape")? {
        None => None,
        // Some writers give all axes, batch and channels first.
        Some(all) if all.len() == axes + 2 => Some(&all[2..]),
        Some(_) => Some(cx.attributes.ints("output_shape")?.unwrap_or_default()),
    };
    if let Some(wanted) = wanted
        && (wanted.len() != axes || wanted.iter().any(|&n| n < 0))
    {
        return refused(format!(
            "output_shape: expected {axes} numbers of at least 0, got {wanted:?}"
        ));
    }
    if group < 1 {
        return refused(format!("group: expected at least 1, got {group}"));
    }
    let channels = w[1].times(&dim(group.into()));
    let mut shape = vec![x[0].clone(), channels];
    for axis in 0..axes {
        shape.push(match wanted {
            Some(wanted) => dim(i128::from(wanted[axis])),
            None => widened(&sliding, axis, &x[2 + axis], &kernel[axis], extra[axis])?,
        });
    }
    cx.set(0, dtype, Some(shape));
    Ok(())
}

/// The extent that a transposed convolution gives along an axis.
fn widened(
    sliding: &Sliding,
    axis: usize,
    input: &Dim,
    kernel: &Dim,
    extra: i64,
) -> Result<Dim, InferError> {
    let stride = i128::from(sliding.strides[axis]);
    let Some(kernel) = kernel.known() else {
        return Ok(Dim::Unknown);
    };
    if sliding.auto_pad == AutoPad::Same {
        // A kernel that does not reach to the next position leaves gaps at the end, which are filled or not.
        let told = sliding.reach(axis, kernel) >= stride && extra == 0;
        return Ok(if told {
            input.times(&dim(stride))
        } else {
            Dim::Unknown
        });
    }
    let (before, after) = sliding.padding(axis);
    let more = i128::from(extra) + sliding.reach(axis, kernel) - before - after;
    let Some(input) = input.known() else {
        let extent = linear(input, sliding.strides[axis], more - stride);
        return Ok(extent.map_or(Dim::Unknown, |extent| Dim::from_expr(&extent)));
    };
    let extent = stride * (input as i128 - 1) + more;
    if extent < 0 {
        return refused(format!(
            "spatial axis {axis}: {input} elements with these pads leave {extent}"
        ));
    }
    Ok(dim(extent))
}

/// A depthwise convolution that looks back only, with the last positions as its state.
fn causal_conv(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype(0..4)?;
    let (x, w, past) = (ranked(cx, 0, 3)?, ranked(cx, 1, 3)?, ranked(cx, 3, 3)?);
    let mut state = vec![Dim::Unknown; 3];
    if let Some(x) = x {
        state[..2].clone_from_slice(&x[..2]);
    }
    if let Some(w) = w {
        state[1] = merge(&state[1], &w[0], "the number of channels")?;
        if let Some(kernel) = w[2].known() {
            let Some(carried) = kernel.checked_sub(1) else {
                return refused("W: expected a kernel of at least 1 element, got 0".to_string());
            };
            // The contributed operator's kernel may reach further.
            let dilation = usize::try_from(cx.attributes.int_or("dilation", 1)?).ok();
            let carried = dilation.and_then(|dilation| carried.checked_mul(dilation));
            state[2] = carried.map_or(Dim::Unknown, Dim::Known);
        }
    }
    if let Some(past) = past {
        for (held, past) in state.iter_mut().zip(past) {
            *held = merge(held, past, "an extent of past_state")?;
        }
    }
    cx.set(0, dtype, x.map(<[Dim]>::to_vec));
    cx.set(1, dtype, Some(state));
    Ok(())
}

/// What of the contributed operator makes other shapes; no kernel computes it.
const OTHER_SHAPES: [(&str, i64); 7] = [
    ("ndim", 1),
    ("channels_last", 0),
    ("state_window", 0),
    ("state_update_capacity", 0),
    ("state_length", 0),
    ("input_channel_offset", 0),
    ("input_channels", 0),
];

/// Source: the contributed operators of onnxruntime, `com.microsoft.CausalConvWithState`.
fn contributed_causal_conv(cx: &mut Inference<'_>) -> Result<(), InferError> {
    for (name, plain) in OTHER_SHAPES {
        if cx.attributes.int_or(name, plain)? != plain {
            return Ok(());
        }
    }
    causal_conv(cx)
}

/// Blocks `[N, C x block, L]` back into an image `[N, C, ...]`.
fn col2im(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let columns = ranked(cx, 0, 3)?;
    let (image, block) = (cx.dims(1)?, cx.constant_ints(2));
    let axes = image.as_ref().map(Vec::len).or(cx.length(2));
    let Some(axes) = axes.filter(|&axes| axes <= refeed_values::MAX_RANK - 2) else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    Sliding::read(cx, axes)?;
    let mut shape = vec![Dim::Unknown; axes + 2];
    if let Some(columns) = columns {
        shape[0] = columns[0].clone();
        if let Some(block) = &block {
            shape[1] = channels(&columns[1], block)?;
        }
    }
    if let Some(image) = image {
        shape.truncate(2);
        shape.extend(image);
    }
    cx.set(0, dtype, Some(shape));
    Ok(())
}

/// How many channels are in columns of `block` elements each.
fn channels(columns: &Dim, block: &[i64]) -> Result<Dim, InferError> {
    let size = block.iter().try_fold(1usize, |size, &n| {
        size.checked_mul(usize::try_from(n).ok().filter(|&n| n > 0)?)
    });
    let Some(size) = size else {
        return refused(format!(
            "block_shape: expected positive numbers, got {block:?}"
        ));
    };
    match columns.known() {
        None => Ok(columns.div_floor(&Dim::Known(size))),
        Some(n) if n.is_multiple_of(size) => Ok(Dim::Known(n / size)),
        Some(n) => refused(format!(
            "input 0: {n} rows are no multiple of a block of {size}"
        )),
    }
}

const CONV: &[Attr] = &[
    Attr::string("auto_pad"),
    Attr::ints("dilations"),
    Attr::int("group"),
    Attr::ints("kernel_shape"),
    Attr::ints("pads"),
    Attr::ints("strides"),
];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("Conv", &[1, 11, 22], Arity::between(2, 3), conv).attributes(CONV),
    op("ConvInteger", &[10], Arity::between(2, 4), conv_integer).attributes(CONV),
    op("QLinearConv", &[10], Arity::between(8, 9), qlinear_conv).attributes(CONV),
    op("DeformConv", &[19, 22], Arity::between(3, 5), deform_conv).attributes(&[
        Attr::ints("dilations"),
        Attr::int("group"),
        Attr::ints("kernel_shape"),
        Attr::int("offset_group"),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ]),
    op(
        "ConvTranspose",
        &[1, 11, 22],
        Arity::between(2, 3),
        conv_transpose,
    )
    .attributes(&[
        Attr::string("auto_pad"),
        Attr::ints("dilations"),
        Attr::int("group"),
        Attr::ints("kernel_shape"),
        Attr::ints("output_padding"),
        Attr::ints("output_shape"),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ]),
    op(
        "CausalConvWithState",
        &[27],
        Arity::between(2, 4),
        causal_conv,
    )
    .outputs(TWO)
    .attributes(&[Attr::string("activation")]),
    op(
        "CausalConvWithState",
        &[1],
        Arity::between(2, 4),
        contributed_causal_conv,
    )
    .of("com.microsoft")
    .outputs(Arity::between(2, 3))
    .attributes(&[
        Attr::string("activation"),
        Attr::int("channels_last"),
        Attr::int("dilation"),
        Attr::int("input_channel_offset"),
        Attr::int("input_channels"),
        Attr::int("ndim"),
        Attr::int("state_channels_last"),
        Attr::int("state_length"),
        Attr::int("state_update_capacity"),
        Attr::int("state_window"),
    ]),
    op("Col2Im", &[18], THREE, col2im).attributes(&[
        Attr::ints("dilations"),
        Attr::ints("pads"),
        Attr::ints("strides"),
    ]),
];
