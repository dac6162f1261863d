//! Wire bytes to a message.
//!
//! Bytes fields and unknown fields are slices of the input, at any depth. The messages that are open lie on a stack of
//! their own, so that the depth of the input is never the depth of the program's stack.
//!
//! What the wire may do, and what it means: a singular field that comes again replaces the one before, a message that
//! comes again is merged into it, the last member of a oneof wins, a list may come in pieces, packed or not. A known
//! field of a wire type that does not fit it counts as unknown.

mod gather;
mod open;

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::descriptor::{FieldDescriptor, Kind, MessageDescriptor};
use super::frozen::FrozenMessage;
use super::payload::Payload;
use super::text::{Copier, Text};
use super::value::Value;
use super::wire::{FIXED32, FIXED64, Fault, GROUP_END, LENGTH, Malformed, Reader, Room, VARINT};
use gather::Spares;
use open::Open;

/// How much a message may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeLimits {
    /// Levels of messages and groups below the outermost message; protobuf's own limit is 100, the default.
    pub depth: usize,
    /// Memory for structure: messages, and places in lists of messages, text and bytes. Few bytes can ask for much: a
    /// message takes four bytes on the wire and more than a hundred in memory. Text, payloads and numbers are not
    /// counted, they take no more than a small multiple of the input. 1 GiB by default, room for a million nodes.
    pub structure_bytes: u64,
}

impl Default for DecodeLimits {
    fn default() -> DecodeLimits {
        DecodeLimits {
            depth: 100,
            structure_bytes: 1 << 30,
        }
    }
}

impl DecodeLimits {
    /// Sets [`DecodeLimits::depth`]; above 100 is as 100.
    #[must_use]
    pub fn with_depth(mut self, levels: usize) -> DecodeLimits {
        self.depth = levels;
        self
    }

    /// Sets [`DecodeLimits::structure_bytes`].
    #[must_use]
    pub fn with_structure_bytes(mut self, bytes: u64) -> DecodeLimits {
        self.structure_bytes = bytes;
        self
    }
}

/// The deepest that messages may be nested, whatever [`DecodeLimits`] say.
pub(super) const DEEPEST: usize = 100;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}{}, byte {offset}: {fault}", .field.map(|name| format!(", field `{name}`")).unwrap_or_default())]
pub struct DecodeFault {
    /// Full name of the message that was being read.
    pub message: &'static str,
    /// Name of the field that was being read, when it is known.
    pub field: Option<&'static str>,
    /// Where the field's key lies, from the start of the outermost message.
    pub offset: u64,
    /// What is wrong there.
    pub fault: Malformed,
}

impl FrozenMessage {
    /// Reads a message. Bytes fields and unknown fields are slices of `wire`, structure and text are copied. Text that is
    /// not UTF-8 is kept as it is.
    ///
    /// # Errors
    /// When `wire` is not a message, is nested too deep, asks for too much structure, or has a retired field.
    ///
    /// ```
    /// use refeed_proto::Bytes;
    /// use refeed_proto::message::{DecodeLimits, FrozenMessage, Value, descriptors};
    /// let wire = Bytes::from_static(b"\x4A\x03abc");
    /// let tensor = FrozenMessage::decode(&descriptors::TENSOR_PROTO, wire.clone(), &DecodeLimits::default())?;
    /// let raw_data = descriptors::TENSOR_PROTO.field("raw_data").unwrap().slot;
    /// let Value::Bytes(payload) = tensor.value(raw_data) else { panic!("no payload") };
    /// assert_eq!(payload.bytes().as_ptr(), wire[2..].as_ptr());
    /// # Ok::<(), refeed_proto::message::DecodeFault>(())
    /// ```
    pub fn decode(
        descriptor: &'static MessageDescriptor,
        wire: Bytes,
        limits: &DecodeLimits,
    ) -> Result<FrozenMessage, DecodeFault> {
        let mut decoder = Decoder {
            wire: &wire,
            reader: Reader::new(&wire),
            limits: DecodeLimits {
                depth: limits.depth.min(DEEPEST),
                ..*limits
            },
            left: limits.structure_bytes,
            open: Box::default(),
            outer: Vec::new(),
            spare: Vec::new(),
            spares: Spares::default(),
            texts: Copier::default(),
            key_at: 0,
            field: None,
        };
        decoder.open.start(descriptor, wire.len());
        decoder.run().map_err(|fault| DecodeFault {
            message: decoder.open.descriptor().full_name,
            field: decoder.field.map(|field| field.name),
            offset: decoder.key_at as u64,
            fault: *fault,
        })
    }
}

struct Decoder<'a> {
    wire: &'a Bytes,
    /// Its wire ends where the innermost open message does.
    reader: Reader<'a>,
    limits: DecodeLimits,
    /// What is left of [`DecodeLimits::structure_bytes`].
    left: u64,
    /// The innermost open message.
    open: Box<Open>,
    // Boxes change places, what is in them does not move.
    /// Those around it, the outermost first.
    #[allow(clippy::vec_box)]
    outer: Vec<Box<Open>>,
    /// Closed ones, whose room the next ones use.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Open>>,
    spares: Spares,
    texts: Copier,
    // For errors.
    key_at: usize,
    field: Option<&'static FieldDescriptor>,
}

