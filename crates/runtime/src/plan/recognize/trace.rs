//! Finds the nodes of an attention, from the product of weights and values backwards.

use super::axes::{Seen, Wanted, follow};
use super::extents::Extents;
use super::flow::Flow;
use super::scores::{Factor, Passed, factor, scores_of, weights_of};
use crate::kernel::Slot;
use crate::ops::{MaskStep, holds};
use crate::plan::form::Form;
use crate::shapes::{Id, Rule};
use refeed_values::DType;

/// Most nodes between the product and the softmax, and between a cache and a product.
pub(super) const LENGTH_LIMIT: usize = 16;

/// Keys or values: a value of the plan, and how it is seen.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) slot: Slot,
    pub(super) seen: Seen,
}

/// An attention in single nodes.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The product of weights and values.
    pub(super) last: usize,
    /// All nodes that the attention kernel stands for, `last` included.
    pub(super) steps: Vec<usize>,
    pub(super) query: Slot,
    pub(super) key: Side,
    pub(super) value: Side,
    pub(super) factors: Vec<Factor>,
    /// What happens to the scores, in this order.
    pub(super) mask: Vec<MaskStep>,
    /// What each `Reshape` of scores or weights asks for.
    pub(super) views: Vec<Vec<Id>>,
    /// Whether weights that are no numbers become 0.
    pub(super) zero_when_unseen: bool,
}

impl Found {
    /// What must hold of the shapes of a call.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.key.seen.rules.iter().chain(&self.value.seen.rules)
    }
}

/// The attention whose last node is this step; `None` when it is no product of weights that a softmax makes.
pub(super) fn attention(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    last: usize,
) -> Option<Result<Found, String>> {
    let step = &flow.steps[last];
    let (Form::MatMul, &[Some(weights), Some(values)]) = (&step.form, &*step.inputs) else {
        return None;
    };
    let mut passed = Passed::new(flow.dtype(values), last);
    let softmax = weights_of(flow, extents, weights, &mut passed)?;
    Some(whole(flow, extents, values, softmax, passed))
}

fn whole(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    values: Slot,
    softmax: usize,
    mut passed: Passed,
) -> Result<Found, String> {
    let last = passed.last;
    let softmax = &flow.steps[softmax];
    let &[Some(scores)] = &*softmax.inputs else {
        return Err("Softmax has no input".to_string());
    };
    let rank = flow.known(scores).ty.tensor().and_then(|ty| ty.rank());
    if let Form::Softmax { axis } = softmax.form {
        let last_axis = axis == -1
            || rank.is_some_and(|rank| i64::try_from(rank) == Ok(axis.saturating_add(1)));
        if !last_axis {
            return Err(format!(
                "Softmax runs over axis {axis}, not over the keys alone"
            ));
        }
    }
    let traced = scores_of(flow, extents, scores, &mut passed)?;
    if let Some(trouble) = passed.trouble {
        return Err(trouble);
    }
    let &[Some(query), Some(keys)] = &*flow.steps[traced.product].inputs else {
        return Err("the product of queries and keys lacks an operand".to_string());
    };
    let (mut steps, mut factors) = (passed.steps, traced.factors);
    let storage = passed.storage;
    let query = queries(
        flow,
        query,
        storage,
        traced.product,
        &mut steps,
        &mut factors,
    );
    let mut operand = |slot, product, wanted, repeated| {
        let asked = Asked {
            slot,
            product,
            wanted,
            storage,
        };
        side(flow, extents, &asked, repeated)
    };
    let mut key = operand(keys, traced.product, Wanted::Keys, true)?;
    let mut value = operand(values, last, Wanted::Values, true)?;
    if key.side.seen.copies.is_some() != value.side.seen.copies.is_some() {
        // The repeated heads of one of them are read elsewhere, or lie in another order: both are taken as repeated.
        key = operand(keys, traced.product, Wanted::Keys, false)?;
        value = operand(values, last, Wanted::Values, false)?;
    }
    let types = [query, key.side.slot, value.side.slot].map(|slot| flow.dtype(slot));
    if let Some(other) = types
        .into_iter()
        .flatten()
        .find(|&one| Some(one) != storage)
    {
        let told = storage.map_or("not known".to_string(), |dtype| dtype.to_string());
        return Err(format!(
            "an operand of a product is of type {other}, the values are {told}"
        ));
    }
    let rank = key.side.seen.rank;
    if value.side.seen.rank != rank {
        return Err("keys and values have different numbers of axes".to_string());
    }
    factors.extend(key.factors);
    steps.extend(key.steps);
    steps.extend(value.steps);
    steps.sort_unstable();
    steps.dedup();
    // Scores have the axes that the Reshape before gave them; the views lie in reverse order.
    let axes_behind = |views: usize| passed.views.get(views).map_or(rank, Vec::len);
    let mask = traced.mask.into_iter().rev();
    let mask = mask.map(|(change, views)| MaskStep {
        change,
        rank: axes_behind(views),
    });
    if axes_behind(0) != rank {
        return Err("the weights have other axes than the product of queries and keys".to_string());
    }
    Ok(Found {
        last,
        steps,
        query,
        mask: mask.collect(),
        key: key.side,
        value: value.side,
        factors,
        views: passed.views,
        zero_when_unseen: passed.zero_when_unseen,
    })
}

