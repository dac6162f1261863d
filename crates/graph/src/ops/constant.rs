//! Values that come from the model, from a shape, or from a few numbers.

use super::arithmetic;
use super::rules::{dtype_attribute, ranked};
use super::{NONE, ONE, THREE, op};
use crate::attributes::{AttributeError, Attributes};
use crate::schema::{Attr, InferError, Inference, OpSchema, known_dims};
use crate::shape_inference::{DimExpr, small_constant};
use crate::types::Dim;
use refeed_proto::TensorProto;
use refeed_values::DType;

/// The one value that a `Constant` node has.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ConstantValue<'a> {
    /// `value`
    Tensor(&'a TensorProto),
    /// `value_int`
    Int(i64),
    /// `value_ints`
    Ints(&'a [i64]),
    /// `value_float`
    Float(f32),
    /// `value_floats`
    Floats(&'a [f32]),
    /// A kind that is not computed with, by the name of its attribute.
    Other(&'static str),
}

impl<'a> ConstantValue<'a> {
    /// Reads the attributes of a `Constant` node.
    ///
    /// # Errors
    /// When an attribute has another type than its name says, or not exactly one is there.
    pub fn read(attributes: &Attributes<'a>) -> Result<ConstantValue<'a>, AttributeError> {
        let mut found: [Option<ConstantValue<'a>>; 8] = [
            attributes.tensor("value")?.map(ConstantValue::Tensor),
            attributes.int("value_int")?.map(ConstantValue::Int),
            attributes.ints("value_ints")?.map(ConstantValue::Ints),
            attributes.float("value_float")?.map(ConstantValue::Float),
            attributes
                .floats("value_floats")?
                .map(ConstantValue::Floats),
            None,
            None,
            None,
        ];
        for (slot, name) in
            found[5..]
                .iter_mut()
                .zip(["value_string", "value_strings", "sparse_value"])
        {
            *slot = attributes.has(name).then_some(ConstantValue::Other(name));
            attributes.ignore(name);
        }
        let mut values = found.into_iter().flatten();
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            (None, _) => Err(AttributeError::Missing { name: "value" }),
            (Some(_), Some(_)) => Err(AttributeError::Value {
                name: "value",
                expected: "exactly one attribute",
                got: "several".to_string(),
            }),
        }
    }
}

fn tensor_type(tensor: &TensorProto) -> (Option<DType>, Option<Vec<Dim>>) {
    let dims = tensor
        .dims
        .iter()
        .map(|&dim| usize::try_from(dim).map_or(Dim::Unknown, Dim::Known));
    (
        tensor.data_type.and_then(DType::from_onnx),
        Some(dims.collect()),
    )
}

fn constant(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let (dtype, shape) = match ConstantValue::read(cx.attributes)? {
        ConstantValue::Tensor(tensor) => tensor_type(tensor),
        ConstantValue::Int(_) => (Some(DType::Int64), Some(Vec::new())),
        ConstantValue::Ints(values) => (Some(DType::Int64), Some(known_dims(&[values.len()]))),
        ConstantValue::Float(_) => (Some(DType::Float), Some(Vec::new())),
        ConstantValue::Floats(values) => (Some(DType::Float), Some(known_dims(&[values.len()]))),
        ConstantValue::Other(_) => (None, None),
    };
    cx.set(0, dtype, shape);
    Ok(())
}

fn constant_of_shape(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = match cx.attributes.tensor("value")? {
        Some(value) => tensor_type(value).0,
        None => Some(DType::Float),
    };
    let shape = cx.dims(0)?;
    let value = shape.as_ref().and_then(|shape| {
        let element = fill(cx.attributes.tensor("value").ok()??)?;
        arithmetic::repeated(Some(element), shape)
    });
    cx.set_value(0, value);
    cx.set(0, dtype, shape);
    Ok(())
}

/// The one element of the tensor that fills a constant, when it is a whole number.
fn fill(tensor: &TensorProto) -> Option<DimExpr> {
    let value = small_constant(tensor)?;
    let number = match value.dtype() {
        DType::Int64 => value.view::<i64>().ok()?.to_vec().first().copied(),
        DType::Int32 => value
            .view::<i32>()
            .ok()?
            .to_vec()
            .first()
            .map(|&n| n.into()),
        DType::Bool => value
            .view::<u8>()
            .ok()?
            .to_vec()
            .first()
            .map(|&n| i64::from(n != 0)),
        _ => None,
    };
    number.map(DimExpr::from)
}

fn range(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype([0, 1, 2])?;
    let one = |index| cx.value(index)?.single().cloned();
    let count = match (one(0), one(1), one(2)) {
        (Some(start), Some(limit), Some(delta)) => range_count(&start, &limit, &delta),
        _ => None,
    };
    let count = count.unwrap_or(Dim::Unknown);
    cx.set_value(0, arithmetic::counted(cx, &count));
    cx.set(0, dtype, Some(vec![count]));
    Ok(())
}

/// How many steps of `delta` lie between two numbers, the last partial one included.
fn range_count(start: &DimExpr, limit: &DimExpr, delta: &DimExpr) -> Option<Dim> {
    if let (Some(start), Some(limit), Some(delta)) =
        (start.constant(), limit.constant(), delta.constant())
    {
        let (start, limit, delta) = (i128::from(start), i128::from(limit), i128::from(delta));
        if delta == 0 {
            return None;
        }
        // Rounds away from zero, so that the last partial step counts.
        let steps = (limit - start + delta - delta.signum()) / delta;
        return usize::try_from(steps.max(0)).ok().map(Dim::Known);
    }
    let span = limit.minus(start)?.larger(&DimExpr::from(0))?;
    match delta.constant() {
        Some(delta) if delta > 0 => Some(Dim::from_expr(&span.div_ceil(&DimExpr::from(delta))?)),
        _ => None,
    }
}

/// A matrix of the input's shape.
fn eye_like(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = dtype_attribute(cx, "dtype", cx.dtype(0))?;
    let shape = ranked(cx, 0, 2)?.map(<[Dim]>::to_vec);
    cx.set(0, dtype, shape);
    Ok(())
}

/// The axes that `Shape` reports of a tensor of this rank, as start and end.
///
/// # Errors
/// When an attribute has the wrong type.
pub fn shape_bounds(
    attributes: &Attributes<'_>,
) -> Result<impl Fn(usize) -> (usize, usize) + Send + Sync + use<>, AttributeError> {
    let (start, end) = (attributes.int_or("start", 0)?, attributes.int("end")?);
    Ok(move |rank: usize| {
        let rank = rank as i64; // ranks are lengths of short lists
        let clamp =
            |at: i64| if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank) as usize;
        let start = clamp(start);
        (start, end.map_or(rank as usize, clamp).max(start))
    })
}

fn shape(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let bounds = shape_bounds(cx.attributes)?;
    let dim = match cx.shape(0) {
        Some(shape) => {
            let (start, end) = bounds(shape.len());
            cx.set_value(0, arithmetic::shape(cx, start, end));
            Dim::Known(end - start)
        }
        None => Dim::Unknown,
    };
    cx.set(0, Some(DType::Int64), Some(vec![dim]));
    Ok(())
}

fn size(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, arithmetic::size(cx));
    cx.set(0, Some(DType::Int64), Some(Vec::new()));
    Ok(())
}

fn identity(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.set_value(0, cx.value(0));
    cx.same_as_input();
    Ok(())
}

const VALUES: &[Attr] = &[
    Attr::sparse_tensor("sparse_value"),
    Attr::tensor("value"),
    Attr::float("value_float"),
    Attr::floats("value_floats"),
    Attr::int("value_int"),
    Attr::ints("value_ints"),
    Attr::string("value_string"),
    Attr::strings("value_strings"),
];
const SINCE_IDENTITY: &[i64] = &[1, 13, 14, 16, 19, 21, 23, 24, 25];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op(
        "Constant",
        &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25],
        NONE,
        constant,
    )
    .attributes(VALUES),
    op(
        "ConstantOfShape",
        &[9, 20, 21, 23, 24, 25],
        ONE,
        constant_of_shape,
    )
    .attributes(&[Attr::tensor("value")]),
    op("Range", &[11, 27], THREE, range).attributes(&[Attr::int("stash_type")]),
    op("EyeLike", &[9, 22], ONE, eye_like).attributes(&[Attr::int("dtype"), Attr::int("k")]),
    op("Shape", &[1, 13, 15, 19, 21, 23, 24, 25], ONE, shape)
        .attributes(&[Attr::int("end"), Attr::int("start")]),
    op("Size", &[1, 13, 19, 21, 23, 24, 25], ONE, size),
    op("Identity", SINCE_IDENTITY, ONE, identity),
];

