//! Sessions: a compiled model, and runs that remember nothing.

mod outputs;

pub use outputs::Outputs;

use crate::append::Appends;
use crate::conform::{Refused, Rule, Symbols, Table};
use crate::context::{Allocators, RuntimeContext, ValueKind};
use crate::error::{SessionError, StateError};
use crate::events::Meter;
use crate::execute::{Environment, execute};
use crate::interrupt::{Interrupt, Poll, RunControl};
use crate::kernel::Slot;
use crate::options::RuntimeSessionOptions;
use crate::plan::{Plan, compile};
use crate::recognition::AttentionForm;
use crate::registry::Kernels;
use crate::variants::Variants;
use outputs::Results;
use refeed_graph::types::{ValueInfo, ValueType};
use refeed_graph::{BindingUses, Model};
use refeed_kernels::{Compute, Isa, ThreadPool};
use refeed_values::append::AppendPolicy;
use refeed_values::{Allocator, Pool, Provenance, RawBufferAllocator, RuntimeValue, Tensor};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What sessions and states of one model share: the plan, the weights, the declared types.
pub(crate) struct Core {
    pub(crate) model: Model,
    pub(crate) plan: Plan,
    pub(crate) options: RuntimeSessionOptions,
    pub(crate) compute: Compute<'static>,
    pub(crate) inputs: Vec<Rule>,
    pub(crate) outputs: Vec<Rule>,
    pub(crate) symbols: Symbols,
    /// Declared input types again, with symbols that only retained values share; by binding.
    pub(crate) retained: Vec<Rule>,
    pub(crate) retained_symbols: Symbols,
    pub(crate) uses: BindingUses,
    pub(crate) allocator: Allocator,
    /// The caller's kernels that the plan was compiled with.
    pub(crate) kernels: Kernels,
    /// The same model compiled with the kernels of other contexts.
    pub(crate) variants: Variants,
    /// Workspaces that earlier runs of sessions left for reuse.
    pub(crate) spare: Mutex<Vec<Workspace>>,
    results: Arc<Results>,
}

impl Core {
    pub(crate) fn new(
        model: Model,
        options: RuntimeSessionOptions,
        kernels: Kernels,
    ) -> Result<Core, SessionError> {
        let allocator = Allocator::with_limit(options.memory_limit.unwrap_or(usize::MAX));
        Core::compiled(model, options, kernels, allocator)
    }

    /// A core that shares its memory budget with others of the same model.
    pub(crate) fn compiled(
        model: Model,
        options: RuntimeSessionOptions,
        kernels: Kernels,
        allocator: Allocator,
    ) -> Result<Core, SessionError> {
        let uses = options.binding_uses.unwrap_or(model.binding_uses());
        model
            .check_binding_uses(Some(uses))
            .map_err(refeed_graph::ModelError::from)?;
        let compute = compute()?;
        let (mut symbols, mut retained_symbols) = (Symbols::default(), Symbols::default());
        let prepared = |symbols: &mut Symbols, role, info: &ValueInfo| {
            let rule = symbols.rule(&model, role, info.name.clone(), &info.ty);
            rule.map_err(|refused| match refused {
                Refused::Kind { name, kind } => SessionError::Kind { role, name, kind },
                Refused::Model(error) => error.into(),
            })
        };
        let mut rules = |role, values: &[ValueInfo]| {
            let rules = values.iter().map(|info| prepared(&mut symbols, role, info));
            rules.collect::<Result<Vec<Rule>, SessionError>>()
        };
        let inputs = rules("input", model.inputs())?;
        let outputs = rules("output", model.outputs())?;
        let retained = model.bindings().iter().map(|binding| {
            let info = &model.inputs()[binding.input_index];
            prepared(&mut retained_symbols, "retained input", info)
        });
        let retained = retained.collect::<Result<Vec<Rule>, SessionError>>()?;
        let plan = compile(&model, compute, &kernels, &options)?;
        let names = model
            .outputs()
            .iter()
            .map(|info| info.name.clone())
            .collect();
        Ok(Core {
            kernels,
            variants: Variants::default(),
            spare: Mutex::default(),
            plan,
            options,
            compute,
            inputs,
            outputs,
            symbols,
            retained,
            retained_symbols,
            uses,
            allocator,
            results: Arc::new(Results::new(names)),
            model,
        })
    }

