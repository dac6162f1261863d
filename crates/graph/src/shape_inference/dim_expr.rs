//! Arithmetic on dimensions that have names: small polynomials with integer coefficients.
//!
//! A dimension is written as text (`past + new`, `2 * length + 1`, `(length + 1) // 2`) wherever ONNX has a
//! `dim_param`, so arithmetic reads texts and gives texts. The text is a Python expression when its names are
//! identifiers. Two texts mean the same dimension when their polynomials are equal: terms are compared without their
//! order, and keep it only for show, so that `past + new` stays as it was built.
//!
//! Names stand for dimensions, hence for numbers of at least 0. A text that is no expression (`batch x heads`) is one
//! name; within a larger expression it stands between backticks. All arithmetic is checked: what overflows, or grows
//! beyond 64 names or 8 calls inside one another, has no expression, and its dimension is unknown.

mod division;
mod parse;

use crate::types::Dim;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Most names and calls in one expression, counted as often as they are written.
const SIZE_LIMIT: usize = 64;
/// Deepest nesting of divisions, remainders, maxima and minima.
const DEPTH_LIMIT: usize = 8;
/// Longest text, in bytes, that is read or written as an expression.
const TEXT_LIMIT: usize = 512;

/// An integer expression over named dimensions.
///
/// ```
/// use refeed_graph::shape_inference::DimExpr;
/// let total = DimExpr::parse("past").plus(&DimExpr::parse("new")).unwrap();
/// assert_eq!(total.to_string(), "past + new");
/// assert_eq!(total, DimExpr::parse("new + past"));
/// assert_eq!(total.minus(&DimExpr::parse("past")), Some(DimExpr::parse("new")));
/// ```
#[derive(Debug, Clone, Default)]
pub struct DimExpr {
    constant: i64,
    /// Terms of distinct factors and coefficients other than 0, in the order in which they came.
    terms: Vec<Term>,
}

/// A product of atoms times a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    /// At least one, in order, repeated for powers.
    factors: Vec<Atom>,
    coefficient: i64,
}

/// What is not taken apart further.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    Name(Arc<str>),
    Call(Function, Vec<DimExpr>),
}

/// Operations that have no polynomial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Function {
    FloorDiv,
    Mod,
    Max,
    Min,
}

impl Atom {
    fn size(&self) -> usize {
        match self {
            Atom::Name(_) => 1,
            Atom::Call(_, arguments) => arguments.iter().fold(1, |sum: usize, argument| {
                sum.saturating_add(argument.size())
            }),
        }
    }

    fn depth(&self) -> usize {
        match self {
            Atom::Name(_) => 0,
            Atom::Call(_, arguments) => 1 + arguments.iter().map(DimExpr::depth).max().unwrap_or(0),
        }
    }
}

impl Term {
    fn size(&self) -> usize {
        self.factors
            .iter()
            .fold(0, |sum: usize, atom| sum.saturating_add(atom.size()))
    }
}

impl From<i64> for DimExpr {
    fn from(constant: i64) -> DimExpr {
        DimExpr {
            constant,
            terms: Vec::new(),
        }
    }
}

