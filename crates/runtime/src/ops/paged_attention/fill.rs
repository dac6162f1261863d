//! The policy "fill": new tokens go behind those of a last page that has room.
//!
//! Dense rows are appended in place, by the protocol of every append (`refeed_values::append`): a page that was handed out
//! does not see the rows behind its own, and whoever comes second (a fork, a step that is run again) copies the page. The
//! page's payloads are as long as its tokens; the room is seen in their strides alone. Codes of such a page are copied to a
//! new payload, at most a block of them.

use super::Formats;
use super::execute::{Allocate, NewRows};
use crate::kernel::OpError;
use refeed_kernels::quantize::Format;
use refeed_values::append::{AppendPolicy, AppendReuse, PersistentTensor, Reserve};
use refeed_values::encoded::Affine;
use refeed_values::paged_cache::Page;
use refeed_values::{Allocator, DType, EncodedValue, RuntimeValue, Tensor};

/// Last pages whose room is remembered: those of as many requests as alternate on one kernel.
const KEPT: usize = 16;

/// Axis of a payload along which tokens follow each other.
const TOKENS: usize = 2;

/// Dense payloads of last pages that this kernel made, with the room behind them. Each keeps one block of memory.
#[derive(Debug, Default)]
pub(super) struct Tails(Vec<PersistentTensor>);

impl Tails {
    /// The payload with its room when it is one of these, else without any.
    fn take(&mut self, tensor: &Tensor) -> PersistentTensor {
        match self.0.iter().position(|tail| tail.certifies(tensor)) {
            Some(index) => self.0.swap_remove(index),
            None => PersistentTensor::imported(tensor.clone()),
        }
    }

    fn keep(&mut self, tail: PersistentTensor) {
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        self.0.push(tail);
    }
}

/// Whether rows of a format can go behind those of a payload: it is of this format, with one scale for all, and its rows
/// are whole bytes.
fn continues(payload: &RuntimeValue, format: &Format) -> bool {
    match payload {
        RuntimeValue::Tensor(tensor) => !format.is_affine() && tensor.dtype() == format.storage,
        RuntimeValue::Encoded(encoded) => {
            let width = encoded.shape().last().copied().unwrap_or(0);
            encoded.affine_layout().is_some_and(|affine| {
                format.is_affine()
                    && affine.storage == format.storage
                    && affine.axis.is_none()
                    && affine.scale.dtype() == DType::Float
                    && affine.scale_at(0) as f32 == format.scale
                    && affine.zero_point_at(0) == format.zero_point
                    && (width * format.storage.bits()).is_multiple_of(8)
            })
        }
        _ => false,
    }
}

/// How many new tokens the last page takes: none unless it has room and both payloads go on in their formats.
pub(super) fn room(page: &Page<'_>, formats: &Formats, block_size: usize) -> usize {
    let used = usize::try_from(page.length).unwrap_or(usize::MAX);
    // A page whose payloads have rows without a token of their own is left alone: others may see those.
    let own = |payload: &RuntimeValue| {
        let shape = match payload {
            RuntimeValue::Tensor(tensor) => tensor.shape(),
            RuntimeValue::Encoded(encoded) => encoded.shape(),
            _ => &[],
        };
        shape.get(TOKENS) == Some(&used)
    };
    let fits = continues(page.key, &formats.key) && continues(page.value, &formats.value);
    match fits && own(page.key) && own(page.value) {
        true => block_size.saturating_sub(used),
        false => 0,
    }
}

/// The payload with `count` new rows from `first` on behind its own, and the bytes that were written. A dense payload gets
/// room for `most` rows in all.
///
/// # Errors
/// When memory cannot be had.
pub(super) fn extended(
    tails: &mut Tails,
    payload: &RuntimeValue,
    new: &NewRows<'_>,
    (first, count): (usize, usize),
    most: usize,
    memory: &Allocator,
    allocate: Allocate<'_>,
) -> Result<(RuntimeValue, u64), OpError> {
    let encoded_rows = new.payload(first, count, &mut *allocate)?;
    match (payload, &encoded_rows) {
        (RuntimeValue::Tensor(held), RuntimeValue::Tensor(rows)) => {
            dense(tails, held, rows, most, memory)
        }
        (RuntimeValue::Encoded(held), RuntimeValue::Encoded(rows)) => codes(held, rows, allocate),
        _ => Err(OpError::Unsupported("a page of two formats".to_string())),
    }
}

fn dense(
    tails: &mut Tails,
    held: &Tensor,
    rows: &Tensor,
    most: usize,
    memory: &Allocator,
) -> Result<(RuntimeValue, u64), OpError> {
    let policy = AppendPolicy {
        initial_capacity: most,
        max_length: Some(most),
        reuse: AppendReuse::Always,
    };
    let mut shape = held.shape().to_vec();
    shape[TOKENS] += rows.shape()[TOKENS];
    match tails
        .take(held)
        .lease(&policy)
        .reserve(&shape, TOKENS, memory)?
    {
        Reserve::Ready(mut reserved) => {
            let before = reserved.counters().prefix_copied_bytes;
            reserved.write_rows(0, rows)?;
            let kept = reserved.seal().publish();
            let tensor = kept.tensor().clone();
            tails.keep(kept);
            Ok((tensor.into(), before + rows.bytes() as u64))
        }
        Reserve::Declined(reason) => Err(OpError::Unsupported(format!("a page: {reason}"))),
    }
}

/// Codes of both, slice by slice, in new memory.
fn codes(
    held: &EncodedValue,
    rows: &EncodedValue,
    allocate: Allocate<'_>,
) -> Result<(RuntimeValue, u64), OpError> {
    let (Some(affine), &[batch, heads, used, width], &[_, _, count, _]) =
        (held.affine_layout(), held.shape(), rows.shape())
    else {
        return Err(OpError::Unsupported("a page without codes".to_string()));
    };
    let row = width * affine.storage.bits() / 8;
    let total = batch * heads * (used + count) * row;
    let mut out = allocate(DType::Uint8, &[total])?;
    let (old, new) = (held.payload().as_bytes(), rows.payload().as_bytes());
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let slices = out.as_mut_bytes().chunks_exact_mut((used + count) * row);
    let sources = old
        .chunks_exact(used * row)
        .zip(new.chunks_exact(count * row));
    for (out, (old, new)) in slices.zip(sources) {
        let (front, back) = out.split_at_mut(used * row);
        front.copy_from_slice(old);
        back.copy_from_slice(new);
    }
    let affine = Affine {
        inferred: false,
        ..affine.clone()
    };
    let shape = [batch, heads, used + count, width];
    let value = EncodedValue::affine(affine, (DType::Float, &shape), out.freeze());
    let value = value.map_err(refeed_kernels::quantize::QuantizeError::from)?;
    Ok((value.into(), total as u64))
}
