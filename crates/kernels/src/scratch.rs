//! Working memory of kernels: kept by each thread and used again, so that a warm call allocates nothing.
//!
//! It is lent by a guard, not passed to a closure: a closure that stays a call would be compiled for the baseline CPU.

use half::{bf16, f16};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Types that scratch memory is made of.
pub trait Scratch: Sized + 'static {
    /// `len` elements whose values are left over from earlier use; given back when dropped.
    fn scratch(len: usize) -> Lent<Self>;
    #[doc(hidden)]
    fn give_back(buffer: Vec<Self>);
}

/// Scratch memory on loan.
#[derive(Debug)]
pub struct Lent<T: Scratch> {
    buffer: Vec<T>,
    len: usize,
}

impl<T: Scratch> Deref for Lent<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.buffer[..self.len]
    }
}

impl<T: Scratch> DerefMut for Lent<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.buffer[..self.len]
    }
}

impl<T: Scratch> Drop for Lent<T> {
    fn drop(&mut self) {
        T::give_back(std::mem::take(&mut self.buffer));
    }
}

/// Buffers kept for each thread, so that nested kernels find their own.
const KEPT: usize = 8;

macro_rules! scratch {
    ($t:ident, $name:ident) => {
        thread_local! {
            static $name: RefCell<Vec<Vec<$t>>> = const { RefCell::new(Vec::new()) };
        }
        impl Scratch for $t {
            fn scratch(len: usize) -> Lent<$t> {
                // The smallest buffer that is large enough, else the largest: so a few buffers soon serve every
                // order of requests. A thread that is ending has no store any more; then memory is fresh.
                let mut buffer = $name
                    .try_with(|kept| {
                        let mut kept = kept.borrow_mut();
                        let fits = (0..kept.len()).filter(|i| kept[*i].len() >= len);
                        let best = fits.min_by_key(|i| kept[*i].len());
                        let best = best.or_else(|| (0..kept.len()).max_by_key(|i| kept[*i].len()));
                        best.map(|i| kept.swap_remove(i))
                    })
                    .ok()
                    .flatten()
                    .unwrap_or_default();
                if buffer.len() < len {
                    buffer.resize(len, $t::default());
                }
                Lent { buffer, len }
            }
            fn give_back(buffer: Vec<$t>) {
                let _ = $name.try_with(|kept| {
                    let mut kept = kept.borrow_mut();
                    if kept.len() < KEPT {
                        kept.push(buffer);
                    }
                });
            }
        }
    };
}
scratch!(f32, FLOATS);
scratch!(f64, DOUBLES);
scratch!(f16, HALVES);
scratch!(bf16, BRAINS);
scratch!(u8, BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_nested_loans_are_apart() {
        let first = f32::scratch(100).as_ptr();
        let mut outer = f32::scratch(80);
        assert_eq!(outer.as_ptr(), first);
        outer.fill(1.0);
        let mut inner = f32::scratch(80);
        inner.fill(2.0);
        assert!(outer.iter().all(|x| *x == 1.0));
        assert_eq!((outer.len(), f64::scratch(0).len()), (80, 0));
    }
}
