//! What an ONNX model says: loading, names and topology, types, persistent bindings, operator schemas.
//!
//! Nothing here computes: `refeed-runtime` turns a [`Model`] into calls.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attributes;
pub mod load;
pub mod ops;
pub mod schema;
pub mod types;
