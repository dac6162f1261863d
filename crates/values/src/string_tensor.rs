//! Tensors of STRING: an immutable text for each element.

use crate::layout::Dims;
use crate::{ExtentError, MAX_RANK, TensorError};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Debug)]
struct Strings {
    shape: Dims,
    elements: Box<[Bytes]>,
    bytes: usize,
}

/// A tensor of texts. Cloning shares them.
///
/// Elements are bytes, as ONNX has them; by convention they are UTF-8. Texts are values of feeds, results and constants.
/// A state never keeps them.
///
/// ```
/// use refeed_values::StringTensor;
/// let names = StringTensor::new(&[2], ["past", "present"].map(|name| name.as_bytes().to_vec()))?;
/// assert_eq!(names.text(1).as_deref(), Some("present"));
/// # Ok::<(), refeed_values::TensorError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StringTensor(Arc<Strings>);

impl StringTensor {
    /// Joins a shape and texts in row-major order.
    ///
    /// # Errors
    /// When the shape has other than this number of elements, or too many axes.
    pub fn new<B: Into<Bytes>>(
        shape: &[usize],
        elements: impl IntoIterator<Item = B>,
    ) -> Result<StringTensor, TensorError> {
        let elements: Box<[Bytes]> = elements.into_iter().map(Into::into).collect();
        if shape.len() > MAX_RANK {
            return Err(ExtentError::Rank {
                rank: shape.len(),
                most: MAX_RANK,
            }
            .into());
        }
        let count = shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
        let count = match shape.contains(&0) {
            true => Some(0),
            false => count,
        };
        if count != Some(elements.len()) {
            return Err(TensorError::ElementCount {
                shape: shape.to_vec(),
                elements: elements.len(),
            });
        }
        let bytes = elements.iter().map(Bytes::len);
        Ok(StringTensor(Arc::new(Strings {
            bytes: bytes.fold(0, usize::saturating_add),
            shape: Dims::from_slice(shape),
            elements,
        })))
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The texts, in row-major order.
    pub fn elements(&self) -> &[Bytes] {
        &self.0.elements
    }

    /// One text, with what is not UTF-8 replaced; nothing beyond the end.
    pub fn text(&self, index: usize) -> Option<Cow<'_, str>> {
        self.0
            .elements
            .get(index)
            .map(|text| String::from_utf8_lossy(text))
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Whether both are one tensor: clones of each other.
    pub fn same(&self, other: &StringTensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A copy with texts of its own.
    pub(crate) fn deep_copy(&self) -> StringTensor {
        let elements = self.0.elements.iter();
        StringTensor(Arc::new(Strings {
            shape: self.0.shape.clone(),
            elements: elements.map(|text| Bytes::copy_from_slice(text)).collect(),
            bytes: self.0.bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allocator, RuntimeSequence, RuntimeValue, StructValue, ValueError};

    fn texts(shape: &[usize], texts: &[&str]) -> Result<StringTensor, TensorError> {
        StringTensor::new(shape, texts.iter().map(|text| text.as_bytes().to_vec()))
    }

    #[test]
    fn a_shape_has_as_many_texts() {
        let value = texts(&[2, 3], &["a", "", "ccc", "d", "é", "f"]).unwrap();
        assert_eq!((value.shape(), value.bytes()), (&[2, 3][..], 8));
        assert_eq!((value.text(4).as_deref(), value.text(6)), (Some("é"), None));
        assert!(texts(&[], &["scalar"]).is_ok() && texts(&[0, 9], &[]).is_ok());
        for (shape, count) in [(&[2, 3][..], 5), (&[], 0), (&[0], 1), (&[usize::MAX, 2], 6)] {
            let refused = texts(shape, &vec!["x"; count]).unwrap_err();
            assert!(
                matches!(refused, TensorError::ElementCount { .. }),
                "{refused}"
            );
        }
        assert!(texts(&[usize::MAX, usize::MAX, 0], &[]).is_ok());
        let refused = texts(&[1; 99], &["x"]).unwrap_err();
        assert!(matches!(refused, TensorError::Extent(_)), "{refused}");
    }

    /// Rule 3.8.5; S079.
    #[test]
    fn texts_are_not_retained_wherever_they_stand() {
        let text = RuntimeValue::from(texts(&[1], &["x"]).unwrap());
        let inside = RuntimeSequence::from_values([text.clone(), text.clone()]).unwrap();
        let deep = StructValue::new([("a", RuntimeValue::from(inside.clone()))]).unwrap();
        for value in [text.clone(), inside.into(), deep.into()] {
            assert!(value.holds_strings());
            assert_eq!(value.retain_storage().unwrap_err(), ValueError::Strings);
        }
        let copy = text.deep_copy(&Allocator::default()).unwrap();
        let (RuntimeValue::Strings(old), RuntimeValue::Strings(new)) = (&text, &copy) else {
            panic!("strings stay strings");
        };
        assert_eq!(old.elements(), new.elements());
        assert_ne!(old.elements()[0].as_ptr(), new.elements()[0].as_ptr());
        assert!(!text.same(&copy) && text.same(&text.borrow_view()));
    }
}
