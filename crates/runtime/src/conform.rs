//! Values against declared types.
//!
//! A declaration is prepared once ([`Symbols::rule`]): symbolic dimensions become numbers, struct types their fields,
//! references what they refer to. A value is then walked beside it:
//!
//! * tensors by element type, rank and extents; encoded values by what they decode to, without decoding;
//! * structs field by field, or, where the declaration is one of a paged cache, page by page by the rules of caches;
//! * sequences element by element, through a memo: what was once found to fit is not looked at again, so a step that
//!   appends to a long sequence looks at the new element and at O(log n) nodes around it.
//!
//! One [`Table`] a call says what each symbol stands for. A memo keeps the least and the most extent that a symbol has in
//! a part of a sequence, and the whole sequence is held to the table by these.

mod check;
mod error;
mod facts;
mod rule;
#[cfg(test)]
mod tests;

pub use error::ConformError;
pub(crate) use rule::{Refused, Rule, Symbols};

use facts::Facts;
use refeed_values::SequenceMemo;
use std::collections::HashMap;

/// What each symbol stands for in one call, and what is known of sequences from earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Table {
    values: Vec<Option<usize>>,
    /// By sequence type, and by the fields that lead to the sequence: a declaration that stands in many places has a memo
    /// in each. Elements of one sequence share the memos of the sequences inside them.
    memos: HashMap<(usize, u64), SequenceMemo<Facts>>,
}

impl Table {
    /// Forgets the extents; what is known of sequences stays, because it is true of their nodes in every call.
    pub(crate) fn clear(&mut self) {
        self.values.fill(None);
    }

    /// How many nodes of sequences something is known of.
    #[cfg(test)]
    pub(crate) fn known_nodes(&self) -> usize {
        self.memos.values().map(SequenceMemo::len).sum()
    }
}
