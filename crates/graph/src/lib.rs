//! What an ONNX model says: loading, names and topology, types, persistent bindings, operator schemas.
//!
//! Nothing here computes: `refeed-runtime` turns a [`Model`] into calls.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attributes;
pub mod bind;
pub mod bindings;
pub mod builder;
mod error;
pub mod files;
pub mod functions;
pub mod load;
mod model;
pub mod ops;
pub mod parser;
mod path;
mod place;
pub mod printer;
pub mod publish;
mod save;
pub mod schema;
pub mod shape_inference;
pub mod struct_types;
mod syntax;
#[cfg(test)]
mod testing;
pub mod types;
pub mod uses;
pub mod validate;
pub mod values;

pub use bind::{BindReport, BindRequest, bind};
pub use bindings::{Binding, BindingUses};
pub use error::{BindError, BindingError, FieldError, ModelError, UnknownPolicy};
pub use functions::instantiate;
pub use load::{LoadError, LoadOptions};
pub use model::{Model, WeakModel};
pub use parser::ParseError;
pub use printer::PrintError;
pub use publish::Publish;
pub use save::NewFile;
