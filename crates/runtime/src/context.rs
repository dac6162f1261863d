//! What calls share: the opset that kernels assume, and the event log.

use crate::events::{EventLog, NodeTable, RuntimeEvent};
use refeed_graph::ModelError;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuntimeContextOptions {
    /// Whether kernels' reports are recorded.
    pub events_enabled: bool,
}

/// What the calls of one request share. Cloning gives another handle to the same log.
///
/// ```
/// use refeed_runtime::{KernelContext, OpsetId, RuntimeContext, RuntimeContextOptions};
/// let options = RuntimeContextOptions { events_enabled: true };
/// let context = RuntimeContext::with_options(KernelContext::new(OpsetId::default_opset(18)), options);
/// assert!(context.events().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct RuntimeContext {
    kernel: KernelContext,
    log: Option<EventLog>,
}

impl RuntimeContext {
    /// A context without events.
    pub fn new(kernel: KernelContext) -> RuntimeContext {
        RuntimeContext { kernel, log: None }
    }

    /// A context with settings.
    pub fn with_options(kernel: KernelContext, options: RuntimeContextOptions) -> RuntimeContext {
        RuntimeContext {
            kernel,
            log: options.events_enabled.then(EventLog::default),
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

    pub(crate) fn log(&self) -> Option<EventLog> {
        self.log.clone()
    }
}
