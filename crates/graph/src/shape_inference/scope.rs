//! What is known of the values of one graph while its nodes are walked.

use super::ShapeValue;
use crate::types::{Dim, ValueType};
use refeed_proto::{GraphProto, ValueInfoProto};
use refeed_values::{MAX_RANK, Tensor};
use std::collections::{HashMap, HashSet};

/// Longer names of dimensions are not carried from value to value: a model could make any number of copies.
const NAME_LIMIT: usize = 512;

/// What is known of a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) ty: ValueType,
    /// The value, when no run can change it and it is small.
    pub(super) constant: Option<Tensor>,
    /// What shape arithmetic tells of the elements.
    pub(super) value: Option<ShapeValue>,
}

impl From<ValueType> for Known {
    fn from(ty: ValueType) -> Known {
        Known {
            ty,
            ..Known::default()
        }
    }
}

/// The names of one graph or function body, on top of those around it.
#[derive(Default)]
pub(super) struct Scope<'s> {
    /// `None` for an input of a function that the call does not give.
    names: HashMap<&'s str, Option<Known>>,
    declared: HashMap<&'s str, (&'static str, ValueType)>,
    computed: HashSet<&'s str>,
    outer: Option<&'s Scope<'s>>,
}

impl<'s> Scope<'s> {
    /// The scope of a graph, with the declarations of its outputs and of the values in between.
    pub(super) fn of_graph(graph: &'s GraphProto, outer: Option<&'s Scope<'s>>) -> Scope<'s> {
        let mut scope = Scope {
            outer,
            ..Scope::default()
        };
        // What the outputs say comes last, and stands.
        for (source, list) in [
            ("value_info", &graph.value_info),
            ("graph output", &graph.output),
        ] {
            for info in list {
                let ty = declared_type(info);
                if ty != ValueType::Unset {
                    scope.declared.insert(info.name(), (source, ty));
                }
            }
        }
        scope
    }

    /// Adds a value; an input that is not given is `None`.
    pub(super) fn define(&mut self, name: &'s str, known: Option<Known>) {
        self.names.insert(name, known);
    }

    /// Whether this scope itself has the name.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Whether a node of this graph computes the name: not inputs and what comes from around.
    pub(super) fn computes(&self, name: &str) -> bool {
        self.computed.contains(name)
    }

    /// Adds a value that a node computes.
    pub(super) fn define_computed(&mut self, name: &'s str, known: Known) {
        self.computed.insert(name);
        self.names.insert(name, Some(known));
    }

    /// What is known of a name, here or around; `None` for an input that is not given. Of a name that nobody defines
    /// nothing is known.
    pub(super) fn lookup(&self, name: &str) -> Option<Known> {
        let mut scope = Some(self);
        while let Some(held) = scope {
            if let Some(known) = held.names.get(name) {
                return known.clone();
            }
            scope = held.outer;
        }
        Some(Known::default())
    }

    /// What the graph declares of a value that one of its nodes computes, and where.
    pub(super) fn declared(&self, name: &str) -> Option<&(&'static str, ValueType)> {
        self.declared.get(name)
    }

    /// Takes the type of a name out of this scope.
    pub(super) fn take_type(&mut self, name: &str) -> Option<ValueType> {
        Some(self.names.remove(name)??.ty)
    }
}

/// A declaration as far as inference follows it: no shapes of more axes than a tensor may have, no endless names.
pub(super) fn declared_type(info: &ValueInfoProto) -> ValueType {
    let mut ty = ValueType::from_proto(info.r#type.as_ref());
    if let ValueType::Tensor(tensor) | ValueType::SparseTensor(tensor) = &mut ty {
        if tensor.rank().is_some_and(|rank| rank > MAX_RANK) {
            tensor.shape = None;
        }
        for dim in tensor.shape.iter_mut().flatten() {
            if matches!(dim, Dim::Symbol(name) if name.len() > NAME_LIMIT) {
                *dim = Dim::Unknown;
            }
        }
    }
    ty
}
