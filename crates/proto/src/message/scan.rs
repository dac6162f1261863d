//! Reading protobuf's text form.
//!
//! What [`print`](super::print) writes, and what people write by hand: `name: value`, `name { ... }` or `name < ... >`,
//! lists in brackets, `,` or `;` between fields, comments from `#` to the end of the line, strings in either quotes and in
//! several pieces, numbers in base 8, 10 and 16, `inf` and `nan`, enums by name or number.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::decode::DEEPEST;
use super::descriptor::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use super::frozen::{FrozenMessage, NestingError};
use super::payload::Payload;
use super::text::Text;
use super::value::Value;

/// Why a text is not a message. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: expected {expected}, got {got}")]
pub struct TextFault {
    /// Line of the place.
    pub line: usize,
    /// Column of the place.
    pub column: usize,
    /// What could stand there.
    pub expected: String,
    /// What stands there.
    pub got: String,
}

impl FrozenMessage {
    /// Reads a message from protobuf's text form.
    ///
    /// # Errors
    /// When the text is not such a message, names a field that the schema does not have, or nests deeper than 100.
    ///
    /// ```
    /// use refeed_proto::message::{FrozenMessage, descriptors};
    /// let node = FrozenMessage::from_text(&descriptors::NODE_PROTO, "op_type: 'Add' input: ['a', 'b']")?;
    /// assert_eq!(node.to_string(), "input: \"a\"\ninput: \"b\"\nop_type: \"Add\"\n");
    /// let error = FrozenMessage::from_text(&descriptors::NODE_PROTO, "op_typ: 'Add'").unwrap_err();
    /// assert_eq!(error.to_string(), "line 1, column 1: expected a field of onnx.NodeProto, got `op_typ`");
    /// # Ok::<(), refeed_proto::message::TextFault>(())
    /// ```
    pub fn from_text(
        descriptor: &'static MessageDescriptor,
        text: &str,
    ) -> Result<FrozenMessage, TextFault> {
        Scanner { text, at: 0 }.message(descriptor)
    }
}

/// A message whose end was not met yet.
struct Open {
    descriptor: &'static MessageDescriptor,
    /// The field of the message around it that it goes to.
    field: Option<&'static FieldDescriptor>,
    /// The bracket that ends it.
    end: char,
    /// Whether it stands in a list of messages.
    listed: bool,
    single: Vec<Value>,
    lists: Vec<Vec<Value>>,
}

impl Open {
    fn new(
        descriptor: &'static MessageDescriptor,
        field: Option<&'static FieldDescriptor>,
        end: char,
        listed: bool,
    ) -> Open {
        Open {
            descriptor,
            field,
            end,
            listed,
            single: vec![Value::Absent; descriptor.fields.len()],
            lists: vec![Vec::new(); descriptor.fields.len()],
        }
    }

    fn close(self) -> Result<FrozenMessage, NestingError> {
        let fields = self.descriptor.fields.iter();
        let values = fields.zip(self.single).zip(self.lists);
        let values = values.map(|((field, single), list)| {
            if field.repeated {
                Value::list(field.kind, list)
            } else {
                single
            }
        });
        FrozenMessage::new(self.descriptor, values, None)
    }
}

struct Scanner<'a> {
    text: &'a str,
    /// Bytes that were read.
    at: usize,
}

