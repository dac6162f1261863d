//! Append-only blocks: a cache grows behind its own old rows, and a held view never costs a copy.
//!
//! A *block* is heap memory with a fixed geometry ([`geometry`](self): dtype, append axis, outer extents, bytes a row,
//! capacity in rows) and one atomic *watermark*, in rows. Capacity lies inside each outer slice, so that
//! `[batch, heads, length, width]` caches append in place for every batch and head count; a tensor of a block is a
//! strided view of it. The steps of an append are types, and each consumes the one before:
//!
//! ```text
//! PersistentTensor --lease--> AppendLease --reserve--> AppendReservation --seal--> AppendCandidate --publish--> PersistentTensor
//!                              one attempt             writes the new rows         a tensor, not yet kept
//! ```
//!
//! ```
//! use refeed_values::append::{AppendPolicy, PersistentTensor, Reserve};
//! use refeed_values::{Allocator, Tensor};
//! let (memory, policy) = (Allocator::default(), AppendPolicy::default());
//! let mut kept = PersistentTensor::imported(Tensor::from_slice::<f32>(&[1, 2, 0, 3], &[])?);
//! for step in 1..4 {
//!     let row = Tensor::from_slice(&[1, 2, 1, 3], &[step as f32; 6])?;
//!     let Reserve::Ready(mut rows) = kept.lease(&policy).reserve(&[1, 2, step, 3], 2, &memory)? else { unreachable!() };
//!     rows.write_rows(0, &row)?;
//!     kept = rows.seal().publish();
//! }
//! assert_eq!((kept.tensor().shape(), kept.capacity_rows()), (&[1, 2, 3, 3][..], 32));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The argument for the unsafe code of `append/rows.rs`
//!
//! Several handles, on several threads, share the memory of one block, and one of them may be writing. What keeps a
//! writer and a reader, or two writers, off the same row is this:
//!
//! 1. *Claims.* A claim is a range of rows `[end, end + n)`, `n > 0`, taken by one compare-and-swap of the watermark
//!    from `end` to `end + n`. A new block starts with one claim of its maker, `[0, rows)`. Claims therefore lie on a
//!    stack without gaps or overlap, and the watermark is the top of that stack. A claim of no rows does not exist: an
//!    empty append never touches the watermark.
//! 2. *Who may claim.* Only the lease of a published [`PersistentTensor`], and only from that tensor's own end row. So
//!    nobody claims on top of a claim that is not yet published: no published handle ends there. What comes from
//!    outside ([`PersistentTensor::imported`]) never claims, whatever its memory is.
//! 3. *Writing.* The rows of a claim are written through the one [`AppendReservation`] that made it, by `&mut`, before
//!    it is sealed; no handle that reaches them exists yet. A reservation has no other way to write.
//! 4. *Reading.* A handle ([`crate::Buffer`]) to a block carries the row where its candidate ended and reaches only rows below
//!    it: [`crate::Tensor::from_parts`] refuses every other layout over that memory. Those rows belong to claims that
//!    are sealed. A reference covers one contiguous run of *valid* elements, never the gap to the next outer slice,
//!    where a writer may be at work.
//! 5. *Giving back.* A claim leaves the stack by a compare-and-swap of the watermark from `end + n` to `end`, never by a
//!    store. That succeeds only while it is the top (upper ends of live claims differ, by 1), so the same number
//!    coming back after other claims came and went (ABA) means the same stack and is no danger: a claim is popped once,
//!    because the right to pop it is the move-only claim itself. Before the seal nobody else can see the rows. After it,
//!    every handle made from the candidate holds a clone of one `Arc<Tail>`, and the rows are given back only when
//!    `Arc::get_mut` proves the candidate's own clone to be the last; otherwise they are *burnt*: they stay below the
//!    watermark, unused, and the next append moves. Publication ends the right to give back. There is no `Weak<Tail>`, and a tail is used for another
//!    candidate only after the same proof.
//! 6. *Rewinding.* The holder of `&mut` to a published handle may set the watermark to its end row when `Arc::get_mut`
//!    proves it to be the only handle to the allocation: then no reservation, candidate or view exists, and burnt or
//!    truncated rows are free again. Nothing else ever overwrites a published row.
//! 7. *Order.* Two writers of one row are separated by a give-back (Release) that the later claim (Acquire) reads, or by
//!    read-modify-writes after it, which continue its release sequence. A reader that is gone is separated from the
//!    writer that follows by the counts of its tail or allocation (`get_mut` acquires). A reader of published rows got its handle by
//!    whatever passed it on, which synchronises.
//! 8. *Contents.* Blocks are made zeroed, and rows that are given back or rewound are zeroed again first, by the one who
//!    then still owns them: no old value can be seen through a row that its claimant did not write.
//!
//! The same protocol is what the loom models of this module run, with each of these rules broken in turn.

