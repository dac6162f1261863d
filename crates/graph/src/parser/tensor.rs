//! Tensors: a type with numbers for dimensions, then `{elements}` or `["key": "value"]` for elements elsewhere.

use super::Parser;
use super::error::Fault;
use super::types::DeclaredType;
use refeed_proto::tensor_proto::{DataLocation, DataType};
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::Value;
use refeed_proto::{Bytes, StringStringEntryProto, TensorProto};

impl Parser<'_> {
    /// Takes a tensor with its type, a name or none, `=` or none, and the data.
    pub(super) fn tensor(&mut self, depth: u32) -> Result<TensorProto, Fault> {
        let declared = self.declared_type(depth)?;
        self.tensor_of_type(declared, depth)
    }

    /// Takes the rest of a tensor whose type is taken. Without a name the name is empty, not absent.
    pub(super) fn tensor_of_type(
        &mut self,
        declared: DeclaredType,
        depth: u32,
    ) -> Result<TensorProto, Fault> {
        let name = self.lexer.optional_name()?.unwrap_or_default();
        self.lexer.eat(b'=');
        self.tensor_data(&declared, name, depth)
    }

    /// Takes the data of a tensor; there may be none.
    pub(super) fn tensor_data(
        &mut self,
        declared: &DeclaredType,
        name: String,
        depth: u32,
    ) -> Result<TensorProto, Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        let mut tensor = TensorProto {
            name: Some(name),
            ..TensorProto::default()
        };
        let data_type = describe(declared, &mut tensor)?;
        if self.lexer.eat(b'{') {
            if !self.lexer.eat(b'}') {
                self.elements(data_type, &mut tensor)?;
                self.lexer.expect(b'}', "`,` or `}`")?;
            }
        } else if self.lexer.eat(b'[') {
            self.nest(depth + 1, at)?;
            tensor.data_location = Some(DataLocation::External as i32);
            tensor.external_data = self.entries()?;
            self.lexer.expect(b']', "`,` or `]`")?;
        }
        Ok(tensor)
    }

    /// Takes one element after the other, into the field that ONNX keeps them in.
    fn elements(&mut self, data_type: DataType, tensor: &mut TensorProto) -> Result<(), Fault> {
        const NUMBER: &str = "a number";
        const INTEGER: &str = "an integer";
        let lexer = &mut self.lexer;
        loop {
            match data_type {
                DataType::Float | DataType::Complex64 => {
                    let value = lexer.number(NUMBER)?.float()?;
                    tensor.float_data.push(value);
                }
                DataType::Double | DataType::Complex128 => {
                    let value = lexer.number(NUMBER)?.double()?;
                    tensor.double_data.push(value);
                }
                DataType::Int64 => {
                    let value = lexer.integer(INTEGER)?.int64()?;
                    tensor.int64_data.push(value);
                }
                DataType::Uint32 | DataType::Uint64 => {
                    let value = lexer.integer(INTEGER)?.uint64()?;
                    tensor.uint64_data.push(value);
                }
                DataType::String => {
                    let value = lexer.string("a string")?;
                    tensor.string_data.push(Bytes::from(value.into_owned()));
                }
                _ => {
                    let value = lexer.integer(INTEGER)?.int32()?;
                    tensor.int32_data.push(value);
                }
            }
            if !lexer.eat(b',') {
                return Ok(());
            }
        }
    }

    /// Takes `"key": "value"` once or more.
    pub(super) fn entries(&mut self) -> Result<Vec<StringStringEntryProto>, Fault> {
        let mut entries = Vec::new();
        loop {
            let key = self.lexer.text_string("a string, the key")?;
            self.lexer.expect(b':', "`:`")?;
            let value = self.lexer.text_string("a string, the value")?;
            entries.push(StringStringEntryProto {
                key: Some(key),
                value: Some(value),
            });
            if !self.lexer.eat(b',') {
                return Ok(entries);
            }
        }
    }
}

/// Copies element type and dimensions of a type that must be a tensor's, with every dimension a number.
fn describe(declared: &DeclaredType, tensor: &mut TensorProto) -> Result<DataType, Fault> {
    let refuse = |at, expected: &'static str, got: &'static str| Fault::new(at, expected, got);
    let Some(Value::TensorType(dense)) = &declared.proto.value else {
        return Err(refuse(
            declared.at,
            "a tensor type, as data follow",
            "a type of another kind",
        ));
    };
    tensor.data_type = dense.elem_type;
    let Some(shape) = &dense.shape else {
        return Err(refuse(
            declared.at,
            "a type with dimensions, as data follow",
            "a type of unknown rank",
        ));
    };
    for dim in &shape.dim {
        let Some(dimension::Value::DimValue(number)) = dim.value else {
            let at = declared.symbolic.unwrap_or(declared.at);
            return Err(refuse(
                at,
                "a number for each dimension, as data follow",
                "a dimension that is no number",
            ));
        };
        tensor.dims.push(number);
    }
    let data_type = DataType::try_from(dense.elem_type());
    data_type.map_err(|_| refuse(declared.at, "a known element type", "an unknown one"))
}
