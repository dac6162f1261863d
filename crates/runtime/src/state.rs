//! `PersistentValueState`: outputs that come back as the next inputs.
//!
//! # The life of one call
//!
//! 1. Take the state for this call alone, or fail at once.
//! 2. Make a lease for every retained value that a node may append to, before any view of the value exists.
//! 3. Put retained values and feeds into their slots, check all of them against their declarations.
//! 4. Run the plan.
//! 5. Collect the outputs, keep them apart from feeds, check them.
//! 6. Build every next retained value.
//! 7. Swap the handles: the one commit point.
//!
//! Whatever fails before the swap leaves the retained values as they were, to the bit; rows that a failed append wrote
//! are given back.

use crate::append::Appends;
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::events::Meter;
use crate::explain::{BindingReport, Explanation, Outcome};
use crate::interrupt::Poll;
use crate::options::RuntimeSessionOptions;
use crate::persistent_value::PersistentValue;
use crate::session::{Core, Outputs, RuntimeSession, Workspace, note_clash};
use refeed_graph::{Model, Publish};
use refeed_values::RuntimeValue;
use refeed_values::append::AppendPolicy;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// The state of one request: a model whose bound inputs are fed by its own outputs.
///
/// ```no_run
/// use refeed_graph::{LoadOptions, Model};
/// use refeed_runtime::{PersistentValueState, RuntimeContext, RuntimeSessionOptions};
/// use refeed_values::Tensor;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Model::load("accumulate.onnx", &LoadOptions::default())?;
/// let past = Tensor::from_slice(&[2], &[0f32, 0.0])?;
/// let state = PersistentValueState::new(model, [("past", past)], RuntimeSessionOptions::default())?;
/// let context = RuntimeContext::default();
/// let delta = Tensor::from_slice(&[2], &[1f32, 1.0])?;
/// let outputs = state.run(&context, [("delta", delta)])?;
/// # Ok(()) }
/// ```
pub struct PersistentValueState {
    core: Arc<Core>,
    /// Taken without waiting, so it doubles as the busy flag; `None` once closed.
    inner: Mutex<Option<Inner>>,
    /// Length of the list of warnings, for callers that do not want to take the state.
    warnings: AtomicUsize,
}

impl std::fmt::Debug for PersistentValueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersistentValueState")
            .field("bindings", &self.core.model.bindings().len())
            .finish_non_exhaustive()
    }
}

struct Inner {
    retained: Vec<Retained>,
    workspace: Workspace,
    appends: Appends,
    explanation: Vec<Outcome>,
    rewritten: Vec<(Arc<str>, u64)>,
}

struct Retained {
    value: PersistentValue,
    /// Whether a value was published since construction or reset.
    published: bool,
}

impl PersistentValueState {
    /// Makes a state of a model that declares bindings.
    ///
    /// Initial values are kept without a copy; they must name exactly the bound inputs.
    ///
    /// # Errors
    /// When the model declares no binding or cannot be compiled, or an initial value is missing, unknown, or
    /// contradicts its declaration.
    pub fn new<'n, V: Into<RuntimeValue>>(
        model: Model,
        initial: impl IntoIterator<Item = (&'n str, V)>,
        options: RuntimeSessionOptions,
    ) -> Result<PersistentValueState, StateError> {
        if model.bindings().is_empty() {
            return Err(StateError::NoBindings);
        }
        let core = Arc::new(Core::new(model, options)?);
        Self::with_core(core, initial)
    }

    /// Makes a state that shares plan and weights with a session.
    ///
    /// # Errors
    /// As [`PersistentValueState::new`].
    pub fn of_session<'n, V: Into<RuntimeValue>>(
        session: &RuntimeSession,
        initial: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<PersistentValueState, StateError> {
        if session.model().bindings().is_empty() {
            return Err(StateError::NoBindings);
        }
        Self::with_core(session.core().clone(), initial)
    }

    fn with_core<'n, V: Into<RuntimeValue>>(
        core: Arc<Core>,
        initial: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<PersistentValueState, StateError> {
        let mut workspace = Workspace::new(&core);
        let retained = check_initial(&core, initial, &mut workspace.warnings)?;
        let warnings = AtomicUsize::new(workspace.warnings.len());
        let bindings = core.model.bindings().len();
        let inner = Inner {
            retained,
            workspace,
            appends: Appends::new(bindings),
            explanation: vec![Outcome::NotRun; bindings],
            rewritten: Vec::new(),
        };
        Ok(PersistentValueState {
            core,
            inner: Mutex::new(Some(inner)),
            warnings,
        })
    }

