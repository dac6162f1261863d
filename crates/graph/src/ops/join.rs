//! The type that several values have in common: elements of a sequence, results of branches, states of a loop.

use crate::shape_inference::common;
use crate::types::{TensorType, ValueType};

/// The same kind of value, of which nothing is said about shapes.
pub(super) fn shapeless(ty: &ValueType) -> ValueType {
    filled(&ValueType::Unset, ty)
}

/// The most definite type of which both values are, given that both are of one kind with one element type: what one of
/// them does not say of these, the other does. `None` when they contradict each other.
pub(super) fn join(a: &ValueType, b: &ValueType) -> Option<ValueType> {
    common(&filled(a, b), &filled(b, a))
}

/// A type with kind and element type taken from another one where it says nothing of them.
///
/// Types are nested at most [`crate::types::TYPE_DEPTH_LIMIT`] deep.
fn filled(ty: &ValueType, other: &ValueType) -> ValueType {
    use ValueType::{Map, Optional, Sequence, SparseTensor, Tensor, Unset};
    let tensor = |own: &TensorType, other: &TensorType| TensorType {
        dtype: own.dtype.or(other.dtype),
        shape: own.shape.clone(),
    };
    let nothing = TensorType::default();
    match (ty, other) {
        (Tensor(own), Tensor(other)) => Tensor(tensor(own, other)),
        (SparseTensor(own), SparseTensor(other)) => SparseTensor(tensor(own, other)),
        (Sequence(own), Sequence(other)) => Sequence(Box::new(filled(own, other))),
        (Optional(own), Optional(other)) => Optional(Box::new(filled(own, other))),
        (Map { key, value: own }, Map { key: k, value }) => Map {
            key: key.or(*k),
            value: Box::new(filled(own, value)),
        },
        (Unset, Tensor(other)) => Tensor(tensor(&nothing, other)),
        (Unset, SparseTensor(other)) => SparseTensor(tensor(&nothing, other)),
        (Unset, Sequence(other)) => Sequence(Box::new(filled(&Unset, other))),
        (Unset, Optional(other)) => Optional(Box::new(filled(&Unset, other))),
        (Unset, Map { key, value }) => Map {
            key: *key,
            value: Box::new(filled(&Unset, value)),
        },
        (Unset, other) => other.clone(),
        (own, _) => own.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Dim;
    use refeed_values::DType;

    fn tensor(dtype: Option<DType>, shape: Option<&[Dim]>) -> ValueType {
        ValueType::Tensor(TensorType {
            dtype,
            shape: shape.map(<[Dim]>::to_vec),
        })
    }

    #[test]
    fn what_one_side_does_not_say_the_other_does() {
        use Dim::{Known, Unknown};
        let float = Some(DType::Float);
        let a = tensor(float, Some(&[Known(2), Known(3)]));
        let b = tensor(None, Some(&[Known(2), Known(5)]));
        assert_eq!(
            join(&a, &b),
            Some(tensor(float, Some(&[Known(2), Unknown])))
        );
        assert_eq!(join(&b, &ValueType::Unset), Some(tensor(None, None)));
        assert_eq!(join(&ValueType::Unset, &a), Some(tensor(float, None)));
        let longer = tensor(float, Some(&[Known(2)]));
        assert_eq!(join(&a, &longer), Some(tensor(float, None)));
        assert_eq!(join(&a, &tensor(Some(DType::Int64), None)), None);
        let (x, y) = (
            ValueType::sequence_of(a.clone()),
            ValueType::sequence_of(ValueType::Unset),
        );
        assert_eq!(join(&x, &y), Some(ValueType::sequence_of(shapeless(&a))));
        assert_eq!(join(&x, &a), None);
    }
}
