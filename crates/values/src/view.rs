//! Borrowed strided views.
//!
//! # The argument for the unsafe code of this file
//! A [`View`] is a base pointer, a layout and a lifetime. It is only made by [`crate::Tensor::view`] (which checked
//! that every element the layout reaches lies inside the buffer, aligned, and initialised) and by the methods here,
//! which only ever make the reached set smaller. References are formed per element or per contiguous run of elements
//! of the view, never over a gap: between two heads of a cache lies capacity that an append may be writing on another
//! thread (`crate::append`), while the elements of a view lie below the watermark and never change.

use crate::Element;
use crate::layout::{Dims, Layout};
use std::marker::PhantomData;

/// A borrowed, strided, read-only tensor of `T`.
#[derive(Debug)]
pub struct View<'a, T> {
    base: *const T,
    layout: Layout,
    lifetime: PhantomData<&'a [T]>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        View {
            base: self.base,
            layout: self.layout.clone(),
            lifetime: PhantomData,
        }
    }
}

// SAFETY: a view is a bundle of shared references to `T` in disguise.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Sync> Sync for View<'_, T> {}

impl<'a, T: Element> View<'a, T> {
    /// # Safety
    /// For the whole of `'a`, every element that `layout` reaches from `base` is inside one allocation, aligned,
    /// initialised, and not written.
    pub(crate) unsafe fn from_raw(base: *const T, layout: Layout) -> Self {
        View {
            base,
            layout,
            lifetime: PhantomData,
        }
    }

    /// A dense view of a slice; `None` when the shape does not have exactly its elements.
    pub fn from_slice(data: &'a [T], shape: &[usize]) -> Option<Self> {
        let extent = crate::Extent::new(T::DTYPE, shape).ok()?;
        // The dense layout reaches exactly the elements of `data`.
        (extent.elements() == data.len()).then(|| View {
            base: data.as_ptr(),
            layout: Layout::contiguous(shape),
            lifetime: PhantomData,
        })
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[isize] {
        self.layout.strides()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.layout.elements()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of element zero; dangling when the view is empty.
    pub fn as_ptr(&self) -> *const T {
        self.base
    }

    /// All elements as one slice, when they are one run in row-major order.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if self.is_empty() {
            return Some(&[]);
        }
        // SAFETY: the layout is dense, so the `len` elements from `base` are exactly those of the view.
        self.layout
            .is_contiguous()
            .then(|| unsafe { std::slice::from_raw_parts(self.base, self.len()) })
    }

    /// The element at `index`, or `None` when it is out of range.
    pub fn get(&self, index: &[usize]) -> Option<T> {
        let offset = self.offset(index)?;
        // SAFETY: `index` is in range, so the element is reached by the layout.
        Some(unsafe { *self.base.offset(offset) })
    }

    fn offset(&self, index: &[usize]) -> Option<isize> {
        if index.len() != self.rank() {
            return None;
        }
        let mut offset = 0isize;
        for ((&i, &dim), &stride) in index.iter().zip(self.shape()).zip(self.strides()) {
            if i >= dim {
                return None;
            }
            offset += i as isize * stride;
        }
        Some(offset)
    }

