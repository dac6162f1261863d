//! Runtime events: what kernels report about storage, recorded in a log that a context and its calls share.
//!
//! With events off nothing is recorded, no counter moves and no lock is taken.

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

/// One recorded fact.
#[derive(Debug, Clone)]
pub struct RuntimeEvent {
    /// What happened.
    pub action: RuntimeEventAction,
    /// Nanoseconds since the log was made.
    pub timestamp_ns: u64,
    /// Name of the node, or `""` when the model gives it none.
    pub name: Arc<str>,
    /// Domain of the node's operator.
    pub op_domain: Arc<str>,
    /// The node's operator.
    pub op_type: Arc<str>,
    /// Position of the node in the root graph; -1 outside a node.
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

    /// Forgets all recorded events, for all sharers.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RuntimeEvent>> {
        // A panic while pushing leaves a valid vector.
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a node stands, for events and errors.
#[derive(Debug, Clone)]
pub(crate) struct NodeLabel {
    pub(crate) name: Arc<str>,
    pub(crate) domain: Arc<str>,
    pub(crate) op_type: Arc<str>,
    /// Position in the graph that holds the node; that of the call for nodes of a function.
    pub(crate) index: usize,
    /// Root position and attribute of the control-flow node around it.
    pub(crate) within: Option<(usize, Arc<str>)>,
}

/// What one call reports to: a log, or nothing.
#[derive(Debug)]
pub(crate) struct Meter {
    log: Option<EventLog>,
    node: Option<NodeLabel>,
    /// Live and peak bytes of the call's allocator.
    memory: Option<refeed_values::Allocator>,
    /// Bytes of retained caches that other operators wrote again in this call, by operator.
    pub(crate) rewritten: Vec<(Arc<str>, u64)>,
}

impl Meter {
    pub(crate) fn new(log: Option<EventLog>, memory: refeed_values::Allocator) -> Meter {
        Meter {
            memory: log.is_some().then_some(memory),
            log,
            node: None,
            rewritten: Vec::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.log.is_some()
    }

    /// Says which node reports next.
    pub(crate) fn enter(&mut self, node: &NodeLabel) {
        if self.log.is_some() {
            self.node = Some(node.clone());
        }
    }

    /// Records storage work.
    pub(crate) fn storage(&mut self, storage: StorageReport) {
        let Some(log) = &self.log else { return };
        let none: Arc<str> = Arc::from("");
        let label = self.node.as_ref();
        let within = label.and_then(|label| label.within.clone());
        let text = |pick: fn(&NodeLabel) -> &Arc<str>| {
            label.map_or_else(|| none.clone(), |l| pick(l).clone())
        };
        let bytes = |pick: fn(&refeed_values::Allocator) -> usize| {
            self.memory.as_ref().map_or(0, |memory| pick(memory) as u64)
        };
        let event = RuntimeEvent {
            action: RuntimeEventAction::PersistentStorage,
            timestamp_ns: u64::try_from(log.0.start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            name: text(|l| &l.name),
            op_domain: text(|l| &l.domain),
            op_type: text(|l| &l.op_type),
            node_index: label.map_or(-1, |l| l.index as i64),
            subgraph_node_index: within.as_ref().map_or(-1, |(index, _)| *index as i64),
            subgraph_attr_name: within.map_or_else(|| none.clone(), |(_, name)| name),
            allocated_bytes: bytes(refeed_values::Allocator::live_bytes),
            peak_bytes: bytes(refeed_values::Allocator::peak_bytes),
            storage,
        };
        log.lock().push(event);
    }

    /// Counts bytes of a retained cache that an ordinary operator wrote again.
    pub(crate) fn rewrite(&mut self, op_type: &Arc<str>, bytes: u64) {
        match self.rewritten.iter_mut().find(|(name, _)| name == op_type) {
            Some((_, sum)) => *sum += bytes,
            None => self.rewritten.push((op_type.clone(), bytes)),
        }
    }
}
