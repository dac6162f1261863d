//! Types and declared values: `float[N, 128] X`, `seq(map(int64, float))`.

use super::Parser;
use super::error::Fault;
use crate::syntax::{element_type, starts_type};
use refeed_proto::tensor_proto::DataType;
use refeed_proto::tensor_shape_proto::{Dimension, dimension};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{TensorShapeProto, TypeProto, ValueInfoProto};

/// A type and where it stands, for what is found wrong with it later.
#[derive(Debug)]
pub(super) struct DeclaredType {
    pub(super) proto: TypeProto,
    /// Where it starts.
    pub(super) at: usize,
    /// Where its first dimension stands that is no number.
    pub(super) symbolic: Option<usize>,
}

impl Parser<'_> {
    /// Whether a type is next, by its first word.
    pub(super) fn type_is_next(&mut self) -> bool {
        starts_type(self.lexer.peek_identifier())
    }

    /// Takes a type, a message at `depth`.
    pub(super) fn type_proto(&mut self, depth: u32) -> Result<TypeProto, Fault> {
        let declared = self.declared_type(depth)?;
        self.keep(declared, depth)
    }

    /// Gives a type that stays in the message, at `depth`, and is not only that of data.
    pub(super) fn keep(&self, declared: DeclaredType, depth: u32) -> Result<TypeProto, Fault> {
        let shape = match &declared.proto.value {
            Some(Value::TensorType(tensor)) => tensor.shape.as_ref(),
            Some(Value::SparseTensorType(tensor)) => tensor.shape.as_ref(),
            _ => None,
        };
        // The type, what it holds, its shape, its dimensions.
        let inside = shape.map_or(0, |shape| 1 + u32::from(!shape.dim.is_empty()));
        self.nest(depth + 1 + inside, declared.at)?;
        Ok(declared.proto)
    }

    /// Takes a type that may turn out to be that of data, and then is no message by itself.
    pub(super) fn declared_type(&mut self, depth: u32) -> Result<DeclaredType, Fault> {
        let at = self.lexer.position();
        let word = self.lexer.peek_identifier();
        let mut symbolic = None;
        let value = match word {
            "seq" => Value::SequenceType(Box::new(type_proto::Sequence {
                elem_type: Some(self.wrapped_type(word, depth)?),
            })),
            "optional" => Value::OptionalType(Box::new(type_proto::Optional {
                elem_type: Some(self.wrapped_type(word, depth)?),
            })),
            "map" => {
                self.open_type(word)?;
                let key = self.element_type("an element type, of the map's keys")?;
                self.lexer.expect(b',', "`,`")?;
                let element = self.nested_type(depth)?;
                Value::MapType(Box::new(type_proto::Map {
                    key_type: Some(key as i32),
                    value_type: Some(element),
                }))
            }
            "sparse_tensor" => {
                self.open_type(word)?;
                let element = self.element_type("an element type")?;
                let shape = self.optional_shape(&mut symbolic)?;
                self.lexer.expect(b')', "`)`")?;
                Value::SparseTensorType(type_proto::SparseTensor {
                    elem_type: Some(element as i32),
                    shape,
                })
            }
            "opaque" => {
                self.open_type(word)?;
                let opaque = self.opaque()?;
                Value::OpaqueType(opaque)
            }
            _ => {
                let element = self.element_type("a type")?;
                let shape = self.optional_shape(&mut symbolic)?;
                Value::TensorType(type_proto::Tensor {
                    elem_type: Some(element as i32),
                    shape,
                })
            }
        };
        let proto = TypeProto {
            denotation: None,
            value: Some(value),
        };
        Ok(DeclaredType {
            proto,
            at,
            symbolic,
        })
    }

    /// Takes the word that starts a type, and its parenthesis.
    fn open_type(&mut self, word: &str) -> Result<(), Fault> {
        debug_assert_eq!(self.lexer.peek_identifier(), word);
        self.lexer.optional_identifier();
        self.lexer.expect(b'(', "`(`")
    }

    /// Takes `word ( type )`, the type two messages below `depth`.
    fn wrapped_type(&mut self, word: &str, depth: u32) -> Result<Box<TypeProto>, Fault> {
        self.open_type(word)?;
        self.nested_type(depth)
    }

    /// Takes `type )`.
    fn nested_type(&mut self, depth: u32) -> Result<Box<TypeProto>, Fault> {
        let at = self.lexer.position();
        self.nest(depth + 2, at)?;
        let element = self.type_proto(depth + 2)?;
        self.lexer.expect(b')', "`)`")?;
        Ok(Box::new(element))
    }

    fn element_type(&mut self, expected: &'static str) -> Result<DataType, Fault> {
        let Some(found) = element_type(self.lexer.peek_identifier()) else {
            return Err(self.lexer.unexpected(expected));
        };
        self.lexer.optional_identifier();
        Ok(found)
    }

    /// Takes a shape: nothing is rank 0, `[]` is a rank that is not known, `[2, N, ?]` says each dimension.
    fn optional_shape(
        &mut self,
        symbolic: &mut Option<usize>,
    ) -> Result<Option<TensorShapeProto>, Fault> {
        if !self.lexer.eat(b'[') {
            return Ok(Some(TensorShapeProto::default()));
        }
        if self.lexer.eat(b']') {
            return Ok(None);
        }
        let mut shape = TensorShapeProto::default();
        loop {
            let at = self.lexer.position();
            let value = self.dimension()?;
            if !matches!(value, Some(dimension::Value::DimValue(_))) {
                symbolic.get_or_insert(at);
            }
            shape.dim.push(Dimension {
                denotation: None,
                value,
            });
            if !self.lexer.eat(b',') {
                break;
            }
        }
        self.lexer.expect(b']', "`,` or `]`")?;
        Ok(Some(shape))
    }

    fn dimension(&mut self) -> Result<Option<dimension::Value>, Fault> {
        if self.lexer.eat(b'?') {
            return Ok(None);
        }
        if self.lexer.number_is_next() {
            let number = self.lexer.integer("a dimension: a number, a name or `?`")?;
            return Ok(Some(dimension::Value::DimValue(number.int64()?)));
        }
        let name = self.lexer.name("a dimension: a number, a name or `?`")?;
        Ok(Some(dimension::Value::DimParam(name)))
    }

    /// Takes `)`, `name)` or `domain, name)`; one dotted name alone is the name.
    fn opaque(&mut self) -> Result<type_proto::Opaque, Fault> {
        let mut opaque = type_proto::Opaque::default();
        if self.lexer.eat(b')') {
            return Ok(opaque);
        }
        let mut dotted = self.lexer.identifier("a name or `)`")?.to_string();
        while self.lexer.eat(b'.') {
            dotted.push('.');
            dotted.push_str(self.lexer.identifier("a name")?);
        }
        if self.lexer.eat(b',') {
            opaque.domain = Some(dotted);
            opaque.name = Some(self.lexer.identifier("a name")?.to_string());
        } else {
            opaque.name = Some(dotted);
        }
        self.lexer.expect(b')', "`)`")?;
        Ok(opaque)
    }

    /// Takes a name with a type before it, if there is one; the message is at `depth`.
    pub(super) fn value_info(
        &mut self,
        depth: u32,
    ) -> Result<(ValueInfoProto, Option<DeclaredType>), Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        let mut declared = None;
        let mut expected = "a type or a name";
        if self.type_is_next() {
            declared = Some(self.declared_type(depth + 1)?);
            expected = "a name";
        }
        let value = ValueInfoProto {
            name: Some(self.lexer.name(expected)?),
            ..ValueInfoProto::default()
        };
        Ok((value, declared))
    }
}
