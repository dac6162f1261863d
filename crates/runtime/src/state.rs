//! `PersistentValueState`: outputs that come back as the next inputs.
//!
//! # The life of one call
//!
//! 1. Take the state for this call alone, or fail at once; take the completion, if there is one.
//! 2. Make a lease for every retained value that a node may append to, before any view of the value exists.
//! 3. Put retained values and feeds into their slots, check all of them against their declarations.
//! 4. Run the plan.
//! 5. Collect the outputs, keep them apart from feeds, check them.
//! 6. Build every next retained value.
//! 7. Decide against whoever may cancel, and swap the handles: the one commit point (`state/commit.rs`), through which
//!    reset, restore, truncate, select and load go as well.
//!
//! Whatever fails before the swap leaves the retained values as they were, to the bit; rows that a failed append wrote
//! are given back.

mod commit;
mod explain;
mod fork;
mod initial;
mod prepared;
mod rows_error;
mod save;
mod select;
mod step;
mod truncate;

pub use fork::Checkpoint;
pub use prepared::Prepared;
pub use select::BatchAxes;

use crate::append::Appends;
use crate::completion::TaskCompletion;
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::explain::Outcome;
use crate::interrupt::RunControl;
use crate::options::RuntimeSessionOptions;
use crate::persistent_value::PersistentValue;
use crate::registry::Kernels;
use crate::session::{Core, Outputs, RuntimeSession, Workspace};
use commit::Next;
use initial::check_initial;
use refeed_graph::Model;
use refeed_values::RuntimeValue;
use refeed_values::life_cycle::{LifeCycle, Taken};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Inner {
    /// The core for a call with this context. A workspace is made anew when it is another than the last call's.
    fn fit(&mut self, base: &Arc<Core>, context: &RuntimeContext) -> Result<Arc<Core>, StateError> {
        let core = base.fitting(context)?;
        if !Arc::ptr_eq(&core, &self.core) {
            self.workspace = self.workspace.move_to(&core);
            self.appends = Appends::new(self.retained.len());
            self.core = core.clone();
        }
        Ok(core)
    }
}

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
    /// One operation at a time takes it, without waiting.
    inner: LifeCycle<Inner>,
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
    /// The core for the context of the last call; the workspace belongs to it.
    core: Arc<Core>,
    retained: Vec<Retained>,
    /// An empty list, so that a warm call makes none.
    spare: Next,
    workspace: Workspace,
    appends: Appends,
    explanation: Vec<Outcome>,
    rewritten: Vec<(Arc<str>, u64)>,
}

#[derive(Debug)]
struct Retained {
    value: PersistentValue,
    /// Whether a value was published since construction or reset.
    published: bool,
}

impl Retained {
    /// A value that came from outside.
    fn initial(value: PersistentValue) -> Retained {
        Retained {
            value,
            published: false,
        }
    }