    /// Feeds by input position.
    pub(crate) fn positions<'n, V: Into<RuntimeValue>>(
        &self,
        feeds: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<SmallVec<[(usize, RuntimeValue); 4]>, StateError> {
        let placed = feeds
            .into_iter()
            .map(|(name, value)| match self.input_position(name) {
                Some(position) => Ok((position, value.into())),
                None => Err(StateError::UnknownInput(name.to_string())),
            });
        placed.collect()
    }

    /// How retained values get room.
    pub(crate) fn append_policy(&self) -> AppendPolicy {
        AppendPolicy {
            initial_capacity: self.options.persistent_tensor_initial_capacity,
            max_length: self.options.max_length,
            reuse: self.options.append_reuse,
        }
    }

    /// Position of a graph input.
    pub(crate) fn input_position(&self, name: &str) -> Option<usize> {
        self.model
            .inputs()
            .iter()
            .position(|info| &*info.name == name)
    }
}

impl Core {
    /// The values of slots that are results of the root graph's nodes, by name.
    fn results(
        &self,
        slots: Vec<(Slot, RuntimeValue)>,
    ) -> impl Iterator<Item = (Arc<str>, RuntimeValue)> {
        let nodes = self.model.graph().node.iter();
        let names: HashSet<&str> = nodes
            .flat_map(|node| node.output.iter().map(String::as_str))
            .collect();
        let named = slots
            .into_iter()
            .map(|(slot, value)| (self.plan.name(slot), value));
        named.filter(move |(name, _)| names.contains(&**name))
    }
}

/// The initializers of a model that are no defaults of inputs.
fn constant_names(model: &Model) -> impl Iterator<Item = &str> {
    let graph = model.graph();
    let names = graph.initializer.iter().map(|tensor| tensor.name());
    let encoded = graph.encoded_initializer.iter().map(|value| value.name());
    let caches = graph
        .paged_cache_initializer
        .iter()
        .map(|cache| cache.name());
    let names = names.chain(encoded).chain(caches);
    names.filter(|name| !model.inputs().iter().any(|info| &*info.name == *name))
}

/// The instruction set that the environment asks for, or the best one, and the threads that all sessions share.
pub(crate) fn compute() -> Result<Compute<'static>, SessionError> {
    Ok(Compute::new(Isa::from_env()?, ThreadPool::global()))
}

/// Largest result whose memory comes back when its caller lets go of it. What is larger costs more to compute than to ask
/// the system for, and a long prompt's results should not stay for the tokens that follow.
const HANDED_LIMIT: usize = 4 << 20;

/// The slots and the memory of one execution at a time.
pub(crate) struct Workspace {
    slots: Vec<Option<RuntimeValue>>,
    pool: Pool,
    /// The allocators that the pool draws on: those of the context of the first call that succeeded.
    allocators: Option<Allocators>,
    /// Whether a call with them succeeded.
    settled: bool,
    /// One flag an input: whether this call fills it.
    filled: Vec<bool>,
    /// One flag an input: whether an initializer fills it in this call.
    from_initializer: Vec<bool>,
    pub(crate) table: Table,
    /// What the symbols of bound inputs stand for in the values that are to be retained.
    pub(crate) retained: Table,
    pub(crate) warnings: Vec<String>,
    pub(crate) materialised: Vec<(Arc<str>, usize)>,
    /// Results that callers of the last two calls got, the last call's behind the others.
    handed: [Vec<Tensor>; 2],
    /// What the call made on its way, by slot, when its caller wants that.
    kept: Option<Vec<(Slot, RuntimeValue)>>,
}

impl Workspace {
    /// A workspace whose slots the first call makes, with warnings that came before it.
    pub(crate) fn new(core: &Core, warnings: Vec<String>) -> Workspace {
        Workspace {
            slots: Vec::new(),
            pool: Pool::new(core.allocator.clone()),
            allocators: None,
            settled: false,
            filled: vec![false; core.plan.inputs.len()],
            from_initializer: vec![false; core.plan.inputs.len()],
            table: core.symbols.table(),
            retained: core.retained_symbols.table(),
            warnings,
            materialised: Vec::new(),
            handed: Default::default(),
            kept: None,
        }
    }

