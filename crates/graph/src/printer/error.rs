//! What a text cannot carry.

use crate::load::shown;
use crate::parser::NESTING_LIMIT;
use std::fmt;
use thiserror::Error;

/// Why a field would not come back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The grammar has no place for it.
    NoSyntax,
    /// The grammar has a place, but not for this value: what it takes there, and what the value is.
    Value {
        /// What can be written.
        expected: &'static str,
        /// What the field holds.
        got: String,
    },
    /// It is a field that the schema does not know; the structs that are printed have no place for it, so only callers that
    /// know the message in another form can say so.
    Unknown,
    /// It is deeper inside other messages than the parser takes.
    Depth,
    /// The text needs it, and it is absent.
    Missing,
    /// It is absent and comes back with its default, or the reverse. Only `Exact` asks for that.
    Presence,
    /// It comes back in another field, with the same bits. Only `Exact` asks for that.
    Representation {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NoSyntax => f.write_str("has no syntax"),
            Why::Value { expected, got } => write!(f, "expected {expected}, got {got}"),
            Why::Unknown => f.write_str("is a field that the schema does not know"),
            Why::Depth => write!(f, "is inside more than {NESTING_LIMIT} messages"),
            Why::Missing => f.write_str("is absent"),
            Why::Presence => {
                f.write_str("is absent or holds its default, and would come back the other way")
            }
            Why::Representation { field } => write!(f, "would come back as {field}"),
        }
    }
}

/// A field that would not come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its path from the printed message: `graph.node[3].attribute[0].t.raw_data`.
    pub path: String,
    /// Why it would not.
    pub why: Why,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// A message that the text form cannot carry.
///
/// ```
/// use refeed_graph::printer::{Fidelity, to_text};
/// use refeed_proto::NodeProto;
/// let node = NodeProto { doc_string: Some("adds".into()), ..Default::default() };
/// let error = to_text(&node, Fidelity::Equivalent).unwrap_err();
/// assert_eq!(error.lost[0].path, "doc_string");
/// assert_eq!(error.to_string(), "the text form cannot carry 1 field: doc_string: has no syntax");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct PrintError {
    /// Every field that would be lost, in the order of the text.
    pub lost: Vec<Lost>,
}

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        let count = self.lost.len();
        let fields = if count == 1 { "field" } else { "fields" };
        write!(f, "the text form cannot carry {count} {fields}: ")?;
        for (index, lost) in self.lost.iter().take(SHOWN).enumerate() {
            write!(f, "{}{lost}", if index == 0 { "" } else { "; " })?;
        }
        if count > SHOWN {
            write!(f, "; and {} more", count - SHOWN)?;
        }
        Ok(())
    }
}

impl Why {
    pub(super) fn value(expected: &'static str, got: &str) -> Why {
        Why::Value {
            expected,
            got: format!("`{}`", shown(got)),
        }
    }
}
