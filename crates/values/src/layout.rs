//! Shapes and strides, and the view algebra on them. No memory here.

use smallvec::SmallVec;

/// Dimensions; six of them need no allocation.
pub type Dims = SmallVec<[usize; 6]>;
/// Strides in elements.
pub type Strides = SmallVec<[isize; 6]>;

/// Shape and strides (in elements) of a tensor or view.
///
/// Constructors keep the invariant that `shape` and `strides` have one entry an axis; whether the layout
/// stays inside a buffer is checked where layout and buffer meet ([`crate::Tensor::from_parts`]).
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Layout {
    shape: Dims,
    strides: Strides,
}

impl Clone for Layout {
    /// By whole slices: the derived clone goes element by element, and every handle and view makes one.
    fn clone(&self) -> Layout {
        Layout {
            shape: Dims::from_slice(&self.shape),
            strides: Strides::from_slice(&self.strides),
        }
    }
}

impl Layout {
    /// Row-major strides for `shape`.
    pub fn contiguous(shape: &[usize]) -> Layout {
        Layout {
            strides: row_major(shape),
            shape: Dims::from_slice(shape),
        }
    }

    /// A layout with the given strides, in elements; `None` when the two differ in length.
    pub fn strided(shape: &[usize], strides: &[isize]) -> Option<Layout> {
        (shape.len() == strides.len()).then(|| Layout {
            shape: Dims::from_slice(shape),
            strides: Strides::from_slice(strides),
        })
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Strides in elements, outermost first.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements; layouts only exist for shapes whose extent was checked.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether elements lie in row-major order without gaps. Axes of extent 1 and empty layouts do not matter.
    pub fn is_contiguous(&self) -> bool {
        self.contiguous_suffix() == self.rank() || self.elements() == 0
    }

    /// How many trailing axes form one dense row-major run.
    pub fn contiguous_suffix(&self) -> usize {
        let mut expected = 1isize;
        for (count, axis) in (0..self.rank()).rev().enumerate() {
            if self.shape[axis] != 1 && self.strides[axis] != expected {
                return count;
            }
            expected = expected.saturating_mul(self.shape[axis] as isize);
        }
        self.rank()
    }

    /// Lowest and highest element offset that the layout reaches, or `None` when it has no element
    /// or an offset does not fit.
    pub fn reach(&self) -> Option<(isize, isize)> {
        if self.shape.contains(&0) {
            return None;
        }
        let (mut low, mut high) = (0isize, 0isize);
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            let span = isize::try_from(dim - 1).ok()?.checked_mul(stride)?;
            if span < 0 {
                low = low.checked_add(span)?;
            } else {
                high = high.checked_add(span)?;
            }
        }
        Some((low, high))
    }

    /// Reorders axes: axis `i` of the result is axis `order[i]` of this layout.
    /// `None` unless `order` is a permutation of the axes.
    pub fn permute(&self, order: &[usize]) -> Option<Layout> {
        if order.len() != self.rank() {
            return None;
        }
        let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, self.rank());
        let mut out = Layout::default();
        for &axis in order {
            let known = seen.get_mut(axis)?;
            if std::mem::replace(known, true) {
                return None;
            }
            out.shape.push(self.shape[axis]);
            out.strides.push(self.strides[axis]);
        }
        Some(out)
    }

    /// Exchanges two axes; `None` when one is out of range.
    pub fn swap(&self, a: usize, b: usize) -> Option<Layout> {
        if a >= self.rank() || b >= self.rank() {
            return None;
        }
        let mut out = self.clone();
        out.shape.swap(a, b);
        out.strides.swap(a, b);
        Some(out)
    }

    /// Inserts an axis of extent 1 before `axis`; `None` when `axis > rank`.
    pub fn unsqueeze(&self, axis: usize) -> Option<Layout> {
        if axis > self.rank() {
            return None;
        }
        let mut out = self.clone();
        let stride = match out.strides.get(axis) {
            Some(&stride) => stride.saturating_mul(out.shape[axis] as isize),
            None => 1,
        };
        out.shape.insert(axis, 1);
        out.strides.insert(axis, stride);
        Some(out)
    }

    /// Removes an axis of extent 1; `None` when it has another extent or is out of range.
    pub fn squeeze(&self, axis: usize) -> Option<Layout> {
        if self.shape.get(axis) != Some(&1) {
            return None;
        }
        let mut out = self.clone();
        out.shape.remove(axis);
        out.strides.remove(axis);
        Some(out)
    }

    /// Takes `count` positions of `axis`, from `start` in steps of `step` (may be negative).
    /// Returns the layout and the element offset of its first position; `None` when a position is out of range.
    pub fn slice(
        &self,
        axis: usize,
        start: usize,
        count: usize,
        step: isize,
    ) -> Option<(Layout, isize)> {
        let (&dim, &stride) = (self.shape.get(axis)?, self.strides.get(axis)?);
        let mut out = self.clone();
        out.shape[axis] = count;
        if count == 0 {
            return Some((out, 0));
        }
        let last =
            (start as isize).checked_add(step.checked_mul(isize::try_from(count - 1).ok()?)?)?;
        if start >= dim || last < 0 || last >= dim as isize {
            return None;
        }
        out.strides[axis] = stride.checked_mul(step)?;
        Some((out, (start as isize).checked_mul(stride)?))
    }

    /// Broadcasts to `shape` as NumPy does: missing leading axes and axes of extent 1 get stride 0.
    /// `None` when the shapes do not broadcast.
    pub fn broadcast(&self, shape: &[usize]) -> Option<Layout> {
        let lead = shape.len().checked_sub(self.rank())?;
        let mut out = Layout {
            shape: Dims::from_slice(shape),
            strides: Strides::new(),
        };
        for (axis, &dim) in shape.iter().enumerate() {
            let stride = match axis.checked_sub(lead) {
                None => 0,
                Some(own) if self.shape[own] == dim => self.strides[own],
                Some(own) if self.shape[own] == 1 => 0,
                Some(_) => return None,
            };
            out.strides.push(stride);
        }
        Some(out)
    }

    /// The same elements in the same row-major order under another shape, without moving any;
    /// `None` when that needs a copy or the element counts differ.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        if shape.iter().product::<usize>() != self.elements() {
            return None;
        }
        if self.is_contiguous() {
            return Some(Layout::contiguous(shape));
        }
        // Merge old axes that lie densely in one another, then split each merged run among the new axes.
        let mut runs: SmallVec<[(usize, isize); 6]> = SmallVec::new();
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            if dim == 1 {
                continue;
            }
            match runs.last_mut() {
                Some((count, inner)) if *inner == stride.saturating_mul(dim as isize) => {
                    *count *= dim;
                    *inner = stride;
                }
                _ => runs.push((dim, stride)),
            }
        }
        let mut strides: Strides = SmallVec::from_elem(1, shape.len());
        let mut run = runs.len();
        let (mut left, mut stride) = (1usize, 1isize);
        for axis in (0..shape.len()).rev() {
            if shape[axis] == 1 {
                strides[axis] = stride;
                continue;
            }
            if left == 1 {
                run = run.checked_sub(1)?;
                (left, stride) = runs[run];
            }
            if left % shape[axis] != 0 {
                return None;
            }
            strides[axis] = stride;
            stride = stride.saturating_mul(shape[axis] as isize);
            left /= shape[axis];
        }
        (left == 1 && run == 0).then(|| Layout {
            shape: Dims::from_slice(shape),
            strides,
        })
    }
}

