//! What loom sees of a block's memory: one cell for each row of each outer slice, touched wherever the real rows are.

use super::fault::{Fault, planted};
use super::geometry::Geometry;
use crate::Tensor;
use loom::cell::UnsafeCell;

#[derive(Debug)]
pub(crate) struct Shadow {
    cells: Vec<UnsafeCell<()>>,
    capacity: usize,
}

impl Shadow {
    pub(crate) fn new(slices: usize, capacity: usize) -> Shadow {
        let cells = (0..slices * capacity)
            .map(|_| UnsafeCell::new(()))
            .collect();
        Shadow { cells, capacity }
    }

    /// Writes rows of one outer slice; loom objects to every other access that is not ordered with this one.
    pub(crate) fn write(&self, slice: usize, first: usize, rows: usize) {
        for row in first..first + rows {
            self.cells[slice * self.capacity + row].with_mut(|_| ());
        }
    }

    /// Reads the rows that a tensor reaches.
    pub(crate) fn read_tensor(&self, tensor: &Tensor, geometry: &Geometry) {
        let size = tensor.dtype().size().unwrap_or(1) as isize;
        let mut cells: Vec<usize> = vec![];
        let (shape, strides) = (tensor.shape(), tensor.strides());
        for index in 0..tensor.elements() {
            let (mut rest, mut offset) = (index, tensor.offset() as isize);
            for axis in (0..shape.len()).rev() {
                offset += (rest % shape[axis]) as isize * strides[axis] * size;
                rest /= shape[axis];
            }
            cells.push(offset as usize / geometry.row_bytes);
        }
        cells.sort_unstable();
        cells.dedup();
        if let (true, Some(&low), Some(&high)) = (
            planted(Fault::SpanningReference),
            cells.first(),
            cells.last(),
        ) {
            cells = (low..=high).collect();
        }
        for cell in cells {
            self.cells[cell].with(|_| ());
        }
    }
}
