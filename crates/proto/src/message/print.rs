//! Protobuf's text form: what `str(message)` gives in Python, character by character.
//!
//! One line a value, in the order of field numbers, two spaces a level. Numbers are written with as few digits as give
//! them back (6 or 9 for `float`, 15 or 17 for `double`), enums by name, bytes and text between quotes with C's escapes.
//! Text keeps its characters beyond ASCII where it is UTF-8. Unknown fields are left out.

use std::fmt::{self, Write};
use std::slice;
use std::sync::Arc;

use super::descriptor::{FieldDescriptor, Kind};
use super::frozen::FrozenMessage;
use super::value::Value;

impl fmt::Display for FrozenMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer {
            out: f,
            gathered: String::with_capacity(GATHERED),
        };
        printer.message(self)?;
        printer.flush()
    }
}

/// Characters that are gathered before they are written.
const GATHERED: usize = 4096;

struct Printer<'a, W> {
    out: &'a mut W,
    gathered: String,
}

impl<W: Write> Printer<'_, W> {
    fn flush(&mut self) -> fmt::Result {
        self.out.write_str(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }

    fn message(&mut self, message: &FrozenMessage) -> fmt::Result {
        // Messages may be nested deeper than the program's stack is.
        let mut open = vec![message.fields()];
        // Of each level the messages of its list that are still to come.
        let mut lists: Vec<(&FieldDescriptor, slice::Iter<'_, Arc<FrozenMessage>>)> = Vec::new();
        let mut listing = vec![false];
        while let (Some(fields), Some(in_list)) = (open.last_mut(), listing.last_mut()) {
            if *in_list && let Some((field, list)) = lists.last_mut() {
                if let Some(next) = list.next() {
                    self.open(field, open.len() - 1)?;
                    open.push(next.fields());
                    listing.push(false);
                } else {
                    lists.pop();
                    *in_list = false;
                }
                continue;
            }
            match fields.next() {
                Some((field, Value::Message(message))) => {
                    self.open(field, open.len() - 1)?;
                    open.push(message.fields());
                    listing.push(false);
                }
                Some((field, Value::Messages(messages))) => {
                    lists.push((field, messages.iter()));
                    *in_list = true;
                }
                Some((field, value)) => self.values(field, value, open.len() - 1)?,
                None => {
                    open.pop();
                    listing.pop();
                    if !open.is_empty() {
                        self.indent(open.len() - 1);
                        self.gathered.push_str("}\n");
                    }
                }
            }
        }
        Ok(())
    }

    fn indent(&mut self, level: usize) {
        self.gathered.extend(std::iter::repeat_n("  ", level));
    }

    fn open(&mut self, field: &FieldDescriptor, level: usize) -> fmt::Result {
        self.indent(level);
        self.gathered.push_str(field.name);
        self.gathered.push_str(" {\n");
        self.full()
    }

    /// Writes what was gathered when it is much.
    fn full(&mut self) -> fmt::Result {
        if self.gathered.len() >= GATHERED {
            self.flush()?;
        }
        Ok(())
    }

    /// The values of a field that holds no messages.
    fn values(&mut self, field: &FieldDescriptor, value: &Value, level: usize) -> fmt::Result {
        macro_rules! each {
            ($items:expr, $item:ident => $print:expr) => {
                for $item in $items {
                    self.indent(level);
                    self.gathered.push_str(field.name);
                    self.gathered.push_str(": ");
                    $print;
                    self.gathered.push('\n');
                    self.full()?;
                }
            };
        }
        match value {
            Value::Absent | Value::Message(_) | Value::Messages(_) => {}
            Value::Int(n) => each!([n], n => self.integer(field.kind, *n)),
            Value::Ints(items) => each!(&**items, n => self.integer(field.kind, *n)),
            Value::Int32s(items) => each!(&**items, n => self.integer(field.kind, i64::from(*n))),
            Value::Uint(n) => each!([n], n => self.number(format_args!("{n}"))),
            Value::Uints(items) => each!(&**items, n => self.number(format_args!("{n}"))),
            Value::Float(x) => each!([x], x => self.gathered.push_str(&float(*x))),
            Value::Floats(items) => each!(&**items, x => self.gathered.push_str(&float(*x))),
            Value::Double(x) => each!([x], x => self.gathered.push_str(&double(*x))),
            Value::Doubles(items) => each!(&**items, x => self.gathered.push_str(&double(*x))),
            Value::Text(text) => each!([text], text => self.text(text.as_bytes())?),
            Value::Texts(items) => each!(&**items, text => self.text(text.as_bytes())?),
            Value::Bytes(payload) => each!([payload], payload => self.bytes(payload.bytes())?),
            Value::Payloads(items) => each!(&**items, payload => self.bytes(payload.bytes())?),
        }
        Ok(())
    }

    fn integer(&mut self, kind: Kind, n: i64) {
        let name = match kind {
            Kind::Bool => Some(if n == 0 { "false" } else { "true" }),
            Kind::Enum(names) => i32::try_from(n).ok().and_then(|n| names.name_of(n)),
            _ => None,
        };
        match name {
            Some(name) => self.gathered.push_str(name),
            None => self.number(format_args!("{n}")),
        }
    }

    fn number(&mut self, number: fmt::Arguments<'_>) {
        // Strings take everything.
        let _ = self.gathered.write_fmt(number);
    }

    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.gathered.push('"');
        for some in bytes.chunks(GATHERED / 4) {
            some.iter().for_each(|&byte| self.byte(byte));
            self.full()?;
        }
        self.gathered.push('"');
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> fmt::Result {
        self.gathered.push('"');
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                match u8::try_from(character) {
                    Ok(byte) if byte.is_ascii() => self.byte(byte),
                    _ => self.gathered.push(character),
                }
                self.full()?;
            }
            chunk.invalid().iter().for_each(|&byte| self.byte(byte));
        }
        self.gathered.push('"');
        Ok(())
    }

    fn byte(&mut self, byte: u8) {
        let escaped = match byte {
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            b'"' => "\\\"",
            b'\'' => "\\'",
            b'\\' => "\\\\",
            b' '..=b'~' => return self.gathered.push(char::from(byte)),
            _ => {
                let digit = |shift: u8| char::from(b'0' + (byte >> shift & 7));
                return self.gathered.extend(['\\', digit(6), digit(3), digit(0)]);
            }
        };
        self.gathered.push_str(escaped);
    }
}

