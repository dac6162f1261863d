//! Where a text goes wrong, and what was expected there.

use std::borrow::Cow;
use thiserror::Error;

/// A text that is no ONNX.
///
/// Shown, it ends with the line and a caret:
///
/// ```
/// let error = refeed_graph::parser::parse_node("y = Add(a b)").unwrap_err();
/// assert_eq!((error.line, error.column), (1, 11));
/// assert_eq!(
///     error.to_string(),
///     "line 1, column 11: expected `,` or `)`, got `b`\n    y = Add(a b)\n              ^"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: expected {expected}, got {got}\n{excerpt}")]
pub struct ParseError {
    /// The line, from 1. Lines end at `\n`.
    pub line: usize,
    /// The column, from 1, in characters. The start of what was not expected; for a string that never ends, its quote.
    pub column: usize,
    /// What the grammar, or the type declared before, asks for.
    pub expected: Cow<'static, str>,
    /// What is there.
    pub got: String,
    /// The line, or the part of it around the column, indented, and a line with a caret under the column. Characters
    /// that cannot be seen are replaced.
    pub excerpt: String,
}

/// A [`ParseError`] before its line is known.
#[derive(Debug)]
pub(super) struct Fault {
    /// Bytes before it.
    pub(super) at: usize,
    pub(super) expected: Cow<'static, str>,
    pub(super) got: String,
}

impl Fault {
    pub(super) fn new(
        at: usize,
        expected: impl Into<Cow<'static, str>>,
        got: impl Into<String>,
    ) -> Fault {
        Fault {
            at,
            expected: expected.into(),
            got: got.into(),
        }
    }

    /// Counts the lines, once, and cuts the excerpt.
    pub(super) fn locate(self, text: &[u8]) -> ParseError {
        const BEFORE: usize = 60;
        const AFTER: usize = 40;
        let before = &text[..self.at];
        let start = before
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |i| i + 1);
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        let end = text[self.at..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(text.len(), |i| self.at + i);
        let left = String::from_utf8_lossy(&text[start..self.at]);
        // Enough bytes for the characters that are shown, so that a line of gigabytes is not copied.
        let right = String::from_utf8_lossy(&text[self.at..end.min(self.at + 4 * AFTER)]);

        let column = 1 + left.chars().count();
        let cut = column - 1 > BEFORE;
        let mut shown = String::from(if cut { "..." } else { "" });
        let mut caret = String::from(if cut { "   " } else { "" });
        for character in left.chars().skip((column - 1).saturating_sub(BEFORE)) {
            shown.push(visible(character));
            caret.push(if character == '\t' { '\t' } else { ' ' });
        }
        shown.extend(right.chars().take(AFTER).map(visible));
        if right.chars().count() > AFTER {
            shown.push_str("...");
        }
        ParseError {
            line,
            column,
            expected: self.expected,
            got: self.got,
            excerpt: format!("    {}\n    {caret}^", shown.trim_end()),
        }
    }
}

/// The character, unless it would move the cursor or hide.
fn visible(character: char) -> char {
    let plain = matches!(character, '\t' | '\'' | '"' | '\\');
    let mut escaped = character.escape_debug();
    if plain || (escaped.next() == Some(character) && escaped.next().is_none()) {
        character
    } else {
        char::REPLACEMENT_CHARACTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &[u8], at: usize) -> ParseError {
        let fault = Fault {
            at,
            expected: "x".into(),
            got: "y".to_string(),
        };
        fault.locate(text)
    }

    #[test]
    fn columns_count_characters() {
        let text = "é = A()\n\tü\u{1b} b".as_bytes();
        assert_eq!((located(text, 0).line, located(text, 0).column), (1, 1));
        assert_eq!(located(text, 3).column, 3);
        let error = located(text, 14);
        assert_eq!((error.line, error.column), (2, 5));
        assert_eq!(error.excerpt, "    \tü\u{FFFD} b\n    \t   ^");
        let end = located(text, text.len());
        assert_eq!((end.line, end.column), (2, 6));
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let text = "a".repeat(100) + &"b".repeat(100);
        let error = located(text.as_bytes(), 100);
        assert_eq!((error.line, error.column), (1, 101));
        let want = format!(
            "    ...{}{}...\n    {}^",
            "a".repeat(60),
            "b".repeat(40),
            " ".repeat(63)
        );
        assert_eq!(error.excerpt, want);
        assert_eq!(located(b"", 0).excerpt, "    \n    ^");
        assert_eq!(located(b"\n\n", 1).line, 2);
    }
}