    /// Takes the state, or fails at once when somebody else has it.
    fn take(&self) -> Result<MutexGuard<'_, Option<Inner>>, StateError> {
        match self.inner.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::WouldBlock) => Err(StateError::Busy),
            // A panic before the commit point left the retained values alone.
            Err(TryLockError::Poisoned(poisoned)) => {
                self.inner.clear_poison();
                let mut guard = poisoned.into_inner();
                if let Some(inner) = guard.as_mut() {
                    inner.workspace.abandon(&self.core);
                    inner.appends.abandon();
                }
                Ok(guard)
            }
        }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.core.model
    }

    /// Settings, as they were when the state was made.
    pub fn options(&self) -> &RuntimeSessionOptions {
        &self.core.options
    }

    /// Position of a graph input by name, for [`PersistentValueState::run_positions`].
    pub fn input_position(&self, name: &str) -> Option<usize> {
        self.core.input_position(name)
    }

    /// Runs one step: retained values and `feeds` in, all graph outputs out; bound outputs are retained.
    ///
    /// # Errors
    /// When a feed is unknown, missing, names a bound input or contradicts its declaration, a node fails, or an output
    /// contradicts its declaration. The state is then as it was before, and the call may be tried again.
    pub fn run<'n, V: Into<RuntimeValue>>(
        &self,
        context: &RuntimeContext,
        feeds: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<Outputs, StateError> {
        let feeds = self.core.positions(feeds)?;
        self.run_positions(context, &feeds, None)
    }

    /// As [`PersistentValueState::run`], with feeds by input position and a poll that can stop the run.
    ///
    /// # Errors
    /// As [`PersistentValueState::run`].
    pub fn run_positions(
        &self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        poll: Option<Poll>,
    ) -> Result<Outputs, StateError> {
        let mut guard = self.take()?;
        let inner = guard.as_mut().ok_or(StateError::Closed)?;
        let result = inner.step(&self.core, context, feeds, poll);
        if result.is_err() {
            // Slots first: only then can given-back rows be known to be unseen.
            inner.workspace.abandon(&self.core);
            inner.appends.abandon();
        }
        self.warnings
            .store(inner.workspace.warnings.len(), Ordering::Relaxed);
        Ok(Outputs::new(&self.core, result?))
    }

    /// Replaces every retained value. They are kept without a copy.
    ///
    /// # Errors
    /// As for construction; the retained values are then unchanged.
    pub fn reset<'n, V: Into<RuntimeValue>>(
        &self,
        initial: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<(), StateError> {
        let mut guard = self.take()?;
        let inner = guard.as_mut().ok_or(StateError::Closed)?;
        let warnings = &mut inner.workspace.warnings;
        inner.retained = check_initial(&self.core, initial, warnings)?;
        self.warnings.store(warnings.len(), Ordering::Relaxed);
        inner.explanation.fill(Outcome::NotRun);
        Ok(())
    }

    /// Releases the retained values. Closing again does nothing; any other use is an error from now on.
    ///
    /// # Errors
    /// When another operation of this state is going on.
    pub fn close(&self) -> Result<(), StateError> {
        *self.take()? = None;
        Ok(())
    }

    /// The retained values by input name: shared views, not copies.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn values(&self) -> Result<Vec<(Arc<str>, RuntimeValue)>, StateError> {
        let guard = self.take()?;
        let inner = guard.as_ref().ok_or(StateError::Closed)?;
        let bindings = self.core.model.bindings().iter().zip(&inner.retained);
        Ok(bindings
            .map(|(b, held)| (b.input.clone(), held.value.value()))
            .collect())
    }

    /// What the last call did for each binding, and why.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn explain(&self) -> Result<Explanation, StateError> {
        let guard = self.take()?;
        let inner = guard.as_ref().ok_or(StateError::Closed)?;
        let bindings = self
            .core
            .model
            .bindings()
            .iter()
            .zip(&inner.retained)
            .zip(&inner.explanation);
        let bindings = bindings.map(|((binding, held), outcome)| BindingReport {
            input: binding.input.clone(),
            output: binding.output.clone(),
            outcome: outcome.clone(),
            shape: held.value.shape(),
            capacity_rows: held.value.capacity_rows(),
            logical_bytes: held.value.bytes(),
        });
        Ok(Explanation {
            bindings: bindings.collect(),
            materialised: inner.workspace.materialised.clone(),
            rewritten: inner.rewritten.clone(),
            warnings: inner.workspace.warnings.clone(),
        })
    }

    /// How many warnings [`PersistentValueState::explain`] has to tell; never waits, and never finds the state busy.
    pub fn warning_count(&self) -> usize {
        self.warnings.load(Ordering::Relaxed)
    }

    /// Bytes that tensors of this state have in use.
    pub fn live_bytes(&self) -> usize {
        self.core.allocator.live_bytes()
    }
}

