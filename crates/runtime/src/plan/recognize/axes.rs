//! Keys and values between the cache and the product: which axis of the cache an axis of the operand is, when nodes
//! repeat heads, split axes, merge them and change their order.

use super::extents::{Extents, axes_in_order, inserted};
use super::flow::Flow;
use crate::kernel::Slot;
use crate::plan::form::Form;
use crate::shapes::{Expr, Id, Rule};
use refeed_graph::types::Dim;
use smallvec::{SmallVec, smallvec};

/// Ways to cut the axes of a `Reshape` that are tried, in all nodes of one operand.
const TRIES: usize = 256;

/// Most axes of a value on the way.
const RANK_LIMIT: usize = 8;

/// What an axis is made of, outermost first. An axis made of nothing has one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    /// This axis of the cache.
    Own(usize),
    /// Copies that an `Expand` makes.
    Copies,
}

type Axis = SmallVec<[Atom; 4]>;

/// The axes of a value on the way.
#[derive(Debug, Clone)]
struct Tracked {
    axes: Vec<Axis>,
    copies: Option<Id>,
    rules: Vec<Rule>,
}

/// Which extent the last two axes of an operand have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `[batch, heads, width, length]`, or the first two as one axis: the keys of a product.
    Keys,
    /// `[batch, heads, length, width]`, or the first two as one axis: the values.
    Values,
}

/// How a cache becomes an operand.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The axes of the cache that are batch, heads, length and width; the first two may be one axis.
    pub(super) order: SmallVec<[usize; 4]>,
    /// Axes of the operand: 4, or 3 when batch and heads are one.
    pub(super) rank: usize,
    /// How often each head is repeated.
    pub(super) copies: Option<Id>,
    /// What must hold for that.
    pub(super) rules: Vec<Rule>,
}

/// Follows a cache through the steps at `through`, the last of which makes the operand.
pub(super) fn follow(
    flow: &Flow<'_>,
    extents: &mut Extents<'_, '_>,
    base: Slot,
    through: &[usize],
    wanted: Wanted,
) -> Option<Seen> {
    let shape = extents.shape(base)?;
    if ![3, 4].contains(&shape.len()) {
        return None;
    }
    let start = Tracked {
        axes: (0..shape.len())
            .map(|axis| smallvec![Atom::Own(axis)])
            .collect(),
        copies: None,
        rules: Vec::new(),
    };
    let mut walk = Walk {
        flow,
        extents,
        base,
        shape: &shape,
        wanted,
        tries: TRIES,
    };
    walk.after(start, through)
}

struct Walk<'w, 'f, 'g> {
    flow: &'w Flow<'w>,
    extents: &'w mut Extents<'f, 'g>,
    base: Slot,
    shape: &'w [Id],
    wanted: Wanted,
    tries: usize,
}

