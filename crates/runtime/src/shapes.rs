//! Arithmetic on the extents of a call's values, done again in each call: what a plan must know of shapes without running
//! the nodes that would compute it.

use crate::kernel::{Invocation, Slot};
use smallvec::SmallVec;

/// Number of an expression among those of its plan.
pub(crate) type Id = u32;

/// One number that shapes decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Expr {
    /// A number.
    Number(i64),
    /// The extent of a tensor along an axis.
    Extent {
        /// The tensor: its slot in the plan, then its input position in the step.
        slot: Slot,
        /// The axis.
        axis: usize,
    },
    /// An element of an INT64 vector or scalar.
    Element {
        /// As for `Extent`.
        slot: Slot,
        /// Its place.
        index: usize,
    },
    Sum(Id, Id),
    Difference(Id, Id),
    Product(Id, Id),
    /// Rounded towards zero, as ONNX divides integers.
    Quotient(Id, Id),
    /// 1 when both are equal, else 0.
    Equal(Id, Id),
    /// The second when the first is not 0, else the third.
    Choice(Id, Id, Id),
    /// The extent of an axis after broadcasting: of two that fit, the one that is not 1.
    Broadcast(Id, Id),
}

impl Expr {
    /// The expressions that it is made of.
    pub(crate) fn parts(self) -> SmallVec<[Id; 3]> {
        match self {
            Expr::Number(_) | Expr::Extent { .. } | Expr::Element { .. } => SmallVec::new(),
            Expr::Sum(a, b)
            | Expr::Difference(a, b)
            | Expr::Product(a, b)
            | Expr::Quotient(a, b)
            | Expr::Equal(a, b)
            | Expr::Broadcast(a, b) => SmallVec::from_slice(&[a, b]),
            Expr::Choice(a, b, c) => SmallVec::from_slice(&[a, b, c]),
        }
    }

    /// The same expression over other numbers.
    pub(crate) fn mapped(self, id: impl Fn(Id) -> Id, slot: impl Fn(Slot) -> Slot) -> Expr {
        match self {
            Expr::Number(number) => Expr::Number(number),
            Expr::Extent { slot: from, axis } => Expr::Extent {
                slot: slot(from),
                axis,
            },
            Expr::Element { slot: from, index } => Expr::Element {
                slot: slot(from),
                index,
            },
            Expr::Sum(a, b) => Expr::Sum(id(a), id(b)),
            Expr::Difference(a, b) => Expr::Difference(id(a), id(b)),
            Expr::Product(a, b) => Expr::Product(id(a), id(b)),
            Expr::Quotient(a, b) => Expr::Quotient(id(a), id(b)),
            Expr::Equal(a, b) => Expr::Equal(id(a), id(b)),
            Expr::Choice(a, b, c) => Expr::Choice(id(a), id(b), id(c)),
            Expr::Broadcast(a, b) => Expr::Broadcast(id(a), id(b)),
        }
    }
}

/// The value of an expression, given those of its parts; `None` when a part has none, or it overflows.
pub(crate) fn folded(expr: Expr, value: impl Fn(Id) -> Option<i64>) -> Option<i64> {
    match expr {
        Expr::Number(number) => Some(number),
        Expr::Extent { .. } | Expr::Element { .. } => None,
        Expr::Sum(a, b) => value(a)?.checked_add(value(b)?),
        Expr::Difference(a, b) => value(a)?.checked_sub(value(b)?),
        Expr::Product(a, b) => value(a)?.checked_mul(value(b)?),
        Expr::Quotient(a, b) => value(a)?.checked_div(value(b)?),
        Expr::Equal(a, b) => Some(i64::from(value(a)? == value(b)?)),
        Expr::Choice(condition, yes, no) => match value(condition)? {
            0 => value(no),
            _ => value(yes),
        },
        Expr::Broadcast(a, b) => match (value(a)?, value(b)?) {
            (1, b) => Some(b),
            (a, 1) => Some(a),
            (a, b) => (a == b).then_some(a),
        },
    }
}

/// What must hold of the shapes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Two numbers are equal.
    Equal(Id, Id),
    /// The first, the extent that an `Expand` asks for, leaves the second as it is.
    Keeps(Id, Id),
    /// A number is not 0: a `Reshape` divides by it.
    NotZero(Id),
}

/// Expressions in an order in which each comes after its parts, and the rules over them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) rules: Vec<Rule>,
}

/// The numbers of one call.
pub(crate) struct Numbers(SmallVec<[Option<i64>; 48]>);

impl Numbers {
    pub(crate) fn get(&self, id: Id) -> Option<i64> {
        *self.0.get(id as usize)?
    }
}

impl Shapes {
    /// The numbers of a call, in which slots are input positions; `None` when a rule does not hold.
    pub(crate) fn hold(&self, call: &Invocation<'_>) -> Option<Numbers> {
        let mut numbers = Numbers(SmallVec::new());
        for &expr in &self.exprs {
            let number = match expr {
                Expr::Extent { slot, axis } => {
                    let tensor = call.input(slot as usize)?;
                    i64::try_from(*tensor.shape().get(axis)?).ok()
                }
                Expr::Element { slot, index } => {
                    let tensor = call.input(slot as usize)?;
                    tensor.view::<i64>().ok()?.iter().nth(index)
                }
                expr => folded(expr, |id| numbers.get(id)),
            };
            numbers.0.push(number);
        }
        let holds = |rule: &Rule| {
            Some(match *rule {
                Rule::Equal(a, b) => numbers.get(a)? == numbers.get(b)?,
                Rule::Keeps(wanted, own) => {
                    let wanted = numbers.get(wanted)?;
                    wanted == 1 || wanted == numbers.get(own)?
                }
                Rule::NotZero(a) => numbers.get(a)? != 0,
            })
        };
        let all = self.rules.iter().all(|rule| holds(rule) == Some(true));
        all.then_some(numbers)
    }
}
