//! Why a binding's value was appended in place, moved, or copied.

use crate::recognition::AttentionForm;
use refeed_values::append::Outcome as Placed;
use std::fmt;
use std::sync::Arc;

/// What a call did to get a binding's next value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// No call has run yet.
    NotRun,
    /// The new rows were written behind the old ones; nothing was copied.
    InPlace,
    /// The buffer was full (or there was none): a larger one was made and the valid prefix copied once.
    Grown(String),
    /// The whole value was written again, for this reason.
    Copied(String),
    /// The value is a new result of this operator each call; there is nothing to append to.
    Computed(Arc<str>),
    /// The old value was kept, as the binding's publication asks.
    Kept,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::NotRun => f.write_str("not run yet"),
            Outcome::InPlace => f.write_str("in place"),
            Outcome::Grown(how) => write!(f, "grown: {how}"),
            Outcome::Copied(why) => write!(f, "copied because {why}"),
            Outcome::Computed(op_type) => write!(f, "computed by {op_type}"),
            Outcome::Kept => f.write_str("kept"),
        }
    }
}

impl From<&Placed> for Outcome {
    fn from(placed: &Placed) -> Outcome {
        match placed {
            Placed::InPlace => Outcome::InPlace,
            Placed::Grown { .. } => Outcome::Grown(placed.to_string()),
            Placed::Moved { .. } => Outcome::Copied(placed.to_string()),
        }
    }
}

/// The state of one binding after the last call.
#[derive(Debug, Clone)]
pub struct BindingReport {
    /// The graph input.
    pub input: Arc<str>,
    /// The graph output that feeds it.
    pub output: Arc<str>,
    /// What the last call did.
    pub outcome: Outcome,
    /// Extents of the retained value.
    pub shape: Vec<usize>,
    /// Rows that fit before the buffer must grow; 0 when the value has no capacity.
    pub capacity_rows: usize,
    /// Bytes of the visible elements.
    pub logical_bytes: usize,
}

impl fmt::Display for BindingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} <- {}: {} {:?}",
            self.input, self.output, self.outcome, self.shape
        )?;
        if self.capacity_rows > 0 {
            write!(f, ", capacity {} rows", self.capacity_rows)?;
        }
        Ok(())
    }
}

/// What a state would answer about its last call.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// One entry a binding, in the model's order.
    pub bindings: Vec<BindingReport>,
    /// Outputs that were copied so that they share no memory with a feed, with the bytes copied.
    pub materialised: Vec<(Arc<str>, usize)>,
    /// Bytes of retained caches that ordinary operators (Expand, Reshape, Transpose, ...) wrote again, by operator.
    /// Counted only while events are on.
    pub rewritten: Vec<(Arc<str>, u64)>,
    /// Attention that the graph writes out in single nodes, and which of it runs through the attention kernel.
    pub attention: Vec<AttentionForm>,
    /// Declarations that the values contradict and that `binding_uses = any` lets pass.
    pub warnings: Vec<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for binding in &self.bindings {
            writeln!(f, "{binding}")?;
        }
        for (name, bytes) in &self.materialised {
            writeln!(
                f,
                "{name}: {bytes} bytes copied, so that it shares no memory that the caller lent"
            )?;
        }
        for (op_type, bytes) in &self.rewritten {
            writeln!(f, "{op_type} wrote {bytes} bytes of retained values again")?;
        }
        for form in &self.attention {
            writeln!(f, "{form}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
