//! The scores of an attention: what lies between the two products.

use super::extents::Extents;
use super::flow::Flow;
use super::trace::LENGTH_LIMIT;
use crate::kernel::Slot;
use crate::ops::{MaskChange, holds, is_low, one_number};
use crate::plan::form::Form;
use crate::shapes::Id;
use refeed_values::DType;

/// A number that multiplies the scores, or divides them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factor {
    pub(super) slot: Slot,
    pub(super) divides: bool,
}

/// What has been passed on the way back from the product of weights and values.
#[derive(Debug)]
pub(super) struct Passed {
    /// The product of weights and values.
    pub(super) last: usize,
    /// The type in which keys and values are stored.
    pub(super) storage: Option<DType>,
    /// All nodes, `last` included.
    pub(super) steps: Vec<usize>,
    /// What each `Reshape` asks for, the last one first.
    pub(super) views: Vec<Vec<Id>>,
    /// Whether weights that are no numbers become 0.
    pub(super) zero_when_unseen: bool,
    /// Why the nodes must stay.
    pub(super) trouble: Option<String>,
}

impl Passed {
    pub(super) fn new(storage: Option<DType>, last: usize) -> Passed {
        Passed {
            last,
            storage,
            steps: vec![last],
            views: Vec::new(),
            zero_when_unseen: false,
            trouble: None,
        }
    }

    fn refuse(&mut self, why: impl FnOnce() -> String) {
        self.trouble.get_or_insert_with(why);
    }

    /// The value behind nodes that compute nothing: copies, a `Cast` between types that have every number that is stored,
    /// a `Reshape` that splits or merges batch and heads.
    fn back(&mut self, flow: &Flow<'_>, extents: &mut Extents<'_, '_>, mut slot: Slot) -> Slot {
        for _ in 0..LENGTH_LIMIT {
            slot = flow.behind_copies(slot, &mut self.steps);
            match (flow.dtype(slot), self.storage) {
                (Some(dtype), Some(storage)) if holds(dtype, storage) => {}
                (Some(dtype), Some(storage)) => {
                    self.refuse(|| format!("numbers of type {storage} become {dtype} on the way"));
                }
                _ => self.refuse(|| "the type of the scores is not known".to_string()),
            }
            let Some(index) = flow.producer_index(slot) else {
                return slot;
            };
            let step = &flow.steps[index];
            let Some(data) = step.inputs.first().copied().flatten() else {
                return slot;
            };
            match step.form {
                Form::Cast { .. } if flow.dtype(data).is_some_and(DType::is_float) => {}
                Form::Reshape { .. } => {
                    let target = step.inputs.get(1).copied().flatten();
                    let target = target.and_then(|target| extents.list(target));
                    let items = target.map(|list| list.items.clone()).unwrap_or_default();
                    // A zero would keep the axis at its place, which is another one here.
                    let zero = items.iter().any(|&id| extents.number(id) == Some(0));
                    if ![3, 4].contains(&items.len()) || zero {
                        self.refuse(|| "the scores get axes that are not known".to_string());
                    }
                    self.views.push(items);
                }
                _ => return slot,
            }
            self.steps.push(index);
            slot = data;
        }
        slot
    }
}

/// The softmax that makes the weights.
pub(super) fn weights_of(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    weights: Slot,
    passed: &mut Passed,
) -> Option<usize> {
    let mut slot = passed.back(flow, extents, weights);
    if let (Form::Where, Some(index)) = (flow.form(slot), flow.producer_index(slot)) {
        let &[Some(condition), Some(yes), Some(no)] = &*flow.steps[index].inputs else {
            return None;
        };
        let asks = flow.producer_index(condition)?;
        let asked = flow.steps[asks].inputs.first().copied().flatten();
        if flow.steps[asks].form != Form::IsNaN
            || asked != Some(no)
            || known_number(flow, yes) != Some(0.0)
        {
            return None;
        }
        passed.zero_when_unseen = true;
        passed.steps.extend([index, asks]);
        slot = passed.back(flow, extents, no);
    }
    let softmax = flow.producer_index(slot)?;
    passed.steps.push(softmax);
    matches!(flow.steps[softmax].form, Form::Softmax { .. }).then_some(softmax)
}

