//! Runtime events: which values come and go, which nodes run and for how long, and what kernels report about storage,
//! recorded in a log that a context and its calls share.
//!
//! With events off nothing is recorded, no clock is read, no counter moves and no lock is taken: a call without a log has
//! a `Meter` whose every method starts by finding that out.

mod capture;
mod meter;
mod table;
mod trace;

pub use capture::{CAPTURED, Captured};
pub(crate) use meter::{Meter, NodeLabel};
pub use table::{NodeTable, NodeTiming};

use refeed_values::AllocError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What an event is about. The numbers are part of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum RuntimeEventAction {
    /// A value was added.
    Add = 0,
    /// A value was replaced.
    Replace = 1,
    /// A value was removed.
    Remove = 2,
    /// A node ran.
    RunNode = 3,
    /// A kernel reports storage work of a persistent value.
    PersistentStorage = 4,
}

impl RuntimeEventAction {
    /// The name that dictionaries carry.
    pub const fn name(self) -> &'static str {
        match self {
            RuntimeEventAction::Add => "add",
            RuntimeEventAction::Replace => "replace",
            RuntimeEventAction::Remove => "remove",
            RuntimeEventAction::RunNode => "run_node",
            RuntimeEventAction::PersistentStorage => "persistent_storage",
        }
    }
}

/// Storage work of one append, or of its dense fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageReport {
    /// Buffers requested.
    pub allocations: u64,
    /// Bytes requested for them, capacity included.
    pub allocated_bytes: u64,
    /// Bytes of earlier rows that were copied.
    pub prefix_copied_bytes: u64,
    /// Bytes of new rows that were copied in.
    pub append_copied_bytes: u64,
    /// Appends that found room in the buffer they already had.
    pub reuse_count: u64,
}

impl StorageReport {
    /// Adds another report to this one.
    pub fn add(&mut self, other: &StorageReport) {
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
        self.prefix_copied_bytes += other.prefix_copied_bytes;
        self.append_copied_bytes += other.append_copied_bytes;
        self.reuse_count += other.reuse_count;
    }
}

/// What a value is to the graph, or what else an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A graph input, fed or retained.
    Input,
    /// A graph input that an initializer gives.
    Initializer,
    /// A result of a node.
    Result,
    /// A node.
    Node,
    /// Storage of a persistent value.
    Storage,
}

impl EventKind {
    /// The name: `"input"`, `"initializer"`, `"result"`, `"node"`, `"storage"`.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Input => "input",
            EventKind::Initializer => "initializer",
            EventKind::Result => "result",
            EventKind::Node => "node",
            EventKind::Storage => "storage",
        }
    }
}

/// Node index of events about graph inputs.
pub const INPUT: i64 = -1;
/// Node index of events about initializers.
pub const INITIALIZER: i64 = -2;

/// One recorded fact.
#[derive(Debug, Clone)]
pub struct RuntimeEvent {
    /// What happened.
    pub action: RuntimeEventAction,
    /// What it happened to.
    pub kind: EventKind,
    /// Nanoseconds since the log was made, at the end of what happened.
    pub timestamp_ns: u64,
    /// Name of the value, or of the node; `""` when the model gives it none.
    pub name: Arc<str>,
    /// What a small tensor held.
    pub captured: Captured,
    /// Domain of the node's operator.
    pub op_domain: Arc<str>,
    /// The node's operator.
    pub op_type: Arc<str>,
    /// Names of the values that a node read; `""` for one without a name.
    pub inputs: Vec<Arc<str>>,
    /// How long a node ran, in nanoseconds, the nodes of its subgraphs included.
    pub duration_ns: u64,
    /// Threads that the node could use.
    pub threads: usize,
    /// Position of the node in the root graph; [`INPUT`] and [`INITIALIZER`] outside a node.
    pub node_index: i64,
    /// Position, in the root graph, of the control-flow node around it; -1 when there is none.
    pub subgraph_node_index: i64,
    /// Attribute of that control-flow node that holds the graph; `""` when there is none.
    pub subgraph_attr_name: Arc<str>,
    /// Bytes that the call's allocator had in use.
    pub allocated_bytes: u64,
    /// The most bytes it ever had in use.
    pub peak_bytes: u64,
    /// The five storage counters.
    pub storage: StorageReport,
}

#[derive(Debug)]
struct Log {
    start: Instant,
    events: Mutex<Vec<RuntimeEvent>>,
}

/// A log of events; clones share it.
#[derive(Debug, Clone)]
pub struct EventLog(Arc<Log>);

impl Default for EventLog {
    fn default() -> Self {
        EventLog(Arc::new(Log {
            start: Instant::now(),
            events: Mutex::default(),
        }))
    }
}

impl EventLog {
    /// A copy of all recorded events.
    pub fn events(&self) -> Vec<RuntimeEvent> {
        self.lock().clone()
    }

    /// Nanoseconds since the log was made.
    fn now(&self) -> u64 {
        u64::try_from(self.0.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// # Errors
    /// When there is no memory for one more event.
    fn push(&self, event: RuntimeEvent) -> Result<(), AllocError> {
        let mut events = self.lock();
        let refused = events.try_reserve(1).is_err();
        #[cfg(feature = "testing")]
        let refused = refused || refeed_values::testing::strike(crate::testing::Site::Event);
        if refused {
            let requested = size_of::<RuntimeEvent>();
            return Err(AllocError::Exhausted { requested });
        }
        events.push(event);
        Ok(())
    }

    /// Forgets all recorded events, for all sharers.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RuntimeEvent>> {
        // A panic while pushing leaves a valid vector.
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
