//! Uses of values: which node inputs and outputs name them, through nested graphs.
//!
//! The one place where uses are counted. Validation, planning and reports all ask here.
//!
//! A use of a bound input is every node input position of that name in the root graph, every root graph output of that
//! name, and every node input and graph output of nested graphs that capture it. Input declarations, bindings,
//! `value_info` and initializers are no uses. A nested graph that defines the name itself, as an input, an initializer
//! of any kind or a node output anywhere in it, hides the outer value from itself and from everything nested in it.
//! The count is static: both branches of an `If` add up. Function bodies capture nothing.

use crate::bindings::{Binding, BindingUses};
use crate::error::BindingError;
use crate::path::{Path, Place, Step, Trail};
use refeed_proto::{AttributeProto, GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// How many places of use are kept by name; all are counted.
const SITES: usize = 16;

/// The uses of one bound input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputUses {
    /// Number of uses.
    pub count: usize,
    /// The first of them, as paths: `graph.node[3] "Concat_1" (Concat).input[0]`, `graph.output[2] "y"`.
    pub sites: Vec<String>,
}

/// Nested graphs of an attribute: `g`, then `graphs`.
pub(crate) fn nested(attribute: &AttributeProto) -> impl DoubleEndedIterator<Item = &GraphProto> {
    attribute.g.as_deref().into_iter().chain(&attribute.graphs)
}

/// As [`nested`], with the field that holds each graph.
pub(crate) fn nested_fields(
    attribute: &AttributeProto,
) -> impl DoubleEndedIterator<Item = (Step<'static>, &GraphProto)> {
    let one = attribute
        .g
        .as_deref()
        .map(|graph| (Step::Field("g"), graph));
    let many = attribute.graphs.iter().enumerate();
    one.into_iter()
        .chain(many.map(|(index, graph)| (Step::Item("graphs", index), graph)))
}

/// Names that a graph defines in its own scope, in no particular order and possibly repeated.
pub(crate) fn definitions(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let inputs = graph.input.iter().map(|input| input.name());
    let outputs = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(String::as_str));
    inputs
        .chain(initializer_names(graph))
        .chain(outputs)
        .filter(|name| !name.is_empty())
}

/// Names of the initializers of every kind.
pub(crate) fn initializer_names(graph: &GraphProto) -> impl Iterator<Item = &str> {
    initializers(graph).map(|(_, _, name)| name)
}

/// The initializers of every kind: field, position in it, name.
pub(crate) fn initializers(
    graph: &GraphProto,
) -> impl Iterator<Item = (&'static str, usize, &str)> {
    let dense = graph.initializer.iter().map(|tensor| tensor.name());
    let sparse = graph
        .sparse_initializer
        .iter()
        .map(|tensor| tensor.values.as_ref().map_or("", |values| values.name()));
    let encoded = graph.encoded_initializer.iter().map(|value| value.name());
    let paged = graph
        .paged_cache_initializer
        .iter()
        .map(|cache| cache.name());
    fn of<'a>(
        field: &'static str,
        names: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = (&'static str, usize, &'a str)> {
        names
            .enumerate()
            .map(move |(index, name)| (field, index, name))
    }
    of("initializer", dense)
        .chain(of("sparse_initializer", sparse))
        .chain(of("encoded_initializer", encoded))
        .chain(of("paged_cache_initializer", paged))
}

/// One step of the walk; the stack replaces recursion.
enum Visit<'a> {
    Enter(&'a GraphProto, Place),
    Leave(Vec<usize>),
}

