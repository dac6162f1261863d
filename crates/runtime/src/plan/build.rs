//! From a model to a plan: names become slots, functions are inlined, kernels are built, constants are folded.

use crate::append::AppendSite;
use crate::error::{NodePath, NodeProblem, SessionError};
use crate::events::NodeLabel;
use crate::explain::Outcome;
use crate::kernel::{Build, Kernel, OpError, Slot};
use crate::plan::branch::{Branch, If};
use crate::plan::checks::{check_schema, check_types};
use crate::plan::fold::Folding;
use crate::plan::scope::{Known, Outer, Scope};
use crate::plan::{Plan, Step};
use refeed_graph::attributes::Attributes;
use refeed_graph::functions::{FunctionTable, instantiate};
use refeed_graph::schema::Inference;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_graph::{Model, ModelError};
use refeed_kernels::Compute;
use refeed_proto::{FunctionProto, GraphProto, NodeProto, OperatorSetIdProto};
use std::collections::{BTreeMap, HashMap};
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

/// Operators whose kernels ask for rows behind a retained input.
const APPENDS: &[(&str, &str)] = &[
    ("", "Concat"),
    ("", "Attention"),
    ("com.microsoft", "GroupQueryAttention"),
];

/// The newest version of ai.onnx that the operator schemas were written from.
const NEWEST_OPSET: i64 = 28;

/// How deep calls of model-local functions may nest.
const CALL_DEPTH: usize = 100;

/// Compiles a model's graph.
///
/// # Errors
/// When a node cannot be computed, or the graph is not well formed.
pub(crate) fn compile(model: &Model, compute: Compute<'static>) -> Result<Plan, SessionError> {
    let mut builder = Builder::new(model, compute);
    let plan = builder.root()?;
    if builder.problems.is_empty() {
        Ok(plan)
    } else {
        Err(SessionError::Unsupported(builder.problems))
    }
}

/// One operator of a model, and whether refeed computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorUse {
    /// Operator domain.
    pub domain: String,
    /// Operator.
    pub op_type: String,
    /// Nodes that use it, those of subgraphs and called functions included.
    pub nodes: usize,
    /// What stands in the way, in words; empty when all its nodes can run.
    pub problems: Vec<String>,
}

/// Every operator of a model, and what refeed lacks to run it.
///
/// # Errors
/// When the graph is not well formed.
pub fn survey(model: &Model) -> Result<Vec<OperatorUse>, SessionError> {
    let mut builder = Builder::new(model, crate::session::compute()?);
    builder.root()?;
    let mut uses: Vec<OperatorUse> = builder
        .counts
        .into_iter()
        .map(|((domain, op_type), nodes)| OperatorUse {
            domain,
            op_type,
            nodes,
            problems: Vec::new(),
        })
        .collect();
    for (node, problem) in builder.problems {
        let of = uses
            .iter_mut()
            .find(|u| *u.domain == *node.domain && *u.op_type == *node.op_type);
        if let Some(of) = of {
            let text = problem.to_string();
            if !of.problems.contains(&text) {
                of.problems.push(text);
            }
        }
    }
    Ok(uses)
}

/// A compiled branch: its plan, the outer and inner slot of each captured value, and what is known of its outputs.
type Compiled = (Plan, Vec<(Slot, Slot)>, Vec<Known>);

/// Opset versions by domain, as one model or function imports them.
#[derive(Clone, Default)]
struct Opsets(HashMap<String, i64>);

impl Opsets {
    fn new(imports: &[OperatorSetIdProto]) -> Opsets {
        let pairs = imports
            .iter()
            .map(|import| (plain_domain(import.domain()), import.version()));
        Opsets(
            pairs
                .map(|(domain, version)| (domain.to_string(), version))
                .collect(),
        )
    }

    fn version(&self, domain: &str) -> i64 {
        self.0.get(domain).copied().unwrap_or(1)
    }
}

