//! Caches whose rows are written over: two buffers by turns.
//!
//! The value that a call reads must stay as it is until the call is published, and longer where somebody holds it; but the
//! buffer that was current one call earlier differs from it only in the rows that the last call wrote. When nobody sees that
//! buffer any more, it gets those rows and then the new ones: a step costs its rows, whatever the cache holds. When
//! somebody does, the cache is copied, and the copy is reported with its reason.

use crate::Outcome;
use crate::append::Span;
use crate::events::StorageReport;
use crate::kernel::{Invocation, OpError};
use refeed_kernels::movement::place;
use refeed_values::{DType, Element, Tensor, TensorMut, View};

/// The first call has no other buffer, nor has the one after a call that failed while it wrote, or after a new value.
const NO_SECOND: &str =
    "there is no second buffer (in the first step, after a failed one, after a new value)";

/// Memory that holds a cache's past, to write the new rows into.
pub(super) struct Turned {
    /// Dense, of the past's shape, with elements of the type it was asked for with.
    pub(super) memory: TensorMut,
    /// Bytes that were copied to make it the past.
    copied: usize,
    reused: bool,
    outcome: Outcome,
}

/// Gets memory that holds `past`, with elements of type `T`, for the next value of output `output`.
///
/// # Errors
/// When memory cannot be had, or elements of the past cannot be read as `T`.
pub(super) fn turned<T: Element>(
    call: &mut Invocation<'_>,
    output: usize,
    past: &Tensor,
) -> Result<Turned, OpError> {
    let as_read = past
        .reinterpret(T::DTYPE)
        .ok_or_else(|| OpError::Unsupported(format!("reading {} as {}", past.dtype(), T::DTYPE)))?;
    let (view, shape) = (as_read.view::<T>()?, past.shape());
    let older = call.take_older(output);
    match reusable(older, past, T::DTYPE) {
        Ok((mut memory, missing)) => {
            let copied = catch_up(memory.as_mut_slice::<T>()?, shape, &view, &missing)?;
            Ok(Turned {
                memory,
                copied,
                reused: true,
                outcome: Outcome::InPlace,
            })
        }
        Err(reason) => {
            let mut memory = call.allocate(T::DTYPE, shape)?;
            view.copy_to(memory.as_mut_slice::<T>()?);
            Ok(Turned {
                memory,
                copied: past.bytes(),
                reused: false,
                outcome: Outcome::Copied(reason.to_string()),
            })
        }
    }
}

impl Turned {
    /// Makes the memory the cache's next value, as elements of `dtype`, and reports what it cost. `span` tells where the
    /// `appended` bytes of new rows were written.
    ///
    /// # Errors
    /// When its elements cannot be read as `dtype`.
    pub(super) fn finish(
        self,
        call: &mut Invocation<'_>,
        output: usize,
        dtype: DType,
        (span, appended): (Span, usize),
    ) -> Result<Tensor, OpError> {
        let written = self.memory.freeze();
        let next = written.reinterpret(dtype).ok_or_else(|| {
            OpError::Unsupported(format!("reading {} as {dtype}", written.dtype()))
        })?;
        call.report(StorageReport {
            allocations: u64::from(!self.reused),
            allocated_bytes: if self.reused { 0 } else { next.bytes() as u64 },
            prefix_copied_bytes: self.copied as u64,
            append_copied_bytes: appended as u64,
            reuse_count: u64::from(self.reused),
        });
        call.set_written(output, next.clone(), span, self.outcome);
        Ok(next)
    }
}

/// The older buffer as elements of `dtype`, when it can become the next value; else why the past is copied.
fn reusable(
    older: Option<(Tensor, Span)>,
    past: &Tensor,
    dtype: DType,
) -> Result<(TensorMut, Span), &'static str> {
    let (older, missing) = older.ok_or(NO_SECOND)?;
    if older.dtype() != past.dtype() || older.shape() != past.shape() {
        return Err("the buffer before it has another type or shape");
    }
    let as_read = older
        .reinterpret(dtype)
        .ok_or("its elements cannot be moved")?;
    drop(older);
    match as_read.try_into_mut() {
        Ok(memory) => Ok((memory, missing)),
        Err(_) => Err("the buffer before it is still in use"),
    }
}

/// Copies the rows of a span from `past` to the same places of `out`, a dense tensor of its shape. Returns how many bytes.
fn catch_up<T: Element>(
    out: &mut [T],
    shape: &[usize],
    past: &View<'_, T>,
    span: &Span,
) -> Result<usize, OpError> {
    let slice: usize = shape[1..].iter().product();
    let refuse = || {
        OpError::Shape(format!(
            "rows of another tensor than one of shape {shape:?}"
        ))
    };
    let (rows, limit) = (span.rows, shape[span.axis]);
    if rows == 0 || slice == 0 {
        return Ok(0);
    }
    let entries = out.chunks_exact_mut(slice).enumerate();
    for ((entry, out), &first) in entries.zip(&span.starts) {
        let own = past.index(0, entry).ok_or_else(refuse)?;
        let head = rows.min(limit.saturating_sub(first));
        for (first, rows) in [(first, head), (0, rows - head)] {
            let part = own.slice(span.axis - 1, first, rows, 1);
            let part = part.ok_or_else(refuse)?;
            place(&part, out, &shape[1..], span.axis - 1, first)?;
        }
    }
    Ok(shape[0] * (slice / limit) * rows * size_of::<T>())
}
