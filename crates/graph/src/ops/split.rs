//! `Split`: a tensor as parts along an axis.

use super::arithmetic;
use super::layout::axis_of;
use super::rules::refused;
use super::{MANY, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::shape_inference::DimExpr;
use crate::types::Dim;
use refeed_values::layout::Dims;

/// The extents that `Split` gives along an axis of extent `dim`.
///
/// # Errors
/// When the sizes do not add up, one is negative, or `dim` is not cut evenly where the operator's version asks for it.
pub fn split_sizes(
    dim: usize,
    sizes: Option<&[i64]>,
    outputs: usize,
    uneven: bool,
) -> Result<Dims, InferError> {
    let Some(sizes) = sizes else {
        if outputs == 0 {
            return refused("split: expected at least one output".to_string());
        }
        if !dim.is_multiple_of(outputs) && !uneven {
            return refused(format!(
                "an axis of {dim} cannot be split into {outputs} equal parts"
            ));
        }
        let part = dim.div_ceil(outputs);
        return Ok((0..outputs)
            .map(|i| dim.saturating_sub(i.saturating_mul(part)).min(part))
            .collect());
    };
    if sizes.len() != outputs {
        return refused(format!(
            "split: expected {outputs} sizes, got {}",
            sizes.len()
        ));
    }
    let out: Option<Dims> = sizes
        .iter()
        .map(|&size| usize::try_from(size).ok())
        .collect();
    let total = out
        .as_ref()
        .and_then(|o| o.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)));
    match (out, total) {
        (Some(out), Some(total)) if total == dim => Ok(out),
        _ => refused(format!(
            "split: expected sizes that add up to {dim}, got {sizes:?}"
        )),
    }
}

/// The sizes of the parts that `Split` makes: given, or equal.
enum Parts {
    Given(Vec<Dim>),
    Equal,
    Unknown,
}

impl Parts {
    fn read(cx: &Inference<'_>) -> Result<Parts, InferError> {
        // The first version took them as an attribute or an input.
        let attribute = match cx.opset {
            ..13 => cx.attributes.ints("split")?,
            _ => None,
        };
        if let Some(sizes) = attribute {
            let dims = sizes.iter().map(|&n| usize::try_from(n).map(Dim::Known));
            return match dims.collect() {
                Ok(dims) => Ok(Parts::Given(dims)),
                Err(_) => refused(format!(
                    "split: expected numbers of at least 0, got {sizes:?}"
                )),
            };
        }
        if !cx.has(1) {
            return Ok(Parts::Equal);
        }
        Ok(cx.dims(1)?.map_or(Parts::Unknown, Parts::Given))
    }

    /// The extent of each part of an axis.
    fn extents(self, dim: &Dim, outputs: usize, uneven: bool) -> Result<Vec<Dim>, InferError> {
        let sizes = match self {
            Parts::Unknown => return Ok(vec![Dim::Unknown; outputs]),
            Parts::Equal => {
                if let Some(dim) = dim.known() {
                    let sizes = split_sizes(dim, None, outputs, uneven)?;
                    return Ok(sizes.into_iter().map(Dim::Known).collect());
                }
                let exact = dim
                    .expr()
                    .zip(i64::try_from(outputs).ok())
                    .and_then(|(dim, count)| dim.div_exact(&DimExpr::from(count)));
                let count = Dim::Known(outputs);
                if let Some(part) = exact {
                    return Ok(vec![Dim::from_expr(&part); outputs]);
                }
                // What does not go up is an error, unless the last part may be shorter.
                if !uneven {
                    return Ok(vec![dim.div_floor(&count); outputs]);
                }
                // Of few positions other parts than the last are cut short, too, but not the first.
                let mut parts = vec![Dim::Unknown; outputs];
                if let Some(first) = parts.first_mut() {
                    *first = dim.div_ceil(&count);
                }
                return Ok(parts);
            }
            Parts::Given(sizes) => sizes,
        };
        if sizes.len() != outputs {
            let got = sizes.len();
            return refused(format!("split: expected {outputs} sizes, got {got}"));
        }
        let total = sizes.iter().fold(Dim::Known(0), |sum, size| sum.plus(size));
        if let (Some(total), Some(dim)) = (total.known(), dim.known())
            && total != dim
        {
            return refused(format!(
                "split: expected sizes that add up to {dim}, got {total}"
            ));
        }
        Ok(sizes)
    }
}

fn split(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.dtype(0);
    let axis = cx.attributes.int_or("axis", 0)?;
    let outputs = cx.output_count();
    if let Some(count) = cx.attributes.int("num_outputs")?
        && usize::try_from(count) != Ok(outputs)
    {
        return refused(format!("num_outputs: expected {outputs}, got {count}"));
    }
    let Some(shape) = cx.shape(0) else {
        for index in 0..outputs {
            cx.set(index, dtype, None);
        }
        return Ok(());
    };
    let axis = axis_of(axis, shape.len())?;
    let uneven = cx.opset >= 18;
    let extents = Parts::read(cx)?.extents(&shape[axis], outputs, uneven)?;
    let sizes: Option<Vec<i64>> = extents
        .iter()
        .map(|extent| i64::try_from(extent.known()?).ok())
        .collect();
    if let (1, Some(sizes)) = (shape.len(), sizes) {
        let values = arithmetic::split(cx, Some(&sizes), uneven).unwrap_or_default();
        for (index, value) in values.into_iter().enumerate() {
            cx.set_value(index, Some(value));
        }
    }
    for (index, extent) in extents.into_iter().enumerate() {
        let mut dims = shape.to_vec();
        dims[axis] = extent;
        cx.set(index, dtype, Some(dims));
    }
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] =
    &[
        op("Split", &[1, 2, 11, 13, 18], Arity::between(1, 2), split)
            .outputs(MANY)
            .attributes(&[
                Attr::int("axis"),
                Attr::int("num_outputs"),
                Attr::ints("split"),
            ]),
    ];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_add_up() {
        assert_eq!(split_sizes(7, None, 3, true).unwrap()[..], [3, 3, 1]);
        assert_eq!(split_sizes(2, None, 4, true).unwrap()[..], [1, 1, 0, 0]);
        assert!(split_sizes(7, None, 3, false).is_err());
        assert_eq!(
            split_sizes(7, Some(&[0, 5, 2]), 3, false).unwrap()[..],
            [0, 5, 2]
        );
        assert!(split_sizes(7, Some(&[8, -1]), 2, false).is_err());
        assert!(split_sizes(7, Some(&[i64::MAX, i64::MAX, 9]), 3, false).is_err());
        assert!(split_sizes(7, None, 0, true).is_err());
    }
}
