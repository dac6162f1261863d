//! Windows that slide over spatial axes: what convolution and pooling have in common.

use super::rules::refused;
use crate::attributes::AttributeError;
use crate::schema::{InferError, Inference};
use crate::shape_inference::DimExpr;
use crate::types::Dim;

/// How the borders are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// By the numbers of `pads`.
    Explicit,
    /// So that the output has `ceil(input / stride)` positions.
    Same,
    /// Not at all.
    Valid,
}

impl AutoPad {
    /// Reads the attribute `auto_pad`.
    ///
    /// # Errors
    /// When it names no way of padding.
    pub(super) fn read(cx: &Inference<'_>) -> Result<AutoPad, InferError> {
        match cx.attributes.string("auto_pad")? {
            None | Some("" | "NOTSET") => Ok(AutoPad::Explicit),
            Some("SAME_UPPER" | "SAME_LOWER") => Ok(AutoPad::Same),
            Some("VALID") => Ok(AutoPad::Valid),
            Some(other) => Err(InferError::from(AttributeError::Value {
                name: "auto_pad",
                expected: "NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                got: other.to_string(),
            })),
        }
    }
}

/// An attribute with one number for each of `count` places, all at least `low`; absent means `default` everywhere.
///
/// # Errors
/// When there are more or fewer numbers, or a lower one.
pub(super) fn numbers(
    cx: &Inference<'_>,
    name: &'static str,
    count: usize,
    low: i64,
    default: i64,
) -> Result<Vec<i64>, InferError> {
    let Some(given) = cx.attributes.ints(name)? else {
        return Ok(vec![default; count]);
    };
    if given.len() != count || given.iter().any(|&n| n < low) {
        let expected = if low == 0 {
            "one non-negative number for each place"
        } else {
            "one positive number for each place"
        };
        let got = format!("{given:?}");
        return Err(AttributeError::Value {
            name,
            expected,
            got,
        }
        .into());
    }
    Ok(given.to_vec())
}

/// The numbers that place windows on the spatial axes.
#[derive(Debug)]
pub(super) struct Sliding {
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    /// The begins of all axes, then the ends.
    pub(super) pads: Vec<i64>,
    pub(super) auto_pad: AutoPad,
    /// Whether a last window that reaches beyond the end counts.
    ceil: bool,
    /// Whether windows that would begin in the padding after the input are left out of those.
    within: bool,
}

impl Sliding {
    /// Reads the attributes of an operator with this many spatial axes; those that it does not have stay at their
    /// defaults.
    ///
    /// # Errors
    /// When a list has not one positive number an axis (for `pads` two that are not negative).
    pub(super) fn read(cx: &Inference<'_>, axes: usize) -> Result<Sliding, InferError> {
        Ok(Sliding {
            strides: numbers(cx, "strides", axes, 1, 1)?,
            dilations: numbers(cx, "dilations", axes, 1, 1)?,
            pads: numbers(cx, "pads", axes.saturating_mul(2), 0, 0)?,
            auto_pad: AutoPad::read(cx)?,
            ceil: cx.attributes.flag("ceil_mode", false)?,
            within: cx.opset >= 22,
        })
    }

    /// What is added to an axis: before and after.
    pub(super) fn padding(&self, axis: usize) -> (i128, i128) {
        if self.auto_pad == AutoPad::Explicit {
            let after = self.pads[self.strides.len() + axis];
            (i128::from(self.pads[axis]), i128::from(after))
        } else {
            (0, 0)
        }
    }

    /// How many elements a window of `kernel` elements reaches over.
    pub(super) fn reach(&self, axis: usize, kernel: usize) -> i128 {
        // A dilation is below 2^63 and an extent below 2^64: the product stays below 2^127.
        i128::from(self.dilations[axis]) * (kernel as i128 - 1) + 1
    }

    /// The number of windows along an axis.
    ///
    /// # Errors
    /// When not even one window fits.
    pub(super) fn positions(
        &self,
        axis: usize,
        input: &Dim,
        kernel: &Dim,
    ) -> Result<Dim, InferError> {
        let stride = i128::from(self.strides[axis]);
        if self.auto_pad == AutoPad::Same {
            // Before opset 22 such windows count that begin after the input, which a kernel shorter than its step has.
            let short = |kernel| self.reach(axis, kernel) < stride;
            if self.ceil && !self.within && kernel.known().is_none_or(short) {
                return Ok(Dim::Unknown);
            }
            return Ok(match input {
                input if stride == 1 => input.clone(),
                Dim::Known(n) => dim((*n as i128 + stride - 1) / stride),
                input => input.div_ceil(&dim(stride)),
            });
        }
        let Some(kernel) = kernel.known() else {
            return Ok(Dim::Unknown);
        };
        if kernel == 0 {
            return refused(format!(
                "spatial axis {axis}: expected a kernel of at least 1 element, got 0"
            ));
        }
        let (before, after) = self.padding(axis);
        let reach = self.reach(axis, kernel);
        let Some(input) = input.known() else {
            // Whether the last window begins in the input only numbers tell.
            if self.ceil && self.within {
                return Ok(Dim::Unknown);
            }
            let stride = DimExpr::from(self.strides[axis]);
            let count = linear(input, 1, before + after - reach).and_then(|room| {
                let steps = if self.ceil {
                    room.div_ceil(&stride)?
                } else {
                    room.div_floor(&stride)?
                };
                steps.plus(&DimExpr::from(1))
            });
            return Ok(count.map_or(Dim::Unknown, |count| Dim::from_expr(&count)));
        };
        let padded = input as i128 + before + after;
        if padded < reach {
            return refused(format!(
                "spatial axis {axis}: the kernel reaches over {reach} elements, the padded input has {padded}"
            ));
        }
        let room = padded - reach;
        let mut count = room / stride + 1;
        if self.ceil && room % stride != 0 {
            count += 1;
        }
        // Since opset 22 the last window must begin in the input or the padding before it.
        if self.ceil && self.within && (count - 1) * stride >= input as i128 + before {
            count -= 1;
        }
        Ok(dim(count))
    }
}

/// `extent * times + more` of an extent that is an expression.
pub(super) fn linear(extent: &Dim, times: i64, more: i128) -> Option<DimExpr> {
    let more = DimExpr::from(i64::try_from(more).ok()?);
    extent.expr()?.times(&DimExpr::from(times))?.plus(&more)
}

/// An extent that was computed: unknown when it is none that a tensor can have.
pub(super) fn dim(extent: i128) -> Dim {
    match usize::try_from(extent) {
        Ok(n) if isize::try_from(n).is_ok() => Dim::Known(n),
        _ => Dim::Unknown,
    }
}