/// Row-major strides, in elements, of a dense tensor of this shape.
pub fn row_major(shape: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(1, shape.len());
    let mut next = 1isize;
    for axis in (0..shape.len()).rev() {
        strides[axis] = next;
        next = next.saturating_mul(shape[axis] as isize);
    }
    strides
}

/// The shape that NumPy broadcasting gives for several shapes, or `None` when they do not fit.
pub fn broadcast_shape<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Option<Dims> {
    let mut out = Dims::new();
    for shape in shapes {
        while out.len() < shape.len() {
            out.insert(0, 1);
        }
        let lead = out.len() - shape.len();
        for (axis, &dim) in shape.iter().enumerate() {
            let held = &mut out[lead + axis];
            match (*held, dim) {
                (a, b) if a == b => {}
                (1, b) => *held = b,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_of_a_capacity_strided_cache_merges_only_dense_axes() {
        // [batch 2, heads 3, length 4, size 5] with room for 8 rows a head
        let cache = Layout::strided(&[2, 3, 4, 5], &[120, 40, 5, 1]).unwrap();
        assert_eq!(cache.reshape(&[6, 4, 5]).unwrap().strides(), &[40, 5, 1]);
        assert_eq!(cache.reshape(&[2, 3, 20]).unwrap().strides(), &[120, 40, 1]);
        assert!(cache.reshape(&[2, 12, 5]).is_none());
        assert!(cache.reshape(&[7, 5]).is_none());
    }

    #[test]
    fn an_expanded_axis_does_not_merge() {
        let kv = Layout::contiguous(&[2, 1, 3])
            .broadcast(&[2, 4, 3])
            .unwrap();
        assert!(kv.reshape(&[8, 3]).is_none());
        assert_eq!(kv.reshape(&[2, 2, 2, 3]).unwrap().strides(), &[3, 0, 0, 1]);
    }

    #[test]
    fn slice_checks_both_ends() {
        let line = Layout::contiguous(&[7]);
        let (back, first) = line.slice(0, 6, 3, -2).unwrap();
        assert_eq!((back.strides(), first), (&[-2isize][..], 6));
        assert_eq!(back.reach(), Some((-4, 0)));
        assert!(line.slice(0, 6, 2, 1).is_none());
        assert!(line.slice(0, 1, 3, -1).is_none());
        assert!(line.slice(0, 7, 0, 1).is_some());
    }

    #[test]
    fn broadcasting_follows_numpy() {
        let shape = broadcast_shape([&[3, 1][..], &[2, 1, 5][..]]).unwrap();
        assert_eq!(&shape[..], &[2, 3, 5]);
        assert_eq!(broadcast_shape([&[0][..], &[1][..]]).unwrap()[..], [0]);
        assert!(broadcast_shape([&[2][..], &[3][..]]).is_none());
    }
}