mod candidate;
pub(crate) mod fault;
mod geometry;
mod lease;
mod persistent_tensor;
mod reservation;
mod rows;
#[cfg(loom)]
mod shadow;
mod watermark;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::allocation::AllocError;
use crate::sync::Arc;
use crate::{ExtentError, TensorError};
use smallvec::SmallVec;
use std::fmt;
use thiserror::Error;

pub use candidate::AppendCandidate;
pub use lease::{AppendLease, Reserve};
pub use persistent_tensor::PersistentTensor;
pub use reservation::{AppendReservation, SpansMut};
pub use watermark::Block;

pub(crate) use watermark::Sight;

/// Counts the handles that see the rows of one candidate. Compared by identity; holds nothing.
#[derive(Debug)]
pub struct Tail;

/// Tails of earlier candidates, to be used again once their last view is gone.
type SpareTails = SmallVec<[Arc<Tail>; 2]>;

/// When rows may be appended in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AppendReuse {
    /// Whenever the watermark allows it, whoever else holds the old rows.
    #[default]
    Always,
    /// Only FLOAT tensors with one outer slice (`[1, 1, length, width]`), held by nobody else when the lease is made.
    /// These are the rules of the onnx-light runtime, with its counters.
    Exclusive,
}

/// How appends reserve memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendPolicy {
    /// Rows of a first block; 0 turns reservation off.
    pub initial_capacity: usize,
    /// Rows that a value will have at most, if known: blocks get exactly this many rows instead of doubling.
    /// A value that outgrows it, or slides over its block as a window, doubles.
    pub max_length: Option<usize>,
    /// When rows may be appended in place.
    pub reuse: AppendReuse,
}

impl Default for AppendPolicy {
    fn default() -> Self {
        AppendPolicy {
            initial_capacity: 32,
            max_length: None,
            reuse: AppendReuse::Always,
        }
    }
}

/// Why an append is impossible or failed. The state's own value is untouched.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// There is no such axis.
    #[error("append axis {axis} is out of range for rank {rank}")]
    Axis {
        /// The axis asked for.
        axis: usize,
        /// Axes there are.
        rank: usize,
    },
    /// The result is not the old value made longer.
    #[error("append along axis {axis}: result shape {result:?} does not extend {past:?}")]
    Shape {
        /// The append axis.
        axis: usize,
        /// Shape of the old value.
        past: Vec<usize>,
        /// Shape asked for.
        result: Vec<usize>,
    },
    /// The rows to write do not fit the reserved ones.
    #[error(
        "{rows} rows at row {at_row} of shape {shape:?} do not fit the {reserved} reserved rows of {outer:?} x {inner:?}"
    )]
    Rows {
        /// First reserved row to be written.
        at_row: usize,
        /// Rows to be written.
        rows: usize,
        /// Shape of the rows to be written.
        shape: Vec<usize>,
        /// Rows that were reserved.
        reserved: usize,
        /// Extents before the append axis.
        outer: Vec<usize>,
        /// Extents behind the append axis.
        inner: Vec<usize>,
    },
    /// The capacity does not fit in memory.
    #[error("a capacity of {rows} rows of {bytes_per_row} bytes does not fit in memory")]
    Capacity {
        /// Rows wanted.
        rows: usize,
        /// Bytes of one row, all outer slices together.
        bytes_per_row: usize,
    },
    /// The result has no extent.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// Memory could not be had.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A tensor is not of the wanted kind.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Why a value cannot have append capacity at all; its operator computes a dense result instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeclineReason {
    /// The initial capacity is 0.
    CapacityZero,
    /// A row has no elements, or there is no outer slice.
    EmptyRows,
    /// STRING elements have no bytes.
    NoFixedWidth,
    /// A row of packed elements ends inside a byte.
    PackedRow {
        /// Element type.
        dtype: crate::DType,
        /// Elements of a row.
        elements: usize,
    },
    /// Packed elements cannot be strided, which several outer slices need.
    PackedSlices {
        /// Element type.
        dtype: crate::DType,
        /// Outer slices.
        slices: usize,
    },
    /// [`AppendReuse::Exclusive`] wants one outer slice.
    ExclusiveSlices {
        /// Outer slices.
        slices: usize,
    },
    /// [`AppendReuse::Exclusive`] wants FLOAT.
    ExclusiveDType {
        /// Element type.
        dtype: crate::DType,
    },
}

