//! A message to wire bytes.
//!
//! Fields are written in the order of their numbers, lists of numbers packed where the schema says so, then the unknown
//! fields as they came: the bytes that protobuf's deterministic serialisation gives. A first pass finds the size of each
//! message and packed list once, in the order in which the second pass writes them.

use std::io::{self, Write};

use thiserror::Error;

use super::decode::DEEPEST;
use super::descriptor::{FieldDescriptor, Kind};
use super::frozen::FrozenMessage;
use super::value::Value;
use super::wire::{FIXED32, FIXED64, LENGTH, VARINT, varint_len};

/// The largest message that protobuf's readers accept.
pub const MESSAGE_LIMIT: usize = i32::MAX as usize;

/// Why a message cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeFault {
    /// Nested deeper than any reader would follow.
    #[error("{message}: expected at most {} levels of messages, got {levels}", DEEPEST + 1)]
    Depth {
        /// Full name of the message.
        message: &'static str,
        /// Its levels, itself included.
        levels: usize,
    },
    /// Larger than any reader would accept.
    #[error(
        "{message}: expected at most {MESSAGE_LIMIT} bytes (2 GiB), got {got}; save it with external data, so that its tensors lie in another file"
    )]
    TooLarge {
        /// Full name of the message.
        message: &'static str,
        /// The bytes that it takes.
        got: usize,
    },
    /// Where the bytes went refused them.
    #[error("writing a message: {0}")]
    Write(#[from] io::Error),
}

impl FrozenMessage {
    /// Bytes that the message takes on the wire. They may be more than a message may have.
    ///
    /// # Errors
    /// When messages are nested too deep to be written.
    pub fn encoded_len(&self) -> Result<usize, EncodeFault> {
        Ok(Sizes::of(self)?.total)
    }

    /// The message on the wire.
    ///
    /// # Errors
    /// When messages are nested too deep, or the message is larger than [`MESSAGE_LIMIT`].
    ///
    /// ```
    /// use refeed_proto::message::{FrozenMessage, Text, Value, descriptors};
    /// let names = ["in", "out"].map(|name| Value::Text(Text::from(name)));
    /// let values = names.into_iter().chain([Value::Absent, Value::Absent]);
    /// let binding = FrozenMessage::new(&descriptors::PERSISTENT_BINDING_PROTO, values, None)?;
    /// assert_eq!(binding.encode()?, b"\x0A\x02in\x12\x03out");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&self) -> Result<Vec<u8>, EncodeFault> {
        let sizes = Sizes::of(self)?;
        sizes.check(self)?;
        let mut out = Vec::with_capacity(sizes.total);
        sizes.writer(&mut out).message(self)?;
        debug_assert_eq!(out.len(), sizes.total);
        Ok(out)
    }

    /// Writes the message. Large payloads go to `out` from where they lie; everything else is gathered into larger
    /// pieces first, so `out` needs no buffer. Gives the bytes that were written.
    ///
    /// # Errors
    /// When messages are nested too deep, the message is larger than [`MESSAGE_LIMIT`] (nothing is written then), or
    /// `out` fails.
    pub fn encode_to(&self, out: &mut impl Write) -> Result<usize, EncodeFault> {
        let sizes = Sizes::of(self)?;
        sizes.check(self)?;
        let mut pieces = Pieces {
            gathered: Vec::with_capacity(PIECE.min(sizes.total)),
            out,
        };
        sizes.writer(&mut pieces).message(self)?;
        pieces.flush()?;
        Ok(sizes.total)
    }
}

/// Sizes of the messages and packed lists inside a message, in the order in which they are written.
struct Sizes {
    inner: Vec<usize>,
    total: usize,
}

impl Sizes {
    fn of(message: &FrozenMessage) -> Result<Sizes, EncodeFault> {
        if message.height() > DEEPEST + 1 {
            return Err(EncodeFault::Depth {
                message: message.descriptor().full_name,
                levels: message.height(),
            });
        }
        let mut sizes = Sizes {
            inner: Vec::new(),
            total: 0,
        };
        sizes.total = sizes.message(message);
        Ok(sizes)
    }

