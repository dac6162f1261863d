//! Templates: literal text with placeholders, on both sides of an arrow.
//!
//! `past.{i}.{kv} -> present.{i}.{kv}`: a placeholder stands for one or more characters other than `.`. Both sides have
//! the same placeholders, each once, so a template leads from one input to one output and back.

use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// Longer names fit no template; longer templates are refused.
const LENGTH: usize = 1024;

/// A text that is no template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// Not two sides.
    #[error("expected `input -> output` with one arrow")]
    Arrow,
    /// A side without text.
    #[error("expected text on both sides of the arrow")]
    Empty,
    /// Longer than any name.
    #[error("expected at most {LENGTH} bytes a side, got {0}")]
    TooLong(usize),
    /// A brace without its partner.
    #[error("unbalanced brace")]
    Brace,
    /// A placeholder whose name is not letters, digits and underscores.
    #[error("placeholder `{{{0}}}`: expected a name of letters, digits and underscores")]
    Placeholder(String),
    /// Two placeholders without text between them.
    #[error("expected text between the placeholders `{{{0}}}` and `{{{1}}}`")]
    Adjacent(String, String),
    /// A placeholder twice on one side.
    #[error("placeholder `{{{0}}}` stands twice on one side")]
    Repeated(String),
    /// A placeholder on one side only.
    #[error("placeholder `{{{0}}}` stands on one side only")]
    OneSided(String),
}

/// A name that a side fits in more than one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ambiguous;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Placeholder(String),
}

impl Part {
    fn placeholder(&self) -> Option<&str> {
        match self {
            Part::Placeholder(name) => Some(name),
            Part::Text(_) => None,
        }
    }
}

/// One side of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Side {
    parts: Vec<Part>,
}

impl Side {
    pub(crate) fn new(text: &str) -> Result<Side, TemplateError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        if text.len() > LENGTH {
            return Err(TemplateError::TooLong(text.len()));
        }
        let mut parts = Vec::new();
        let mut seen = BTreeSet::new();
        let mut rest = text;
        while !rest.is_empty() {
            let literal = rest.find(['{', '}']).unwrap_or(rest.len());
            if literal > 0 {
                parts.push(Part::Text(rest[..literal].to_string()));
                rest = &rest[literal..];
                continue;
            }
            let inner = rest.strip_prefix('{').ok_or(TemplateError::Brace)?;
            let end = inner.find('}').ok_or(TemplateError::Brace)?;
            let name = &inner[..end];
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(TemplateError::Placeholder(name.to_string()));
            }
            if !seen.insert(name.to_string()) {
                return Err(TemplateError::Repeated(name.to_string()));
            }
            if let Some(Part::Placeholder(before)) = parts.last() {
                return Err(TemplateError::Adjacent(before.clone(), name.to_string()));
            }
            parts.push(Part::Placeholder(name.to_string()));
            rest = &inner[end + 1..];
        }
        Ok(Side { parts })
    }

    fn placeholders(&self) -> BTreeSet<&str> {
        self.parts.iter().filter_map(Part::placeholder).collect()
    }

    /// Whether a name fits, in one way or more.
    pub(crate) fn fits(&self, name: &str) -> bool {
        !matches!(self.pieces(name), Ok(None))
    }

    /// What the placeholders stand for in a name, in their order; `None` when the name does not fit.
    ///
    /// Works backwards: `ways[at]` counts, up to two, the ways in which the parts so far fit the rest of the name from
    /// byte `at` on. One row per part is kept, to walk the only way forwards afterwards.
    fn pieces<'n>(&self, name: &'n str) -> Result<Option<Vec<&'n str>>, Ambiguous> {
        let length = name.len();
        if length > LENGTH {
            return Ok(None);
        }
        let mut last = vec![0u8; length + 1];
        last[length] = 1;
        let mut rows = vec![last];
        for part in self.parts.iter().rev() {
            let next = &rows[rows.len() - 1];
            let mut row = vec![0u8; length + 1];
            for at in (0..=length).filter(|&at| name.is_char_boundary(at)) {
                row[at] = match part {
                    Part::Text(text) if name[at..].starts_with(text) => next[at + text.len()],
                    Part::Text(_) => 0,
                    Part::Placeholder(_) => {
                        let piece = name[at..].find('.').unwrap_or(length - at);
                        next[at + 1..=at + piece]
                            .iter()
                            .fold(0u8, |sum, &ways| (sum + ways).min(2))
                    }
                };
            }
            rows.push(row);
        }
        match rows[rows.len() - 1][0] {
            0 => return Ok(None),
            1 => {}
            _ => return Err(Ambiguous),
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let next = &rows[self.parts.len() - 1 - index];
            match part {
                Part::Text(text) => at += text.len(),
                Part::Placeholder(_) => {
                    // There is exactly one way on.
                    let Some(end) = (at + 1..=length).find(|&end| next[end] > 0) else {
                        return Ok(None);
                    };
                    pieces.push(&name[at..end]);
                    at = end;
                }
            }
        }
        Ok(Some(pieces))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Placeholder(name) => write!(f, "{{{name}}}")?,
            }
        }
        Ok(())
    }
}

/// A template with both its sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    input: Side,
    output: Side,
}

impl Template {
    /// Reads `input -> output`.
    ///
    /// ```
    /// use refeed_graph::bind::Template;
    /// let template = Template::new("past.{i}.{kv} -> present.{i}.{kv}").unwrap();
    /// assert_eq!(template.output_of("past.11.key").unwrap().as_deref(), Some("present.11.key"));
    /// assert_eq!(template.output_of("past.11").unwrap(), None);
    /// ```
    ///
    /// # Errors
    /// When the text is no template.
    pub fn new(text: &str) -> Result<Template, TemplateError> {
        let (input, output) = text.split_once("->").ok_or(TemplateError::Arrow)?;
        if output.contains("->") {
            return Err(TemplateError::Arrow);
        }
        let (input, output) = (Side::new(input)?, Side::new(output)?);
        if let Some(name) = input
            .placeholders()
            .symmetric_difference(&output.placeholders())
            .next()
        {
            return Err(TemplateError::OneSided((*name).to_string()));
        }
        Ok(Template { input, output })
    }

    /// The output that belongs to an input; `None` when the input does not fit.
    ///
    /// # Errors
    /// When the input fits in more than one way.
    pub fn output_of(&self, input: &str) -> Result<Option<String>, Ambiguous> {
        let Some(pieces) = self.input.pieces(input)? else {
            return Ok(None);
        };
        let names = self.input.parts.iter().filter_map(Part::placeholder);
        let pieces: Vec<(&str, &str)> = names.zip(pieces).collect();
        let mut output = String::new();
        for part in &self.output.parts {
            match part {
                Part::Text(text) => output.push_str(text),
                Part::Placeholder(name) => {
                    output.extend(
                        pieces
                            .iter()
                            .filter(|(of, _)| of == name)
                            .map(|(_, piece)| *piece),
                    );
                }
            }
        }
        Ok(Some(output))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.input, self.output)
    }
}
