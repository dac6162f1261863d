//! The second form of the schema: messages that know their descriptor, for code that edits and inspects any message.
//!
//! The prost structs of this crate are what Rust code reads. They drop unknown fields and give nobody a child that can
//! be edited while its parent holds it. The types here keep both:
//!
//! * [`MessageDescriptor`], [`FieldDescriptor`], [`EnumDescriptor`]: the schema as tables, generated with the structs;
//! * [`FrozenMessage`]: an immutable message, `Arc`-shared, payloads shared;
//! * [`EditableMessage`]: an editable message with identity, over frozen parts that it shares until they change;
//! * [`Value`]: what one field holds.
//!
//! A frozen message costs nothing to share, and freezing an editable one copies only the messages that changed since
//! the last time. What is frozen never changes, whatever happens to the message that it came from.

mod decode;
mod descriptor;
mod editable;
mod encode;
mod equality;
mod frozen;
mod list;
mod payload;
mod print;
mod rewrite;
mod scan;
mod text;
mod unknown;
mod value;
mod wire;

pub use decode::{DecodeFault, DecodeLimits};
pub use descriptor::{
    EnumDescriptor, EnumValue, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor,
};
pub use editable::{EditableMessage, Tree, TreeLock};
pub use encode::{EncodeFault, MESSAGE_LIMIT};
pub use frozen::{FrozenMessage, NESTING_LIMIT, NestingError};
pub use payload::Payload;
pub use scan::TextFault;
pub use text::Text;
pub use unknown::{UnknownField, UnknownPlace, UnknownValue};
pub use value::Value;
pub use wire::Malformed;

/// The schema's tables: one static per message and per enum.
#[rustfmt::skip]
#[path = "generated/descriptors.rs"]
pub mod descriptors;

#[cfg(test)]
mod tests;
