//! Attention that a graph writes out: `MatMul`, a factor, a mask, `Softmax`, `MatMul`, around keys and values whose heads
//! `Expand` repeats, in four axes or in three with batch and heads as one, with `Cast` around the softmax. It is given to
//! the attention kernel where that computes the same.
//!
//! Three steps. *Trace* (`trace.rs`, `scores.rs`) finds the nodes, from the second product backwards. *Follow* (`axes.rs`,
//! `extents.rs`) shows which axis of the cache is which of the product, as equations over the shapes of a call: nothing
//! that a model only declares is believed. *Replace* (here) checks that nobody else reads what lies between, takes out the
//! nodes that are needed no more, those that compute shapes included, and keeps them as the plan of the fallback: the
//! kernel checks the equations in each call, and where one does not hold the nodes run as they are written.

mod axes;
mod extents;
mod flow;
mod scores;
mod trace;

#[cfg(test)]
mod tests;

use crate::control::Body;
use crate::error::NodePath;
use crate::kernel::Slot;
use crate::ops::{
    MaskChange, MaskStep, RecognizedAttention, RecognizedCache, RecognizedOperands, ToldShape,
};
use crate::plan::form::Form;
use crate::plan::scope::Scope;
use crate::plan::{Plan, Step};
use crate::recognition::{AttentionForm, Calls};
use crate::shapes::{Id, Rule, Shapes};
use extents::Extents;
use flow::Flow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use trace::Found;

/// Gives the attentions of a scope to the attention kernel, and tells of each that was found.
pub(super) fn recognize(scope: &mut Scope<'_>, outputs: &[Slot]) -> Vec<AttentionForm> {
    let products = scope.steps.iter().any(|step| step.form == Form::MatMul);
    let softmax = |step: &Step| matches!(step.form, Form::Softmax { .. });
    if !products || !scope.steps.iter().any(softmax) {
        return Vec::new();
    }
    let (forms, regions, removed, retold) = {
        let flow = Flow::new(&scope.steps, &scope.known, outputs);
        let mut extents = Extents::new(&flow);
        let (mut forms, mut found) = (Vec::new(), Vec::new());
        for index in 0..scope.steps.len() {
            match trace::attention(&flow, &mut extents, index) {
                None => {}
                Some(Ok(one)) => found.push(one),
                Some(Err(obstacle)) => forms.push(left(&scope.steps[index], obstacle)),
            }
        }
        let (found, removed, refused) = separate(&flow, &mut extents, found);
        for (one, obstacle) in refused {
            forms.push(left(&scope.steps[one.last], obstacle));
        }
        let regions: Vec<Region> = found
            .iter()
            .map(|one| region(&flow, &extents, one, &removed, &lasts(&found)))
            .collect();
        let retold = retold(&flow, &mut extents, &removed, &lasts(&found));
        (forms, regions, removed, retold)
    };
    replace(scope, regions, &removed, retold, forms)
}

/// An attention whose nodes stay.
fn left(step: &Step, obstacle: String) -> AttentionForm {
    AttentionForm {
        node: NodePath::from(&step.label),
        nodes: 0,
        obstacle: Some(Arc::from(obstacle)),
        calls: Arc::default(),
    }
}

/// Attentions that stay nodes, and why.
type Refused = Vec<(Found, String)>;

/// Which attentions may be taken out of the plan, and the steps that go with them. An attention that somebody looks into
/// stays, which may make others stay.
fn separate(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    mut found: Vec<Found>,
) -> (Vec<Found>, BTreeSet<usize>, Refused) {
    let mut refused = Vec::new();
    loop {
        let removed = removable(flow, extents, &found);
        let lasts = lasts(&found);
        let before = found.len();
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        for one in found {
            match obstacle(flow, extents, &one, &removed, &lasts) {
                None => kept.push(one),
                Some(obstacle) => gone.push((one, obstacle)),
            }
        }
        found = kept;
        refused.append(&mut gone);
        if found.len() == before {
            return (found, removed, refused);
        }
    }
}

/// The steps whose outputs these attentions compute.
fn lasts(found: &[Found]) -> BTreeSet<usize> {
    found.iter().map(|one| one.last).collect()
}