impl fmt::Display for DeclineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeclineReason::CapacityZero => write!(f, "the initial capacity is 0"),
            DeclineReason::EmptyRows => write!(f, "its rows are empty"),
            DeclineReason::NoFixedWidth => write!(f, "STRING elements have no fixed width"),
            DeclineReason::PackedRow { dtype, elements } => {
                write!(
                    f,
                    "a row of {elements} {dtype} elements is not a whole number of bytes"
                )
            }
            DeclineReason::PackedSlices { dtype, slices } => {
                write!(
                    f,
                    "{dtype} elements share bytes and it has {slices} outer slices"
                )
            }
            DeclineReason::ExclusiveSlices { slices } => {
                write!(
                    f,
                    "exclusive reuse wants one outer slice and it has {slices}"
                )
            }
            DeclineReason::ExclusiveDType { dtype } => {
                write!(f, "exclusive reuse wants FLOAT and it is {dtype}")
            }
        }
    }
}

/// Why the old rows were copied to a new block although there was a value with capacity, or no block at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveReason {
    /// The value came from outside: a constructor, a reset, a feed, or an operator that does not append.
    Imported,
    /// Another handle appended to the same rows first, or a failed call's rows are still seen by somebody.
    TailTaken,
    /// The last append was along another axis.
    Axis,
    /// A window slid to the end of its block.
    WindowEnd,
    /// [`AppendReuse::Exclusive`]: somebody else held the old value.
    Shared,
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MoveReason::Imported => "the old value came from outside",
            MoveReason::TailTaken => "the rows behind the old value are taken",
            MoveReason::Axis => "the old value was appended to along another axis",
            MoveReason::WindowEnd => "the window reached the end of its block",
            MoveReason::Shared => "another handle to the old value is alive",
        })
    }
}

/// Where a reservation found its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Behind the old rows; nothing was copied.
    InPlace,
    /// In a larger block, because the old one was full or there was none yet.
    Grown {
        /// Capacity before, in rows.
        from_rows: usize,
        /// Capacity now, in rows.
        to_rows: usize,
        /// Size of the new block.
        allocated_bytes: usize,
        /// Bytes of old rows that were copied.
        prefix_bytes: usize,
    },
    /// In a new block, for another reason.
    Moved {
        /// Why.
        reason: MoveReason,
        /// Capacity now, in rows.
        capacity_rows: usize,
        /// Size of the new block.
        allocated_bytes: usize,
        /// Bytes of old rows that were copied.
        prefix_bytes: usize,
    },
}

/// The five counters of one append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendCounters {
    /// Blocks made.
    pub allocations: u64,
    /// Bytes of those blocks, capacity included.
    pub allocated_bytes: u64,
    /// Bytes of old rows that were copied.
    pub prefix_copied_bytes: u64,
    /// Bytes of new rows that were copied in.
    pub append_copied_bytes: u64,
    /// Appends that found room in the block they already had.
    pub reuse_count: u64,
}

impl Outcome {
    /// What finding the rows has cost; new rows are not copied yet.
    pub fn counters(&self) -> AppendCounters {
        match *self {
            Outcome::InPlace => AppendCounters {
                reuse_count: 1,
                ..AppendCounters::default()
            },
            Outcome::Grown {
                allocated_bytes,
                prefix_bytes,
                ..
            }
            | Outcome::Moved {
                allocated_bytes,
                prefix_bytes,
                ..
            } => AppendCounters {
                allocations: 1,
                allocated_bytes: allocated_bytes as u64,
                prefix_copied_bytes: prefix_bytes as u64,
                ..AppendCounters::default()
            },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::InPlace => f.write_str("in place"),
            Outcome::Grown {
                from_rows,
                to_rows,
                prefix_bytes,
                ..
            } => {
                write!(
                    f,
                    "capacity {from_rows} to {to_rows} rows, {prefix_bytes} bytes copied"
                )
            }
            Outcome::Moved {
                reason,
                capacity_rows,
                prefix_bytes,
                ..
            } => {
                write!(
                    f,
                    "{reason}; capacity {capacity_rows} rows, {prefix_bytes} bytes copied"
                )
            }
        }
    }
}
