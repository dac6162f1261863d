//! Values against declared types: element type, rank, extents, and one table of symbolic dimensions a call.

use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_values::{DType, RuntimeValue, Tensor};
use std::collections::HashMap;
use std::sync::Arc;
use thiserror::Error;

/// A value that contradicts its declaration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConformError {
    /// A value of another kind.
    #[error("{role} `{name}`: expected {expected}, got {got}")]
    Kind {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Declared kind.
        expected: &'static str,
        /// Kind of the value.
        got: &'static str,
    },
    /// Another element type.
    #[error("{role} `{name}`: dtype mismatch, expected {expected}, got {got}")]
    DType {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Declared element type.
        expected: DType,
        /// Element type of the value.
        got: DType,
    },
    /// Another number of axes.
    #[error("{role} `{name}`: rank mismatch, expected {expected} axes, got shape {got:?}")]
    Rank {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Declared rank.
        expected: usize,
        /// Shape of the value.
        got: Vec<usize>,
    },
    /// An extent that is declared as another number.
    #[error("{role} `{name}`: shape mismatch, expected {expected}, got {got:?} (axis {axis})")]
    Extent {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// Which axis.
        axis: usize,
        /// The declaration.
        expected: String,
        /// Shape of the value.
        got: Vec<usize>,
    },
    /// An extent that a symbol already has another value for.
    #[error(
        "{role} `{name}`: symbolic shape mismatch, `{symbol}` is {expected} elsewhere, got {got:?} (axis {axis})"
    )]
    Symbol {
        /// "input" or "output".
        role: &'static str,
        /// The value.
        name: Arc<str>,
        /// The symbol.
        symbol: Arc<str>,
        /// What it stands for in this call.
        expected: usize,
        /// Which axis.
        axis: usize,
        /// Shape of the value.
        got: Vec<usize>,
    },
}

#[derive(Debug, Clone, Copy)]
enum DimRule {
    Any,
    Exactly(usize),
    Symbol(usize),
}

/// A declared type, prepared: symbols are numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    name: Arc<str>,
    role: &'static str,
    ty: ValueType,
    dims: Option<Vec<DimRule>>,
}

/// The symbols of a model.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    numbers: HashMap<Arc<str>, usize>,
}

impl Symbols {
    /// Prepares the declared type of one value.
    pub(crate) fn rule(&mut self, role: &'static str, name: Arc<str>, ty: &ValueType) -> Rule {
        let shape = ty.tensor().and_then(|ty| ty.shape.as_ref());
        let dims = shape.map(|shape| {
            shape
                .iter()
                .map(|dim| match dim {
                    Dim::Known(n) => DimRule::Exactly(*n),
                    Dim::Unknown => DimRule::Any,
                    Dim::Symbol(symbol) => {
                        let next = self.numbers.len();
                        DimRule::Symbol(*self.numbers.entry(symbol.clone()).or_insert(next))
                    }
                })
                .collect()
        });
        Rule {
            name,
            role,
            ty: ty.clone(),
            dims,
        }
    }

    /// An empty table for one call.
    pub(crate) fn table(&self) -> Table {
        Table {
            values: vec![None; self.numbers.len()],
        }
    }
}

/// What each symbol stands for in one call.
#[derive(Debug, Default, Clone)]
pub(crate) struct Table {
    values: Vec<Option<usize>>,
}

impl Table {
    pub(crate) fn clear(&mut self) {
        self.values.fill(None);
    }
}

impl Rule {
    /// Checks a value. A symbol that contradicts the table is `Ok(Some(..))`: the caller decides how bad that is.
    ///
    /// # Errors
    /// When element type, rank or a numeric extent contradict the declaration.
    pub(crate) fn check(
        &self,
        value: &RuntimeValue,
        table: &mut Table,
    ) -> Result<Option<ConformError>, ConformError> {
        let expected = match (&self.ty, value) {
            (ValueType::Unset, RuntimeValue::Tensor(_)) => return Ok(None),
            (ValueType::Tensor(ty), RuntimeValue::Tensor(value)) => {
                return self.check_tensor(ty, value, table);
            }
            (ValueType::Struct(_), RuntimeValue::Struct(_))
            | (ValueType::Sequence(_), RuntimeValue::Sequence(_)) => return Ok(None),
            (ValueType::Struct(_), _) => "a structured value",
            (ValueType::Sequence(_), _) => "a sequence",
            _ => "a tensor",
        };
        Err(ConformError::Kind {
            role: self.role,
            name: self.name.clone(),
            expected,
            got: value.kind(),
        })
    }

