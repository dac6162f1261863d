//! Between computing and publishing: a step that its caller may still drop.

use super::step::Step;
use super::{Inner, PersistentValueState};
use crate::completion::{Running, TaskCompletion};
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::interrupt::RunControl;
use crate::session::Outputs;
use refeed_values::RuntimeValue;
use refeed_values::life_cycle::Taken;

/// The checked results of a step that is not published. Dropping it leaves the state as it was before the step.
///
/// The state is busy for as long as this lives. Whatever the caller must do with the results before the state may move on,
/// and may fail to do, has its place here.
pub struct Prepared<'a> {
    state: &'a PersistentValueState,
    /// Dropped before `inner` is: rows that nobody sees any more are given back.
    step: Step,
    inner: Unpublished<'a>,
    running: Option<Running<'a>>,
    /// Whether the race with a canceller is won, or there is none.
    decided: bool,
}

/// The taken state of a step. Unless the step is published, it lets go of what the call has left.
struct Unpublished<'a> {
    taken: Taken<'a, Inner>,
    published: bool,
}

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        if !self.published {
            self.taken.abandon();
        }
    }
}

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("outputs", &self.outputs())
            .finish_non_exhaustive()
    }
}

impl PersistentValueState {
    /// Computes and checks one step without publishing it.
    ///
    /// ```no_run
    /// use refeed_runtime::{PersistentValueState, RunControl, RuntimeContext};
    /// use refeed_values::Tensor;
    /// # fn send(_: &[refeed_values::RuntimeValue]) -> std::io::Result<()> { Ok(()) }
    /// # fn example(state: &PersistentValueState, delta: Tensor) -> Result<(), Box<dyn std::error::Error>> {
    /// let position = state.input_position("delta").ok_or("no such input")?;
    /// let feeds = [(position, delta.into())];
    /// let prepared = state.prepare(&RuntimeContext::default(), &feeds, RunControl::default())?;
    /// send(prepared.outputs())?; // when this fails, the step has not happened
    /// prepared.publish()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PersistentValueState::run_until`].
    pub fn prepare<'a>(
        &'a self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'a>,
    ) -> Result<Prepared<'a>, StateError> {
        let mut inner = self.take()?;
        let core = inner.fit(&self.core, context)?;
        let running = control.completion.map(TaskCompletion::begin).transpose()?;
        let result = inner.step(&core, context, feeds, control);
        self.note_warnings(&inner);
        let error = match (result, control.completion) {
            (Ok(step), _) => {
                return Ok(Prepared {
                    state: self,
                    step,
                    inner: Unpublished {
                        taken: inner,
                        published: false,
                    },
                    decided: running.is_none(),
                    running,
                });
            }
            (Err(StateError::Run(run)), Some(completion)) if run.is_cancelled() => {
                completion.cancelled()
            }
            (Err(error), _) => error,
        };
        inner.abandon();
        Err(error)
    }
}

impl Prepared<'_> {
    /// The graph outputs, in the graph's order.
    pub fn outputs(&self) -> &[RuntimeValue] {
        &self.step.outputs
    }

    /// Decides the race with whoever may cancel the step: from now on nobody can. Publishing does it too; apart from it, it
    /// is for callers that made something of the outputs, and must drop that before this, so that the rows of a cancelled
    /// step can be given back.
    ///
    /// # Errors
    /// When the step's completion was cancelled first.
    pub fn decide(&mut self) -> Result<(), StateError> {
        if let Some(running) = self.running.as_ref().filter(|_| !self.decided) {
            running.publish()?;
            self.decided = true;
        }
        Ok(())
    }

    /// Publishes all next values at once.
    ///
    /// # Errors
    /// When the step's completion was cancelled first. Nothing was published then.
    pub fn publish(mut self) -> Result<Outputs, StateError> {
        self.decide()?;
        let Prepared {
            state,
            step,
            mut inner,
            ..
        } = self;
        inner.published = true;
        inner.taken.commit(step.next);
        inner.taken.rewritten = step.rewritten;
        inner.taken.workspace.settle();
        Ok(Outputs::new(&state.core, step.outputs))
    }
}
