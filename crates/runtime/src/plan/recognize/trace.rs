//! Finds the nodes of an attention, from the product of weights and values backwards.

use super::axes::{Seen, Wanted, follow};
use super::extents::Extents;
use super::flow::Flow;
use crate::kernel::Slot;
use crate::ops::{MaskStep, absorbs};
use crate::plan::form::Form;
use crate::shapes::Rule;
use refeed_values::DType;

/// Most nodes between the product and the softmax, and between a cache and a product.
const LENGTH_LIMIT: usize = 16;

/// A number that multiplies the scores, or divides them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factor {
    pub(super) slot: Slot,
    pub(super) divides: bool,
}

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
    let mut steps = vec![last];
    let weights = weights_of(flow, weights, &mut steps)?;
    Some(whole(flow, extents, last, weights, values, steps))
}

/// Where the weights come from.
struct Weights {
    softmax: usize,
    zero_when_unseen: bool,
    /// The type that they are cast to from another one.
    cast: Option<DType>,
}

fn weights_of(flow: &Flow<'_>, weights: Slot, steps: &mut Vec<usize>) -> Option<Weights> {
    let mut slot = flow.behind_copies(weights, steps);
    let mut zero_when_unseen = false;
    let mut cast = None;
    if let (Form::Where, Some(index)) = (flow.form(slot), flow.producer_index(slot)) {
        let &[Some(condition), Some(yes), Some(no)] = &*flow.steps[index].inputs else {
            return None;
        };
        let asks = flow.producer_index(condition)?;
        let asked = flow.steps[asks].inputs.first().copied().flatten();
        if flow.steps[asks].form != Form::IsNaN || asked != Some(no) || !is_zero(flow, yes) {
            return None;
        }
        zero_when_unseen = true;
        steps.extend([index, asks]);
        slot = flow.behind_copies(no, steps);
    }
    if let (Form::Cast { to }, Some(step)) = (flow.form(slot), flow.producer(slot)) {
        cast = *to;
        slot = step.inputs.first().copied().flatten()?;
    }
    let softmax = flow.producer_index(slot)?;
    matches!(flow.steps[softmax].form, Form::Softmax { .. }).then_some(Weights {
        softmax,
        zero_when_unseen,
        cast,
    })
}

/// The one number that a value is in every call, and its type.
fn one_number(flow: &Flow<'_>, slot: Slot) -> Option<(DType, f64)> {
    let tensor = flow.known(slot).tensor()?;
    if tensor.elements() != 1 || tensor.rank() > 4 {
        return None;
    }
    let number = match tensor.dtype() {
        DType::Float => f64::from(tensor.view::<f32>().ok()?.iter().next()?),
        DType::Double => tensor.view::<f64>().ok()?.iter().next()?,
        _ => return None,
    };
    Some((tensor.dtype(), number))
}

/// Whether a value is 0 in one element in every call.
fn is_zero(flow: &Flow<'_>, slot: Slot) -> bool {
    one_number(flow, slot).is_some_and(|(_, number)| number == 0.0)
}

fn whole(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    last: usize,
    weights: Weights,
    values: Slot,
    mut steps: Vec<usize>,
) -> Result<Found, String> {
    if let Some(to) = weights.cast {
        return Err(format!("the weights are cast to {to} behind Softmax"));
    }
    let softmax = &flow.steps[weights.softmax];
    steps.push(weights.softmax);
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
    match flow.dtype(scores) {
        Some(DType::Float | DType::Double) => {}
        Some(dtype) => {
            return Err(format!(
                "numbers of type {dtype} are rounded between the nodes"
            ));
        }
        None => return Err("the type of the scores is not known".to_string()),
    }
    let traced = scores_of(flow, scores, &mut steps)?;
    let &[Some(query), Some(keys)] = &*flow.steps[traced.product].inputs else {
        return Err("the product of queries and keys lacks an operand".to_string());
    };
    steps.push(traced.product);
    let mut factors = traced.factors;
    let query = queries(flow, query, traced.product, &mut steps, &mut factors);
    let mut key = side(flow, extents, keys, traced.product, Wanted::Keys, true)?;
    let mut value = side(flow, extents, values, last, Wanted::Values, true)?;
    if key.side.seen.copies.is_some() != value.side.seen.copies.is_some() {
        // The repeated heads of one of them are read elsewhere, or lie in another order: both are taken as repeated.
        key = side(flow, extents, keys, traced.product, Wanted::Keys, false)?;
        value = side(flow, extents, values, last, Wanted::Values, false)?;
    }
    factors.extend(key.factors);
    steps.extend(key.steps);
    steps.extend(value.steps);
    steps.sort_unstable();
    steps.dedup();
    Ok(Found {
        last,
        steps,
        query,
        key: key.side,
        value: value.side,
        factors,
        mask: traced.mask,
        zero_when_unseen: weights.zero_when_unseen,
    })
}

