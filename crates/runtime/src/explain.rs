//! Why a binding's value was appended in place, moved, or copied.

use crate::recognition::AttentionForm;
use refeed_values::append::Outcome as Placed;
use refeed_values::{RuntimeValue, paged_cache};
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
    /// A paged cache, before any call: new tokens become pages behind the old ones.
    AppendsPages,
    /// A paged cache with new tokens. All pages but the last one stay where they are.
    Pages {
        /// New pages.
        added: usize,
        /// What became of the page that was the last one.
        last: LastPage,
    },
}

/// What became of the page that was the last one of a paged cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastPage {
    /// It stays as it is, or there was none.
    Kept,
    /// New rows were written behind its own.
    InPlace,
    /// It was written again, with new rows.
    Copied,
}

impl Outcome {
    /// How a cache in pages came from another by new tokens; `None` when it did not.
    pub(crate) fn of_pages(old: &RuntimeValue, new: &RuntimeValue) -> Option<Outcome> {
        let (old, new) = (paged_cache::blocks(old)?, paged_cache::blocks(new)?);
        let added = new.len().checked_sub(old.len())?;
        let Some(index) = old.len().checked_sub(1) else {
            let last = LastPage::Kept;
            return Some(Outcome::Pages { added, last });
        };
        let before = paged_cache::page(old.at(index).ok()?).ok()?;
        let after = paged_cache::page(new.at(index).ok()?).ok()?;
        let stays = [(before.key, after.key), (before.value, after.value)]
            .iter()
            .all(|(before, after)| place(before).is_some_and(|at| place(after) == Some(at)));
        let last = match (after.start == before.start, stays) {
            (true, true) if after.length == before.length => LastPage::Kept,
            (true, true) if after.length > before.length => LastPage::InPlace,
            (true, false) if after.length > before.length => LastPage::Copied,
            _ => return None,
        };
        Some(Outcome::Pages { added, last })
    }
}

/// Where the payload of a page lies.
fn place(payload: &RuntimeValue) -> Option<*const u8> {
    match payload {
        RuntimeValue::Tensor(tensor) => Some(tensor.as_ptr()),
        RuntimeValue::Encoded(encoded) => Some(encoded.payload().as_ptr()),
        _ => None,
    }
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
            Outcome::AppendsPages => f.write_str("appends pages"),
            Outcome::Pages { added, last } => {
                let how = match last {
                    LastPage::Kept => None,
                    LastPage::InPlace => Some("in place"),
                    LastPage::Copied => Some("copied the last page with new rows"),
                };
                let pages = match added {
                    0 if how.is_some() => None,
                    0 => Some("appended no page".to_string()),
                    1 => Some("appended a page".to_string()),
                    many => Some(format!("appended {many} pages")),
                };
                match (how, pages) {
                    (Some(how), Some(pages)) => write!(f, "{how}, {pages}"),
                    (Some(how), None) => f.write_str(how),
                    (None, pages) => f.write_str(&pages.unwrap_or_default()),
                }
            }
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
    /// Extents of the retained value; of a paged cache batch, heads, tokens and the width of keys.
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
