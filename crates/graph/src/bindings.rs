//! Persistent bindings: which root graph output is the next value of which root graph input.
//!
//! [`verify_persistent_bindings`] checks the declarations in a fixed order, binding by binding: both names are exact,
//! both types can be kept between calls, the types are compatible, and no name is bound twice. The number of uses is
//! checked apart from that ([`crate::uses::check_binding_uses`]), because a session may allow more than the graph does.

pub(crate) mod compatible;

use crate::error::{BindingError, FieldError, UnknownPolicy};
use crate::path::Path;
use crate::publish::{self, Publish};
use crate::struct_types::StructTypes;
use crate::validate::types;
use refeed_proto::{GraphProto, ModelProto, StringStringEntryProto, TypeProto, ValueInfoProto};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How often a bound input may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BindingUses {
    /// Exactly once.
    #[default]
    One,
    /// Any number of times. Symbolic dimensions that disagree become warnings.
    Any,
}

impl BindingUses {
    /// The text in metadata and in Python.
    pub const fn as_str(self) -> &'static str {
        match self {
            BindingUses::One => "one",
            BindingUses::Any => "any",
        }
    }
}

impl fmt::Display for BindingUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for BindingUses {
    type Err = UnknownPolicy;
    fn from_str(text: &str) -> Result<BindingUses, UnknownPolicy> {
        match text {
            "one" => Ok(BindingUses::One),
            "any" => Ok(BindingUses::Any),
            _ => Err(UnknownPolicy {
                expected: BindingUses::TEXTS,
                got: text.to_string(),
            }),
        }
    }
}

/// One declared pair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// Graph input that is fed.
    pub input: Arc<str>,
    /// Graph output that feeds it.
    pub output: Arc<str>,
    /// Position of the input in the graph's inputs.
    pub input_index: usize,
    /// Position of the output in the graph's outputs.
    pub output_index: usize,
    /// When the output is published.
    pub publish: Publish,
}

/// The bindings of a model and their policies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Bindings {
    /// In the order of declaration.
    pub list: Vec<Binding>,
    /// How often a bound input may be used.
    pub uses: BindingUses,
}

/// Positions of typed values by name; an untyped one has no position.
fn by_name(values: &[ValueInfoProto]) -> HashMap<&str, (usize, Option<&TypeProto>)> {
    let mut found = HashMap::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let ty = value.r#type.as_ref().filter(|ty| ty.value.is_some());
        found.entry(value.name()).or_insert((index, ty));
    }
    found
}

/// Checks and resolves the bindings that a model declares, except for the number of uses.
///
/// # Errors
/// The first fault in the order of the module's description. A fault of `refeed.` metadata comes before those of
/// bindings, which it governs; a policy for an input that is not bound after them.
pub fn verify_persistent_bindings(
    model: &ModelProto,
    catalogue: &StructTypes,
) -> Result<Bindings, BindingError> {
    match &model.graph {
        Some(graph) => of_graph(
            graph,
            model.metadata_props.iter().chain(&graph.metadata_props),
            catalogue,
        ),
        None => Ok(Bindings::default()),
    }
}

/// The bindings of a root graph, with the policies in the metadata around it.
pub(crate) fn of_graph<'a>(
    graph: &GraphProto,
    metadata: impl IntoIterator<Item = &'a StringStringEntryProto>,
    catalogue: &StructTypes,
) -> Result<Bindings, BindingError> {
    let policies = publish::read(metadata.into_iter())?;
    let mut bindings = resolve(graph, catalogue)?;
    for binding in &mut bindings {
        if let Some(&publish) = policies.publish.get(&*binding.input) {
            binding.publish = publish;
        }
    }
    let bound: HashMap<&str, ()> = bindings
        .iter()
        .map(|binding| (&*binding.input, ()))
        .collect();
    let mut stray: Vec<&str> = policies
        .publish
        .keys()
        .copied()
        .filter(|input| !bound.contains_key(input))
        .collect();
    stray.sort_unstable();
    if let Some(input) = stray.first() {
        return Err(BindingError::PublishUnbound {
            input: (*input).to_string(),
        });
    }
    Ok(Bindings {
        list: bindings,
        uses: policies.uses,
    })
}

