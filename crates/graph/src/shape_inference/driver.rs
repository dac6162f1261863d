//! The walk over graphs: asks each node's rule, merges with what is declared, keeps what was found.

use super::error::{Fault, Problem, ShapeInferenceError};
use super::merge::merge;
use super::scope::{Known, Scope, declared_type};
use super::symbols::{Symbols, forget, forget_value};
use super::{InferenceOptions, constant};
use crate::attributes::Attributes;
use crate::error::ModelError;
use crate::functions::FunctionTable;
use crate::schema::{EnterGraph, InferError, Inference, OpSchema};
use crate::struct_types::StructTypes;
use crate::types::{TensorType, ValueType};
use crate::validate::{self, Opsets, Rules};
use crate::{ops, place, uses};
use refeed_proto::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use refeed_values::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// Nested graphs and calls that lie deeper inside one another are refused.
pub const DEPTH_LIMIT: u64 = 100;
/// Problems that are kept; more of them say nothing new.
const PROBLEM_LIMIT: usize = 100;
/// Dimensions of all values together that are kept: a model of a million nodes has fewer.
const DIMENSION_LIMIT: u64 = 1 << 23;
/// Bodies of loops may be walked again, on average so often for each node of the model. Beyond that nothing is entered,
/// and what the body gives is unknown: loops in loops in loops cannot take forever.
const REPEATS: u64 = 16;
/// Walks that are allowed to the smallest model.
const LEAST_WORK: u64 = 10_000;

/// What was found of one graph.
#[derive(Debug, Default)]
pub(super) struct GraphTypes {
    /// Inputs, in the graph's order; empty for the root graph, whose inputs are declared.
    pub(super) inputs: Vec<ValueType>,
    /// Outputs, in the graph's order.
    pub(super) outputs: Vec<ValueType>,
    /// Node outputs, node by node, those without a name left out.
    pub(super) values: Vec<ValueType>,
}

/// What was found of all graphs, by the address of the message.
pub(super) type Types = HashMap<usize, GraphTypes>;

pub(super) fn address(graph: &GraphProto) -> usize {
    std::ptr::from_ref(graph).addr()
}

/// Where a list of nodes stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) opsets: &'p Opsets,
    /// Text before the node in messages.
    pub(super) prefix: &'p str,
}

impl Place<'_> {
    fn at(&self, index: usize, node: &NodeProto) -> String {
        format!("{}{}", self.prefix, place::node(index, node))
    }
}

pub(super) struct Driver<'m> {
    pub(super) functions: FunctionTable<'m>,
    catalogue: Arc<StructTypes>,
    /// Results of calls by function, argument types and attributes.
    pub(super) calls: HashMap<Vec<u8>, Vec<Known>>,
    /// Depth of function calls: what is found in a body belongs to a copy of it.
    pub(super) in_call: usize,
    data_prop: bool,
    symbols: Symbols,
    types: Types,
    problems: Vec<Problem>,
    depth: u64,
    /// Nodes that may still be walked before nothing is entered any more.
    work: u64,
    dimensions: u64,
    /// What ends the walk; reported once it has unwound.
    fatal: Option<ShapeInferenceError>,
}

impl<'m> Driver<'m> {
    /// Walks a model.
    pub(super) fn run(
        model: &'m ModelProto,
        options: &InferenceOptions,
    ) -> Result<(Types, Vec<Problem>), ShapeInferenceError> {
        let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
        let opsets = Opsets::of_model(model, Rules::Session)?;
        let mut driver = Driver::new(model, options)?;
        let place = Place {
            opsets: &opsets,
            prefix: "",
        };
        let mut scope = Scope::of_graph(graph, None);
        for input in &graph.input {
            let mut ty = declared_type(input);
            driver.symbols.name_unknown(&mut ty);
            scope.define(input.name(), Some(ty.into()));
        }
        driver.check_defaults(graph)?;
        driver.graph(graph, scope, Vec::new(), &place);
        driver.finish(options)
    }

