//! Adapters of operators on texts. Texts are values of their own, which other operators refuse.

use crate::kernel::{Invocation, Kernel, KernelEntry, Kinds, OpError};
use refeed_proto::Bytes;
use refeed_values::layout::{Layout, broadcast_shape};
use refeed_values::{AllocError, Extent, RuntimeValue, StringTensor, TensorError};

/// An input that must be texts.
fn texts<'a>(call: &Invocation<'a>, index: usize) -> Result<&'a StringTensor, OpError> {
    match call.require_value(index)? {
        RuntimeValue::Strings(strings) => Ok(strings),
        other => Err(OpError::Kind {
            index,
            expected: "a tensor of texts",
            got: other.kind(),
        }),
    }
}

/// The position of each element of a broadcast tensor, in row-major order of the result.
fn positions(shape: &[usize], result: &[usize]) -> Option<impl Iterator<Item = usize> + Clone> {
    let layout = Layout::contiguous(shape).broadcast(result)?;
    let (dims, strides) = (result.to_vec(), layout.strides().to_vec());
    let count: usize = dims.iter().product();
    Some((0..count).map(move |number| {
        let axes = dims.iter().zip(&strides).rev();
        let (_, position) = axes.fold((number, 0), |(left, position), (&dim, &stride)| {
            (left / dim, position + left % dim * stride.unsigned_abs())
        });
        position
    }))
}

/// Joins texts element by element, with the broadcasting of NumPy.
struct StringConcat;

impl Kernel for StringConcat {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (x, y) = (texts(call, 0)?, texts(call, 1)?);
        let unfit = || {
            let (x, y) = (x.shape(), y.shape());
            OpError::Shape(format!("shapes {x:?} and {y:?} do not broadcast"))
        };
        let shape = broadcast_shape([x.shape(), y.shape()]).ok_or_else(unfit)?;
        // As many elements as bytes would be: what does not fit there does not fit here.
        let count = Extent::new(refeed_values::DType::Uint8, &shape).map_err(TensorError::from)?;
        let front = positions(x.shape(), &shape).ok_or_else(unfit)?;
        let back = positions(y.shape(), &shape).ok_or_else(unfit)?;
        let pairs = front.zip(back).map(|(a, b)| {
            let pair = x.elements().get(a).zip(y.elements().get(b));
            pair.unwrap_or((&EMPTY, &EMPTY))
        });
        // All texts lie in one buffer, so that one request says whether there is memory for them.
        let lengths = pairs.clone().map(|(a, b)| a.len().saturating_add(b.len()));
        let total = lengths.clone().fold(0, usize::saturating_add);
        let refused = |requested| TensorError::from(AllocError::Exhausted { requested });
        let mut joined: Vec<u8> = Vec::new();
        joined
            .try_reserve_exact(total)
            .map_err(|_| refused(total))?;
        let mut made: Vec<Bytes> = Vec::new();
        let elements = count.elements();
        let headers = elements.saturating_mul(size_of::<Bytes>());
        made.try_reserve_exact(elements)
            .map_err(|_| refused(headers))?;
        for (a, b) in pairs {
            joined.extend_from_slice(a);
            joined.extend_from_slice(b);
        }
        let joined = Bytes::from(joined);
        let mut from = 0;
        made.extend(lengths.map(|length| {
            let text = joined.slice(from..from + length);
            from += length;
            text
        }));
        call.set(0, StringTensor::new(&shape, made)?);
        Ok(())
    }
}

static EMPTY: Bytes = Bytes::new();

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "",
    op_type: "StringConcat",
    types: &[],
    build: |_| Ok(Box::new(StringConcat)),
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_numpy() {
        let of = |shape: &[usize], result: &[usize]| -> Vec<usize> {
            positions(shape, result).unwrap().collect()
        };
        assert_eq!(of(&[2, 3], &[2, 3]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of(&[3], &[2, 3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(of(&[2, 1], &[2, 3]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(of(&[], &[2, 1]), [0, 0]);
        assert_eq!(of(&[], &[]), [0]);
        assert_eq!(of(&[1, 3], &[0, 3]), []);
        assert!(positions(&[2], &[3]).is_none());
    }
}
