//! What the fields say that the schema does not know.

use bytes::Bytes;

use super::decode::DEEPEST;
use super::frozen::FrozenMessage;
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