/// The product behind the scores, and what happens to them on the way.
struct Scores {
    product: usize,
    factors: Vec<Factor>,
    mask: Vec<MaskStep>,
}

/// Whether the scores of a product come this way.
fn leads_to_product(flow: &Flow<'_>, slot: Slot, depth: usize) -> bool {
    let Some(step) = flow.producer(slot).filter(|_| depth > 0) else {
        return false;
    };
    let through = |at: usize| {
        let input = step.inputs.get(at).copied().flatten();
        input.is_some_and(|slot| leads_to_product(flow, slot, depth - 1))
    };
    match step.form {
        Form::MatMul => true,
        Form::Identity | Form::Cast { .. } | Form::Div => through(0),
        Form::Add | Form::Mul => through(0) || through(1),
        Form::Where => through(1) || through(2),
        _ => false,
    }
}

fn scores_of(flow: &Flow<'_>, scores: Slot, steps: &mut Vec<usize>) -> Result<Scores, String> {
    let mut found = Scores {
        product: 0,
        factors: Vec::new(),
        mask: Vec::new(),
    };
    let mut slot = scores;
    let mut added = false;
    for _ in 0..LENGTH_LIMIT {
        slot = flow.behind_copies(slot, steps);
        let Some(index) = flow.producer_index(slot) else {
            return Err("the scores are no product of queries and keys".to_string());
        };
        let step = &flow.steps[index];
        steps.push(index);
        if step.form == Form::MatMul {
            found.product = index;
            found.mask.reverse();
            return Ok(found);
        }
        if !found.factors.is_empty() && matches!(step.form, Form::Add | Form::Where) {
            return Err("the scores are scaled behind the mask".to_string());
        }
        let leads = |slot: Slot| leads_to_product(flow, slot, LENGTH_LIMIT);
        slot = match (&step.form, &*step.inputs) {
            (Form::Add, &[Some(a), Some(b)]) => {
                let (scores, summand) = if leads(a) { (a, b) } else { (b, a) };
                if added {
                    return Err("two masks are added, one after the other".to_string());
                }
                added = true;
                found.mask.push(MaskStep::Add(summand));
                scores
            }
            (Form::Where, &[Some(condition), Some(yes), Some(no)]) => {
                let keeps = leads(yes);
                let (scores, fill) = if keeps { (yes, no) } else { (no, yes) };
                if !flow.is_one_element(fill) {
                    return Err("masked scores become something else than one number".to_string());
                }
                if one_number(flow, fill).is_some_and(|(dtype, fill)| !absorbs(dtype, fill)) {
                    return Err(
                        "what stands in for masked scores is not low enough to leave nothing of them"
                            .to_string(),
                    );
                }
                found.mask.push(MaskStep::Fill {
                    condition,
                    fill,
                    keeps,
                });
                scores
            }
            (Form::Mul | Form::Div, &[Some(_), Some(_)]) => {
                let Some((scores, factor)) = factor(flow, index) else {
                    return Err("the scores are multiplied by more than one number".to_string());
                };
                found.factors.push(factor);
                scores
            }
            (Form::Cast { to: Some(to) }, _) => {
                return Err(format!("the scores are cast to {to}"));
            }
            _ => return Err(format!("the scores come from {}", step.label.op_type)),
        };
    }
    Err("the scores are no product of queries and keys".to_string())
}

/// What a `Mul` or `Div` by one number scales, and by what.
fn factor(flow: &Flow<'_>, index: usize) -> Option<(Slot, Factor)> {
    let step = &flow.steps[index];
    let &[Some(a), Some(b)] = &*step.inputs else {
        return None;
    };
    let by = |slot, divides| Factor { slot, divides };
    match step.form {
        Form::Mul if flow.is_one_element(b) => Some((a, by(b, false))),
        Form::Mul if flow.is_one_element(a) => Some((b, by(a, false))),
        Form::Div if flow.is_one_element(b) => Some((a, by(b, true))),
        _ => None,
    }
}

/// The queries without their factors.
fn queries(
    flow: &Flow<'_>,
    mut query: Slot,
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
        let Some((scaled, by)) = factor(flow, index) else {
            break;
        };
        steps.push(index);
        factors.push(by);
        (query, reader) = (scaled, index);
    }
    query
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
    operand: Slot,
    product: usize,
    wanted: Wanted,
    repeated: bool,
) -> Result<Followed, String> {
    let mut slot = operand;
    let mut reader = product;
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
        if seen.order[3] != 3 {
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
