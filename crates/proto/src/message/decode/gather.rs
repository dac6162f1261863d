//! A list whose items are still coming.

use std::sync::Arc;

use super::number;
use crate::message::descriptor::{Kind, MessageDescriptor};
use crate::message::frozen::FrozenMessage;
use crate::message::payload::Payload;
use crate::message::text::Text;
use crate::message::value::Value;
use crate::message::wire::{Fault, Malformed, Reader};

/// The items of a list so far.
pub(super) enum Gather {
    Ints(Vec<i64>),
    Int32s(Vec<i32>),
    Uints(Vec<u64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Texts(Vec<Text>),
    Payloads(Vec<Payload>),
    Messages(Vec<Arc<FrozenMessage>>),
}

/// Empty lists with room, for the kinds that models are made of, and messages that many places can share.
#[derive(Default)]
pub(super) struct Spares {
    ints: Vec<Vec<i64>>,
    texts: Vec<Vec<Text>>,
    messages: Vec<Vec<Arc<FrozenMessage>>>,
    empty: Vec<Arc<FrozenMessage>>,
}

impl Spares {
    pub(super) fn list(&mut self, kind: Kind) -> Gather {
        match kind {
            Kind::Int64 | Kind::Bool | Kind::Enum(_) => {
                Gather::Ints(self.ints.pop().unwrap_or_default())
            }
            Kind::Int32 => Gather::Int32s(Vec::new()),
            Kind::Uint32 | Kind::Uint64 => Gather::Uints(Vec::new()),
            Kind::Float => Gather::Floats(Vec::new()),
            Kind::Double => Gather::Doubles(Vec::new()),
            Kind::String => Gather::Texts(self.texts.pop().unwrap_or_default()),
            Kind::Bytes => Gather::Payloads(Vec::new()),
            Kind::Message(_) => Gather::Messages(self.messages.pop().unwrap_or_default()),
        }
    }

    /// The one message without fields.
    pub(super) fn empty(&mut self, descriptor: &'static MessageDescriptor) -> Arc<FrozenMessage> {
        let held = self
            .empty
            .iter()
            .find(|empty| empty.descriptor() == descriptor);
        if let Some(held) = held {
            return held.clone();
        }
        let empty = Arc::new(FrozenMessage::empty(descriptor));
        self.empty.push(empty.clone());
        empty
    }
}

impl Gather {
    /// A list that goes on.
    pub(super) fn thaw(value: &Value, kind: Kind, spares: &mut Spares) -> Gather {
        match value {
            Value::Ints(items) => Gather::Ints(items.to_vec()),
            Value::Int32s(items) => Gather::Int32s(items.to_vec()),
            Value::Uints(items) => Gather::Uints(items.to_vec()),
            Value::Floats(items) => Gather::Floats(items.to_vec()),
            Value::Doubles(items) => Gather::Doubles(items.to_vec()),
            Value::Texts(items) => Gather::Texts(items.to_vec()),
            Value::Payloads(items) => Gather::Payloads(items.to_vec()),
            Value::Messages(items) => Gather::Messages(items.to_vec()),
            _ => spares.list(kind),
        }
    }

    /// Adds an item of the list's kind.
    pub(super) fn push(&mut self, item: Value) {
        match (self, item) {
            (Gather::Ints(items), Value::Int(n)) => items.push(n),
            // The numbers of such a list were cut to 32 bits when they were read.
            (Gather::Int32s(items), Value::Int(n)) => items.push(n as i32),
            (Gather::Uints(items), Value::Uint(n)) => items.push(n),
            (Gather::Floats(items), Value::Float(x)) => items.push(x),
            (Gather::Doubles(items), Value::Double(x)) => items.push(x),
            (Gather::Texts(items), Value::Text(text)) => items.push(text),
            (Gather::Payloads(items), Value::Bytes(payload)) => items.push(*payload),
            (Gather::Messages(items), Value::Message(message)) => items.push(message),
            _ => unreachable!("an item of another kind than its list"),
        }
    }