/// Holds a declared type to the rules of any graph input or output.
///
/// # Errors
/// The first part of the type that says nothing or contradicts itself, with its path.
pub fn check_type(ty: &TypeProto, catalogue: &StructTypes) -> Result<(), FieldError> {
    types::check_declared(ty, &Path::root("type"), catalogue)
}

/// Holds a declared type to the rules of bound inputs and outputs: tensors that are not STRING, sequences and structs of
/// such, and nothing else.
///
/// # Errors
/// The first part of the type that is refused, with its path.
pub fn check_persistent(ty: &TypeProto, catalogue: &StructTypes) -> Result<(), FieldError> {
    types::check_kept(ty, &Path::root("type"), catalogue)
}

/// Whether values of the type `got` can be of the type `expected`. Symbolic dimensions are not compared: they are numbers
/// only in a call.
///
/// # Errors
/// The first part in which they differ, with its path and both sides.
pub fn check_compatible(
    expected: &TypeProto,
    got: &TypeProto,
    catalogue: &StructTypes,
) -> Result<(), FieldError> {
    compatible::compare(expected, got, &Path::root("type"), catalogue)
}

fn resolve(graph: &GraphProto, catalogue: &StructTypes) -> Result<Vec<Binding>, BindingError> {
    let declared = &graph.persistent_bindings;
    if declared.is_empty() {
        return Ok(Vec::new());
    }
    let retired = |binding: &refeed_proto::PersistentBindingProto| {
        binding.retired_input_field_path.is_some() || binding.retired_output_field_path.is_some()
    };
    if let Some(index) = declared.iter().position(retired) {
        return Err(BindingError::FieldPath { index });
    }
    let inputs = by_name(&graph.input);
    let outputs = by_name(&graph.output);
    let mut bound_inputs: HashMap<&str, usize> = HashMap::new();
    let mut bound_outputs: HashMap<&str, usize> = HashMap::new();
    let mut bindings = Vec::with_capacity(declared.len());
    for (index, binding) in declared.iter().enumerate() {
        let (input, output) = (binding.input_name(), binding.output_name());
        let find = |role, name: &str, values: &HashMap<&str, (usize, Option<&'_ TypeProto>)>| {
            let why = match values.get(name) {
                _ if name.is_empty() => "empty",
                None => "not declared",
                Some((_, None)) => "declared without a type",
                Some(_) => return Ok(()),
            };
            Err(BindingError::UnknownName {
                index,
                input: input.to_string(),
                output: output.to_string(),
                role,
                why,
            })
        };
        find("input", input, &inputs)?;
        find("output", output, &outputs)?;
        // Both are there, because `find` has just looked at the same entries.
        let (Some(&(input_index, Some(input_type))), Some(&(output_index, Some(output_type)))) =
            (inputs.get(input), outputs.get(output))
        else {
            continue;
        };
        let root = Path::root("graph");
        for (role, name, position, ty) in [
            ("input", input, input_index, input_type),
            ("output", output, output_index, output_type),
        ] {
            let value = root.named(role, position, name);
            types::check_kept(ty, &value.field("type"), catalogue).map_err(|fault| {
                BindingError::NotPersistent {
                    index,
                    role,
                    name: name.to_string(),
                    fault: Box::new(fault),
                }
            })?;
        }
        let value = root.named("output", output_index, output);
        compatible::compare(input_type, output_type, &value.field("type"), catalogue).map_err(
            |fault| BindingError::Incompatible {
                index,
                input: input.to_string(),
                output: output.to_string(),
                fault: Box::new(fault),
            },
        )?;
        for (role, name, bound) in [
            ("input", input, &mut bound_inputs),
            ("output", output, &mut bound_outputs),
        ] {
            if let Some(before) = bound.insert(name, index) {
                return Err(BindingError::Duplicate {
                    index,
                    role,
                    name: name.to_string(),
                    before,
                });
            }
        }
        bindings.push(Binding {
            input: Arc::from(input),
            output: Arc::from(output),
            input_index,
            output_index,
            publish: Publish::Always,
        });
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests;
