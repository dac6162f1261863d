//! Numbers that a graph computes from the shapes of its values, as expressions over those shapes.
//!
//! Exported graphs compute the operands of `Expand` and `Reshape` with `Shape`, `Gather`, `Concat` and integer
//! arithmetic. Here such a computation is read without running it. The expressions are made of extents of values that
//! stay in the plan, so the plan can compute them again in each call, without the nodes.

use crate::kernel::Slot;
use crate::plan::form::Form;
use crate::plan::recognize::flow::Flow;
use crate::shapes::{Expr, Id};
use refeed_values::DType;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Most numbers in one list: shapes have a handful.
const LIST_LIMIT: usize = 64;
/// How many nodes deep a computation is followed.
const DEPTH_LIMIT: usize = 64;

/// A scalar or a vector of INT64 or BOOL numbers.
#[derive(Debug, Clone)]
pub(super) struct List {
    /// 0 or 1.
    rank: usize,
    pub(super) items: Vec<Id>,
}

impl List {
    fn vector(items: Vec<Id>) -> Option<List> {
        (items.len() <= LIST_LIMIT).then_some(List { rank: 1, items })
    }
}

/// Expressions, each held once: equal ones have equal numbers.
pub(super) struct Extents<'f, 'g> {
    flow: &'f Flow<'g>,
    pub(super) nodes: Vec<Expr>,
    known: HashMap<Expr, Id>,
    lists: HashMap<Slot, Option<Rc<List>>>,
    shapes: HashMap<Slot, Option<Rc<[Id]>>>,
    depth: usize,
}

impl<'f, 'g> Extents<'f, 'g> {
    pub(super) fn new(flow: &'f Flow<'g>) -> Extents<'f, 'g> {
        Extents {
            flow,
            nodes: Vec::new(),
            known: HashMap::new(),
            lists: HashMap::new(),
            shapes: HashMap::new(),
            depth: 0,
        }
    }

    pub(super) fn expr(&self, id: Id) -> Expr {
        self.nodes[id as usize]
    }

