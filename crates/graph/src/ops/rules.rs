//! Rules that operators of several families share, and the checks that most rules begin with.

use crate::attributes::AttributeError;
use crate::schema::{InferError, Inference};
use crate::shape_inference::{ShapeValue, is_made};
use crate::types::Dim;
use refeed_values::DType;

/// One output of the first input's type and shape; further inputs have its element type.
pub(super) fn same(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_dtype(0..cx.input_count())?;
    cx.same_as_input();
    Ok(())
}

/// Operands that broadcast, one output of their common type. Before opset 7 the first operand gave the shape.
pub(super) fn broadcast(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype(0..cx.input_count())?;
    let shape = operand_shape(cx, 7)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The shape of operands that broadcast to each other from opset `since` on, and to the first one before.
pub(super) fn operand_shape(
    cx: &Inference<'_>,
    since: i64,
) -> Result<Option<Vec<Dim>>, InferError> {
    if cx.opset < since {
        return Ok(cx.shape(0).map(<[Dim]>::to_vec));
    }
    cx.broadcast(0..cx.input_count())
}

/// Two shapes broadcast to each other.
///
/// # Errors
/// When two known extents never can.
pub(super) fn broadcast_shapes(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let rank = a.len().max(b.len());
    let at = |shape: &[Dim], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own].clone(),
        None => Dim::Known(1),
    };
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => Ok(x),
            (Dim::Known(1), other) | (other, Dim::Known(1)) => Ok(other),
            (Dim::Known(x), Dim::Known(y)) => {
                refused(format!("axis {axis}: {x} does not broadcast with {y}"))
            }
            // One is a number above 1: the other can only be that or 1.
            (Dim::Known(n), _) | (_, Dim::Known(n)) => Ok(Dim::Known(n)),
            _ => Ok(Dim::Unknown),
        })
        .collect()
}

/// An error about shapes.
pub(super) fn refused<T>(text: String) -> Result<T, InferError> {
    Err(InferError::Shape(text))
}

/// The shape of an input that must have a certain rank, when it is known.
pub(super) fn ranked<'a>(
    cx: &Inference<'a>,
    index: usize,
    rank: usize,
) -> Result<Option<&'a [Dim]>, InferError> {
    match cx.shape(index) {
        Some(shape) if shape.len() != rank => refused(format!(
            "input {index}: expected {rank} axes, got {}",
            shape.len()
        )),
        shape => Ok(shape),
    }
}

/// The shape of an input that must have a certain rank at least, when it is known.
pub(super) fn ranked_from<'a>(
    cx: &Inference<'a>,
    index: usize,
    rank: usize,
) -> Result<Option<&'a [Dim]>, InferError> {
    match cx.shape(index) {
        Some(shape) if shape.len() < rank => refused(format!(
            "input {index}: expected at least {rank} axes, got {}",
            shape.len()
        )),
        shape => Ok(shape),
    }
}

/// # Errors
/// When an input is known to have another element type than those accepted.
pub(super) fn expect_dtype(
    cx: &Inference<'_>,
    index: usize,
    accepted: &[DType],
) -> Result<(), InferError> {
    match cx.dtype(index) {
        Some(got) if !accepted.contains(&got) => {
            let names: Vec<&str> = accepted.iter().map(|dtype| dtype.name()).collect();
            Err(InferError::DType {
                index,
                expected: names.join(" or "),
                got,
            })
        }
        _ => Ok(()),
    }
}

/// Two descriptions of one extent as the more exact one.
///
/// # Errors
/// When they are different numbers; `what` names the extent.
pub(super) fn merge(a: &Dim, b: &Dim, what: &str) -> Result<Dim, InferError> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) if a != b => {
            refused(format!("{what} is {a} here and {b} there"))
        }
        (Dim::Known(_), _) | (_, Dim::Unknown) => Ok(a.clone()),
        (_, Dim::Known(_)) | (Dim::Unknown, _) => Ok(b.clone()),
        // A name that the model has says more than one that was made for what is not known.
        (Dim::Symbol(a), Dim::Symbol(_)) if is_made(a) => Ok(b.clone()),
        _ => Ok(a.clone()),
    }
}

/// The shape of inputs that must have one shape, as exactly as all of them together say it.
pub(super) fn common_shape(
    cx: &Inference<'_>,
    indices: impl IntoIterator<Item = usize>,
) -> Result<Option<Vec<Dim>>, InferError> {
    let mut held: Option<Vec<Dim>> = None;
    for index in indices {
        let Some(shape) = cx.shape(index) else {
            continue;
        };
        held = Some(match held {
            None => shape.to_vec(),
            Some(held) if held.len() != shape.len() => {
                let (got, want) = (shape.len(), held.len());
                return refused(format!("input {index}: expected {want} axes, got {got}"));
            }
            Some(held) => held
                .iter()
                .zip(shape)
                .enumerate()
                .map(|(axis, (a, b))| merge(a, b, &format!("axis {axis} of input {index}")))
                .collect::<Result<_, _>>()?,
        });
    }
    Ok(held)
}

/// The extent that an input of one element says: unknown when it is not known.
///
/// # Errors
/// When it is negative; `what` says what it is.
pub(super) fn input_extent(
    cx: &Inference<'_>,
    index: usize,
    what: &'static str,
) -> Result<Dim, InferError> {
    let value = cx.value(index);
    match value.as_ref().and_then(ShapeValue::single) {
        None => Ok(Dim::Unknown),
        Some(held) => match held.constant() {
            None => Ok(Dim::from_expr(held)),
            number => extent(number, what),
        },
    }
}

/// A number of a model as an extent: unknown when there is none.
///
/// # Errors
/// When it is negative; `what` says what it is.
pub(super) fn extent(number: Option<i64>, what: &'static str) -> Result<Dim, InferError> {
    match number {
        None => Ok(Dim::Unknown),
        Some(n) => usize::try_from(n).map(Dim::Known).map_err(|_| {
            InferError::from(AttributeError::Value {
                name: what,
                expected: "a number of at least 0",
                got: n.to_string(),
            })
        }),
    }
}

/// The element type that an attribute names, or the default when it is absent.
///
/// # Errors
/// When it names no element type.
pub(super) fn dtype_attribute(
    cx: &Inference<'_>,
    name: &'static str,
    default: Option<DType>,
) -> Result<Option<DType>, InferError> {
    match cx.attributes.int(name)? {
        None => Ok(default),
        Some(number) => named_dtype(name, number).map(Some),
    }
}

/// The element type of a number in an attribute.
///
/// # Errors
/// When it is the number of none.
pub(super) fn named_dtype(name: &'static str, number: i64) -> Result<DType, InferError> {
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    dtype.ok_or_else(|| {
        InferError::from(AttributeError::Value {
            name,
            expected: "the number of an element type",
            got: number.to_string(),
        })
    })
}

/// A constant FLOAT input as numbers.
pub(super) fn constant_floats(cx: &Inference<'_>, index: usize) -> Option<Vec<f32>> {
    Some(cx.constant(index)?.view::<f32>().ok()?.to_vec())
}

/// A constant integer input of one element.
pub(super) fn constant_int(cx: &Inference<'_>, index: usize) -> Option<i64> {
    match cx.constant_ints(index)?[..] {
        [value] => Some(value),
        _ => None,
    }
}