    /// Prepares a walk over a model's nodes.
    pub(super) fn new(
        model: &'m ModelProto,
        options: &InferenceOptions,
    ) -> Result<Driver<'m>, ShapeInferenceError> {
        let functions = FunctionTable::new(&model.functions)?;
        let catalogue = StructTypes::new(model).map_err(ModelError::Field)?;
        let nodes = validate::check_calls(model, &functions)?;
        Ok(Driver {
            functions,
            catalogue: Arc::new(catalogue),
            calls: HashMap::new(),
            in_call: 0,
            data_prop: options.data_prop,
            symbols: Symbols::new(model),
            types: Types::new(),
            problems: Vec::new(),
            depth: 0,
            work: nodes.saturating_mul(REPEATS).saturating_add(LEAST_WORK),
            dimensions: 0,
            fatal: None,
        })
    }

    /// What was found, or the errors that the options make of it.
    pub(super) fn finish(
        self,
        options: &InferenceOptions,
    ) -> Result<(Types, Vec<Problem>), ShapeInferenceError> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        let refused = |problem: &Problem| {
            options.strict_mode || (options.check_type && problem.fault.is_type())
        };
        if self.problems.iter().any(refused) {
            let problems = self.problems.into_iter().filter(refused).collect();
            return Err(ShapeInferenceError::Problems(problems));
        }
        Ok((self.types, self.problems))
    }

    /// A graph input that has an initializer must be able to have its type.
    fn check_defaults(&self, graph: &GraphProto) -> Result<(), ShapeInferenceError> {
        let declared: HashMap<&str, &ValueInfoProto> = graph
            .input
            .iter()
            .map(|input| (input.name(), input))
            .collect();
        for tensor in &graph.initializer {
            let Some(input) = declared.get(tensor.name()) else {
                continue;
            };
            let (declared, own) = (declared_type(input), constant::initializer_type(tensor));
            if let Err(detail) = merge(&declared, &own) {
                return Err(ShapeInferenceError::Problems(vec![Problem {
                    at: "initializer".to_string(),
                    fault: Fault::Contradiction {
                        value: tensor.name().to_string(),
                        source_of_declaration: "graph input",
                        declared: declared.to_string(),
                        inferred: own.to_string(),
                        detail,
                    },
                }]));
            }
        }
        Ok(())
    }

    pub(super) fn problem(&mut self, at: String, fault: Fault) {
        if self.problems.len() < PROBLEM_LIMIT {
            self.problems.push(Problem { at, fault });
        }
    }

    /// Steps into a nested graph or a call; `false` when that is one too many.
    pub(super) fn descend(&mut self, at: &dyn Fn() -> String) -> bool {
        if self.fatal.is_some() || self.work == 0 {
            return false;
        }
        if self.depth == DEPTH_LIMIT {
            let limit = ModelError::Limit {
                at: at(),
                what: "nested graphs and calls",
                limit: DEPTH_LIMIT,
                got: DEPTH_LIMIT + 1,
            };
            self.fatal = Some(limit.into());
            return false;
        }
        self.depth += 1;
        true
    }

    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }

    /// A mark before a body that may run more than once.
    pub(super) fn mark(&self) -> u64 {
        self.symbols.mark()
    }

    /// What of a value means something outside of the body that was marked.
    pub(super) fn outside(mut known: Known, mark: u64) -> Known {
        forget(&mut known.ty, mark);
        known.value = known.value.map(|value| forget_value(&value, mark));
        known
    }

    /// Walks a graph whose inputs are defined, and gives what is known of its outputs. `inputs` are types that the
    /// declarations of the inputs may not say.
    fn graph<'s>(
        &mut self,
        graph: &'s GraphProto,
        mut scope: Scope<'s>,
        inputs: Vec<ValueType>,
        place: &Place<'_>,
    ) -> Vec<Known> {
        for tensor in &graph.initializer {
            if !scope.defines(tensor.name()) {
                let known = Known {
                    ty: constant::initializer_type(tensor),
                    constant: constant::small(tensor),
                    value: None,
                };
                scope.define(tensor.name(), Some(known));
            }
        }
        for sparse in &graph.sparse_initializer {
            let Some(values) = &sparse.values else {
                continue;
            };
            if !scope.defines(values.name()) {
                let dims = TensorType {
                    dtype: values.data_type.and_then(DType::from_onnx),
                    shape: constant::dims(&sparse.dims),
                };
                scope.define(values.name(), Some(ValueType::SparseTensor(dims).into()));
            }
        }
        for cache in &graph.paged_cache_initializer {
            if !scope.defines(cache.name()) {
                // A cache is a structure; which one, only the input that takes it declares.
                scope.define(cache.name(), Some(ValueType::Struct(Arc::default()).into()));
            }
        }
        for encoded in &graph.encoded_initializer {
            if !scope.defines(encoded.name()) {
                let ty = ValueType::from_proto(encoded.logical_type.as_ref());
                scope.define(encoded.name(), Some(ty.into()));
            }
        }
        self.nodes(&mut scope, &graph.node, place);
        let outputs: Vec<Known> = graph
            .output
            .iter()
            .map(|output| {
                let mut known = scope.lookup(output.name()).unwrap_or_default();
                // Of a value that no node of this graph computes, the declaration is not merged yet.
                if !scope.computes(output.name()) {
                    let at = || format!("{}graph output", place.prefix);
                    known = self.agree(&scope, output.name(), known, &at);
                }
                known
            })
            .collect();
        if self.in_call == 0 {
            let mut found = GraphTypes {
                inputs,
                outputs: outputs.iter().map(|known| known.ty.clone()).collect(),
                values: Vec::new(),
            };
            let names = graph.node.iter().flat_map(|node| &node.output);
            for name in names.filter(|name| !name.is_empty()) {
                found.values.push(scope.take_type(name).unwrap_or_default());
            }
            self.types.insert(address(graph), found);
        }
        outputs
    }

    /// Walks nodes in their order.
    pub(super) fn nodes<'s>(
        &mut self,
        scope: &mut Scope<'s>,
        nodes: &'s [NodeProto],
        place: &Place<'_>,
    ) {
        for (index, node) in nodes.iter().enumerate() {
            if self.fatal.is_some() {
                return;
            }
            self.work = self.work.saturating_sub(1);
            let outputs = self.node(scope, node, index, place);
            for (name, known) in node.output.iter().zip(outputs) {
                if !name.is_empty() {
                    let known = self.agree(scope, name, known, &|| place.at(index, node));
                    scope.define_computed(name, known);
                }
            }
        }
    }

    /// Merges what a node gives with what is declared of it, and names what stays unknown.
    fn agree(
        &mut self,
        scope: &Scope<'_>,
        name: &str,
        mut known: Known,
        at: &dyn Fn() -> String,
    ) -> Known {
        if let Some((source, declared)) = scope.declared(name) {
            match merge(declared, &known.ty) {
                Ok(merged) => known.ty = merged,
                Err(detail) => {
                    let fault = Fault::Contradiction {
                        value: name.to_string(),
                        source_of_declaration: source,
                        declared: declared.to_string(),
                        inferred: known.ty.to_string(),
                        detail,
                    };
                    self.problem(at(), fault);
                    known = declared.clone().into();
                }
            }
        }
        self.symbols.name_unknown(&mut known.ty);
        let rank = known.ty.tensor().and_then(TensorType::rank).unwrap_or(0);
        self.dimensions = self.dimensions.saturating_add(rank as u64);
        if self.dimensions > DIMENSION_LIMIT && self.fatal.is_none() {
            let limit = ModelError::Limit {
                at: at(),
                what: "dimensions of all values",
                limit: DIMENSION_LIMIT,
                got: self.dimensions,
            };
            self.fatal = Some(limit.into());
        }
        known
    }

    /// What a node gives, output by output.
    fn node(
        &mut self,
        scope: &Scope<'_>,
        node: &NodeProto,
        index: usize,
        place: &Place<'_>,
    ) -> Vec<Known> {
        let unknown = || vec![Known::default(); node.output.len()];
        let inputs: Vec<Option<Known>> = node
            .input
            .iter()
            .map(|name| match name.as_str() {
                "" => None,
                name => scope.lookup(name),
            })
            .collect();
        let function = self
            .functions
            .get(node.domain(), node.op_type(), node.overload());
        if let Some(function) = function {
            return self
                .call(function, node, inputs, &|| place.at(index, node), place)
                .unwrap_or_else(unknown);
        }
        let Some(opset) = place.opsets.get(node.domain()) else {
            let missing = ModelError::DomainNotImported {
                at: place.at(index, node),
                domain: place::shown_domain(node.domain()),
                imported: place.opsets.shown(),
            };
            self.fatal.get_or_insert(missing.into());
            return unknown();
        };
        let schema = ops::schema(node.domain(), node.op_type());
        // An operator that is older than what its schema covers is as good as unknown.
        let Some(schema) =
            schema.filter(|schema| schema.since.first().is_none_or(|&oldest| opset >= oldest))
        else {
            return unknown();
        };
        if let Some(fault) = schema.arity_fault(node) {
            let fault = Fault::Arity {
                what: fault.what,
                expected: fault.expected.to_string(),
                got: fault.got,
            };
            self.problem(place.at(index, node), fault);
            return unknown();
        }
        match self.ask(schema, scope, node, index, opset, inputs, place) {
            Ok(outputs) => outputs,
            Err(error) => {
                self.problem(place.at(index, node), error.into());
                unknown()
            }
        }
    }

    /// Asks the rule of a node's operator.
    #[allow(clippy::too_many_arguments)] // the parts of one question
    fn ask(
        &mut self,
        schema: &OpSchema,
        scope: &Scope<'_>,
        node: &NodeProto,
        index: usize,
        opset: i64,
        inputs: Vec<Option<Known>>,
        place: &Place<'_>,
    ) -> Result<Vec<Known>, InferError> {
        let attributes = Attributes::new(node);
        let (mut types, mut constants, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for input in inputs {
            let given = input.is_some();
            let known = input.unwrap_or_default();
            types.push(given.then_some(known.ty));
            constants.push(known.constant);
            values.push(known.value);
        }
        let data_prop = self.data_prop;
        let catalogue = Arc::clone(&self.catalogue);
        let mut nested = Nested {
            driver: self,
            scope,
            node,
            index,
            place,
        };
        let count = node.output.len();
        let mut inference = Inference::new(&attributes, opset, &types, &constants, count)
            .with_values(&values)
            .with_catalogue(&catalogue)
            .with_graphs(&mut nested);
        (schema.infer)(&mut inference)?;
        let outputs = inference.into_types().into_iter();
        let mut outputs: Vec<Known> = outputs
            .map(|(ty, value)| Known {
                ty,
                constant: None,
                value: value.filter(|_| data_prop),
            })
            .collect();
        // What hands a constant on makes a constant.
        if schema.domain.is_empty()
            && let Some(first) = outputs.first_mut()
        {
            first.constant = match schema.op_type {
                "Constant" => constant::of_node(&attributes)?,
                "Identity" => constants.into_iter().next().flatten(),
                _ => None,
            };
        }
        Ok(outputs)
    }
}

