//! Division of expressions: exact where it goes up, rounded down otherwise.

use super::{Atom, DimExpr, Function, Term};
use std::cmp::Ordering;

/// `a / b` rounded down; `None` for a divisor of 0 and on overflow.
pub(super) fn floor(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let inexact = a.checked_rem(b)? != 0;
    if inexact && (a < 0) != (b < 0) {
        quotient.checked_sub(1)
    } else {
        Some(quotient)
    }
}

/// Factors of `whole` without those of `part`; `None` when `part` has one more often.
fn without(whole: &[Atom], part: &[Atom]) -> Option<Vec<Atom>> {
    let mut rest = whole.to_vec();
    for atom in part {
        let at = rest.iter().position(|held| held == atom)?;
        rest.remove(at);
    }
    Some(rest)
}

fn as_expr(factors: Vec<Atom>, coefficient: i64) -> DimExpr {
    if factors.is_empty() {
        return DimExpr::from(coefficient);
    }
    DimExpr {
        constant: 0,
        terms: vec![Term {
            factors,
            coefficient,
        }],
    }
}

impl DimExpr {
    /// The factors and the coefficient of the leading term; a number leads when there is nothing else.
    fn leading(&self) -> (&[Atom], i64) {
        let order = |a: &&Term, b: &&Term| -> Ordering {
            let degrees = a.factors.len().cmp(&b.factors.len());
            degrees.then_with(|| b.factors.cmp(&a.factors))
        };
        match self.terms.iter().max_by(order) {
            Some(term) => (&term.factors, term.coefficient),
            None => (&[], self.constant),
        }
    }

    /// `self / divisor` when it goes up whatever the names stand for (a divisor of 0 left aside).
    pub fn div_exact(&self, divisor: &DimExpr) -> Option<DimExpr> {
        let mut quotient = DimExpr::default();
        let mut rest = self.clone();
        let (by, by_coefficient) = divisor.leading();
        if by_coefficient == 0 {
            return None;
        }
        // Each round takes one term of the quotient, of which there are no more than the limit of sizes allows.
        for _ in 0..=super::SIZE_LIMIT {
            let (factors, coefficient) = rest.leading();
            if coefficient == 0 {
                return quotient.checked();
            }
            if coefficient.checked_rem(by_coefficient)? != 0 {
                return None;
            }
            let part = as_expr(
                without(factors, by)?,
                coefficient.checked_div(by_coefficient)?,
            );
            rest = rest.minus(&part.times(divisor)?)?;
            quotient = quotient.plus(&part)?;
        }
        None
    }

    /// `self / divisor`, rounded down.
    pub fn div_floor(&self, divisor: &DimExpr) -> Option<DimExpr> {
        let (quotient, rest) = match self.split(divisor)? {
            (quotient, None) => return Some(quotient),
            (quotient, Some(rest)) => (quotient, rest),
        };
        let call = Atom::Call(Function::FloorDiv, vec![rest, divisor.clone()]);
        quotient.plus(&DimExpr::atom(call).checked()?)
    }

    /// `self / divisor`, rounded up.
    pub fn div_ceil(&self, divisor: &DimExpr) -> Option<DimExpr> {
        if let Some(exact) = self.div_exact(divisor) {
            return Some(exact);
        }
        // ceil(a / b) is floor((a + b - 1) / b) for b of at least 1; a smaller number rounds by its sign.
        match divisor.constant() {
            Some(number) if number < 1 => {
                let zero = DimExpr::from(0);
                zero.minus(&zero.minus(self)?.div_floor(divisor)?)
            }
            _ => self
                .plus(&divisor.minus(&DimExpr::from(1))?)?
                .div_floor(divisor),
        }
    }

    /// The remainder of [`DimExpr::div_floor`], which has the sign of the divisor.
    pub fn rem(&self, divisor: &DimExpr) -> Option<DimExpr> {
        let rest = match self.split(divisor)? {
            // The quotient of a number is a number, and so is what is left.
            (quotient, None) => return self.minus(&quotient.times(divisor)?),
            (_, Some(rest)) => rest,
        };
        DimExpr::atom(Atom::Call(Function::Mod, vec![rest, divisor.clone()])).checked()
    }

    /// What divides evenly, divided; and the rest, which is `None` when it adds nothing to the rounded quotient.
    fn split(&self, divisor: &DimExpr) -> Option<(DimExpr, Option<DimExpr>)> {
        if divisor.constant() == Some(0) {
            return None;
        }
        if let Some(exact) = self.div_exact(divisor) {
            return Some((exact, None));
        }
        let Some(by) = divisor.constant() else {
            return Some((DimExpr::default(), Some(self.clone())));
        };
        let mut quotient = DimExpr::from(floor(self.constant, by)?);
        let mut rest = DimExpr::from(
            self.constant
                .checked_sub(quotient.constant.checked_mul(by)?)?,
        );
        for term in &self.terms {
            let whole = floor(term.coefficient, by)?;
            let left = term.coefficient.checked_sub(whole.checked_mul(by)?)?;
            for (part, coefficient) in [(&mut quotient, whole), (&mut rest, left)] {
                if coefficient != 0 {
                    part.terms.push(Term {
                        factors: term.factors.clone(),
                        coefficient,
                    });
                }
            }
        }
        // A number below the divisor is lost in rounding.
        let rest = (!rest.terms.is_empty()).then_some(rest);
        Some((quotient, rest))
    }
}