/// The steps of these attentions, and those that only compute shapes for them.
fn removable(flow: &Flow<'_>, extents: &Extents<'_, '_>, found: &[Found]) -> BTreeSet<usize> {
    let mut removed: BTreeSet<usize> = found.iter().flat_map(|one| one.steps.clone()).collect();
    let needed: BTreeSet<Slot> = found.iter().flat_map(|one| reads(extents, one)).collect();
    let mut open: Vec<Slot> = removed
        .iter()
        .flat_map(|&index| inputs(flow, index))
        .collect();
    while let Some(slot) = open.pop() {
        let Some(index) = flow.producer_index(slot) else {
            continue;
        };
        let step = &flow.steps[index];
        if removed.contains(&index) || !computes_shapes(&step.form) {
            continue;
        }
        let unseen = step.outputs.iter().flatten().all(|&slot| {
            let readers = flow.readers(slot);
            !flow.is_output(slot)
                && !needed.contains(&slot)
                && readers.iter().all(|reader| removed.contains(reader))
        });
        let integers = step.outputs.iter().flatten().all(|&slot| {
            let dtype = flow.dtype(slot);
            dtype.is_some_and(|dtype| !dtype.is_float())
        });
        if unseen && integers {
            removed.insert(index);
            open.extend(inputs(flow, index));
        }
    }
    removed
}

fn inputs(flow: &Flow<'_>, index: usize) -> impl Iterator<Item = Slot> {
    flow.steps[index].inputs.iter().flatten().copied()
}

/// Operators of which a shape is computed. They fail in no call in which the attention's equations hold.
fn computes_shapes(form: &Form) -> bool {
    matches!(
        form,
        Form::Shape { .. }
            | Form::Gather { .. }
            | Form::Concat { .. }
            | Form::ConstantOfShape { .. }
            | Form::Slice
            | Form::Unsqueeze { .. }
            | Form::Squeeze { .. }
            | Form::Reshape { .. }
            | Form::Cast { .. }
            | Form::Identity
            | Form::Equal
            | Form::Where
            | Form::Add
            | Form::Sub
            | Form::Mul
            | Form::Div
    )
}

/// What stands in the way of taking out an attention's steps.
fn obstacle(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    one: &Found,
    removed: &BTreeSet<usize>,
    lasts: &BTreeSet<usize>,
) -> Option<String> {
    for &index in one.steps.iter().filter(|&&index| index != one.last) {
        for &slot in flow.steps[index].outputs.iter().flatten() {
            let op_type = &flow.steps[index].label.op_type;
            if flow.is_output(slot) {
                return Some(format!("what {op_type} makes on the way is an output"));
            }
            let others = flow.readers(slot).iter();
            let others: Vec<usize> = others
                .filter(|reader| !removed.contains(reader))
                .copied()
                .collect();
            let mut told = |other: &usize| told(flow, extents, *other, removed, lasts).is_some();
            if let Some(other) = others.into_iter().find(|other| !told(other)) {
                let other = &flow.steps[other].label.op_type;
                return Some(format!(
                    "what {op_type} makes on the way is also read by {other}"
                ));
            }
        }
    }
    reads(extents, one)
        .iter()
        .any(|&slot| is_inside(flow, slot, removed, lasts))
        .then(|| "a factor, mask or shape is computed from what lies on the way".to_string())
}

/// Whether a value is not there once the steps are taken out.
fn is_inside(
    flow: &Flow<'_>,
    slot: Slot,
    removed: &BTreeSet<usize>,
    lasts: &BTreeSet<usize>,
) -> bool {
    let producer = flow.producer_index(slot);
    producer.is_some_and(|index| removed.contains(&index) && !lasts.contains(&index))
}

/// The numbers that a `Shape` of what lies on the way gives, from values that stay.
fn told(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    index: usize,
    removed: &BTreeSet<usize>,
    lasts: &BTreeSet<usize>,
) -> Option<Vec<Id>> {
    let step = &flow.steps[index];
    let (Form::Shape { start, end }, &[Some(slot)]) = (&step.form, &*step.inputs) else {
        return None;
    };
    let items = extents.part_of_shape(slot, *start, *end)?;
    let all = extents.closure(items.iter().copied());
    let there = extents
        .leaves(&all)
        .all(|slot| !is_inside(flow, slot, removed, lasts));
    there.then_some(items)
}

