//! Model-local functions: finding them, and turning a call into the nodes of the body.

use crate::error::ModelError;
use crate::load::shown;
use crate::place;
use refeed_proto::{AttributeProto, FunctionProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// The functions of a model by domain, name and overload.
#[derive(Debug, Default)]
pub struct FunctionTable<'a> {
    list: &'a [FunctionProto],
    by_name: HashMap<(&'a str, &'a str, &'a str), usize>,
}

impl<'a> FunctionTable<'a> {
    /// Indexes a model's functions.
    ///
    /// # Errors
    /// When a function has no name, or two have one domain, name and overload.
    pub fn new(list: &'a [FunctionProto]) -> Result<FunctionTable<'a>, ModelError> {
        let mut by_name = HashMap::with_capacity(list.len());
        for (index, function) in list.iter().enumerate() {
            if function.name().is_empty() {
                return Err(ModelError::Unnamed {
                    at: format!("function {index}"),
                    what: "the function",
                });
            }
            let key = (
                place::domain(function.domain()),
                function.name(),
                function.overload(),
            );
            if by_name.insert(key, index).is_some() {
                let name = place::function(function);
                return Err(ModelError::Duplicate {
                    at: "model".to_string(),
                    what: "function",
                    name,
                });
            }
        }
        Ok(FunctionTable { list, by_name })
    }

    /// Position of a function in the model's list.
    pub fn find(&self, domain: &str, name: &str, overload: &str) -> Option<usize> {
        self.by_name
            .get(&(place::domain(domain), name, overload))
            .copied()
    }

    /// A function.
    pub fn get(&self, domain: &str, name: &str, overload: &str) -> Option<&'a FunctionProto> {
        self.list.get(self.find(domain, name, overload)?)
    }
}

/// The nodes of a function's body as one call means them: every reference to an attribute of the function is replaced by
/// the call's attribute, else by the function's default; where there is neither, the attribute is left out. Nested graphs
/// are treated alike. Names of values are not changed: the body is a scope of its own.
///
/// # Errors
/// When the call gives an attribute that the function does not have, more inputs or outputs than it has, or an attribute
/// of another type than the body asks for.
pub fn instantiate(
    function: &FunctionProto,
    call: &NodeProto,
) -> Result<Vec<NodeProto>, ModelError> {
    let at = || match call.name() {
        "" => format!("call of function {}", place::function(function)),
        name => format!(
            "call '{}' of function {}",
            shown(name),
            place::function(function)
        ),
    };
    for (role, got, most) in [
        ("inputs", call.input.len(), function.input.len()),
        ("outputs", call.output.len(), function.output.len()),
    ] {
        if got > most {
            return Err(ModelError::Arity {
                at: at(),
                role,
                expected: format!("at most {most}"),
                got,
            });
        }
    }
    let defaults = function
        .attribute_proto
        .iter()
        .map(|attribute| (attribute.name(), attribute));
    let declared: HashSet<&str> = function
        .attribute
        .iter()
        .map(String::as_str)
        .chain(defaults.clone().map(|(name, _)| name))
        .collect();
    let mut values: HashMap<&str, &AttributeProto> = defaults.collect();
    for attribute in &call.attribute {
        if !declared.contains(attribute.name()) {
            return Err(ModelError::UnknownAttribute {
                at: at(),
                function: place::function(function),
                name: attribute.name().to_string(),
            });
        }
        values.insert(attribute.name(), attribute);
    }

    let mut nodes = function.node.clone();
    // Lists of nodes whose references are still to be replaced. A value that is put in place of a reference belongs to the
    // caller, so its own nested graphs are left alone.
    let mut open: Vec<&mut NodeProto> = nodes.iter_mut().collect();
    while let Some(node) = open.pop() {
        let mut fault = None;
        node.attribute.retain_mut(|attribute| {
            let Some(reference) = attribute
                .ref_attr_name
                .clone()
                .filter(|reference| !reference.is_empty())
            else {
                return true;
            };
            let refused = |why| ModelError::Reference {
                at: at(),
                name: attribute.name().to_string(),
                reference: reference.clone(),
                why,
            };
            if !declared.contains(reference.as_str()) {
                fault.get_or_insert(refused("which the function does not declare".to_string()));
                return false;
            }
            let Some(&value) = values.get(reference.as_str()) else {
                return false;
            };
            let (wanted, given) = (attribute.r#type(), value.r#type());
            if attribute.r#type.is_some_and(|number| number != 0) && wanted != given {
                let why = format!(
                    "expected {}, got {}",
                    wanted.as_str_name(),
                    given.as_str_name()
                );
                fault.get_or_insert(refused(why));
                return false;
            }
            *attribute = AttributeProto {
                name: attribute.name.take(),
                ..value.clone()
            };
            // Marks the value as the caller's; taken away below.
            attribute.ref_attr_name = Some(String::new());
            true
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
        for attribute in &mut node.attribute {
            if attribute.ref_attr_name.take().is_some() {
                continue;
            }
            let graphs = attribute
                .g
                .as_deref_mut()
                .into_iter()
                .chain(&mut attribute.graphs);
            open.extend(graphs.flat_map(|graph| &mut graph.node));
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests;
