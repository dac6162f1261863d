//! A list that is being edited.

use std::sync::Arc;

use super::descriptor::Kind;
use super::editable::EditableMessage;
use super::frozen::FrozenMessage;
use super::payload::Payload;
use super::text::Text;
use super::value::Value;

/// A message in an editable list or field: as it was frozen, or with an identity because somebody asked for it.
#[derive(Clone)]
pub(super) enum Child {
    Frozen(Arc<FrozenMessage>),
    Editable(Arc<EditableMessage>),
}

/// The items of a list field, by the kind that they are stored in.
pub(super) enum List {
    Ints(Vec<i64>),
    Int32s(Vec<i32>),
    Uints(Vec<u64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Texts(Vec<Text>),
    Payloads(Vec<Payload>),
    Messages(Vec<Child>),
}

/// Runs one expression for whichever kind of items a list has.
macro_rules! each {
    ($list:expr, $items:ident => $body:expr) => {
        match $list {
            List::Ints($items) => $body,
            List::Int32s($items) => $body,
            List::Uints($items) => $body,
            List::Floats($items) => $body,
            List::Doubles($items) => $body,
            List::Texts($items) => $body,
            List::Payloads($items) => $body,
            List::Messages($items) => $body,
        }
    };
}

impl List {
    pub(super) fn new(kind: Kind) -> List {
        match kind {
            Kind::Int32 => List::Int32s(Vec::new()),
            Kind::Int64 | Kind::Bool | Kind::Enum(_) => List::Ints(Vec::new()),
            Kind::Uint32 | Kind::Uint64 => List::Uints(Vec::new()),
            Kind::Float => List::Floats(Vec::new()),
            Kind::Double => List::Doubles(Vec::new()),
            Kind::String => List::Texts(Vec::new()),
            Kind::Bytes => List::Payloads(Vec::new()),
            Kind::Message(_) => List::Messages(Vec::new()),
        }
    }

    /// A copy of a frozen list that can be edited; its messages stay shared.
    pub(super) fn thaw(kind: Kind, value: &Value) -> List {
        match value {
            Value::Ints(items) => List::Ints(items.to_vec()),
            Value::Int32s(items) => List::Int32s(items.to_vec()),
            Value::Uints(items) => List::Uints(items.to_vec()),
            Value::Floats(items) => List::Floats(items.to_vec()),
            Value::Doubles(items) => List::Doubles(items.to_vec()),
            Value::Texts(items) => List::Texts(items.to_vec()),
            Value::Payloads(items) => List::Payloads(items.to_vec()),
            Value::Messages(items) => {
                List::Messages(items.iter().cloned().map(Child::Frozen).collect())
            }
            _ => List::new(kind),
        }
    }

    pub(super) fn len(&self) -> usize {
        each!(self, items => items.len())
    }

    /// One item that is not a message.
    pub(super) fn item(&self, index: usize) -> Value {
        match self {
            List::Ints(items) => items.get(index).map(|&n| Value::Int(n)),
            List::Int32s(items) => items.get(index).map(|&n| Value::Int(n.into())),
            List::Uints(items) => items.get(index).map(|&n| Value::Uint(n)),
            List::Floats(items) => items.get(index).map(|&x| Value::Float(x)),
            List::Doubles(items) => items.get(index).map(|&x| Value::Double(x)),
            List::Texts(items) => items.get(index).cloned().map(Value::Text),
            List::Payloads(items) => items.get(index).cloned().map(Value::bytes),
            List::Messages(_) => None,
        }
        .unwrap_or_default()
    }

    /// Puts values where `range` was. Values of another kind than the list's are passed over: the caller has checked.
    pub(super) fn splice(&mut self, range: std::ops::Range<usize>, values: Vec<Value>) -> Removed {
        /// The values of one variant.
        macro_rules! swap {
            ($items:expr, $pattern:pat => $item:expr) => {{
                let new = values.into_iter().filter_map(|value| match value {
                    $pattern => Some($item),
                    _ => None,
                });
                drop($items.splice(range, new));
                Removed::new()
            }};
        }
        match self {
            List::Ints(items) => swap!(items, Value::Int(n) => n),
            // Checked by the caller against the field's kind.
            List::Int32s(items) => swap!(items, Value::Int(n) => n as i32),
            List::Uints(items) => swap!(items, Value::Uint(n) => n),
            List::Floats(items) => swap!(items, Value::Float(x) => x),
            List::Doubles(items) => swap!(items, Value::Double(x) => x),
            List::Texts(items) => swap!(items, Value::Text(text) => text),
            List::Payloads(items) => swap!(items, Value::Bytes(payload) => *payload),
            List::Messages(items) => {
                let new = values.into_iter().filter_map(|value| match value {
                    Value::Message(message) => Some(Child::Frozen(message)),
                    _ => None,
                });
                editable(items.splice(range, new))
            }
        }
    }

