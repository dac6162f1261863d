//! What the fields say that the schema does not know.

use std::sync::Arc;

use bytes::Bytes;

use super::decode::DEEPEST;
use super::descriptor::FieldDescriptor;
use super::frozen::FrozenMessage;
use super::value::Value;
use super::wire::{FIXED32, FIXED64, Fault, GROUP, GROUP_END, LENGTH, Malformed, Reader, VARINT};

/// A field of a number that the schema does not name, or of a wire type that does not fit its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Number of the field.
    pub number: u32,
    /// What it holds.
    pub value: UnknownValue,
}

/// What an unknown field holds: as much as the wire tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownValue {
    /// A number.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Bytes, text, a message or a packed list.
    Bytes(Bytes),
    /// Fields between a start and an end.
    Group(Vec<UnknownField>),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

impl UnknownValue {
    /// The number of its type on the wire.
    pub fn wire_type(&self) -> u8 {
        match self {
            UnknownValue::Varint(_) => VARINT,
            UnknownValue::Fixed64(_) => FIXED64,
            UnknownValue::Bytes(_) => LENGTH,
            UnknownValue::Group(_) => GROUP,
            UnknownValue::Fixed32(_) => FIXED32,
        }
    }
}

impl FrozenMessage {
    /// Reads the unknown fields of this message, in their order.
    ///
    /// # Errors
    /// When they are not fields; what was decoded always is.
    pub fn unknown_fields(&self) -> Result<Vec<UnknownField>, Malformed> {
        let spans = self.unknown().into_iter().flat_map(|spans| spans.iter());
        let mut fields = Vec::new();
        for span in spans {
            fields.extend(unknown_fields(span).map_err(|fault| *fault)?);
        }
        Ok(fields)
    }
}

/// An unknown field somewhere in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlace {
    /// The message that has it, like `graph.node[3]`; empty for the outermost one.
    pub path: String,
    /// Number of the field.
    pub number: u32,
}

impl FrozenMessage {
    /// Whether this message or one inside it has unknown fields: what prost structs have no place for.
    pub fn has_unknown(&self) -> bool {
        self.first_unknown().is_some()
    }

    /// The first unknown field: of this message, else of those inside it in the order of field numbers, the inside of one
    /// before the next.
    pub fn first_unknown(&self) -> Option<UnknownPlace> {
        /// A message on the way to the one that is looked at.
        struct Level<'a> {
            fields: Box<dyn Iterator<Item = (&'static FieldDescriptor, &'a Value)> + 'a>,
            list: Option<(&'static FieldDescriptor, &'a [Arc<FrozenMessage>], usize)>,
            /// The field that leads further, and the index in it.
            next: Option<(&'static FieldDescriptor, Option<usize>)>,
        }
        let level = |message| Level {
            fields: Box::new(FrozenMessage::fields(message)),
            list: None,
            next: None,
        };
        let mut message = self;
        let mut open: Vec<Level<'_>> = Vec::new();
        loop {
            if let Some(span) = message.unknown().and_then(|spans| spans.first()) {
                let names = open.iter().filter_map(|level| level.next);
                let names = names.map(|(field, index)| match index {
                    Some(index) => format!("{}[{index}]", field.name),
                    None => field.name.to_string(),
                });
                return Some(UnknownPlace {
                    path: names.collect::<Vec<_>>().join("."),
                    number: Reader::new(span).key().map_or(0, |(number, _)| number),
                });
            }
            open.push(level(message));
            message = loop {
                let level = open.last_mut()?;
                if let Some((field, items, index)) = &mut level.list {
                    if let Some(item) = items.get(*index) {
                        level.next = Some((*field, Some(*index)));
                        *index += 1;
                        break item;
                    }
                    level.list = None;
                }
                match level.fields.next() {
                    Some((field, Value::Message(inner))) => {
                        level.next = Some((field, None));
                        break inner;
                    }
                    Some((field, Value::Messages(items))) => level.list = Some((field, items, 0)),
                    Some(_) => {}
                    None => drop(open.pop()),
                }
            };
        }
    }
}

/// The fields in bytes of an unknown field.
pub(super) fn unknown_fields(wire: &Bytes) -> Result<Vec<UnknownField>, Fault> {
    let mut reader = Reader::new(wire);
    let mut fields = Vec::new();
    let mut open: Vec<(u32, Vec<UnknownField>)> = Vec::new();
    while reader.at < wire.len() {
        let (number, wire_type) = reader.key()?;
        let value = match wire_type {
            VARINT => UnknownValue::Varint(reader.varint()?),
            FIXED64 => UnknownValue::Fixed64(u64::from_le_bytes(reader.fixed64()?)),
            FIXED32 => UnknownValue::Fixed32(u32::from_le_bytes(reader.fixed32()?)),
            LENGTH => {
                let length = reader.delimited()?.len();
                UnknownValue::Bytes(wire.slice(reader.at - length..reader.at))
            }
            GROUP if open.len() < DEEPEST => {
                open.push((number, std::mem::take(&mut fields)));
                continue;
            }
            GROUP => return Err(Box::new(Malformed::Depth { limit: DEEPEST })),
            _ => {
                debug_assert_eq!(wire_type, GROUP_END);
                match open.pop() {
                    Some((start, outer)) if start == number => {
                        UnknownValue::Group(std::mem::replace(&mut fields, outer))
                    }
                    other => {
                        return Err(Box::new(Malformed::Group {
                            expected: other.map_or(0, |(start, _)| start),
                            got: number,
                        }));
                    }
                }
            }
        };
        fields.push(UnknownField { number, value });
    }
    match open.pop() {
        Some((expected, _)) => Err(Box::new(Malformed::Group { expected, got: 0 })),
        None => Ok(fields),
    }
}
