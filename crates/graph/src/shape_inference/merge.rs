//! One type out of two that speak of the same value.

use crate::types::{Dim, TensorType, ValueType};

/// Where two types differ, as text.
pub(super) type Difference = String;

/// The type that says what both say, in the words of the declared one.
///
/// # Errors
/// When no value is of both types.
pub(super) fn merge(declared: &ValueType, inferred: &ValueType) -> Result<ValueType, Difference> {
    use ValueType::{Map, Opaque, Optional, Sequence, SparseTensor, Struct, Tensor, Unset};
    let nested = |a: &ValueType, b: &ValueType| merge(a, b).map(Box::new);
    match (declared, inferred) {
        (Unset, other) | (other, Unset) => Ok(other.clone()),
        (Tensor(a), Tensor(b)) => merge_tensors(a, b).map(Tensor),
        (SparseTensor(a), SparseTensor(b)) => merge_tensors(a, b).map(SparseTensor),
        (Sequence(a), Sequence(b)) => Ok(Sequence(nested(a, b)?)),
        (Optional(a), Optional(b)) => Ok(Optional(nested(a, b)?)),
        (Map { key: a, value: x }, Map { key: b, value: y }) => match (a, b) {
            (Some(a), Some(b)) if a != b => Err(format!("keys of {a} and of {b}")),
            _ => Ok(Map {
                key: a.or(*b),
                value: nested(x, y)?,
            }),
        },
        // Whether two declarations of structs are compatible is a question to the catalogue; the declared one stays.
        (Struct(_), Struct(_)) => Ok(declared.clone()),
        (Opaque { .. }, Opaque { .. }) if declared == inferred => Ok(declared.clone()),
        _ => Err(format!("{} and {}", declared.kind(), inferred.kind())),
    }
}

fn merge_tensors(declared: &TensorType, inferred: &TensorType) -> Result<TensorType, Difference> {
    let dtype = match (declared.dtype, inferred.dtype) {
        (Some(a), Some(b)) if a != b => return Err(format!("elements of {a} and of {b}")),
        (a, b) => a.or(b),
    };
    let shape = match (&declared.shape, &inferred.shape) {
        (None, other) | (other, None) => other.clone(),
        (Some(a), Some(b)) if a.len() != b.len() => {
            return Err(format!("{} axes and {}", a.len(), b.len()));
        }
        (Some(a), Some(b)) => {
            let dims = a.iter().zip(b).enumerate().map(|(axis, (a, b))| {
                merge_dims(a, b).ok_or_else(|| format!("axis {axis} is {a} and {b}"))
            });
            Some(dims.collect::<Result<_, _>>()?)
        }
    };
    Ok(TensorType { dtype, shape })
}

/// The dimension that both are; `None` when they cannot be equal.
fn merge_dims(declared: &Dim, inferred: &Dim) -> Option<Dim> {
    match (declared, inferred) {
        (Dim::Unknown, other) | (other, Dim::Unknown) => Some(other.clone()),
        (Dim::Known(a), Dim::Known(b)) => (a == b).then(|| declared.clone()),
        (Dim::Known(_), Dim::Symbol(_)) => Some(declared.clone()),
        (Dim::Symbol(_), Dim::Known(_)) => Some(inferred.clone()),
        // `n + 1` is never `n`; of `n` and `m` nothing is known, and the declared name stays.
        (Dim::Symbol(_), Dim::Symbol(_)) => {
            let difference = declared.expr()?.minus(&inferred.expr()?);
            match difference.and_then(|difference| difference.constant()) {
                Some(constant) if constant != 0 => None,
                _ => Some(declared.clone()),
            }
        }
    }
}

/// The most definite type of which values of both types are: what two branches give.
pub(crate) fn common(a: &ValueType, b: &ValueType) -> Option<ValueType> {
    use ValueType::{Map, Optional, Sequence, SparseTensor, Tensor};
    let nested = |a: &ValueType, b: &ValueType| common(a, b).map(Box::new);
    match (a, b) {
        (Tensor(a), Tensor(b)) => common_tensors(a, b).map(Tensor),
        (SparseTensor(a), SparseTensor(b)) => common_tensors(a, b).map(SparseTensor),
        (Sequence(a), Sequence(b)) => Some(Sequence(nested(a, b)?)),
        (Optional(a), Optional(b)) => Some(Optional(nested(a, b)?)),
        (Map { key: k, value: a }, Map { key: l, value: b }) if k == l => Some(Map {
            key: *k,
            value: nested(a, b)?,
        }),
        (a, b) => (a == b).then(|| a.clone()),
    }
}

fn common_tensors(a: &TensorType, b: &TensorType) -> Option<TensorType> {
    if a.dtype.is_some() && b.dtype.is_some() && a.dtype != b.dtype {
        return None;
    }
    let shape = match (&a.shape, &b.shape) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            let same = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
            Some(a.iter().zip(b).map(same).collect())
        }
        _ => None,
    };
    let dtype = a.dtype.filter(|_| a.dtype == b.dtype);
    Some(TensorType { dtype, shape })
}