    /// Keeps the items at `order`, in that order. Each index is below the length and occurs once at most.
    pub(super) fn select(&mut self, order: &[usize]) -> Removed {
        if let List::Messages(items) = self {
            let mut old: Vec<Option<Child>> = items.drain(..).map(Some).collect();
            items.extend(order.iter().filter_map(|&index| old[index].take()));
            return editable(old.into_iter().flatten());
        }
        each!(self, items => *items = picked(items, order));
        Removed::new()
    }

    /// Adds one value of the list's kind.
    pub(super) fn push_value(&mut self, value: Value) {
        match (self, value) {
            (List::Ints(items), Value::Int(n)) => push(items, n),
            // Checked by the caller against the field's kind.
            (List::Int32s(items), Value::Int(n)) => push(items, n as i32),
            (List::Uints(items), Value::Uint(n)) => push(items, n),
            (List::Floats(items), Value::Float(x)) => push(items, x),
            (List::Doubles(items), Value::Double(x)) => push(items, x),
            (List::Texts(items), Value::Text(text)) => push(items, text),
            (List::Payloads(items), Value::Bytes(payload)) => push(items, *payload),
            (List::Messages(items), Value::Message(message)) => {
                push(items, Child::Frozen(message));
            }
            _ => debug_assert!(false, "a value of another kind than the list's"),
        }
    }

    /// Numbers in native byte order, with their NumPy type.
    pub(super) fn numbers(&self) -> Option<(Vec<u8>, &'static str)> {
        Some(match self {
            List::Ints(items) => (items.iter().flat_map(|n| n.to_ne_bytes()).collect(), "i8"),
            List::Int32s(items) => (items.iter().flat_map(|n| n.to_ne_bytes()).collect(), "i4"),
            List::Uints(items) => (items.iter().flat_map(|n| n.to_ne_bytes()).collect(), "u8"),
            List::Floats(items) => (items.iter().flat_map(|x| x.to_ne_bytes()).collect(), "f4"),
            List::Doubles(items) => (items.iter().flat_map(|x| x.to_ne_bytes()).collect(), "f8"),
            List::Texts(_) | List::Payloads(_) | List::Messages(_) => return None,
        })
    }

    /// The messages with an identity.
    pub(super) fn editable(&self) -> impl Iterator<Item = &Arc<EditableMessage>> {
        let items: &[Child] = match self {
            List::Messages(items) => items,
            _ => &[],
        };
        items.iter().filter_map(|child| match child {
            Child::Editable(message) => Some(message),
            Child::Frozen(_) => None,
        })
    }

    /// The list as a value; messages as `frozen` gives them.
    pub(super) fn freeze(&self, frozen: impl Fn(&Child) -> Arc<FrozenMessage>) -> Value {
        if self.len() == 0 {
            return Value::Absent;
        }
        match self {
            List::Ints(items) => Value::Ints(items.as_slice().into()),
            List::Int32s(items) => Value::Int32s(items.as_slice().into()),
            List::Uints(items) => Value::Uints(items.as_slice().into()),
            List::Floats(items) => Value::Floats(items.as_slice().into()),
            List::Doubles(items) => Value::Doubles(items.as_slice().into()),
            List::Texts(items) => Value::Texts(items.as_slice().into()),
            List::Payloads(items) => Value::Payloads(items.as_slice().into()),
            List::Messages(items) => Value::Messages(items.iter().map(frozen).collect()),
        }
    }

    /// Adds one message.
    pub(super) fn push(&mut self, child: Child) {
        if let List::Messages(items) = self {
            push(items, child);
        }
    }

    pub(super) fn child(&mut self, index: usize) -> Option<&mut Child> {
        match self {
            List::Messages(items) => items.get_mut(index),
            _ => None,
        }
    }
}

impl Value {
    /// The value of a list field of a kind; of items of other kinds nothing is taken.
    pub fn list(kind: Kind, items: Vec<Value>) -> Value {
        let mut list = List::new(kind);
        drop(list.splice(0..0, items));
        list.freeze(|child| match child {
            Child::Frozen(message) => message.clone(),
            Child::Editable(_) => unreachable!("values hold messages without identity"),
        })
    }
}

/// Adds an item. Most lists of a graph hold one or two, for which a vector would take room for four.
fn push<T>(items: &mut Vec<T>, item: T) {
    if items.capacity() == 0 {
        items.reserve_exact(2);
    }
    items.push(item);
}

fn picked<T: Clone>(items: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&index| items[index].clone()).collect()
}

/// Messages with an identity that left their list.
pub(super) type Removed = Vec<Arc<EditableMessage>>;

fn editable(children: impl IntoIterator<Item = Child>) -> Removed {
    let children = children.into_iter();
    children
        .filter_map(|child| match child {
            Child::Editable(message) => Some(message),
            Child::Frozen(_) => None,
        })
        .collect()
}
