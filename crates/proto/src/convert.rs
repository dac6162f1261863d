//! Messages of the descriptor-driven form as prost structs, and back.
//!
//! Payloads are shared both ways, structure and text are copied. A prost struct has no place for unknown fields and none
//! for text that is not UTF-8: unknown fields are left out (ask [`FrozenMessage::first_unknown`] first), such text is an
//! error. Messages may be as deep as the wire allows.
//!
//! The conversions of the messages are generated; the values of their fields are converted here.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use crate::message::{FrozenMessage, MessageDescriptor, Payload, Text, Value};

/// Why a message and a prost struct cannot be turned into each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}{}{path}: {fault}", if path.is_empty() { "" } else { ", " })]
pub struct ConvertFault {
    /// Full name of the message that was to be converted.
    pub message: &'static str,
    /// The field inside of it, like `graph.node[3].op_type`; empty for the message itself.
    pub path: String,
    /// What is wrong there.
    pub fault: ConvertReason,
}

/// What is wrong with a message or struct that is to be converted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConvertReason {
    /// Text that is not UTF-8.
    #[error("expected UTF-8 text, got bytes that are not from byte {valid} on: {shown}")]
    NotUtf8 {
        /// Bytes that are UTF-8.
        valid: usize,
        /// The text as far as it can be shown.
        shown: String,
    },
    /// A message of another descriptor.
    #[error("expected a message of this kind, got {got}")]
    OtherMessage {
        /// Full name of the message.
        got: &'static str,
    },
    /// Messages nested deeper than the wire allows.
    #[error("expected at most {LEVELS} levels of messages, got more")]
    Depth,
}

/// Levels of messages that the wire allows, the outermost included.
const LEVELS: usize = 101;

pub(crate) type Fault = Box<ConvertFault>;

/// A prost struct that is also a message with a descriptor.
///
/// ```
/// use refeed_proto::message::{DecodeLimits, FrozenMessage};
/// use refeed_proto::{Bytes, Convert, TensorProto};
/// let wire = Bytes::from_static(b"\x42\x01w\x4A\x03abc");
/// let message = FrozenMessage::decode(TensorProto::DESCRIPTOR, wire, &DecodeLimits::default())?;
/// let tensor = TensorProto::from_message(&message)?;
/// assert_eq!((tensor.name(), tensor.raw_data()), ("w", &b"abc"[..]));
/// assert_eq!(tensor.to_message()?, message);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Convert: Sized {
    /// The descriptor of the message.
    const DESCRIPTOR: &'static MessageDescriptor;

    #[doc(hidden)]
    fn read(message: &FrozenMessage) -> Result<Self, Fault>;

    #[doc(hidden)]
    fn write(&self, room: Room) -> Result<FrozenMessage, Fault>;

    /// The struct of a message. Unknown fields are left out.
    ///
    /// # Errors
    /// When the message is of another descriptor, too deep, or has text that is not UTF-8.
    fn from_message(message: &FrozenMessage) -> Result<Self, ConvertFault> {
        let refuse = |fault| ConvertFault {
            message: Self::DESCRIPTOR.full_name,
            path: String::new(),
            fault,
        };
        if message.descriptor() != Self::DESCRIPTOR {
            let got = message.descriptor().full_name;
            return Err(refuse(ConvertReason::OtherMessage { got }));
        }
        if message.height() > LEVELS {
            return Err(refuse(ConvertReason::Depth));
        }
        Self::read(message).map_err(|fault| ConvertFault {
            message: Self::DESCRIPTOR.full_name,
            ..*fault
        })
    }

    /// The message of the struct.
    ///
    /// # Errors
    /// When messages are nested deeper than the wire allows.
    fn to_message(&self) -> Result<FrozenMessage, ConvertFault> {
        self.write(Room(LEVELS)).map_err(|fault| ConvertFault {
            message: Self::DESCRIPTOR.full_name,
            ..*fault
        })
    }
}

/// Levels of messages that are left.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Room(usize);

