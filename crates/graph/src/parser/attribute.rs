//! Attributes: `axis: int = 1`, `value = float[2] {1, 2}`, `body: graph = g () => () {}`, `alpha: float = @alpha`.

use super::Parser;
use super::error::Fault;
use crate::syntax::{attribute_type, attribute_word, float_word, starts_identifier};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{AttributeProto, Bytes, GraphProto, TensorProto, TypeProto};

/// One value, alone or in a list.
enum Single {
    Int(i64),
    Float(f32),
    String(Bytes),
    Tensor(Box<TensorProto>),
    Graph(Box<GraphProto>),
    Type(Box<TypeProto>),
}

impl Single {
    fn kind(&self) -> AttributeType {
        match self {
            Single::Int(_) => AttributeType::Int,
            Single::Float(_) => AttributeType::Float,
            Single::String(_) => AttributeType::String,
            Single::Tensor(_) => AttributeType::Tensor,
            Single::Graph(_) => AttributeType::Graph,
            Single::Type(_) => AttributeType::TypeProto,
        }
    }
}

impl Parser<'_> {
    /// Takes `<attribute, ...>` when it is next; the attributes are at `depth`.
    pub(super) fn attributes(&mut self, depth: u32) -> Result<Vec<AttributeProto>, Fault> {
        let mut attributes = Vec::new();
        if self.lexer.eat(b'<') {
            loop {
                attributes.push(self.attribute(depth)?);
                if !self.lexer.eat(b',') {
                    break;
                }
            }
            self.lexer.expect(b'>', "`,` or `>`")?;
        }
        Ok(attributes)
    }

    /// Takes one attribute.
    pub(super) fn attribute(&mut self, depth: u32) -> Result<AttributeProto, Fault> {
        let name = self
            .lexer
            .identifier("the name of an attribute")?
            .to_string();
        self.attribute_named(name, depth)
    }

    /// Takes the rest of an attribute whose name is taken.
    pub(super) fn attribute_named(
        &mut self,
        name: String,
        depth: u32,
    ) -> Result<AttributeProto, Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        let mut attribute = AttributeProto {
            name: Some(name),
            ..AttributeProto::default()
        };
        let mut declared = None;
        if self.lexer.eat(b':') {
            let Some(found) = attribute_type(self.lexer.peek_identifier()) else {
                return Err(self.lexer.unexpected(
                    "an attribute type: int, float, string, tensor, graph, type_proto, \
                    sparse_tensor, or one of these with an s",
                ));
            };
            self.lexer.optional_identifier();
            declared = Some(found);
            self.lexer.expect(b'=', "`=`")?;
        } else {
            self.lexer.expect(b'=', "`:` or `=`")?;
        }
        attribute.r#type = declared.map(|kind| kind as i32);
        if self.lexer.peek() == Some(b'[') {
            self.list(declared, &mut attribute, depth)?;
        } else if self.lexer.eat(b'@') {
            attribute.ref_attr_name =
                Some(self.lexer.name("the name of the function's attribute")?);
        } else {
            let value = self.single(declared, depth)?;
            attribute.r#type = Some(value.kind() as i32);
            match value {
                Single::Int(value) => attribute.i = Some(value),
                Single::Float(value) => attribute.f = Some(value),
                Single::String(value) => attribute.s = Some(value),
                Single::Tensor(value) => attribute.t = Some(value),
                Single::Graph(value) => attribute.g = Some(value),
                Single::Type(value) => attribute.tp = Some(value),
            }
        }
        Ok(attribute)
    }

    /// Takes `[value, ...]`. All are of the declared type, or of the first one's.
    fn list(
        &mut self,
        declared: Option<AttributeType>,
        attribute: &mut AttributeProto,
        depth: u32,
    ) -> Result<(), Fault> {
        self.lexer.expect(b'[', "`[`")?;
        if self.lexer.peek() == Some(b']') {
            let Some(kind) = declared else {
                let expected = "a value, as the attribute declares no type";
                return Err(self.lexer.unexpected(expected));
            };
            if singular(kind) == kind {
                return Err(self.lexer.unexpected(described(kind)));
            }
            self.lexer.eat(b']');
            return Ok(());
        }
        let mut kind = declared.map(singular);
        loop {
            let value = self.single(kind, depth)?;
            kind = Some(value.kind());
            match value {
                Single::Int(value) => attribute.ints.push(value),
                Single::Float(value) => attribute.floats.push(value),
                Single::String(value) => attribute.strings.push(value),
                Single::Tensor(value) => attribute.tensors.push(*value),
                Single::Graph(value) => attribute.graphs.push(*value),
                Single::Type(value) => attribute.type_protos.push(*value),
            }
            if !self.lexer.eat(b',') {
                break;
            }
        }
        attribute.r#type = kind.map(|kind| plural(kind) as i32);
        self.lexer.expect(b']', "`,` or `]`")
    }

    /// Takes one value, of `kind` when that is known. The message of the attribute is at `depth`.
    fn single(&mut self, kind: Option<AttributeType>, depth: u32) -> Result<Single, Fault> {
        let at = self.lexer.position();
        let value = match self.lexer.peek() {
            Some(b'"') => self.string_or_graph(depth)?,
            Some(byte) if starts_identifier(byte) => self.worded(kind, depth)?,
            _ if self.lexer.number_is_next() => self.numeral(kind)?,
            _ => return Err(self.lexer.unexpected(kind.map_or("a value", described))),
        };
        match kind {
            Some(kind) if kind != value.kind() => {
                let got = format!("a value of type {}", attribute_word(value.kind()));
                Err(Fault::new(at, described(kind), got))
            }
            _ => Ok(value),
        }
    }

    /// Takes a string, unless it is the name of a graph.
    fn string_or_graph(&mut self, depth: u32) -> Result<Single, Fault> {
        let at = self.lexer.position();
        let value = self.lexer.string("a string")?;
        if !matches!(self.lexer.peek(), Some(b'(' | b'=')) {
            return Ok(Single::String(Bytes::from(value.into_owned())));
        }
        let name = String::from_utf8(value.into_owned())
            .map_err(|_| Fault::new(at, "a name in UTF-8", "a string of other bytes"))?;
        let graph = self.graph_named(name, depth + 1)?;
        Ok(Single::Graph(Box::new(graph)))
    }

    /// Takes what starts with a word: a type, a tensor, a number that is not finite, a graph.
    fn worded(&mut self, kind: Option<AttributeType>, depth: u32) -> Result<Single, Fault> {
        let word = self.lexer.peek_identifier();
        if self.type_is_next() {
            let declared = self.declared_type(depth + 1)?;
            return match self.lexer.peek() {
                Some(byte) if matches!(byte, b'{' | b'=' | b'"') || starts_identifier(byte) => {
                    let tensor = self.tensor_of_type(declared, depth + 1)?;
                    Ok(Single::Tensor(Box::new(tensor)))
                }
                // Where a value may end, a type alone is the wrong value; elsewhere the rest of the tensor is wrong.
                next if kind == Some(AttributeType::Tensor)
                    && !matches!(next, Some(b',' | b'>' | b']')) =>
                {
                    Err(self.lexer.unexpected("a name, `=` or `{`"))
                }
                _ => Ok(Single::Type(Box::new(self.keep(declared, depth + 1)?))),
            };
        }
        if let Some(value) = float_word(word) {
            self.lexer.optional_identifier();
            return Ok(Single::Float(value));
        }
        match kind {
            None | Some(AttributeType::Graph) => {
                let graph = self.graph(depth + 1)?;
                Ok(Single::Graph(Box::new(graph)))
            }
            Some(kind) => Err(self.lexer.unexpected(described(kind))),
        }
    }

    /// Takes a number; one without fraction or exponent is a float where a float is asked for.
    fn numeral(&mut self, kind: Option<AttributeType>) -> Result<Single, Fault> {
        let number = self.lexer.number("a number")?;
        if number.whole && kind != Some(AttributeType::Float) {
            return Ok(Single::Int(number.int64()?));
        }
        Ok(Single::Float(number.float()?))
    }
}