fn float(x: f32) -> String {
    let short = general(x.into(), 6);
    // A NaN is equal to nothing, but has been written whole.
    if x.is_finite() && short.parse() != Ok(x) {
        return general(x.into(), 9);
    }
    short
}

fn double(x: f64) -> String {
    let short = general(x, 15);
    if x.is_finite() && short.parse() != Ok(x) {
        return general(x, 17);
    }
    short
}

/// C's `%.{digits}g`, except that every NaN is `nan`.
fn general(x: f64, digits: usize) -> String {
    if !x.is_finite() {
        let word = if x.is_nan() { "nan" } else { "inf" };
        return if x < 0.0 {
            format!("-{word}")
        } else {
            word.to_string()
        };
    }
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |number: &str| match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_string(),
        false => number.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    // As many digits behind the point as make `digits` of them in all; the exponent is below that.
    trimmed(&format!("{x:.*}", (digits as i32 - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_as_short_as_gives_them_back() {
        // What Python's protobuf prints.
        let cases: [(f32, &str); 18] = [
            (0.1, "0.1"),
            (1.0, "1"),
            (1e10, "1e+10"),
            (1e-7, "1e-07"),
            (f32::MAX, "3.40282347e+38"),
            (f32::NAN, "nan"),
            (-f32::NAN, "nan"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (16_777_216.0, "16777216"),
            (123_456_789.0, "123456792"),
            (0.3, "0.3"),
            (1e15, "1e+15"),
            (-0.0, "-0"),
            (1.5e-45, "1.4013e-45"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (100_000.0, "100000"),
        ];
        for (x, text) in cases {
            assert_eq!(float(x), text);
        }
        let cases: [(f64, &str); 10] = [
            (0.1, "0.1"),
            (1e300, "1e+300"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (5e-324, "4.94065645841247e-324"),
            (1.0 / 3.0, "0.33333333333333331"),
            (100_000.0, "100000"),
            (1e15, "1e+15"),
            (123_456.789, "123456.789"),
            (-0.0, "-0"),
        ];
        for (x, text) in cases {
            assert_eq!(double(x), text);
        }
    }
}