fn plain_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Where the nodes being compiled stand.
#[derive(Clone)]
struct Place {
    opsets: Arc<Opsets>,
    within: Option<(usize, Arc<str>)>,
    /// Index of the function call around the nodes, which is what their labels say.
    call: Option<usize>,
    depth: usize,
}

struct Builder<'m> {
    model: &'m Model,
    functions: FunctionTable<'m>,
    folding: Folding,
    problems: Vec<(NodePath, NodeProblem)>,
    counts: BTreeMap<(String, String), usize>,
    texts: HashMap<String, Arc<str>>,
}

impl<'m> Builder<'m> {
    fn new(model: &'m Model, compute: Compute<'static>) -> Builder<'m> {
        Builder {
            model,
            functions: model.functions(),
            folding: Folding::new(compute),
            problems: Vec::new(),
            counts: BTreeMap::new(),
            texts: HashMap::new(),
        }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
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

    fn root(&mut self) -> Result<Plan, SessionError> {
        let model = self.model;
        let graph = model.graph();
        let mut scope = Scope::default();
        let mut plan = Plan::default();
        for (position, info) in model.inputs().iter().enumerate() {
            let ty = match &info.ty {
                ValueType::Tensor(ty) => ty.clone(),
                ValueType::Unset => TensorType::default(),
                other => return Err(kind_error("graph input", &info.name, other)),
            };
            let cache = model
                .bindings()
                .iter()
                .any(|binding| binding.input_index == position);
            plan.inputs.push(scope.define(
                &info.name,
                Known {
                    ty,
                    constant: None,
                    cache,
                },
            ));
        }
        for info in model.outputs() {
            if !matches!(info.ty, ValueType::Tensor(_) | ValueType::Unset) {
                return Err(kind_error("graph output", &info.name, &info.ty));
            }
        }
        for initializer in &graph.initializer {
            let name = initializer.name();
            let tensor = model.initializer(initializer)?;
            match model.inputs().iter().position(|info| &*info.name == name) {
                Some(position) => plan.defaults.push((position, tensor)),
                None => {
                    let ty = TensorType::concrete(tensor.dtype(), tensor.shape());
                    scope.define(
                        name,
                        Known {
                            ty,
                            constant: Some(tensor),
                            cache: false,
                        },
                    );
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
        };
        self.nodes(&mut scope, &graph.node, &place)?;
        plan.outputs = self.outputs(&mut scope, graph)?;
        let types = plan
            .outputs
            .iter()
            .map(|&slot| scope.known(slot).ty.clone());
        plan.output_types = types.collect();
        self.place_appends(&mut scope, &mut plan);
        finish(scope, &mut plan);
        Ok(plan)
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

    /// Compiles a branch of `If`.
    fn branch(
        &mut self,
        graph: &GraphProto,
        outer: &mut dyn Outer,
        place: &Place,
    ) -> Result<Compiled, SessionError> {
        let mut scope = Scope {
            outer: Some(outer),
            ..Scope::default()
        };
        for initializer in &graph.initializer {
            let tensor = self.model.initializer(initializer)?;
            let ty = TensorType::concrete(tensor.dtype(), tensor.shape());
            scope.define(
                initializer.name(),
                Known {
                    ty,
                    constant: Some(tensor),
                    cache: false,
                },
            );
        }
        self.nodes(&mut scope, &graph.node, place)?;
        let mut plan = Plan {
            outputs: self.outputs(&mut scope, graph)?,
            ..Plan::default()
        };
        let known = plan
            .outputs
            .iter()
            .map(|&slot| scope.known(slot).clone())
            .collect();
        let captures = std::mem::take(&mut scope.captures);
        finish(scope, &mut plan);
        Ok((plan, captures, known))
    }

    fn nodes(
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
        if label.domain.is_empty() && &*label.op_type == "If" {
            return self.conditional(scope, node, inputs, label, place);
        }
        match self.kernel(scope, node, &inputs, &label, place) {
            Ok((kernel, types)) => {
                self.step(scope, node, kernel, inputs, types, label);
            }
            Err(problem) => {
                self.problems.push(((&label).into(), problem));
                for name in node.output.iter().filter(|name| !name.is_empty()) {
                    scope.define(name, Known::default());
                }
            }
        }
        Ok(())
    }

    /// Checks a node against its schema, infers its output types, and builds its kernel.
    fn kernel(
        &self,
        scope: &Scope<'_>,
        node: &NodeProto,
        inputs: &[Option<Slot>],
        label: &NodeLabel,
        place: &Place,
    ) -> Result<(Box<dyn Kernel>, Vec<TensorType>), NodeProblem> {
        let schema = refeed_graph::ops::schema(&label.domain, &label.op_type)
            .ok_or(NodeProblem::NoKernel)?;
        let opset = place.opsets.version(&label.domain);
        check_schema(schema, node, opset)?;
        let types: Vec<Option<TensorType>> = inputs
            .iter()
            .map(|slot| slot.map(|slot| scope.known(slot).ty.clone()))
            .collect();
        let constants: Vec<_> = inputs
            .iter()
            .map(|slot| slot.and_then(|slot| scope.known(slot).constant.clone()))
            .collect();
        let attributes = Attributes::new(node);
        let values: Vec<Option<ValueType>> = types
            .iter()
            .map(|ty| ty.clone().map(ValueType::Tensor))
            .collect();
        let mut inference =
            Inference::new(&attributes, opset, &values, &constants, node.output.len());
        (schema.infer)(&mut inference)?;
        let outputs = inference.into_outputs();
        let entry =
            crate::ops::kernel(&label.domain, &label.op_type).ok_or(NodeProblem::NoKernel)?;
        check_types(entry, &types)?;
        let wanted: Vec<bool> = node.output.iter().map(|name| !name.is_empty()).collect();
        let attributes = Attributes::new(node);
        let mut build = Build {
            attributes: &attributes,
            opset,
            model: self.model,
            inputs: &types,
            constants: &constants,
            outputs: &wanted,
        };
        let kernel = (entry.build)(&mut build)?;
        attributes.finish().map_err(OpError::from)?;
        Ok((kernel, outputs))
    }

    fn step(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        kernel: Box<dyn Kernel>,
        inputs: Vec<Option<Slot>>,
        types: Vec<TensorType>,
        label: NodeLabel,
    ) {
        let from_cache = inputs.iter().flatten().any(|&slot| scope.known(slot).cache);
        let rearranges = label.domain.is_empty() && REARRANGES.contains(&&*label.op_type);
        let cache = from_cache && rearranges;
        let constants: Option<Vec<_>> = inputs
            .iter()
            .map(|slot| match slot {
                None => Some(None),
                Some(slot) => scope.known(*slot).constant.clone().map(Some),
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
                        },
                    )
                })
            })
            .collect();
        let step = Step {
            kernel,
            inputs: inputs.into_boxed_slice(),
            outputs: outputs.into_boxed_slice(),
            release: Box::default(),
            sites: Box::default(),
            label,
            rewrites_cache: cache,
        };
        if let Some(values) = constants.and_then(|constants| self.folding.fold(&step, &constants)) {
            for (slot, value) in step.outputs.iter().zip(values) {
                if let (Some(slot), Some(value)) = (slot, value) {
                    let known = &mut scope.known[*slot as usize];
                    known.ty = TensorType::concrete(value.dtype(), value.shape());
                    known.constant = Some(value);
                }
            }
            return;
        }
        scope.steps.push(step);
    }

    /// Compiles the body of a model-local function in the caller's slots, under its own names.
    fn inline(
        &mut self,
        scope: &mut Scope<'_>,
        call: &NodeProto,
        function: &FunctionProto,
        index: usize,
        place: &Place,
    ) -> Result<(), SessionError> {
        if place.depth == CALL_DEPTH {
            let (limit, got) = (CALL_DEPTH as u64, CALL_DEPTH as u64 + 1);
            let at = format!("call `{}`", call.op_type());
            return Err(ModelError::Limit {
                at,
                what: "nested function calls",
                limit,
                got,
            }
            .into());
        }
        let body = instantiate(function, call)?;
        let mut names = HashMap::new();
        for (position, formal) in function.input.iter().enumerate() {
            let actual = call
                .input
                .get(position)
                .map(String::as_str)
                .unwrap_or_default();
            if actual.is_empty() {
                continue;
            }
            let slot = scope
                .lookup(actual)
                .ok_or_else(|| SessionError::Undefined {
                    node: NodePath {
                        index,
                        name: Arc::from(call.name()),
                        domain: Arc::from(call.domain()),
                        op_type: Arc::from(call.op_type()),
                        within: place.within.clone(),
                    },
                    name: actual.to_string(),
                })?;
            names.insert(formal.clone(), slot);
        }
        let outside = std::mem::replace(&mut scope.names, names);
        let outer = scope.outer.take();
        let opsets = if function.opset_import.is_empty() {
            place.opsets.clone()
        } else {
            Arc::new(Opsets::new(&function.opset_import))
        };
        let inner = Place {
            opsets,
            call: Some(index),
            depth: place.depth + 1,
            ..place.clone()
        };
        let compiled = self.nodes(scope, &body, &inner);
        let inside = std::mem::replace(&mut scope.names, outside);
        scope.outer = outer;
        compiled?;
        for (formal, actual) in function.output.iter().zip(&call.output) {
            if actual.is_empty() {
                continue;
            }
            let slot = inside
                .get(formal)
                .ok_or_else(|| SessionError::NoProducer(formal.clone()))?;
            scope.names.insert(actual.clone(), *slot);
        }
        Ok(())
    }

    fn conditional(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        mut inputs: Vec<Option<Slot>>,
        label: NodeLabel,
        place: &Place,
    ) -> Result<(), SessionError> {
        if inputs.len() != 1 || inputs[0].is_none() {
            let got = inputs.len();
            let problem = NodeProblem::Arity {
                what: "inputs",
                expected: "1".to_string(),
                got,
            };
            self.problems.push(((&label).into(), problem));
            return Ok(());
        }
        let attributes = Attributes::new(node);
        let mut branches = Vec::with_capacity(2);
        let mut outputs: Vec<Known> = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let graph = match attributes.required_graph(name) {
                Ok(graph) => graph,
                Err(error) => {
                    let problem = NodeProblem::Build(OpError::Attribute(error));
                    self.problems.push(((&label).into(), problem));
                    return Ok(());
                }
            };
            if graph.output.len() != node.output.len() {
                let problem = NodeProblem::Arity {
                    what: "outputs",
                    expected: format!("{} as `{name}` has", graph.output.len()),
                    got: node.output.len(),
                };
                self.problems.push(((&label).into(), problem));
                return Ok(());
            }
            let within = place
                .within
                .clone()
                .or_else(|| Some((label.index, self.text(name))));
            let inner = Place {
                within,
                ..place.clone()
            };
            let (plan, captures, known) = self.branch(graph, scope, &inner)?;
            let captures = captures
                .into_iter()
                .map(|(outside, inside)| {
                    let held = inputs
                        .iter()
                        .skip(1)
                        .position(|slot| *slot == Some(outside));
                    let position = held.map_or_else(
                        || {
                            inputs.push(Some(outside));
                            inputs.len() - 1
                        },
                        |at| at + 1,
                    );
                    (position, inside)
                })
                .collect();
            outputs = match outputs.is_empty() {
                true => known,
                false => outputs
                    .iter()
                    .zip(&known)
                    .map(|(a, b)| merge(a, b))
                    .collect(),
            };
            branches.push(Branch::new(plan, captures));
        }
        if let Err(error) = attributes.finish() {
            self.problems.push((
                (&label).into(),
                NodeProblem::Build(OpError::Attribute(error)),
            ));
        }
        let (Some(else_branch), Some(then_branch)) = (branches.pop(), branches.pop()) else {
            return Ok(());
        };
        let outputs: Vec<Option<Slot>> = node
            .output
            .iter()
            .zip(outputs)
            .map(|(name, known)| (!name.is_empty()).then(|| scope.define(name, known)))
            .collect();
        scope.steps.push(Step {
            kernel: Box::new(If {
                then_branch,
                else_branch,
            }),
            inputs: inputs.into_boxed_slice(),
            outputs: outputs.into_boxed_slice(),
            release: Box::default(),
            sites: Box::default(),
            label,
            rewrites_cache: false,
        });
        Ok(())
    }

    /// Finds, for each binding, the node that may append in place, and what happens where there is none.
    fn place_appends(&self, scope: &mut Scope<'_>, plan: &mut Plan) {
        for (index, binding) in self.model.bindings().iter().enumerate() {
            let (input, output) = (
                plan.inputs[binding.input_index],
                plan.outputs[binding.output_index],
            );
            if input == output {
                plan.usual.push(Outcome::Kept);
                plan.appends.push(false);
                continue;
            }
            let producer = scope
                .steps
                .iter_mut()
                .find(|step| step.outputs.contains(&Some(output)));
            let Some(step) = producer else {
                let fed = plan.inputs.iter().position(|slot| *slot == output);
                plan.usual.push(match fed {
                    Some(fed) => Outcome::Computed(Arc::from(format!(
                        "nothing: it is the graph input `{}`",
                        self.model.inputs()[fed].name
                    ))),
                    None => Outcome::Computed(Arc::from("a constant")),
                });
                plan.appends.push(false);
                continue;
            };
            let reads = step.inputs.iter().position(|slot| *slot == Some(input));
            let writes = step.outputs.iter().position(|slot| *slot == Some(output));
            let (domain, op_type) = (&*step.label.domain, &*step.label.op_type);
            let appends = APPENDS.contains(&(domain, op_type));
            plan.appends.push(appends && reads.is_some());
            if let (true, Some(input), Some(output)) = (appends, reads, writes) {
                let mut sites = std::mem::take(&mut step.sites).into_vec();
                sites.push(AppendSite {
                    input,
                    output,
                    binding: index,
                });
                step.sites = sites.into_boxed_slice();
                step.rewrites_cache = false;
            }
            plan.usual.push(match (domain, op_type) {
                ("", "If") => Outcome::Copied("it is computed inside a branch of `If`".to_string()),
                _ if appends && reads.is_none() => Outcome::Copied(format!(
                    "`{}` does not reach this {op_type} directly",
                    binding.input
                )),
                _ => Outcome::Computed(step.label.op_type.clone()),
            });
        }
    }
}

/// What is known of a value that comes from one of two branches.
fn merge(a: &Known, b: &Known) -> Known {
    let shape = match (&a.ty.shape, &b.ty.shape) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            let same = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
            Some(a.iter().zip(b).map(same).collect())
        }
        _ => None,
    };
    let dtype = a.ty.dtype.filter(|_| a.ty.dtype == b.ty.dtype);
    Known {
        ty: TensorType { dtype, shape },
        constant: None,
        cache: a.cache || b.cache,
    }
}

/// Moves what a scope collected into a plan.
fn finish(mut scope: Scope<'_>, plan: &mut Plan) {
    plan.slot_count = scope.known.len();
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

fn kind_error(role: &'static str, name: &str, ty: &ValueType) -> SessionError {
    SessionError::Kind {
        role,
        name: name.to_string(),
        kind: ty.kind().to_string(),
    }
}
