//! From a model to a plan: names become slots, functions are inlined, kernels are built, constants are folded.

use super::control::holds_graphs;
use super::walk::{LEAST_WORK, REPEATS};
use crate::error::{NodePath, NodeProblem, SessionError};
use crate::events::NodeLabel;
use crate::kernel::{Build, Kernel, Kinds, OpError, Slot};
use crate::options::{AppendReuse, RuntimeSessionOptions};
use crate::plan::appends::{BoundOutputs, BranchAppends};
use crate::plan::checks::{check_schema, check_types, refuse_other_kinds};
use crate::plan::custom::{Declared, knows};
use crate::plan::fold::Folding;
use crate::plan::form::Form;
use crate::plan::recognize::recognize;
use crate::plan::scope::{Known, Operands, Outer, Scope};
use crate::plan::weights::{may_be_weights, pack};
use crate::plan::{Plan, Step};
use crate::recognition::AttentionForm;
use crate::registry::Kernels;
use refeed_graph::Model;
use refeed_graph::attributes::Attributes;
use refeed_graph::functions::FunctionTable;
use refeed_graph::schema::Inference;
use refeed_graph::types::{TensorType, ValueType};
use refeed_kernels::Compute;
use refeed_proto::{GraphProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use refeed_values::RuntimeValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Operators that only rearrange their input: what they make of a cache is still the cache.
const REARRANGES: &[&str] = &[
    "Transpose",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Expand",
    "Slice",
    "Split",
    "Concat",
    "Gather",
    "Identity",
    "Cast",
    "Tile",
    "Pad",
];

/// The newest version of ai.onnx that the operator schemas were written from.
const NEWEST_OPSET: i64 = 28;

/// Compiles a model's graph.
///
/// # Errors
/// When a node cannot be computed, or the graph is not well formed.
pub(crate) fn compile(
    model: &Model,
    compute: Compute<'static>,
    kernels: &Kernels,
    options: &RuntimeSessionOptions,
) -> Result<Plan, SessionError> {
    let mut builder = Builder::new(model, compute, kernels);
    builder.recognizes = options.recognize_attention;
    builder.appends_in_branches = options.append_reuse == AppendReuse::Always;
    let mut plan = builder.root()?;
    plan.missing = std::mem::take(&mut builder.missing);
    plan.attention = std::mem::take(&mut builder.attention);
    if builder.problems.is_empty() {
        Ok(plan)
    } else {
        Err(SessionError::Unsupported(builder.problems))
    }
}

/// A compiled branch: its plan, the outer and inner slot of each captured value, and what is known of its outputs.
pub(super) type Compiled = (Plan, Vec<(Slot, Slot)>, Vec<Known>);

/// Opset versions by domain, as one model or function imports them.
#[derive(Clone, Default)]
pub(super) struct Opsets(HashMap<String, i64>);

impl Opsets {
    pub(super) fn new(imports: &[OperatorSetIdProto]) -> Opsets {
        let pairs = imports
            .iter()
            .map(|import| (plain_domain(import.domain()), import.version()));
        Opsets(
            pairs
                .map(|(domain, version)| (domain.to_string(), version))
                .collect(),
        )
    }

    pub(super) fn version(&self, domain: &str) -> i64 {
        self.0.get(domain).copied().unwrap_or(1)
    }
}

/// Nodes of the graph and of all functions.
fn written_nodes(model: &Model) -> usize {
    let functions = model.proto().functions.iter();
    let nodes = functions.map(|function| function.node.len());
    nodes.fold(model.graph().node.len(), usize::saturating_add)
}

fn plain_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Where the nodes being compiled stand.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) opsets: Arc<Opsets>,
    pub(super) within: Option<(usize, Arc<str>)>,
    /// Index of the function call around the nodes, which is what their labels say.
    pub(super) call: Option<usize>,
    pub(super) depth: usize,
    /// The types that the graph around the nodes declares.
    pub(super) declared: Declared,
    /// What of the graph around the nodes becomes the next value of a binding, as far as nodes in it may append.
    pub(super) bound: BoundOutputs,
}

impl Place {
    /// Version of a domain that the nodes import.
    pub(super) fn version(&self, domain: &str) -> i64 {
        self.opsets.version(domain)
    }
}