impl Room {
    pub(crate) fn below(self, message: &MessageDescriptor) -> Result<Room, Fault> {
        match self.0.checked_sub(1) {
            Some(levels) => Ok(Room(levels)),
            None => Err(Box::new(ConvertFault {
                message: message.full_name,
                path: String::new(),
                fault: ConvertReason::Depth,
            })),
        }
    }
}

/// One value of a field.
pub(crate) trait Single: Sized {
    /// `None` when the field is absent.
    fn read(value: &Value) -> Result<Option<Self>, Fault>;
    fn write(&self, room: Room) -> Result<Value, Fault>;
}

/// All that a field has.
pub(crate) trait Field: Sized {
    fn read(value: &Value) -> Result<Self, Fault>;
    fn write(&self, room: Room) -> Result<Value, Fault>;
}

/// The content of a slot.
pub(crate) fn get<T: Field>(message: &FrozenMessage, slot: u16) -> Result<T, Fault> {
    T::read(message.value(slot)).map_err(|fault| {
        let field = &message.descriptor().fields[usize::from(slot)];
        within(fault, field.name)
    })
}

pub(crate) fn put<T: Field>(field: &T, room: Room) -> Result<Value, Fault> {
    field.write(room)
}

pub(crate) fn single<T: Single>(value: &T, room: Room) -> Result<Value, Fault> {
    value.write(room)
}

pub(crate) fn message(
    descriptor: &'static MessageDescriptor,
    values: impl IntoIterator<Item = Value>,
) -> Result<FrozenMessage, Fault> {
    FrozenMessage::new(descriptor, values, None).map_err(|error| {
        Box::new(ConvertFault {
            message: error.message,
            path: String::new(),
            fault: ConvertReason::Depth,
        })
    })
}

/// Puts the name of a field, or the index of an item, before the path of a fault.
fn within(mut fault: Fault, outer: &str) -> Fault {
    let separator = match fault.path.chars().next() {
        None | Some('[') => "",
        Some(_) => ".",
    };
    fault.path = format!("{outer}{separator}{}", fault.path);
    fault
}

fn text(text: &Text) -> Result<String, Fault> {
    text.as_str().map(str::to_string).map_err(|error| {
        const SHOWN: usize = 60;
        let bytes = text.as_bytes();
        let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
        Box::new(ConvertFault {
            message: "",
            path: String::new(),
            fault: ConvertReason::NotUtf8 {
                valid: error.valid_up_to(),
                shown,
            },
        })
    })
}

/// Values that are numbers or shared bytes.
macro_rules! singles {
    ($($type:ty: $pattern:pat => $read:expr, $value:ident => $write:expr;)*) => {$(
        impl Single for $type {
            fn read(value: &Value) -> Result<Option<$type>, Fault> {
                Ok(match value {
                    $pattern => Some($read),
                    _ => None,
                })
            }

            fn write(&self, _: Room) -> Result<Value, Fault> {
                let $value = self;
                Ok($write)
            }
        }
    )*};
}

// 32-bit fields hold 32-bit numbers.
singles! {
    i64: Value::Int(n) => *n, n => Value::Int(*n);
    i32: Value::Int(n) => *n as i32, n => Value::Int((*n).into());
    bool: Value::Int(n) => *n != 0, n => Value::Int((*n).into());
    u64: Value::Uint(n) => *n, n => Value::Uint(*n);
    u32: Value::Uint(n) => *n as u32, n => Value::Uint((*n).into());
    f32: Value::Float(x) => *x, x => Value::Float(*x);
    f64: Value::Double(x) => *x, x => Value::Double(*x);
    Bytes: Value::Bytes(payload) => payload.bytes().clone(), bytes => Value::bytes(Payload::new(bytes.clone()));
}

impl Single for String {
    fn read(value: &Value) -> Result<Option<String>, Fault> {
        match value {
            Value::Text(held) => text(held).map(Some),
            _ => Ok(None),
        }
    }

    fn write(&self, _: Room) -> Result<Value, Fault> {
        Ok(Value::Text(Text::from(self.as_str())))
    }
}

