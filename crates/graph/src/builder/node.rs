//! What a node is to be, before it has its names.

use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{AttributeProto, Bytes, GraphProto, NodeProto, TensorProto};

/// One output of a node that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A value of this name.
    Named(String),
    /// A value that the builder names.
    Fresh,
    /// An optional output that is left out.
    Omitted,
}

impl From<&str> for Output {
    fn from(name: &str) -> Output {
        Output::Named(name.to_string())
    }
}

impl From<String> for Output {
    fn from(name: String) -> Output {
        Output::Named(name)
    }
}

/// A node to be added to a graph. Without a word about outputs it has those that its operator must have, at least one, or
/// all of its function's; the builder names them.
///
/// ```
/// use refeed_graph::builder::NewNode;
/// let node = NewNode::new("Concat").inputs(["past", "new"]).output("present").int("axis", 2);
/// let two = NewNode::new("TopK").inputs(["x", "k"]).fresh_outputs(2);
/// # let _ = (node, two);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewNode {
    pub(super) node: NodeProto,
    pub(super) outputs: Vec<Output>,
}

impl NewNode {
    /// A node of the operator `op_type` of the domain ai.onnx.
    pub fn new(op_type: impl Into<String>) -> NewNode {
        let node = NodeProto {
            op_type: Some(op_type.into()),
            ..NodeProto::default()
        };
        NewNode {
            node,
            outputs: Vec::new(),
        }
    }

    /// Adds inputs; an empty name leaves an optional one out.
    #[must_use]
    pub fn inputs<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> NewNode {
        self.node.input.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, output: impl Into<Output>) -> NewNode {
        self.outputs.push(output.into());
        self
    }

    /// Adds outputs.
    #[must_use]
    pub fn outputs<O: Into<Output>>(mut self, outputs: impl IntoIterator<Item = O>) -> NewNode {
        self.outputs.extend(outputs.into_iter().map(Into::into));
        self
    }

    /// Adds `count` outputs that the builder names.
    #[must_use]
    pub fn fresh_outputs(self, count: usize) -> NewNode {
        self.outputs(std::iter::repeat_n(Output::Fresh, count))
    }

    /// Sets the operator's domain.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> NewNode {
        self.node.domain = Some(domain.into());
        self
    }

    /// Sets the node's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> NewNode {
        self.node.name = Some(name.into());
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attribute(mut self, attribute: AttributeProto) -> NewNode {
        self.node.attribute.push(attribute);
        self
    }

    fn value(self, name: &str, kind: AttributeType, value: AttributeProto) -> NewNode {
        self.attribute(AttributeProto {
            name: Some(name.to_string()),
            r#type: Some(kind as i32),
            ..value
        })
    }

    /// Adds an attribute of type INT.
    #[must_use]
    pub fn int(self, name: &str, value: i64) -> NewNode {
        let i = Some(value);
        self.value(
            name,
            AttributeType::Int,
            AttributeProto {
                i,
                ..AttributeProto::default()
            },
        )
    }

    /// Adds an attribute of type INTS.
    #[must_use]
    pub fn ints(self, name: &str, values: impl Into<Vec<i64>>) -> NewNode {
        let ints = values.into();
        self.value(
            name,
            AttributeType::Ints,
            AttributeProto {
                ints,
                ..AttributeProto::default()
            },
        )
    }

    /// Adds an attribute of type FLOAT.
    #[must_use]
    pub fn float(self, name: &str, value: f32) -> NewNode {
        let f = Some(value);
        self.value(
            name,
            AttributeType::Float,
            AttributeProto {
                f,
                ..AttributeProto::default()
            },
        )
    }

    /// Adds an attribute of type STRING.
    #[must_use]
    pub fn string(self, name: &str, value: &str) -> NewNode {
        let s = Some(Bytes::copy_from_slice(value.as_bytes()));
        self.value(
            name,
            AttributeType::String,
            AttributeProto {
                s,
                ..AttributeProto::default()
            },
        )
    }

    /// Adds an attribute of type TENSOR, whose payload is shared.
    #[must_use]
    pub fn tensor(self, name: &str, tensor: TensorProto) -> NewNode {
        let t = Some(Box::new(tensor));
        self.value(
            name,
            AttributeType::Tensor,
            AttributeProto {
                t,
                ..AttributeProto::default()
            },
        )
    }

    /// Adds an attribute of type GRAPH: a body or a branch.
    #[must_use]
    pub fn graph(self, name: &str, graph: GraphProto) -> NewNode {
        let g = Some(Box::new(graph));
        self.value(
            name,
            AttributeType::Graph,
            AttributeProto {
                g,
                ..AttributeProto::default()
            },
        )
    }
}

/// A node as it is: its output names are kept, empty ones left out. One without outputs gets the usual ones.
impl From<NodeProto> for NewNode {
    fn from(mut node: NodeProto) -> NewNode {
        let outputs = std::mem::take(&mut node.output)
            .into_iter()
            .map(|name| {
                if name.is_empty() {
                    Output::Omitted
                } else {
                    Output::Named(name)
                }
            })
            .collect();
        NewNode { node, outputs }
    }
}