    fn check(&self, message: &FrozenMessage) -> Result<(), EncodeFault> {
        if self.total > MESSAGE_LIMIT {
            return Err(EncodeFault::TooLarge {
                message: message.descriptor().full_name,
                got: self.total,
            });
        }
        Ok(())
    }

    fn writer<'a, S: Sink>(&'a self, sink: &'a mut S) -> Writer<'a, S> {
        Writer {
            sizes: self.inner.iter(),
            sink,
        }
    }

    // As deep as messages are nested, which was checked.
    fn message(&mut self, message: &FrozenMessage) -> usize {
        let fields = message
            .fields()
            .map(|(field, value)| self.field(field, value));
        let known: usize = fields.sum();
        let unknown = message.unknown().into_iter().flat_map(|spans| spans.iter());
        known + unknown.map(|span| span.len()).sum::<usize>()
    }

    fn field(&mut self, field: &FieldDescriptor, value: &Value) -> usize {
        let key = varint_len(u64::from(field.number) << 3);
        let delimited = |length: usize| key + varint_len(length as u64) + length;
        match value {
            Value::Absent => 0,
            Value::Int(n) => key + varint_len(*n as u64),
            Value::Uint(n) => key + varint_len(*n),
            Value::Float(_) => key + 4,
            Value::Double(_) => key + 8,
            Value::Text(text) => delimited(text.len()),
            Value::Bytes(payload) => delimited(payload.bytes().len()),
            Value::Texts(items) => items.iter().map(|text| delimited(text.len())).sum(),
            Value::Payloads(items) => items.iter().map(|item| delimited(item.bytes().len())).sum(),
            Value::Message(message) => delimited(self.inner(|sizes| sizes.message(message))),
            Value::Messages(items) => items
                .iter()
                .map(|message| delimited(self.inner(|sizes| sizes.message(message))))
                .sum(),
            numbers => {
                let items = numbers.len();
                let length = match numbers {
                    Value::Ints(items) => items.iter().map(|&n| varint_len(n as u64)).sum(),
                    Value::Int32s(items) => items.iter().map(|&n| varint_len(n as u64)).sum(),
                    Value::Uints(items) => items.iter().map(|&n| varint_len(n)).sum(),
                    Value::Floats(items) => items.len() * 4,
                    Value::Doubles(items) => items.len() * 8,
                    _ => 0,
                };
                if items == 0 {
                    0
                } else if field.packed {
                    delimited(self.inner(|_| length))
                } else {
                    items * key + length
                }
            }
        }
    }

    /// Keeps a size where it will be written: before the sizes inside of it.
    fn inner(&mut self, size: impl FnOnce(&mut Sizes) -> usize) -> usize {
        let place = self.inner.len();
        self.inner.push(0);
        let size = size(self);
        self.inner[place] = size;
        size
    }
}

/// Where bytes go.
trait Sink {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Small pieces are gathered up to this size; larger ones are written as they are.
const PIECE: usize = 64 * 1024;

struct Pieces<'a, W> {
    gathered: Vec<u8>,
    out: &'a mut W,
}

impl<W: Write> Pieces<'_, W> {
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }
}

impl<W: Write> Sink for Pieces<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gathered.len() + bytes.len() > PIECE {
            self.flush()?;
        }
        if bytes.len() > PIECE {
            return self.out.write_all(bytes);
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }
}

struct Writer<'a, S> {
    sizes: std::slice::Iter<'a, usize>,
    sink: &'a mut S,
}