    /// A workspace for another plan of the same model, with the warnings and the memory of this one.
    pub(crate) fn move_to(&mut self, core: &Core) -> Workspace {
        let mut moved = Workspace::new(core, std::mem::take(&mut self.warnings));
        let pool = Pool::new(core.allocator.clone());
        moved.pool = std::mem::replace(&mut self.pool, pool);
        moved.allocators = self.allocators.take();
        moved.settled = self.settled;
        moved
    }

    /// Starts a call.
    pub(crate) fn begin(&mut self, core: &Core) {
        if self.slots.is_empty() {
            self.slots = core.plan.frame();
        }
        self.filled.fill(false);
        self.from_initializer.fill(false);
        self.table.clear();
        self.materialised.clear();
        // A caller who lets go of results when the next ones are there has let go of these by now.
        let [older, last] = &mut self.handed;
        older.drain(..).for_each(|tensor| self.pool.give(tensor));
        std::mem::swap(older, last);
    }

    /// Where results and what is retained come from.
    pub(crate) fn output_allocator(&self) -> &Allocator {
        self.pool.output_allocator()
    }

    /// A call has succeeded: values that its allocators made may be retained now.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
    }

    /// Draws on the allocators that a context brings. False: earlier calls drew on others.
    pub(crate) fn draw_on(&mut self, core: &Core, context: &RuntimeContext) -> bool {
        let wanted = context.allocators();
        match &self.allocators {
            Some(held) if self.settled || held.same_as(wanted) => held.same_as(wanted),
            _ => {
                let over = |source: &RawBufferAllocator| core.allocator.over(source);
                let execution = wanted.execution.as_ref().map(over);
                let execution = execution.unwrap_or_else(|| core.allocator.clone());
                self.pool = Pool::with_output(execution, wanted.io.as_ref().map(over));
                self.allocators = Some(wanted.clone());
                true
            }
        }
    }

    /// What a call reports to.
    pub(crate) fn meter(&self, core: &Core, context: &RuntimeContext) -> Meter {
        let memory = self.pool.output_allocator().clone();
        Meter::new(context.log(), memory, core.compute.pool.threads())
    }

    /// Puts a value into an input's slot. The first value of a name counts; a second one is the caller's fault.
    pub(crate) fn fill(&mut self, core: &Core, position: usize, value: RuntimeValue) {
        self.filled[position] = true;
        self.slots[core.plan.inputs[position] as usize] = Some(value);
    }

    /// Fills what is left from initializers, and checks every input against its declaration.
    pub(crate) fn check_inputs(&mut self, core: &Core) -> Result<(), StateError> {
        for (position, value) in &core.plan.defaults {
            if !self.filled[*position] {
                self.fill(core, *position, value.clone());
                self.from_initializer[*position] = true;
            }
        }
        for (position, rule) in core.inputs.iter().enumerate() {
            let slot = core.plan.inputs[position] as usize;
            let Some(value) = self.slots[slot].as_ref().filter(|_| self.filled[position]) else {
                if rule.optional {
                    self.slots[slot] = None;
                    continue;
                }
                let name = core.model.inputs()[position].name.to_string();
                return Err(match core.model.bindings().is_empty() {
                    true => StateError::MissingUnbound(name),
                    false => StateError::MissingInput(name),
                });
            };
            if let Some(clash) = rule.check(value, &mut self.table)? {
                note_clash(core.uses, clash, &mut self.warnings)?;
            }
        }
        Ok(())
    }

    /// Tells the log what the graph inputs are.
    #[cold]
    fn record_inputs(&self, core: &Core, meter: &Meter) {
        for (position, info) in core.model.inputs().iter().enumerate() {
            let slot = core.plan.inputs[position];
            if let Some(value) = &self.slots[slot as usize] {
                meter.input(&info.name, value, self.from_initializer[position]);
            }
        }
    }

    /// Runs the plan.
    pub(crate) fn execute(
        &mut self,
        core: &Core,
        appends: &mut Appends,
        meter: &mut Meter,
        control: RunControl<'_>,
    ) -> Result<(), StateError> {
        self.pool.set_publishing(true);
        if meter.is_on() {
            self.record_inputs(core, meter);
        }
        let interrupt = Interrupt::new(control);
        let mut environment = Environment {
            pool: &mut self.pool,
            compute: &core.compute.watched(&interrupt),
            appends,
            meter,
            interrupt: &interrupt,
            kept: self.kept.as_mut(),
        };
        execute(&core.plan, &mut self.slots, &mut environment)?;
        environment.meter.check().map_err(StateError::Event)
    }

    /// The graph outputs, in the graph's order, kept apart from feeds. `bound` outputs keep their strides; what was
    /// `retained` before the call is handed on as it is.
    pub(crate) fn collect(
        &mut self,
        core: &Core,
        feeds: &[(usize, RuntimeValue)],
        retained: &[&Tensor],
        bound: impl Fn(usize) -> bool,
    ) -> Result<Vec<RuntimeValue>, StateError> {
        let mut outputs = core.results.list();
        for (position, &slot) in core.plan.outputs.iter().enumerate() {
            let name = &core.results.names[position];
            let value = self.slots[slot as usize]
                .clone()
                .ok_or_else(|| StateError::EmptyOutput(name.clone()))?;
            let RuntimeValue::Tensor(tensor) = &value else {
                outputs.push(self.keep_apart(name, value, feeds, bound(position))?);
                continue;
            };
            let foreign = tensor.provenance() == Provenance::Foreign;
            // A slot that is both input and output is handed straight through, except that what is to be retained must
            // not be memory that the caller may refill for the next call.
            let refillable = foreign
                && bound(position)
                && feeds.iter().any(|(fed, _)| core.plan.inputs[*fed] == slot);
            let passed = core.plan.inputs.contains(&slot) && !refillable
                || retained.iter().any(|held| same_view(held, tensor));
            let lent = foreign
                || feeds
                    .iter()
                    .filter_map(|(_, feed)| feed.tensor())
                    .any(|feed| feed.buffer().same_allocation(tensor.buffer()));
            let strided = !bound(position) && !tensor.is_contiguous();
            if (lent && !passed) || strided {
                let copy = tensor
                    .to_dense(self.pool.output_allocator())
                    .map_err(|source| StateError::Output {
                        name: name.clone(),
                        source,
                    })?;
                if lent {
                    self.materialised.push((name.clone(), copy.bytes()));
                }
                outputs.push(copy.into());
            } else {
                if !passed && !bound(position) {
                    self.hand_out(core, tensor.clone());
                }
                outputs.push(value);
            }
        }
        Ok(outputs)
    }

    /// Notes a result that the caller gets, so that a later call finds its memory when nobody holds it any more. Memory of a
    /// caller's allocators goes back to those at once, and a limit is for what is in use.
    fn hand_out(&mut self, core: &Core, tensor: Tensor) {
        let own = self.pool.output_allocator().source().is_none();
        let limited = core.options.memory_limit.is_some();
        if own && !limited && tensor.buffer().len() <= HANDED_LIMIT {
            self.handed[1].push(tensor);
        }
    }

    /// A struct or sequence without memory that a caller may refill: such tensors are copied as they enter it, unless the
    /// whole value is a feed that is handed straight through.
    fn keep_apart(
        &mut self,
        name: &Arc<str>,
        value: RuntimeValue,
        feeds: &[(usize, RuntimeValue)],
        bound: bool,
    ) -> Result<RuntimeValue, StateError> {
        let passed = || feeds.iter().any(|(_, feed)| feed.same(&value));
        if !value.holds_foreign() || (!bound && passed()) {
            return Ok(value);
        }
        let mut copied = 0;
        let apart = value.replace_foreign(&mut |tensor| {
            let copy = tensor.to_dense(self.pool.output_allocator())?;
            copied += copy.bytes();
            Ok(copy)
        });
        self.materialised.push((name.clone(), copied));
        apart.map_err(|source| StateError::Value {
            name: name.clone(),
            source,
        })
    }

    /// Takes memory that a state does not retain any more.
    pub(crate) fn recycle(&mut self, tensor: Tensor) {
        self.pool.give(tensor);
    }

    /// Ends a call that went well: nothing of it stays in the slots.
    pub(crate) fn end(&mut self, core: &Core) {
        for &slot in core.plan.leftover.iter().chain(&core.plan.inputs) {
            if let Some(RuntimeValue::Tensor(tensor)) = self.slots[slot as usize].take() {
                self.pool.give(tensor);
            }
        }
    }

    /// Ends a call that failed.
    pub(crate) fn abandon(&mut self, core: &Core) {
        if !self.slots.is_empty() {
            core.plan.reset(&mut self.slots);
        }
    }
}