/// The queries without their factors, in the type in which they are stored.
fn queries(
    flow: &Flow<'_>,
    mut query: Slot,
    storage: Option<DType>,
    mut reader: usize,
    steps: &mut Vec<usize>,
    factors: &mut Vec<Factor>,
) -> Slot {
    for _ in 0..LENGTH_LIMIT {
        if flow.only_reader(query) != Some(reader) {
            break;
        }
        let Some(index) = flow.producer_index(query) else {
            break;
        };
        let before = match widened(flow, index, storage) {
            Some(narrow) => narrow,
            None => match factor(flow, index) {
                Some((scaled, by)) => {
                    factors.push(by);
                    scaled
                }
                None => break,
            },
        };
        steps.push(index);
        (query, reader) = (before, index);
    }
    query
}

/// What a `Cast` reads, when that is of the type that is stored and the result has every number of it.
fn widened(flow: &Flow<'_>, index: usize, storage: Option<DType>) -> Option<Slot> {
    let step = &flow.steps[index];
    let data = step.inputs.first().copied().flatten()?;
    let Form::Cast { to: Some(to) } = step.form else {
        return None;
    };
    let from = flow.dtype(data)?;
    (Some(from) == storage && holds(to, from)).then_some(data)
}

/// An operand of a product.
struct Asked {
    slot: Slot,
    product: usize,
    wanted: Wanted,
    /// The type of the caches.
    storage: Option<DType>,
}

/// A side with the steps between the cache and the product.
struct Followed {
    side: Side,
    steps: Vec<usize>,
    factors: Vec<Factor>,
}

/// Finds the cache behind an operand: as far back as its axes can be told apart, and not beyond the node that repeats heads
/// unless `repeated`.
fn side(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    asked: &Asked,
    repeated: bool,
) -> Result<Followed, String> {
    let wanted = asked.wanted;
    let mut slot = asked.slot;
    let mut reader = asked.product;
    let mut steps: Vec<usize> = Vec::new();
    let mut factors: Vec<(usize, Factor)> = Vec::new();
    let mut bases = Vec::new();
    for _ in 0..=LENGTH_LIMIT {
        bases.push((slot, steps.len()));
        let Some(index) = flow.producer_index(slot) else {
            break;
        };
        let passes = |&other: &usize| {
            other == reader || matches!(flow.steps[other].form, Form::Shape { .. })
        };
        if flow.is_output(slot) || !flow.readers(slot).iter().all(passes) {
            break;
        }
        let step = &flow.steps[index];
        let data = step.inputs.first().copied().flatten();
        let next = match &step.form {
            Form::Transpose { .. }
            | Form::Reshape { .. }
            | Form::Expand
            | Form::Unsqueeze { .. }
            | Form::Identity => data,
            Form::Cast { to } if to.is_some() && data.and_then(|data| flow.dtype(data)) == *to => {
                data
            }
            Form::Cast { .. } => widened(flow, index, asked.storage),
            Form::Mul | Form::Div if wanted == Wanted::Keys => {
                factor(flow, index).map(|(scaled, by)| {
                    factors.push((steps.len(), by));
                    scaled
                })
            }
            _ => None,
        };
        let Some(next) = next else {
            break;
        };
        steps.push(index);
        (slot, reader) = (next, index);
    }
    let what = match wanted {
        Wanted::Keys => "keys",
        Wanted::Values => "values",
    };
    let mut columns = false;
    for &(slot, count) in bases.iter().rev() {
        let through: Vec<usize> = steps[..count].iter().rev().copied().collect();
        let seen = follow(flow, extents, slot, &through, wanted);
        let Some(seen) = seen.filter(|seen| repeated || seen.copies.is_none()) else {
            continue;
        };
        if seen.order.last().copied() != Some(seen.order.len() - 1) {
            columns = true;
            continue;
        }
        let within = factors.iter().filter(|(at, _)| *at < count);
        return Ok(Followed {
            side: Side { slot, seen },
            steps: through,
            factors: within.map(|(_, factor)| *factor).collect(),
        });
    }
    Err(match columns {
        true => format!("the {what} lie column by column, not row by row"),
        false => format!(
            "the axes of the {what} are not batch, head, length and width of a cache with repeated heads"
        ),
    })
}