impl PartialEq for DimExpr {
    fn eq(&self, other: &DimExpr) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for DimExpr {}

impl PartialOrd for DimExpr {
    fn partial_cmp(&self, other: &DimExpr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An order of the expressions as such, not of the numbers that they stand for.
impl Ord for DimExpr {
    fn cmp(&self, other: &DimExpr) -> Ordering {
        let counts = self.terms.len().cmp(&other.terms.len());
        self.constant
            .cmp(&other.constant)
            .then(counts)
            .then_with(|| match &self.terms[..] {
                [] => Ordering::Equal,
                [only] => only.cmp(&other.terms[0]),
                _ => self.sorted().cmp(&other.sorted()),
            })
    }
}

impl DimExpr {
    /// A named dimension, whatever its name looks like.
    pub fn name(name: &str) -> DimExpr {
        DimExpr::atom(Atom::Name(Arc::from(name)))
    }

    fn atom(atom: Atom) -> DimExpr {
        DimExpr {
            constant: 0,
            terms: vec![Term {
                factors: vec![atom],
                coefficient: 1,
            }],
        }
    }

    fn sorted(&self) -> Vec<&Term> {
        let mut terms: Vec<&Term> = self.terms.iter().collect();
        terms.sort_unstable();
        terms
    }

    /// Reads a `dim_param`: an expression, or else one name.
    pub fn parse(text: &str) -> DimExpr {
        parse::expression(text).unwrap_or_else(|| DimExpr::name(text))
    }

    /// The number, when the expression has no names.
    pub fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The expression itself when it is within the limits.
    fn checked(self) -> Option<DimExpr> {
        (self.size() <= SIZE_LIMIT && self.depth() <= DEPTH_LIMIT).then_some(self)
    }

    fn size(&self) -> usize {
        self.terms
            .iter()
            .fold(0, |sum: usize, term| sum.saturating_add(term.size()))
    }

    fn depth(&self) -> usize {
        let atoms = self.terms.iter().flat_map(|term| &term.factors);
        atoms.map(Atom::depth).max().unwrap_or(0)
    }

    fn add_term(&mut self, term: &Term, times: i64) -> Option<()> {
        let coefficient = term.coefficient.checked_mul(times)?;
        match self
            .terms
            .iter()
            .position(|held| held.factors == term.factors)
        {
            Some(at) => {
                let sum = self.terms[at].coefficient.checked_add(coefficient)?;
                if sum == 0 {
                    self.terms.remove(at);
                } else {
                    self.terms[at].coefficient = sum;
                }
            }
            None if coefficient != 0 => self.terms.push(Term {
                factors: term.factors.clone(),
                coefficient,
            }),
            None => {}
        }
        Some(())
    }

    fn plus_times(&self, other: &DimExpr, times: i64) -> Option<DimExpr> {
        let mut sum = self.clone();
        sum.constant = sum
            .constant
            .checked_add(other.constant.checked_mul(times)?)?;
        for term in &other.terms {
            sum.add_term(term, times)?;
        }
        sum.checked()
    }

    /// `self + other`; `None` beyond the limits, as for all arithmetic here.
    pub fn plus(&self, other: &DimExpr) -> Option<DimExpr> {
        self.plus_times(other, 1)
    }

    /// `self - other`
    pub fn minus(&self, other: &DimExpr) -> Option<DimExpr> {
        self.plus_times(other, -1)
    }

    /// `self * other`
    pub fn times(&self, other: &DimExpr) -> Option<DimExpr> {
        // Numbers first, so that a large polynomial times 0 or 1 costs nothing.
        let mut product = DimExpr::from(self.constant.checked_mul(other.constant)?);
        for term in &self.terms {
            if other.constant != 0 {
                product.add_term(term, other.constant)?;
            }
        }
        for term in &other.terms {
            if self.constant != 0 {
                product.add_term(term, self.constant)?;
            }
        }
        for a in &self.terms {
            for b in &other.terms {
                let mut factors = [&a.factors[..], &b.factors[..]].concat();
                factors.sort_unstable();
                let coefficient = a.coefficient.checked_mul(b.coefficient)?;
                let term = Term {
                    factors,
                    coefficient,
                };
                product.add_term(&term, 1)?;
                if product.size() > SIZE_LIMIT {
                    return None;
                }
            }
        }
        product.checked()
    }

    /// Whether every value of the names gives at least 0, as far as the signs tell.
    pub(crate) fn is_natural(&self) -> bool {
        self.constant >= 0
            && self.terms.iter().all(|term| {
                term.coefficient > 0
                    && term.factors.iter().all(|atom| match atom {
                        Atom::Name(_) => true,
                        Atom::Call(Function::Max, of) => of.iter().any(DimExpr::is_natural),
                        Atom::Call(Function::Min, of) => of.iter().all(DimExpr::is_natural),
                        Atom::Call(Function::FloorDiv, of) => of.iter().all(DimExpr::is_natural),
                        Atom::Call(Function::Mod, of) => of[1].is_natural(),
                    })
            })
    }

    /// Whether every value of the names gives at least 1, as far as the signs tell.
    pub(crate) fn is_positive(&self) -> bool {
        self.constant > 0 && self.is_natural()
    }

    /// The larger of both.
    pub fn larger(&self, other: &DimExpr) -> Option<DimExpr> {
        self.choose(other, Function::Max)
    }

    /// The smaller of both.
    pub fn smaller(&self, other: &DimExpr) -> Option<DimExpr> {
        self.choose(other, Function::Min)
    }

    fn choose(&self, other: &DimExpr, function: Function) -> Option<DimExpr> {
        let mut arguments: Vec<DimExpr> = Vec::new();
        for side in [self, other] {
            match side.lone_atom() {
                Some(Atom::Call(held, inner)) if *held == function => {
                    arguments.extend(inner.iter().cloned());
                }
                _ => arguments.push(side.clone()),
            }
        }
        arguments.sort_unstable();
        arguments.dedup();
        // What another argument decides, whatever the names stand for, says nothing.
        let mut kept: Vec<DimExpr> = Vec::new();
        for argument in &arguments {
            let mut decided = false;
            for rival in arguments.iter().filter(|rival| *rival != argument) {
                let (larger, smaller) = match function {
                    Function::Max => (rival, argument),
                    _ => (argument, rival),
                };
                decided |= larger.minus(smaller)?.is_natural();
            }
            if !decided {
                kept.push(argument.clone());
            }
        }
        match &kept[..] {
            [only] => Some(only.clone()),
            _ => DimExpr::atom(Atom::Call(function, kept)).checked(),
        }
    }

    /// The atom, when the expression is nothing else.
    fn lone_atom(&self) -> Option<&Atom> {
        match (&self.terms[..], self.constant) {
            ([term], 0) if term.coefficient == 1 && term.factors.len() == 1 => term.factors.first(),
            _ => None,
        }
    }

    /// The value under values of the names, with divisions rounded down. `None` when a name has no value, on overflow,
    /// and on division by 0.
    pub fn evaluate(&self, names: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let mut sum = self.constant;
        for term in &self.terms {
            let mut product = term.coefficient;
            for atom in &term.factors {
                let value = match atom {
                    Atom::Name(name) => names(name)?,
                    Atom::Call(function, arguments) => {
                        let mut values = arguments.iter().map(|a| a.evaluate(names));
                        let first = values.next()??;
                        values.try_fold(first, |held, value| function.apply(held, value?))?
                    }
                };
                product = product.checked_mul(value)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }
}

impl Function {
    fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Function::FloorDiv => division::floor(a, b),
            Function::Mod => a.checked_sub(division::floor(a, b)?.checked_mul(b)?),
            Function::Max => Some(a.max(b)),
            Function::Min => Some(a.min(b)),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (function, arguments) = match self {
            Atom::Name(name) if parse::is_name(name) => return f.write_str(name),
            Atom::Name(name) => return write!(f, "`{name}`"),
            Atom::Call(function, arguments) => (function, arguments),
        };
        let sign = match function {
            Function::Max => "max(",
            Function::Min => "min(",
            Function::FloorDiv => " // ",
            Function::Mod => " % ",
        };
        if matches!(function, Function::Max | Function::Min) {
            f.write_str(sign)?;
            for (index, argument) in arguments.iter().enumerate() {
                write!(f, "{}{argument}", if index == 0 { "" } else { ", " })?;
            }
            return f.write_str(")");
        }
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                f.write_str(sign)?;
            }
            if argument.is_plain() {
                write!(f, "{argument}")?;
            } else {
                write!(f, "({argument})")?;
            }
        }
        Ok(())
    }
}

impl DimExpr {
    /// Whether this needs no brackets as an operand: a number of at least 0, a name, a maximum or minimum.
    fn is_plain(&self) -> bool {
        match self.lone_atom() {
            Some(atom) => !atom.is_quotient(),
            None => self.constant().is_some_and(|number| number >= 0),
        }
    }
}

impl Atom {
    fn is_quotient(&self) -> bool {
        matches!(self, Atom::Call(Function::FloorDiv | Function::Mod, _))
    }
}

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let magnitude = term.coefficient.unsigned_abs();
            f.write_str(match (index, term.coefficient < 0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            if magnitude != 1 {
                write!(f, "{magnitude} * ")?;
            }
            // A lone quotient binds like a product; among factors, or after a minus sign, it needs brackets.
            let alone = term.factors.len() == 1 && term.coefficient == 1;
            for (at, atom) in term.factors.iter().enumerate() {
                if at > 0 {
                    f.write_str(" * ")?;
                }
                if atom.is_quotient() && !alone {
                    write!(f, "({atom})")?;
                } else {
                    write!(f, "{atom}")?;
                }
            }
        }
        let magnitude = self.constant.unsigned_abs();
        match (self.terms.is_empty(), self.constant) {
            (true, constant) => write!(f, "{constant}"),
            (false, 0) => Ok(()),
            (false, constant) if constant < 0 => write!(f, " - {magnitude}"),
            (false, _) => write!(f, " + {magnitude}"),
        }
    }
}

/// Whether two `dim_param` texts mean the same dimension.
pub(crate) fn same_text(a: &str, b: &str) -> bool {
    // A text without an operator is one name, and equal to no other.
    let operator = |text: &str| text.bytes().any(|byte| b"+-*/%(`".contains(&byte));
    a == b || ((operator(a) || operator(b)) && DimExpr::parse(a) == DimExpr::parse(b))
}

impl Dim {
    /// The expression that this dimension is, when anything is known of it.
    pub fn expr(&self) -> Option<DimExpr> {
        match self {
            Dim::Known(n) => i64::try_from(*n).ok().map(DimExpr::from),
            Dim::Symbol(text) => Some(DimExpr::parse(text)),
            Dim::Unknown => None,
        }
    }

