//! What a node is, for those who look for patterns in a plan: its operator and the attributes that matter, without the
//! kernel, which nobody can look into.

use refeed_graph::Model;
use refeed_graph::attributes::Attributes;
use refeed_proto::NodeProto;
use refeed_values::DType;

/// The operators that recognition understands. Every other one, and every kernel of the caller's own, is `Other`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Form {
    #[default]
    Other,
    /// A step that stands for several nodes of the same graph: what fails in it is one of them.
    Nodes,
    MatMul,
    /// Over this axis alone, or, before opset 13, over it and all that follow.
    Softmax {
        axis: i64,
    },
    IsNaN,
    Where,
    Equal,
    Add,
    Sub,
    Mul,
    Div,
    Identity,
    Cast {
        to: Option<DType>,
    },
    /// `None` reverses the axes.
    Transpose {
        perm: Option<Box<[i64]>>,
    },
    Reshape {
        allow_zero: bool,
    },
    Expand,
    /// The axes, where they are an attribute.
    Unsqueeze {
        axes: Option<Box<[i64]>>,
    },
    Squeeze {
        axes: Option<Box<[i64]>>,
    },
    Shape {
        start: i64,
        end: Option<i64>,
    },
    Gather {
        axis: i64,
    },
    Concat {
        axis: i64,
    },
    ConstantOfShape {
        value: Option<i64>,
    },
    /// With starts, ends, axes and steps as inputs.
    Slice,
    /// Along an axis, of which so many places share a scale; 0: each has its own.
    DequantizeLinear {
        axis: i64,
        block: usize,
    },
}

impl Form {
    /// Reads a node of ai.onnx whose kernel is refeed's own.
    pub(crate) fn of(node: &NodeProto, opset: i64, model: &Model) -> Form {
        if !["", "ai.onnx"].contains(&node.domain()) {
            return Form::Other;
        }
        Form::read(node, opset, model).unwrap_or_default()
    }

    /// `None` when an attribute cannot be read; the kernel, which reads it too, says so.
    fn read(node: &NodeProto, opset: i64, model: &Model) -> Option<Form> {
        let attributes = Attributes::new(node);
        let int = |name, default| attributes.int_or(name, default).ok();
        let axes = || {
            let axes = attributes.ints("axes").ok()?;
            Some(axes.map(Box::<[i64]>::from))
        };
        Some(match node.op_type() {
            "MatMul" => Form::MatMul,
            "Softmax" => Form::Softmax {
                axis: int("axis", if opset < 13 { 1 } else { -1 })?,
            },
            "IsNaN" => Form::IsNaN,
            "Where" => Form::Where,
            "Equal" => Form::Equal,
            "Add" => Form::Add,
            "Sub" => Form::Sub,
            "Mul" => Form::Mul,
            "Div" => Form::Div,
            "Identity" => Form::Identity,
            "Cast" => Form::Cast {
                to: DType::from_onnx(i32::try_from(int("to", 0)?).ok()?),
            },
            "Transpose" => Form::Transpose {
                perm: attributes.ints("perm").ok()?.map(Box::from),
            },
            "Reshape" => Form::Reshape {
                allow_zero: int("allowzero", 0)? != 0,
            },
            "Expand" => Form::Expand,
            "Unsqueeze" => Form::Unsqueeze { axes: axes()? },
            "Squeeze" => Form::Squeeze { axes: axes()? },
            "Shape" => Form::Shape {
                start: int("start", 0)?,
                end: attributes.int("end").ok()?,
            },
            "Gather" => Form::Gather {
                axis: int("axis", 0)?,
            },
            "Concat" => Form::Concat {
                axis: attributes.int("axis").ok()??,
            },
            "ConstantOfShape" => Form::ConstantOfShape {
                value: filled(&attributes, model),
            },
            "Slice" if opset >= 10 => Form::Slice,
            "DequantizeLinear" => Form::DequantizeLinear {
                axis: int("axis", 1)?,
                block: usize::try_from(int("block_size", 0)?).ok()?,
            },
            _ => Form::Other,
        })
    }
}

/// The INT64 number that a `ConstantOfShape` fills its output with.
fn filled(attributes: &Attributes<'_>, model: &Model) -> Option<i64> {
    let value = attributes.tensor("value").ok()??;
    let value = model.initializer(value).ok()?;
    let mut numbers = value.view::<i64>().ok()?.iter();
    match (value.dtype(), numbers.next(), numbers.next()) {
        (DType::Int64, Some(number), None) => Some(number),
        _ => None,
    }
}