/// Enters the nested graphs of one node.
struct Nested<'d, 'm, 's> {
    driver: &'d mut Driver<'m>,
    scope: &'d Scope<'s>,
    node: &'d NodeProto,
    index: usize,
    place: &'d Place<'d>,
}

impl EnterGraph for Nested<'_, '_, '_> {
    fn enter(
        &mut self,
        graph: &GraphProto,
        inputs: &[ValueType],
    ) -> Result<Option<Vec<ValueType>>, InferError> {
        let attribute =
            self.node.attribute.iter().find(|attribute| {
                uses::nested(attribute).any(|nested| std::ptr::eq(nested, graph))
            });
        let branch = attribute.map(|attribute| place::branch(self.index, self.node, attribute));
        let prefix = format!("{}{}", self.place.prefix, branch.unwrap_or_default());
        let driver = &mut *self.driver;
        if !driver.descend(&|| prefix.clone()) {
            return Ok(None);
        }
        // What an earlier walk found wrong with other types of the inputs does not count.
        driver
            .problems
            .retain(|problem| !problem.at.starts_with(&prefix));
        let mark = driver.mark();
        let mut scope = Scope::of_graph(graph, Some(self.scope));
        let mut given = inputs.iter();
        let mut types = Vec::with_capacity(graph.input.len());
        for input in &graph.input {
            let default = graph
                .initializer
                .iter()
                .any(|held| held.name() == input.name());
            let declared = declared_type(input);
            let own = match given.next().filter(|_| !default) {
                Some(own) => own.clone(),
                None => ValueType::Unset,
            };
            let mut ty = merge(&declared, &own).unwrap_or_else(|detail| {
                let fault = Fault::Contradiction {
                    value: input.name().to_string(),
                    source_of_declaration: "graph input",
                    declared: declared.to_string(),
                    inferred: own.to_string(),
                    detail,
                };
                driver.problem(prefix.trim_end_matches(" / ").to_string(), fault);
                declared.clone()
            });
            types.push(ty.clone());
            driver.symbols.name_unknown(&mut ty);
            scope.define(input.name(), Some(ty.into()));
        }
        let place = Place {
            opsets: self.place.opsets,
            prefix: &prefix,
        };
        let outputs = driver.graph(graph, scope, types, &place);
        driver.ascend();
        let outputs = outputs
            .into_iter()
            .map(|known| Driver::outside(known, mark).ty);
        Ok(Some(outputs.collect()))
    }
}
