//! A part of a graph as a graph of its own.

use super::GraphBuilder;
use super::error::BuildError;
use super::names::{Names, Origin};
use super::order::{needed, reads};
use super::walk::{Site, nested_in, visit_policies};
use crate::functions::FunctionTable;
use crate::{place, uses};
use refeed_proto::{
    FunctionProto, GraphProto, ModelProto, NodeProto, PersistentBindingProto, ValueInfoProto,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Prefix of the annotations that declare shared quantization parameters, which belong to the model and to no value.
const PARAMETER_SETS: &str = "onnx_light.quantization.parameters:";

impl GraphBuilder {
    /// The part of the graph that makes `outputs` from `inputs`, as a builder of its own that shares all payloads.
    ///
    /// Inputs and outputs may be any values of the root graph. It has the nodes that are needed, in their order, with
    /// whatever their nested graphs take from outside; the initializers of every kind that those read; the functions that
    /// they call; the types that are declared of the values; and the struct types. A persistent binding comes along when
    /// both its ends do. Training steps stay behind.
    ///
    /// # Errors
    /// [`BuildError::Missing`] for a name that is no value, [`BuildError::Duplicate`] for one that is given twice,
    /// [`BuildError::NoType`] when nothing says the type of one; [`BuildError::NeedsInputs`] when the nodes read graph
    /// inputs that are not among `inputs`; [`BuildError::BindingCut`] when one end of a binding would be there without
    /// the other.
    pub fn extract(&self, inputs: &[&str], outputs: &[&str]) -> Result<GraphBuilder, BuildError> {
        let input = self.interface("input", inputs)?;
        let output = self.interface("output", outputs)?;
        let graph = self.graph();
        let given: HashSet<&str> = inputs.iter().copied().collect();
        let live = needed(graph, outputs.iter().copied(), &given);
        let live_nodes = graph.node.iter().zip(&live).filter(|(_, live)| **live);
        let mut node: Vec<NodeProto> = live_nodes.map(|(node, _)| node.clone()).collect();

        let mut read: HashSet<&str> = outputs.iter().copied().collect();
        read.extend(
            graph
                .node
                .iter()
                .zip(&live)
                .filter(|(_, live)| **live)
                .flat_map(|(node, _)| reads(node)),
        );
        let defaults: HashSet<&str> = uses::initializer_names(graph).collect();
        let mut missing: Vec<String> = read
            .iter()
            .filter(|name| {
                self.names.origin(name) == Some(Origin::Given)
                    && !given.contains(*name)
                    && !defaults.contains(*name)
            })
            .map(|name| (*name).to_string())
            .collect();
        if !missing.is_empty() {
            missing.sort_unstable();
            return Err(BuildError::NeedsInputs { names: missing });
        }

        // A node that makes an input beside something that is needed makes it under a name that nobody reads.
        let mut names = self.names.clone();
        for name in node.iter_mut().flat_map(|node| &mut node.output) {
            if given.contains(name.as_str()) {
                *name = names.fresh(name);
            }
        }
        let made: HashSet<String> = node.iter().flat_map(|node| node.output.clone()).collect();
        let here = |name: &str| read.contains(name) || made.contains(name) || given.contains(name);
        let persistent_bindings = self.bindings_within(&given, outputs)?;
        let annotations = graph.quantization_annotation.iter().filter(|annotation| {
            annotation.tensor_name().starts_with(PARAMETER_SETS) || here(annotation.tensor_name())
        });
        let quantization_annotation: Vec<_> = annotations.cloned().collect();
        let parameters: HashSet<String> = quantization_annotation
            .iter()
            .flat_map(|annotation| &annotation.quant_parameter_tensor_names)
            .map(|entry| entry.value().to_string())
            .collect();
        // An initializer of the name of an input is its default.
        let stored = |name: &str| {
            (read.contains(name) || given.contains(name) || parameters.contains(name))
                && !made.contains(name)
        };
        let interface: HashSet<&str> = inputs.iter().chain(outputs).copied().collect();
        let infos = graph
            .input
            .iter()
            .chain(&graph.output)
            .chain(&graph.value_info);
        let mut described = interface.clone();
        let value_info: Vec<ValueInfoProto> = infos
            .filter(|info| here(info.name()) && described.insert(info.name()))
            .cloned()
            .collect();
        let cut = GraphProto {
            name: graph.name.clone(),
            doc_string: graph.doc_string.clone(),
            initializer: kept(&graph.initializer, |tensor| stored(tensor.name())),
            sparse_initializer: kept(&graph.sparse_initializer, |sparse| {
                sparse
                    .values
                    .as_ref()
                    .is_some_and(|values| stored(values.name()))
            }),
            encoded_initializer: kept(&graph.encoded_initializer, |value| stored(value.name())),
            paged_cache_initializer: kept(&graph.paged_cache_initializer, |cache| {
                stored(cache.name())
            }),
            metadata_props: graph.metadata_props.clone(),
            persistent_bindings,
            quantization_annotation,
            value_info,
            input,
            output,
            node,
        };
        let whole = &self.model;
        let mut model = ModelProto {
            ir_version: whole.ir_version,
            opset_import: whole.opset_import.clone(),
            producer_name: whole.producer_name.clone(),
            producer_version: whole.producer_version.clone(),
            domain: whole.domain.clone(),
            model_version: whole.model_version,
            doc_string: whole.doc_string.clone(),
            metadata_props: whole.metadata_props.clone(),
            training_info: Vec::new(),
            functions: self.called(&cut.node),
            configuration: whole.configuration.clone(),
            struct_types: whole.struct_types.clone(),
            graph: Some(cut),
        };
        drop_policies(&mut model);
        Ok(GraphBuilder {
            names: Names::of(&model),
            model,
            external: Arc::clone(&self.external),
            from_nothing: self.from_nothing,
        })
    }

    /// Declarations of values that are to be an interface.
    fn interface(
        &self,
        role: &'static str,
        names: &[&str],
    ) -> Result<Vec<ValueInfoProto>, BuildError> {
        let what = if role == "input" {
            "graph input"
        } else {
            "graph output"
        };
        let mut seen = HashSet::new();
        for &name in names {
            if self.names.origin(name).is_none() {
                return Err(BuildError::Missing {
                    what: "value",
                    name: name.to_string(),
                });
            }
            if !seen.insert(name) {
                return Err(BuildError::Duplicate {
                    what,
                    name: name.to_string(),
                });
            }
        }
        let mut types = self.types_of(what, names)?;
        let graph = self.graph();
        let infos = graph
            .output
            .iter()
            .chain(&graph.input)
            .chain(&graph.value_info);
        let declared: HashMap<&str, &ValueInfoProto> = infos
            .filter(|info| info.r#type.is_some())
            .map(|info| (info.name(), info))
            .collect();
        let info = |&name: &&str| match declared.get(name) {
            Some(&info) => info.clone(),
            None => ValueInfoProto {
                name: Some(name.to_string()),
                r#type: types.remove(name),
                ..ValueInfoProto::default()
            },
        };
        Ok(names.iter().map(info).collect())
    }

    /// The bindings whose both ends are in a cut.
    fn bindings_within(
        &self,
        inputs: &HashSet<&str>,
        outputs: &[&str],
    ) -> Result<Vec<PersistentBindingProto>, BuildError> {
        let outputs: HashSet<&str> = outputs.iter().copied().collect();
        let mut within = Vec::new();
        for binding in &self.graph().persistent_bindings {
            let ends = (
                inputs.contains(binding.input_name()),
                outputs.contains(binding.output_name()),
            );
            let lost = match ends {
                (true, true) => {
                    within.push(binding.clone());
                    continue;
                }
                (false, false) => continue,
                (true, false) => "output",
                (false, true) => "input",
            };
            return Err(BuildError::BindingCut {
                input: binding.input_name().to_string(),
                output: binding.output_name().to_string(),
                lost,
                why: "it is outside of the cut; extract both ends, or remove the binding first",
            });
        }
        Ok(within)
    }

    /// The functions that nodes call, and those that these call, in the model's order.
    fn called(&self, nodes: &[NodeProto]) -> Vec<FunctionProto> {
        let functions = &self.model.functions;
        let table = FunctionTable::new(functions).unwrap_or_default();
        let mut wanted = vec![false; functions.len()];
        let mut open: Vec<&[NodeProto]> = vec![nodes];
        while let Some(nodes) = open.pop() {
            let nested = nested_in(nodes).into_iter().flat_map(|graph| &graph.node);
            for node in nodes.iter().chain(nested) {
                let (domain, name) = (place::domain(node.domain()), node.op_type());
                if let Some(index) = table.find(domain, name, node.overload())
                    && !std::mem::replace(&mut wanted[index], true)
                {
                    open.push(&functions[index].node);
                }
            }
        }
        let called = functions.iter().zip(wanted).filter(|(_, wanted)| *wanted);
        called.map(|(function, _)| function.clone()).collect()
    }
}

fn kept<T: Clone>(list: &[T], keep: impl Fn(&T) -> bool) -> Vec<T> {
    list.iter().filter(|item| keep(item)).cloned().collect()
}

/// Drops the policies of inputs that are bound no more.
fn drop_policies(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else {
        return;
    };
    let bound: HashSet<String> = graph
        .persistent_bindings
        .iter()
        .map(|binding| binding.input_name().to_string())
        .collect();
    for entries in [&mut graph.metadata_props, &mut model.metadata_props] {
        entries.retain_mut(|entry| {
            let mut keep = true;
            visit_policies(std::slice::from_mut(entry), &mut |_: Site, input| {
                keep = bound.contains(input.as_str());
            });
            keep
        });
    }
}
