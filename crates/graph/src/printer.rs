//! The ONNX text form, written: [`to_text`] gives text that [`parser`](crate::parser) reads back as the same message.
//!
//! ```
//! use refeed_graph::{parser::parse_node, printer::{Fidelity, to_text}};
//! let node = parse_node("[n] y=Op<a=[1,2]>(x)")?;
//! assert_eq!(to_text(&node, Fidelity::Exact)?, "[n] y = Op <a: ints = [1, 2]> (x)\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The layout is that of `onnx.printer` in ONNX 1.23. What cannot come back is an error that names every such field, and
//! [`Fidelity`] says what must come back:
//!
//! * The text form has no place for the documentation of nodes, graphs, values, tensors and attributes, for metadata but
//!   the model's, for sparse tensors, quantization annotations, device configurations, training, and for every extension
//!   of refeed: persistent bindings, encoded and paged initializers, struct types. Names of operators, domains and
//!   attributes must be identifiers, strings must be UTF-8, a NaN must be the plain one of its sign. Models that hold
//!   more are refused, unless [`Fidelity::Lossy`] is asked for.
//! * It always writes some fields, so that an absent one comes back with its default (the domain of a node, the name of
//!   a tensor), and has no place for others, so that one that holds the default comes back absent. And it writes the
//!   elements of a tensor one by one: `raw_data` comes back as `float_data` and its like, with the same bits; elements of
//!   less than a byte stay packed as they are, a byte a number (six-bit floats, which ONNX unpacks there, one a number).
//!   None of this changes what the message means, and only [`Fidelity::Exact`] refuses it.
//!
//! So a message that a parser made is printed exactly; one of other origin comes back equal after absent and default
//! fields are taken as one, and raw elements as typed ones. `-0` and infinities are written as such and come back.
//!
//! Names are quoted where they are no identifiers, and where they would read as something else. `onnx.parser` reads the
//! text as well, but for names of graphs and tensors inside attributes that need quotes or start with `inf` or `nan`, and
//! for lists of tensors, graphs and types, which it forgets.

mod attribute;
mod error;
mod grammar;
mod number;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
mod writer;

pub use error::{Lost, PrintError, Why};

use refeed_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto,
    ValueInfoProto,
};
use writer::Writer;

/// What must come back when a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// The same message, byte for byte on the wire.
    Exact,
    /// The same message, except that fields which hold their default may come back absent or the reverse, and that
    /// `raw_data` comes back as typed elements with the same bits.
    #[default]
    Equivalent,
    /// What there is a place for. The rest is left out, names are spelled with `_`; the text still parses.
    Lossy,
}

/// A message that has a text form.
pub trait TextForm: sealed::Print {}

mod sealed {
    use super::writer::Writer;

    /// Writes a message; `false` when there is nothing that would parse.
    pub trait Print {
        fn print(&self, writer: &mut Writer) -> bool;
    }
}

macro_rules! text_forms {
    ($($message:ty => |$self:ident, $writer:ident| $print:expr;)*) => {$(
        impl sealed::Print for $message {
            fn print(&self, $writer: &mut Writer) -> bool {
                let $self = self;
                $print
            }
        }
        impl TextForm for $message {}
    )*};
}

text_forms! {
    ModelProto => |model, writer| { writer.model(model); true };
    GraphProto => |graph, writer| writer.graph(graph, false);
    FunctionProto => |function, writer| { writer.function(function); true };
    NodeProto => |node, writer| { writer.node(node); true };
    AttributeProto => |attribute, writer| writer.attribute(attribute, false);
    TensorProto => |tensor, writer| writer.tensor(tensor, false);
    ValueInfoProto => |value, writer| { writer.value_info(value); true };
    TypeProto => |ty, writer| writer.type_proto(ty);
}

/// Writes a message as text.
///
/// # Errors
///
/// [`PrintError`] names every field that would not come back, by its path from the message. With [`Fidelity::Lossy`] it
/// is only returned when nothing is left to write, as of a type that has no text form.
pub fn to_text<M: TextForm + ?Sized>(
    message: &M,
    fidelity: Fidelity,
) -> Result<String, PrintError> {
    let mut writer = Writer::new(fidelity);
    let written = message.print(&mut writer);
    writer.finish(written)
}
