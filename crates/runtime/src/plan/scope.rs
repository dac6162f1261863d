//! Names while a graph is compiled: which slot a name stands for, and what is known of it.

use crate::kernel::Slot;
use crate::plan::Step;
use refeed_graph::types::{TensorType, ValueType};
use refeed_values::{DType, RuntimeValue, Tensor};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What is known of a slot at compile time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) ty: ValueType,
    /// The value, when no run can change it.
    pub(crate) constant: Option<RuntimeValue>,
    /// Whether it is a retained cache, or a rearrangement of one.
    pub(crate) cache: bool,
    /// The binding whose retained value this is, as it was handed in.
    pub(crate) bound: Option<usize>,
}

impl Known {
    /// A value that every run finds.
    pub(crate) fn constant(value: RuntimeValue) -> Known {
        let ty = match &value {
            RuntimeValue::Tensor(tensor) => {
                TensorType::concrete(tensor.dtype(), tensor.shape()).into()
            }
            RuntimeValue::Encoded(encoded) => match encoded.logical() {
                Some((dtype, shape)) => TensorType::concrete(dtype, shape).into(),
                None => ValueType::Unset,
            },
            RuntimeValue::Strings(strings) => {
                TensorType::concrete(DType::String, strings.shape()).into()
            }
            // The only struct that a model has as a constant is a paged cache, and any cache is of the type without a kind.
            RuntimeValue::Struct(_) => ValueType::Struct(Arc::default()),
            _ => ValueType::Unset,
        };
        Known {
            ty,
            constant: Some(value),
            ..Known::default()
        }
    }

    /// The tensor, when no run can change it.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        self.constant.as_ref()?.tensor()
    }
}

/// What is known of the inputs of a node, by position; `None` for one that is left out.
pub(crate) struct Operands {
    pub(crate) types: Vec<Option<ValueType>>,
    /// The tensors that no run can change.
    pub(crate) constants: Vec<Option<Tensor>>,
}

/// Where a graph looks for names that it does not define.
pub(crate) trait Outer {
    /// The slot, in the outer graph, of a name that an inner graph captures.
    fn capture(&mut self, name: &str) -> Option<(Slot, Known)>;
}

/// A graph being compiled.
#[derive(Default)]
pub(crate) struct Scope<'o> {
    pub(crate) known: Vec<Known>,
    /// Slots that hold a dense tensor whatever is fed: not an encoded one, which may stand where a tensor is declared.
    pub(crate) dense: HashSet<Slot>,
    pub(crate) steps: Vec<Step>,
    pub(crate) names: HashMap<String, Slot>,
    pub(crate) outer: Option<&'o mut dyn Outer>,
    /// Outer slot and inner slot of every captured value.
    pub(crate) captures: Vec<(Slot, Slot)>,
}

impl Scope<'_> {
    /// A new slot.
    pub(crate) fn slot(&mut self, known: Known) -> Slot {
        self.known.push(known);
        (self.known.len() - 1) as Slot
    }

    /// A new slot under a name.
    pub(crate) fn define(&mut self, name: &str, known: Known) -> Slot {
        let slot = self.slot(known);
        self.names.insert(name.to_string(), slot);
        slot
    }

    /// The slot of a name, captured from outside when it is not defined here.
    pub(crate) fn lookup(&mut self, name: &str) -> Option<Slot> {
        if let Some(&slot) = self.names.get(name) {
            return Some(slot);
        }
        let (outside, known) = self.outer.as_mut()?.capture(name)?;
        let constant = known.constant.is_some();
        let inside = self.define(name, known);
        if !constant {
            self.captures.push((outside, inside));
        }
        Some(inside)
    }

    /// A name for each slot. Of several names that stand for one, the first in the order of letters.
    pub(crate) fn slot_names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Option<&str>> = vec![None; self.known.len()];
        for (name, &slot) in &self.names {
            let held = &mut names[slot as usize];
            *held = Some(held.map_or(name, |held| held.min(name)));
        }
        let names = names.into_iter();
        names.map(|name| Arc::from(name.unwrap_or(""))).collect()
    }

    /// Whether a slot holds a dense tensor in every run.
    pub(crate) fn is_dense(&self, slot: Slot) -> bool {
        self.known(slot).tensor().is_some() || self.dense.contains(&slot)
    }

    /// What is known of a node's inputs.
    pub(crate) fn operands(&self, inputs: &[Option<Slot>]) -> Operands {
        let known = || inputs.iter().map(|slot| slot.map(|slot| self.known(slot)));
        Operands {
            types: known().map(|known| Some(known?.ty.clone())).collect(),
            constants: known().map(|known| known?.tensor().cloned()).collect(),
        }
    }

    /// What is known of a slot.
    pub(crate) fn known(&self, slot: Slot) -> &Known {
        &self.known[slot as usize]
    }
}

impl Outer for Scope<'_> {
    fn capture(&mut self, name: &str) -> Option<(Slot, Known)> {
        let slot = self.lookup(name)?;
        Some((slot, self.known(slot).clone()))
    }
}