impl Walk<'_, '_, '_> {
    /// What the remaining steps make of a value.
    fn after(&mut self, mut value: Tracked, through: &[usize]) -> Option<Seen> {
        let Some((&index, rest)) = through.split_first() else {
            return self.arrived(value);
        };
        let step = &self.flow.steps[index];
        let operand = step.inputs.get(1).copied().flatten();
        match &step.form {
            Form::Transpose { perm } => {
                let order = axes_in_order(perm.as_deref(), value.axes.len())?;
                value.axes = order.iter().map(|&axis| value.axes[axis].clone()).collect();
            }
            Form::Unsqueeze { axes } => {
                let axes = self.extents.axes(axes.as_deref(), operand)?;
                let places = inserted(&axes, value.axes.len())?;
                let mut old = value.axes.into_iter();
                let place = |new: bool| if new { Some(Axis::new()) } else { old.next() };
                value.axes = places.into_iter().map(place).collect::<Option<_>>()?;
            }
            Form::Expand => self.expand(&mut value, operand?)?,
            // Which axes a cache of three would be split into is not known, so it starts behind the Reshape.
            Form::Reshape { .. } if self.shape.len() == 3 => return None,
            Form::Reshape { allow_zero } => {
                let target = self.extents.list(operand?)?.items.clone();
                return self.reshape(value, &target, *allow_zero, rest);
            }
            // Factors and copies, which leave the axes alone.
            _ => {}
        }
        self.after(value, rest)
    }

    fn arrived(&self, value: Tracked) -> Option<Seen> {
        let [outer @ .., third, fourth] = &value.axes[..] else {
            return None;
        };
        let outer: Axis = match outer {
            [merged] => merged.clone(),
            [batch, heads] if batch.len() == 1 && !heads.is_empty() => {
                batch.iter().chain(heads).copied().collect()
            }
            _ => return None,
        };
        let (mut order, repeats): (SmallVec<[usize; 4]>, bool) = match outer[..] {
            [Atom::Own(batch), Atom::Own(head)] => (smallvec![batch, head], false),
            [Atom::Own(batch), Atom::Own(head), Atom::Copies] => (smallvec![batch, head], true),
            [Atom::Own(merged)] => (smallvec![merged], false),
            _ => return None,
        };
        if repeats != value.copies.is_some() {
            return None;
        }
        let (length, width) = match self.wanted {
            Wanted::Keys => (fourth, third),
            Wanted::Values => (third, fourth),
        };
        for axis in [length, width] {
            match axis[..] {
                [Atom::Own(at)] => order.push(at),
                _ => return None,
            }
        }
        Some(Seen {
            order,
            rank: value.axes.len(),
            copies: value.copies,
            rules: value.rules,
        })
    }

    fn size(&mut self, axis: &[Atom], copies: Option<Id>) -> Option<Id> {
        let sizes = axis.iter().map(|atom| match atom {
            Atom::Own(at) => self.shape.get(*at).copied(),
            Atom::Copies => copies,
        });
        let sizes: Vec<Id> = sizes.collect::<Option<_>>()?;
        Some(self.extents.product(&sizes))
    }

    fn expand(&mut self, value: &mut Tracked, target: Slot) -> Option<()> {
        let target = self.extents.list(target)?.items.clone();
        let missing = target.len().saturating_sub(value.axes.len());
        let shorter = value.axes.len().saturating_sub(target.len());
        value
            .axes
            .splice(0..0, std::iter::repeat_n(Axis::new(), missing));
        for (at, &wanted) in target.iter().enumerate() {
            let axis = &value.axes[at + shorter];
            if !axis.is_empty() {
                let own = self.size(&axis.clone(), value.copies)?;
                if own != wanted && self.extents.number(wanted) != Some(1) {
                    value.rules.push(Rule::Keeps(wanted, own));
                }
            } else if self.extents.number(wanted) != Some(1) {
                if value.copies.is_some() {
                    return None;
                }
                value.copies = Some(wanted);
                value.axes[at + shorter] = smallvec![Atom::Copies];
            }
        }
        Some(())
    }

    /// Tries the ways to cut the axes, those that agree most with the wanted shape first.
    fn reshape(
        &mut self,
        value: Tracked,
        target: &[Id],
        allow_zero: bool,
        rest: &[usize],
    ) -> Option<Seen> {
        if target.len() > RANK_LIMIT {
            return None;
        }
        let atoms: Vec<Atom> = value.axes.iter().flatten().copied().collect();
        let mut cuts = Vec::new();
        let cutting = Cutting {
            value: &value,
            target,
            allow_zero,
            atoms: &atoms,
        };
        self.cut(&cutting, &mut Vec::new(), 0, 0, &mut cuts);
        cuts.sort_by_key(|(_, agreeing)| std::cmp::Reverse(*agreeing));
        for (axes, _) in cuts {
            self.tries = self.tries.checked_sub(1)?;
            let mut next = Tracked {
                axes,
                ..value.clone()
            };
            if self.rules(&mut next, target).is_some()
                && let Some(seen) = self.after(next, rest)
            {
                return Some(seen);
            }
        }
        None
    }

    /// What must hold for the axes to be what the target asks for.
    fn rules(&mut self, next: &mut Tracked, target: &[Id]) -> Option<()> {
        let mut others = Vec::new();
        let mut inferred = false;
        for (at, &wanted) in target.iter().enumerate() {
            match self.extents.number(wanted) {
                Some(-1) if inferred => return None,
                Some(-1) => inferred = true,
                // The axis that is there, which cutting has made sure of.
                Some(0) => others.push(self.size(&next.axes[at].clone(), next.copies)?),
                _ => {
                    let own = self.size(&next.axes[at].clone(), next.copies)?;
                    if own != wanted {
                        next.rules.push(Rule::Equal(wanted, own));
                    }
                    others.push(wanted);
                }
            }
        }
        if inferred {
            let divisor = self.extents.product(&others);
            next.rules.push(Rule::NotZero(divisor));
        }
        Some(())
    }

    /// All ways to give the atoms from `from` on to the axes from `done.len()` on.
    fn cut(
        &mut self,
        cutting: &Cutting<'_>,
        done: &mut Vec<Axis>,
        from: usize,
        agreeing: usize,
        cuts: &mut Vec<(Vec<Axis>, usize)>,
    ) {
        let at = done.len();
        if cuts.len() >= TRIES {
            return;
        }
        let Some(&wanted) = cutting.target.get(at) else {
            if from == cutting.atoms.len() {
                cuts.push((done.clone(), agreeing));
            }
            return;
        };
        for to in from..=cutting.atoms.len() {
            let axis = Axis::from_slice(&cutting.atoms[from..to]);
            let Some(agrees) = self.agrees(cutting, at, wanted, &axis) else {
                continue;
            };
            done.push(axis);
            self.cut(cutting, done, to, agreeing + usize::from(agrees), cuts);
            done.pop();
        }
    }

    /// Whether an axis surely is what a target asks for; `None` when it surely is not.
    fn agrees(
        &mut self,
        cutting: &Cutting<'_>,
        at: usize,
        wanted: Id,
        axis: &Axis,
    ) -> Option<bool> {
        let number = self.extents.number(wanted);
        match number {
            Some(-1) => return (!axis.is_empty()).then_some(false),
            Some(0) if !cutting.allow_zero => {
                return (cutting.value.axes.get(at) == Some(axis)).then_some(true);
            }
            Some(0) => return None,
            _ if axis.is_empty() => return (number == Some(1)).then_some(true),
            _ => {}
        }
        if self.size(axis, cutting.value.copies)? == wanted {
            return Some(true);
        }
        let hints = axis
            .iter()
            .map(|atom| self.hint(*atom, cutting.value.copies));
        let hint = hints.collect::<Option<Vec<i64>>>();
        let product = |sizes: Vec<i64>| {
            let mut sizes = sizes.into_iter();
            sizes.try_fold(1i64, |product, size| product.checked_mul(size))
        };
        match (number, hint.and_then(product)) {
            (Some(number), Some(hint)) => (number == hint).then_some(true),
            _ => Some(false),
        }
    }

    /// The size that declarations say. It only guides the search.
    fn hint(&self, atom: Atom, copies: Option<Id>) -> Option<i64> {
        match atom {
            Atom::Copies => self.extents.number(copies?),
            Atom::Own(axis) => {
                if let Expr::Number(number) = self.extents.expr(*self.shape.get(axis)?) {
                    return Some(number);
                }
                let shape = self.flow.known(self.base).ty.tensor()?.shape.as_deref()?;
                i64::try_from(shape.get(axis).and_then(Dim::known)?).ok()
            }
        }
    }
}

/// One `Reshape`.
struct Cutting<'c> {
    value: &'c Tracked,
    target: &'c [Id],
    allow_zero: bool,
    atoms: &'c [Atom],
}