    /// The last axis at the given outer index (one entry fewer than the rank); `None` when out of range or rank 0.
    pub fn lane(&self, outer: &[usize]) -> Option<Lane<'a, T>> {
        let last = self.rank().checked_sub(1)?;
        if outer.len() != last {
            return None;
        }
        let mut offset = 0isize;
        for (axis, &i) in outer.iter().enumerate() {
            if i >= self.shape()[axis] {
                return None;
            }
            offset += i as isize * self.strides()[axis];
        }
        let (len, stride) = (self.shape()[last], self.strides()[last]);
        let base = if len == 0 {
            self.base
        } else {
            // SAFETY: with an in-range outer index and `len > 0`, the offset is that of a reached element.
            unsafe { self.base.offset(offset) }
        };
        Some(Lane {
            base,
            len,
            stride,
            lifetime: PhantomData,
        })
    }

    /// The last two axes at the given outer index (two entries fewer than the rank) as one slice, when they are one run;
    /// `None` otherwise, and when out of range.
    pub fn block(&self, outer: &[usize]) -> Option<&'a [T]> {
        let last = self.rank().checked_sub(2)?;
        if outer.len() != last {
            return None;
        }
        let mut offset = 0isize;
        for ((&i, &dim), &stride) in outer.iter().zip(self.shape()).zip(self.strides()) {
            if i >= dim {
                return None;
            }
            offset += i as isize * stride;
        }
        let (rows, width) = (self.shape()[last], self.shape()[last + 1]);
        let strides = &self.strides()[last..];
        if rows == 0 || width == 0 {
            return Some(&[]);
        }
        let dense = (width == 1 || strides[1] == 1) && (rows == 1 || strides[0] == width as isize);
        // SAFETY: the outer index is in range and no extent is zero, so the layout reaches the element at `offset`; the
        // strides say that the `rows * width` elements from there on are those of the last two axes, each reached.
        dense.then(|| unsafe { std::slice::from_raw_parts(self.base.offset(offset), rows * width) })
    }

    /// All lanes of the last axis, in row-major order of the outer axes. A rank-0 view has one lane of one element.
    pub fn lanes(&self) -> Lanes<'a, T> {
        let rank = self.rank();
        let (outer, len, stride) = match rank.checked_sub(1) {
            Some(last) => (last, self.shape()[last], self.strides()[last]),
            None => (0, 1, 1),
        };
        Lanes::new(self.base, self.layout.clone(), outer, len, stride)
    }

    /// Maximal dense runs in row-major order; together they are all elements.
    pub fn runs(&self) -> impl Iterator<Item = &'a [T]> + use<'a, T> {
        let dense = self.layout.contiguous_suffix();
        let outer = self.rank() - dense;
        let len = self.shape()[outer..].iter().product();
        Lanes::new(self.base, self.layout.clone(), outer, len, 1).map(|lane| {
            // SAFETY: a dense suffix of axes is one run of `len` reached elements.
            unsafe { std::slice::from_raw_parts(lane.base, lane.len) }
        })
    }

    /// All elements in row-major order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        self.lanes().flat_map(|lane| lane.iter())
    }

    /// Copies all elements, in row-major order, into `out`.
    ///
    /// # Panics
    /// When `out` has another length than the view.
    pub fn copy_to(&self, out: &mut [T]) {
        assert_eq!(out.len(), self.len(), "destination length");
        if let Some(all) = self.as_slice() {
            out.copy_from_slice(all);
            return;
        }
        if self.layout.contiguous_suffix() > 0 {
            let mut at = 0;
            for run in self.runs() {
                out[at..at + run.len()].copy_from_slice(run);
                at += run.len();
            }
            return;
        }
        let width = self.shape().last().copied().unwrap_or(1).max(1);
        for (lane, out) in self.lanes().zip(out.chunks_exact_mut(width)) {
            for (value, slot) in lane.iter().zip(out) {
                *slot = value;
            }
        }
    }

    /// All elements in row-major order, in a new vector.
    pub fn to_vec(&self) -> Vec<T> {
        let mut out = vec![T::default(); self.len()];
        self.copy_to(&mut out);
        out
    }

    /// The same memory under a layout that reaches a subset of it, starting `offset` elements further on.
    fn narrowed(&self, layout: Layout, offset: isize) -> Self {
        let base = if offset == 0 {
            self.base
        } else {
            // SAFETY: callers pass the offset of a reached element, or an empty layout with offset 0.
            unsafe { self.base.offset(offset) }
        };
        View {
            base,
            layout,
            lifetime: PhantomData,
        }
    }

    /// See [`Layout::permute`].
    pub fn permute(&self, order: &[usize]) -> Option<Self> {
        Some(self.narrowed(self.layout.permute(order)?, 0))
    }

    /// See [`Layout::swap`].
    pub fn swap(&self, a: usize, b: usize) -> Option<Self> {
        Some(self.narrowed(self.layout.swap(a, b)?, 0))
    }

    /// See [`Layout::slice`].
    pub fn slice(&self, axis: usize, start: usize, count: usize, step: isize) -> Option<Self> {
        let (layout, offset) = self.layout.slice(axis, start, count, step)?;
        let offset = if layout.elements() == 0 { 0 } else { offset };
        Some(self.narrowed(layout, offset))
    }

    /// One position of `axis`, with that axis removed.
    pub fn index(&self, axis: usize, position: usize) -> Option<Self> {
        let one = self.slice(axis, position, 1, 1)?;
        let layout = one.layout.squeeze(axis)?;
        Some(one.narrowed(layout, 0))
    }

    /// See [`Layout::broadcast`].
    pub fn broadcast(&self, shape: &[usize]) -> Option<Self> {
        Some(self.narrowed(self.layout.broadcast(shape)?, 0))
    }

    /// See [`Layout::reshape`].
    pub fn reshape(&self, shape: &[usize]) -> Option<Self> {
        Some(self.narrowed(self.layout.reshape(shape)?, 0))
    }

    /// See [`Layout::unsqueeze`].
    pub fn unsqueeze(&self, axis: usize) -> Option<Self> {
        Some(self.narrowed(self.layout.unsqueeze(axis)?, 0))
    }
}

/// One line of elements along one axis.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a, T> {
    base: *const T,
    len: usize,
    stride: isize,
    lifetime: PhantomData<&'a [T]>,
}

// SAFETY: a lane is a bundle of shared references to `T` in disguise.
unsafe impl<T: Sync> Send for Lane<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Sync> Sync for Lane<'_, T> {}

