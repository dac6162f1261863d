//! One graph behind another: the outputs of the first become inputs of the second.

use super::GraphBuilder;
use super::error::BuildError;
use super::files;
use super::names;
use super::rename::Renaming;
use super::walk::{each_graph, graphs_of_mut, nested_in, visit_names, visit_policies};
use crate::bindings::check_compatible;
use crate::error::ModelError;
use crate::struct_types::StructTypes;
use crate::{place, uses};
use refeed_proto::{
    FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, ValueInfoProto,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl GraphBuilder {
    /// Appends another model, some of whose inputs are fed by values of this one: `io_map` has pairs of a value of this
    /// graph and an input of the other. Every name of the other model, of values, nodes and functions, gets `prefix`
    /// first; `io_map` has the names without it.
    ///
    /// The inputs and outputs of the two add up, without those that `io_map` joins; an output that is bound stays an
    /// output. Initializers, types, functions, struct types, bindings and their policies add up too. Tensors that the
    /// other model keeps in files become payloads that share the mapped file.
    ///
    /// # Errors
    /// [`BuildError::Missing`] and [`BuildError::Duplicate`] for a bad `io_map`, [`BuildError::Connection`] when a value's
    /// type cannot be the input's, [`BuildError::BindingCut`] when a mapped input is bound, [`BuildError::NameClash`] for
    /// names that both models use, [`BuildError::Disagree`] for opsets, functions, struct types and metadata that differ,
    /// [`BuildError::CannotMerge`] for a model with training steps or with encoded values in files.
    pub fn merge(
        &mut self,
        mut other: GraphBuilder,
        io_map: &[(&str, &str)],
        prefix: &str,
    ) -> Result<(), BuildError> {
        if !other.model.training_info.is_empty() {
            let what = "training steps".to_string();
            return Err(BuildError::CannotMerge { what });
        }
        if !Arc::ptr_eq(&self.external, &other.external) {
            if let Some(name) = files::external_encoded(other.graph()) {
                let what = format!("encoded value `{name}` in another file");
                return Err(BuildError::CannotMerge { what });
            }
            files::take_in(&mut other.model, &other.external)?;
        }
        if !prefix.is_empty() {
            add_prefix(&mut other.model, prefix);
        }
        let joined: Vec<(&str, String)> = io_map
            .iter()
            .map(|&(output, input)| (output, format!("{prefix}{input}")))
            .collect();
        let agreed = Agreed::of(&self.model, &other.model)?;
        self.check_joined(&joined, &other, &agreed)?;
        self.check_clashes(&other, &joined)?;

        // Nothing is refused from here on.
        connect(other.graph_mut(), &joined);
        self.append(other, &joined, agreed);
        self.names.read(&self.model);
        Ok(())
    }

    /// Holds every pair to what is there: a value, an input that is neither bound nor mapped twice, types that fit.
    fn check_joined(
        &self,
        joined: &[(&str, String)],
        other: &GraphBuilder,
        agreed: &Agreed,
    ) -> Result<(), BuildError> {
        let types = ModelProto {
            struct_types: agreed.struct_types.clone(),
            ..ModelProto::default()
        };
        let catalogue = StructTypes::new(&types).map_err(ModelError::Field)?;
        let mut seen = HashSet::new();
        for (output, input) in joined {
            if self.names.origin(output).is_none() {
                return Err(BuildError::Missing {
                    what: "value",
                    name: (*output).to_string(),
                });
            }
            let mut inputs = other.graph().input.iter();
            let Some(declared) = inputs.find(|info| info.name() == input) else {
                return Err(BuildError::Missing {
                    what: "input",
                    name: input.clone(),
                });
            };
            if !seen.insert(input) {
                return Err(BuildError::Duplicate {
                    what: "mapped input",
                    name: input.clone(),
                });
            }
            let mut bindings = other.graph().persistent_bindings.iter();
            if let Some(binding) = bindings.find(|binding| binding.input_name() == input) {
                return Err(BuildError::BindingCut {
                    input: input.clone(),
                    output: binding.output_name().to_string(),
                    lost: "input",
                    why: "it is mapped to a value of the first model; map another input, or remove the binding first",
                });
            }
            if let (Some(ours), Some(theirs)) = (self.value_type(output), &declared.r#type) {
                check_compatible(theirs, &ours, &catalogue).map_err(|fault| {
                    BuildError::Connection {
                        output: (*output).to_string(),
                        input: input.clone(),
                        fault: fault.to_string(),
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Refuses names that both models define. Mapped inputs go away, so theirs are free unless they are needed elsewhere.
    fn check_clashes(
        &self,
        other: &GraphBuilder,
        joined: &[(&str, String)],
    ) -> Result<(), BuildError> {
        let ours = names::in_use(&self.model);
        let mut free: HashSet<&str> = joined.iter().map(|(_, input)| input.as_str()).collect();
        for (_, input) in needing_identity(other.graph(), joined) {
            free.remove(input.as_str());
        }
        let root = uses::definitions(other.graph()).filter(|name| !free.contains(name));
        let nested = nested_in(&other.graph().node);
        let nested = nested.into_iter().flat_map(uses::definitions);
        let clashes: HashSet<&str> = root
            .chain(nested)
            .filter(|name| ours.contains(name))
            .collect();
        let mut names: Vec<String> = clashes.into_iter().map(str::to_string).collect();
        names.sort_unstable();
        if names.is_empty() {
            return Ok(());
        }
        Err(BuildError::NameClash { names })
    }

    /// Puts the other model's parts behind ours.
    fn append(&mut self, other: GraphBuilder, joined: &[(&str, String)], agreed: Agreed) {
        let from_nothing = self.from_nothing && other.from_nothing;
        let theirs = other.model;
        let model = &mut self.model;
        model.ir_version = model.ir_version.max(theirs.ir_version);
        model.opset_import = agreed.opset_import;
        model.functions = agreed.functions;
        model.struct_types = agreed.struct_types;
        model.metadata_props = agreed.model_metadata;
        for configuration in theirs.configuration {
            if !model.configuration.contains(&configuration) {
                model.configuration.push(configuration);
            }
        }
        self.from_nothing = from_nothing;
        let ours = self.model.graph.get_or_insert_default();
        let Some(theirs) = theirs.graph else { return };
        ours.metadata_props = agreed.graph_metadata;
        let consumed: HashSet<&str> = joined.iter().map(|(output, _)| *output).collect();
        let bound: HashSet<String> = ours
            .persistent_bindings
            .iter()
            .map(|binding| binding.output_name().to_string())
            .collect();
        let outputs = std::mem::take(&mut ours.output);
        let (inner, outputs): (Vec<ValueInfoProto>, Vec<_>) = outputs
            .into_iter()
            .partition(|info| consumed.contains(info.name()) && !bound.contains(info.name()));
        let described: HashSet<String> = ours
            .value_info
            .iter()
            .chain(&ours.input)
            .map(|info| info.name().to_string())
            .collect();
        let inner = inner
            .into_iter()
            .filter(|info| !described.contains(info.name()));
        ours.value_info.extend(inner);
        ours.output = outputs;
        ours.node.extend(theirs.node);
        ours.input.extend(theirs.input);
        ours.output.extend(theirs.output);
        ours.initializer.extend(theirs.initializer);
        ours.sparse_initializer.extend(theirs.sparse_initializer);
        ours.encoded_initializer.extend(theirs.encoded_initializer);
        ours.paged_cache_initializer
            .extend(theirs.paged_cache_initializer);
        ours.value_info.extend(theirs.value_info);
        ours.quantization_annotation
            .extend(theirs.quantization_annotation);
        ours.persistent_bindings.extend(theirs.persistent_bindings);
    }
}

/// The pairs whose input has to stay a value of its own name: it is an output too, or annotated.
fn needing_identity<'j, 'o>(
    graph: &GraphProto,
    joined: &'j [(&'o str, String)],
) -> Vec<&'j (&'o str, String)> {
    let outputs = graph.output.iter().map(|output| output.name());
    let annotated = graph.quantization_annotation.iter();
    let annotated = annotated.map(|annotation| annotation.tensor_name());
    let named: HashSet<&str> = outputs.chain(annotated).collect();
    let stays =
        |(output, input): &&(&str, String)| output != input && named.contains(input.as_str());
    joined.iter().filter(stays).collect()
}

/// Takes the mapped inputs out of a graph, so that their readers read the values that they are mapped to.
fn connect(graph: &mut GraphProto, joined: &[(&str, String)]) {
    let inputs: HashSet<&str> = joined.iter().map(|(_, input)| input.as_str()).collect();
    let is_mapped = |name: &str| inputs.contains(name);
    graph.input.retain(|info| !is_mapped(info.name()));
    graph.initializer.retain(|tensor| !is_mapped(tensor.name()));
    graph.sparse_initializer.retain(|tensor| {
        let values = tensor.values.as_ref();
        !values.is_some_and(|values| is_mapped(values.name()))
    });
    graph
        .encoded_initializer
        .retain(|value| !is_mapped(value.name()));
    graph
        .paged_cache_initializer
        .retain(|cache| !is_mapped(cache.name()));
    let named: Vec<NodeProto> = needing_identity(graph, joined)
        .into_iter()
        .map(|(output, input)| NodeProto {
            op_type: Some("Identity".to_string()),
            input: vec![(*output).to_string()],
            output: vec![input.clone()],
            ..NodeProto::default()
        })
        .collect();
    let mut uses: HashMap<String, String> = joined
        .iter()
        .map(|(output, input)| (input.clone(), (*output).to_string()))
        .collect();
    for node in &named {
        uses.remove(&node.output[0]);
    }
    graph
        .value_info
        .retain(|info| !uses.contains_key(info.name()));
    Renaming {
        uses: &uses,
        definitions: &HashMap::new(),
        outputs: false,
    }
    .apply(graph);
    graph.node.splice(0..0, named);
}

/// Puts a prefix before every name of a model: values in all scopes, nodes, functions.
fn add_prefix(model: &mut ModelProto, prefix: &str) {
    let functions: HashSet<(String, String, String)> =
        model.functions.iter().map(operator_of).collect();
    let call = |node: &mut NodeProto| {
        let domain = place::domain(node.domain()).to_string();
        let (name, overload) = (node.op_type().to_string(), node.overload().to_string());
        if functions.contains(&(domain, name, overload)) {
            node.op_type = Some(format!("{prefix}{}", node.op_type()));
        }
    };
    let mut edit = |graph: &mut GraphProto| {
        visit_names(graph, &mut |_, name| name.insert_str(0, prefix));
        for node in &mut graph.node {
            call(node);
            if let Some(name) = node.name.as_mut().filter(|name| !name.is_empty()) {
                name.insert_str(0, prefix);
            }
        }
    };
    visit_policies(&mut model.metadata_props, &mut |_, name| {
        name.insert_str(0, prefix)
    });
    if let Some(graph) = &mut model.graph {
        each_graph(graph, &mut edit);
    }
    for function in &mut model.functions {
        function.name = Some(format!("{prefix}{}", function.name()));
        // Bodies are scopes of their own; only what they call has a new name.
        for node in &mut function.node {
            call(node);
            for graph in graphs_of_mut(node) {
                each_graph(graph, &mut |graph| graph.node.iter_mut().for_each(call));
            }
        }
    }
}

fn operator_of(function: &FunctionProto) -> (String, String, String) {
    let domain = place::domain(function.domain()).to_string();
    (
        domain,
        function.name().to_string(),
        function.overload().to_string(),
    )
}

/// What belongs to a model as a whole, of two models that must not contradict each other.
struct Agreed {
    opset_import: Vec<refeed_proto::OperatorSetIdProto>,
    functions: Vec<FunctionProto>,
    struct_types: Vec<refeed_proto::StructTypeProto>,
    model_metadata: Vec<StringStringEntryProto>,
    graph_metadata: Vec<StringStringEntryProto>,
}

impl Agreed {
    fn of(ours: &ModelProto, theirs: &ModelProto) -> Result<Agreed, BuildError> {
        let opset_import = union(
            &ours.opset_import,
            &theirs.opset_import,
            |import| place::domain(import.domain()).to_string(),
            |ours, theirs| ours.version() == theirs.version(),
            |domain| format!("the version of domain `{}`", place::shown_domain(domain)),
            |import| format!("{}", import.version()),
        )?;
        let functions = union(
            &ours.functions,
            &theirs.functions,
            operator_of,
            PartialEq::eq,
            |(domain, name, _)| format!("function `{}::{name}`", place::shown_domain(domain)),
            |function| format!("a body of {} nodes", function.node.len()),
        )?;
        let struct_types = union(
            &ours.struct_types,
            &theirs.struct_types,
            refeed_proto::StructTypeProto::type_id,
            PartialEq::eq,
            |id| format!("struct type {id}"),
            |declared| format!("`{}`", declared.name()),
        )?;
        let no_graph = Vec::new();
        let of_graph = |model: &'_ ModelProto| -> Vec<StringStringEntryProto> {
            let graph = model.graph.as_ref();
            graph.map_or(no_graph.clone(), |graph| graph.metadata_props.clone())
        };
        Ok(Agreed {
            opset_import,
            functions,
            struct_types,
            model_metadata: metadata(&ours.metadata_props, &theirs.metadata_props)?,
            graph_metadata: metadata(&of_graph(ours), &of_graph(theirs))?,
        })
    }
}

fn metadata(
    ours: &[StringStringEntryProto],
    theirs: &[StringStringEntryProto],
) -> Result<Vec<StringStringEntryProto>, BuildError> {
    union(
        ours,
        theirs,
        |entry| entry.key().to_string(),
        |ours, theirs| ours.value() == theirs.value(),
        |key| format!("metadata `{key}`"),
        |entry| format!("`{}`", entry.value()),
    )
}

/// The items of both lists, those of one key once.
fn union<T: Clone, K: std::hash::Hash + Eq>(
    ours: &[T],
    theirs: &[T],
    key: impl Fn(&T) -> K,
    same: impl Fn(&T, &T) -> bool,
    what: impl Fn(&K) -> String,
    said: impl Fn(&T) -> String,
) -> Result<Vec<T>, BuildError> {
    let held: HashMap<K, &T> = ours.iter().map(|item| (key(item), item)).collect();
    let mut all = ours.to_vec();
    for item in theirs {
        let key = key(item);
        match held.get(&key) {
            None => all.push(item.clone()),
            Some(held) if same(held, item) => {}
            Some(held) => {
                return Err(BuildError::Disagree {
                    what: what(&key),
                    ours: said(held),
                    theirs: said(item),
                });
            }
        }
    }
    Ok(all)
}