    /// The dimension that an expression is; one that is below 0, or whose text is too long, is unknown.
    pub fn from_expr(expr: &DimExpr) -> Dim {
        if let Some(constant) = expr.constant() {
            return usize::try_from(constant).map_or(Dim::Unknown, Dim::Known);
        }
        if let Some(Atom::Name(name)) = expr.lone_atom() {
            return Dim::Symbol(name.clone());
        }
        let text = expr.to_string();
        // A name with a backtick could not be read back.
        if text.len() > TEXT_LIMIT || parse::expression(&text).as_ref() != Some(expr) {
            return Dim::Unknown;
        }
        Dim::Symbol(Arc::from(text))
    }

    fn with(
        &self,
        other: &Dim,
        numbers: fn(usize, usize) -> Option<usize>,
        exprs: fn(&DimExpr, &DimExpr) -> Option<DimExpr>,
    ) -> Dim {
        if let (Dim::Known(a), Dim::Known(b)) = (self, other) {
            // Beyond INT64 there are no extents in ONNX.
            let fits = |n: &usize| i64::try_from(*n).is_ok();
            return numbers(*a, *b)
                .filter(fits)
                .map_or(Dim::Unknown, Dim::Known);
        }
        let result = self.expr().zip(other.expr());
        result
            .and_then(|(a, b)| exprs(&a, &b))
            .map_or(Dim::Unknown, |expr| Dim::from_expr(&expr))
    }

