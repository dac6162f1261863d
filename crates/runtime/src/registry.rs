//! Kernels of the caller's own: one registry for the process, and one for each context that registers something.
//!
//! A registry is immutable: registering makes a new one under a new number. A plan remembers the numbers of the
//! registries that it was compiled with, so that a call sees with one comparison whether its plan still fits.

use crate::kernel::{Build, Kernel, OpError};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Builds the kernel of one node. It runs when a plan is compiled: when a session or state is made, or in the first call
/// with a context that has kernels of its own.
pub type KernelFactory =
    Arc<dyn Fn(&mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> + Send + Sync>;

/// Operators with graphs inside: the plan computes them itself.
const CONTROL_FLOW: &[&str] = &["If", "Loop", "Scan", "SequenceMap"];

/// A kernel that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The operator has no name.
    #[error("op_type: expected the name of an operator, got an empty text")]
    NoName,
    /// The operator has graphs inside.
    #[error("op_type: {0} is control flow, which kernels cannot override")]
    ControlFlow(String),
}

/// One immutable set of kernels.
pub(crate) struct KernelRegistry {
    id: u64,
    /// By domain, then by operator.
    factories: HashMap<String, HashMap<String, KernelFactory>>,
}

impl fmt::Debug for KernelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operators = self.factories.iter().flat_map(|(domain, of)| {
            let names = of.keys();
            names.map(move |op_type| format!("{domain}:{op_type}"))
        });
        f.debug_set().entries(operators).finish()
    }
}

type Factories = HashMap<String, HashMap<String, KernelFactory>>;

/// Where the present registry stands. Its number is 0 while there is none.
#[derive(Debug)]
pub(crate) struct RegistryCell {
    id: AtomicU64,
    present: Mutex<Option<Arc<KernelRegistry>>>,
}

impl Default for RegistryCell {
    fn default() -> RegistryCell {
        RegistryCell::new()
    }
}

/// Numbers are never used twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

static PROCESS: RegistryCell = RegistryCell::new();

impl RegistryCell {
    const fn new() -> RegistryCell {
        RegistryCell {
            id: AtomicU64::new(0),
            present: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<KernelRegistry>>> {
        // One assignment is done under the lock.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Acquire)
    }

    pub(crate) fn snapshot(&self) -> Option<Arc<KernelRegistry>> {
        if self.id() == 0 {
            return None;
        }
        self.lock().clone()
    }

    /// Makes an edited copy the present registry. What it replaces is dropped without the lock: a factory's owner may
    /// come back here.
    fn edit<T>(&self, edit: impl FnOnce(&mut Factories) -> T) -> T {
        let mut present = self.lock();
        let mut factories = present
            .as_ref()
            .map(|registry| registry.factories.clone())
            .unwrap_or_default();
        let outcome = edit(&mut factories);
        factories.retain(|_, of| !of.is_empty());
        let next = (!factories.is_empty()).then(|| {
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            Arc::new(KernelRegistry { id, factories })
        });
        let id = next.as_ref().map_or(0, |registry| registry.id);
        let old = std::mem::replace(&mut *present, next);
        self.id.store(id, Ordering::Release);
        drop(present);
        drop(old);
        outcome
    }

    pub(crate) fn register(
        &self,
        domain: &str,
        op_type: &str,
        factory: KernelFactory,
    ) -> Result<(), RegisterError> {
        let domain = plain_domain(domain);
        if op_type.is_empty() {
            return Err(RegisterError::NoName);
        }
        if domain.is_empty() && CONTROL_FLOW.contains(&op_type) {
            return Err(RegisterError::ControlFlow(op_type.to_string()));
        }
        let replaced = self.edit(|factories| {
            let of = factories.entry(domain.to_string()).or_default();
            of.insert(op_type.to_string(), factory)
        });
        drop(replaced);
        Ok(())
    }

    pub(crate) fn unregister(&self, domain: &str, op_type: &str) -> bool {
        if self.id() == 0 {
            return false;
        }
        let removed = self.edit(|factories| {
            let of = factories.get_mut(plain_domain(domain))?;
            of.remove(op_type)
        });
        removed.is_some()
    }

    pub(crate) fn clear(&self) {
        if self.id() != 0 {
            drop(self.edit(std::mem::take));
        }
    }
}

fn plain_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The registries that a plan is compiled with. A context's kernels come before those of the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kernels {
    context: Option<Arc<KernelRegistry>>,
    process: Option<Arc<KernelRegistry>>,
}

impl Kernels {
    /// What is registered now, for the process and in a context.
    pub(crate) fn of(context: &RegistryCell) -> Kernels {
        Kernels {
            context: context.snapshot(),
            process: PROCESS.snapshot(),
        }
    }

    /// What is registered now for the process.
    pub(crate) fn of_process() -> Kernels {
        Kernels {
            context: None,
            process: PROCESS.snapshot(),
        }
    }

    /// Whether a context has the kernels that these are.
    pub(crate) fn are_of(&self, context: &RegistryCell) -> bool {
        self.context.as_ref().map_or(0, |registry| registry.id) == context.id()
    }

    /// Whether the process still has the kernels that it had.
    pub(crate) fn are_present(&self) -> bool {
        self.process.as_ref().map_or(0, |registry| registry.id) == PROCESS.id()
    }

    /// Whether no context can ask for these any more.
    pub(crate) fn are_orphaned(&self) -> bool {
        self.context
            .as_ref()
            .is_some_and(|registry| Arc::strong_count(registry) == 1)
    }

    /// The factory of an operator.
    pub(crate) fn find(&self, domain: &str, op_type: &str) -> Option<&KernelFactory> {
        [&self.context, &self.process]
            .into_iter()
            .flatten()
            .find_map(|registry| registry.factories.get(domain)?.get(op_type))
    }
}

/// Registers a kernel for the whole process. It is used by sessions and states made from now on, and by those made before
/// that lack a kernel for this operator. A context's own kernel comes first, then this one, then refeed's own; functions
/// of the model come before all of them.
///
/// The value of `op_type` is the operator's name; `domain` `"ai.onnx"` is the same as `""`. See
/// [`crate::RuntimeContext::register_kernel`] for an example.
///
/// # Errors
/// When the operator has no name or is control flow.
pub fn register_kernel<F>(domain: &str, op_type: &str, factory: F) -> Result<(), RegisterError>
where
    F: Fn(&mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> + Send + Sync + 'static,
{
    PROCESS.register(domain, op_type, Arc::new(factory))
}

/// Forgets a kernel that was registered for the process; false when there is none. Plans that have it keep it.
pub fn unregister_kernel(domain: &str, op_type: &str) -> bool {
    PROCESS.unregister(domain, op_type)
}

/// Forgets all kernels that were registered for the process. Plans that have them keep them.
pub fn clear_kernels() {
    PROCESS.clear();
}

#[cfg(test)]
mod tests;
