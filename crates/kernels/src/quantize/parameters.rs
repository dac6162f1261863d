//! Which parameter an element of a payload goes by.

use refeed_values::encoded::Affine;

/// The parameters of affine codes over `[batch, heads, capacity, width]`, found row by row: element `column` of a row goes
/// by parameter `row(slice, row) + column(column)`.
///
/// ```
/// use refeed_kernels::quantize::Parameters;
/// // One scale for every two columns of each row of [1, 2, 3, 4].
/// let blocks = Parameters::new([1, 2, 3, 4], Some(3), Some(2));
/// assert_eq!(blocks.row(1, 2), 10);
/// assert_eq!([0, 1, 2, 3].map(|column| blocks.column(column)), [0, 0, 1, 1]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    heads: usize,
    /// Parameters along each axis.
    counts: [usize; 4],
    /// Elements along each axis that share a parameter; 0 where position does not matter.
    shared: [usize; 4],
}

impl Parameters {
    /// The parameters of a layout that was checked: none of the extents is 0, the axis is one of the four, a block has a
    /// size.
    pub fn new(extents: [usize; 4], axis: Option<usize>, block_size: Option<usize>) -> Parameters {
        let mut counts = [1; 4];
        let mut shared = [0; 4];
        match (axis, block_size) {
            (None, _) => {}
            (Some(axis), None) => {
                if let (Some(count), Some(share)) = (counts.get_mut(axis), shared.get_mut(axis)) {
                    *count = extents[axis];
                    *share = 1;
                }
            }
            (Some(axis), Some(block)) => {
                counts = extents;
                shared = [1; 4];
                if let (Some(count), Some(share)) = (counts.get_mut(axis), shared.get_mut(axis)) {
                    *share = block.max(1);
                    *count = count.div_ceil(*share);
                }
            }
        }
        Parameters {
            heads: extents[1].max(1),
            counts,
            shared,
        }
    }

    /// Those of an affine layout.
    pub fn of(affine: &Affine, extents: [usize; 4]) -> Parameters {
        Parameters::new(extents, affine.axis, affine.block_size)
    }

    /// The parameter of the first element of a row; `slice` counts batch rows and heads together.
    #[inline]
    pub fn row(&self, slice: usize, row: usize) -> usize {
        let [_, heads, rows, columns] = self.counts;
        let batch = along(slice / self.heads, self.shared[0]);
        let head = along(slice % self.heads, self.shared[1]);
        ((batch * heads + head) * rows + along(row, self.shared[2])) * columns
    }

    /// What the column adds.
    #[inline]
    pub fn column(&self, column: usize) -> usize {
        along(column, self.shared[3])
    }

    /// Whether all elements of a row go by one parameter.
    pub fn one_a_row(&self) -> bool {
        self.counts[3] == 1
    }

    /// Whether parameters change from row to row of a slice.
    pub fn along_rows(&self) -> bool {
        self.shared[2] != 0
    }
}

#[inline]
fn along(position: usize, shared: usize) -> usize {
    match shared {
        0 => 0,
        1 => position,
        shared => position / shared,
    }
}
