//! Memory of ours that Python can see, so that it is recognised when it comes back.

use refeed_values::{Buffer, DType, Layout, Provenance, Tensor};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By address of the allocation, then in the order of export.
type Exported = BTreeMap<(usize, u64), Buffer>;

static EXPORTED: Mutex<Exported> = Mutex::new(BTreeMap::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);

fn lock() -> MutexGuard<'static, Exported> {
    // Nothing that is done under the lock can panic half way.
    EXPORTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tensor that Python sees through an exported pointer, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Keeps the memory alive.
    _tensor: Tensor,
    key: Option<(usize, u64)>,
}

impl Registration {
    /// Registers a tensor's memory. Memory that was lent to us stays the lender's and is not recognised as ours.
    pub(crate) fn new(tensor: Tensor) -> Registration {
        let lent = matches!(tensor.provenance(), Provenance::Foreign | Provenance::Kept);
        let own = !lent && tensor.elements() > 0;
        let key = own.then(|| {
            let buffer = tensor.buffer().clone();
            let key = (
                buffer.allocation().as_ptr().addr(),
                NEXT.fetch_add(1, Ordering::Relaxed),
            );
            lock().insert(key, buffer);
            COUNT.fetch_add(1, Ordering::Relaxed);
            key
        });
        Registration {
            _tensor: tensor,
            key,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            COUNT.fetch_sub(1, Ordering::Relaxed);
            // Dropped behind the lock: the last handle may free memory.
            let held = lock().remove(&key);
            drop(held);
        }
    }
}

/// The tensor of ours that lies at `address` with this layout, when its memory is exported now.
pub(crate) fn recognise(address: usize, dtype: DType, layout: &Layout) -> Option<Tensor> {
    if COUNT.load(Ordering::Relaxed) == 0 || layout.elements() == 0 {
        return None;
    }
    let exported = lock();
    let (&(base, _), nearest) = exported.range(..=(address, u64::MAX)).next_back()?;
    let offset = address - base;
    if offset >= nearest.len() {
        return None;
    }
    // Several exports of one block see different numbers of rows; any that sees the layout will do.
    let same = exported.range((base, 0)..=(base, u64::MAX)).rev();
    let found = same
        .filter_map(|(_, buffer)| {
            Tensor::from_parts(dtype, layout.clone(), offset, buffer.clone()).ok()
        })
        .next();
    drop(exported);
    found
}
