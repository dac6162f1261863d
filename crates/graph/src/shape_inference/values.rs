//! Values of shape arithmetic, propagated beside the types: what `Shape`, `Gather`, `Concat` and their like compute.

use super::DimExpr;
use crate::types::Dim;

/// Most elements of a value that is propagated: two numbers (pads) for each of the most axes that a tensor may have.
pub const VALUE_LIMIT: usize = 2 * refeed_values::MAX_RANK;

/// An INT64 or INT32 value of no or one axis whose elements are known as expressions, each or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeValue {
    scalar: bool,
    elements: Vec<Option<DimExpr>>,
}

impl ShapeValue {
    /// A value without axes.
    pub fn scalar(element: Option<DimExpr>) -> ShapeValue {
        ShapeValue {
            scalar: true,
            elements: vec![element],
        }
    }

    /// A value of one axis; `None` above [`VALUE_LIMIT`].
    pub fn vector(elements: Vec<Option<DimExpr>>) -> Option<ShapeValue> {
        (elements.len() <= VALUE_LIMIT).then_some(ShapeValue {
            scalar: false,
            elements,
        })
    }

    /// A shape as a value of one axis; `None` above [`VALUE_LIMIT`].
    pub fn from_dims(dims: &[Dim]) -> Option<ShapeValue> {
        if dims.len() > VALUE_LIMIT {
            return None;
        }
        ShapeValue::vector(dims.iter().map(Dim::expr).collect())
    }

    /// Numbers as a value of one axis, or of none; `None` above [`VALUE_LIMIT`], or when a scalar has not one number.
    pub fn from_numbers(
        numbers: impl IntoIterator<Item = i64>,
        scalar: bool,
    ) -> Option<ShapeValue> {
        let numbers = numbers.into_iter().take(VALUE_LIMIT + 1);
        let value = ShapeValue::vector(numbers.map(|n| Some(DimExpr::from(n))).collect())?;
        let fits = !scalar || value.elements.len() == 1;
        fits.then_some(ShapeValue { scalar, ..value })
    }

    /// Whether the value has no axes.
    pub fn is_scalar(&self) -> bool {
        self.scalar
    }

    /// The elements; one of a scalar.
    pub fn elements(&self) -> &[Option<DimExpr>] {
        &self.elements
    }

    /// The one element of a scalar, or of a vector of length 1.
    pub fn single(&self) -> Option<&DimExpr> {
        match &self.elements[..] {
            [element] => element.as_ref(),
            _ => None,
        }
    }

    /// All elements as numbers, when all are.
    pub fn numbers(&self) -> Option<Vec<i64>> {
        let number = |element: &Option<DimExpr>| element.as_ref()?.constant();
        self.elements.iter().map(number).collect()
    }

    /// The elements as dimensions: what is not known, or below 0, is unknown.
    pub fn dims(&self) -> Vec<Dim> {
        let dim = |element: &Option<DimExpr>| element.as_ref().map_or(Dim::Unknown, Dim::from_expr);
        self.elements.iter().map(dim).collect()
    }

    /// Whether nothing at all is known beyond the length.
    pub fn is_blank(&self) -> bool {
        self.elements.iter().all(Option::is_none)
    }

    /// Each element through a function; `None` where it has none.
    pub fn map(&self, f: impl Fn(&DimExpr) -> Option<DimExpr>) -> ShapeValue {
        let elements = self.elements.iter().map(|e| e.as_ref().and_then(&f));
        ShapeValue {
            scalar: self.scalar,
            elements: elements.collect(),
        }
    }

    /// Both values element by element, one of a single element repeated. `None` when the lengths do not fit.
    pub fn zip(
        &self,
        other: &ShapeValue,
        f: impl Fn(&DimExpr, &DimExpr) -> Option<DimExpr>,
    ) -> Option<ShapeValue> {
        let length = match (self.elements.len(), other.elements.len()) {
            (a, b) if a == b => a,
            (1, n) | (n, 1) => n,
            _ => return None,
        };
        let at = |value: &ShapeValue, index: usize| {
            let index = if value.elements.len() == 1 { 0 } else { index };
            value.elements[index].clone()
        };
        let elements = (0..length).map(|index| {
            let (a, b) = (at(self, index)?, at(other, index)?);
            f(&a, &b)
        });
        Some(ShapeValue {
            scalar: self.scalar && other.scalar,
            elements: elements.collect(),
        })
    }

    /// The same elements as a scalar or as a vector; `None` when a scalar would not have one element.
    pub fn with_rank(self, scalar: bool) -> Option<ShapeValue> {
        let fits = !scalar || self.elements.len() == 1;
        fits.then_some(ShapeValue { scalar, ..self })
    }
}
