//! What one call reports to.

use super::{
    Captured, EventKind, EventLog, INITIALIZER, INPUT, RuntimeEvent, RuntimeEventAction,
    StorageReport,
};
use refeed_values::{AllocError, Allocator, RuntimeValue};
use std::cell::RefCell;
use std::sync::Arc;

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
#[derive(Debug, Default)]
pub(crate) struct Meter {
    log: Option<EventLog>,
    node: Option<NodeLabel>,
    /// Live and peak bytes of the call's allocator.
    memory: Option<Allocator>,
    threads: usize,
    /// Why an event is missing from the log.
    lost: RefCell<Option<AllocError>>,
    /// Bytes of retained caches that other operators wrote again in this call, by operator.
    pub(crate) rewritten: Vec<(Arc<str>, u64)>,
}

impl Meter {
    pub(crate) fn new(log: Option<EventLog>, memory: Allocator, threads: usize) -> Meter {
        Meter {
            memory: log.is_some().then_some(memory),
            log,
            node: None,
            threads,
            lost: RefCell::new(None),
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

    /// When a node starts that is to be timed; `None` with events off.
    pub(crate) fn start(&self) -> Option<u64> {
        self.log.as_ref().map(EventLog::now)
    }

    /// An event about `node`, or about the graph when there is none.
    fn event(
        &self,
        log: &EventLog,
        node: Option<&NodeLabel>,
        action: RuntimeEventAction,
        kind: EventKind,
    ) -> RuntimeEvent {
        let none: Arc<str> = Arc::from("");
        let within = node.and_then(|label| label.within.clone());
        let text = |pick: fn(&NodeLabel) -> &Arc<str>| {
            node.map_or_else(|| none.clone(), |label| pick(label).clone())
        };
        let bytes = |pick: fn(&Allocator) -> usize| {
            self.memory.as_ref().map_or(0, |memory| pick(memory) as u64)
        };
        RuntimeEvent {
            action,
            kind,
            timestamp_ns: log.now(),
            name: text(|label| &label.name),
            captured: Captured::default(),
            op_domain: text(|label| &label.domain),
            op_type: text(|label| &label.op_type),
            inputs: Vec::new(),
            duration_ns: 0,
            threads: self.threads,
            node_index: node.map_or(INPUT, |label| label.index as i64),
            subgraph_node_index: within.as_ref().map_or(-1, |(index, _)| *index as i64),
            subgraph_attr_name: within.map_or_else(|| none.clone(), |(_, name)| name),
            allocated_bytes: bytes(|memory| match memory.source() {
                Some(source) => source.live_bytes(),
                None => memory.live_bytes(),
            }),
            peak_bytes: bytes(|memory| match memory.source() {
                Some(source) => source.peak_bytes(),
                None => memory.peak_bytes(),
            }),
            storage: StorageReport::default(),
        }
    }

    fn push(&self, log: &EventLog, event: RuntimeEvent) {
        if let Err(error) = log.push(event) {
            self.lost.replace(Some(error));
        }
    }

    /// Whether every event of the call is in the log.
    ///
    /// # Errors
    /// When there was no memory for one.
    pub(crate) fn check(&self) -> Result<(), AllocError> {
        self.lost.take().map_or(Ok(()), Err)
    }

    /// Records storage work of the node that runs.
    pub(crate) fn storage(&mut self, storage: StorageReport) {
        self.record(RuntimeEventAction::PersistentStorage, None, storage);
    }

    /// Records an event of the node that runs, as its kernel tells it; `name` replaces the node's.
    pub(crate) fn record(
        &self,
        action: RuntimeEventAction,
        name: Option<&str>,
        storage: StorageReport,
    ) {
        let Some(log) = &self.log else { return };
        let kind = match action {
            RuntimeEventAction::PersistentStorage => EventKind::Storage,
            RuntimeEventAction::RunNode => EventKind::Node,
            _ => EventKind::Result,
        };
        let mut event = self.event(log, self.node.as_ref(), action, kind);
        if let Some(name) = name {
            event.name = Arc::from(name);
        }
        self.push(log, RuntimeEvent { storage, ..event });
    }

    /// Records that a graph input has its value.
    pub(crate) fn input(&self, name: &Arc<str>, value: &RuntimeValue, initializer: bool) {
        let Some(log) = &self.log else { return };
        let (kind, node_index) = match initializer {
            true => (EventKind::Initializer, INITIALIZER),
            false => (EventKind::Input, INPUT),
        };
        let event = self.event(log, None, RuntimeEventAction::Add, kind);
        self.push(
            log,
            RuntimeEvent {
                name: name.clone(),
                captured: Captured::of(value),
                node_index,
                ..event
            },
        );
    }

    /// Records an edit of the values that a context keeps.
    pub(crate) fn stored(
        &self,
        action: RuntimeEventAction,
        kind: EventKind,
        name: &str,
        captured: Captured,
    ) {
        let Some(log) = &self.log else { return };
        let event = self.event(log, None, action, kind);
        let node_index = match kind {
            EventKind::Initializer => INITIALIZER,
            _ => INPUT,
        };
        self.push(
            log,
            RuntimeEvent {
                name: Arc::from(name),
                captured,
                node_index,
                ..event
            },
        );
    }

    /// Records that a node ran, from `started` until now.
    pub(crate) fn ran(&self, node: &NodeLabel, started: Option<u64>, inputs: Vec<Arc<str>>) {
        let (Some(log), Some(started)) = (&self.log, started) else {
            return;
        };
        let event = self.event(
            log,
            Some(node),
            RuntimeEventAction::RunNode,
            EventKind::Node,
        );
        self.push(
            log,
            RuntimeEvent {
                duration_ns: event.timestamp_ns.saturating_sub(started),
                inputs,
                ..event
            },
        );
    }

    /// Records that a node's result takes its place.
    pub(crate) fn result(
        &self,
        node: &NodeLabel,
        name: Arc<str>,
        value: &RuntimeValue,
        replaces: bool,
    ) {
        let Some(log) = &self.log else { return };
        let action = match replaces {
            true => RuntimeEventAction::Replace,
            false => RuntimeEventAction::Add,
        };
        let event = self.event(log, Some(node), action, EventKind::Result);
        self.push(
            log,
            RuntimeEvent {
                name,
                captured: Captured::of(value),
                ..event
            },
        );
    }

    /// Records that nobody reads a value any more.
    pub(crate) fn removed(&self, node: &NodeLabel, name: Arc<str>) {
        let Some(log) = &self.log else { return };
        let event = self.event(
            log,
            Some(node),
            RuntimeEventAction::Remove,
            EventKind::Result,
        );
        self.push(log, RuntimeEvent { name, ..event });
    }

    /// Counts bytes of a retained cache that an ordinary operator wrote again.
    pub(crate) fn rewrite(&mut self, op_type: &Arc<str>, bytes: u64) {
        match self.rewritten.iter_mut().find(|(name, _)| name == op_type) {
            Some((_, sum)) => *sum += bytes,
            None => self.rewritten.push((op_type.clone(), bytes)),
        }
    }
}