impl<S: Sink> Writer<'_, S> {
    // As deep as messages are nested, which was checked.
    fn message(&mut self, message: &FrozenMessage) -> io::Result<()> {
        for (field, value) in message.fields() {
            self.field(field, value)?;
        }
        for span in message.unknown().into_iter().flat_map(|spans| spans.iter()) {
            self.sink.put(span)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, value: &Value) -> io::Result<()> {
        let number = field.number;
        match value {
            Value::Absent => Ok(()),
            Value::Int(n) => self.number(number, *n as u64),
            Value::Uint(n) => self.number(number, *n),
            Value::Float(x) => self.fixed(number, FIXED32, &x.to_le_bytes()),
            Value::Double(x) => self.fixed(number, FIXED64, &x.to_le_bytes()),
            Value::Text(text) => self.delimited(number, text.as_bytes()),
            Value::Bytes(payload) => self.delimited(number, payload.bytes()),
            Value::Message(message) => self.inner(number, message),
            Value::Texts(items) => {
                let mut items = items.iter();
                items.try_for_each(|text| self.delimited(number, text.as_bytes()))
            }
            Value::Payloads(items) => {
                let mut items = items.iter();
                items.try_for_each(|item| self.delimited(number, item.bytes()))
            }
            Value::Messages(items) => {
                let mut items = items.iter();
                items.try_for_each(|message| self.inner(number, message))
            }
            Value::Ints(items) => self.numbers(field, items, |n| n as u64),
            Value::Int32s(items) => self.numbers(field, items, |n| n as u64),
            Value::Uints(items) => self.numbers(field, items, |n| n),
            Value::Floats(items) => self.fixeds(field, items, |x| x.to_le_bytes()),
            Value::Doubles(items) => self.fixeds(field, items, |x| x.to_le_bytes()),
        }
    }

    fn inner(&mut self, number: u32, message: &FrozenMessage) -> io::Result<()> {
        self.key(number, LENGTH)?;
        self.size()?;
        self.message(message)
    }

    /// The next of the sizes.
    fn size(&mut self) -> io::Result<()> {
        let size = self.sizes.next().copied().unwrap_or(0);
        self.varint(size as u64)
    }

    fn numbers<T: Copy>(
        &mut self,
        field: &FieldDescriptor,
        items: &[T],
        wire: impl Fn(T) -> u64,
    ) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        if field.packed {
            self.key(field.number, LENGTH)?;
            self.size()?;
            return items.iter().try_for_each(|&n| self.varint(wire(n)));
        }
        let mut items = items.iter();
        items.try_for_each(|&n| self.number(field.number, wire(n)))
    }

    // Not inlined: its block would lie on the stack once for each level of messages.
    #[inline(never)]
    fn fixeds<T: Copy, const N: usize>(
        &mut self,
        field: &FieldDescriptor,
        items: &[T],
        wire: impl Fn(T) -> [u8; N],
    ) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        if !field.packed {
            let wire_type = if matches!(field.kind, Kind::Double) {
                FIXED64
            } else {
                FIXED32
            };
            let mut items = items.iter();
            return items.try_for_each(|&x| self.fixed(field.number, wire_type, &wire(x)));
        }
        self.key(field.number, LENGTH)?;
        self.size()?;
        let mut block = [0; 4096];
        for some in items.chunks(block.len() / N) {
            let (places, _) = block.as_chunks_mut::<N>();
            for (place, &x) in places.iter_mut().zip(some) {
                *place = wire(x);
            }
            self.sink.put(&block[..some.len() * N])?;
        }
        Ok(())
    }

    fn number(&mut self, number: u32, value: u64) -> io::Result<()> {
        self.key(number, VARINT)?;
        self.varint(value)
    }

    fn fixed(&mut self, number: u32, wire_type: u8, bytes: &[u8]) -> io::Result<()> {
        self.key(number, wire_type)?;
        self.sink.put(bytes)
    }

    fn delimited(&mut self, number: u32, bytes: &[u8]) -> io::Result<()> {
        self.key(number, LENGTH)?;
        self.varint(bytes.len() as u64)?;
        self.sink.put(bytes)
    }

    #[inline]
    fn key(&mut self, number: u32, wire_type: u8) -> io::Result<()> {
        self.varint(u64::from(number) << 3 | u64::from(wire_type))
    }

    #[inline]
    fn varint(&mut self, mut value: u64) -> io::Result<()> {
        if value < 0x80 {
            return self.sink.put(&[value as u8]);
        }
        let mut bytes = [0; 10];
        let mut length = 0;
        while value >= 0x80 {
            bytes[length] = value as u8 | 0x80;
            value >>= 7;
            length += 1;
        }
        bytes[length] = value as u8;
        self.sink.put(&bytes[..=length])
    }
}
