//! What was bound, by what.

use crate::bindings::BindingUses;
use crate::load::shown;
use crate::publish::Publish;
use crate::uses::InputUses;
use std::fmt;

/// What found a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchedBy {
    /// The graph had it already.
    Graph,
    /// An explicit pair.
    Pair,
    /// A template of the request, as written.
    Template(String),
    /// A known scheme, by name.
    Scheme(&'static str),
}

impl fmt::Display for MatchedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatchedBy::Graph => f.write_str("the graph"),
            MatchedBy::Pair => f.write_str("a pair"),
            MatchedBy::Template(text) => write!(f, "template `{}`", shown(text)),
            MatchedBy::Scheme(name) => write!(f, "scheme {name}"),
        }
    }
}

/// One binding of the new model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPair {
    /// Graph input.
    pub input: String,
    /// Graph output.
    pub output: String,
    /// Declared type of the input.
    pub input_type: String,
    /// Declared type of the output.
    pub output_type: String,
    /// What found the pair.
    pub by: MatchedBy,
    /// When the output is published.
    pub publish: Publish,
    /// What uses the input.
    pub uses: InputUses,
}

/// What [`bind`](crate::bind::bind) did. Its text is a table, one binding a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindReport {
    /// All bindings of the new model, in the order of declaration.
    pub pairs: Vec<BoundPair>,
    /// The use policy of the new model.
    pub uses: BindingUses,
    /// What the caller may want to know.
    pub warnings: Vec<String>,
}

impl fmt::Display for BindReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["input", "output", "type", "uses", "publish", "matched by"].map(str::to_string);
        let rows = self.pairs.iter().map(|pair| {
            let uses = pair.uses.count.to_string();
            let publish = pair.publish.to_string();
            [
                shown(&pair.input),
                shown(&pair.output),
                pair.input_type.clone(),
                uses,
                publish,
                pair.by.to_string(),
            ]
        });
        let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
        let mut widths = [0; 6];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                line.push_str(&format!("{gap}{cell:width$}"));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        write!(f, "binding uses: {}", self.uses)?;
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
        }
        Ok(())
    }
}
