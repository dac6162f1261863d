//! A state in a file.

use super::commit::Next;
use super::initial::check_values;
use super::{PersistentValueState, Retained};
use crate::error::StateError;
use crate::options::RuntimeSessionOptions;
use crate::session::Core;
use crate::state_file;
use refeed_graph::Model;
use std::path::Path;
use std::sync::Arc;

/// Reads a file and holds its values to the model's declarations, as those of a constructor.
fn retained(
    core: &Core,
    path: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<Retained>, StateError> {
    let held = state_file::read(path, &core.model, &core.allocator)?;
    let published: Vec<bool> = held.iter().map(|held| held.published).collect();
    let values = held.into_iter().map(|held| held.value);
    let values = check_values(core, values, warnings)?;
    let retained = values.into_iter().zip(published);
    Ok(retained
        .map(|(value, published)| Retained { value, published })
        .collect())
}

impl PersistentValueState {
    /// Writes the retained values to a file, whole or not at all. The state is free again before the writing starts.
    ///
    /// Strided values are written dense. The file names the model's bindings and has a number of its weights; the weights
    /// stay in the model's own file.
    ///
    /// ```no_run
    /// # use refeed_runtime::{PersistentValueState, RuntimeSessionOptions, StateError};
    /// # use refeed_graph::Model;
    /// # fn example(state: &PersistentValueState, model: Model) -> Result<(), StateError> {
    /// state.save("session.state")?;
    /// let resumed = PersistentValueState::from_file(model, "session.state", RuntimeSessionOptions::default())?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the state is busy or closed, or the file cannot be written; an older file of the name is then untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), StateError> {
        let values: Vec<_> = {
            let inner = self.take()?;
            let bindings = self.core.model.bindings().iter().zip(&inner.retained);
            bindings
                .map(|(binding, held)| (binding.input.clone(), held.value.value(), held.published))
                .collect()
        };
        Ok(state_file::write(path.as_ref(), &self.core.model, &values)?)
    }

    /// Replaces every retained value by those of a file.
    ///
    /// # Errors
    /// When the state is busy or closed, the file cannot be read, is damaged or of another model, or a value contradicts
    /// its declaration. Nothing has changed then.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<(), StateError> {
        let mut inner = self.take()?;
        let values = retained(&self.core, path.as_ref(), &mut inner.workspace.warnings)?;
        self.note_warnings(&inner);
        inner.commit(Next::replacing(values));
        Ok(())
    }

    /// Makes a state that starts with the values of a file.
    ///
    /// # Errors
    /// As [`PersistentValueState::new`] and [`PersistentValueState::load`].
    pub fn from_file(
        model: Model,
        path: impl AsRef<Path>,
        options: RuntimeSessionOptions,
    ) -> Result<PersistentValueState, StateError> {
        if model.bindings().is_empty() {
            return Err(StateError::NoBindings);
        }
        let core = Arc::new(Core::new(
            model,
            options,
            crate::registry::Kernels::of_process(),
        )?);
        let mut warnings = Vec::new();
        let values = retained(&core, path.as_ref(), &mut warnings)?;
        Ok(Self::from_parts(core, values, warnings))
    }
}