    /// The number, when every call finds the same.
    pub(super) fn number(&self, id: Id) -> Option<i64> {
        match self.expr(id) {
            Expr::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn constant(&mut self, number: i64) -> Id {
        self.intern(Expr::Number(number))
    }

    fn intern(&mut self, expr: Expr) -> Id {
        let nodes = &mut self.nodes;
        *self.known.entry(expr).or_insert_with(|| {
            nodes.push(expr);
            (nodes.len() - 1) as Id
        })
    }

    /// The expression, simplified where that never changes its value. Arithmetic of numbers that overflows stays as it is
    /// and fails in the call.
    pub(super) fn make(&mut self, expr: Expr) -> Id {
        let number = |id| self.number(id);
        match expr {
            Expr::Product(a, b) => match (number(a), number(b)) {
                (Some(1), _) => return b,
                (_, Some(1)) => return a,
                _ => {}
            },
            Expr::Sum(a, b) => match (number(a), number(b)) {
                (Some(0), _) => return b,
                (_, Some(0)) => return a,
                _ => {}
            },
            Expr::Broadcast(a, b) => {
                if a == b || number(b) == Some(1) {
                    return a;
                }
                if number(a) == Some(1) {
                    return b;
                }
            }
            Expr::Equal(a, b) => match (self.expr(a), self.expr(b)) {
                // Extents are not negative.
                (Expr::Extent { .. }, Expr::Number(n)) | (Expr::Number(n), Expr::Extent { .. })
                    if n < 0 =>
                {
                    return self.constant(0);
                }
                _ if a == b => return self.constant(1),
                _ => {}
            },
            Expr::Choice(condition, yes, no) => {
                if yes == no {
                    return yes;
                }
                match number(condition) {
                    Some(0) => return no,
                    Some(_) => return yes,
                    None => {}
                }
            }
            _ => {}
        }
        match crate::shapes::folded(expr, |id| self.number(id)) {
            Some(number) => self.constant(number),
            None => self.intern(expr),
        }
    }

    pub(super) fn product(&mut self, ids: &[Id]) -> Id {
        let one = self.constant(1);
        let mut product = one;
        for &id in ids {
            product = self.make(Expr::Product(product, id));
        }
        product
    }

    /// The extents of a tensor, as far as its rank is known.
    pub(super) fn shape(&mut self, slot: Slot) -> Option<Rc<[Id]>> {
        if let Some(held) = self.shapes.get(&slot) {
            return held.clone();
        }
        if self.depth == DEPTH_LIMIT {
            return None;
        }
        self.depth += 1;
        let shape = self
            .counted(slot)
            .or_else(|| self.derived(slot))
            .or_else(|| self.own(slot));
        self.depth -= 1;
        let shape: Option<Rc<[Id]>> = shape.map(Rc::from);
        self.shapes.insert(slot, shape.clone());
        shape
    }

    /// The extents of a list whose numbers are known.
    fn counted(&mut self, slot: Slot) -> Option<Vec<Id>> {
        let integers = self.flow.dtype(slot) == Some(DType::Int64);
        let list = integers.then(|| self.list(slot)).flatten()?;
        let length = self.constant(i64::try_from(list.items.len()).ok()?);
        Some(match list.rank {
            0 => Vec::new(),
            _ => vec![length],
        })
    }

    /// What a `Shape` of a tensor gives.
    pub(super) fn part_of_shape(
        &mut self,
        slot: Slot,
        start: i64,
        end: Option<i64>,
    ) -> Option<Vec<Id>> {
        let shape = self.shape(slot)?;
        let rank = i64::try_from(shape.len()).ok()?;
        let clamp =
            |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
        let part = shape.get(clamp(start)..clamp(end.unwrap_or(rank)));
        Some(part.unwrap_or_default().to_vec())
    }

    /// These expressions and all that they are made of. Parts were interned before what they are parts of, so that their
    /// numbers are smaller.
    pub(super) fn closure(&self, of: impl IntoIterator<Item = Id>) -> BTreeSet<Id> {
        let mut open: Vec<Id> = of.into_iter().collect();
        let mut all = BTreeSet::new();
        while let Some(id) = open.pop() {
            if all.insert(id) {
                open.extend(self.expr(id).parts());
            }
        }
        all
    }

    /// The values that expressions read.
    pub(super) fn leaves(&self, of: &BTreeSet<Id>) -> impl Iterator<Item = Slot> {
        of.iter().filter_map(|&id| match self.expr(id) {
            Expr::Extent { slot, .. } | Expr::Element { slot, .. } => Some(slot),
            _ => None,
        })
    }

    /// A closed set of expressions as a program whose values `place` gives input positions, and the new number of each.
    pub(super) fn program(
        &self,
        of: &BTreeSet<Id>,
        mut place: impl FnMut(Slot) -> usize,
    ) -> (Vec<Expr>, HashMap<Id, Id>) {
        let numbers: HashMap<Id, Id> = of.iter().zip(0..).map(|(&old, new)| (old, new)).collect();
        let id = |old: Id| numbers.get(&old).copied().unwrap_or(Id::MAX);
        let mut exprs = Vec::with_capacity(of.len());
        for &old in of {
            let expr = self.expr(old);
            let at = match expr {
                Expr::Extent { slot, .. } | Expr::Element { slot, .. } => place(slot) as Slot,
                _ => 0,
            };
            exprs.push(expr.mapped(id, |_| at));
        }
        (exprs, numbers)
    }

    /// The extents of a value itself.
    fn own(&mut self, slot: Slot) -> Option<Vec<Id>> {
        if let Some(tensor) = self.flow.known(slot).tensor() {
            let shape = tensor.shape().to_vec();
            let numbers = shape.into_iter().map(|n| i64::try_from(n).ok());
            let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
            return Some(numbers.into_iter().map(|n| self.constant(n)).collect());
        }
        let rank = self.flow.known(slot).ty.tensor()?.rank()?;
        let axes = (0..rank).map(|axis| self.intern(Expr::Extent { slot, axis }));
        Some(axes.collect())
    }

    /// The extents of a rearrangement, from those of what it rearranges.
    fn derived(&mut self, slot: Slot) -> Option<Vec<Id>> {
        let step = self.flow.producer(slot)?;
        let input = |at: usize| step.inputs.get(at).copied().flatten();
        let data = input(0)?;
        match &step.form {
            Form::Identity | Form::Cast { .. } => Some(self.shape(data)?.to_vec()),
            Form::Transpose { perm } => {
                let shape = self.shape(data)?;
                let order = axes_in_order(perm.as_deref(), shape.len())?;
                Some(order.into_iter().map(|axis| shape[axis]).collect())
            }
            Form::Unsqueeze { axes } => {
                let shape = self.shape(data)?;
                let axes = self.axes(axes.as_deref(), input(1))?;
                let places = inserted(&axes, shape.len())?;
                let one = self.constant(1);
                let mut old = shape.iter().copied();
                let all = places
                    .iter()
                    .map(|&new| if new { Some(one) } else { old.next() });
                all.collect()
            }
            Form::Reshape { allow_zero } => {
                let target = self.list(input(1)?)?;
                let shape = self.shape(data)?;
                self.reshaped(&shape, &target.items, *allow_zero)
            }
            Form::Expand => {
                let target = self.list(input(1)?)?;
                let shape = self.shape(data)?;
                let rank = shape.len().max(target.items.len());
                let one = self.constant(1);
                let at = |list: &[Id], axis: usize| match (axis + list.len()).checked_sub(rank) {
                    Some(own) => list[own],
                    None => one,
                };
                let pairs: Vec<(Id, Id)> = (0..rank)
                    .map(|axis| (at(&shape, axis), at(&target.items, axis)))
                    .collect();
                let pairs = pairs.into_iter();
                Some(
                    pairs
                        .map(|(a, b)| self.make(Expr::Broadcast(a, b)))
                        .collect(),
                )
            }
            _ => None,
        }
    }

    /// The extents after a `Reshape`, given that it succeeds.
    fn reshaped(&mut self, shape: &[Id], target: &[Id], allow_zero: bool) -> Option<Vec<Id>> {
        let mut out = Vec::with_capacity(target.len());
        let mut inferred = None;
        for (axis, &wanted) in target.iter().enumerate() {
            out.push(match self.number(wanted) {
                // Found below.
                Some(-1) if inferred.is_none() => {
                    inferred = Some(axis);
                    wanted
                }
                Some(0) if !allow_zero => *shape.get(axis)?,
                Some(n) if n < 0 => return None,
                _ => wanted,
            });
        }
        if let Some(axis) = inferred {
            let whole = self.product(shape);
            let others: Vec<Id> = out
                .iter()
                .enumerate()
                .filter_map(|(at, &id)| (at != axis).then_some(id))
                .collect();
            let others = self.product(&others);
            out[axis] = self.make(Expr::Quotient(whole, others));
        }
        Some(out)
    }

    /// Axes that are an attribute in old opsets and an input in newer ones.
    pub(super) fn axes(&self, attribute: Option<&[i64]>, input: Option<Slot>) -> Option<Vec<i64>> {
        match (attribute, input) {
            (Some(axes), _) => Some(axes.to_vec()),
            (None, Some(slot)) => self.constants(slot),
            (None, None) => None,
        }
    }

    /// The numbers of a constant vector or scalar.
    fn constants(&self, slot: Slot) -> Option<Vec<i64>> {
        let tensor = self.flow.known(slot).tensor()?;
        let fits = tensor.rank() <= 1 && tensor.elements() <= LIST_LIMIT;
        if !fits || tensor.dtype() != DType::Int64 {
            return None;
        }
        Some(tensor.view::<i64>().ok()?.to_vec())
    }

    /// The numbers of an INT64 or BOOL vector or scalar, as far as its length is known.
    pub(super) fn list(&mut self, slot: Slot) -> Option<Rc<List>> {
        if let Some(held) = self.lists.get(&slot) {
            return held.clone();
        }
        if self.depth == DEPTH_LIMIT {
            return None;
        }
        self.depth += 1;
        let list = self.read(slot);
        self.depth -= 1;
        let list = list.map(Rc::new);
        self.lists.insert(slot, list.clone());
        list
    }

    fn read(&mut self, slot: Slot) -> Option<List> {
        if let Some(numbers) = self.constants(slot) {
            let rank = self.flow.known(slot).tensor()?.rank();
            let items = numbers.into_iter().map(|n| self.constant(n)).collect();
            return Some(List { rank, items });
        }
        self.computed(slot).or_else(|| self.elements(slot))
    }

    /// The elements of a value itself.
    fn elements(&mut self, slot: Slot) -> Option<List> {
        let ty = self.flow.known(slot).ty.tensor()?;
        let count = match ty.shape.as_deref()? {
            [] => 1,
            [length] => length.known()?,
            _ => return None,
        };
        if ty.dtype != Some(DType::Int64) || count > LIST_LIMIT {
            return None;
        }
        let rank = ty.rank()?;
        let items = (0..count).map(|index| self.intern(Expr::Element { slot, index }));
        Some(List {
            rank,
            items: items.collect(),
        })
    }

    fn computed(&mut self, slot: Slot) -> Option<List> {
        let step = self.flow.producer(slot)?;
        let input = |at: usize| step.inputs.get(at).copied().flatten();
        match &step.form {
            Form::Identity => Some((*self.list(input(0)?)?).clone()),
            Form::Cast { to } => {
                let from = self.flow.dtype(input(0)?)?;
                let same = *to == Some(DType::Int64) && [DType::Int64, DType::Bool].contains(&from);
                same.then(|| self.list(input(0)?))
                    .flatten()
                    .map(|list| (*list).clone())
            }
            Form::Shape { start, end } => {
                let part = self.part_of_shape(input(0)?, *start, *end)?;
                List::vector(part)
            }
            Form::Gather { axis: 0 } => {
                let data = self.list(input(0)?)?;
                let indices = self.flow.known(input(1)?).tensor()?.rank();
                let picked = self.constants(input(1)?)?;
                let length = i64::try_from(data.items.len()).ok()?;
                let place = |at: i64| {
                    usize::try_from(if at < 0 { at.checked_add(length)? } else { at }).ok()
                };
                let items = picked
                    .into_iter()
                    .map(|at| data.items.get(place(at)?).copied());
                let items = items.collect::<Option<Vec<Id>>>()?;
                (data.rank == 1).then_some(List {
                    rank: indices,
                    items,
                })
            }
            Form::Concat { axis: 0 | -1 } => {
                let mut items = Vec::new();
                for slot in step.inputs.iter() {
                    let part = self.list((*slot)?)?;
                    if part.rank != 1 {
                        return None;
                    }
                    items.extend_from_slice(&part.items);
                }
                List::vector(items)
            }
            Form::Unsqueeze { axes } => {
                let list = self.list(input(0)?)?;
                let axes = self.axes(axes.as_deref(), input(1))?;
                let scalar = list.rank == 0 && matches!(axes[..], [0 | -1]);
                scalar.then(|| List {
                    rank: 1,
                    items: list.items.clone(),
                })
            }
            Form::Squeeze { axes } => {
                let list = self.list(input(0)?)?;
                let axes = match (axes, input(1)) {
                    (None, None) => vec![0],
                    (axes, slot) => self.axes(axes.as_deref(), slot)?,
                };
                let one = list.rank == 1 && list.items.len() == 1 && matches!(axes[..], [0 | -1]);
                one.then(|| List {
                    rank: 0,
                    items: list.items.clone(),
                })
            }
            Form::Reshape { .. } => {
                let list = self.list(input(0)?)?;
                let target = self.constants(input(1)?)?;
                let length = i64::try_from(list.items.len()).ok()?;
                let vector = matches!(target[..], [n] if n == -1 || n == length && n > 0);
                vector.then(|| List {
                    rank: 1,
                    items: list.items.clone(),
                })
            }
            Form::ConstantOfShape { value } => {
                let length = self.list(input(0)?)?;
                let &[length] = &length.items[..] else {
                    return None;
                };
                let length = usize::try_from(self.number(length)?).ok()?;
                let value = self.constant((*value)?);
                (length <= LIST_LIMIT).then(|| List {
                    rank: 1,
                    items: vec![value; length],
                })
            }
            Form::Slice => {
                let data = self.list(input(0)?)?;
                let one = |slot: Option<Slot>| match self.constants(slot?)?[..] {
                    [number] => Some(number),
                    _ => None,
                };
                let (start, end) = (one(input(1))?, one(input(2))?);
                let axis = input(3).map_or(Some(0), |slot| one(Some(slot)))?;
                let step = input(4).map_or(Some(1), |slot| one(Some(slot)))?;
                if data.rank != 1 || ![0, -1].contains(&axis) || step != 1 {
                    return None;
                }
                let length = i64::try_from(data.items.len()).ok()?;
                let clamp = |at: i64| {
                    (if at < 0 {
                        at.saturating_add(length)
                    } else {
                        at
                    })
                    .clamp(0, length)
                };
                let part = data.items.get(clamp(start) as usize..clamp(end) as usize);
                List::vector(part.unwrap_or_default().to_vec())
            }
            Form::Where => {
                let [condition, yes, no] = [input(0)?, input(1)?, input(2)?];
                let [condition, yes, no] = [self.list(condition)?, self.list(yes)?, self.list(no)?];
                self.elementwise(&[&condition, &yes, &no], |ids| {
                    Expr::Choice(ids[0], ids[1], ids[2])
                })
            }
            form => {
                let make = match form {
                    Form::Add => |ids: &[Id]| Expr::Sum(ids[0], ids[1]),
                    Form::Sub => |ids: &[Id]| Expr::Difference(ids[0], ids[1]),
                    Form::Mul => |ids: &[Id]| Expr::Product(ids[0], ids[1]),
                    Form::Div => |ids: &[Id]| Expr::Quotient(ids[0], ids[1]),
                    Form::Equal => |ids: &[Id]| Expr::Equal(ids[0], ids[1]),
                    _ => return None,
                };
                let [a, b] = [input(0)?, input(1)?];
                // What wraps around in a narrower type does not here.
                if [a, b]
                    .iter()
                    .any(|&slot| self.flow.dtype(slot) != Some(DType::Int64))
                {
                    return None;
                }
                let [a, b] = [self.list(a)?, self.list(b)?];
                self.elementwise(&[&a, &b], make)
            }
        }
    }

    /// Lists of one length, or of one number, combined number by number.
    fn elementwise(&mut self, lists: &[&List], make: impl Fn(&[Id]) -> Expr) -> Option<List> {
        let long = lists.iter().find(|list| list.items.len() != 1);
        let length = long.map_or(1, |list| list.items.len());
        let fits = |list: &&List| list.items.len() == length || list.items.len() == 1;
        if !lists.iter().all(fits) {
            return None;
        }
        let rank = lists.iter().map(|list| list.rank).max()?;
        let pick = |at: usize| -> Vec<Id> {
            let one = |list: &&List| list.items[if list.items.len() == 1 { 0 } else { at }];
            lists.iter().map(one).collect()
        };
        let items = (0..length).map(|at| self.make(make(&pick(at))));
        Some(List {
            rank,
            items: items.collect(),
        })
    }
}

/// The axes of a `Transpose` as numbers; `None` when they are no permutation.
pub(super) fn axes_in_order(perm: Option<&[i64]>, rank: usize) -> Option<Vec<usize>> {
    let Some(perm) = perm else {
        return Some((0..rank).rev().collect());
    };
    let order = perm.iter().map(|&axis| usize::try_from(axis).ok());
    let order: Vec<usize> = order.collect::<Option<_>>()?;
    let mut seen = vec![false; rank];
    for &axis in &order {
        if std::mem::replace(seen.get_mut(axis)?, true) {
            return None;
        }
    }
    (order.len() == rank).then_some(order)
}

/// For each axis of the result of an `Unsqueeze`, whether it is new.
pub(super) fn inserted(axes: &[i64], rank: usize) -> Option<Vec<bool>> {
    let whole = rank.checked_add(axes.len()).filter(|&n| n <= LIST_LIMIT)?;
    let mut new = vec![false; whole];
    for &axis in axes {
        let place = refeed_graph::schema::normalize_axis(axis, whole)?;
        if std::mem::replace(&mut new[place], true) {
            return None;
        }
    }
    Some(new)
}
