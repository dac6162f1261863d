//! The schema as tables.

use std::fmt;

/// One message of the schema.
pub struct MessageDescriptor {
    /// Name without its scope: `Tensor` for `onnx.TypeProto.Tensor`.
    pub name: &'static str,
    /// Name with the package and every message around it.
    pub full_name: &'static str,
    /// What the schema says of it.
    pub doc: &'static str,
    /// Place among all messages of the schema.
    pub ordinal: u16,
    /// The fields in the schema's order. A field's place here is its *slot*.
    pub fields: &'static [FieldDescriptor],
    /// Slots in the order of field numbers: the order on the wire.
    pub by_number: &'static [u16],
    /// For each number below 32, the slot of its field plus one; 0 for no field.
    pub low: [u8; 32],
    /// Groups of fields of which at most one is present.
    pub oneofs: &'static [OneofDescriptor],
    /// Messages declared inside this one.
    pub messages: &'static [&'static MessageDescriptor],
    /// Enums declared inside this one.
    pub enums: &'static [&'static EnumDescriptor],
}

/// One field of a message.
pub struct FieldDescriptor {
    /// Name in the schema.
    pub name: &'static str,
    /// Number on the wire.
    pub number: u32,
    /// Place among the fields of its message.
    pub slot: u16,
    /// Place among them in the order of numbers.
    pub place: u16,
    /// What it holds.
    pub kind: Kind,
    /// Whether it holds a list.
    pub repeated: bool,
    /// Whether its list of numbers is written as one packed block.
    pub packed: bool,
    /// Index among the oneofs of its message.
    pub oneof: Option<u16>,
    /// Whether it is declared only so that messages which carry it are refused.
    pub retired: bool,
    /// What the schema says of it.
    pub doc: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
    /// `bool`.
    Bool,
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// UTF-8 text.
    String,
    /// Bytes.
    Bytes,
    /// A number with names. Numbers without a name are kept.
    Enum(&'static EnumDescriptor),
    /// A message.
    Message(&'static MessageDescriptor),
}

/// Fields of which at most one is present.
pub struct OneofDescriptor {
    /// Name in the schema.
    pub name: &'static str,
    /// Slots of its members, in the schema's order.
    pub fields: &'static [u16],
}

/// An enum of the schema.
pub struct EnumDescriptor {
    /// Name without its scope.
    pub name: &'static str,
    /// Name with the package and every message around it.
    pub full_name: &'static str,
    /// What the schema says of it.
    pub doc: &'static str,
    /// Names and numbers in the schema's order.
    pub values: &'static [EnumValue],
}

/// One name of an enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnumValue {
    /// Its name.
    pub name: &'static str,
    /// Its number on the wire.
    pub number: i32,
}

impl MessageDescriptor {
    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&'static FieldDescriptor> {
        let fields: &'static [FieldDescriptor] = self.fields;
        fields.iter().find(|field| field.name == name)
    }

    /// The field of a number on the wire.
    #[inline]
    pub fn field_by_number(&self, number: u32) -> Option<&'static FieldDescriptor> {
        let fields: &'static [FieldDescriptor] = self.fields;
        if let Some(&slot) = self.low.get(number as usize) {
            return fields.get(usize::from(slot).wrapping_sub(1));
        }
        let place = self
            .by_number
            .binary_search_by_key(&number, |&slot| fields[usize::from(slot)].number)
            .ok()?;
        Some(&fields[usize::from(self.by_number[place])])
    }

    /// The oneof of a name.
    pub fn oneof(&self, name: &str) -> Option<&'static OneofDescriptor> {
        let oneofs: &'static [OneofDescriptor] = self.oneofs;
        oneofs.iter().find(|oneof| oneof.name == name)
    }
}

/// Each message of the schema has one descriptor.
impl PartialEq for MessageDescriptor {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for MessageDescriptor {}

impl EnumDescriptor {
    /// The name of a number.
    pub fn name_of(&self, number: i32) -> Option<&'static str> {
        let values = self.values.iter();
        values
            .filter(|value| value.number == number)
            .map(|value| value.name)
            .next()
    }

    /// The number of a name.
    pub fn number_of(&self, name: &str) -> Option<i32> {
        let mut values = self.values.iter();
        values
            .find(|value| value.name == name)
            .map(|value| value.number)
    }

    /// The number that an absent field has: the first one.
    pub fn default_number(&self) -> i32 {
        self.values.first().map_or(0, |value| value.number)
    }
}

impl Kind {
    /// The schema's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Uint32 => "uint32",
            Kind::Uint64 => "uint64",
            Kind::Bool => "bool",
            Kind::Float => "float",
            Kind::Double => "double",
            Kind::String => "string",
            Kind::Bytes => "bytes",
            Kind::Enum(descriptor) => descriptor.full_name,
            Kind::Message(descriptor) => descriptor.full_name,
        }
    }

    /// The message inside, for fields that hold messages.
    pub fn message(self) -> Option<&'static MessageDescriptor> {
        match self {
            Kind::Message(descriptor) => Some(descriptor),
            _ => None,
        }
    }
}

// By name: descriptors refer to each other in cycles.
impl fmt::Debug for MessageDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageDescriptor({})", self.full_name)
    }
}

impl fmt::Debug for EnumDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnumDescriptor({})", self.full_name)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for FieldDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {:?}", self.name, self.number, self.kind)
    }
}
