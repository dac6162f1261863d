//! When two messages are equal, as protobuf has it.
//!
//! Same descriptor, same fields present, same values. Floats compare by their bits, so a NaN equals itself and 0.0 is
//! not -0.0. Unknown fields compare by what they say: their order matters among fields of one number only.

use std::sync::Arc;

use bytes::Bytes;

use super::frozen::FrozenMessage;
use super::unknown::{UnknownField, UnknownValue, unknown_fields};
use super::value::Value;

impl PartialEq for FrozenMessage {
    fn eq(&self, other: &FrozenMessage) -> bool {
        equal(vec![(self, other)])
    }
}

impl Eq for FrozenMessage {}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        let mut open = Vec::new();
        same(self, other, &mut open) && equal(open)
    }
}

impl Eq for Value {}

type Pair<'a> = (&'a FrozenMessage, &'a FrozenMessage);

/// Whether the messages of all pairs are equal. A stack of its own, as messages may be nested deeper than the
/// program's stack is.
fn equal(mut open: Vec<Pair<'_>>) -> bool {
    while let Some((a, b)) = open.pop() {
        if std::ptr::eq(a, b) {
            continue;
        }
        if a.descriptor() != b.descriptor() || a.present() != b.present() {
            return false;
        }
        if !same_unknown(a.unknown(), b.unknown()) {
            return false;
        }
        let mut values = a.held().iter().zip(b.held());
        if !values.all(|(a, b)| same(a, b, &mut open)) {
            return false;
        }
    }
    true
}

/// Whether two values are equal, apart from the messages in them, which are added to `open`.
fn same<'a>(a: &'a Value, b: &'a Value, open: &mut Vec<Pair<'a>>) -> bool {
    match (a, b) {
        (Value::Absent, Value::Absent) => true,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Message(a), Value::Message(b)) => {
            open.push((a, b));
            true
        }
        (Value::Ints(a), Value::Ints(b)) => a == b,
        (Value::Int32s(a), Value::Int32s(b)) => a == b,
        (Value::Uints(a), Value::Uints(b)) => a == b,
        (Value::Floats(a), Value::Floats(b)) => {
            let bits = |items: &'a [f32]| items.iter().map(|x| x.to_bits());
            Arc::ptr_eq(a, b) || bits(a).eq(bits(b))
        }
        (Value::Doubles(a), Value::Doubles(b)) => {
            let bits = |items: &'a [f64]| items.iter().map(|x| x.to_bits());
            Arc::ptr_eq(a, b) || bits(a).eq(bits(b))
        }
        (Value::Texts(a), Value::Texts(b)) => a == b,
        (Value::Payloads(a), Value::Payloads(b)) => a == b,
        (Value::Messages(a), Value::Messages(b)) => {
            let pairs = a.iter().zip(b.iter());
            open.extend(pairs.map(|(a, b)| (&**a, &**b)));
            a.len() == b.len()
        }
        _ => false,
    }
}

fn same_unknown(a: Option<&Arc<[Bytes]>>, b: Option<&Arc<[Bytes]>>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a.is_none() == b.is_none();
    };
    if a == b {
        return true;
    }
    let read = |spans: &[Bytes]| {
        let mut fields = Vec::new();
        for span in spans {
            fields.extend(unknown_fields(span).ok()?);
        }
        sort(&mut fields);
        Some(fields)
    };
    match (read(a), read(b)) {
        (Some(a), Some(b)) => a == b,
        // Bytes that are no fields at all are only equal as they stand.
        _ => false,
    }
}

/// As deep as groups are nested, which reading limits.
fn sort(fields: &mut [UnknownField]) {
    fields.sort_by_key(|field| (field.number, field.value.wire_type()));
    for field in fields {
        if let UnknownValue::Group(inner) = &mut field.value {
            sort(inner);
        }
    }
}
