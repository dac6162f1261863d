//! A cursor over the text: blanks, comments, identifiers, strings, numbers.

use super::error::Fault;
use super::number::Number;
use crate::load::shown;
use crate::syntax::{continues_identifier, float_word, starts_identifier};
use std::borrow::Cow;

/// Reads the text from left to right, each byte a bounded number of times.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8]) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    /// Where the next token starts.
    pub(super) fn position(&mut self) -> usize {
        self.skip();
        self.at
    }

    /// The first byte of the next token; `None` at the end of the text.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.text.get(self.at).copied()
    }

    /// Passes blanks, and comments from `#` to the end of their line.
    fn skip(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// Takes one character when it is next.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes one character that must be next; `expected` says so.
    pub(super) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Fault> {
        if self.eat(byte) {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    /// Takes `=>`, which may not be torn apart.
    pub(super) fn expect_arrow(&mut self) -> Result<(), Fault> {
        self.skip();
        if !self.text[self.at..].starts_with(b"=>") {
            return Err(self.unexpected("`=>`"));
        }
        self.at += 2;
        Ok(())
    }

    /// The identifier that is next, not taken; empty when there is none.
    pub(super) fn peek_identifier(&mut self) -> &'t str {
        self.skip();
        let rest = &self.text[self.at..];
        if !rest.first().copied().is_some_and(starts_identifier) {
            return "";
        }
        let end = rest.iter().position(|&b| !continues_identifier(b));
        ascii(&rest[..end.unwrap_or(rest.len())])
    }

    /// Takes an identifier when one is next; empty when there is none.
    pub(super) fn optional_identifier(&mut self) -> &'t str {
        let found = self.peek_identifier();
        self.at += found.len();
        found
    }

    /// Takes an identifier.
    pub(super) fn identifier(&mut self, expected: &'static str) -> Result<&'t str, Fault> {
        match self.optional_identifier() {
            "" => Err(self.unexpected(expected)),
            found => Ok(found),
        }
    }

    /// Takes an identifier or a string that serves as one; `None` when neither is next.
    pub(super) fn optional_name(&mut self) -> Result<Option<String>, Fault> {
        if self.peek() == Some(b'"') {
            return self.text_string("a name").map(Some);
        }
        let found = self.optional_identifier();
        Ok((!found.is_empty()).then(|| found.to_string()))
    }

    /// Takes an identifier or a string that serves as one.
    pub(super) fn name(&mut self, expected: &'static str) -> Result<String, Fault> {
        match self.optional_name()? {
            Some(name) => Ok(name),
            None => Err(self.unexpected(expected)),
        }
    }

    /// Takes a string of any bytes: what stands between the quotes, without the backslashes that escape.
    pub(super) fn string(&mut self, expected: &'static str) -> Result<Cow<'t, [u8]>, Fault> {
        let at = self.position();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected(expected));
        }
        let body = &self.text[at + 1..];
        let plain = body.iter().position(|&b| matches!(b, b'"' | b'\\'));
        let mut length = plain.unwrap_or(body.len());
        let mut value = Cow::Borrowed(&body[..length]);
        loop {
            match body.get(length) {
                Some(b'"') => break,
                Some(b'\\') if length + 1 < body.len() => length += 1,
                _ => return Err(Fault::new(at, "a closing `\"`", "a string that never ends")),
            }
            // The escaped character, whatever it is, and all up to the next one that means something.
            let rest = &body[length + 1..];
            let more = rest.iter().position(|&b| matches!(b, b'"' | b'\\'));
            let end = length + 1 + more.unwrap_or(rest.len());
            value.to_mut().extend_from_slice(&body[length..end]);
            length = end;
        }
        self.at = at + 1 + length + 1;
        Ok(value)
    }

    /// Takes a string that must be UTF-8.
    pub(super) fn text_string(&mut self, expected: &'static str) -> Result<String, Fault> {
        let at = self.position();
        let value = self.string(expected)?.into_owned();
        String::from_utf8(value).map_err(|error| {
            let got = shown(&String::from_utf8_lossy(error.as_bytes()));
            Fault::new(at, "a string in UTF-8", format!("other bytes: \"{got}\""))
        })
    }

    /// Whether a number is next, by its first character. Words such as `inf` are no numbers here.
    pub(super) fn number_is_next(&mut self) -> bool {
        matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'.'))
    }

    /// Takes a number.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<Number<'t>, Fault> {
        let at = self.position();
        let rest = &self.text[at..];
        let sign = usize::from(rest.first() == Some(&b'-'));
        if rest.get(sign).copied().is_some_and(starts_identifier) {
            let word = rest[sign..].iter().position(|&b| !continues_identifier(b));
            let word = ascii(&rest[sign..word.map_or(rest.len(), |length| sign + length)]);
            if float_word(word).is_none() {
                return Err(self.unexpected(expected));
            }
            return Ok(self.take_number(sign + word.len(), false));
        }
        let digits = |from: usize| {
            let tail = rest.get(from..).unwrap_or_default();
            tail.iter().take_while(|b| b.is_ascii_digit()).count()
        };
        let whole = digits(sign);
        let mut length = sign + whole;
        let mut fraction = 0;
        let mut real = false;
        if rest.get(length) == Some(&b'.') {
            fraction = digits(length + 1);
            length += 1 + fraction;
            real = true;
        }
        if whole + fraction == 0 {
            return Err(self.unexpected(expected));
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            length += 1;
            length += usize::from(matches!(rest.get(length), Some(b'+' | b'-')));
            let exponent = digits(length);
            length += exponent;
            real = true;
            if exponent == 0 {
                let got = shown(ascii(&rest[..length]));
                return Err(Fault::new(
                    at,
                    "a number with digits in its exponent",
                    format!("`{got}`"),
                ));
            }
        }
        Ok(self.take_number(length, !real))
    }

    /// Takes a number without fraction or exponent.
    pub(super) fn integer(&mut self, expected: &'static str) -> Result<Number<'t>, Fault> {
        let number = self.number(expected)?;
        if number.whole {
            return Ok(number);
        }
        let got = format!("`{}`", shown(number.text));
        Err(Fault::new(number.at, expected, got))
    }

    fn take_number(&mut self, length: usize, whole: bool) -> Number<'t> {
        let at = self.at;
        self.at += length;
        Number {
            at,
            text: ascii(&self.text[at..self.at]),
            whole,
        }
    }

    /// A fault at the next token, which the message quotes.
    pub(super) fn unexpected(&mut self, expected: impl Into<Cow<'static, str>>) -> Fault {
        let at = self.position();
        Fault::new(at, expected, self.quoted())
    }

    /// What is next, for messages.
    fn quoted(&mut self) -> String {
        const SHOWN: usize = 40;
        let rest = &self.text[self.at..];
        let Some(&first) = rest.first() else {
            return "the end of the text".to_string();
        };
        let length = match first {
            b'"' => {
                let body = &rest[1..rest.len().min(SHOWN)];
                let close = body.iter().position(|&b| matches!(b, b'"' | b'\n'));
                let body =
                    String::from_utf8_lossy(&body[..close.unwrap_or(body.len())]).into_owned();
                return format!("the string \"{}\"", shown(&body));
            }
            b'=' if rest.starts_with(b"=>") => 2,
            b'-' if rest.get(1).is_some_and(u8::is_ascii_digit) => {
                1 + rest[1..].iter().take_while(|&&b| number_byte(b)).count()
            }
            b'0'..=b'9' => rest.iter().take_while(|&&b| number_byte(b)).count(),
            byte if starts_identifier(byte) => self.peek_identifier().len(),
            byte if byte.is_ascii() => 1,
            // One character, or one byte that is none.
            _ => {
                let start = &rest[..rest.len().min(4)];
                let character = String::from_utf8_lossy(start).chars().next();
                character.map_or(1, char::len_utf8)
            }
        };
        let token = String::from_utf8_lossy(&rest[..length.min(rest.len())]);
        format!("`{}`", shown(&token))
    }
}

fn number_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.'
}

/// The text of bytes that were checked to be ASCII.
fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