impl<'a> Scanner<'a> {
    fn message(
        mut self,
        descriptor: &'static MessageDescriptor,
    ) -> Result<FrozenMessage, TextFault> {
        let mut open = vec![Open::new(descriptor, None, '\0', false)];
        loop {
            self.skip();
            let depth = open.len();
            let Some(inner) = open.last_mut() else {
                return Err(self.fault(self.at, "a field"));
            };
            let ends = match self.peek() {
                None => depth == 1,
                Some(next) => depth > 1 && next == inner.end,
            };
            if !ends {
                if let Some(new) = self.field(inner, depth)? {
                    open.push(new);
                }
                continue;
            }
            let at = self.at;
            self.at += usize::from(depth > 1);
            let Some(closed) = open.pop() else {
                return Err(self.fault(at, "a field"));
            };
            let (field, listed) = (closed.field, closed.listed);
            let message = closed.close().map_err(|_| self.fault(at, "less depth"))?;
            let (Some(around), Some(field)) = (open.last_mut(), field) else {
                return Ok(message);
            };
            self.put(around, field, Value::Message(Arc::new(message)), at)?;
            if listed && let Some(next) = self.next_of_list(field, depth)? {
                open.push(next);
            } else {
                self.separator();
            }
        }
    }

    /// A field of `inner`; a message that it opens.
    fn field(&mut self, inner: &mut Open, depth: usize) -> Result<Option<Open>, TextFault> {
        let at = self.at;
        let name = self.word();
        let found = inner.descriptor.field(name).filter(|field| !field.retired);
        let Some(field) = found else {
            let expected = format!("a field of {}", inner.descriptor.full_name);
            return Err(self.fault(at, &expected));
        };
        self.skip();
        let colon = self.take(':');
        self.skip();
        let listed = field.repeated && self.take('[');
        if let Kind::Message(_) = field.kind {
            self.skip();
            if listed && self.take(']') {
                self.separator();
                return Ok(None);
            }
            return self.open(field, listed, depth).map(Some);
        }
        if !colon {
            return Err(self.fault(self.at, "`:`"));
        }
        if !listed {
            let at = self.at;
            let value = self.value(field)?;
            self.put(inner, field, value, at)?;
        } else {
            self.skip();
            let mut more = !self.take(']');
            while more {
                self.skip();
                let at = self.at;
                let value = self.value(field)?;
                self.put(inner, field, value, at)?;
                self.skip();
                more = self.take(',');
                if !more && !self.take(']') {
                    return Err(self.fault(self.at, "`,` or `]`"));
                }
            }
        }
        self.separator();
        Ok(None)
    }

    fn open(
        &mut self,
        field: &'static FieldDescriptor,
        listed: bool,
        depth: usize,
    ) -> Result<Open, TextFault> {
        let at = self.at;
        let end = match self.peek() {
            Some('{') => '}',
            Some('<') => '>',
            _ => return Err(self.fault(at, "`{`")),
        };
        self.at += 1;
        match field.kind {
            Kind::Message(descriptor) if depth <= DEEPEST => {
                Ok(Open::new(descriptor, Some(field), end, listed))
            }
            _ => Err(self.fault(at, &format!("at most {DEEPEST} levels of messages"))),
        }
    }

    /// After a message of a list: the next one, or none at the list's end.
    fn next_of_list(
        &mut self,
        field: &'static FieldDescriptor,
        depth: usize,
    ) -> Result<Option<Open>, TextFault> {
        self.skip();
        if self.take(']') {
            return Ok(None);
        }
        if !self.take(',') {
            return Err(self.fault(self.at, "`,` or `]`"));
        }
        self.skip();
        self.open(field, true, depth - 1).map(Some)
    }

    fn put(
        &self,
        inner: &mut Open,
        field: &'static FieldDescriptor,
        value: Value,
        at: usize,
    ) -> Result<(), TextFault> {
        let slot = usize::from(field.slot);
        if field.repeated {
            inner.lists[slot].push(value);
            return Ok(());
        }
        let members: &[u16] = match field.oneof {
            Some(oneof) => inner.descriptor.oneofs[usize::from(oneof)].fields,
            None => &[field.slot],
        };
        let mut members = members
            .iter()
            .map(|&member| &inner.single[usize::from(member)]);
        if members.any(|held| !held.is_absent()) {
            let name = field.name;
            let expected = format!("one value for `{name}` and the fields that exclude it");
            return Err(self.fault(at, &expected));
        }
        inner.single[slot] = value;
        Ok(())
    }