/// `Shape` nodes that stay although what they read goes: their steps compute the numbers from values that stay.
fn retold(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    removed: &BTreeSet<usize>,
    lasts: &BTreeSet<usize>,
) -> Vec<(usize, Step)> {
    let inside = removed.iter().filter(|index| !lasts.contains(index));
    let slots = inside.flat_map(|&index| flow.steps[index].outputs.iter().flatten());
    let readers: BTreeSet<usize> = slots
        .flat_map(|&slot| flow.readers(slot))
        .copied()
        .collect();
    let mut steps = Vec::new();
    for index in readers
        .into_iter()
        .filter(|reader| !removed.contains(reader))
    {
        let Some(items) = told(flow, extents, index, removed, lasts) else {
            continue;
        };
        let all = extents.closure(items.iter().copied());
        let mut inputs: Vec<Option<Slot>> = Vec::new();
        let (exprs, numbers) = extents.program(&all, |slot| {
            inputs.push(Some(slot));
            inputs.len() - 1
        });
        let items = items
            .iter()
            .filter_map(|id| numbers.get(id).copied())
            .collect();
        let shapes = Shapes {
            exprs,
            rules: Vec::new(),
        };
        steps.push((
            index,
            Step {
                kernel: Arc::new(ToldShape::new(shapes, items)),
                inputs: inputs.into_boxed_slice(),
                form: Form::Other,
                ..flow.steps[index].clone()
            },
        ));
    }
    steps
}

/// The values that an attention reads.
fn reads(extents: &Extents<'_, '_>, one: &Found) -> Vec<Slot> {
    let mut slots = vec![one.query, one.key.slot, one.value.slot];
    slots.extend(one.factors.iter().map(|factor| factor.slot));
    for step in &one.mask {
        match step.change {
            MaskChange::Add(slot) => slots.push(slot),
            MaskChange::Fill {
                condition, fill, ..
            } => slots.extend([condition, fill]),
        }
    }
    slots.extend(extents.leaves(&expressions(extents, one)));
    slots
}

/// The expressions that an attention's equations are made of, each after its parts.
fn expressions(extents: &Extents<'_, '_>, one: &Found) -> BTreeSet<Id> {
    let mut open: Vec<Id> = Vec::new();
    for rule in one.rules() {
        match *rule {
            Rule::Equal(a, b) | Rule::Keeps(a, b) => open.extend([a, b]),
            Rule::NotZero(a) => open.push(a),
        }
    }
    open.extend(one.key.seen.copies);
    open.extend(one.value.seen.copies);
    open.extend(one.views.iter().flatten());
    extents.closure(open)
}

/// An attention ready to replace its steps.
struct Region {
    last: usize,
    /// Steps that the fallback runs, in order.
    steps: Vec<usize>,
    /// Inputs of the new step.
    inputs: Vec<Slot>,
    operands: RecognizedOperands,
}

fn region(
    flow: &Flow<'_>,
    extents: &Extents<'_, '_>,
    one: &Found,
    removed: &BTreeSet<usize>,
    lasts: &BTreeSet<usize>,
) -> Region {
    // The steps of the attention, and what they need of those that go.
    let mut steps: BTreeSet<usize> = one.steps.iter().copied().collect();
    let mut open: Vec<usize> = one.steps.clone();
    while let Some(index) = open.pop() {
        for slot in inputs(flow, index) {
            if let Some(from) = flow.producer_index(slot)
                && removed.contains(&from)
                && !lasts.contains(&from)
                && steps.insert(from)
            {
                open.push(from);
            }
        }
    }
    let mut given: Vec<Slot> = Vec::new();
    let mut place = |slot: Slot| {
        let held = given.iter().position(|&one| one == slot);
        held.unwrap_or_else(|| {
            given.push(slot);
            given.len() - 1
        })
    };
    let query = place(one.query);
    let mut cache = |side: &trace::Side| RecognizedCache {
        input: place(side.slot),
        order: side.seen.order.clone(),
        copies: None,
    };
    let (mut key, mut value) = (cache(&one.key), cache(&one.value));
    let factors = one
        .factors
        .iter()
        .map(|factor| (place(factor.slot), factor.divides));
    let factors = factors.collect();
    let mask = one.mask.iter().map(|step| MaskStep {
        change: match step.change {
            MaskChange::Add(slot) => MaskChange::Add(place(slot) as Slot),
            MaskChange::Fill {
                condition,
                fill,
                keeps,
            } => MaskChange::Fill {
                condition: place(condition) as Slot,
                fill: place(fill) as Slot,
                keeps,
            },
        },
        rank: step.rank,
    });
    let mask = mask.collect();
    let used = expressions(extents, one);
    let (exprs, numbers) = extents.program(&used, &mut place);
    let id = |old: Id| numbers.get(&old).copied().unwrap_or(Id::MAX);
    let rules = one.rules().map(|rule| match *rule {
        Rule::Equal(a, b) => Rule::Equal(id(a), id(b)),
        Rule::Keeps(a, b) => Rule::Keeps(id(a), id(b)),
        Rule::NotZero(a) => Rule::NotZero(id(a)),
    });
    let rules = rules.collect();
    key.copies = one.key.seen.copies.map(id);
    value.copies = one.value.seen.copies.map(id);
    let views = one.views.iter();
    let views = views.map(|view| view.iter().map(|&old| id(old)).collect());
    let operands = RecognizedOperands {
        query,
        rank: one.key.seen.rank,
        key,
        value,
        factors,
        mask,
        views: views.collect(),
        zero_when_unseen: one.zero_when_unseen,
        shapes: Shapes { exprs, rules },
    };
    Region {
        last: one.last,
        steps: steps.into_iter().collect(),
        inputs: given,
        operands,
    }
}