    /// The same value for another holder.
    fn share(&self) -> Retained {
        Retained {
            value: self.value.fork(),
            published: self.published,
        }
    }
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
        let core = Arc::new(Core::new(model, options, Kernels::of_process())?);
        Self::with_core(core, initial)
    }

    /// Makes a state with the kernels that a context has registered by now, so that faults in nodes that use them show
    /// here. Its calls may use other contexts.
    ///
    /// # Errors
    /// As [`PersistentValueState::new`].
    pub fn with_context<'n, V: Into<RuntimeValue>>(
        model: Model,
        initial: impl IntoIterator<Item = (&'n str, V)>,
        options: RuntimeSessionOptions,
        context: &RuntimeContext,
    ) -> Result<PersistentValueState, StateError> {
        if model.bindings().is_empty() {
            return Err(StateError::NoBindings);
        }
        let kernels = Kernels::of(context.kernels());
        let core = Arc::new(Core::new(model, options, kernels)?);
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
        let mut warnings = Vec::new();
        let initial = check_initial(&core, initial, &mut warnings)?;
        let retained = initial.into_iter().map(Retained::initial);
        Ok(Self::from_parts(core.clone(), retained.collect(), warnings))
    }

    /// A state that retains checked values. Its slots are made by the first run.
    fn from_parts(
        core: Arc<Core>,
        retained: Vec<Retained>,
        warnings: Vec<String>,
    ) -> PersistentValueState {
        let bindings = retained.len();
        let count = AtomicUsize::new(warnings.len());
        let inner = Inner {
            core: core.clone(),
            retained,
            spare: Next::default(),
            workspace: Workspace::new(&core, warnings),
            appends: Appends::new(bindings),
            explanation: vec![Outcome::NotRun; bindings],
            rewritten: Vec::new(),
        };
        PersistentValueState {
            core,
            inner: LifeCycle::new(inner),
            warnings: count,
        }
    }

    /// Takes the state, or fails at once when somebody else has it.
    fn take(&self) -> Result<Taken<'_, Inner>, StateError> {
        let mut inner = self.inner.take()?;
        if inner.was_interrupted() {
            // A panic before the commit point left the retained values alone.
            inner.abandon();
        }
        Ok(inner)
    }

    /// Tells [`PersistentValueState::warning_count`] how many warnings there are by now.
    fn note_warnings(&self, inner: &Inner) {
        let count = inner.workspace.warnings.len();
        self.warnings.store(count, Ordering::Relaxed);
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
        self.run_positions(context, &feeds, RunControl::default())
    }

    /// As [`PersistentValueState::run`], with a completion that other threads may cancel. The publication succeeds it.
    ///
    /// ```no_run
    /// use refeed_runtime::{PersistentValueState, RuntimeContext, StateError, TaskCompletion};
    /// use refeed_values::Tensor;
    /// # fn example(state: &PersistentValueState, delta: Tensor) -> Result<(), StateError> {
    /// let completion = TaskCompletion::default();
    /// let canceller = completion.clone();
    /// std::thread::spawn(move || canceller.cancel("the client is gone"));
    /// match state.run_until(&RuntimeContext::default(), [("delta", delta)], &completion) {
    ///     Ok(outputs) => println!("published: {outputs:?}"),
    ///     Err(StateError::Cancelled { message }) => println!("nothing was published: {message}"),
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PersistentValueState::run`]; [`StateError::Cancelled`] when a cancellation won, and
    /// [`StateError::Completion`] when another run has or had the completion.
    pub fn run_until<'n, V: Into<RuntimeValue>>(
        &self,
        context: &RuntimeContext,
        feeds: impl IntoIterator<Item = (&'n str, V)>,
        completion: &TaskCompletion,
    ) -> Result<Outputs, StateError> {
        let feeds = self.core.positions(feeds)?;
        let control = RunControl {
            completion: Some(completion),
            ..RunControl::default()
        };
        self.run_positions(context, &feeds, control)
    }

    /// As [`PersistentValueState::run`], with feeds by input position and what can stop the run.
    ///
    /// # Errors
    /// As [`PersistentValueState::run_until`].
    pub fn run_positions(
        &self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'_>,
    ) -> Result<Outputs, StateError> {
        self.prepare(context, feeds, control)?.publish()
    }

    /// Replaces every retained value. They are kept without a copy.
    ///
    /// # Errors
    /// As for construction; the retained values are then unchanged.
    pub fn reset<'n, V: Into<RuntimeValue>>(
        &self,
        initial: impl IntoIterator<Item = (&'n str, V)>,
    ) -> Result<(), StateError> {
        let mut inner = self.take()?;
        let initial = check_initial(&self.core, initial, &mut inner.workspace.warnings)?;
        self.note_warnings(&inner);
        let initial = initial.into_iter().map(Retained::initial);
        inner.commit(Next::replacing(initial));
        Ok(())
    }

    /// Releases the retained values. Closing again does nothing; any other use is an error from now on.
    ///
    /// # Errors
    /// When another operation of this state is going on.
    pub fn close(&self) -> Result<(), StateError> {
        drop(self.inner.close()?);
        Ok(())
    }

    /// The retained values by input name: shared views, not copies.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn values(&self) -> Result<Vec<(Arc<str>, RuntimeValue)>, StateError> {
        let inner = self.take()?;
        Ok(fork::named(&self.core.model, &inner.retained))
    }

    /// Fails when a run or reset could not begin, so that callers need not prepare values for nothing.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn check_open(&self) -> Result<(), StateError> {
        self.take().map(drop)
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