impl<T: Single> Field for Option<T> {
    fn read(value: &Value) -> Result<Option<T>, Fault> {
        T::read(value)
    }

    fn write(&self, room: Room) -> Result<Value, Fault> {
        self.as_ref()
            .map_or(Ok(Value::Absent), |value| value.write(room))
    }
}

/// Lists of numbers and of shared bytes.
macro_rules! lists {
    ($($type:ty: $variant:ident, $item:ident => $read:expr, $value:ident => $write:expr;)*) => {$(
        impl Field for Vec<$type> {
            fn read(value: &Value) -> Result<Vec<$type>, Fault> {
                Ok(match value {
                    Value::$variant(items) => items.iter().map(|$item| $read).collect(),
                    _ => Vec::new(),
                })
            }

            fn write(&self, _: Room) -> Result<Value, Fault> {
                if self.is_empty() {
                    return Ok(Value::Absent);
                }
                Ok(Value::$variant(self.iter().map(|$value| $write).collect()))
            }
        }
    )*};
}

lists! {
    i64: Ints, n => *n, n => *n;
    i32: Int32s, n => *n, n => *n;
    u64: Uints, n => *n, n => *n;
    f32: Floats, x => *x, x => *x;
    f64: Doubles, x => *x, x => *x;
    Bytes: Payloads, payload => payload.bytes().clone(), bytes => Payload::new(bytes.clone());
}

impl Field for Vec<String> {
    fn read(value: &Value) -> Result<Vec<String>, Fault> {
        let Value::Texts(items) = value else {
            return Ok(Vec::new());
        };
        each(items, text)
    }

    fn write(&self, _: Room) -> Result<Value, Fault> {
        if self.is_empty() {
            return Ok(Value::Absent);
        }
        Ok(Value::Texts(
            self.iter().map(|text| Text::from(text.as_str())).collect(),
        ))
    }
}

/// Converts the items of a list; a fault says which.
fn each<A, B>(items: &[A], of: impl Fn(&A) -> Result<B, Fault>) -> Result<Vec<B>, Fault> {
    let mut converted = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        converted.push(of(item).map_err(|fault| within(fault, &format!("[{index}]")))?);
    }
    Ok(converted)
}

pub(crate) fn read_list<M: Convert>(value: &Value) -> Result<Vec<M>, Fault> {
    each(value.messages(), |message| M::read(message))
}

pub(crate) fn write_list<M: Convert>(items: &[M], room: Room) -> Result<Value, Fault> {
    if items.is_empty() {
        return Ok(Value::Absent);
    }
    let messages = each(items, |message| Ok(Arc::new(message.write(room)?)))?;
    Ok(Value::Messages(messages.into()))
}

/// A message as the value of a field: in place, in a box, in a list.
macro_rules! field {
    ($message:ty) => {
        impl $crate::convert::Single for $message {
            fn read(value: &Value) -> Result<Option<$message>, Fault> {
                match value {
                    Value::Message(message) => <$message as Convert>::read(message).map(Some),
                    _ => Ok(None),
                }
            }

            fn write(&self, room: Room) -> Result<Value, Fault> {
                Ok(Value::Message(Convert::write(self, room)?.into()))
            }
        }

        impl $crate::convert::Single for Box<$message> {
            fn read(value: &Value) -> Result<Option<Box<$message>>, Fault> {
                match value {
                    Value::Message(message) => {
                        <$message as Convert>::read(message).map(Box::new).map(Some)
                    }
                    _ => Ok(None),
                }
            }

            fn write(&self, room: Room) -> Result<Value, Fault> {
                Ok(Value::Message(Convert::write(&**self, room)?.into()))
            }
        }

        impl $crate::convert::Field for Vec<$message> {
            fn read(value: &Value) -> Result<Vec<$message>, Fault> {
                $crate::convert::read_list(value)
            }

            fn write(&self, room: Room) -> Result<Value, Fault> {
                $crate::convert::write_list(self, room)
            }
        }
    };
}
pub(crate) use field;
