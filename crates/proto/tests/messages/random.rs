//! Random messages of any descriptor.

use refeed_proto::Bytes;
use refeed_proto::message::{
    FieldDescriptor, FrozenMessage, Kind, MessageDescriptor, Payload, Text, Value,
};

/// A sequence of numbers that a seed determines (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// True `times` out of 8.
    pub(crate) fn often(&mut self, times: u64) -> bool {
        self.below(8) < times
    }

    /// A message with up to `depth` levels below it.
    pub(crate) fn message(
        &mut self,
        descriptor: &'static MessageDescriptor,
        depth: usize,
    ) -> FrozenMessage {
        let mut values = vec![Value::Absent; descriptor.fields.len()];
        for field in descriptor.fields {
            let deeper = field.kind.message().is_some();
            if field.retired || deeper && depth == 0 || !self.often(if deeper { 5 } else { 3 }) {
                continue;
            }
            if let Some(oneof) = field.oneof {
                let members = descriptor.oneofs[usize::from(oneof)].fields;
                if members
                    .iter()
                    .any(|&slot| !matches!(values[usize::from(slot)], Value::Absent))
                {
                    continue;
                }
            }
            values[usize::from(field.slot)] = if field.repeated {
                self.list(field, depth)
            } else {
                self.value(field.kind, depth)
            };
        }
        FrozenMessage::new(descriptor, values, None).unwrap()
    }

    fn value(&mut self, kind: Kind, depth: usize) -> Value {
        match kind {
            Kind::Int32 => Value::Int((self.integer() as i32).into()),
            Kind::Int64 => Value::Int(self.integer() as i64),
            Kind::Uint32 => Value::Uint((self.integer() as u32).into()),
            Kind::Uint64 => Value::Uint(self.integer()),
            Kind::Bool => Value::Int(self.below(2) as i64),
            Kind::Float => Value::Float(f32::from_bits(self.bits() as u32)),
            Kind::Double => Value::Double(f64::from_bits(self.bits())),
            Kind::String => Value::Text(self.text()),
            Kind::Bytes => Value::bytes(self.payload()),
            Kind::Enum(descriptor) => {
                let values = descriptor.values;
                Value::Int(
                    values[self.below(values.len() as u64) as usize]
                        .number
                        .into(),
                )
            }
            Kind::Message(inner) => Value::Message(self.message(inner, depth - 1).into()),
        }
    }

    fn list(&mut self, field: &FieldDescriptor, depth: usize) -> Value {
        let length = if field.packed {
            self.below(70)
        } else {
            self.below(4)
        };
        if length == 0 {
            return Value::Absent;
        }
        let mut items = (0..length).map(|_| self.value(field.kind, depth));
        /// The items of one variant.
        macro_rules! list {
            ($list:ident, $item:ident, $of:expr) => {
                Value::$list(
                    items
                        .map(|item| match item {
                            Value::$item(item) => $of(item),
                            other => panic!("{other:?}"),
                        })
                        .collect(),
                )
            };
        }
        match field.kind {
            Kind::Int64 | Kind::Bool | Kind::Enum(_) => list!(Ints, Int, |n| n),
            Kind::Int32 => list!(Int32s, Int, |n: i64| n as i32),
            Kind::Uint32 | Kind::Uint64 => list!(Uints, Uint, |n| n),
            Kind::Float => list!(Floats, Float, |x| x),
            Kind::Double => list!(Doubles, Double, |x| x),
            Kind::String => list!(Texts, Text, |text| text),
            Kind::Bytes => list!(Payloads, Bytes, |payload: Box<Payload>| *payload),
            Kind::Message(_) => Value::Messages(
                items
                    .by_ref()
                    .map(|item| match item {
                        Value::Message(message) => message,
                        other => panic!("{other:?}"),
                    })
                    .collect(),
            ),
        }
    }

    /// Small numbers, negative ones, and ones of every length on the wire.
    fn integer(&mut self) -> u64 {
        let shift = self.below(64);
        let bits = self.bits() >> shift;
        if self.often(2) {
            bits.wrapping_neg()
        } else {
            bits
        }
    }

    fn text(&mut self) -> Text {
        const TEXTS: [&str; 6] = [
            "",
            "x",
            "/model/layers.0/self_attn/q_proj/MatMul_output_0",
            "é☃",
            "a name of just 22 byte",
            "a name of just 23 bytes",
        ];
        match self.below(7) {
            6 => Text::from("n".repeat(self.below(3000) as usize).as_str()),
            n => Text::from(TEXTS[n as usize]),
        }
    }

    fn payload(&mut self) -> Payload {
        let length = if self.often(1) { 5000 } else { 20 };
        let length = self.below(length);
        Payload::new(Bytes::from(
            (0..length).map(|_| self.bits() as u8).collect::<Vec<_>>(),
        ))
    }
}
