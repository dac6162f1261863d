//! Values that no call has computed, against what the model declares: those that a state starts with, those of a reset, and
//! what other operations leave.

use super::Inner;
use super::commit::{Change, Next};
use crate::error::{SessionError, StateError};
use crate::persistent_value::PersistentValue;
use crate::session::{Core, note_clash};
use refeed_values::RuntimeValue;

/// Checks initial values: exactly the bound inputs, each fitting its declaration, one symbol table for all. A paged-cache
/// initializer stands in for a value that is not given; dense and encoded ones do not.
pub(super) fn check_initial<'n, V: Into<RuntimeValue>>(
    core: &Core,
    initial: impl IntoIterator<Item = (&'n str, V)>,
    warnings: &mut Vec<String>,
) -> Result<Vec<PersistentValue>, StateError> {
    let bindings = core.model.bindings();
    let mut found: Vec<Option<RuntimeValue>> = vec![None; bindings.len()];
    for (name, value) in initial {
        let at = bindings.iter().position(|binding| &*binding.input == name);
        found[at.ok_or_else(|| StateError::NotRetained(name.to_string()))?] = Some(value.into());
    }
    let caches = core.model.paged_cache_initializers();
    let caches = caches.map_err(SessionError::from)?;
    for (binding, value) in bindings.iter().zip(&mut found) {
        let cache = caches.iter().find(|(name, _)| *name == binding.input);
        if let (None, Some((_, cache))) = (&value, cache) {
            *value = Some(cache.clone());
        }
    }
    let mut values = Vec::with_capacity(bindings.len());
    for (binding, value) in bindings.iter().zip(found) {
        values.push(value.ok_or_else(|| StateError::MissingInitial(binding.input.to_string()))?);
    }
    check_values(core, values, warnings)
}

/// Checks one value a binding against its declaration, with one symbol table for all.
pub(super) fn check_values(
    core: &Core,
    values: impl IntoIterator<Item = RuntimeValue>,
    warnings: &mut Vec<String>,
) -> Result<Vec<PersistentValue>, StateError> {
    let mut table = core.retained_symbols.table();
    let mut retained = Vec::with_capacity(core.retained.len());
    for (rule, value) in core.retained.iter().zip(values) {
        if let Some(clash) = rule.check(&value, &mut table)? {
            note_clash(core.uses, clash, warnings)?;
        }
        let kept = PersistentValue::imported(value).map_err(|source| StateError::Value {
            name: rule.name().clone(),
            source,
        })?;
        retained.push(kept);
    }
    Ok(retained)
}

impl Inner {
    /// Holds what the state would retain after `next` to its declarations, with one symbol table for all: what breaks them
    /// would make every later call fail.
    pub(super) fn check(&mut self, core: &Core, next: &Next) -> Result<(), StateError> {
        let mut table = core.retained_symbols.table();
        for ((rule, held), (change, _)) in core.retained.iter().zip(&self.retained).zip(&next.0) {
            let value = match change {
                Change::Keep => held.value.value(),
                Change::Replace(next) => next.value.value(),
                Change::Publish(output) => output.clone(),
            };
            if let Some(clash) = rule.check(&value, &mut table)? {
                note_clash(core.uses, clash, &mut self.workspace.warnings)?;
            }
        }
        Ok(())
    }
}