/// Whether two tensors are the same elements of the same memory.
fn same_view(a: &Tensor, b: &Tensor) -> bool {
    a.buffer().same_allocation(b.buffer())
        && (a.offset(), a.dtype(), a.layout()) == (b.offset(), b.dtype(), b.layout())
}

/// Symbols are strict where a bound input has one use, and hints where any number of uses is allowed.
pub(crate) fn note_clash(
    uses: BindingUses,
    clash: crate::conform::ConformError,
    warnings: &mut Vec<String>,
) -> Result<(), StateError> {
    if uses != BindingUses::Any {
        return Err(clash.into());
    }
    let text = clash.to_string();
    // The same contradiction comes back each call with other numbers; a few examples say enough.
    const KEPT: usize = 8;
    if warnings.len() < KEPT && !warnings.contains(&text) {
        warnings.push(text);
    }
    Ok(())
}

/// A compiled model whose runs remember nothing; `Send` and `Sync`, so threads may share one.
pub struct RuntimeSession {
    core: Arc<Core>,
}

impl std::fmt::Debug for RuntimeSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeSession")
            .field("steps", &self.core.plan.steps.len())
            .finish_non_exhaustive()
    }
}

impl RuntimeSession {
    /// Compiles a model.
    ///
    /// # Errors
    /// When the model breaks the rules of its bindings, or has a node that refeed cannot compute.
    pub fn new(
        model: Model,
        options: RuntimeSessionOptions,
    ) -> Result<RuntimeSession, SessionError> {
        RuntimeSession::compile(model, options, Kernels::of_process())
    }

