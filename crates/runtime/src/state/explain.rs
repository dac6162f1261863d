//! What a state answers about its last call.

use super::PersistentValueState;
use crate::error::StateError;
use crate::explain::{BindingReport, Explanation};

impl PersistentValueState {
    /// What the last call did for each binding, and why.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub fn explain(&self) -> Result<Explanation, StateError> {
        let inner = self.take()?;
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
            attention: self.core.plan.attention.clone(),
            warnings: inner.workspace.warnings.clone(),
        })
    }
}
