//! Other holders of the same values: forks and checkpoints. Both cost a handle a value, whatever the values hold.

use super::{Inner, PersistentValueState, Retained};
use crate::error::StateError;
use crate::state::commit::Next;
use refeed_graph::Model;
use refeed_values::RuntimeValue;
use std::sync::Arc;

/// The retained values of a state at one moment: handles, not copies.
///
/// A state of the same model can go back to it any number of times. It keeps the memory of its values alive.
#[derive(Debug)]
pub struct Checkpoint {
    model: Model,
    retained: Vec<Retained>,
}

impl Checkpoint {
    /// The model whose values these are.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The values by input name: shared views.
    pub fn values(&self) -> Vec<(Arc<str>, RuntimeValue)> {
        named(&self.model, &self.retained)
    }
}

/// Retained values by input name.
pub(super) fn named(model: &Model, retained: &[Retained]) -> Vec<(Arc<str>, RuntimeValue)> {
    let bindings = model.bindings().iter().zip(retained);
    bindings
        .map(|(binding, held)| (binding.input.clone(), held.value.value()))
        .collect()
}

impl Inner {
    /// The same values for another holder.
    fn shared(&self) -> Vec<Retained> {
        self.retained.iter().map(Retained::share).collect()
    }
}

impl PersistentValueState {
    /// A second state with the same values, which goes its own way from here. It shares plan, weights and values; its
    /// cost is a handle a value.
    ///
    /// Where two forks append to one value, the first one does so in place and the other copies the old rows once; after
    /// that both append in place.
    ///
    /// ```no_run
    /// # use refeed_runtime::{PersistentValueState, RuntimeContext, StateError};
    /// # use refeed_values::Tensor;
    /// # fn example(state: &PersistentValueState, a: Tensor, b: Tensor) -> Result<(), StateError> {
    /// let other = state.fork()?;
    /// let context = RuntimeContext::default();
    /// state.run(&context, [("token", a)])?;
    /// other.run(&context, [("token", b)])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn fork(&self) -> Result<PersistentValueState, StateError> {
        let inner = self.take()?;
        let core = Arc::clone(&self.core);
        Ok(Self::from_parts(core, inner.shared(), Vec::new()))
    }

    /// The values as they are now, to go back to.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn checkpoint(&self) -> Result<Checkpoint, StateError> {
        let inner = self.take()?;
        Ok(Checkpoint {
            model: self.core.model.clone(),
            retained: inner.shared(),
        })
    }

    /// Goes back to a checkpoint of this state or of another one of the same model. Handles change, nothing is copied;
    /// the first append afterwards copies the old rows once if somebody has appended behind them.
    ///
    /// # Errors
    /// When the state is busy or closed, or the checkpoint is of another model; nothing has changed then.
    pub fn restore(&self, checkpoint: &Checkpoint) -> Result<(), StateError> {
        let mut inner = self.take()?;
        if !checkpoint.model.same(&self.core.model) {
            return Err(StateError::OtherModel);
        }
        let values = checkpoint.retained.iter().map(Retained::share);
        inner.commit(Next::replacing(values));
        Ok(())
    }
}