    /// Compiles a model with the kernels that a context has registered by now, so that faults in nodes that use them show
    /// here. Calls with other contexts compile what they need when they come.
    ///
    /// # Errors
    /// As [`RuntimeSession::new`].
    pub fn with_context(
        model: Model,
        options: RuntimeSessionOptions,
        context: &RuntimeContext,
    ) -> Result<RuntimeSession, SessionError> {
        RuntimeSession::compile(model, options, Kernels::of(context.kernels()))
    }

    fn compile(
        model: Model,
        options: RuntimeSessionOptions,
        kernels: Kernels,
    ) -> Result<RuntimeSession, SessionError> {
        Ok(RuntimeSession {
            core: Arc::new(Core::new(model, options, kernels)?),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.core.model
    }

    /// Settings.
    pub fn options(&self) -> &RuntimeSessionOptions {
        &self.core.options
    }

    /// What a state's calls will do for each binding, as far as the graph tells: an append counts as in place, though a
    /// call may find a reason to copy (see [`crate::PersistentValueState::explain`]).
    pub fn forecast(&self) -> Vec<crate::Outcome> {
        let plan = &self.core.plan;
        let outcomes = plan.usual.iter().zip(&plan.surely);
        let outcomes = outcomes.map(|(usual, appends)| match appends {
            true => crate::Outcome::InPlace,
            false => usual.clone(),
        });
        outcomes.collect()
    }

    /// The attention that the graph writes out in single nodes, and which of it runs through the attention kernel; nothing
    /// when [`RuntimeSessionOptions::recognize_attention`] is off.
    pub fn attention(&self) -> &[AttentionForm] {
        &self.core.plan.attention
    }

    /// What the operators' rules say of the graph outputs: often more than their declarations do.
    pub fn output_types(&self) -> &[ValueType] {
        &self.core.plan.output_types
    }

    /// Position of a graph input by name, for [`RuntimeSession::run_positions`].
    pub fn input_position(&self, name: &str) -> Option<usize> {
        self.core.input_position(name)
    }

    /// Bytes that tensors of this session have in use.
    pub fn live_bytes(&self) -> usize {
        self.core.allocator.live_bytes()
    }

    /// Runs the graph once. Every input that no initializer gives must be fed, bound ones too.
    ///
    /// # Errors
    /// When a feed is unknown, missing, or contradicts its declaration, or a node fails.
    pub fn run<'n, V: Into<RuntimeValue>>(
        &self,
        context: &RuntimeContext,
        feeds: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<Outputs, StateError> {
        let feeds = self.core.positions(feeds)?;
        self.run_positions(context, &feeds, None)
    }

    /// Runs the graph on the values that a context keeps: each graph input is fed the value of its name, and each graph
    /// output is kept under its own, in place of what was there. So are values on the way, unless the context releases
    /// intermediates. A failed run changes nothing.
    ///
    /// # Errors
    /// As [`RuntimeSession::run`], and when the context keeps a value under the name of a constant of the model.
    pub fn run_context(
        &self,
        context: &RuntimeContext,
        poll: Option<Poll>,
    ) -> Result<(), StateError> {
        let values = context.values();
        let mut feeds: SmallVec<[(usize, RuntimeValue); 4]> = SmallVec::new();
        for (position, info) in self.core.model.inputs().iter().enumerate() {
            feeds.extend(values.get(&info.name).map(|value| (position, value)));
        }
        for name in constant_names(&self.core.model) {
            if values.kind(name).is_some() {
                return Err(StateError::OverridesConstant(name.to_string()));
            }
        }
        let mut kept = (!context.release_intermediates()).then(Vec::new);
        let control = RunControl {
            poll,
            ..RunControl::default()
        };
        let outputs = self.run_keeping(context, &feeds, control, &mut kept)?;
        for (name, value) in kept.into_iter().flatten() {
            values.keep(&name, value, ValueKind::Intermediate);
        }
        for (name, value) in self.core.results.names.iter().zip(outputs.into_values()) {
            values.keep(name, value, ValueKind::Output);
        }
        Ok(())
    }

    /// As [`RuntimeSession::run`], with feeds by input position and a poll that can stop the run.
    ///
    /// # Errors
    /// As [`RuntimeSession::run`].
    pub fn run_positions(
        &self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        poll: Option<Poll>,
    ) -> Result<Outputs, StateError> {
        let control = RunControl {
            poll,
            ..RunControl::default()
        };
        self.run_controlled(context, feeds, control)
    }

    /// As [`RuntimeSession::run_positions`], with all that can stop a run. A session publishes nothing, so a completion
    /// is only watched.
    pub(crate) fn run_controlled(
        &self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'_>,
    ) -> Result<Outputs, StateError> {
        self.run_keeping(context, feeds, control, &mut None)
    }

    /// Runs the graph; the nodes' results that are no graph outputs go to `kept` by name, when it is there.
    fn run_keeping(
        &self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'_>,
        kept: &mut Option<Vec<(Arc<str>, RuntimeValue)>>,
    ) -> Result<Outputs, StateError> {
        let core = &*self.core.fitting(context)?;
        let spare = core
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut workspace = spare.unwrap_or_else(|| Workspace::new(core, Vec::new()));
        if !workspace.draw_on(core, context) {
            workspace = Workspace::new(core, Vec::new());
            workspace.draw_on(core, context);
        }
        workspace.kept = kept.is_some().then(Vec::new);
        let result = Self::step(core, &mut workspace, context, feeds, control);
        if let (Some(named), Some(slots)) = (kept, workspace.kept.take()) {
            named.extend(core.results(slots));
        }
        match &result {
            Ok(_) => workspace.end(core),
            Err(_) => workspace.abandon(core),
        }
        core.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(workspace);
        Ok(Outputs::new(core, result?))
    }

    fn step(
        core: &Core,
        workspace: &mut Workspace,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'_>,
    ) -> Result<Vec<RuntimeValue>, StateError> {
        workspace.begin(core);
        for (position, value) in feeds {
            if *position >= core.inputs.len() {
                return Err(StateError::UnknownInput(position.to_string()));
            }
            workspace.fill(core, *position, value.clone());
        }
        workspace.check_inputs(core)?;
        let mut meter = workspace.meter(core, context);
        workspace.execute(core, &mut Appends::default(), &mut meter, control)?;
        let outputs = workspace.collect(core, feeds, &[], |_| false)?;
        if core.options.check_shapes {
            for (rule, value) in core.outputs.iter().zip(&outputs) {
                if let Some(clash) = rule.check(value, &mut workspace.table)? {
                    note_clash(core.uses, clash, &mut workspace.warnings)?;
                }
            }
        }
        Ok(outputs)
    }
}