    pub(super) fn push_text(&mut self, text: Text) {
        match self {
            Gather::Texts(items) => items.push(text),
            _ => unreachable!("text in a list of something else"),
        }
    }

    pub(super) fn push_message(&mut self, message: Arc<FrozenMessage>) {
        match self {
            Gather::Messages(items) => items.push(message),
            _ => unreachable!("a message in a list of something else"),
        }
    }

    /// Adds the numbers of a packed block.
    pub(super) fn append_packed(&mut self, kind: Kind, block: &[u8]) -> Result<(), Fault> {
        match self {
            Gather::Floats(items) => {
                items.extend(fixed(block)?.iter().map(|x| f32::from_le_bytes(*x)))
            }
            Gather::Doubles(items) => {
                items.extend(fixed(block)?.iter().map(|x| f64::from_le_bytes(*x)));
            }
            _ => {
                let mut reader = Reader::new(block);
                while reader.at < block.len() {
                    self.push(number(kind, reader.varint()?));
                }
            }
        }
        Ok(())
    }

    /// The list as a value. What it held room in goes to `spares`.
    pub(super) fn finish(self, spares: &mut Spares) -> Value {
        match self {
            Gather::Ints(mut items) => {
                let list = items.drain(..).collect();
                spares.ints.push(items);
                Value::Ints(list)
            }
            Gather::Int32s(items) => Value::Int32s(items.into()),
            Gather::Uints(items) => Value::Uints(items.into()),
            Gather::Floats(items) => Value::Floats(items.into()),
            Gather::Doubles(items) => Value::Doubles(items.into()),
            Gather::Texts(mut items) => {
                let list = items.drain(..).collect();
                spares.texts.push(items);
                Value::Texts(list)
            }
            Gather::Payloads(items) => Value::Payloads(items.into()),
            Gather::Messages(mut items) => {
                let list = items.drain(..).collect();
                spares.messages.push(items);
                Value::Messages(list)
            }
        }
    }
}

/// The list in a packed block that is all of it, in memory of its size.
pub(super) fn unpack(kind: Kind, block: &[u8]) -> Result<Value, Fault> {
    Ok(match kind {
        Kind::Float => Value::Floats(
            fixed(block)?
                .iter()
                .map(|x| f32::from_le_bytes(*x))
                .collect(),
        ),
        Kind::Double => Value::Doubles(
            fixed(block)?
                .iter()
                .map(|x| f64::from_le_bytes(*x))
                .collect(),
        ),
        Kind::Int32 => Value::Int32s(varints(block, |n| n as i32)?),
        Kind::Uint64 => Value::Uints(varints(block, |n| n)?),
        Kind::Uint32 => Value::Uints(varints(block, |n| (n as u32).into())?),
        Kind::Int64 => Value::Ints(varints(block, |n| n as i64)?),
        Kind::Bool => Value::Ints(varints(block, |n| (n != 0).into())?),
        Kind::Enum(_) => Value::Ints(varints(block, |n| (n as i32).into())?),
        Kind::String | Kind::Bytes | Kind::Message(_) => unreachable!("{kind:?} is never packed"),
    })
}

fn varints<T>(block: &[u8], of: impl Fn(u64) -> T) -> Result<Arc<[T]>, Fault> {
    // A number ends with the first byte below 0x80.
    if block.last().is_some_and(|&byte| byte >= 0x80) {
        return Err(Box::new(Malformed::NumberEnds));
    }
    let count = block.iter().filter(|&&byte| byte < 0x80).count();
    let mut reader = Reader::new(block);
    let mut fault = None;
    let numbers = (0..count).map(|_| {
        of(reader.varint().unwrap_or_else(|error| {
            fault = Some(error);
            0
        }))
    });
    let numbers = numbers.collect();
    fault.map_or(Ok(numbers), Err)
}

/// The items of a block of fixed size.
fn fixed<const N: usize>(block: &[u8]) -> Result<&[[u8; N]], Fault> {
    let (items, rest) = block.as_chunks::<N>();
    if rest.is_empty() {
        return Ok(items);
    }
    Err(Box::new(Malformed::Packed {
        length: block.len() as u64,
        item: N as u64,
    }))
}