    // ------------------------------------------------------------------------------------------------- values

    fn value(&mut self, field: &FieldDescriptor) -> Result<Value, TextFault> {
        let at = self.at;
        let integer = |scanner: &mut Self, low: i128, high: i128, name: &str| {
            let number = scanner
                .integer()
                .filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| scanner.fault(at, &format!("an {name}")))
        };
        Ok(match field.kind {
            Kind::Int32 => {
                let (low, high) = (i32::MIN.into(), i32::MAX.into());
                Value::Int(integer(self, low, high, "int32")? as i64)
            }
            Kind::Int64 => {
                let (low, high) = (i64::MIN.into(), i64::MAX.into());
                Value::Int(integer(self, low, high, "int64")? as i64)
            }
            Kind::Uint32 => Value::Uint(integer(self, 0, u32::MAX.into(), "uint32")? as u64),
            Kind::Uint64 => Value::Uint(integer(self, 0, u64::MAX.into(), "uint64")? as u64),
            Kind::Bool => match self.word() {
                "true" | "True" | "t" | "1" => Value::Int(1),
                "false" | "False" | "f" | "0" => Value::Int(0),
                _ => return Err(self.fault(at, "true or false")),
            },
            Kind::Float => Value::Float(self.real(at)? as f32),
            Kind::Double => Value::Double(self.real(at)?),
            Kind::String => {
                let bytes = self.string()?;
                match std::str::from_utf8(&bytes) {
                    Ok(text) => Value::Text(Text::from(text)),
                    Err(_) => return Err(self.fault(at, "text in UTF-8")),
                }
            }
            Kind::Bytes => Value::bytes(Payload::new(Bytes::from(self.string()?))),
            Kind::Enum(descriptor) => Value::Int(self.enumerator(descriptor, at)?.into()),
            Kind::Message(_) => return Err(self.fault(at, "`{`")),
        })
    }

    fn enumerator(&mut self, descriptor: &EnumDescriptor, at: usize) -> Result<i32, TextFault> {
        let number = match self.peek() {
            Some('-' | '0'..='9') => {
                let number = self.integer();
                number.and_then(|number| i32::try_from(number).ok())
            }
            _ => descriptor.number_of(self.word()),
        };
        number.ok_or_else(|| self.fault(at, &format!("a name of {}", descriptor.full_name)))
    }

    fn integer(&mut self) -> Option<i128> {
        let negative = self.take('-');
        self.skip();
        let word = self.word();
        let parsed = if let Some(digits) = word.strip_prefix("0x").or(word.strip_prefix("0X")) {
            u64::from_str_radix(digits, 16)
        } else if let Some(digits) = word.strip_prefix('0').filter(|digits| !digits.is_empty()) {
            u64::from_str_radix(digits, 8)
        } else {
            word.parse::<u64>()
        };
        // `+1` is no number of the text form.
        let number = i128::from(parsed.ok().filter(|_| !word.starts_with('+'))?);
        Some(if negative { -number } else { number })
    }

    fn real(&mut self, at: usize) -> Result<f64, TextFault> {
        let negative = self.take('-');
        self.skip();
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let mut length = 0;
        while let Some(&letter) = rest.get(length) {
            let sign = matches!(letter, b'+' | b'-')
                && length > 0
                && matches!(rest[length - 1], b'e' | b'E');
            if !(letter.is_ascii_alphanumeric() || letter == b'.' || sign) {
                break;
            }
            length += 1;
        }
        self.at += length;
        let word = self.text[start..self.at].to_ascii_lowercase();
        let number = match word.as_str() {
            "inf" | "infinity" | "inff" | "infinityf" => Some(f64::INFINITY),
            "nan" | "nanf" => Some(f64::NAN),
            word => {
                let digits = word.strip_suffix('f').unwrap_or(word);
                let starts =
                    digits.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
                digits.parse::<f64>().ok().filter(|_| starts)
            }
        };
        let number = number.ok_or_else(|| self.fault(at, "a number"))?;
        Ok(if negative { -number } else { number })
    }

    /// Strings that follow each other are one.
    fn string(&mut self) -> Result<Vec<u8>, TextFault> {
        let mut bytes = Vec::new();
        loop {
            let quote = match self.peek() {
                Some(quote @ ('"' | '\'')) => quote,
                _ => return Err(self.fault(self.at, "a string in quotes")),
            };
            self.at += 1;
            self.piece(quote, &mut bytes)?;
            let end = self.at;
            self.skip();
            if !matches!(self.peek(), Some('"' | '\'')) {
                self.at = end;
                return Ok(bytes);
            }
        }
    }

    fn piece(&mut self, quote: char, bytes: &mut Vec<u8>) -> Result<(), TextFault> {
        loop {
            let at = self.at;
            match self.peek() {
                Some(end) if end == quote => {
                    self.at += 1;
                    return Ok(());
                }
                None | Some('\n') => return Err(self.fault(at, &format!("`{quote}`"))),
                Some('\\') => {
                    self.at += 1;
                    self.escape(at, bytes)?;
                }
                Some(letter) => {
                    self.at += letter.len_utf8();
                    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, at: usize, bytes: &mut Vec<u8>) -> Result<(), TextFault> {
        let letter = self.peek().unwrap_or('\0');
        self.at += letter.len_utf8().min(self.text.len() - self.at);
        let plain = match letter {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => letter as u8,
            '0'..='7' => {
                self.at -= 1;
                match self.digits(8, 3).and_then(|code| u8::try_from(code).ok()) {
                    Some(code) => code,
                    None => return Err(self.fault(at, "a byte in at most three octal digits")),
                }
            }
            'x' | 'X' => match self.digits(16, 2) {
                Some(code) => code as u8,
                None => return Err(self.fault(at, "a byte in hexadecimal digits")),
            },
            'u' | 'U' => {
                let count = if letter == 'u' { 4 } else { 8 };
                let start = self.at;
                let code = self.digits(16, count).filter(|_| self.at - start == count);
                let Some(letter) = code.and_then(char::from_u32) else {
                    return Err(self.fault(at, &format!("a character in {count} digits")));
                };
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.fault(at, "an escape of C")),
        };
        bytes.push(plain);
        Ok(())
    }

    /// A number of at least one and at most `most` digits.
    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let rest = self.text[self.at..].chars().take(most);
        let count = rest.take_while(|letter| letter.is_digit(radix)).count();
        let digits = &self.text[self.at..self.at + count];
        self.at += count;
        u32::from_str_radix(digits, radix).ok()
    }

    // ------------------------------------------------------------------------------------------------- pieces

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(letter);
        if found {
            self.at += letter.len_utf8();
        }
        found
    }

    /// Letters, digits and underscores.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// White space and comments.
    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let start = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
            self.at = self.text.len() - start.len();
            if !start.starts_with('#') {
                return;
            }
            self.at += start.find('\n').unwrap_or(start.len());
        }
    }

    /// The sign that may stand between fields.
    fn separator(&mut self) {
        self.skip();
        let _ = self.take(',') || self.take(';');
    }

    fn fault(&self, at: usize, expected: &str) -> TextFault {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let rest = &self.text[at..];
        let word = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let got = &rest[..word.unwrap_or(rest.len()).max(first)];
        let shown: String = got
            .chars()
            .take(40)
            .flat_map(|letter| match letter.is_control() {
                true => letter.escape_default().collect::<Vec<_>>(),
                false => vec![letter],
            })
            .collect();
        let got = match got.chars().count() {
            0 => "the end of the text".to_string(),
            1..=40 => format!("`{shown}`"),
            _ => format!("`{shown}...`"),
        };
        TextFault {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            expected: expected.to_string(),
            got,
        }
    }
}
