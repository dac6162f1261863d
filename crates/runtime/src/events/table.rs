//! Where the time of a log's calls went, node by node.

use super::{EventLog, RuntimeEventAction};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The runs of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTiming {
    /// Position in the graph that holds the node.
    pub node_index: i64,
    /// Position in the root graph of the control-flow node around it; -1 when there is none.
    pub subgraph_node_index: i64,
    /// Name of the node; may be empty.
    pub name: Arc<str>,
    /// Operator domain.
    pub op_domain: Arc<str>,
    /// Operator.
    pub op_type: Arc<str>,
    /// How often it ran.
    pub calls: u64,
    /// Nanoseconds of all runs, those of nodes in its subgraphs included.
    pub total_ns: u64,
    /// The shortest run.
    pub min_ns: u64,
    /// The longest run.
    pub max_ns: u64,
}

/// One row a node, the most time first; `Display` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeTable {
    /// The rows.
    pub rows: Vec<NodeTiming>,
}

impl NodeTable {
    pub(crate) fn of(log: &EventLog) -> NodeTable {
        let mut rows: Vec<NodeTiming> = Vec::new();
        let mut places = HashMap::new();
        for event in log.lock().iter() {
            if event.action != RuntimeEventAction::RunNode {
                continue;
            }
            let key = (
                event.subgraph_node_index,
                event.subgraph_attr_name.clone(),
                event.node_index,
                event.name.clone(),
                event.op_type.clone(),
            );
            let at = *places.entry(key).or_insert_with(|| {
                rows.push(NodeTiming {
                    node_index: event.node_index,
                    subgraph_node_index: event.subgraph_node_index,
                    name: event.name.clone(),
                    op_domain: event.op_domain.clone(),
                    op_type: event.op_type.clone(),
                    calls: 0,
                    total_ns: 0,
                    min_ns: u64::MAX,
                    max_ns: 0,
                });
                rows.len() - 1
            });
            let row = &mut rows[at];
            row.calls += 1;
            row.total_ns = row.total_ns.saturating_add(event.duration_ns);
            row.min_ns = row.min_ns.min(event.duration_ns);
            row.max_ns = row.max_ns.max(event.duration_ns);
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        NodeTable { rows }
    }
}

impl fmt::Display for NodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>12} {:>8} {:>12} {:>12}  node",
            "total us", "calls", "mean us", "max us"
        )?;
        let us = |ns: u64| ns as f64 / 1e3;
        for row in &self.rows {
            let mean = us(row.total_ns) / row.calls.max(1) as f64;
            let (total, max) = (us(row.total_ns), us(row.max_ns));
            write!(
                f,
                "{total:>12.1} {:>8} {mean:>12.1} {max:>12.1}  ",
                row.calls
            )?;
            if row.subgraph_node_index >= 0 {
                write!(f, "{}/", row.subgraph_node_index)?;
            }
            writeln!(f, "{} {} {}", row.node_index, row.op_type, row.name)?;
        }
        Ok(())
    }
}