impl Decoder<'_> {
    fn run(&mut self) -> Result<FrozenMessage, Fault> {
        loop {
            if self.reader.at < self.reader.wire.len() {
                self.field()?;
            } else if let Some(parent) = self.outer.pop() {
                self.close(parent)?;
            } else {
                self.charge_message()?;
                return Ok(self.open.finish(&mut self.spares));
            }
        }
    }

    /// Reads one field, or opens its message.
    fn field(&mut self) -> Result<(), Fault> {
        self.key_at = self.reader.at;
        self.field = None;
        let key = self.reader.key()?;
        let Some(field) = self.open.descriptor().field_by_number(key.0) else {
            return self.unknown(key);
        };
        self.field = Some(field);
        let value = match (field.kind, key.1) {
            (Kind::Message(descriptor), LENGTH) => return self.open(field, descriptor),
            (Kind::String, LENGTH) if field.repeated => {
                self.charge(size_of::<Text>())?;
                let text = self.text()?;
                let list = self.open.list(field, &mut self.spares);
                list.push_text(text);
                return Ok(());
            }
            (Kind::String, LENGTH) => Value::Text(self.text()?),
            (Kind::Bytes, LENGTH) if field.retired => return Err(Box::new(Malformed::Retired)),
            (Kind::Bytes, LENGTH) => Value::bytes(self.payload()?),
            (Kind::Message(_) | Kind::String | Kind::Bytes, _) => return self.unknown(key),
            (_, LENGTH) if field.repeated => return self.packed(field),
            (Kind::Float, FIXED32) => Value::Float(f32::from_le_bytes(self.reader.fixed32()?)),
            (Kind::Double, FIXED64) => Value::Double(f64::from_le_bytes(self.reader.fixed64()?)),
            (Kind::Float | Kind::Double, _) => return self.unknown(key),
            (kind, VARINT) => number(kind, self.reader.varint()?),
            _ => return self.unknown(key),
        };
        if field.repeated {
            if let Value::Bytes(_) = value {
                self.charge(size_of::<Payload>())?;
            }
            let list = self.open.list(field, &mut self.spares);
            list.push(value);
        } else {
            self.open.set(field, value, &mut self.spares);
        }
        Ok(())
    }

    fn text(&mut self) -> Result<Text, Fault> {
        let length = self.reader.delimited()?.len();
        let end = self.reader.at;
        Ok(self.texts.copy(self.wire, end - length..end))
    }

    fn payload(&mut self) -> Result<Payload, Fault> {
        let length = self.reader.delimited()?.len();
        let end = self.reader.at;
        Ok(Payload::new(self.wire.slice(end - length..end)))
    }

    fn packed(&mut self, field: &'static FieldDescriptor) -> Result<(), Fault> {
        let bytes = self.reader.delimited()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let open = &mut self.open;
        // A list in one piece is made at its size.
        if !open.has(field) {
            let list = gather::unpack(field.kind, bytes)?;
            open.set(field, list, &mut self.spares);
            return Ok(());
        }
        open.list(field, &mut self.spares)
            .append_packed(field.kind, bytes)
    }

    fn unknown(&mut self, key: (u32, u8)) -> Result<(), Fault> {
        if key.1 == GROUP_END {
            return Err(Box::new(Malformed::Group {
                expected: 0,
                got: key.0,
            }));
        }
        let room = Room {
            left: self.limits.depth - self.outer.len(),
            limit: self.limits.depth,
        };
        self.reader.skip(key, room)?;
        self.charge(size_of::<Bytes>())?;
        let span = self.wire.slice(self.key_at..self.reader.at);
        self.open.unknown.push(span);
        Ok(())
    }

    fn open(
        &mut self,
        field: &'static FieldDescriptor,
        descriptor: &'static MessageDescriptor,
    ) -> Result<(), Fault> {
        let length = self.reader.delimited()?.len();
        let end = self.reader.at;
        if self.outer.len() == self.limits.depth {
            return Err(Box::new(Malformed::Depth {
                limit: self.limits.depth,
            }));
        }
        let mut child = self.spare.pop().unwrap_or_default();
        child.start(descriptor, end);
        child.place_in(field, &mut self.open);
        self.outer.push(std::mem::replace(&mut self.open, child));
        self.reader.at = end - length;
        self.reader.wire = &self.reader.wire[..end];
        Ok(())
    }

    fn close(&mut self, parent: Box<Open>) -> Result<(), Fault> {
        if let Err(fault) = self.charge_message() {
            self.outer.push(parent);
            return Err(fault);
        }
        let mut child = std::mem::replace(&mut self.open, parent);
        child.close_into(&mut self.open, &mut self.spares);
        self.spare.push(child);
        self.reader.wire = &self.wire[..self.open.end];
        Ok(())
    }

    fn charge_message(&mut self) -> Result<(), Fault> {
        let open = &self.open;
        let shared = open.is_empty();
        self.charge(if shared {
            size_of::<Arc<FrozenMessage>>()
        } else {
            open.memory()
        })
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.left.checked_sub(bytes as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Box::new(Malformed::Structure {
                limit: self.limits.structure_bytes,
            })),
        }
    }
}

/// The value of a number on the wire; like protobuf, of 32-bit kinds only the low bits count.
pub(super) fn number(kind: Kind, wire: u64) -> Value {
    match kind {
        Kind::Int64 => Value::Int(wire as i64),
        Kind::Int32 | Kind::Enum(_) => Value::Int((wire as i32).into()),
        Kind::Bool => Value::Int((wire != 0).into()),
        Kind::Uint32 => Value::Uint((wire as u32).into()),
        _ => Value::Uint(wire),
    }
}
