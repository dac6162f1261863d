//! Recycling of memory inside one execution: the arena of a session.

use crate::allocation::{Allocation, Allocator, Provenance};
use crate::sync::Arc;
use crate::tensor::{Tensor, TensorError, TensorMut};
use crate::{DType, Extent};

/// Free memory of one execution, by size class. Memory that leaves as an output comes back only when it was retained, is
/// retained no longer, and nobody else holds it.
///
/// A warm step finds all its memory here and asks the allocator for nothing.
#[derive(Debug)]
pub struct Pool {
    allocator: Allocator,
    /// Where memory of graph outputs comes from, when from elsewhere.
    output: Option<Allocator>,
    /// Whether what is asked for now is memory of graph outputs.
    publishing: bool,
    /// `free[class]` holds allocations of exactly `class_size(class)` bytes.
    free: Vec<Vec<Arc<Allocation>>>,
    retained: usize,
}

impl Pool {
    /// An empty pool that draws on `allocator`.
    pub fn new(allocator: Allocator) -> Pool {
        Pool::with_output(allocator, None)
    }

    /// An empty pool that draws on `allocator`, and on `output` for the memory of graph outputs.
    pub fn with_output(allocator: Allocator, output: Option<Allocator>) -> Pool {
        Pool {
            allocator,
            output,
            publishing: true,
            free: Vec::new(),
            retained: 0,
        }
    }

    /// The allocator behind the pool.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The allocator of graph outputs, and of the room that appends reserve.
    pub fn output_allocator(&self) -> &Allocator {
        self.output.as_ref().unwrap_or(&self.allocator)
    }

    /// Says whether memory asked for from now on is that of graph outputs.
    pub fn set_publishing(&mut self, publishing: bool) {
        self.publishing = publishing;
    }

    /// Whether memory that is asked for is that of graph outputs; so at first.
    pub fn is_publishing(&self) -> bool {
        self.publishing
    }

    /// Bytes that lie free.
    pub fn retained_bytes(&self) -> usize {
        self.retained
    }

    /// A writable dense tensor. Its bytes are initialised but arbitrary.
    ///
    /// # Errors
    /// When the extent overflows or memory cannot be had.
    pub fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Result<TensorMut, TensorError> {
        let found = self.find(dtype, shape);
        #[cfg(feature = "testing")]
        if let Some(byte) = crate::testing::filling() {
            return found.map(|mut tensor| {
                tensor.as_mut_bytes().fill(byte);
                tensor
            });
        }
        found
    }

    fn find(&mut self, dtype: DType, shape: &[usize]) -> Result<TensorMut, TensorError> {
        let bytes = Extent::new(dtype, shape)?.bytes();
        let elsewhere = match &self.output {
            Some(output) if self.publishing => Some(output),
            _ => Some(&self.allocator).filter(|allocator| allocator.source().is_some()),
        };
        if let Some(allocator) = elsewhere {
            // The caller's allocator has free lists of its own.
            let allocation = Arc::new(allocator.allocate(bytes)?);
            return Ok(TensorMut::over(allocation, dtype, shape, bytes));
        }
        let class = class_of(bytes);
        if let Some(found) = self.free.get_mut(class).and_then(Vec::pop) {
            self.retained -= found.len();
            return Ok(TensorMut::over(found, dtype, shape, bytes));
        }
        let size = class_size(class);
        let allocation = match self.allocator.allocate(size) {
            Ok(allocation) => allocation,
            Err(error) => {
                // Free memory of other sizes may be what stands between the request and the budget.
                if self.retained == 0 {
                    return Err(error.into());
                }
                self.clear();
                self.allocator.allocate(size)?
            }
        };
        Ok(TensorMut::over(Arc::new(allocation), dtype, shape, bytes))
    }

    /// Takes back a tensor that is no longer needed. Its memory is kept if nobody else holds it.
    pub fn give(&mut self, tensor: Tensor) {
        let mut allocation = tensor.into_buffer().into_shared();
        let Some(alone) = Arc::get_mut(&mut allocation) else {
            return;
        };
        if alone.provenance() != Provenance::Heap || alone.block.is_some() || alone.has_source() {
            return;
        }
        let class = class_of(alone.len());
        if class_size(class) != alone.len() {
            return;
        }
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.retained += alone.len();
        self.free[class].push(allocation);
    }

    /// Frees all memory that lies here.
    pub fn clear(&mut self) {
        self.free.clear();
        self.retained = 0;
    }
}

/// Size classes: 64, 96, 128, 192, 256, ...: two to each power of two, so at most a third is wasted.
pub(crate) fn class_of(bytes: usize) -> usize {
    let lines = bytes.div_ceil(32).max(2);
    // lines in (2^k, 2^k * 1.5] or (2^k * 1.5, 2^(k+1)]
    let power = usize::BITS as usize - 1 - (lines - 1).leading_zeros() as usize;
    let base = 1usize << power;
    if lines - base <= base / 2 {
        2 * power - 1
    } else {
        2 * power
    }
}

pub(crate) fn class_size(class: usize) -> usize {
    let half = class.div_ceil(2);
    let lines = if class % 2 == 1 {
        (1usize << half).saturating_add(1 << half >> 1)
    } else {
        2usize << half
    };
    lines.saturating_mul(32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_sizes_with_little_waste() {
        let mut sizes: Vec<usize> = (0..5000).collect();
        sizes
            .extend((13..40).flat_map(|k| [(1usize << k) - 1, 1 << k, (1 << k) + 1, 3 << (k - 1)]));
        for bytes in sizes {
            let size = class_size(class_of(bytes));
            assert!(size >= bytes, "{bytes} got {size}");
            assert!(size <= 64.max(bytes * 3 / 2 + 32), "{bytes} got {size}");
            assert_eq!(class_size(class_of(size)), size);
        }
    }

    #[test]
    fn memory_comes_back_only_when_nobody_holds_it() {
        let mut pool = Pool::new(Allocator::default());
        let first = pool.tensor(DType::Float, &[10]).unwrap().freeze();
        let address = first.as_ptr();
        let held = first.clone();
        pool.give(first);
        assert_eq!(pool.retained_bytes(), 0);
        pool.give(held);
        assert_eq!(pool.retained_bytes(), 64);
        assert_eq!(
            pool.tensor(DType::Int64, &[2, 4])
                .unwrap()
                .freeze()
                .as_ptr(),
            address
        );
    }

    #[test]
    fn a_tight_budget_frees_before_it_refuses() {
        let mut pool = Pool::new(Allocator::with_limit(256));
        let t = pool.tensor(DType::Uint8, &[150]).unwrap().freeze();
        pool.give(t);
        assert!(pool.tensor(DType::Uint8, &[250]).is_ok());
        assert!(pool.tensor(DType::Uint8, &[300]).is_err());
    }
}