/// The type of one value of a list.
fn singular(kind: AttributeType) -> AttributeType {
    match kind {
        AttributeType::Ints => AttributeType::Int,
        AttributeType::Floats => AttributeType::Float,
        AttributeType::Strings => AttributeType::String,
        AttributeType::Tensors => AttributeType::Tensor,
        AttributeType::Graphs => AttributeType::Graph,
        AttributeType::SparseTensors => AttributeType::SparseTensor,
        AttributeType::TypeProtos => AttributeType::TypeProto,
        other => other,
    }
}

/// The type of a list of such values.
fn plural(kind: AttributeType) -> AttributeType {
    match kind {
        AttributeType::Int => AttributeType::Ints,
        AttributeType::Float => AttributeType::Floats,
        AttributeType::String => AttributeType::Strings,
        AttributeType::Tensor => AttributeType::Tensors,
        AttributeType::Graph => AttributeType::Graphs,
        AttributeType::SparseTensor => AttributeType::SparseTensors,
        AttributeType::TypeProto => AttributeType::TypeProtos,
        other => other,
    }
}

/// What a value of a type looks like.
fn described(kind: AttributeType) -> &'static str {
    match kind {
        AttributeType::Int => "an integer",
        AttributeType::Float => "a number",
        AttributeType::String => "a string",
        AttributeType::Tensor => "a tensor",
        AttributeType::Graph => "a graph",
        AttributeType::TypeProto => "a type",
        AttributeType::SparseTensor | AttributeType::SparseTensors => {
            "a reference such as `@name`, as sparse tensors cannot be written"
        }
        _ => "`[`, as the attribute declares a list",
    }
}
