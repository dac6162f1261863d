//! What calls share: the opset that kernels assume, the event log, values by name, kernels, allocators.

mod map;
mod values;

pub use map::{MapKeys, MapValue, MapValues};
pub use values::{ContextError, ValueKind, ValueStore};

use crate::events::{EventLog, Meter, NodeTable, RuntimeEvent, RuntimeEventAction, StorageReport};
use crate::kernel::{Build, Kernel, OpError};
use crate::registry::{RegisterError, RegistryCell};
use refeed_graph::ModelError;
use refeed_values::{Allocator, RawBufferAllocator};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A domain and a version of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OpsetId {
    /// The domain; `""` is ai.onnx.
    pub domain: String,
    /// The version.
    pub version: i64,
}

impl OpsetId {
    /// A version of ai.onnx.
    pub fn default_opset(version: i64) -> OpsetId {
        OpsetId {
            domain: String::new(),
            version,
        }
    }
}

/// What kernels assume where no model says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelContext {
    /// The default opset.
    pub opset: OpsetId,
}

impl KernelContext {
    /// A context for one opset.
    pub fn new(opset: OpsetId) -> KernelContext {
        KernelContext { opset }
    }
}

/// Settings of a [`RuntimeContext`].
#[derive(Debug, Clone, Default)]
pub struct RuntimeContextOptions {
    /// Whether kernels' reports are recorded.
    pub events_enabled: bool,
    /// Where calls take memory for intermediate values; the session's own memory when `None`.
    pub allocator: Option<RawBufferAllocator>,
    /// Where calls take memory for outputs and for the room that appends reserve; as `allocator` when `None`.
    pub io_allocator: Option<RawBufferAllocator>,
    /// Whether [`crate::RuntimeSession::run_context`] lets go of values on the way after their last use, instead of keeping
    /// them in the context beside the outputs. Other calls never keep them.
    pub release_intermediates: bool,
}

/// What the calls of one request share: an event log, values by name, kernels of the caller's own, allocators. Cloning gives
/// another handle to the same.
///
/// ```
/// use refeed_runtime::{KernelContext, OpsetId, RuntimeContext, RuntimeContextOptions};
/// let options = RuntimeContextOptions { events_enabled: true, ..RuntimeContextOptions::default() };
/// let context = RuntimeContext::with_options(KernelContext::new(OpsetId::default_opset(18)), options);
/// assert!(context.events().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct RuntimeContext {
    kernel: KernelContext,
    log: Option<EventLog>,
    allocators: Allocators,
    shared: Arc<Shared>,
}

/// The allocators that a context brings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allocators {
    pub(crate) execution: Option<RawBufferAllocator>,
    pub(crate) io: Option<RawBufferAllocator>,
}

impl Allocators {
    /// The allocator whose bytes events tell that no call records.
    fn reported(&self) -> Allocator {
        let memory = self.io.as_ref().or(self.execution.as_ref());
        memory.map_or_else(Allocator::default, |of| Allocator::default().over(of))
    }

    /// Whether two contexts bring the same ones.
    pub(crate) fn same_as(&self, other: &Allocators) -> bool {
        let same = |a: &Option<RawBufferAllocator>, b: &Option<RawBufferAllocator>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => a.same_as(b),
            _ => false,
        };
        same(&self.execution, &other.execution) && same(&self.io, &other.io)
    }
}

/// What all handles of a context see.
#[derive(Debug, Default)]
struct Shared {
    kernels: RegistryCell,
    values: ValueStore,
    release_intermediates: AtomicBool,
}

impl RuntimeContext {
    /// A context without events.
    pub fn new(kernel: KernelContext) -> RuntimeContext {
        RuntimeContext::with_options(kernel, RuntimeContextOptions::default())
    }

    /// A context with settings.
    pub fn with_options(kernel: KernelContext, options: RuntimeContextOptions) -> RuntimeContext {
        let log = options.events_enabled.then(EventLog::default);
        let allocators = Allocators {
            execution: options.allocator,
            io: options.io_allocator,
        };
        let values = match &log {
            Some(log) => ValueStore::reporting(log.clone(), allocators.reported()),
            None => ValueStore::default(),
        };
        RuntimeContext {
            kernel,
            log,
            allocators,
            shared: Arc::new(Shared {
                kernels: RegistryCell::default(),
                values,
                release_intermediates: AtomicBool::new(options.release_intermediates),
            }),
        }
    }

    /// What kernels assume.
    pub fn kernel_context(&self) -> &KernelContext {
        &self.kernel
    }

    /// Whether reports are recorded.
    pub fn events_enabled(&self) -> bool {
        self.log.is_some()
    }