/// Takes the steps out of the scope and puts the attentions in their place.
fn replace(
    scope: &mut Scope<'_>,
    regions: Vec<Region>,
    removed: &BTreeSet<usize>,
    retold: Vec<(usize, Step)>,
    mut forms: Vec<AttentionForm>,
) -> Vec<AttentionForm> {
    let old = std::mem::take(&mut scope.steps);
    let mut made: HashMap<usize, Step> = retold.into_iter().collect();
    for region in regions {
        let steps: Vec<Step> = region
            .steps
            .iter()
            .map(|&index| old[index].clone())
            .collect();
        let (step, form) = built(
            scope,
            region.last,
            region.inputs,
            region.operands,
            &old,
            steps,
        );
        made.insert(region.last, step);
        forms.push(form);
    }
    for (index, step) in old.into_iter().enumerate() {
        match made.remove(&index) {
            Some(new) => scope.steps.push(new),
            None if removed.contains(&index) => {}
            None => scope.steps.push(step),
        }
    }
    forms.sort_by_key(|form| form.node.index);
    forms
}

/// The step that runs the kernel, with the plan of the nodes that it stands for.
fn built(
    scope: &Scope<'_>,
    last: usize,
    mut inputs: Vec<Slot>,
    operands: RecognizedOperands,
    old: &[Step],
    steps: Vec<Step>,
) -> (Step, AttentionForm) {
    let whole = &old[last];
    let nodes = steps.len();
    let mut inner: HashMap<Slot, Slot> = HashMap::new();
    let mut names: Vec<Arc<str>> = Vec::new();
    let known = scope.slot_names();
    let mut captures = Vec::new();
    let mut plan = Plan::default();
    for mut step in steps {
        for slot in step.inputs.iter_mut().flatten() {
            let next = inner.len() as Slot;
            let outside = *slot;
            *slot = *inner.entry(outside).or_insert(next);
            if *slot == next {
                names.push(known[outside as usize].clone());
                let held = inputs.iter().position(|&one| one == outside);
                let position = held.unwrap_or_else(|| {
                    inputs.push(outside);
                    inputs.len() - 1
                });
                captures.push((position, next));
            }
        }
        for slot in step.outputs.iter_mut().flatten() {
            let next = inner.len() as Slot;
            names.push(known[*slot as usize].clone());
            inner.insert(*slot, next);
            *slot = next;
        }
        plan.steps.push(step);
    }
    plan.slot_count = inner.len();
    plan.names = names;
    let outputs = whole.outputs.iter().flatten();
    plan.outputs = outputs
        .filter_map(|slot| inner.get(slot).copied())
        .collect();
    plan.place_releases();
    let calls = Arc::new(Calls::default());
    let form = AttentionForm {
        node: NodePath::from(&whole.label),
        nodes,
        obstacle: None,
        calls: calls.clone(),
    };
    let step = Step {
        kernel: Arc::new(RecognizedAttention::new(
            operands,
            Body::new(plan, captures),
            calls,
        )),
        inputs: inputs.into_iter().map(Some).collect(),
        outputs: whole.outputs.clone(),
        release: Box::default(),
        sites: Box::default(),
        label: whole.label.clone(),
        rewrites_cache: false,
        doubtful: false,
        form: Form::Nodes,
    };
    (step, form)
}