#[cfg(test)]
mod tests {
    use super::*;
    use refeed_proto::{AttributeProto, NodeProto};

    fn node(attributes: &[(&str, i64)]) -> NodeProto {
        let attribute = |&(name, value): &(&str, i64)| AttributeProto {
            name: Some(name.to_string()),
            i: Some(value),
            r#type: Some(2),
            ..Default::default()
        };
        NodeProto {
            attribute: attributes.iter().map(attribute).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn shape_bounds_clamp_as_onnx_says() {
        // (start, end) of a rank-3 tensor, from the operator's documentation
        for (attributes, want) in [
            (&[][..], (0, 3)),
            (&[("start", -1)], (2, 3)),
            (&[("end", -1)], (0, 2)),
            (&[("start", 1), ("end", 2)], (1, 2)),
            (&[("start", -9), ("end", 9)], (0, 3)),
            (&[("start", 2), ("end", 1)], (2, 2)),
            (&[("start", i64::MIN), ("end", i64::MIN)], (0, 0)),
        ] {
            let node = node(attributes);
            let bounds = shape_bounds(&Attributes::new(&node)).unwrap();
            assert_eq!(bounds(3), want, "{attributes:?}");
        }
    }

    #[test]
    fn a_constant_has_exactly_one_value() {
        let (one, none) = (node(&[("value_int", 7)]), node(&[]));
        assert_eq!(
            ConstantValue::read(&Attributes::new(&one)),
            Ok(ConstantValue::Int(7))
        );
        assert!(matches!(
            ConstantValue::read(&Attributes::new(&none)),
            Err(AttributeError::Missing { .. })
        ));
        let mut two = one.clone();
        two.attribute.push(AttributeProto {
            name: Some("value_float".to_string()),
            f: Some(1.5),
            r#type: Some(1),
            ..Default::default()
        });
        assert!(matches!(
            ConstantValue::read(&Attributes::new(&two)),
            Err(AttributeError::Value { .. })
        ));
    }
}
