//! Node attributes, read by a reader that remembers what was read.
//!
//! A kernel that does not consume an attribute of its node would silently compute something else than the model says.
//! So the builder of a kernel reads through [`Attributes`], and what is left unread when it is done is an error.

use refeed_proto::{
    AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, attribute_proto::AttributeType,
};
use std::cell::Cell;
use thiserror::Error;

/// A node attribute that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// The attribute has another type than the operator's schema says.
    #[error("attribute `{name}`: expected {expected}, got {got}")]
    Kind {
        /// Attribute name.
        name: String,
        /// ONNX attribute type that the operator wants.
        expected: &'static str,
        /// ONNX attribute type that the model has.
        got: String,
    },
    /// A required attribute is absent.
    #[error("attribute `{name}` is required")]
    Missing {
        /// Attribute name.
        name: &'static str,
    },
    /// The value is not one that the operator accepts.
    #[error("attribute `{name}`: expected {expected}, got {got}")]
    Value {
        /// Attribute name.
        name: &'static str,
        /// What is accepted.
        expected: &'static str,
        /// What the model has.
        got: String,
    },
    /// The attribute is not UTF-8 text.
    #[error("attribute `{name}` is not UTF-8 text")]
    NotText {
        /// Attribute name.
        name: String,
    },
    /// Attributes that the operator does not know.
    #[error("unknown attributes: {names}")]
    Unknown {
        /// Their names, joined by commas.
        names: String,
    },
}

/// The attributes of one node.
#[derive(Debug)]
pub struct Attributes<'a> {
    list: &'a [AttributeProto],
    read: Vec<Cell<bool>>,
}

impl<'a> Attributes<'a> {
    /// A fresh reader over a node's attributes.
    pub fn new(node: &'a NodeProto) -> Attributes<'a> {
        Attributes {
            list: &node.attribute,
            read: vec![Cell::new(false); node.attribute.len()],
        }
    }

    fn find(&self, name: &str) -> Option<&'a AttributeProto> {
        let at = self
            .list
            .iter()
            .position(|a| a.name.as_deref() == Some(name))?;
        self.read[at].set(true);
        Some(&self.list[at])
    }

    fn typed(
        &self,
        name: &str,
        kind: AttributeType,
        expected: &'static str,
    ) -> Result<Option<&'a AttributeProto>, AttributeError> {
        let Some(attribute) = self.find(name) else {
            return Ok(None);
        };
        // Old writers leave the type out; then the payload decides.
        match attribute.r#type {
            None | Some(0) => Ok(Some(attribute)),
            Some(number) if number == kind as i32 => Ok(Some(attribute)),
            Some(number) => {
                let got = AttributeType::try_from(number).map_or_else(
                    |_| format!("type {number}"),
                    |kind| kind.as_str_name().to_string(),
                );
                Err(AttributeError::Kind {
                    name: name.to_string(),
                    expected,
                    got,
                })
            }
        }
    }

    /// Whether the attribute is there; does not count as reading it.
    pub fn has(&self, name: &str) -> bool {
        self.list.iter().any(|a| a.name.as_deref() == Some(name))
    }

    /// An INT attribute.
    pub fn int(&self, name: &str) -> Result<Option<i64>, AttributeError> {
        Ok(self
            .typed(name, AttributeType::Int, "INT")?
            .map(|a| a.i.unwrap_or_default()))
    }

    /// An INT attribute, or its default when absent.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, AttributeError> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An INT attribute that must be there.
    pub fn required_int(&self, name: &'static str) -> Result<i64, AttributeError> {
        self.int(name)?.ok_or(AttributeError::Missing { name })
    }

    /// An INT attribute that is 0 or 1.
    pub fn flag(&self, name: &'static str, default: bool) -> Result<bool, AttributeError> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(AttributeError::Value {
                name,
                expected: "0 or 1",
                got: other.to_string(),
            }),
        }
    }

    /// A FLOAT attribute.
    pub fn float(&self, name: &str) -> Result<Option<f32>, AttributeError> {
        Ok(self
            .typed(name, AttributeType::Float, "FLOAT")?
            .map(|a| a.f.unwrap_or_default()))
    }

    /// A FLOAT attribute, or its default when absent.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f32, AttributeError> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// An INTS attribute.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, AttributeError> {
        Ok(self
            .typed(name, AttributeType::Ints, "INTS")?
            .map(|a| a.ints.as_slice()))
    }

    /// A FLOATS attribute.
    pub fn floats(&self, name: &str) -> Result<Option<&'a [f32]>, AttributeError> {
        Ok(self
            .typed(name, AttributeType::Floats, "FLOATS")?
            .map(|a| a.floats.as_slice()))
    }

    /// A STRING attribute that is text.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>, AttributeError> {
        let Some(attribute) = self.typed(name, AttributeType::String, "STRING")? else {
            return Ok(None);
        };
        let bytes = attribute.s.as_deref().unwrap_or_default();
        std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| AttributeError::NotText {
                name: name.to_string(),
            })
    }

    /// A STRINGS attribute whose entries are text.
    pub fn strings(&self, name: &str) -> Result<Option<Vec<&'a str>>, AttributeError> {
        let Some(attribute) = self.typed(name, AttributeType::Strings, "STRINGS")? else {
            return Ok(None);
        };
        let texts: Result<Vec<_>, _> = attribute
            .strings
            .iter()
            .map(|bytes| std::str::from_utf8(bytes))
            .collect();
        texts.map(Some).map_err(|_| AttributeError::NotText {
            name: name.to_string(),
        })
    }

    /// A TENSOR attribute.
    pub fn tensor(&self, name: &str) -> Result<Option<&'a TensorProto>, AttributeError> {
        Ok(self
            .typed(name, AttributeType::Tensor, "TENSOR")?
            .and_then(|a| a.t.as_deref()))
    }

    /// A TYPE_PROTO attribute.
    pub fn type_proto(&self, name: &str) -> Result<Option<&'a TypeProto>, AttributeError> {
        Ok(self
            .typed(name, AttributeType::TypeProto, "TYPE_PROTO")?
            .and_then(|a| a.tp.as_deref()))
    }

    /// A GRAPH attribute that must be there.
    pub fn required_graph(&self, name: &'static str) -> Result<&'a GraphProto, AttributeError> {
        self.typed(name, AttributeType::Graph, "GRAPH")?
            .and_then(|a| a.g.as_deref())
            .ok_or(AttributeError::Missing { name })
    }

    /// Marks an attribute as read whose every value means the same here.
    pub fn ignore(&self, name: &str) {
        self.find(name);
    }

    /// # Errors
    /// When an attribute was not read.
    pub fn finish(&self) -> Result<(), AttributeError> {
        let left: Vec<&str> = self
            .list
            .iter()
            .zip(&self.read)
            .filter(|(_, read)| !read.get())
            .map(|(a, _)| a.name.as_deref().unwrap_or_default())
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(AttributeError::Unknown {
            names: left.join(", "),
        })
    }
}