/// Checks initial values: exactly the bound inputs, each fitting its declaration, one symbol table for all.
fn check_initial<'n, V: Into<RuntimeValue>>(
    core: &Core,
    initial: impl IntoIterator<Item = (&'n str, V)>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Retained>, StateError> {
    let bindings = core.model.bindings();
    let mut found: Vec<Option<RuntimeValue>> = vec![None; bindings.len()];
    for (name, value) in initial {
        let at = bindings.iter().position(|binding| &*binding.input == name);
        found[at.ok_or_else(|| StateError::NotRetained(name.to_string()))?] = Some(value.into());
    }
    let mut table = core.retained_symbols.table();
    let mut retained = Vec::with_capacity(bindings.len());
    for ((binding, rule), value) in bindings.iter().zip(&core.retained).zip(found) {
        let value = value.ok_or_else(|| StateError::MissingInitial(binding.input.to_string()))?;
        if let Some(clash) = rule.check(&value, &mut table)? {
            note_clash(core.uses, clash, warnings)?;
        }
        retained.push(Retained {
            value: PersistentValue::imported(value),
            published: false,
        });
    }
    Ok(retained)
}

/// Whether an output has anything in it.
fn is_present(value: &RuntimeValue) -> bool {
    match value {
        RuntimeValue::Tensor(tensor) => !tensor.shape().contains(&0),
        RuntimeValue::Encoded(encoded) => !encoded.shape().contains(&0),
        RuntimeValue::Sequence(elements) => !elements.is_empty(),
        _ => true,
    }
}

impl Inner {
    fn step(
        &mut self,
        core: &Core,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        poll: Option<Poll>,
    ) -> Result<Vec<RuntimeValue>, StateError> {
        let bindings = core.model.bindings();
        let workspace = &mut self.workspace;
        workspace.begin();
        let policy = AppendPolicy {
            initial_capacity: core.options.persistent_tensor_initial_capacity,
            max_length: core.options.max_length,
            reuse: core.options.append_reuse,
        };
        for (index, (binding, held)) in bindings.iter().zip(&mut self.retained).enumerate() {
            if core.plan.may_append(index)
                && let Some(lease) = held.value.lease(&policy)
            {
                self.appends.arm(index, lease);
            }
            workspace.fill(core, binding.input_index, held.value.value());
        }
        for (position, value) in feeds {
            let Some(info) = core.model.inputs().get(*position) else {
                return Err(StateError::UnknownInput(position.to_string()));
            };
            if bindings
                .iter()
                .any(|binding| binding.input_index == *position)
            {
                return Err(StateError::OverridesRetained(info.name.to_string()));
            }
            workspace.fill(core, *position, value.clone());
        }
        workspace.check_inputs(core)?;
        let mut meter = Meter::new(context.log(), core.allocator.clone());
        workspace.execute(core, &mut self.appends, &mut meter, poll)?;
        let outputs = workspace.collect(core, feeds, |output| {
            bindings
                .iter()
                .any(|binding| binding.output_index == output)
        })?;
        for (rule, value) in core.outputs.iter().zip(&outputs) {
            if let Some(clash) = rule.check(value, &mut workspace.table)? {
                note_clash(core.uses, clash, &mut workspace.warnings)?;
            }
        }
        let mut table = core.retained_symbols.table();
        let mut publishes: SmallVec<[bool; 8]> = SmallVec::new();
        for ((binding, held), rule) in bindings.iter().zip(&self.retained).zip(&core.retained) {
            let value = &outputs[binding.output_index];
            let publish = match binding.publish {
                Publish::Always => true,
                Publish::Once => !held.published,
                Publish::IfPresent => is_present(value),
            };
            publishes.push(publish);
            if publish && let Some(clash) = rule.check(value, &mut table)? {
                note_clash(core.uses, clash, &mut workspace.warnings)?;
            }
        }
        #[cfg(feature = "testing")]
        crate::testing::check().map_err(|source| {
            let node = crate::error::NodePath {
                index: core.plan.steps.len(),
                name: Arc::from("publication"),
                domain: Arc::from(""),
                op_type: Arc::from(""),
                within: None,
            };
            StateError::Run(Box::new(crate::error::RunError { node, source }))
        })?;
        // Slots let go of the outputs now; from here on nothing can fail.
        workspace.end(core);
        for (index, (binding, publish)) in bindings.iter().zip(publishes).enumerate() {
            let held = &mut self.retained[index];
            self.explanation[index] = match (publish, self.appends.outcome(index)) {
                (false, _) => Outcome::Kept,
                (true, Some(outcome)) => outcome.clone(),
                (true, None) => core.plan.usual[index].clone(),
            };
            let output = &outputs[binding.output_index];
            let next = PersistentValue::published(&mut self.appends, index, output);
            if publish {
                *held = Retained {
                    value: next,
                    published: true,
                };
            }
        }
        self.rewritten = meter.rewritten;
        Ok(outputs)
    }
}
