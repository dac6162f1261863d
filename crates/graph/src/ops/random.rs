//! Random numbers, and dropping elements at random.

use super::rules::{dtype_attribute, extent, ranked};
use super::{NONE, ONE, op};
use crate::attributes::AttributeError;
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// Numbers of the type and shape that the attributes name.
fn by_shape(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = dtype_attribute(cx, "dtype", Some(DType::Float))?;
    let missing = AttributeError::Missing { name: "shape" };
    let shape = cx.attributes.ints("shape")?.ok_or(missing)?;
    let dims: Result<Vec<Dim>, InferError> =
        shape.iter().map(|&n| extent(Some(n), "shape")).collect();
    cx.set(0, dtype, Some(dims?));
    Ok(())
}

/// Numbers of the input's shape, and of its type when the attribute names none.
fn by_input(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = dtype_attribute(cx, "dtype", cx.dtype(0))?;
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, dtype, shape);
    Ok(())
}

/// `sample_size` classes for each row of weights.
fn multinomial(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = dtype_attribute(cx, "dtype", Some(DType::Int32))?;
    let batch = ranked(cx, 0, 2)?.map_or(Dim::Unknown, |x| x[0].clone());
    let size = extent(Some(cx.attributes.int_or("sample_size", 1)?), "sample_size")?;
    cx.set(0, dtype, Some(vec![batch, size]));
    Ok(())
}

/// The second output tells what was kept: as numbers before opset 10, as truth values since.
fn dropout(cx: &mut Inference<'_>) -> Result<(), InferError> {
    ranked(cx, 1, 0)?;
    ranked(cx, 2, 0)?;
    cx.same_as_input();
    let mask = if cx.opset < 10 {
        cx.dtype(0)
    } else {
        Some(DType::Bool)
    };
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(1, mask, shape);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("RandomNormal", &[1, 22], NONE, by_shape).attributes(&[
        Attr::int("dtype"),
        Attr::float("mean"),
        Attr::float("scale"),
        Attr::float("seed"),
        Attr::ints("shape").required(),
    ]),
    op("RandomUniform", &[1, 22], NONE, by_shape).attributes(&[
        Attr::int("dtype"),
        Attr::float("high"),
        Attr::float("low"),
        Attr::float("seed"),
        Attr::ints("shape").required(),
    ]),
    op("RandomNormalLike", &[1, 22], ONE, by_input).attributes(&[
        Attr::int("dtype"),
        Attr::float("mean"),
        Attr::float("scale"),
        Attr::float("seed"),
    ]),
    op("RandomUniformLike", &[1, 22], ONE, by_input).attributes(&[
        Attr::int("dtype"),
        Attr::float("high"),
        Attr::float("low"),
        Attr::float("seed"),
    ]),
    op("Bernoulli", &[15, 22], ONE, by_input)
        .attributes(&[Attr::int("dtype"), Attr::float("seed")]),
    op("Multinomial", &[7, 22], ONE, multinomial).attributes(&[
        Attr::int("dtype"),
        Attr::int("sample_size"),
        Attr::float("seed"),
    ]),
    op(
        "Dropout",
        &[1, 6, 7, 10, 12, 13, 22],
        Arity::between(1, 3),
        dropout,
    )
    .outputs(Arity::between(1, 2))
    .attributes(&[
        Attr::ints("consumed_inputs"),
        Attr::int("is_test"),
        Attr::float("ratio"),
        Attr::int("seed"),
    ]),
];
