//! Which keys a query may see: the only place where causality, windows, lengths and masks meet.

use crate::KernelError;
use crate::storage::{Accumulator, Real};
use refeed_values::View;

/// Keys of a tile; one bit each in a `u64`.
pub(super) const TILE: usize = 64;
/// Tiles of a span.
pub(super) const TILES: usize = 8;
/// Keys that few query rows are multiplied with before the first of their values is added: the longer a stream of rows is,
/// the less of it is spent on beginnings, when nothing is under way yet.
pub(super) const SPAN: usize = TILES * TILE;

/// A mask, broadcast as NumPy does to `[batch, query_heads, length, keys]`. Its last axis may be shorter than the
/// keys (it is not broadcast, an extent of 1 included): keys beyond it are invisible.
#[derive(Debug, Clone, Default)]
pub enum Mask<'a, T> {
    /// All keys, as far as the mask goes.
    #[default]
    None,
    /// Nonzero: visible.
    Bool(View<'a, u8>),
    /// Added to the scores; negative infinity makes a key invisible, any finite value does not.
    Float(View<'a, T>),
}

/// What queries may see. Key `j` has the absolute position `j`; query `i` of batch row `b` has
/// `query_start[b] + i`, which may be negative.
#[derive(Debug, Clone)]
pub struct Visibility<'a, T> {
    /// A key after the query's position is invisible.
    pub causal: bool,
    /// How many positions before its own a query sees; `None`: all.
    pub left_window: Option<u64>,
    /// How many positions after its own a query sees; `None`: all.
    pub right_window: Option<u64>,
    /// Position of the first query: one entry for each batch row, one for all, or none (0).
    pub query_start: &'a [i64],
    /// Number of valid keys, those beyond being padding: one entry for each batch row, one for all, or none (all valid).
    pub lengths: &'a [i64],
    /// Mask.
    pub mask: Mask<'a, T>,
    /// Sinks: scores that stand in the sum of exponentials, as those of a key that every query sees and whose value is
    /// zero. One for each query head, one for all, or none.
    pub sinks: &'a [T],
}

impl<T> Default for Visibility<'_, T> {
    /// Everything is visible.
    fn default() -> Self {
        Visibility {
            causal: false,
            left_window: None,
            right_window: None,
            query_start: &[],
            lengths: &[],
            mask: Mask::None,
            sinks: &[],
        }
    }
}

/// [`Visibility`] checked against the extents of a problem.
#[derive(Debug)]
pub(super) struct Visible<'a, T> {
    rules: Visibility<'a, T>,
    /// Keys, cut at the end of the mask.
    keys: usize,
}

/// The entry for a batch row (or a head) of a slice that has one for each, one for all, or none.
fn entry<T: Copy>(entries: &[T], row: usize) -> Option<T> {
    match entries {
        [] => None,
        [all] => Some(*all),
        each => each.get(row).copied(),
    }
}

impl<'a, T: Real> Visible<'a, T> {
    pub(super) fn new(
        rules: &Visibility<'a, T>,
        [batch, heads, length, total]: [usize; 4],
    ) -> Result<Self, KernelError> {
        for (operand, expected, got) in [
            ("query positions", batch, rules.query_start.len()),
            ("valid lengths", batch, rules.lengths.len()),
            ("sinks", heads, rules.sinks.len()),
        ] {
            if ![0, 1, expected].contains(&got) {
                return Err(KernelError::Length {
                    operand,
                    expected,
                    got,
                });
            }
        }
        for &got in rules.lengths {
            if usize::try_from(got).map_or(true, |n| n > total) {
                return Err(KernelError::Range {
                    parameter: "valid length",
                    got,
                    low: 0,
                    high: i64::try_from(total).unwrap_or(i64::MAX),
                });
            }
        }
        let wanted = [batch, heads, length, total];
        let whole = |shape: &[usize]| -> Result<[usize; 4], KernelError> {
            match shape.last() {
                Some(&keys) if keys <= total => Ok([batch, heads, length, keys]),
                _ => Err(KernelError::shape("attention mask", &wanted, shape)),
            }
        };
        let refused = |shape: &[usize]| KernelError::shape("attention mask", &wanted, shape);
        let (mask, keys) = match &rules.mask {
            Mask::None => (Mask::None, total),
            Mask::Bool(view) => {
                let shape = whole(view.shape())?;
                let full = view
                    .broadcast(&shape)
                    .ok_or_else(|| refused(view.shape()))?;
                (Mask::Bool(full), shape[3])
            }
            Mask::Float(view) => {
                let shape = whole(view.shape())?;
                let full = view
                    .broadcast(&shape)
                    .ok_or_else(|| refused(view.shape()))?;
                (Mask::Float(full), shape[3])
            }
        };
        Ok(Visible {
            rules: Visibility {
                mask,
                ..rules.clone()
            },
            keys,
        })
    }

