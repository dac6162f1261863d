//! The ONNX wire format: prost structs for every message of ONNX 1.23 (IR version 14) and for refeed's extensions.
//!
//! A leaf crate: it knows the bytes and their structure, not what a model means. The schema is `proto/onnx.proto`; the
//! Rust code is generated from it by `cargo xtask codegen` and checked in.
//!
//! * **Payloads are shared.** Every `bytes` field is a [`Bytes`]. [`ModelProto::decode`](Message::decode) from an owned
//!   [`Bytes`], a mapped file included, makes each payload a slice of it, at any depth; cloning a message shares the
//!   payloads and copies the structure.
//! * **Presence is kept.** Optional fields are [`Option`]s; the generated readers of the same name
//!   (`node.op_type()`) give the default when a field is absent.
//! * **Hostile input is an error.** Lengths are checked against the bytes that are left, text must be UTF-8, and
//!   messages or groups nested deeper than 100 are refused.
//! * **Few bytes can make a large tree**: an empty node takes two bytes on the wire and hundreds in memory.
//!   [`structure_bytes`] bounds what decoding will take, before it starts.
//! * **Unknown fields are dropped**, so encoding a decoded message keeps only what the schema names.
//!
//! [`message`] has the second form of the same schema: messages that know their descriptor, keep unknown fields and can
//! be edited through references to their parts. [`Convert`] turns one form into the other and shares the payloads.
//!
//! [`ext`] has small readers for what the wire makes awkward: attributes and metadata by name, types, data types.
//!
//! ```
//! use refeed_proto::{Bytes, Message, PersistentBindingProto};
//! let binding = PersistentBindingProto {
//!     input_name: Some("in".into()),
//!     output_name: Some("out".into()),
//!     ..Default::default()
//! };
//! let wire = Bytes::from(binding.encode_to_vec());
//! assert_eq!(wire, b"\x0A\x02in\x12\x03out"[..]);
//! assert_eq!(PersistentBindingProto::decode(wire)?, binding);
//! # Ok::<(), refeed_proto::DecodeError>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod convert;
pub mod ext;
pub mod message;
mod structure;

// The generator formats its own output, so that the freshness test does not depend on a rustfmt version.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, clippy::pedantic)]
#[path = "generated/onnx.rs"]
mod generated;
#[rustfmt::skip]
#[path = "generated/nesting.rs"]
mod generated_nesting;
#[rustfmt::skip]
#[allow(clippy::all)]
#[path = "generated/convert.rs"]
mod generated_convert;

pub use bytes::Bytes;
pub use convert::{Convert, ConvertFault, ConvertReason};
pub use generated::*;
pub use prost::{DecodeError, EncodeError, Message};
pub use structure::structure_bytes;