/// Counts the uses of root graph inputs by name. `names` are distinct. One pass over the graph, whatever their number.
pub fn count_uses(graph: &GraphProto, names: &[&str]) -> Vec<InputUses> {
    let mut uses = vec![InputUses::default(); names.len()];
    if names.is_empty() {
        return uses;
    }
    let index: HashMap<&str, usize> = names
        .iter()
        .enumerate()
        .map(|(i, &name)| (name, i))
        .collect();
    let mut hidden = vec![0usize; names.len()];
    let mut trail = Trail::new(Path::root("graph"));
    let mut stack = vec![Visit::Enter(graph, Place::BASE)];
    let mut root = true;
    while let Some(visit) = stack.pop() {
        let (graph, place) = match visit {
            Visit::Leave(names) => {
                for name in names {
                    hidden[name] -= 1;
                }
                continue;
            }
            Visit::Enter(graph, place) => (graph, place),
        };
        // The root defines the names that are counted, so it hides nothing.
        let mut own: Vec<usize> = Vec::new();
        if !std::mem::replace(&mut root, false) {
            own = definitions(graph)
                .filter_map(|name| index.get(name).copied())
                .collect();
            own.sort_unstable();
            own.dedup();
        }
        for &name in &own {
            hidden[name] += 1;
        }
        let mut children = Vec::new();
        let mut count = |name: &str, site: &dyn Fn() -> String| {
            let Some(&at) = index.get(name) else { return };
            if hidden[at] > 0 {
                return;
            }
            let uses: &mut InputUses = &mut uses[at];
            uses.count += 1;
            if uses.sites.len() < SITES {
                uses.sites.push(site());
            }
        };
        for (position, node) in graph.node.iter().enumerate() {
            for (input, name) in node.input.iter().enumerate() {
                count(name, &|| {
                    let at = trail.path(place);
                    at.node(position, node).item("input", input).to_string()
                });
            }
            for attribute in &node.attribute {
                for (field, inner) in nested_fields(attribute) {
                    let place = trail.push(place, Step::Node(position, node));
                    let place = trail.push(place, Step::Key("attribute", attribute.name()));
                    children.push(Visit::Enter(inner, trail.push(place, field)));
                }
            }
        }
        for (position, output) in graph.output.iter().enumerate() {
            let name = output.name();
            count(name, &|| {
                let at = trail.path(place);
                at.named("output", position, name).to_string()
            });
        }
        // Children first, then the end of this graph's scope.
        stack.push(Visit::Leave(own));
        stack.extend(children.into_iter().rev());
    }
    uses
}

/// Holds bound inputs to the use policy, and says what uses them.
///
/// # Errors
/// [`BindingError::Uses`] for the first bound input that is not used exactly once under [`BindingUses::One`].
pub fn check_binding_uses(
    graph: &GraphProto,
    bindings: &[Binding],
    policy: BindingUses,
) -> Result<Vec<InputUses>, BindingError> {
    let names: Vec<&str> = bindings.iter().map(|binding| &*binding.input).collect();
    let uses = count_uses(graph, &names);
    if policy == BindingUses::One
        && let Some((binding, uses)) = bindings.iter().zip(&uses).find(|(_, uses)| uses.count != 1)
    {
        return Err(BindingError::Uses {
            input: binding.input.to_string(),
            count: uses.count,
            sites: uses.sites.clone(),
        });
    }
    Ok(uses)
}

/// Names that the nested graphs of a node take from outside, each once. Outer graphs come before the graphs in them.
pub fn captures(node: &NodeProto) -> Vec<&str> {
    captures_of(node.attribute.iter().flat_map(nested))
}

/// Names that graphs take from outside, each once. Outer graphs come before the graphs in them.
pub(crate) fn captures_of<'a>(graphs: impl Iterator<Item = &'a GraphProto>) -> Vec<&'a str> {
    enum Visit<'a> {
        Enter(&'a GraphProto),
        Leave(&'a GraphProto),
    }
    let mut found = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut defined: HashMap<&str, usize> = HashMap::new();
    let mut stack: Vec<Visit<'_>> = graphs.map(Visit::Enter).collect();
    stack.reverse();
    while let Some(visit) = stack.pop() {
        let graph = match visit {
            Visit::Leave(graph) => {
                for name in definitions(graph) {
                    if let Some(count) = defined.get_mut(name) {
                        *count -= 1;
                    }
                }
                continue;
            }
            Visit::Enter(graph) => graph,
        };
        for name in definitions(graph) {
            *defined.entry(name).or_default() += 1;
        }
        let inputs = graph
            .node
            .iter()
            .flat_map(|node| node.input.iter().map(String::as_str));
        for name in inputs.chain(graph.output.iter().map(|output| output.name())) {
            if !name.is_empty()
                && defined.get(name).is_none_or(|&count| count == 0)
                && seen.insert(name)
            {
                found.push(name);
            }
        }
        stack.push(Visit::Leave(graph));
        for node in graph.node.iter().rev() {
            for attribute in node.attribute.iter().rev() {
                stack.extend(nested(attribute).rev().map(Visit::Enter));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
