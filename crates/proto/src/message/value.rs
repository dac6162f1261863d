//! What one field holds.

use std::sync::Arc;

use super::descriptor::Kind;
use super::frozen::FrozenMessage;
use super::payload::Payload;
use super::text::Text;

/// The content of one field of a message, or one item of a list. Cloning shares.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// The field is absent, or an empty list.
    #[default]
    Absent,
    /// `int32`, `int64`, `bool` (0 or 1) and enums.
    Int(i64),
    /// `uint32` and `uint64`.
    Uint(u64),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `string`.
    Text(Text),
    /// `bytes`.
    Bytes(Box<Payload>),
    /// A message.
    Message(Arc<FrozenMessage>),
    /// A list of `int64`, `bool` or an enum.
    Ints(Arc<[i64]>),
    /// A list of `int32`.
    Int32s(Arc<[i32]>),
    /// A list of `uint32` or `uint64`.
    Uints(Arc<[u64]>),
    /// A list of `float`.
    Floats(Arc<[f32]>),
    /// A list of `double`.
    Doubles(Arc<[f64]>),
    /// A list of `string`.
    Texts(Arc<[Text]>),
    /// A list of `bytes`.
    Payloads(Arc<[Payload]>),
    /// A list of messages.
    Messages(Arc<[Arc<FrozenMessage>]>),
}

impl Value {
    /// A `bytes` value.
    pub fn bytes(payload: Payload) -> Value {
        Value::Bytes(Box::new(payload))
    }

    /// Whether there is nothing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Value::Absent)
    }

    /// Number of items of a list; 0 for everything else.
    pub fn len(&self) -> usize {
        match self {
            Value::Ints(items) => items.len(),
            Value::Int32s(items) => items.len(),
            Value::Uints(items) => items.len(),
            Value::Floats(items) => items.len(),
            Value::Doubles(items) => items.len(),
            Value::Texts(items) => items.len(),
            Value::Payloads(items) => items.len(),
            Value::Messages(items) => items.len(),
            _ => 0,
        }
    }

    /// Whether this is no list, or an empty one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One item of a list, as a value of its own; `Absent` beyond the end.
    pub fn item(&self, index: usize) -> Value {
        match self {
            Value::Ints(items) => items.get(index).map(|&n| Value::Int(n)),
            Value::Int32s(items) => items.get(index).map(|&n| Value::Int(n.into())),
            Value::Uints(items) => items.get(index).map(|&n| Value::Uint(n)),
            Value::Floats(items) => items.get(index).map(|&x| Value::Float(x)),
            Value::Doubles(items) => items.get(index).map(|&x| Value::Double(x)),
            Value::Texts(items) => items.get(index).cloned().map(Value::Text),
            Value::Payloads(items) => items.get(index).cloned().map(Value::bytes),
            Value::Messages(items) => items.get(index).cloned().map(Value::Message),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// The messages of a list of messages; empty for everything else.
    pub fn messages(&self) -> &[Arc<FrozenMessage>] {
        match self {
            Value::Messages(items) => items,
            _ => &[],
        }
    }

    /// What reading an absent singular field of a kind gives; `Absent` for messages, which have no default.
    pub fn default_of(kind: Kind) -> Value {
        match kind {
            Kind::Int32 | Kind::Int64 | Kind::Bool => Value::Int(0),
            Kind::Enum(descriptor) => Value::Int(descriptor.default_number().into()),
            Kind::Uint32 | Kind::Uint64 => Value::Uint(0),
            Kind::Float => Value::Float(0.0),
            Kind::Double => Value::Double(0.0),
            Kind::String => Value::Text(Text::from("")),
            Kind::Bytes => Value::bytes(Payload::new(bytes::Bytes::new())),
            Kind::Message(_) => Value::Absent,
        }
    }
}