    /// The keys `low..high` that position, window and length leave to query `query` of batch row `row`; the mask may
    /// take more away.
    pub(super) fn range(&self, row: usize, query: usize) -> (usize, usize) {
        let rules = &self.rules;
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let start = entry(rules.query_start, row).unwrap_or(0);
        let position = start.saturating_add(signed(query as u64));
        let mut low = 0;
        let mut high = signed(self.keys as u64);
        if let Some(length) = entry(rules.lengths, row) {
            high = high.min(length);
        }
        if rules.causal {
            high = high.min(position.saturating_add(1));
        }
        if let Some(after) = rules.right_window {
            high = high.min(position.saturating_add(signed(after)).saturating_add(1));
        }
        if let Some(before) = rules.left_window {
            low = low.max(position.saturating_sub(signed(before)));
        }
        if low >= high {
            return (0, 0);
        }
        // Both lie between 0 and the number of keys.
        (low as usize, high as usize)
    }

    /// The score of a query head that has no value.
    pub(super) fn sink(&self, head: usize) -> Option<T::Acc> {
        entry(self.rules.sinks, head).map(Real::to_acc)
    }

    /// Whether scores have a summand.
    pub(super) fn has_bias(&self) -> bool {
        matches!(self.rules.mask, Mask::Float(_))
    }

    /// Whether a query of every head sees the same, its position being the same.
    pub(super) fn same_for_heads(&self) -> bool {
        let still = |strides: &[isize]| strides.get(1).is_some_and(|stride| *stride == 0);
        match &self.rules.mask {
            Mask::None => true,
            Mask::Bool(mask) => still(mask.strides()),
            Mask::Float(mask) => still(mask.strides()),
        }
    }

    /// The visible ones of the keys `start..start + 64`, given the row's range, as bits; for a float mask, `bias` gets
    /// the summands of those keys and 0 elsewhere.
    #[inline(always)]
    pub(super) fn tile(
        &self,
        [row, head, query]: [usize; 3],
        (low, high): (usize, usize),
        start: usize,
        bias: &mut [T::Acc],
    ) -> u64 {
        let (from, to) = (
            low.max(start) - start,
            high.min(start + TILE).saturating_sub(start),
        );
        if from >= to {
            return 0;
        }
        let mut bits = (u64::MAX >> (TILE - (to - from))) << from;
        match &self.rules.mask {
            Mask::None => {}
            Mask::Bool(mask) => {
                let Some(lane) = mask.lane(&[row, head, query]) else {
                    return 0; // the mask was broadcast to the problem
                };
                let mut seen = 0;
                if let Some(line) = lane.as_slice() {
                    for (j, x) in line[start + from..start + to].iter().enumerate() {
                        seen |= u64::from(*x != 0) << j;
                    }
                } else {
                    for j in from..to {
                        let x = lane.get(start + j).unwrap_or(0);
                        seen |= u64::from(x != 0) << (j - from);
                    }
                }
                bits &= seen << from;
            }
            Mask::Float(mask) => {
                let Some(lane) = mask.lane(&[row, head, query]) else {
                    return 0; // the mask was broadcast to the problem
                };
                bias.fill(T::Acc::ZERO);
                let slots = &mut bias[from..to];
                if let Some(line) = lane.as_slice() {
                    for (x, slot) in line[start + from..start + to].iter().zip(slots) {
                        *slot = x.to_acc();
                    }
                } else {
                    for (j, slot) in slots.iter_mut().enumerate() {
                        *slot = lane.get(start + from + j).unwrap_or_default().to_acc();
                    }
                }
                let mut seen = 0;
                for (j, slot) in bias[from..to].iter_mut().enumerate() {
                    if *slot == T::Acc::NEG_INFINITY {
                        *slot = T::Acc::ZERO;
                    } else {
                        seen |= 1 << j;
                    }
                }
                bits &= seen << from;
            }
        }
        bits
    }
}