pub(super) struct Builder<'m> {
    pub(super) model: &'m Model,
    functions: FunctionTable<'m>,
    folding: Folding,
    pub(super) problems: Vec<(NodePath, NodeProblem)>,
    /// The caller's kernels.
    pub(super) kernels: &'m Kernels,
    /// Nodes of the caller's domains that have no kernel.
    pub(super) missing: Vec<NodePath>,
    /// Outputs of the root graph's own nodes whose kernels are the caller's: those may ask for rows.
    pub(super) may_append: HashSet<Slot>,
    /// Whether nodes of a branch may append in place.
    pub(super) appends_in_branches: bool,
    /// What nodes of branches do with the values of bindings.
    pub(super) branches: BranchAppends,
    /// Whether attention in single nodes goes to the attention kernel.
    pub(super) recognizes: bool,
    /// Such attention, recognised or not.
    pub(super) attention: Vec<AttentionForm>,
    pub(super) counts: BTreeMap<(String, String), usize>,
    texts: HashMap<String, Arc<str>>,
    /// Nodes of loop bodies that may still be compiled to find out types.
    pub(super) work: usize,
    /// How many bodies around the nodes being compiled are walked.
    pub(super) walks: usize,
}

impl<'m> Builder<'m> {
    pub(super) fn new(
        model: &'m Model,
        compute: Compute<'static>,
        kernels: &'m Kernels,
    ) -> Builder<'m> {
        Builder {
            model,
            functions: model.functions(),
            folding: Folding::new(compute),
            problems: Vec::new(),
            kernels,
            missing: Vec::new(),
            may_append: HashSet::new(),
            appends_in_branches: true,
            branches: BranchAppends::default(),
            recognizes: true,
            attention: Vec::new(),
            counts: BTreeMap::new(),
            texts: HashMap::new(),
            walks: 0,
            work: written_nodes(model)
                .saturating_mul(REPEATS)
                .saturating_add(LEAST_WORK),
        }
    }

    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(held) = self.texts.get(text) {
            return held.clone();
        }
        let held: Arc<str> = Arc::from(text);
        self.texts.insert(text.to_string(), held.clone());
        held
    }

    fn label(&mut self, node: &NodeProto, index: usize, place: &Place) -> NodeLabel {
        NodeLabel {
            name: self.text(node.name()),
            domain: self.text(plain_domain(node.domain())),
            op_type: self.text(node.op_type()),
            index: place.call.unwrap_or(index),
            within: place.within.clone(),
        }
    }

    pub(super) fn root(&mut self) -> Result<Plan, SessionError> {
        let model = self.model;
        let graph = model.graph();
        let mut scope = Scope::default();
        let mut plan = Plan::default();
        for (position, info) in model.inputs().iter().enumerate() {
            let mut bindings = model.bindings().iter();
            let bound = bindings.position(|binding| binding.input_index == position);
            plan.inputs.push(scope.define(
                &info.name,
                Known {
                    ty: info.ty.clone(),
                    constant: None,
                    cache: bound.is_some(),
                    bound,
                },
            ));
        }
        for initializer in &graph.initializer {
            let name = initializer.name();
            let value = model.constant(initializer)?;
            match model.inputs().iter().position(|info| &*info.name == name) {
                Some(position) => plan.defaults.push((position, value)),
                None => {
                    scope.define(name, Known::constant(value));
                }
            }
        }
        let others = [
            model.encoded_initializers()?,
            model.paged_cache_initializers()?,
        ];
        for (name, value) in others.into_iter().flatten() {
            match model.inputs().iter().position(|info| info.name == *name) {
                Some(position) => plan.defaults.push((position, value.clone())),
                None => {
                    scope.define(name, Known::constant(value.clone()));
                }
            }
        }
        let opsets = Arc::new(Opsets::new(&model.proto().opset_import));
        let got = opsets.version("");
        if got > NEWEST_OPSET {
            let newest = NEWEST_OPSET;
            return Err(SessionError::Opset { got, newest });
        }
        let place = Place {
            opsets,
            within: None,
            call: None,
            depth: 0,
            declared: Declared::of(graph, self.kernels),
            bound: self.bound_outputs(graph),
        };
        self.nodes(&mut scope, &graph.node, &place)?;
        plan.outputs = self.outputs(&mut scope, graph)?;
        let types = plan
            .outputs
            .iter()
            .map(|&slot| scope.known(slot).ty.clone());
        plan.output_types = types.collect();
        pack(&mut scope, &plan.outputs, &self.folding);
        self.recognize(&mut scope, &plan.outputs);
        self.place_appends(&mut scope, &mut plan);
        finish(scope, &mut plan);
        Ok(plan)
    }

    /// Gives the attention that a graph writes out to the attention kernel.
    fn recognize(&mut self, scope: &mut Scope<'_>, outputs: &[Slot]) {
        if self.recognizes {
            let found = recognize(scope, outputs);
            self.attention.extend(found);
        }
    }

    fn outputs(
        &mut self,
        scope: &mut Scope<'_>,
        graph: &GraphProto,
    ) -> Result<Vec<Slot>, SessionError> {
        let slots = graph.output.iter().map(|output| {
            let name = output.name();
            scope
                .lookup(name)
                .ok_or_else(|| SessionError::NoProducer(name.to_string()))
        });
        slots.collect()
    }

    /// Compiles a nested graph. `inputs` are what is known of its inputs, those left out that have an initializer: such
    /// inputs are defaults of old models.
    pub(super) fn nested(
        &mut self,
        graph: &GraphProto,
        inputs: &[Known],
        outer: &mut dyn Outer,
        place: &Place,
    ) -> Result<Compiled, SessionError> {
        let mut scope = Scope {
            outer: Some(outer),
            ..Scope::default()
        };
        for initializer in &graph.initializer {
            let value = self.model.constant(initializer)?;
            scope.define(initializer.name(), Known::constant(value));
        }
        for initializer in &graph.encoded_initializer {
            let value = self.model.encoded_initializer(initializer)?;
            scope.define(initializer.name(), Known::constant(value));
        }
        for initializer in &graph.paged_cache_initializer {
            let value = self.model.paged_cache_initializer(initializer)?;
            scope.define(initializer.name(), Known::constant(value));
        }
        let fed = graph
            .input
            .iter()
            .filter(|input| !scope.names.contains_key(input.name()));
        let fed: Vec<&str> = fed.map(ValueInfoProto::name).collect();
        let slots = fed.iter().zip(inputs);
        let slots = slots.map(|(name, known)| scope.define(name, known.clone()));
        let slots = slots.collect();
        let place = &Place {
            declared: Declared::of(graph, self.kernels),
            ..place.clone()
        };
        self.nodes(&mut scope, &graph.node, place)?;
        let mut plan = Plan {
            inputs: slots,
            outputs: self.outputs(&mut scope, graph)?,
            ..Plan::default()
        };
        let known = plan
            .outputs
            .iter()
            .map(|&slot| scope.known(slot).clone())
            .collect();
        pack(&mut scope, &plan.outputs, &self.folding);
        self.recognize(&mut scope, &plan.outputs);
        self.place_branch_appends(&mut scope, place);
        let captures = std::mem::take(&mut scope.captures);
        finish(scope, &mut plan);
        Ok((plan, captures, known))
    }

    pub(super) fn nodes(
        &mut self,
        scope: &mut Scope<'_>,
        nodes: &[NodeProto],
        place: &Place,
    ) -> Result<(), SessionError> {
        for (index, node) in nodes.iter().enumerate() {
            self.node(scope, node, index, place)?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        index: usize,
        place: &Place,
    ) -> Result<(), SessionError> {
        if self.walks > 0 {
            self.work = self.work.saturating_sub(1);
        }
        let label = self.label(node, index, place);
        if let Some(function) = self
            .functions
            .get(node.domain(), node.op_type(), node.overload())
        {
            return self.inline(scope, node, function, label.index, place);
        }
        let key = (label.domain.to_string(), label.op_type.to_string());
        *self.counts.entry(key).or_default() += 1;
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => Some(scope.lookup(name).ok_or_else(|| SessionError::Undefined {
                    node: (&label).into(),
                    name: name.to_string(),
                })?),
            });
        }
        if holds_graphs(&label) {
            return self.control(scope, node, inputs, label, place);
        }
        if let Some(factory) = self.kernels.find(&label.domain, &label.op_type) {
            match self.custom(scope, node, &inputs, &label, place, factory) {
                Ok(step) => self.custom_step(scope, node, step, inputs, label, place),
                Err(problem) => self.refuse(scope, node, &label, problem, place),
            }
            return Ok(());
        }
        match self.kernel(scope, node, &inputs, &label, place) {
            Ok((kernel, types)) => {
                let form = Form::of(node, place.opsets.version(""), self.model);
                self.step(scope, node, (kernel, form), inputs, types, label);
            }
            Err(problem) => self.refuse(scope, node, &label, problem, place),
        }
        Ok(())
    }

    /// Notes a node that has no kernel, or none for these types; what follows is compiled with what is declared.
    fn refuse(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        label: &NodeLabel,
        problem: NodeProblem,
        place: &Place,
    ) {
        match problem {
            // A kernel of the caller's own may still come, with the context of a call.
            NodeProblem::NoKernel if !knows(&label.domain) => self.missing.push(label.into()),
            problem => self.problems.push((label.into(), problem)),
        }
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            let ty = place.declared.ty(name);
            scope.define(
                name,
                Known {
                    ty,
                    ..Known::default()
                },
            );
        }
    }

    /// Checks a node against its schema, infers its output types, and builds its kernel.
    fn kernel(
        &self,
        scope: &Scope<'_>,
        node: &NodeProto,
        inputs: &[Option<Slot>],
        label: &NodeLabel,
        place: &Place,
    ) -> Result<(Box<dyn Kernel>, Vec<ValueType>), NodeProblem> {
        let schema = refeed_graph::ops::schema(&label.domain, &label.op_type)
            .ok_or(NodeProblem::NoKernel)?;
        let opset = place.opsets.version(&label.domain);
        check_schema(schema, node, opset)?;
        let Operands { types, constants } = scope.operands(inputs);
        let attributes = Attributes::new(node);
        let mut inference =
            Inference::new(&attributes, opset, &types, &constants, node.output.len());
        (schema.infer)(&mut inference)?;
        let outputs = inference.into_types().into_iter().map(|(ty, _)| ty);
        let outputs = outputs.collect();
        let entry =
            crate::ops::kernel(&label.domain, &label.op_type).ok_or(NodeProblem::NoKernel)?;
        check_types(entry, &types)?;
        let wanted: Vec<bool> = node.output.iter().map(|name| !name.is_empty()).collect();
        let attributes = Attributes::new(node);
        let mut build = Build {
            attributes: &attributes,
            opset,
            node,
            model: self.model,
            inputs: &types,
            constants: &constants,
            outputs: &wanted,
        };
        let kernel = (entry.build)(&mut build)?;
        attributes.finish().map_err(OpError::from)?;
        if kernel.reads() == Kinds::Tensors {
            refuse_other_kinds(&types)?;
        }
        Ok((kernel, outputs))
    }

    fn step(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        (kernel, form): (Box<dyn Kernel>, Form),
        inputs: Vec<Option<Slot>>,
        types: Vec<ValueType>,
        label: NodeLabel,
    ) {
        let from_cache = inputs.iter().flatten().any(|&slot| scope.known(slot).cache);
        let rearranges = label.domain.is_empty() && REARRANGES.contains(&&*label.op_type);
        let cache = from_cache && rearranges;
        let tensors_only = kernel.reads() == Kinds::Tensors;
        let constants: Option<Vec<_>> = inputs
            .iter()
            .map(|slot| match slot {
                None => Some(None),
                Some(slot) => {
                    let constant = scope.known(*slot).constant.as_ref();
                    let fits = |value: &&RuntimeValue| !tensors_only || value.tensor().is_some();
                    constant.filter(fits).cloned().map(Some)
                }
            })
            .collect();
        let outputs: Vec<Option<Slot>> = node
            .output
            .iter()
            .zip(types)
            .map(|(name, ty)| {
                (!name.is_empty()).then(|| {
                    scope.define(
                        name,
                        Known {
                            ty,
                            constant: None,
                            cache,
                            bound: None,
                        },
                    )
                })
            })
            .collect();
        let doubtful = tensors_only && inputs.iter().flatten().any(|&slot| !scope.is_dense(slot));
        if tensors_only {
            // A kernel that reads tensors only writes nothing else.
            scope.dense.extend(outputs.iter().flatten());
        }
        let step = Step {
            doubtful,
            form,
            kernel: kernel.into(),
            inputs: inputs.into_boxed_slice(),
            outputs: outputs.into_boxed_slice(),
            release: Box::default(),
            sites: Box::default(),
            label,
            rewrites_cache: cache,
        };
        let constants = constants.filter(|inputs| !may_be_weights(&step.form, inputs));
        if let Some(values) = constants.and_then(|constants| self.folding.fold(&step, &constants)) {
            for (slot, value) in step.outputs.iter().zip(values) {
                if let (Some(slot), Some(value)) = (slot, value) {
                    let known = &mut scope.known[*slot as usize];
                    if let RuntimeValue::Tensor(tensor) = &value {
                        known.ty = TensorType::concrete(tensor.dtype(), tensor.shape()).into();
                    }
                    known.constant = Some(value);
                }
            }
            return;
        }
        scope.steps.push(step);
    }
}

/// Moves what a scope collected into a plan.
fn finish(mut scope: Scope<'_>, plan: &mut Plan) {
    plan.slot_count = scope.known.len();
    plan.names = scope.slot_names();
    plan.steps = std::mem::take(&mut scope.steps);
    // Constants that were only needed to fold others do not become presets.
    let mut used = vec![false; plan.slot_count];
    let inputs = plan
        .steps
        .iter()
        .flat_map(|step| step.inputs.iter().flatten());
    for slot in inputs.chain(&plan.outputs) {
        used[*slot as usize] = true;
    }
    for (slot, known) in scope.known.into_iter().enumerate() {
        if let Some(constant) = known.constant
            && used[slot]
        {
            plan.presets.push((slot as Slot, constant));
        }
    }
    plan.place_releases();
}
