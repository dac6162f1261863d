//! The text as it grows, where in the message the writer is, and what was lost so far.

use super::Fidelity;
use super::error::{Lost, PrintError, Why};
use crate::parser::NESTING_LIMIT;
use crate::syntax::is_identifier;
use std::fmt::Write as _;

/// One step from a message to a part of it.
type Step = (&'static str, Option<usize>);

/// Writes messages; each has a method in the file of its kind.
///
/// Public in name only, as the sealed trait mentions it.
#[derive(Debug)]
pub struct Writer {
    pub(super) text: String,
    /// Blanks before a node.
    pub(super) indent: usize,
    fidelity: Fidelity,
    path: Vec<Step>,
    lost: Vec<Lost>,
    /// Whether messages nest deeper than the parser takes.
    deep: bool,
}

impl Writer {
    pub(super) fn new(fidelity: Fidelity) -> Writer {
        Writer {
            text: String::new(),
            indent: 3,
            fidelity,
            path: Vec::new(),
            lost: Vec::new(),
            deep: false,
        }
    }

    /// The text, unless something was lost that may not be.
    pub(super) fn finish(self, written: bool) -> Result<String, PrintError> {
        let allowed = self.lost.is_empty() || self.fidelity == Fidelity::Lossy;
        if written && allowed && !self.deep {
            Ok(self.text)
        } else {
            Err(PrintError { lost: self.lost })
        }
    }

    /// Does something one step further down in the message.
    pub(super) fn inside<R>(
        &mut self,
        field: &'static str,
        index: Option<usize>,
        act: impl FnOnce(&mut Writer) -> R,
    ) -> R {
        self.path.push((field, index));
        if self.too_deep() && !self.deep {
            self.deep = true;
            let path = self.shown_path();
            self.lost.push(Lost {
                path,
                why: Why::Depth,
            });
        }
        let result = act(self);
        self.path.pop();
        result
    }

    /// Notes that a field is lost.
    pub(super) fn lose(&mut self, field: &'static str, why: Why) {
        self.lose_at(field, None, why);
    }

    /// Notes that one element of a field is lost.
    pub(super) fn lose_at(&mut self, field: &'static str, index: Option<usize>, why: Why) {
        self.path.push((field, index));
        let path = self.shown_path();
        self.path.pop();
        self.lost.push(Lost { path, why });
    }

    /// Whether the message here is deeper inside others than the parser takes; nothing goes further down then.
    pub(super) fn too_deep(&self) -> bool {
        u32::try_from(self.path.len()).is_ok_and(|depth| depth > NESTING_LIMIT)
    }

    fn shown_path(&self) -> String {
        let mut path = String::new();
        for (field, index) in &self.path {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(field);
            if let Some(index) = index {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{index}]");
            }
        }
        path
    }

    /// Notes, when every byte counts, that a field comes back with or without its default.
    pub(super) fn presence(&mut self, field: &'static str, differs: bool) {
        if differs && self.fidelity == Fidelity::Exact {
            self.lose(field, Why::Presence);
        }
    }

    /// Notes, when every byte counts, that a field comes back as another.
    pub(super) fn representation(&mut self, field: &'static str, other: &'static str) {
        if self.fidelity == Fidelity::Exact {
            self.lose(field, Why::Representation { field: other });
        }
    }

    /// Checks a text that the grammar has no place for.
    pub(super) fn no_place(&mut self, field: &'static str, text: Option<&str>) {
        match text {
            None => {}
            Some("") => self.presence(field, true),
            Some(_) => self.lose(field, Why::NoSyntax),
        }
    }

    /// Checks a list, or a message, that the grammar has no place for.
    pub(super) fn none_of(&mut self, field: &'static str, count: usize) {
        if count > 0 {
            self.lose(field, Why::NoSyntax);
        }
    }

    /// Writes things with something before the first, between them, and after the last.
    pub(super) fn list<T>(
        &mut self,
        [open, separator, close]: [&str; 3],
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, usize, T),
    ) {
        self.text.push_str(open);
        for (index, item) in items.into_iter().enumerate() {
            self.text.push_str(if index == 0 { "" } else { separator });
            write(self, index, item);
        }
        self.text.push_str(close);
    }

    /// Writes a name, in quotes when it is no identifier.
    pub(super) fn name(&mut self, name: &str) {
        if is_identifier(name) {
            self.text.push_str(name);
        } else {
            self.string(name);
        }
    }

    /// Writes a string.
    pub(super) fn string(&mut self, value: &str) {
        self.text.push('"');
        let mut rest = value;
        while let Some(at) = rest.find(['"', '\\']) {
            self.text.push_str(&rest[..at]);
            self.text.push('\\');
            self.text.push_str(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        self.text.push_str(rest);
        self.text.push('"');
    }

    /// Writes a string of bytes, which must be UTF-8.
    pub(super) fn bytes(&mut self, field: &'static str, index: Option<usize>, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            self.lose_at(field, index, Why::value("a string in UTF-8", &text));
        }
        self.string(&text);
    }

    /// Writes a word that the grammar takes no quotes around.
    pub(super) fn identifier(&mut self, field: &'static str, word: &str) {
        if is_identifier(word) {
            self.text.push_str(word);
            return;
        }
        let expected = "letters, digits and `_`, no digit first";
        self.lose(field, Why::value(expected, word));
        let spelled = word
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.text.push('_');
        }
        self.text.extend(spelled);
    }

    /// Writes words with dots between them.
    pub(super) fn dotted(&mut self, field: &'static str, words: &str) {
        if words.split('.').all(is_identifier) {
            self.text.push_str(words);
        } else {
            self.identifier(field, words);
        }
    }

    pub(super) fn int(&mut self, value: impl std::fmt::Display) {
        let _ = write!(self.text, "{value}");
    }

    pub(super) fn blanks(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n(' ', count));
    }
}
