//! Signals: Fourier transforms, windows and mel filters.

use super::layout::axis_of;
use super::rules::{constant_int, input_extent, merge, named_dtype, ranked, ranked_from, refused};
use super::{ONE, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

/// How many of `length` frequencies are not repeated by symmetry.
fn one_side(length: &Dim) -> Dim {
    length.div_floor(&Dim::Known(2)).plus(&Dim::Known(1))
}

/// Checks the last axis of a signal: 1 for real numbers, 2 for complex ones.
fn parts(dim: &Dim) -> Result<(), InferError> {
    match dim.known() {
        Some(n) if !(1..=2).contains(&n) => refused(format!(
            "input 0: expected a last axis of 1 or 2 numbers, got {n}"
        )),
        _ => Ok(()),
    }
}

/// The axis along which `DFT` transforms; `None` when it is an input that is not known yet.
fn dft_axis(cx: &Inference<'_>, rank: usize) -> Result<Option<usize>, InferError> {
    let axis = match cx.opset {
        ..20 => Some(cx.attributes.int_or("axis", 1)?),
        _ if cx.has(2) => constant_int(cx, 2),
        _ => Some(-2),
    };
    let Some(axis) = axis else {
        return Ok(None);
    };
    let axis = axis_of(axis, rank)?;
    if axis + 1 == rank {
        return refused(
            "axis: expected another axis than the last, which holds the parts of each number"
                .to_string(),
        );
    }
    Ok(Some(axis))
}

fn dft(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let one_sided = cx.attributes.flag("onesided", false)?;
    let inverse = cx.attributes.flag("inverse", false)?;
    let Some(signal) = ranked_from(cx, 0, 2)? else {
        cx.set(0, dtype, None);
        return Ok(());
    };
    let last = signal.len() - 1;
    parts(&signal[last])?;
    let mut out = signal.to_vec();
    // The inverse of a transform of one side gives real numbers.
    out[last] = Dim::Known(if one_sided && inverse { 1 } else { 2 });
    match dft_axis(cx, signal.len())? {
        Some(axis) => {
            let length = if cx.has(1) {
                input_extent(cx, 1, "dft_length")?
            } else if one_sided && inverse {
                // Of one side of a transform it cannot be told whether the whole had an even or an odd length: even.
                signal[axis].minus(&Dim::Known(1)).times(&Dim::Known(2))
            } else {
                signal[axis].clone()
            };
            out[axis] = if one_sided && !inverse {
                one_side(&length)
            } else {
                length
            };
        }
        // Whatever the axis is, its length stays.
        None if !cx.has(1) && !one_sided => {}
        None => out[..last].fill(Dim::Unknown),
    }
    cx.set(0, dtype, Some(out));
    Ok(())
}

/// Transforms of the frames of a signal: `[batch, frames, frequencies, 2]`.
fn stft(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 2])?;
    let one_sided = cx.attributes.flag("onesided", true)?;
    let signal = match cx.shape(0) {
        Some(shape) if shape.len() != 2 && shape.len() != 3 => {
            let got = shape.len();
            return refused(format!("input 0: expected 2 or 3 axes, got {got}"));
        }
        shape => shape,
    };
    if let Some([_, _, last]) = signal {
        parts(last)?;
    }
    let (batch, length) = match signal {
        Some(signal) => (signal[0].clone(), signal[1].clone()),
        None => (Dim::Unknown, Dim::Unknown),
    };
    let mut frame = if cx.has(3) {
        input_extent(cx, 3, "frame_length")?
    } else if cx.has(2) {
        Dim::Unknown
    } else {
        length.clone()
    };
    if let Some(window) = ranked(cx, 2, 1)? {
        frame = merge(
            &frame,
            &window[0],
            "the frame length and that of the window",
        )?;
    }
    let step = constant_int(cx, 1);
    if let Some(step) = step
        && step < 1
    {
        return refused(format!("frame_step: expected at least 1, got {step}"));
    }
    let step = step.and_then(|step| usize::try_from(step).ok());
    let frames = match (length.known(), frame.known(), step) {
        (Some(length), Some(frame), _) if frame > length => {
            return refused(format!(
                "a frame of {frame} samples is longer than the signal of {length}"
            ));
        }
        (_, _, Some(step)) => length
            .minus(&frame)
            .div_floor(&Dim::Known(step))
            .plus(&Dim::Known(1)),
        _ => Dim::Unknown,
    };
    let frequencies = if one_sided { one_side(&frame) } else { frame };
    let out = vec![batch, frames, frequencies, Dim::Known(2)];
    cx.set(0, dtype, Some(out));
    Ok(())
}

/// A window of `size` samples.
fn window(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let number = cx.attributes.int_or("output_datatype", 1)?;
    let dtype = named_dtype("output_datatype", number)?;
    let size = input_extent(cx, 0, "size")?;
    cx.set(0, Some(dtype), Some(vec![size]));
    Ok(())
}

/// A matrix from frequencies to mel bands.
fn mel_weight_matrix(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let number = cx.attributes.int_or("output_datatype", 1)?;
    let dtype = named_dtype("output_datatype", number)?;
    let bands = input_extent(cx, 0, "num_mel_bins")?;
    let frequencies = one_side(&input_extent(cx, 1, "dft_length")?);
    cx.set(0, Some(dtype), Some(vec![frequencies, bands]));
    Ok(())
}

const WINDOW: &[Attr] = &[Attr::int("output_datatype"), Attr::int("periodic")];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("DFT", &[17, 20], Arity::between(1, 3), dft).attributes(&[
        Attr::int("axis"),
        Attr::int("inverse"),
        Attr::int("onesided"),
    ]),
    op("STFT", &[17], Arity::between(2, 4), stft).attributes(&[Attr::int("onesided")]),
    op("HannWindow", &[17], ONE, window).attributes(WINDOW),
    op("HammingWindow", &[17], ONE, window).attributes(WINDOW),
    op("BlackmanWindow", &[17], ONE, window).attributes(WINDOW),
    op(
        "MelWeightMatrix",
        &[17],
        Arity::exactly(5),
        mel_weight_matrix,
    )
    .attributes(&[Attr::int("output_datatype")]),
];