    /// `self + other`; unknown when one is, or beyond the limits of [`DimExpr`], as for all arithmetic here.
    pub fn plus(&self, other: &Dim) -> Dim {
        match (self, other) {
            (dim, Dim::Known(0)) | (Dim::Known(0), dim) => dim.clone(),
            _ => self.with(other, usize::checked_add, DimExpr::plus),
        }
    }

    /// `self - other`; unknown when the difference is known to be below 0.
    pub fn minus(&self, other: &Dim) -> Dim {
        match other {
            Dim::Known(0) => self.clone(),
            _ => self.with(other, usize::checked_sub, DimExpr::minus),
        }
    }

    /// `self * other`; 0 when either is.
    pub fn times(&self, other: &Dim) -> Dim {
        match (self, other) {
            (_, Dim::Known(0)) | (Dim::Known(0), _) => Dim::Known(0),
            (dim, Dim::Known(1)) | (Dim::Known(1), dim) => dim.clone(),
            _ => self.with(other, usize::checked_mul, DimExpr::times),
        }
    }

    /// `self / other`, rounded down.
    pub fn div_floor(&self, other: &Dim) -> Dim {
        match other {
            Dim::Known(1) => self.clone(),
            _ => self.with(other, usize::checked_div, DimExpr::div_floor),
        }
    }

    /// `self / other`, rounded up.
    pub fn div_ceil(&self, other: &Dim) -> Dim {
        let numbers = |a: usize, b: usize| (b != 0).then(|| a.div_ceil(b));
        match other {
            Dim::Known(1) => self.clone(),
            _ => self.with(other, numbers, DimExpr::div_ceil),
        }
    }

    /// The larger of both.
    pub fn max(&self, other: &Dim) -> Dim {
        self.with(other, |a, b| Some(a.max(b)), DimExpr::larger)
    }

    /// The smaller of both; 0 when either is.
    pub fn min(&self, other: &Dim) -> Dim {
        match (self, other) {
            (_, Dim::Known(0)) | (Dim::Known(0), _) => Dim::Known(0),
            _ => self.with(other, |a, b| Some(a.min(b)), DimExpr::smaller),
        }
    }

    /// The product of dimensions; 1 of none.
    pub fn product<'d>(dims: impl IntoIterator<Item = &'d Dim>) -> Dim {
        let dims: Vec<&Dim> = dims.into_iter().collect();
        if dims.iter().any(|dim| **dim == Dim::Known(0)) {
            return Dim::Known(0);
        }
        let start = Dim::Known(1);
        dims.into_iter().fold(start, |held, dim| held.times(dim))
    }
}

#[cfg(test)]
mod tests;
