//! Dense runs of a tensor that keep its memory themselves, for whoever prepares a tensor once and reads it often.
//!
//! # The argument for the unsafe code of this file
//! A [`Slabs`] is made from a [`View`](crate::View) of a tensor, whose reached elements lie inside its allocation, aligned
//! and initialised, and are not written while a handle to them exists (see `tensor`). It keeps the tensor's memory handle,
//! so that stays so for its own life. References are made per slab only, never over the gap between two: that may be room
//! which an append is writing.

use crate::{Buffer, Element, Tensor};

/// Equally long dense runs of `T`, at equal distances.
///
/// ```
/// use refeed_values::{Slabs, Tensor};
/// let tensor = Tensor::from_slice(&[3, 2, 2], &[0f32; 12])?;
/// let slabs = Slabs::<f32>::of(&tensor).ok_or("strided")?;
/// assert_eq!((slabs.count(), slabs.get(2).map(<[f32]>::len), slabs.get(3)), (3, Some(4), None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Slabs<T> {
    base: *const T,
    count: usize,
    /// Elements from one slab to the next.
    stride: isize,
    len: usize,
    /// Keeps the elements.
    memory: Buffer,
}

impl<T> Clone for Slabs<T> {
    fn clone(&self) -> Self {
        Slabs {
            memory: self.memory.clone(),
            ..*self
        }
    }
}

// SAFETY: slabs are shared references to `T` in disguise, beside a handle that is `Send` and `Sync`.
unsafe impl<T: Sync> Send for Slabs<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Sync> Sync for Slabs<T> {}

impl<T: Element> Slabs<T> {
    /// The last two axes as a slab for each position of the axes before them, in row-major order. `None` when the tensor is
    /// of another type or not aligned for it, has less than two axes or no element, when its last two axes are not one run,
    /// or when the slabs are not at equal distances.
    pub fn of(tensor: &Tensor) -> Option<Slabs<T>> {
        let view = tensor.view::<T>().ok()?;
        let (shape, strides) = (view.shape(), view.strides());
        let outer = shape.len().checked_sub(2)?;
        if view.is_empty() {
            return None;
        }
        let origin = [0; crate::MAX_RANK];
        let len = view.block(origin.get(..outer)?)?.len();
        // Of the axes before, the innermost with more than one position says the distance; each further one must continue it.
        let (mut count, mut stride) = (1usize, len as isize);
        for axis in (0..outer).rev().filter(|&axis| shape[axis] > 1) {
            match count {
                1 => stride = strides[axis],
                _ if strides[axis] == stride.checked_mul(count as isize)? => {}
                _ => return None,
            }
            count *= shape[axis];
        }
        Some(Slabs {
            base: view.as_ptr(),
            count,
            stride,
            len,
            memory: tensor.buffer().clone(),
        })
    }

    /// A dense tensor cut into `count` slabs. `None` as for [`Slabs::of`], and when they would not be of one length.
    pub fn cut(tensor: &Tensor, count: usize) -> Option<Slabs<T>> {
        let view = tensor.view::<T>().ok()?;
        let all = view.as_slice()?;
        if count == 0 || all.is_empty() || !all.len().is_multiple_of(count) {
            return None;
        }
        let len = all.len() / count;
        Some(Slabs {
            base: all.as_ptr(),
            count,
            stride: len as isize,
            len,
            memory: tensor.buffer().clone(),
        })
    }

    /// Number of slabs.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A slab.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[T]> {
        // SAFETY: `of` and `cut` checked that a view reaches `len` elements in a row from each of `count` places `stride`
        // apart, and the memory is kept.
        (index < self.count).then(|| unsafe {
            let first = self.base.offset(index as isize * self.stride);
            std::slice::from_raw_parts(first, self.len)
        })
    }

    /// The bytes of a slab.
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.get(index).map(bytemuck::cast_slice)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{DType, Layout};

    fn numbers(shape: &[usize]) -> Tensor {
        let count = shape.iter().product();
        let all: Vec<f32> = (0..count).map(|i: usize| i as f32).collect();
        Tensor::from_slice(shape, &all).unwrap()
    }

    fn firsts(slabs: &Slabs<f32>) -> Vec<f32> {
        (0..slabs.count())
            .map(|i| slabs.get(i).unwrap()[0])
            .collect()
    }

    #[test]
    fn dense_tensors_and_parts_of_capacity() {
        let whole = numbers(&[2, 3, 4, 5]);
        let slabs = Slabs::<f32>::of(&whole).unwrap();
        assert_eq!(firsts(&slabs), [0., 20., 40., 60., 80., 100.]);
        // Two of four rows are there.
        let layout = Layout::strided(&[2, 3, 2, 5], &[60, 20, 5, 1]).unwrap();
        let part = whole.with_layout(layout, 5).unwrap();
        let slabs = Slabs::<f32>::of(&part).unwrap();
        assert_eq!(firsts(&slabs), [5., 25., 45., 65., 85., 105.]);
        assert_eq!(slabs.get(1).unwrap().len(), 10);
        assert_eq!(slabs.bytes(1).unwrap()[..4], 25f32.to_ne_bytes());
        assert!(slabs.bytes(6).is_none());
        assert!(slabs.get(6).is_none());
        drop((whole, part));
        assert_eq!(slabs.get(5).unwrap()[9], 114.);
    }

    #[test]
    fn other_layouts_have_none() {
        let whole = numbers(&[2, 3, 4, 5]);
        for (shape, strides) in [
            ([3, 2, 4, 5], [20, 60, 5, 1]),  // turned
            ([2, 3, 5, 4], [60, 20, 1, 5]),  // turned inside
            ([2, 3, 4, 2], [60, 20, 5, 1]),  // part of each row
            ([2, 3, 2, 5], [60, 20, 10, 1]), // every other row
        ] {
            let layout = Layout::strided(&shape, &strides).unwrap();
            let tensor = whole.with_layout(layout, 0).unwrap();
            let found = Slabs::<f32>::of(&tensor);
            assert!(found.is_none(), "{shape:?} {strides:?}");
        }
        assert!(Slabs::<i64>::of(&whole).is_none());
        assert!(Slabs::<f32>::of(&numbers(&[0, 3])).is_none());
        assert!(Slabs::<f32>::of(&numbers(&[3])).is_none());
    }

    #[test]
    fn one_position_needs_no_distance() {
        let whole = numbers(&[1, 1, 4, 5]);
        let layout = Layout::strided(&[1, 1, 3, 5], &[77, -3, 5, 1]).unwrap();
        let slabs = Slabs::<f32>::of(&whole.with_layout(layout, 0).unwrap()).unwrap();
        assert_eq!((slabs.count(), slabs.get(0).unwrap().len()), (1, 15));
        let alone = Slabs::<f32>::of(&numbers(&[4, 5])).unwrap();
        assert_eq!((alone.count(), alone.get(0).unwrap().len()), (1, 20));
    }

    #[test]
    fn bytes_are_cut() {
        let bytes = Tensor::from_slice(&[6], &[0u8, 1, 2, 3, 4, 5]).unwrap();
        assert_eq!(bytes.dtype(), DType::Uint8);
        let slabs = Slabs::<u8>::cut(&bytes, 3).unwrap();
        assert_eq!(slabs.get(2), Some(&[4u8, 5][..]));
        assert!(Slabs::<u8>::cut(&bytes, 4).is_none());
        assert!(Slabs::<u8>::cut(&bytes, 0).is_none());
    }
}