    /// A copy of all recorded events; always empty with events off.
    pub fn events(&self) -> Vec<RuntimeEvent> {
        self.log.as_ref().map(EventLog::events).unwrap_or_default()
    }

    /// Forgets all recorded events, for all sharers of the log.
    pub fn clear_events(&self) {
        if let Some(log) = &self.log {
            log.clear();
        }
    }

    /// Writes the events to a file that Perfetto and Chrome show: JSON of the Trace Event Format, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn export_trace(&self, path: impl AsRef<std::path::Path>) -> Result<(), ModelError> {
        self.log
            .clone()
            .unwrap_or_default()
            .export_trace(path.as_ref())
    }

    /// Where the time of the recorded calls went, node by node; empty with events off.
    pub fn node_table(&self) -> NodeTable {
        self.log.as_ref().map(NodeTable::of).unwrap_or_default()
    }

    /// Records an event outside of any node; nothing with events off. Kernels use
    /// [`crate::kernel::Invocation::record_event`], which says which node reports.
    ///
    /// # Errors
    /// When the event finds no memory.
    pub fn record_event(
        &self,
        action: RuntimeEventAction,
        name: &str,
        storage: StorageReport,
    ) -> Result<(), ContextError> {
        if self.log.is_some() {
            let meter = Meter::new(self.log(), self.allocators.reported(), 1);
            meter.record(action, Some(name), storage);
            meter.check()?;
        }
        Ok(())
    }

    /// Whether [`crate::RuntimeSession::run_context`] lets go of values on the way after their last use.
    pub fn release_intermediates(&self) -> bool {
        self.shared.release_intermediates.load(Ordering::Relaxed)
    }

    /// Says whether later calls of [`crate::RuntimeSession::run_context`] let go of values on the way.
    pub fn set_release_intermediates(&self, release: bool) {
        let flag = &self.shared.release_intermediates;
        flag.store(release, Ordering::Relaxed);
    }

    pub(crate) fn log(&self) -> Option<EventLog> {
        self.log.clone()
    }

    /// Where calls take memory for intermediate values, when the context says so.
    pub fn execution_allocator(&self) -> Option<&RawBufferAllocator> {
        self.allocators.execution.as_ref()
    }

    /// Where calls take memory for outputs, when the context says so.
    pub fn io_allocator(&self) -> Option<&RawBufferAllocator> {
        self.allocators.io.as_ref()
    }

    pub(crate) fn allocators(&self) -> &Allocators {
        &self.allocators
    }

    /// The values that are kept here by name, for [`crate::RuntimeSession::run_context`].
    pub fn values(&self) -> &ValueStore {
        &self.shared.values
    }

    /// Registers a kernel for the calls that are made with this context. It comes before kernels of the process and before
    /// refeed's own; functions of the model come before it.
    ///
    /// `factory` is run when a plan is compiled for a context with these kernels: it reads what it needs of the node, and
    /// gives a kernel that every call then runs. `domain` `"ai.onnx"` is the same as `""`.
    ///
    /// ```
    /// use refeed_runtime::RuntimeContext;
    /// use refeed_runtime::kernel::{Invocation, Kernel, OpError};
    ///
    /// struct Scale(f32);
    ///
    /// impl Kernel for Scale {
    ///     fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
    ///         let x = call.view::<f32>(0)?;
    ///         let mut y = call.allocate(refeed_values::DType::Float, x.shape())?;
    ///         for (y, x) in y.as_mut_slice::<f32>()?.iter_mut().zip(x.iter()) {
    ///             *y = self.0 * x;
    ///         }
    ///         call.set(0, y.freeze());
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let context = RuntimeContext::default();
    /// context.register_kernel("my.ops", "Scale", |node| {
    ///     let by = node.attributes.float("by")?.unwrap_or(1.0);
    ///     Ok(Box::new(Scale(by)))
    /// })?;
    /// # Ok::<(), refeed_runtime::RegisterError>(())
    /// ```
    ///
    /// # Errors
    /// When the operator has no name or is control flow.
    pub fn register_kernel<F>(
        &self,
        domain: &str,
        op_type: &str,
        factory: F,
    ) -> Result<(), RegisterError>
    where
        F: Fn(&mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> + Send + Sync + 'static,
    {
        let factory = Arc::new(factory);
        self.shared.kernels.register(domain, op_type, factory)
    }

    /// Forgets a kernel of this context; false when there is none. Calls from now on do without it.
    pub fn unregister_kernel(&self, domain: &str, op_type: &str) -> bool {
        self.shared.kernels.unregister(domain, op_type)
    }

    /// Forgets all kernels of this context.
    pub fn clear_kernels(&self) {
        self.shared.kernels.clear();
    }

    pub(crate) fn kernels(&self) -> &RegistryCell {
        &self.shared.kernels
    }
}

#[cfg(test)]
mod tests;
