//! The ONNX text form, read: [`parse_model`] and its like take text and give messages.
//!
//! ```
//! let model = refeed_graph::parser::parse_model(r#"
//!     <ir_version: 10, opset_import: ["": 21]>
//!     agraph (float[N, 128] X, float[128, 10] W) => (float[N, 10] C) {
//!         [product] T = MatMul (X, W)     # a node with a name
//!         C = Softmax <axis: int = 1> (T)
//!     }
//! "#)?;
//! assert_eq!(model.graph.unwrap_or_default().node[0].name(), "product");
//! # Ok::<(), refeed_graph::ParseError>(())
//! ```
//!
//! The grammar is that of `onnx.parser` in ONNX 1.23 (<https://onnx.ai/onnx/repo-docs/Syntax.html>), and the messages are
//! the same, field by field: a node without a domain has an empty one, a tensor without a name has an empty one. What
//! `onnx.parser` takes and drops or alters is an error here, or kept:
//!
//! * text after the end, except after a model, where functions stand;
//! * lists of tensors, of graphs and of types, which it reads and forgets, are kept; a reference in a list is refused;
//! * faults in the default of a function's attribute, which it passes over;
//! * negative elements of `uint32` and `uint64`, which it wraps around;
//! * a zero byte, which ends its text.
//!
//! Three things of the grammar that it does not take are taken: a quoted name of a graph or of a tensor inside an
//! attribute, a number such as `.5`, and a graph inside an attribute whose name starts with `inf` or `nan`.
//!
//! Text is `&str`, or bytes: strings of attributes and tensors may then be any bytes, names must be UTF-8. Work and memory
//! are linear in the length of the text. Messages nest at most [`NESTING_LIMIT`] deep, as they do on the wire, so that
//! what parses can be written and read again; with one graph in each node that is 33 graphs.

mod attribute;
mod error;
mod grammar;
mod lexer;
mod number;
mod tensor;
#[cfg(test)]
mod tests;
mod types;

pub use error::ParseError;

use error::Fault;
use lexer::Lexer;
use refeed_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto,
    ValueInfoProto,
};

/// Messages inside each other, without the outermost one: the limit of the wire format's readers.
pub const NESTING_LIMIT: u32 = 100;

/// The grammar, each rule a method of the file that it is in. Methods take a rule's text and give its message; `depth`
/// is that of the message.
#[derive(Debug)]
struct Parser<'t> {
    lexer: Lexer<'t>,
}

impl Parser<'_> {
    /// Checks that a message may be at `depth`.
    fn nest(&self, depth: u32, at: usize) -> Result<(), Fault> {
        if depth <= NESTING_LIMIT {
            return Ok(());
        }
        let expected = format!("at most {NESTING_LIMIT} messages inside each other");
        Err(Fault::new(at, expected, "one more"))
    }
}

/// Takes the whole text by one rule.
fn parse<T>(
    text: &[u8],
    rule: impl FnOnce(&mut Parser<'_>) -> Result<T, Fault>,
) -> Result<T, ParseError> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
    };
    let parsed = rule(&mut parser).and_then(|message| match parser.lexer.peek() {
        None => Ok(message),
        Some(_) => Err(parser.lexer.unexpected("the end of the text")),
    });
    parsed.map_err(|fault| fault.locate(text))
}

/// Reads a model: a header or none, the graph, functions.
///
/// # Errors
///
/// [`ParseError`] with the place where the text goes wrong, as for all functions here.
pub fn parse_model(text: impl AsRef<[u8]>) -> Result<ModelProto, ParseError> {
    parse(text.as_ref(), |parser| parser.model())
}

/// Reads a graph: `g (float[2] x) => (y) <float[2] w = {1, 2}> { y = Add (x, w) }`.
pub fn parse_graph(text: impl AsRef<[u8]>) -> Result<GraphProto, ParseError> {
    parse(text.as_ref(), |parser| parser.graph(0))
}

/// Reads a function: `<domain: "d", opset_import: ["": 21]> f <a, b: int = 1> (x) => (y) { y = Neg (x) }`.
pub fn parse_function(text: impl AsRef<[u8]>) -> Result<FunctionProto, ParseError> {
    parse(text.as_ref(), |parser| parser.function(0))
}

/// Reads a node: `[name] y, z = domain.Op:overload <axis: int = 1> (x)`.
pub fn parse_node(text: impl AsRef<[u8]>) -> Result<NodeProto, ParseError> {
    parse(text.as_ref(), |parser| parser.node(0))
}

/// Reads an attribute: `axes: ints = [0, -1]`.
pub fn parse_attribute(text: impl AsRef<[u8]>) -> Result<AttributeProto, ParseError> {
    parse(text.as_ref(), |parser| parser.attribute(0))
}

/// Reads a tensor: `int64[2] t = {1, 2}`.
pub fn parse_tensor(text: impl AsRef<[u8]>) -> Result<TensorProto, ParseError> {
    parse(text.as_ref(), |parser| parser.tensor(0))
}

/// Reads a declared value: `float[N, 3] x`.
pub fn parse_value_info(text: impl AsRef<[u8]>) -> Result<ValueInfoProto, ParseError> {
    parse(text.as_ref(), |parser| parser.value(0))
}

/// Reads a type: `seq(float[N, 3])`.
///
/// ```
/// use refeed_graph::parser::parse_type;
/// assert!(parse_type("map(int64, float[N])").is_ok());
/// assert_eq!(parse_type("float[").unwrap_err().column, 7);
/// ```
pub fn parse_type(text: impl AsRef<[u8]>) -> Result<TypeProto, ParseError> {
    parse(text.as_ref(), |parser| parser.type_proto(0))
}