impl<'a, T: Copy> Lane<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Distance between neighbours, in elements.
    pub fn stride(&self) -> isize {
        self.stride
    }

    /// The elements as a slice, when they are neighbours.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if self.len == 0 {
            return Some(&[]);
        }
        // SAFETY: with stride 1 (or one element) the lane is a run of `len` reached elements.
        (self.stride == 1 || self.len == 1)
            .then(|| unsafe { std::slice::from_raw_parts(self.base, self.len) })
    }

    /// The element at `index`, or `None` when out of range.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<T> {
        // SAFETY: an index in range is a reached element.
        (index < self.len).then(|| unsafe { *self.base.offset(index as isize * self.stride) })
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let lane = *self;
        // SAFETY: indices below `len` are reached elements.
        (0..lane.len).map(move |i| unsafe { *lane.base.offset(i as isize * lane.stride) })
    }
}

/// Iterator over the lanes of a view; see [`View::lanes`].
#[derive(Debug)]
pub struct Lanes<'a, T> {
    base: *const T,
    layout: Layout,
    outer: usize,
    len: usize,
    stride: isize,
    index: Dims,
    offset: isize,
    left: usize,
    lifetime: PhantomData<&'a [T]>,
}

impl<T> Lanes<'_, T> {
    fn new(base: *const T, layout: Layout, outer: usize, len: usize, stride: isize) -> Self {
        let left = if len == 0 {
            0
        } else {
            layout.shape()[..outer].iter().product()
        };
        let index = Dims::from_elem(0, outer);
        Lanes {
            base,
            layout,
            outer,
            len,
            stride,
            index,
            offset: 0,
            left,
            lifetime: PhantomData,
        }
    }
}

impl<'a, T> Iterator for Lanes<'a, T> {
    type Item = Lane<'a, T>;

    fn next(&mut self) -> Option<Lane<'a, T>> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: `offset` belongs to the in-range outer index `index`, and the lane is not empty.
        let base = unsafe { self.base.offset(self.offset) };
        for axis in (0..self.outer).rev() {
            let (dim, stride) = (self.layout.shape()[axis], self.layout.strides()[axis]);
            self.index[axis] += 1;
            self.offset += stride;
            if self.index[axis] < dim {
                break;
            }
            self.index[axis] = 0;
            self.offset -= stride * dim as isize;
        }
        Some(Lane {
            base,
            len: self.len,
            stride: self.stride,
            lifetime: PhantomData,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Lanes<'_, T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strided_iteration_is_row_major() {
        let data: Vec<i32> = (0..24).collect();
        let view = View::from_slice(&data, &[2, 3, 4]).unwrap();
        let turned = view.permute(&[2, 0, 1]).unwrap();
        let mut want = Vec::new();
        for c in 0..4 {
            for a in 0..2 {
                for b in 0..3 {
                    want.push(a * 12 + b * 4 + c);
                }
            }
        }
        assert_eq!(turned.to_vec(), want);
        assert_eq!(turned.iter().collect::<Vec<_>>(), want);
        assert!(turned.as_slice().is_none());
        let back = view.slice(2, 3, 2, -2).unwrap();
        assert_eq!(back.index(0, 1).unwrap().to_vec(), [15, 13, 19, 17, 23, 21]);
    }

    #[test]
    fn runs_cover_dense_suffixes_only() {
        let data: Vec<u8> = (0..40).collect();
        let cache = View::from_slice(&data, &[2, 4, 5])
            .unwrap()
            .slice(1, 0, 2, 1)
            .unwrap();
        let runs: Vec<_> = cache.runs().collect();
        assert_eq!(runs, [&data[0..10], &data[20..30]]);
    }

    #[test]
    fn empty_and_scalar_views() {
        let none = View::<f32>::from_slice(&[], &[3, 0]).unwrap();
        assert_eq!(none.lanes().count(), 0);
        assert_eq!(none.runs().count(), 0);
        assert!(none.slice(0, 2, 1, 1).unwrap().to_vec().is_empty());
        let one = View::from_slice(&[2.5f32], &[]).unwrap();
        assert_eq!(one.to_vec(), [2.5]);
        assert_eq!(one.broadcast(&[2, 2]).unwrap().to_vec(), [2.5; 4]);
    }

    #[test]
    fn blocks_are_runs_of_the_last_two_axes() {
        let data: Vec<u8> = (0..60).collect();
        let view = View::from_slice(&data, &[3, 5, 4]).unwrap();
        assert_eq!(view.block(&[1]), Some(&data[20..40]));
        assert_eq!(view.block(&[3]), None);
        assert_eq!(view.block(&[]), None);
        // room behind the rows of each slice, as append blocks have
        let cut = view.slice(1, 1, 3, 1).unwrap();
        assert_eq!(cut.block(&[2]), Some(&data[44..56]));
        assert_eq!(view.swap(1, 2).unwrap().block(&[0]), None);
        assert_eq!(view.slice(2, 0, 3, 1).unwrap().block(&[0]), None);
        assert_eq!(view.slice(1, 0, 3, 2).unwrap().block(&[0]), None);
        assert_eq!(view.slice(1, 2, 0, 1).unwrap().block(&[0]), Some(&[][..]));
        // one row, or one column, has no step that could matter
        let row = view.swap(0, 1).unwrap().slice(1, 2, 1, 1).unwrap();
        assert_eq!(row.block(&[4]), Some(&data[56..60]));
    }
}