/// The one number that a value is in every call.
fn known_number(flow: &Flow<'_>, slot: Slot) -> Option<f64> {
    one_number(flow.known(slot).tensor()?)
}

/// The product behind the scores, and what happens to them on the way.
pub(super) struct Scores {
    pub(super) product: usize,
    pub(super) factors: Vec<Factor>,
    /// The last change first, each with the number of views that come after it.
    pub(super) mask: Vec<(MaskChange, usize)>,
}

/// Whether the scores of a product come this way; `viewed` when a `Reshape` may be on it.
fn leads_to_product(flow: &Flow<'_>, slot: Slot, viewed: bool, depth: usize) -> bool {
    let Some(step) = flow.producer(slot).filter(|_| depth > 0) else {
        return false;
    };
    let through = |at: usize| {
        let input = step.inputs.get(at).copied().flatten();
        input.is_some_and(|slot| leads_to_product(flow, slot, viewed, depth - 1))
    };
    match step.form {
        Form::MatMul => true,
        Form::Identity | Form::Cast { .. } => through(0),
        Form::Reshape { .. } if viewed => through(0),
        Form::Add | Form::Mul | Form::Div => through(0) || through(1),
        Form::Where => through(1) || through(2),
        _ => false,
    }
}

/// Of two operands, the one that scores come by, and the other one.
fn leading(flow: &Flow<'_>, a: Slot, b: Slot) -> (Slot, Slot) {
    for viewed in [false, true] {
        for (scores, other) in [(a, b), (b, a)] {
            if leads_to_product(flow, scores, viewed, LENGTH_LIMIT) {
                return (scores, other);
            }
        }
    }
    (b, a)
}

/// Finds the product behind the scores.
pub(super) fn scores_of(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    scores: Slot,
    passed: &mut Passed,
) -> Result<Scores, String> {
    let mut found = Scores {
        product: 0,
        factors: Vec::new(),
        mask: Vec::new(),
    };
    let mut slot = scores;
    let mut added = false;
    for _ in 0..LENGTH_LIMIT {
        slot = passed.back(flow, extents, slot);
        let Some(index) = flow.producer_index(slot) else {
            return Err("the scores are no product of queries and keys".to_string());
        };
        let step = &flow.steps[index];
        passed.steps.push(index);
        if step.form == Form::MatMul {
            found.product = index;
            return Ok(found);
        }
        if !found.factors.is_empty() && matches!(step.form, Form::Add | Form::Where) {
            return Err("the scores are scaled behind the mask".to_string());
        }
        slot = match (&step.form, &*step.inputs) {
            (Form::Add, &[Some(a), Some(b)]) => {
                let (scores, summand) = leading(flow, a, b);
                if added {
                    return Err("two masks are added, one after the other".to_string());
                }
                added = true;
                let change = MaskChange::Add(summand);
                found.mask.push((change, passed.views.len()));
                scores
            }
            (Form::Where, &[Some(condition), Some(yes), Some(no)]) => {
                let (scores, fill) = leading(flow, yes, no);
                if !flow.is_one_element(fill) {
                    return Err("masked scores become something else than one number".to_string());
                }
                if known_number(flow, fill).is_some_and(|fill| !is_low(fill)) {
                    return Err(
                        "what stands in for masked scores is not low enough to leave nothing of them"
                            .to_string(),
                    );
                }
                let change = MaskChange::Fill {
                    condition,
                    fill,
                    keeps: scores == yes,
                };
                found.mask.push((change, passed.views.len()));
                scores
            }
            (Form::Mul | Form::Div, &[Some(_), Some(_)]) => {
                let Some((scores, factor)) = factor(flow, index) else {
                    let what = match step.form {
                        Form::Mul => "the scores are multiplied by more than one number",
                        _ => "the scores are divided by more than one number, or divide one",
                    };
                    return Err(what.to_string());
                };
                found.factors.push(factor);
                scores
            }
            _ => return Err(format!("the scores come from {}", step.label.op_type)),
        };
    }
    Err("the scores are no product of queries and keys".to_string())
}

/// What a `Mul` or `Div` by one number scales, and by what.
pub(super) fn factor(flow: &Flow<'_>, index: usize) -> Option<(Slot, Factor)> {
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