    fn check_tensor(
        &self,
        ty: &TensorType,
        value: &Tensor,
        table: &mut Table,
    ) -> Result<Option<ConformError>, ConformError> {
        if let Some(expected) = ty.dtype
            && expected != value.dtype()
        {
            let (role, name) = (self.role, self.name.clone());
            return Err(ConformError::DType {
                role,
                name,
                expected,
                got: value.dtype(),
            });
        }
        let Some(dims) = &self.dims else {
            return Ok(None);
        };
        let shape = value.shape();
        let (role, name) = (self.role, &self.name);
        if dims.len() != shape.len() {
            let (name, got) = (name.clone(), shape.to_vec());
            return Err(ConformError::Rank {
                role,
                name,
                expected: dims.len(),
                got,
            });
        }
        let mut clash = None;
        for (axis, (dim, &extent)) in dims.iter().zip(shape).enumerate() {
            match *dim {
                DimRule::Any => {}
                DimRule::Exactly(n) if n == extent => {}
                DimRule::Exactly(_) => {
                    let (name, got) = (name.clone(), shape.to_vec());
                    let expected = ty.to_string();
                    return Err(ConformError::Extent {
                        role,
                        name,
                        axis,
                        expected,
                        got,
                    });
                }
                DimRule::Symbol(number) => match table.values[number] {
                    None => table.values[number] = Some(extent),
                    Some(known) if known == extent => {}
                    Some(expected) => {
                        let symbol = match ty.shape.as_ref().and_then(|shape| shape.get(axis)) {
                            Some(Dim::Symbol(symbol)) => symbol.clone(),
                            _ => Arc::from(""),
                        };
                        let (name, got) = (name.clone(), shape.to_vec());
                        clash.get_or_insert(ConformError::Symbol {
                            role,
                            name,
                            symbol,
                            expected,
                            axis,
                            got,
                        });
                    }
                },
            }
        }
        Ok(clash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(shape: &[Dim]) -> ValueType {
        let (dtype, shape) = (Some(DType::Float), Some(shape.to_vec()));
        TensorType { dtype, shape }.into()
    }

    #[test]
    fn first_value_binds_a_symbol_for_all_values_of_the_call() {
        let mut symbols = Symbols::default();
        let n = || Dim::Symbol(Arc::from("n"));
        let a = symbols.rule("input", Arc::from("a"), &declared(&[n(), Dim::Known(3)]));
        let b = symbols.rule("input", Arc::from("b"), &declared(&[Dim::Unknown, n()]));
        let mut table = symbols.table();
        let t = |shape: &[usize]| {
            RuntimeValue::from(
                Tensor::from_slice(shape, &vec![0f32; shape.iter().product()]).unwrap(),
            )
        };
        assert_eq!(a.check(&t(&[2, 3]), &mut table).unwrap(), None);
        assert_eq!(b.check(&t(&[7, 2]), &mut table).unwrap(), None);
        let clash = b.check(&t(&[7, 5]), &mut table).unwrap().unwrap();
        let text = "input `b`: symbolic shape mismatch, `n` is 2 elsewhere, got [7, 5] (axis 1)";
        assert_eq!(clash.to_string(), text);
        table.clear();
        assert_eq!(b.check(&t(&[7, 5]), &mut table).unwrap(), None);
        assert!(matches!(
            a.check(&t(&[2, 4]), &mut table),
            Err(ConformError::Extent { axis: 1, .. })
        ));
        assert!(matches!(
            a.check(&t(&[2]), &mut table),
            Err(ConformError::Rank { expected: 2, .. })
        ));
    }
}
